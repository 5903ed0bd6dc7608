//! The engine: jobs with outstanding I/Os, closed loops or open rates, measured from a steady state on.
//!
//! One thread per job with an io_uring, or, where that is forbidden, one thread per outstanding I/O with pread and pwrite; the
//! outcome names which. Latency counts from the submission, in an open loop from the intended start. The clock is read once per
//! batch of submissions and once per batch of completions.

use crate::access::{Access, Mix};
pub use crate::error::EngineError;
use crate::io::buffers::Buffers;
use crate::io::calls;
use crate::io::ring::{Action, Ring};
use crate::over_time::OverTime;
use crate::pace::{Due, Load, Pace};
use crate::target::{Target, randomize};
use crate::verify::{Fault, Ledger, ReadBack, stamp};
use baremark_load::latency::Latencies;
use baremark_stats::Rng;
use baremark_sys::{affinity, clock};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
/// How often the conductor checks whether somebody wants to stop.
const LOOK: Duration = Duration::from_millis(20);
/// Windows by which a steady state is judged.
const WINDOWS: usize = 5;
/// Bytes of which what lies below a file may keep equal ones once.
const PAGE: usize = 4096;
/// Faults that are kept; more are counted.
const MOST_FAULTS: usize = 20;

/// How I/Os are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// One io_uring per job.
    IoUring,
    /// One thread per outstanding I/O.
    Threads,
}

impl Engine {
    /// As in results.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Engine::IoUring => "io_uring",
            Engine::Threads => "threads",
        }
    }

    /// io_uring where this process may use it, and otherwise why not.
    ///
    /// # Errors
    /// What the kernel says of it.
    pub fn probe(target: &Target) -> Result<(), EngineError> {
        let ring = Ring::new(target.handle(false)?, 1, 4096);
        ring.map(drop).map_err(|why| EngineError::io("io_uring", why))
    }

    /// Whether this process may use io_uring, whatever for.
    ///
    /// # Errors
    /// What the kernel says of it.
    pub fn permitted() -> Result<(), EngineError> {
        let ring = File::open("/dev/null").and_then(|file| Ring::new(file, 1, 4096));
        ring.map(drop).map_err(|why| EngineError::io("io_uring", why))
    }
}

/// When the measured time ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// After so many ns.
    After(u64),
    /// After so many I/Os, or so many ns if that is earlier.
    Count(u64, u64),
}

/// When the measured time begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ramp {
    /// Least time under load before it, in ns.
    pub least_ns: u64,
    /// Then wait until the IOPS of five seconds in turn lie within this share of their mean; `None` does not wait.
    pub steady: Option<f64>,
    /// Longest wait for that, in ns.
    pub limit_ns: u64,
}

/// What is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Which accesses.
    pub mix: Mix,
    /// When they start.
    pub load: Load,
    /// Outstanding I/Os of a job.
    pub depth: usize,
    /// Jobs.
    pub jobs: usize,
    /// `fdatasync` after so many writes of a job; 0 for never.
    pub sync_every: u64,
    /// Writes complete when they are on stable storage (`O_DSYNC`).
    pub durable: bool,
    /// The engine.
    pub engine: Engine,
    /// Before the measured time.
    pub ramp: Ramp,
    /// Its end.
    pub stop: Stop,
    /// Time under load after it, in ns; none where the number of I/Os ended it.
    pub ramp_down_ns: u64,
    /// The CPUs that jobs may use; empty for all.
    pub cpus: Vec<usize>,
    /// Of every random choice.
    pub seed: u64,
}

/// I/Os completed in one second of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// What was measured by one thread.
#[derive(Default)]
struct Tally {
    /// The target's place among the targets.
    target: usize,
    /// Reads and writes, also those before and after the measured time.
    all: u64,
    reads: Latencies,
    writes: Latencies,
    syncs: Latencies,
    read_bytes: u64,
    written_bytes: u64,
    outstanding_ns: u64,
    seconds: Vec<Second>,
    over_time: OverTime,
    faults: Vec<Fault>,
    fault_count: u64,
    checked: u64,
    registered: bool,
}

