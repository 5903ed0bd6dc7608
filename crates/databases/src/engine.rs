//! The load on a database: connections that each run one transaction at a time, in a closed loop, paced, or at open arrivals.
//!
//! Every connection is one thread with a blocking client, so that nothing lies between a transaction and its answer. Rates are
//! of what ends in the measured time. Latencies of a closed loop are of the same, from the start; those of open arrivals are of
//! what was meant to start in it, from the intended start, whenever a connection was free for it. A transaction that is
//! retried has one latency, from its first start to its commit.

pub use crate::database::Done;
use crate::database::{Class, Connection, Database, Failure};
use baremark_load::latency::Latencies;
pub use baremark_load::steady::Drive;
use baremark_load::steady::Starts;
use baremark_stats::Rng;
use baremark_sys::wake::sleep_unless;
use baremark_sys::{affinity, clock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often a lost connection is tried again.
const RECONNECT: Duration = Duration::from_millis(20);
/// Retries of one transaction, after which the run fails: the conflict does not resolve.
const RETRIES: u32 = 1000;
/// How long after the measured time arrivals that are behind are still started.
const GRACE_NS: u64 = 1_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// One terminal: what it does over a connection.
pub trait Client: Send {
    /// Its statements in the database's dialect, prepared on each connection.
    fn statements(&self) -> Vec<String>;

    /// Draws the next transaction with its inputs, which stay the same when it is retried. Returns its index among the
    /// workload's operations.
    fn draw(&mut self) -> usize;

    /// Time before the transaction that was drawn: keying.
    fn before(&self) -> Duration {
        Duration::ZERO
    }

    /// Time after it: thinking.
    fn after(&mut self) -> Duration {
        Duration::ZERO
    }

    /// Runs the transaction that was drawn, from its begin to its commit.
    ///
    /// # Errors
    /// The first failure. The engine rolls back.
    fn run(&mut self, connection: &mut dyn Connection) -> Result<Done, Failure>;

    /// The outcome of the transaction that was drawn is unknown: the connection was lost during the commit.
    fn ambiguous(&mut self) {}

    /// How long each step of the operation that has just ended took: its index among the workload's steps, and ns.
    /// Operations of a single transaction have none.
    fn steps(&self) -> &[(usize, u64)] {
        &[]
    }
}

/// A load.
#[derive(Clone, Debug)]
pub struct Load {
    /// When transactions start.
    pub drive: Drive,
    /// Time under load before the measured time.
    pub warm_up: Duration,
    /// The measured time.
    pub duration: Duration,
    /// Time under load after it.
    pub ramp_down: Duration,
    /// Seed of the arrivals.
    pub seed: u64,
    /// CPUs of the connections' threads; empty leaves them all.
    pub cpus: Vec<usize>,
}

/// What became of one operation in the measured time.
#[derive(Clone, Debug, Default)]
pub struct Operation {
    /// From the start, or the intended start, to the answer of the commit.
    pub latencies: Latencies,
    /// Commits that were acknowledged.
    pub committed: u64,
    /// Rolled back as the inputs demand.
    pub rolled_back: u64,
    /// Commits that were acknowledged within the measured time, whenever they were meant to start.
    pub committed_in_time: u64,
}

/// What became of a load.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// By operation, in the workload's order.
    pub operations: Vec<Operation>,
    /// By step of the operations, in the workload's order; see [`Client::steps`].
    pub steps: Vec<Latencies>,
    /// Transactions that ended within the measured time, of all operations, whenever they were meant to start.
    pub ended_in_time: u64,
    /// Serialization failures and deadlocks within the measured time, each of which is retried.
    pub retried_in_time: u64,
    /// Failures of the whole run by class, those that were retried among them.
    pub failures: BTreeMap<Class, u64>,
    /// Connections that were opened again.
    pub reconnects: u64,
    /// Open arrivals: actual start minus intended start.
    pub lag: Latencies,
    /// Open arrivals of the measured time that were not started within a second after it.
    pub unserved: u64,
    /// Transactions that ended in each second of the measured time.
    pub seconds: Vec<u64>,
    /// CPU time of the connections' threads in the measured time, in ns.
    pub driver_cpu_ns: u64,
    /// What the meter grew in the measured time.
    pub metered: u64,
    /// When the measured time began, after the call, in ns.
    pub begin_ns: u64,
    /// How long the measured time was, in ns.
    pub elapsed_ns: u64,
}

