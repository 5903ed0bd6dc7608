//! System calls that a polling thread answers: the same results, errors, signals and ends as natively, and counts that prove it.

use crate::cases::FEW;
use crate::programs::difference;
use crate::support::{PROBE, command, has_kvm, inside, natively, skip};
use baremark_guest_program::{Command, Error, Report};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

/// Programs of the table that make many calls, start others, or have threads.
const PROGRAMS: [&str; 6] = ["sh", "bash", "ls", "python", "grep", "tar"];

fn has_cpus() -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        skip("one CPU, and a polling thread needs another");
    }
    has_kvm() && cpus >= 2
}

/// Runs natively and with a polling thread, and demands the same.
fn same(arguments: &[&str]) -> Report {
    let mut polled = command(PROBE, arguments);
    polled.exitless(true);
    let (found, report) = inside(polled);
    assert_eq!(found, natively(PROBE, arguments), "left: in the guest, right: natively ({arguments:?}) {report:?}");
    assert_eq!(report.counters.images, report.counters.images_in_guest, "{report:?}");
    report
}

#[test]
fn calls_of_several_threads_are_answered_without_exits() {
    if !has_cpus() {
        return;
    }
    const CALLS: u64 = 3000;
    for threads in [1, 3] {
        // On a busy machine the polling thread may have no CPU for all of a run, but not for all of many.
        let mut runs = (0..50).map(|_| same(&["polling", &CALLS.to_string(), &threads.to_string()]).counters);
        let counters = runs.find(|counters| counters.exitless_calls > 0).expect("calls are answered without an exit");
        let made = 3 * CALLS * threads;
        assert_eq!(counters.polling_threads, 1, "{counters:?}");
        assert!(counters.exitless_calls + counters.calls >= made, "{counters:?}");
        assert!(counters.calls >= counters.exitless_fallbacks && counters.polling_cpu_ns > 0, "{counters:?}");
        let (_, without) = inside(command(PROBE, &["polling", "10", "1"]));
        let without = without.counters;
        assert_eq!((without.exitless_calls, without.exitless_fallbacks, without.polling_threads), (0, 0, 0));
    }
}

#[test]
fn a_program_whose_calls_come_back_stops_handing_them_over() {
    if !has_cpus() {
        return;
    }
    // A device may let its reader wait.
    let mut copying = command("dd", &["if=/dev/zero", "of=/dev/null", "bs=1", "count=5000", "status=none"]);
    copying.exitless(true);
    let (found, report) = inside(copying);
    assert_eq!(found.status, "Some(0) None", "{found:?}");
    let counters = report.counters;
    assert!(counters.calls >= 10_000, "{counters:?}");
    assert!((1..500).contains(&counters.exitless_fallbacks), "{counters:?}");
}

#[test]
fn signals_and_errors_of_answered_calls_are_the_threads_own() {
    if has_cpus() {
        let counters = same(&["polling-signals"]).counters;
        assert!(counters.exitless_fallbacks > 0 && counters.signals >= 52, "{counters:?}");
    }
}

#[test]
fn a_process_that_no_other_thread_may_act_for_is_left_alone_and_the_last_thread_ends_it() {
    if has_cpus() {
        same(&["polling-alone"]);
        for threads in ["1", "2"] {
            same(&["polling-last", threads]);
            crate::support::same(PROBE, &["polling-last", threads]);
        }
    }
}

#[test]
fn threads_forks_signals_and_accidents_are_as_without() {
    if has_cpus() {
        for part in ["threads", "processes", "signals", "accidents"] {
            same(&[part, "4"]);
        }
    }
}

#[test]
fn programs_print_and_end_as_natively() {
    if has_cpus() {
        let cases = FEW.iter().filter(|case| PROGRAMS.contains(&case.name));
        let different: Vec<String> = cases.filter_map(|case| difference(case, true)).collect();
        assert!(different.is_empty(), "{}", different.join("\n"));
    }
}

#[test]
fn a_killed_program_leaves_nothing() {
    if !has_cpus() {
        return;
    }
    let mut polled = command(PROBE, &["polling-forever"]);
    let mut child = polled.exitless(true).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.take_stdout().unwrap();
    let mut line = [0; 3];
    out.read_exact(&mut line).unwrap();
    while child.counters().exitless_calls == 0 {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    let report = child.wait().unwrap();
    assert_eq!(report.status.signal(), Some(9));
    // Every thread of the process held the pipe: it ends when they are gone.
    assert_eq!(out.read(&mut line).unwrap(), 0);
}

#[test]
fn one_cpu_is_too_few() {
    let before = baremark_sys::affinity::allowed_cpus().unwrap();
    let one = std::thread::spawn(move || {
        baremark_sys::affinity::pin_current_thread(before[0]).unwrap();
        Command::new("true").exitless(true).status().unwrap_err()
    });
    let error = one.join().unwrap();
    assert!(matches!(error, Error::NoCpuToPoll { allowed: 1 }), "{error:?}");
    assert!(error.to_string().contains("allow at least 2"), "{error}");
}