/// What was measured.
pub struct Outcome {
    /// Latencies of reads.
    pub reads: Latencies,
    /// Latencies of writes.
    pub writes: Latencies,
    /// Latencies of `fdatasync`.
    pub syncs: Latencies,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The measured time in ns.
    pub elapsed_ns: u64,
    /// The time under load before it in ns.
    pub ramp_ns: u64,
    /// Whether a steady state was reached, and the range of the last windows over their mean; `None` where none was awaited.
    pub steady: Option<(bool, f64)>,
    /// I/Os by second.
    pub seconds: Vec<Second>,
    /// Latencies over the measured time.
    pub over_time: OverTime,
    /// Reads and writes of each target.
    pub by_target: Vec<u64>,
    /// Reads and writes with those before and after the measured time.
    pub all: u64,
    /// CPU time of this process over the measured time, in ns.
    pub cpu_ns: u64,
    /// Mean number of outstanding I/Os, by Little's law.
    pub mean_depth: f64,
    /// The same at the device, by the kernel's books; `None` where the device is not known.
    pub device_depth: Option<f64>,
    /// Whether buffers and files were registered with the kernel.
    pub registered: bool,
    /// Reads during the run whose blocks were checked: of what the page cache holds, where it is used.
    pub checked: u64,
    /// Blocks read back after the run, past this system's page cache, and checked.
    pub read_back: u64,
    /// Bytes of these that could only be read from memory.
    pub cached_bytes: u64,
    /// Damaged blocks, the first of them.
    pub faults: Vec<Fault>,
    /// All damaged blocks.
    pub fault_count: u64,
}

impl Outcome {
    /// Reads and writes.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.reads.count() + self.writes.count()
    }
}

/// Before or after the measured time.
const RAMP: u8 = 0;
const MEASURE: u8 = 1;
const DONE: u8 = 2;

/// What all threads of a run share.
struct Shared<'p> {
    plan: &'p Plan,
    targets: &'p [Target],
    ledger: Option<&'p Mutex<Ledger>>,
    state: AtomicU8,
    begin_ns: AtomicU64,
    completed: AtomicU64,
    measured: AtomicU64,
    failure: Mutex<Option<EngineError>>,
    /// One per job.
    paces: Vec<Pace>,
    start_ns: u64,
    conductor: Thread,
}

impl Shared<'_> {
    fn fail(&self, why: EngineError) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(why);
        self.end();
    }

    fn end(&self) {
        self.state.store(DONE, Ordering::Release);
        self.conductor.unpark();
    }

    fn count(&self, measured: u64, all: u64) {
        self.completed.fetch_add(all, Ordering::Relaxed);
        if let (Stop::Count(most, _), true) = (self.plan.stop, measured > 0)
            && self.measured.fetch_add(measured, Ordering::Relaxed) + measured >= most
        {
            self.end();
        }
    }
}

/// Runs a plan to its end on a target that has its data.
///
/// # Errors
/// The first I/O that failed, what the site lacks, or an interrupt.
pub fn run(
    plan: &Plan,
    target: &Target,
    ledger: Option<&Mutex<Ledger>>,
    interrupt: &AtomicBool,
) -> Result<Outcome, EngineError> {
    let mut outcome = measure(plan, std::slice::from_ref(target), ledger, interrupt)?;
    if let Some(ledger) = ledger {
        let back = check_all(target, ledger)?;
        outcome.fault_count += back.faults.len() as u64;
        outcome.faults.extend(back.faults);
        outcome.faults.truncate(MOST_FAULTS);
        outcome.read_back = target.size() / plan.mix.largest().max(1);
        outcome.cached_bytes = back.cached_bytes;
    }
    Ok(outcome)
}

/// Runs a plan to its end on several targets that have their data: job after job has the next of them.
///
/// # Errors
/// The first I/O that failed, what the site lacks, or an interrupt.
pub fn run_on_all(plan: &Plan, targets: &[Target], interrupt: &AtomicBool) -> Result<Outcome, EngineError> {
    measure(plan, targets, None, interrupt)
}