impl Outcome {
    /// Transactions that ended, of all operations: those with a latency, open arrivals that ended after the measured time among them.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.operations.iter().map(|operation| operation.committed + operation.rolled_back).sum()
    }

    /// Transactions per second of the measured time, of those that ended within it.
    #[must_use]
    pub fn per_s(&self) -> f64 {
        self.ended_in_time as f64 * SECOND as f64 / self.elapsed_ns.max(1) as f64
    }

    /// Failures of a class.
    #[must_use]
    pub fn failed(&self, class: Class) -> u64 {
        self.failures.get(&class).copied().unwrap_or(0)
    }

    fn merge(&mut self, other: Outcome) {
        self.operations.resize_with(self.operations.len().max(other.operations.len()), Operation::default);
        for (sum, more) in self.operations.iter_mut().zip(&other.operations) {
            sum.latencies.merge(&more.latencies);
            sum.committed += more.committed;
            sum.rolled_back += more.rolled_back;
            sum.committed_in_time += more.committed_in_time;
        }
        self.ended_in_time += other.ended_in_time;
        self.retried_in_time += other.retried_in_time;
        self.steps.resize_with(self.steps.len().max(other.steps.len()), Latencies::default);
        self.steps.iter_mut().zip(&other.steps).for_each(|(sum, more)| sum.merge(more));
        for (class, count) in other.failures {
            *self.failures.entry(class).or_default() += count;
        }
        self.seconds.resize(self.seconds.len().max(other.seconds.len()), 0);
        self.seconds.iter_mut().zip(&other.seconds).for_each(|(sum, more)| *sum += more);
        self.lag.merge(&other.lag);
        self.reconnects += other.reconnects;
        self.unserved += other.unserved;
        self.driver_cpu_ns += other.driver_cpu_ns;
    }
}

/// Why a load has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// A transaction failed for good.
    #[error("{operation}: {failure}")]
    Failed {
        /// The operation, or what else was done.
        operation: String,
        /// Why.
        failure: Failure,
    },
    /// The interrupt was raised.
    #[error("interrupted")]
    Interrupted,
}

