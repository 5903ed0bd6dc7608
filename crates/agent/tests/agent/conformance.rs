//! The executors against the contract of all executors, and that a liar is found.

use baremark_agent::executors::conformance::conformance;
use baremark_agent::executors::direct::Direct;
use baremark_agent::executors::null::Null;
use baremark_microvm::{Config, Microvm};
use baremark_model::seam::{Body, Executor, ExecutorFacts, Fault, RunRecord};
use baremark_sys::affinity::allowed_cpus;
use std::time::Duration;

fn cpus() -> Vec<usize> {
    allowed_cpus().expect("affinity")
}

#[test]
fn direct_on_all_cpus_and_on_one() {
    let cpus = cpus();
    assert_eq!(conformance(&mut Direct::new(&cpus).expect("threads")), Ok(()));
    assert_eq!(conformance(&mut Direct::new(&cpus[..1]).expect("a thread")), Ok(()));
}

#[test]
fn null_on_all_cpus() {
    assert_eq!(conformance(&mut Null::new(&cpus()).expect("threads")), Ok(()));
}

#[test]
fn a_microvm_on_all_cpus_and_on_one() {
    if !baremark_microvm::probe().is_usable() {
        assert!(std::env::var_os("BAREMARK_REQUIRE_KVM").is_none(), "no KVM, and BAREMARK_REQUIRE_KVM is set");
        eprintln!("skipped: no microVM here");
        return;
    }
    for cpus in [cpus(), cpus()[..1].to_vec()] {
        let mut config = Config::new(cpus);
        config.watchdog = Duration::from_secs(60);
        let mut vm = Microvm::start(&config).expect("a virtual machine");
        assert_eq!(conformance(&mut vm), Ok(()));
    }
}

/// Runs everything twice.
struct Twice(Direct);

impl Executor for Twice {
    fn facts(&self) -> &ExecutorFacts {
        self.0.facts()
    }

    fn run(&mut self, body: &dyn Body, reps: u64) -> Result<RunRecord, Fault> {
        self.0.run(body, reps)?;
        self.0.run(body, reps)
    }
}

#[test]
fn an_executor_that_runs_a_body_twice_is_found() {
    let found = conformance(&mut Twice(Direct::new(&cpus()[..1]).expect("a thread"))).expect_err("a violation");
    assert_eq!(found.to_string(), "rank 0 was called 2 times, last with 3 repetitions, not (1, 3)");
}
