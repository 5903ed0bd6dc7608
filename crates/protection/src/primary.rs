//! The primary's side: runs a program, and makes a checkpoint of it at the end of each epoch.
//!
//! An epoch ends when its time is over and the checkpoint before it is acknowledged: a link that is too slow makes epochs longer, not the
//! queue. The program goes on as soon as its pages are copied; they are sent meanwhile.

use crate::encoding::{put, put_at};
use crate::link::{Link, Replica};
use crate::memory::Memory;
use crate::output::{self, Gate, Proxy};
use crate::report::Counters;
use crate::threads::{End, Threads};
use baremark_model::protection::Report;
use baremark_model::units::Nanos;
use baremark_sys::tracee::{self, ChildSignals};
use baremark_sys::{affinity, clock, wake};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the last acknowledgement is waited for after the program has ended.
const LAST: Duration = Duration::from_secs(10);
/// How long clients may take none of the program's last output after it has ended.
const READING: Duration = Duration::from_secs(5);

/// What is run, and how it is protected.
#[derive(Clone, Debug)]
pub struct Order {
    /// The program and its arguments.
    pub argv: Vec<CString>,
    /// The CPUs of the program; none for any.
    pub cpus: Vec<usize>,
    /// This program, which is the secondary, too.
    pub baremark: PathBuf,
    /// The length of an epoch; `None` for no protection.
    pub epoch: Option<Duration>,
    /// The link to the secondary.
    pub link: Link,
    /// Where clients connect, and the server that is protected; its output is held back.
    pub forward: Option<(SocketAddr, SocketAddr)>,
    /// Compare the copy with the program's memory at every checkpoint, while the program stands.
    pub compare: bool,
}

