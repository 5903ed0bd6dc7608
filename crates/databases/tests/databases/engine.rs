//! The engine on a database that fails on request.

use crate::bench::{LIMIT, QUIET, closed};
use baremark_databases::database::{Access, Cell, Class, Connection, Database, Dialect, Failure, Param, Rows};
use baremark_databases::engine::{Client, Done, Drive, Load, LoadError, Outcome, run};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the next transactions fail with, and what was seen.
#[derive(Default)]
struct Script {
    failures: Mutex<VecDeque<Class>>,
    takes: Duration,
    connects: AtomicU64,
    rollbacks: AtomicU64,
    prepared: AtomicU64,
}

struct Scripted(Arc<Script>);

impl Database for Scripted {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        self.0.connects.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Scripted(Arc::clone(&self.0))))
    }
}

impl Connection for Scripted {
    fn prepare(&mut self, statements: &[String]) -> Result<(), Failure> {
        self.0.prepared.fetch_add(statements.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn execute(&mut self, _: usize, _: &[Param<'_>], _: &mut Rows) -> Result<u64, Failure> {
        std::thread::sleep(self.0.takes);
        Ok(1)
    }

    fn begin(&mut self, _: Access) -> Result<(), Failure> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        match self.0.failures.lock().unwrap().pop_front() {
            Some(class) => Err(Failure::new(class, "as told")),
            None => Ok(()),
        }
    }

    fn rollback(&mut self) -> Result<(), Failure> {
        self.0.rollbacks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn script(&mut self, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn query(&mut self, _: &str, _: &mut Rows) -> Result<(), Failure> {
        Ok(())
    }

    fn insert(&mut self, _: &str, _: usize, _: &[Cell]) -> Result<(), Failure> {
        Ok(())
    }
}

/// One statement a transaction; counts what it drew, ran, and was not told the outcome of.
#[derive(Default)]
struct Counting {
    seen: Arc<[AtomicU64; 3]>,
}

impl Client for Counting {
    fn statements(&self) -> Vec<String> {
        vec!["select 1".to_owned()]
    }

    fn draw(&mut self) -> usize {
        self.seen[0].fetch_add(1, Ordering::Relaxed);
        0
    }

    fn run(&mut self, connection: &mut dyn Connection) -> Result<Done, Failure> {
        self.seen[1].fetch_add(1, Ordering::Relaxed);
        connection.begin(Access::Write)?;
        connection.execute(0, &[], &mut Rows::default())?;
        connection.commit()?;
        Ok(Done::Committed)
    }

    fn ambiguous(&mut self) {
        self.seen[2].fetch_add(1, Ordering::Relaxed);
    }
}

fn load(script: &Arc<Script>, load: &Load) -> (Result<Outcome, LoadError>, [u64; 3]) {
    let client = Counting::default();
    let seen = Arc::clone(&client.seen);
    let mut clients: Vec<Box<dyn Client>> = vec![Box::new(client)];
    let outcome = run(&Scripted(Arc::clone(script)), &mut clients, &["one"], load, &mut || 0, &QUIET);
    (outcome, [0, 1, 2].map(|index: usize| seen[index].load(Ordering::Relaxed)))
}

fn script(failures: &[Class], takes: Duration) -> Arc<Script> {
    Arc::new(Script { failures: Mutex::new(failures.iter().copied().collect()), takes, ..Script::default() })
}

/// Runs a load again, each time for twice as many seconds, until the machine was fast enough for what is asked of it.
fn repeated<T>(mut load: impl FnMut(f64) -> Option<T>) -> T {
    let (mut seconds, deadline) = (1.0, Instant::now() + LIMIT);
    loop {
        if let Some(found) = load(seconds) {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {seconds} s");
        seconds *= 2.0;
    }
}

/// A closed loop in which a transaction ends in the measured time: the failures came before, in the same.
fn closed_load(failures: &[Class]) -> (Arc<Script>, Outcome, [u64; 3]) {
    repeated(|seconds| {
        let script = script(failures, Duration::from_millis(1));
        let (outcome, counts) = load(&script, &closed(seconds));
        let outcome = outcome.unwrap();
        (outcome.ended() > 0).then_some((script, outcome, counts))
    })
}

#[test]
fn conflicts_are_rolled_back_retried_with_the_same_inputs_and_counted() {
    let failures = [Class::Serialization, Class::Deadlock, Class::Serialization];
    let (script, outcome, [drawn, ran, _]) = closed_load(&failures);
    assert_eq!((outcome.failed(Class::Serialization), outcome.failed(Class::Deadlock)), (2, 1));
    assert_eq!(outcome.retried_in_time, 3, "there was no warm-up");
    assert_eq!(script.rollbacks.load(Ordering::Relaxed), 3);
    // The last draw may not have been run.
    assert!(ran == drawn + 3 || ran == drawn + 2, "{drawn} drawn, {ran} ran");
    assert_eq!(script.connects.load(Ordering::Relaxed), 1);
    // The first transaction's latency has its retries in it.
    assert!(outcome.operations[0].latencies.largest().unwrap() >= 4_000_000);
}

#[test]
fn a_lost_connection_is_opened_and_prepared_again_and_its_transaction_retried() {
    let (script, outcome, [drawn, ran, ambiguous]) = closed_load(&[Class::Lost]);
    assert_eq!((outcome.reconnects, ambiguous), (1, 0));
    assert_eq!((script.connects.load(Ordering::Relaxed), script.prepared.load(Ordering::Relaxed)), (2, 2));
    assert!(ran == drawn + 1 || ran == drawn, "{drawn} drawn, {ran} ran");
}

#[test]
fn a_commit_of_unknown_outcome_is_recorded_and_never_retried() {
    let (_, outcome, [drawn, ran, ambiguous]) = closed_load(&[Class::Ambiguous]);
    assert_eq!((outcome.failed(Class::Ambiguous), ambiguous, outcome.reconnects), (1, 1, 1));
    assert!(ran == drawn || ran + 1 == drawn, "{drawn} drawn, {ran} ran");
    assert!(outcome.ended() < ran, "a transaction of unknown outcome counts as none");
}

#[test]
fn another_error_ends_the_load_with_its_operation() {
    for class in [Class::Constraint, Class::Resource, Class::Other] {
        let begun = Instant::now();
        let (outcome, _) = load(&script(&[class], Duration::ZERO), &closed(120.0));
        let why = outcome.unwrap_err().to_string();
        assert_eq!(why, format!("one: {}: as told", class.label()));
        assert!(begun.elapsed() < Duration::from_secs(60), "it waited for the end of the load");
    }
}

#[test]
fn open_arrivals_count_from_their_intended_start() {
    // 100/s of 30 ms on one connection: the k-th waits for all before it.
    let drive = Drive::Open { rate: 100.0, poisson: false };
    let load_of = Load { drive, ..closed(0.2) };
    // Those that a slow machine has not started in time are passed over: they are the last ones.
    let (outcome, served) = repeated(|_| {
        let outcome = load(&script(&[], Duration::from_millis(30)), &load_of).0.unwrap();
        let served = outcome.ended();
        assert_eq!(served + outcome.unserved, 20, "{served} were served");
        (served > 1).then_some((outcome, served))
    });
    let last = outcome.operations[0].latencies.largest().unwrap();
    // 20 transactions take 600 ms, and the last was meant to start after 190: a latency from its own start would be 30 ms.
    // Each adds 20 ms; a histogram rounds.
    assert!(last >= served * 20_000_000 - 10_000_000, "{last} ns of {served}");
    assert!(outcome.lag.largest().unwrap() >= (served - 2) * 20_000_000, "{served} were served");
}

/// 100/s for 0.2 s, of which each takes 30 ms: no more than six can end in that time, and the rate is not of those that end later.
#[test]
fn a_rate_is_of_what_ended_in_the_measured_time() {
    let drive = Drive::Open { rate: 100.0, poisson: false };
    let (outcome, _) = load(&script(&[], Duration::from_millis(30)), &Load { drive, ..closed(0.2) });
    let outcome = outcome.unwrap();
    assert!(outcome.per_s() < 6.0 / 0.2 + 1e-6, "{} transactions/s", outcome.per_s());
    assert_eq!(outcome.seconds.iter().sum::<u64>(), outcome.ended_in_time);
    assert_eq!(outcome.operations[0].committed_in_time, outcome.ended_in_time);
    assert_eq!(outcome.operations[0].committed, outcome.operations[0].latencies.count());
    // In a closed loop they are the same.
    let (outcome, _) = load(&script(&[], Duration::from_millis(1)), &closed(0.5));
    let outcome = outcome.unwrap();
    assert_eq!(outcome.ended(), outcome.ended_in_time);
}

#[test]
fn arrivals_that_nobody_can_start_are_counted() {
    let drive = Drive::Open { rate: 100.0, poisson: false };
    let load_of = Load { drive, ..closed(0.2) };
    let (outcome, [_, ran, _]) = load(&script(&[], Duration::from_millis(300)), &load_of);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.unserved + ran, 20);
    assert!(outcome.unserved >= 10, "{}", outcome.unserved);
}

/// A transaction of two seconds leaves twenty arrivals of the warm-up and twenty of the measured time: those of the warm-up are nobody's.
#[test]
fn arrivals_of_the_warm_up_that_nobody_can_start_are_not_counted() {
    let drive = Drive::Open { rate: 100.0, poisson: false };
    let load_of = Load { drive, warm_up: Duration::from_millis(200), ..closed(0.2) };
    let ran = repeated(|_| {
        let (outcome, [_, ran, _]) = load(&script(&[], Duration::from_secs(2)), &load_of);
        assert_eq!(outcome.unwrap().unserved, 20);
        (ran > 0).then_some(ran)
    });
    assert_eq!(ran, 1);
}

/// Arrivals of which there are too many to pass over them: the interrupt ends that as well.
#[test]
fn an_interrupt_ends_the_passing_over_of_arrivals() {
    let drive = Drive::Open { rate: 1e13, poisson: false };
    let interrupt = AtomicBool::new(false);
    let client = Counting::default();
    let seen = Arc::clone(&client.seen);
    let mut clients: Vec<Box<dyn Client>> = vec![Box::new(client)];
    let script = script(&[], Duration::from_secs(2));
    let (begun, load_of) = (Instant::now(), Load { drive, ..closed(0.1) });
    let outcome = std::thread::scope(|scope| {
        let thread = scope
            .spawn(|| run(&Scripted(Arc::clone(&script)), &mut clients, &["one"], &load_of, &mut || 0, &interrupt));
        // The second transaction was drawn: the first has ended, long after the measured time.
        while seen[0].load(Ordering::Relaxed) < 2 && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(10));
        }
        interrupt.store(true, Ordering::Release);
        thread.join().unwrap()
    });
    assert_eq!(outcome.unwrap_err(), LoadError::Interrupted);
    assert!(begun.elapsed() < Duration::from_secs(60));
}

/// 100/s for 0.2 s that count, and for 0.3 s that do not; then one second and two, or more.
#[test]
fn a_ramp_down_goes_on_with_the_load_and_is_not_measured() {
    let drive = Drive::Open { rate: 100.0, poisson: false };
    let load_of = Load { drive, ramp_down: Duration::from_millis(300), ..closed(0.2) };
    let (outcome, [_, ran, _]) = load(&script(&[], Duration::from_millis(1)), &load_of);
    let outcome = outcome.unwrap();
    // What a slow machine has not started in time is counted; what comes in the ramp-down is started whenever it can be.
    assert_eq!((outcome.ended() + outcome.unserved, ran + outcome.unserved), (20, 50));
    assert_eq!(outcome.elapsed_ns, 200_000_000);
    // Without a rate as well: after the one that is under way at the end of the measured time others are run, of which none counts.
    repeated(|seconds| {
        let load_of = Load { ramp_down: Duration::from_secs_f64(2.0 * seconds), ..closed(seconds) };
        let (outcome, [_, ran, _]) = load(&script(&[], Duration::from_millis(1)), &load_of);
        let ended = outcome.unwrap().ended();
        (ended > 0 && ran > ended + 1).then_some(())
    });
}

#[test]
fn an_interrupt_ends_a_load() {
    let interrupt = AtomicBool::new(false);
    let mut clients: Vec<Box<dyn Client>> = vec![Box::new(Counting::default())];
    let script = script(&[], Duration::from_millis(1));
    let begun = Instant::now();
    let outcome = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            run(&Scripted(Arc::clone(&script)), &mut clients, &["one"], &closed(120.0), &mut || 0, &interrupt)
        });
        interrupt.store(true, Ordering::Release);
        thread.join().unwrap()
    });
    assert_eq!(outcome.unwrap_err(), LoadError::Interrupted);
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
#[ignore = "a process of the next test: no thread can be started in it"]
fn runs_where_no_thread_can_be_started() {
    let (outcome, [drawn, ..]) = load(&script(&[], Duration::ZERO), &closed(120.0));
    let why = outcome.unwrap_err().to_string();
    assert!(why.starts_with("starting the thread of a connection: resource exhausted: "), "{why}");
    assert!(why.ends_with("; lower connections, or raise the limit of processes"), "{why}");
    assert_eq!(drawn, 0);
}

/// It was a panic, for whose end the connections that had been started were waited for: they waited for the others.
#[test]
fn a_thread_that_cannot_be_started_ends_the_load_with_its_reason() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "engine::runs_where_no_thread_can_be_started", "--ignored"]);
    // No stack of that size fits into the address space.
    let status = command.env("RUST_MIN_STACK", (1_u64 << 47).to_string()).status().unwrap();
    assert!(status.success(), "{status}");
}
