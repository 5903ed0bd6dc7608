//! The suite on every observer: on this machine, on a recording, on a large machine and on one that has nothing.

use crate::machines::{Machine, two_cpus};
use baremark_model::observer::OBSERVERS;
use baremark_observe::Root;
use baremark_observe::conformance::{Passed, check};

#[test]
fn every_observer_reads_this_machine_or_says_why_not() {
    for name in OBSERVERS {
        match check(name, &Root::default()).unwrap_or_else(|why| panic!("{name}: {why}")) {
            Passed::Reads(values) => assert!(values > 0 || *name == "null", "{name} reads nothing"),
            Passed::Absent(absence) => println!("skipped: {absence}"),
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
    for name in OBSERVERS
        .iter()
        .filter(|name| !["kvm", "counters", "io-histograms", "net-stats", "lost", "null"].contains(name))
    {
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
fn hardware_counters_count_or_are_absent_with_a_reason_that_helps() {
    match check("counters", &Root::default()).unwrap() {
        Passed::Reads(values) => assert!(values >= 1),
        Passed::Absent(absence) => {
            let helps = ["virtual PMU", "perf_event_paranoid", "ulimit -n"];
            assert!(helps.iter().any(|words| absence.reason.contains(words)), "{absence}");
        }
    }
}

/// Packets over the loopback are counted, and their sizes are known.
#[test]
fn packets_are_counted_or_absent_with_a_reason_that_helps() {
    let mut observer = baremark_observe::observer(baremark_observe::LIST, "net-stats", &Root::default()).unwrap();
    if let Err(absence) = observer.start() {
        assert!(absence.reason.contains("the observer network has counts"), "{absence}");
        return;
    }
    let count = |observer: &mut dyn baremark_model::observer::Observer, key: &str| {
        let mut readings = baremark_model::observer::Readings::default();
        observer.read(&mut readings).unwrap();
        let of = readings.values.iter().find(|one| one.quantity.key == key && one.instance == "lo");
        of.map(|reading| reading.count)
    };
    let before = count(&mut *observer, "packet.received").unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        socket.send_to(&[7; 900], socket.local_addr().unwrap()).unwrap();
        socket.recv_from(&mut [0; 1000]).unwrap();
    }
    assert!(count(&mut *observer, "packet.received").unwrap() >= before + 20);
    socket.send_to(&[7; 900], socket.local_addr().unwrap()).unwrap();
    assert!(count(&mut *observer, "packet.received_size_p50").is_some());
    observer.stop();
}

#[test]
fn a_name_that_no_observer_has_is_absent_too() {
    assert!(check("weather", &Root::default()).is_err());
}