fn measure(
    plan: &Plan,
    targets: &[Target],
    ledger: Option<&Mutex<Ledger>>,
    interrupt: &AtomicBool,
) -> Result<Outcome, EngineError> {
    let start_ns = clock::monotonic_ns();
    let shared = Shared {
        plan,
        targets,
        ledger,
        state: AtomicU8::new(RAMP),
        begin_ns: AtomicU64::new(0),
        completed: AtomicU64::new(0),
        measured: AtomicU64::new(0),
        failure: Mutex::new(None),
        paces: (0..plan.jobs).map(|job| Pace::new(plan.load, (job, plan.jobs), start_ns, plan.seed)).collect(),
        start_ns,
        conductor: thread::current(),
    };
    let outcome = thread::scope(|scope| {
        let shared = &shared;
        let mut threads = Vec::new();
        let lanes = if plan.engine == Engine::Threads { plan.depth } else { 1 };
        'all: for job in 0..plan.jobs {
            let cursor = Arc::new(AtomicU64::new(0));
            for lane in 0..lanes {
                let cursor = Arc::clone(&cursor);
                let body = move || work(shared, job, lane, cursor);
                match thread::Builder::new().spawn_scoped(scope, body) {
                    Ok(thread) => threads.push(thread),
                    Err(why) => {
                        // Those that have been started end.
                        shared.fail(no_thread(plan.jobs * lanes, &why));
                        break 'all;
                    }
                }
            }
        }
        let conducted = conduct(shared, interrupt);
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        let whole = |tally: thread::Result<Tally>| tally.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let tallies: Vec<Tally> = joined.map(whole).collect();
        conducted.map(|times| gather(&times, targets.len(), tallies))
    })?;
    if let Some(why) = shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(why);
    }
    Ok(outcome)
}

fn no_thread(asked: usize, why: &io::Error) -> EngineError {
    EngineError::Missing {
        what: format!("{asked} threads cannot be started: {why}"),
        remedy: "write a smaller depth or fewer jobs, or raise the limit of processes".to_owned(),
    }
}

/// Reads all blocks back, past this system's page cache, and checks them.
///
/// # Errors
/// When the target cannot be opened, or cached data cannot be written to it.
pub fn check_all(target: &Target, ledger: &Mutex<Ledger>) -> Result<ReadBack, EngineError> {
    let file = target.handle(false)?;
    let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    let back = ledger.check_all(&file).map_err(|why| EngineError::io("reading the target back", why))?;
    // Direct I/O reads past pages that somebody else has mapped.
    Ok(if target.is_direct() { ReadBack { cached_bytes: 0, ..back } } else { back })
}

/// The moments of a run.
struct Times {
    ramp_ns: u64,
    elapsed_ns: u64,
    cpu_ns: u64,
    steady: Option<(bool, f64)>,
    device_depth: Option<f64>,
}

/// Begins and ends the measured time.
fn conduct(shared: &Shared<'_>, interrupt: &AtomicBool) -> Result<Times, EngineError> {
    let steady = ramp(shared, interrupt)?;
    let device = match shared.targets {
        [only] => only.device(),
        _ => None,
    };
    let device_before = device.and_then(device_busy_ms);
    let (cpu_before, begin) = (calls::process_cpu_ns(), clock::monotonic_ns());
    shared.begin_ns.store(begin, Ordering::Release);
    // A thread that failed has set DONE already.
    let _ = shared.state.compare_exchange(RAMP, MEASURE, Ordering::AcqRel, Ordering::Acquire);
    let (Stop::After(length) | Stop::Count(_, length)) = shared.plan.stop;
    sleep_until(shared, begin + length, interrupt)?;
    let after = if shared.plan.ramp_down_ns > 0 { RAMP } else { DONE };
    // Threads that are done stay so.
    let _ = shared.state.compare_exchange(MEASURE, after, Ordering::AcqRel, Ordering::Acquire);
    let (end, cpu_ns) = (clock::monotonic_ns(), calls::process_cpu_ns() - cpu_before);
    let elapsed_ns = (end - begin).max(1);
    let busy = device.and_then(device_busy_ms).zip(device_before).map(|(after, before)| grown_ms(before, after));
    let device_depth = busy.map(|ms| ms as f64 * 1e6 / elapsed_ns as f64);
    sleep_until(shared, end + shared.plan.ramp_down_ns, interrupt)?;
    shared.state.store(DONE, Ordering::Release);
    Ok(Times { ramp_ns: begin - shared.start_ns, elapsed_ns, cpu_ns, steady, device_depth })
}