/// Why a program could not be protected.
#[derive(Debug, thiserror::Error)]
pub enum ProtectionError {
    /// It could not be started.
    #[error("{program}: {source}; name a program that can be executed")]
    Program {
        /// Its name.
        program: String,
        /// What starting it gave.
        source: io::Error,
    },
    /// Its memory cannot be tracked.
    #[error("dirty pages cannot be tracked: {0}; needs Linux 6.7 with userfaultfd, and the right to ptrace")]
    Tracking(io::Error),
    /// The link was lost.
    #[error("link to the secondary: {0}; the program was ended")]
    Link(io::Error),
    /// Something else of the system.
    #[error("protecting a program: {0}")]
    System(#[from] io::Error),
}

/// Runs a program to its end. The thread that calls this traces it, and no other thread may have been started before.
///
/// # Errors
/// Why it could not be run or protected; what was started is ended.
pub fn run(order: &Order) -> Result<(End, Report), ProtectionError> {
    let gate = Arc::new(if order.epoch.is_some() { Gate::closed() } else { Gate::open() });
    match order.epoch {
        Some(epoch) => protected(order, epoch, &gate),
        None => unprotected(order, &gate),
    }
}

fn forward(order: &Order, gate: &Arc<Gate>) -> io::Result<Option<Proxy>> {
    order.forward.map(|(listen, server)| output::forward(listen, server, Arc::clone(gate))).transpose()
}

/// Waits for clients that have not taken the last output of a program that has ended.
fn settle(proxy: Option<&Proxy>) {
    proxy.into_iter().for_each(|proxy| proxy.settle(READING));
}

fn unprotected(order: &Order, gate: &Arc<Gate>) -> Result<(End, Report), ProtectionError> {
    let proxy = forward(order, gate)?;
    let words: Vec<&std::ffi::OsStr> =
        order.argv.iter().map(|word| std::ffi::OsStr::from_bytes(word.to_bytes())).collect();
    let (program, arguments) = words.split_first().ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
    if !order.cpus.is_empty() {
        affinity::restrict_current_thread(&order.cpus)?;
    }
    let cpu = clock::process_cpu_ns();
    let begun = Instant::now();
    let status = Command::new(program).args(arguments).status().map_err(|source| not_started(order, source))?;
    let wall = begun.elapsed();
    settle(proxy.as_ref());
    let end = status.code().map_or_else(|| End::Killed(status.signal().unwrap_or(0)), End::Exited);
    let mut counters = Counters::default();
    counters.report.cpu_ns = clock::process_cpu_ns() - cpu;
    counters.report.released_bytes = gate.passed();
    Ok((end, counters.finish(None, wall)))
}

fn not_started(order: &Order, source: io::Error) -> ProtectionError {
    let program = order.argv.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    ProtectionError::Program { program, source }
}

fn protected(order: &Order, epoch: Duration, gate: &Arc<Gate>) -> Result<(End, Report), ProtectionError> {
    let signals = ChildSignals::watch()?;
    let proxy = forward(order, gate)?;
    let (wake, waker) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    let (silent, _kept_open) = UnixStream::pair()?;
    let replica =
        Replica::start(&order.baremark, order.link, Arc::clone(gate), waker).map_err(ProtectionError::Link)?;
    let cpu = clock::process_cpu_ns();
    let begun = Instant::now();
    let mut primary = Primary {
        threads: Threads::start(signals, &order.argv, &order.cpus)?,
        syscall: tracee::syscall_in_vdso()?,
        memories: BTreeMap::new(),
        tracked: 0,
        replica,
        gate: Arc::clone(gate),
        compare: order.compare,
        in_flight: None,
        spare: Vec::new(),
        silent,
        begun,
        counters: Counters::default(),
    };
    // Not before: the program would inherit it.
    wake::no_slack()?;
    let end = primary.conduct(epoch, &wake)?;
    let wall = begun.elapsed();
    gate.release_all();
    primary.settle(&wake)?;
    settle(proxy.as_ref());
    primary.counters.report.cpu_ns = clock::process_cpu_ns() - cpu;
    primary.counters.report.released_bytes = gate.passed();
    primary.counters.report.events = primary.threads.events();
    match end {
        End::Exited(error) if !primary.threads.is_started() => {
            Err(not_started(order, io::Error::from_raw_os_error(error)))
        }
        end => Ok((end, primary.counters.finish(Some(epoch), wall))),
    }
}

struct Primary {
    threads: Threads,
    /// Where the vDSO has a SYSCALL instruction.
    syscall: u64,
    memories: BTreeMap<i32, Memory>,
    /// Processes that were tracked so far, which number them.
    tracked: u64,
    replica: Replica,
    gate: Arc<Gate>,
    compare: bool,
    /// The digest of the checkpoint that is not acknowledged yet.
    in_flight: Option<u64>,
    spare: Vec<u8>,
    /// Nothing ever comes there.
    silent: UnixStream,
    begun: Instant,
    counters: Counters,
}

/// What a checkpoint has of all processes.
#[derive(Default)]
struct Checkpoint {
    processes: u64,
    pages: u64,
    /// Pages that no earlier one had.
    new: u64,
    /// Pages that the copy has.
    held: u64,
    digest: u64,
}

impl Primary {
    fn conduct(&mut self, epoch: Duration, wake: &UnixStream) -> Result<End, ProtectionError> {
        let mut due = Instant::now() + epoch;
        loop {
            self.threads.follow()?;
            if let Some(end) = self.threads.end() {
                return Ok(end);
            }
            self.hear()?;
            let now = Instant::now();
            if now < due || self.in_flight.is_some() {
                // A checkpoint that is due waits for the acknowledgement, which wakes.
                let limit = if now < due { due - now } else { epoch };
                self.threads.sleep(wake.as_fd(), limit)?;
                drain(wake)?;
                continue;
            }
            self.counters.report.link_wait_ns += Nanos::from(now - due).0;
            self.checkpoint()?;
            due = Instant::now() + epoch;
        }
    }

