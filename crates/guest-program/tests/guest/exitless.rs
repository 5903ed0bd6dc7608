//! System calls that a polling thread answers: the same results, errors, signals and ends as natively, and counts that prove it.

use crate::both::difference;
use crate::cases::BASIC;
use crate::support::{PROBE, command, has_cpus, inside, natively, polled};
use baremark_guest_program::{Command, Error, Report};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

/// Runs natively and with a polling thread, and demands the same.
fn same(arguments: &[&str]) -> Report {
    let (found, report) = inside(polled(PROBE, arguments));
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
        // How many are answered depends on whether the polling thread has a CPU.
        let counters = same(&["polling", &CALLS.to_string(), &threads.to_string()]).counters;
        let made = 3 * CALLS * threads;
        assert_eq!(counters.polling_threads, 1, "{counters:?}");
        assert!(counters.exitless_calls + counters.calls >= made, "{counters:?}");
        assert!(counters.calls >= counters.exitless_fallbacks, "{counters:?}");
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
    let copying = ["if=/dev/zero", "of=/dev/null", "bs=1", "count=5000", "status=none"];
    let (found, report) = inside(polled("dd", &copying));
    assert_eq!(found.status, "Some(0) None", "{found:?}");
    let counters = report.counters;
    assert!(counters.calls >= 10_000, "{counters:?}");
    assert!((1..500).contains(&counters.exitless_fallbacks), "{counters:?}");
}

#[test]
fn signals_and_errors_of_answered_calls_are_the_threads_own() {
    if has_cpus() {
        let counters = same(&["polling-signals"]).counters;
        assert!(counters.signals >= 52, "{counters:?}");
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
fn programs_of_every_system_print_and_end_as_natively() {
    if has_cpus() {
        let different: Vec<String> = BASIC.iter().filter_map(|case| difference(case, true)).collect();
        assert!(different.is_empty(), "{}", different.join("\n"));
    }
}

#[test]
fn a_killed_program_leaves_nothing() {
    if !has_cpus() {
        return;
    }
    let mut child = polled(PROBE, &["polling-forever"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.take_stdout().unwrap();
    let mut line = [0; 3];
    out.read_exact(&mut line).unwrap();
    // Calls are answered without an exit as soon as the polling thread has a CPU.
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
