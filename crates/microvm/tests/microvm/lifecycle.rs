//! Starting, refusing to start, and giving everything back.

use crate::bodies::Each;
use crate::support::{turn, two, two_cpus};
use baremark_microvm::{Config, Error, Microvm, MmuMode, probe};
use baremark_model::seam::{Executor, Fault};
use baremark_sys::affinity::Seat;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The numbers of the threads that carry a rank.
pub fn rank_threads() -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    let ranks = threads
        .filter(|thread| fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.starts_with("rank ")));
    ranks.map(|thread| thread.file_name().to_string_lossy().parse().unwrap()).collect()
}

/// Whether the threads of all ranks are gone, which were joined before: the kernel removes them from its list a little later.
fn ranks_are_gone() -> bool {
    let begun = Instant::now();
    while !rank_threads().is_empty() && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(1));
    }
    rank_threads().is_empty()
}

/// Descriptors of KVM's, and mappings of the process.
fn held() -> (usize, usize) {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let kvms = descriptors.filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains("kvm")));
    (kvms.count(), fs::read_to_string("/proc/self/maps").unwrap().lines().count())
}

fn address_space() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_dropped_machine_leaves_nothing() {
    let Some(_turn) = turn() else { return };
    drop(two());
    let ((_, mappings), space) = (held(), address_space());
    for _ in 0..16 {
        // The kernel removes a thread from the list some time after it was joined.
        let before = rank_threads();
        let mut vm = two();
        assert_eq!(rank_threads().iter().filter(|thread| !before.contains(thread)).count(), 2);
        vm.run(&Each(|_, _: &_, _| ()), 1).unwrap();
    }
    assert!(ranks_are_gone());
    assert_eq!(held().0, 0, "descriptors of KVM");
    // Other tests' threads may start meanwhile, with a stack and an arena each; sixteen leaks would be 64 mappings.
    assert!(held().1 < mappings + 24, "{mappings} mappings before, {} after", held().1);
    assert!(address_space() < space + (1 << 30), "{space} bytes before, {} after", address_space());
}

#[test]
fn a_machine_that_cannot_be_is_refused_with_the_remedy() {
    let Some(_turn) = turn() else { return };
    let error = |cpus| Microvm::start(&Config::new(cpus)).map(drop).unwrap_err();
    assert_eq!(error(vec![]).to_string(), "no CPU for any rank: name at least one");
    let nowhere = error(vec![two_cpus()[0], 100_000]);
    assert!(matches!(nowhere, Error::Pin { seat: Seat::Cpu(100_000), .. }), "{nowhere}");
    assert!(nowhere.to_string().contains("name CPUs that this process may use"), "{nowhere}");
    assert!(matches!(error(vec![0; 5000]), Error::Config { .. }));
    assert!(ranks_are_gone(), "no thread stays behind");
}

#[test]
fn a_probe_says_what_is_there() {
    let Some(_turn) = turn() else { return };
    let probe = probe();
    match &probe.problem {
        None => assert!(probe.is_usable() && probe.first_run_us.is_some_and(|us| us > 0), "{probe:?}"),
        // A machine may stand still for longer than the trial's limits.
        Some(Error::Stuck { .. } | Error::FirstRun(Fault::TimedOut { .. })) => assert_eq!(probe.first_run_us, None),
        Some(other) => panic!("{other:?}"),
    }
    assert_eq!(probe.api_version, Some(12));
    assert!(probe.capabilities.contains(&("KVM_CAP_SYNC_REGS", true)), "{:?}", probe.capabilities);
    let has_module = |name: &&str| Path::new("/sys/module").join(name).join("parameters").exists();
    if ["kvm_intel", "kvm_amd", "kvm_pvm"].iter().any(has_module) {
        assert_ne!(probe.mmu.mode, MmuMode::Unknown);
    }
    assert_eq!(two().facts().mmu.as_deref(), Some(probe.mmu.to_string().as_str()));
}