/// Waits for the end of the ramp, and for a steady state where one is awaited.
fn ramp(shared: &Shared<'_>, interrupt: &AtomicBool) -> Result<Option<(bool, f64)>, EngineError> {
    let ramp = shared.plan.ramp;
    sleep_until(shared, shared.start_ns + ramp.least_ns, interrupt)?;
    let Some(limit) = ramp.steady else { return Ok(None) };
    let deadline = clock::monotonic_ns() + ramp.limit_ns;
    let mut windows: Vec<f64> = Vec::new();
    loop {
        let before = shared.completed.load(Ordering::Relaxed);
        sleep_until(shared, clock::monotonic_ns() + SECOND, interrupt)?;
        windows.push((shared.completed.load(Ordering::Relaxed) - before) as f64);
        let range = range_of(&windows);
        match range {
            Some(range) if range <= limit => return Ok(Some((true, range))),
            _ if clock::monotonic_ns() >= deadline || shared.state.load(Ordering::Acquire) == DONE => {
                return Ok(Some((false, range.unwrap_or(f64::NAN))));
            }
            _ => {}
        }
    }
}

/// The range of the last [`WINDOWS`] values over their mean; `None` for fewer.
fn range_of(windows: &[f64]) -> Option<f64> {
    let last = windows.len().checked_sub(WINDOWS).map(|first| &windows[first..])?;
    let (least, most) = last.iter().fold((f64::MAX, 0.0_f64), |(least, most), &v| (least.min(v), most.max(v)));
    let mean = last.iter().sum::<f64>() / WINDOWS as f64;
    (mean > 0.0).then(|| (most - least) / mean)
}

/// Until a moment, or all threads are done.
fn sleep_until(shared: &Shared<'_>, moment_ns: u64, interrupt: &AtomicBool) -> Result<(), EngineError> {
    while shared.state.load(Ordering::Acquire) != DONE {
        if interrupt.load(Ordering::Acquire) {
            shared.state.store(DONE, Ordering::Release);
            return Err(EngineError::Interrupted);
        }
        let left = moment_ns.saturating_sub(clock::monotonic_ns());
        if left == 0 {
            break;
        }
        thread::park_timeout(Duration::from_nanos(left).min(LOOK));
    }
    Ok(())
}

/// Milliseconds that I/Os have spent at a device, all together (the 11th field of its `stat`).
fn device_busy_ms(device: u64) -> Option<u64> {
    let path = format!("/sys/dev/block/{}:{}/stat", libc::major(device), libc::minor(device));
    fs::read_to_string(path).ok()?.split_ascii_whitespace().nth(10)?.parse().ok()
}

/// What that grew by: the kernel counts it in 32 bits, which 32 outstanding I/Os fill in 37 hours.
fn grown_ms(before: u64, after: u64) -> u64 {
    after.wrapping_sub(before) & u64::from(u32::MAX)
}