    /// Takes an acknowledgement, if there is one.
    fn hear(&mut self) -> Result<(), ProtectionError> {
        let Some(acknowledged) = self.replica.acknowledged().map_err(ProtectionError::Link)? else { return Ok(()) };
        let report = &mut self.counters.report;
        report.sending_ns += Nanos::from(acknowledged.sending).0;
        report.acknowledging_ns += Nanos::from(acknowledged.took).0;
        let expected = self.in_flight.take();
        if self.compare {
            report.compared += 1;
            report.different += u64::from(expected != Some(acknowledged.answer.digest));
        }
        self.spare = acknowledged.buffer;
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), ProtectionError> {
        let begun = Instant::now();
        self.threads.stop(self.silent.as_fd())?;
        if self.threads.end().is_some() {
            return Ok(());
        }
        let mut message = std::mem::take(&mut self.spare);
        message.clear();
        let Checkpoint { processes, pages, new, held, digest } = self.collect(&mut message)?;
        self.gate.next();
        self.threads.resume();
        self.counters.pause(begun.elapsed());
        let report = &mut self.counters.report;
        if report.epochs == 0 {
            report.first_pages = pages;
        }
        report.epochs += 1;
        report.checkpointed_ns = Nanos::from(self.begun.elapsed()).0;
        report.pages += pages;
        report.new_pages += new;
        report.held_pages += held;
        report.process_checkpoints += processes;
        report.link_bytes += message.len() as u64;
        self.in_flight = Some(digest);
        self.replica.send(message).map_err(ProtectionError::Link)
    }

    /// Writes a checkpoint of all processes; what it has of them together.
    fn collect(&mut self, message: &mut Vec<u8>) -> Result<Checkpoint, ProtectionError> {
        self.look_at_processes()?;
        put(message, self.gate.running());
        let count_at = message.len();
        put(message, 0);
        let mut all = Checkpoint::default();
        let mut gone = Vec::new();
        for (&process, memory) in &mut self.memories {
            let before = message.len();
            // One that is being killed has no memory any more.
            let Ok(collected) = memory.collect(message, self.compare) else {
                message.truncate(before);
                gone.push(process);
                continue;
            };
            all.processes += 1;
            all.pages += collected.pages;
            all.new += collected.new;
            all.held += collected.held;
            all.digest = all.digest.wrapping_add(collected.digest);
            self.counters.report.unreadable += collected.unreadable;
        }
        gone.iter().for_each(|process| drop(self.memories.remove(process)));
        put_at(message, count_at, all.processes);
        Ok(all)
    }

    /// Forgets processes that are gone or have another program, and begins to track those that are new.
    fn look_at_processes(&mut self) -> Result<(), ProtectionError> {
        let replaced = self.threads.take_replaced();
        let threads = &self.threads;
        self.memories.retain(|process, _| !replaced.contains(process) && threads.has(*process));
        for (process, thread) in self.threads.stopped() {
            if self.memories.contains_key(&process) {
                continue;
            }
            match Memory::track(self.tracked, process, thread, self.syscall) {
                Ok(memory) => {
                    self.tracked += 1;
                    self.memories.insert(process, memory);
                }
                Err(why) if self.tracked == 0 && why.raw_os_error() != Some(NO_PROCESS) => {
                    return Err(ProtectionError::Tracking(why));
                }
                Err(_) => self.counters.report.untracked += 1,
            }
        }
        self.counters.report.processes = self.tracked;
        Ok(())
    }

    /// Waits for the acknowledgement of the last checkpoint.
    fn settle(&mut self, wake: &UnixStream) -> Result<(), ProtectionError> {
        let deadline = Instant::now() + LAST;
        wake.set_nonblocking(false)?;
        wake.set_read_timeout(Some(LAST))?;
        loop {
            self.hear()?;
            if self.in_flight.is_none() || Instant::now() >= deadline {
                return Ok(());
            }
            drop((&mut &*wake).read(&mut [0]));
        }
    }
}

/// ESRCH.
const NO_PROCESS: i32 = 3;

fn drain(wake: &UnixStream) -> io::Result<()> {
    let mut bytes = [0; 64];
    match (&mut &*wake).read(&mut bytes) {
        Err(why) if why.kind() != io::ErrorKind::WouldBlock => Err(why),
        _ => Ok(()),
    }
}