/// Runs a load, one connection for each client. `names` are the workload's operations; `meter` is read at the begin and the
/// end of the measured time, for whatever is counted alongside (the server's CPU time).
///
/// # Errors
/// The first failure that is not retried, or the interrupt.
pub fn run(
    database: &dyn Database,
    clients: &mut [Box<dyn Client + '_>],
    names: &[&str],
    load: &Load,
    meter: &mut dyn FnMut() -> u64,
    interrupt: &AtomicBool,
) -> Result<Outcome, LoadError> {
    let called_ns = clock::monotonic_ns();
    let window = Mutex::new((0, 0));
    let plan = Plan {
        database,
        names,
        load,
        starts: Mutex::new(None),
        window: &window,
        started: Flag::default(),
        is_short: AtomicBool::new(false),
        connected: Barrier::new(clients.len() + 1),
        ready: Barrier::new(clients.len() + 1),
        metered: Flag::default(),
        over: AtomicBool::new(false),
        interrupt,
    };
    let mut outcome = Outcome::default();
    let mut failure = None;
    thread::scope(|scope| {
        // However starting them ends, none waits for it for ever.
        let started = Raised(&plan.started);
        let mut threads = Vec::with_capacity(clients.len());
        for client in clients.iter_mut() {
            let plan = &plan;
            match thread::Builder::new().spawn_scoped(scope, move || plan.connection(&mut **client)) {
                Ok(thread) => threads.push(thread),
                Err(why) => {
                    plan.is_short.store(true, Ordering::Release);
                    let what = format!("{why}; lower connections, or raise the limit of processes");
                    let what = Failure::new(Class::Resource, what);
                    failure = Some(plan.failed("starting the thread of a connection", what));
                    break;
                }
            }
        }
        drop(started);
        if failure.is_none() {
            // However the meter ends, no connection waits for it for ever.
            let metered = Raised(&plan.metered);
            plan.connected.wait();
            let (begin, end) = plan.set_window();
            plan.ready.wait();
            plan.sleep_until(begin);
            let before = meter();
            plan.sleep_until(end);
            outcome.metered = meter().saturating_sub(before);
            drop(metered);
            outcome.begin_ns = begin.saturating_sub(called_ns);
            outcome.elapsed_ns = end - begin;
        }
        for thread in threads {
            match thread.join() {
                Ok(Ok(part)) => outcome.merge(part),
                Ok(Err(why)) => failure = failure.take().or(Some(why)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    match failure {
        _ if interrupt.load(Ordering::Acquire) => Err(LoadError::Interrupted),
        Some(why) => Err(why),
        None => Ok(outcome),
    }
}

/// What all connections share.
struct Plan<'p> {
    database: &'p dyn Database,
    names: &'p [&'p str],
    load: &'p Load,
    /// Taken by whichever connection is free.
    starts: Mutex<Option<Starts>>,
    window: &'p Mutex<(u64, u64)>,
    /// All threads that could be started have been.
    started: Flag,
    /// Not all could.
    is_short: AtomicBool,
    connected: Barrier,
    ready: Barrier,
    /// The meter was read for the second time: connections may close, with which processes of the server end.
    metered: Flag,
    over: AtomicBool,
    interrupt: &'p AtomicBool,
}

/// Something that happens once.
#[derive(Default)]
struct Flag {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Flag {
    fn wait(&self) {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(raised, |raised| !*raised).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Raises a flag when it is dropped.
struct Raised<'f>(&'f Flag);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        *self.0.raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}

/// What one connection's thread has.
struct Turn {
    begin: u64,
    end: u64,
    /// The end of the load, after the measured time.
    over: u64,
    outcome: Outcome,
    /// CPU time of the thread at the begin of the measured time, and at its end.
    cpu_at_begin: Option<u64>,
    cpu_at_end: Option<u64>,
}

impl Turn {
    /// Whether a moment is in the measured time.
    fn measures(&self, moment: u64) -> bool {
        (self.begin..self.end).contains(&moment)
    }
}

impl Plan<'_> {
    fn set_window(&self) -> (u64, u64) {
        let now = clock::monotonic_ns();
        let begin = now + nanos(self.load.warm_up);
        let end = begin + nanos(self.load.duration);
        *self.window.lock().unwrap_or_else(PoisonError::into_inner) = (begin, end);
        if let Drive::Open { rate, poisson } = self.load.drive {
            let rng = poisson.then(|| Rng::stream(self.load.seed, u64::MAX));
            let starts = Starts::new(now, 0.0, SECOND as f64 / rate.max(1e-9), rng);
            *self.starts.lock().unwrap_or_else(PoisonError::into_inner) = Some(starts);
        }
        (begin, end)
    }

    fn stopped(&self) -> bool {
        self.over.load(Ordering::Acquire) || self.interrupt.load(Ordering::Acquire)
    }

    fn sleep_until(&self, moment: u64) {
        let left = Duration::from_nanos(moment.saturating_sub(clock::monotonic_ns()));
        sleep_unless(|| self.stopped(), left);
    }

    fn failed(&self, operation: &str, failure: Failure) -> LoadError {
        self.over.store(true, Ordering::Release);
        LoadError::Failed { operation: operation.to_owned(), failure }
    }

    /// The whole life of one connection.
    fn connection(&self, client: &mut dyn Client) -> Result<Outcome, LoadError> {
        self.started.wait();
        if self.is_short.load(Ordering::Acquire) {
            return Ok(Outcome::default());
        }
        let prepared = self.prepare(client);
        if prepared.is_err() {
            self.over.store(true, Ordering::Release);
        }
        self.connected.wait();
        self.ready.wait();
        let mut connection = prepared?;
        let (begin, end) = *self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outcome = Outcome::default();
        outcome.operations.resize_with(self.names.len(), Operation::default);
        outcome.seconds = vec![0; usize::try_from((end - begin).div_ceil(SECOND)).unwrap_or(0)];
        let over = end + nanos(self.load.ramp_down);
        let mut turn = Turn { begin, end, over, outcome, cpu_at_begin: None, cpu_at_end: None };
        while self.next(client, &mut connection, &mut turn)? {}
        let cpu = turn.cpu_at_end.unwrap_or_else(clock::thread_cpu_ns);
        turn.outcome.driver_cpu_ns = cpu.saturating_sub(turn.cpu_at_begin.unwrap_or(cpu));
        self.metered.wait();
        Ok(turn.outcome)
    }

    fn prepare(&self, client: &dyn Client) -> Result<Box<dyn Connection>, LoadError> {
        if !self.load.cpus.is_empty() {
            let pinned = affinity::restrict_current_thread(&self.load.cpus);
            pinned.map_err(|why| self.failed("setting the CPUs of a connection", Failure::other(why)))?;
        }
        self.connect(client).map_err(|why| self.failed("connecting", why))
    }

    fn connect(&self, client: &dyn Client) -> Result<Box<dyn Connection>, Failure> {
        let mut connection = self.database.connect()?;
        connection.prepare(&client.statements())?;
        Ok(connection)
    }

    /// One transaction with its waits; `false` when there are no more.
    fn next(
        &self,
        client: &mut dyn Client,
        connection: &mut Box<dyn Connection>,
        turn: &mut Turn,
    ) -> Result<bool, LoadError> {
        let operation = client.draw();
        let open = matches!(self.load.drive, Drive::Open { .. });
        let intended = if open { self.intended(turn) } else { self.keyed(client, turn) };
        let Some(intended) = intended else { return Ok(false) };
        let started = clock::monotonic_ns();
        if turn.cpu_at_begin.is_none() && started >= turn.begin {
            turn.cpu_at_begin = Some(clock::thread_cpu_ns());
        }
        if turn.cpu_at_end.is_none() && started >= turn.end {
            turn.cpu_at_end = Some(clock::thread_cpu_ns());
        }
        let done = self.until_done(client, operation, connection, turn)?;
        let ended = clock::monotonic_ns();
        let counted = if open { intended } else { ended };
        if let Some(done) = done.filter(|_| turn.measures(ended)) {
            turn.outcome.ended_in_time += 1;
            turn.outcome.operations[operation].committed_in_time += u64::from(done == Done::Committed);
            let second = usize::try_from((ended - turn.begin) / SECOND).unwrap_or(usize::MAX);
            if let Some(count) = turn.outcome.seconds.get_mut(second) {
                *count += 1;
            }
        }
        if let Some(done) = done.filter(|_| turn.measures(counted)) {
            let row = &mut turn.outcome.operations[operation];
            row.latencies.record(ended - intended);
            match done {
                Done::Committed => row.committed += 1,
                Done::RolledBack => row.rolled_back += 1,
            }
            for &(step, ns) in client.steps() {
                let steps = &mut turn.outcome.steps;
                steps.resize_with(steps.len().max(step + 1), Latencies::default);
                steps[step].record(ns);
            }
            if open {
                turn.outcome.lag.record(started - intended);
            }
        }
        let after = client.after();
        if !open && !after.is_zero() {
            self.sleep_until((ended + nanos(after)).min(turn.over));
        }
        Ok(!self.stopped())
    }

    /// Waits for the next open arrival; `None` when there are no more. Those of the measured time that nobody has started long after its end are
    /// counted and passed over.
    fn intended(&self, turn: &mut Turn) -> Option<u64> {
        while !self.stopped() {
            let start = self.starts.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.take();
            if start >= turn.over {
                return None;
            }
            if start >= turn.end || clock::monotonic_ns() <= turn.end + GRACE_NS {
                self.sleep_until(start);
                return (!self.stopped()).then_some(start);
            }
            turn.outcome.unserved += u64::from(start >= turn.begin);
        }
        None
    }

    /// Waits the keying time; `None` when the load is over.
    fn keyed(&self, client: &dyn Client, turn: &Turn) -> Option<u64> {
        let before = client.before();
        if !before.is_zero() {
            self.sleep_until((clock::monotonic_ns() + nanos(before)).min(turn.over));
        }
        let now = clock::monotonic_ns();
        (now < turn.over && !self.stopped()).then_some(now)
    }

    /// Runs the transaction that was drawn until it has an outcome; `None` when that is unknown or the load is over.
    fn until_done(
        &self,
        client: &mut dyn Client,
        operation: usize,
        connection: &mut Box<dyn Connection>,
        turn: &mut Turn,
    ) -> Result<Option<Done>, LoadError> {
        for _ in 0..RETRIES {
            let failure = match client.run(&mut **connection) {
                Ok(done) => return Ok(Some(done)),
                Err(failure) => failure,
            };
            *turn.outcome.failures.entry(failure.class).or_default() += 1;
            let is_conflict = matches!(failure.class, Class::Serialization | Class::Deadlock);
            if is_conflict && turn.measures(clock::monotonic_ns()) {
                turn.outcome.retried_in_time += 1;
            }
            match failure.class {
                Class::Lost | Class::Ambiguous => {
                    let ambiguous = failure.class == Class::Ambiguous;
                    if ambiguous {
                        client.ambiguous();
                    }
                    if !self.reconnect(client, connection, turn)? || ambiguous {
                        return Ok(None);
                    }
                }
                class if class.is_retried() => {
                    let rolled_back = connection.rollback();
                    if rolled_back.is_err() && !self.reconnect(client, connection, turn)? {
                        return Ok(None);
                    }
                }
                _ => {
                    // The first failure is the one to report.
                    drop(connection.rollback());
                    return Err(self.failed(self.names[operation], failure));
                }
            }
            if self.stopped() {
                return Ok(None);
            }
        }
        let what = format!("no success after {RETRIES} retries");
        Err(self.failed(self.names[operation], Failure::new(Class::Serialization, what)))
    }

    /// Connects again as soon as the server lets; `false` when the load is over before.
    fn reconnect(
        &self,
        client: &dyn Client,
        connection: &mut Box<dyn Connection>,
        turn: &mut Turn,
    ) -> Result<bool, LoadError> {
        loop {
            match self.connect(client) {
                Ok(new) => {
                    *connection = new;
                    turn.outcome.reconnects += 1;
                    return Ok(true);
                }
                Err(why) if matches!(why.class, Class::Lost | Class::Resource) => {}
                Err(why) => return Err(self.failed("connecting again", why)),
            }
            if self.stopped() || clock::monotonic_ns() > turn.end {
                return Ok(false);
            }
            thread::sleep(RECONNECT);
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