fn gather(times: &Times, targets: usize, tallies: Vec<Tally>) -> Outcome {
    let mut sum = Tally { registered: true, ..Tally::default() };
    let mut by_target = vec![0; targets];
    for tally in tallies {
        by_target[tally.target] += tally.reads.count() + tally.writes.count();
        sum.all += tally.all;
        sum.reads.merge(&tally.reads);
        sum.writes.merge(&tally.writes);
        sum.syncs.merge(&tally.syncs);
        sum.over_time.merge(&tally.over_time);
        sum.read_bytes += tally.read_bytes;
        sum.written_bytes += tally.written_bytes;
        sum.outstanding_ns += tally.outstanding_ns;
        sum.fault_count += tally.fault_count;
        sum.checked += tally.checked;
        sum.faults.extend(tally.faults);
        sum.registered &= tally.registered;
        sum.seconds.resize(sum.seconds.len().max(tally.seconds.len()), Second::default());
        for (all, one) in sum.seconds.iter_mut().zip(&tally.seconds) {
            all.reads += one.reads;
            all.writes += one.writes;
        }
    }
    Outcome {
        reads: sum.reads,
        writes: sum.writes,
        syncs: sum.syncs,
        read_bytes: sum.read_bytes,
        written_bytes: sum.written_bytes,
        elapsed_ns: times.elapsed_ns,
        ramp_ns: times.ramp_ns,
        steady: times.steady,
        seconds: sum.seconds,
        over_time: sum.over_time,
        by_target,
        all: sum.all,
        cpu_ns: times.cpu_ns,
        mean_depth: sum.outstanding_ns as f64 / times.elapsed_ns as f64,
        device_depth: times.device_depth,
        registered: sum.registered,
        checked: sum.checked,
        read_back: 0,
        cached_bytes: 0,
        faults: sum.faults,
        fault_count: sum.fault_count,
    }
}

/// An I/O between its start and its end.
#[derive(Clone, Copy)]
struct Issued {
    action: Action,
    offset: u64,
    bytes: usize,
    /// From when its latency counts.
    from_ns: u64,
    submitted_ns: u64,
    /// The write's number in its block, when blocks are verified.
    sequence: u32,
}

const NOTHING: Issued = Issued { action: Action::Sync, offset: 0, bytes: 0, from_ns: 0, submitted_ns: 0, sequence: 0 };

/// What a thread does between system calls: chooses, stamps, counts.
struct Worker<'s> {
    shared: &'s Shared<'s>,
    target: &'s Target,
    access: Access,
    pace: &'s Pace,
    tally: Tally,
    /// Writes since the last `fdatasync`.
    written: u64,
    rng: Rng,
}

fn work(shared: &Shared<'_>, job: usize, lane: usize, cursor: Arc<AtomicU64>) -> Tally {
    let plan = shared.plan;
    if !plan.cpus.is_empty() {
        // Pinning is for repeatability: where it is forbidden the work runs all the same.
        let _ = affinity::restrict_current_thread(&plan.cpus);
    }
    let label = (job as u64) << 32 | lane as u64;
    // Jobs of one target share it.
    let count = shared.targets.len();
    let (place, target) = (job % count, &shared.targets[job % count]);
    let access = Access::new(
        &plan.mix,
        target.size(),
        ((job / count) as u64, plan.jobs.div_ceil(count) as u64),
        cursor,
        Rng::stream(plan.seed, label),
    );
    let rng = Rng::stream(plan.seed, label | 1 << 63);
    let tally = Tally { target: place, ..Tally::default() };
    let mut worker = Worker { shared, target, access, pace: &shared.paces[job], tally, written: 0, rng };
    let ran = match plan.engine {
        Engine::IoUring => worker.run_ring(),
        Engine::Threads => worker.run_calls(),
    };
    if let Err(why) = ran {
        shared.fail(why);
    }
    worker.tally
}

