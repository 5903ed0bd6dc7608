//! What the tests share: their turn on the machine, and executors.

use baremark_microvm::{Config, Microvm};
use baremark_sys::affinity::allowed_cpus;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The watchdog of runs that end by themselves: none of them takes so long on a machine with other work.
pub const LONG: Duration = Duration::from_secs(600);

static TURN: Mutex<()> = Mutex::new(());

/// Holds the machine for one test; `None`, which is printed, where /dev/kvm cannot be opened.
pub fn turn() -> Option<MutexGuard<'static, ()>> {
    let Err(why) = File::options().read(true).write(true).open("/dev/kvm") else {
        return Some(TURN.lock().unwrap_or_else(PoisonError::into_inner));
    };
    assert!(std::env::var_os("BAREMARK_REQUIRE_KVM").is_none(), "/dev/kvm: {why}, and BAREMARK_REQUIRE_KVM is set");
    // Not by a macro: those are captured, and a skip must be seen.
    std::io::stderr().write_all(format!("skipped: /dev/kvm: {why}\n").as_bytes()).unwrap();
    None
}

/// Two CPUs, or one twice where there is only one.
pub fn two_cpus() -> Vec<usize> {
    let cpus = allowed_cpus().unwrap();
    vec![cpus[0], *cpus.get(1).unwrap_or(&cpus[0])]
}

/// Ranks on these CPUs.
pub fn ranks_on(cpus: &[usize]) -> Config {
    Config { watchdog: LONG, ..Config::new(cpus.to_vec()) }
}

/// A team of two.
pub fn two() -> Microvm {
    Microvm::start(&ranks_on(&two_cpus())).unwrap()
}

/// A single rank.
pub fn one() -> Microvm {
    Microvm::start(&ranks_on(&two_cpus()[..1])).unwrap()
}
