//! All threads of a program and of what it starts: followed, stopped together, and let go.

use baremark_sys::tracee::{self, ChildSignals, Event, Stop};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// How long threads may take to stop before it is looked which of them are dead.
const GLANCE: Duration = Duration::from_millis(20);

/// What a thread does, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// It stands, and continues with this signal.
    Stopped(i32),
    /// Its process was stopped by a signal.
    Left,
    /// It waits in the kernel for a process that runs in its memory.
    Lending,
    /// It has ended and is still listed, as the first thread of a process is while others live.
    Dead,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    process: i32,
    state: State,
}

/// How a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

/// A program and all that it has started.
#[derive(Debug)]
pub struct Threads {
    signals: ChildSignals,
    root: i32,
    threads: BTreeMap<i32, Thread>,
    stopping: bool,
    started: bool,
    end: Option<End>,
    /// Processes whose memory is new since they were last asked for.
    replaced: Vec<i32>,
    /// Stops of single threads, none of which a checkpoint asked for.
    events: u64,
}

impl Threads {
    /// Starts a program on these CPUs (none for any); `signals` must have been made before any other thread of this process.
    ///
    /// # Errors
    /// What starting and tracing it give.
    pub fn start(signals: ChildSignals, argv: &[CString], cpus: &[usize]) -> io::Result<Threads> {
        let root = signals.start(argv, cpus)?;
        let threads = BTreeMap::from([(root, Thread { process: root, state: State::Running })]);
        Ok(Threads {
            signals,
            root,
            threads,
            stopping: false,
            started: false,
            end: None,
            replaced: Vec::new(),
            events: 0,
        })
    }

    /// How the program has ended, once it has.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// How often a thread has stopped by itself and waited for its tracer, between checkpoints.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Whether it was executed at all; where not, its exit code is the number of the error.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Handles what has happened.
    ///
    /// # Errors
    /// What tracing gives.
    pub fn follow(&mut self) -> io::Result<()> {
        while self.end.is_none() {
            let Some(event) = tracee::next_event(false)? else { return Ok(()) };
            self.handle(event)?;
        }
        Ok(())
    }

    /// Sleeps until something has happened, `other` can be read, or `limit` has passed.
    ///
    /// # Errors
    /// What polling gives.
    pub fn sleep(&self, other: BorrowedFd<'_>, limit: Duration) -> io::Result<()> {
        self.signals.sleep(other, limit)
    }

    /// Stops every thread, and returns when none runs any more.
    ///
    /// # Errors
    /// What tracing gives.
    pub fn stop(&mut self, other: BorrowedFd<'_>) -> io::Result<()> {
        self.stopping = true;
        let running: Vec<i32> = self.of_state(State::Running).collect();
        running.into_iter().for_each(interrupt);
        while self.end.is_none() && self.of_state(State::Running).next().is_some() {
            match tracee::next_event(false)? {
                Some(event) => self.handle(event)?,
                None => self.await_event(other)?,
            }
        }
        Ok(())
    }

    fn await_event(&mut self, other: BorrowedFd<'_>) -> io::Result<()> {
        let begun = std::time::Instant::now();
        self.signals.sleep(other, GLANCE)?;
        if begun.elapsed() >= GLANCE {
            for (&id, thread) in &mut self.threads {
                if thread.state == State::Running && is_dead(id) {
                    thread.state = State::Dead;
                }
            }
        }
        Ok(())
    }

    /// Lets all stopped threads go on.
    pub fn resume(&mut self) {
        self.stopping = false;
        for (&id, thread) in &mut self.threads {
            if let State::Stopped(signal) = thread.state {
                // One that was killed meanwhile has an event of its own.
                drop(tracee::resume(id, signal));
                thread.state = State::Running;
            }
        }
    }

    /// The processes that stand, each with a thread that can carry out calls.
    #[must_use]
    pub fn stopped(&self) -> BTreeMap<i32, i32> {
        let stands = |thread: &Thread| matches!(thread.state, State::Stopped(_));
        self.threads.iter().filter(|(_, thread)| stands(thread)).map(|(&id, thread)| (thread.process, id)).collect()
    }

    /// Whether a process still lives.
    #[must_use]
    pub fn has(&self, process: i32) -> bool {
        self.threads.values().any(|thread| thread.process == process)
    }

    /// Processes that have executed another program since the last call, whose memory is new.
    pub fn take_replaced(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.replaced)
    }

    fn of_state(&self, state: State) -> impl Iterator<Item = i32> + '_ {
        self.threads.iter().filter(move |(_, thread)| thread.state == state).map(|(&id, _)| id)
    }

    fn handle(&mut self, event: Event) -> io::Result<()> {
        let Event { thread, stop } = event;
        self.events += u64::from(!self.stopping && !matches!(stop, Stop::Exited(_) | Stop::Killed(_)));
        match stop {
            Stop::Exited(code) => self.gone(thread, End::Exited(code)),
            Stop::Killed(signal) => self.gone(thread, End::Killed(signal)),
            Stop::Executed => {
                self.threads.retain(|&id, other| other.process != thread || id == thread);
                self.started |= thread == self.root;
                self.replaced.push(thread);
                self.go_on(thread);
            }
            Stop::Made | Stop::Returned => self.go_on(thread),
            Stop::Lent => {
                self.go_on(thread);
                self.set(thread, State::Lending);
            }
            Stop::Group => {
                drop(tracee::leave_stopped(thread));
                self.set(thread, State::Left);
            }
            Stop::Interrupted if self.stopping => self.set(thread, State::Stopped(0)),
            Stop::Signal(signal) if self.stopping => self.set(thread, State::Stopped(signal)),
            Stop::Interrupted => self.go_on_with(thread, 0),
            Stop::Signal(signal) => self.go_on_with(thread, signal),
        }
        Ok(())
    }

    /// From a stop in the middle of a call: while all are being stopped, to the end of the call and no further.
    fn go_on(&mut self, thread: i32) {
        if self.stopping {
            interrupt(thread);
        }
        self.go_on_with(thread, 0);
    }

    fn go_on_with(&mut self, thread: i32, signal: i32) {
        drop(tracee::resume(thread, signal));
        self.set(thread, State::Running);
    }

    fn set(&mut self, thread: i32, state: State) {
        self.threads.entry(thread).or_insert_with(|| Thread { process: process_of(thread), state }).state = state;
    }

    fn gone(&mut self, thread: i32, end: End) {
        self.threads.remove(&thread);
        if thread == self.root {
            self.end = Some(end);
        }
    }
}

/// One that is gone has an event of its own.
fn interrupt(thread: i32) {
    drop(tracee::interrupt(thread));
}

/// The process of a thread; the thread itself where it is gone.
fn process_of(thread: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(thread)
}

fn is_dead(thread: i32) -> bool {
    match fs::read_to_string(format!("/proc/{thread}/stat")) {
        Ok(text) => text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])),
        Err(_) => true,
    }
}