impl Worker<'_> {
    fn state(&self) -> u8 {
        self.shared.state.load(Ordering::Acquire)
    }

    fn run_ring(&mut self) -> Result<(), EngineError> {
        let plan = self.shared.plan;
        let file = self.target.handle(plan.durable)?;
        let size = usize::try_from(plan.mix.largest()).unwrap_or(usize::MAX);
        let mut ring = Ring::new(file, plan.depth, size).map_err(|why| EngineError::io("io_uring", why))?;
        self.tally.registered = ring.registered();
        for slot in 0..plan.depth {
            randomize(ring.buffer_mut(slot), &mut self.rng);
        }
        let mut idle: Vec<usize> = (0..plan.depth).collect();
        let mut issued = vec![NOTHING; plan.depth];
        let mut done = Vec::with_capacity(plan.depth);
        while self.state() != DONE || ring.in_flight() > 0 {
            let wait = self.queue(&mut ring, &mut idle, &mut issued)?;
            if ring.in_flight() == 0 {
                thread::sleep(wait.unwrap_or(LOOK).min(LOOK));
                continue;
            }
            ring.enter(1, wait).map_err(|why| EngineError::io("io_uring", why))?;
            ring.completions(&mut done);
            let (now, state) = (clock::monotonic_ns(), self.state());
            let mut measured = 0;
            let all = done.len() as u64;
            for (slot, result) in done.drain(..) {
                measured += self.complete(&issued[slot], result, ring.buffer(slot), now, state)?;
                idle.push(slot);
            }
            self.shared.count(measured, all);
        }
        Ok(())
    }

    /// Queues what is due as long as slots are idle; returns how long nothing will be due.
    fn queue(
        &mut self,
        ring: &mut Ring,
        idle: &mut Vec<usize>,
        issued: &mut [Issued],
    ) -> Result<Option<Duration>, EngineError> {
        if idle.is_empty() || self.state() == DONE {
            return Ok(None);
        }
        let now = clock::monotonic_ns();
        while let Some(&slot) = idle.last() {
            let from_ns = match self.due(now) {
                Due::Now(from_ns) => from_ns,
                Due::At(moment) => return Ok(Some(Duration::from_nanos(moment.saturating_sub(now).max(1)))),
            };
            let next = self.next(ring.buffer_mut(slot), from_ns, now)?;
            ring.queue(slot, next.action, next.offset, next.bytes).map_err(|why| EngineError::io("io_uring", why))?;
            issued[slot] = next;
            idle.pop();
        }
        Ok(None)
    }

    fn run_calls(&mut self) -> Result<(), EngineError> {
        let plan = self.shared.plan;
        let file = self.target.handle(plan.durable)?;
        let mut buffers = Buffers::new(1, usize::try_from(plan.mix.largest()).unwrap_or(usize::MAX));
        randomize(buffers.of_mut(0), &mut self.rng);
        while self.state() != DONE {
            let now = clock::monotonic_ns();
            let from_ns = match self.due(now) {
                Due::Now(from_ns) => from_ns,
                Due::At(moment) => {
                    thread::sleep(Duration::from_nanos(moment.saturating_sub(now)).min(LOOK));
                    continue;
                }
            };
            let next = self.next(buffers.of_mut(0), from_ns, now)?;
            let result = call(&file, &next, &mut buffers.of_mut(0)[..next.bytes]);
            let (now, state) = (clock::monotonic_ns(), self.state());
            let measured = self.complete(&next, result, buffers.of(0), now, state)?;
            self.shared.count(measured, 1);
        }
        Ok(())
    }

    /// Whether something is due. A rate is of reads and writes: a sync follows what it is for at once, and is no arrival.
    fn due(&self, now: u64) -> Due {
        if self.owes_sync() { Due::Now(now) } else { self.pace.due(now) }
    }

    fn owes_sync(&self) -> bool {
        let every = self.shared.plan.sync_every;
        every > 0 && self.written >= every
    }

    /// Chooses the next I/O and prepares its buffer.
    fn next(&mut self, buffer: &mut [u8], from_ns: u64, now: u64) -> Result<Issued, EngineError> {
        if self.owes_sync() {
            self.written = 0;
            return Ok(Issued { from_ns, submitted_ns: now, ..NOTHING });
        }
        let (action, offset, bytes, sequence) = self.choose(buffer)?;
        if action == Action::Write {
            self.written += 1;
            if self.shared.ledger.is_none() {
                // So that no two pages that are written are equal and nothing below can save one.
                for page in buffer[..bytes].chunks_mut(PAGE) {
                    let own = page.len().min(8);
                    randomize(&mut page[..own], &mut self.rng);
                }
            }
        }
        Ok(Issued { action, offset, bytes, from_ns, submitted_ns: now, sequence })
    }

    /// An access; with a ledger one to a block that no other I/O uses.
    fn choose(&mut self, buffer: &mut [u8]) -> Result<(Action, u64, usize, u32), EngineError> {
        loop {
            let (action, offset, bytes) = self.access.draw();
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            let Some(ledger) = self.shared.ledger else { return Ok((action, offset, bytes, 0)) };
            let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
            if action == Action::Read {
                if ledger.begin_read(offset) {
                    return Ok((action, offset, bytes, 0));
                }
            } else if let Some(sequence) =
                ledger.begin_write(offset).map_err(|why| EngineError::io("writing the ledger", why))?
            {
                stamp(&mut buffer[..bytes], ledger.seed(), offset, sequence);
                return Ok((action, offset, bytes, sequence));
            }
        }
    }

    /// Counts a completed I/O; returns 1 when it is a read or write of the measured time.
    fn complete(
        &mut self,
        io: &Issued,
        result: io::Result<usize>,
        buffer: &[u8],
        now: u64,
        state: u8,
    ) -> Result<u64, EngineError> {
        let failed = |why| {
            let what = match io.action {
                Action::Read => "reading",
                Action::Write => "writing",
                Action::Sync => "fdatasync",
            };
            EngineError::io(format!("{what} {} bytes at offset {}", io.bytes, io.offset), why)
        };
        let bytes = result.map_err(failed)?;
        if bytes != io.bytes {
            return Err(failed(io::Error::other(format!("only {bytes} bytes were transferred"))));
        }
        self.settle(io, buffer)?;
        self.tally.all += u64::from(io.action != Action::Sync);
        if state != MEASURE {
            return Ok(0);
        }
        let latency = now.saturating_sub(io.from_ns);
        self.tally.outstanding_ns += now.saturating_sub(io.submitted_ns);
        let since = now.saturating_sub(self.shared.begin_ns.load(Ordering::Relaxed));
        let second = since / SECOND;
        self.tally.over_time.record(io.action, second, latency);
        let second = self.second(second);
        match io.action {
            Action::Read => {
                second.reads += 1;
                self.tally.reads.record(latency);
                self.tally.read_bytes += bytes as u64;
            }
            Action::Write => {
                second.writes += 1;
                self.tally.writes.record(latency);
                self.tally.written_bytes += bytes as u64;
            }
            Action::Sync => {
                self.tally.syncs.record(latency);
                return Ok(0);
            }
        }
        Ok(1)
    }

    /// What ended in that second of the measured time, from 0.
    fn second(&mut self, second: u64) -> &mut Second {
        let index = usize::try_from(second).unwrap_or(usize::MAX);
        let seconds = &mut self.tally.seconds;
        if seconds.len() <= index {
            seconds.resize(index + 1, Second::default());
        }
        &mut seconds[index]
    }

    /// Enters the I/O into the ledger, and checks what was read.
    fn settle(&mut self, io: &Issued, buffer: &[u8]) -> Result<(), EngineError> {
        let Some(ledger) = self.shared.ledger else { return Ok(()) };
        let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        match io.action {
            Action::Sync => {}
            Action::Write => {
                let ended = ledger.end_write(io.offset, io.sequence);
                ended.map_err(|why| EngineError::io("writing the ledger", why))?;
            }
            Action::Read => {
                self.tally.checked += 1;
                if let Some(fault) = ledger.end_read(io.offset, &buffer[..io.bytes]) {
                    self.tally.fault_count += 1;
                    if self.tally.faults.len() < MOST_FAULTS {
                        self.tally.faults.push(fault);
                    }
                }
            }
        }
        Ok(())
    }
}

/// One I/O by a system call that waits.
fn call(file: &File, io: &Issued, buffer: &mut [u8]) -> io::Result<usize> {
    match io.action {
        Action::Read => file.read_at(buffer, io.offset),
        Action::Write => file.write_at(buffer, io.offset),
        Action::Sync => file.sync_data().map(|()| 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device whose count began anew in the measured time had a depth of 0.
    #[test]
    fn the_time_of_a_device_grows_across_its_wrap() {
        assert_eq!([grown_ms(7, 1007), grown_ms((1 << 32) - 300, 700)], [1000, 1000]);
    }
}
