//! Observers that count by programs in the kernel or by the processor, and KVM's, on this machine.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::allow_attributes, missing_docs, reason = "a test crate")]

use baremark_model::observer::{Observer, Readings};
use baremark_observe::conformance::{Passed, check};
use baremark_observe::{LIST, Root};

fn reads_this_machine_or_says_why_not(name: &str) {
    match check(name, &Root::default()).unwrap_or_else(|why| panic!("{name}: {why}")) {
        Passed::Reads(values) => assert!(values > 0, "{name} reads nothing"),
        Passed::Absent(absence) => println!("skipped: {absence}"),
    }
}

#[test]
fn counts_of_kvm_are_read() {
    reads_this_machine_or_says_why_not("kvm");
}

#[test]
fn counters_of_the_processor_are_read() {
    reads_this_machine_or_says_why_not("counters");
}

#[test]
fn histograms_of_ios_are_read() {
    reads_this_machine_or_says_why_not("io-histograms");
}

#[test]
fn statistics_of_packets_are_read() {
    reads_this_machine_or_says_why_not("net-stats");
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
    let mut observer = baremark_observe::observer(LIST, "net-stats", &Root::default()).unwrap();
    if let Err(absence) = observer.start() {
        assert!(absence.reason.contains("the observer network has counts"), "{absence}");
        return println!("skipped: {absence}");
    }
    let count = |observer: &mut dyn Observer, key: &str| {
        let mut readings = Readings::default();
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
