//! What the tests share: their turn on the machine, and executors.

use baremark_microvm::{Config, Error, Microvm, probe};
use baremark_sys::affinity::allowed_cpus;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

static TURN: Mutex<()> = Mutex::new(());
static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// Holds the machine for one test; `None`, said and counted, where there is no KVM or none for us.
pub fn turn() -> Option<MutexGuard<'static, ()>> {
    static ABSENT: OnceLock<Option<String>> = OnceLock::new();
    let absent = ABSENT.get_or_init(|| match probe().problem {
        Some(Error::Missing { .. }) => Some("no /dev/kvm".into()),
        Some(denied @ Error::Denied { .. }) => Some(denied.to_string()),
        _ => None,
    });
    let Some(why) = absent else {
        return Some(TURN.lock().unwrap_or_else(PoisonError::into_inner));
    };
    assert!(std::env::var_os("BAREMARK_REQUIRE_KVM").is_none(), "{why}, and BAREMARK_REQUIRE_KVM is set");
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    // Not by a macro: those are captured, and a skip must be seen.
    let line = format!("skipped: {why} ({count} so far: {name})\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    None
}

/// Two CPUs, or one twice where there is only one.
pub fn two_cpus() -> Vec<usize> {
    let cpus = allowed_cpus().unwrap();
    vec![cpus[0], *cpus.get(1).unwrap_or(&cpus[0])]
}

/// A team of two.
pub fn two() -> Microvm {
    Microvm::start(&Config::new(two_cpus())).unwrap()
}

/// A single rank.
pub fn one() -> Microvm {
    Microvm::start(&Config::new(two_cpus()[..1].to_vec())).unwrap()
}
