//! The suite on every observer: on this machine, on a recording, on a large machine and on one that has nothing.

use crate::machines::{Machine, two_cpus};
use baremark_model::observer::OBSERVERS;
use baremark_observe::Root;
use baremark_observe::conformance::{Passed, check};

/// Those that count by programs in the kernel or by the processor, and KVM's, which only the superuser sees: tests/kernel.
const PRIVILEGED: &[&str] = &["kvm", "counters", "io-histograms", "net-stats"];

#[test]
fn every_observer_of_files_reads_this_machine_or_says_why_not() {
    for name in OBSERVERS.iter().filter(|name| !PRIVILEGED.contains(name)) {
        match check(name, &Root::default()).unwrap_or_else(|why| panic!("{name}: {why}")) {
            Passed::Reads(values) => assert!(values > 0 || *name == "null", "{name} reads nothing"),
            Passed::Absent(absence) => println!("not here: {absence}"),
        }
    }
    for name in ["cpu", "kernel", "interrupts", "disk", "network", "memory", "paging"] {
        let passed = check(name, &Root::default());
        assert!(matches!(passed, Ok(Passed::Reads(1..))), "every Linux has what {name} reads: {passed:?}");
    }
}

#[test]
fn every_observer_of_files_reads_a_recording_and_a_large_machine() {
    let large = Machine::new(512, 8);
    for name in OBSERVERS.iter().filter(|name| !PRIVILEGED.contains(name) && !["lost", "null"].contains(name)) {
        for root in [two_cpus(), large.root()] {
            let passed = check(name, &root);
            assert!(matches!(passed, Ok(Passed::Reads(1..))), "{name}: {passed:?}");
        }
    }
}

#[test]
fn a_machine_that_has_nothing_is_absent_with_reasons() {
    let nothing = tempfile::tempdir().unwrap();
    let reasons: Vec<String> = OBSERVERS
        .iter()
        .filter(|name| !["lost", "null"].contains(name))
        .map(|name| match check(name, &Root::recorded(nothing.path())) {
            Ok(Passed::Absent(absence)) => absence.to_string(),
            other => panic!("{name}: {other:?}"),
        })
        .collect();
    let expected = [
        "cpu is absent: /proc/stat does not exist",
        "kernel is absent: /proc/stat does not exist",
        "interrupts is absent: /proc/interrupts does not exist",
        "disk is absent: /proc/diskstats does not exist",
        "network is absent: /proc/net/dev does not exist",
        "sockets is absent: /proc/net/tcp does not exist",
        "memory is absent: /proc/meminfo does not exist",
        "paging is absent: /proc/vmstat does not exist",
        "numa is absent: /sys/devices/system/node names no node; the kernel was built without NUMA",
        "pressure is absent: /proc/pressure does not exist; the kernel was built without PSI, or needs psi=1 when it boots",
        "kvm is absent: there is no KVM here",
        "counters is absent: a recording has no counters to read",
        "io-histograms is absent: a recording has no I/Os to trace",
        "net-stats is absent: a recording has no packets to trace",
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn a_name_that_no_observer_has_is_absent_too() {
    assert!(check("weather", &Root::default()).is_err());
}
