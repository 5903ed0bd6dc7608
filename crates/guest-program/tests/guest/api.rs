//! The launcher: exit status, counters, errors, and the limit for a program that stands still.

use crate::support::{Ended, PROBE, command, has_kvm, inside};
use baremark_guest_program::{Activity, Command, Costs, Error};
use baremark_model::page_size::PageSize;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

#[test]
fn the_exit_status_and_the_counters_are_the_programs() {
    if !has_kvm() {
        return;
    }
    let (found, report) = inside(command(PROBE, &["exit", "41"]));
    assert_eq!(found, Ended { status: "Some(41) None".into(), stdout: String::new(), stderr: String::new() });
    let counters = &report.counters;
    assert_eq!((counters.images, counters.images_in_guest, counters.vcpus), (1, 1, 1));
    assert_eq!(counters.calls, counters.calls_by_number.values().sum::<u64>());
    assert!(counters.exits >= counters.calls && counters.first_start_ns > 0, "{counters:?}");
    assert_eq!(counters.calls_by_number.get(&231), Some(&1), "one exit_group");
    assert_eq!(report.failure, None);
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    if !has_kvm() {
        return;
    }
    let missing = Command::new("/nonexistent/program").stderr(Stdio::null()).status().unwrap_err();
    assert!(matches!(missing, Error::NotExecutable { missing: true, .. }), "{missing:?}");
    let text = Command::new("/etc/passwd").stderr(Stdio::null()).status().unwrap_err();
    assert!(matches!(text, Error::NotExecutable { missing: false, .. }), "{text:?}");
    assert!(text.to_string().contains("cannot execute /etc/passwd"), "{text}");
}

/// Whether all threads of a process sleep.
fn all_sleep(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let sleeps = |thread: io::Result<fs::DirEntry>| {
        let stat = fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
    };
    threads.into_iter().all(sleeps)
}

#[test]
fn a_program_that_stands_still_is_ended_and_described() {
    if !has_kvm() {
        return;
    }
    let mut stalled = Command::new(PROBE);
    let child = stalled.arg("stall").stall_limit(Duration::from_secs(1)).spawn().unwrap();
    // The limit begins when both threads wait.
    while child.counters().calls_by_number.get(&202).is_none_or(|calls| *calls < 2) || !all_sleep(child.id()) {
        thread::sleep(Duration::from_millis(5));
    }
    let error = child.wait().unwrap_err();
    let Error::NoProgress { stood, .. } = &error else { panic!("{error:?}") };
    let in_futex = stood.iter().filter(|stand| stand.doing == Activity::Calls { number: 202 }).count();
    assert_eq!((stood.len(), in_futex), (2, 2), "{error}");
}

#[test]
fn the_hosts_backing_is_counted_where_it_was_chosen() {
    if !has_kvm() {
        return;
    }
    // The buffer is given back before the end, and is there while it is used.
    let copied = |page: Option<PageSize>| {
        let mut copy =
            command("dd", &["if=/dev/zero", "of=/dev/null", "bs=64M", "count=1", "iflag=fullblock", "status=none"]);
        if let Some(page) = page {
            copy.host_backing(page);
        }
        let (found, report) = inside(copy);
        assert_eq!(found.status, "Some(0) None", "{found:?}");
        (report.counters.anonymous_kib >> 10, report.counters.large_kib >> 10)
    };
    assert_eq!(copied(None), (0, 0), "not counted");
    let (all, large) = copied(Some(PageSize::Small));
    // The buffer has none; the runner's own memory may.
    assert!(all >= 64 && large <= all - 64, "{large} of {all} MiB");
    // Whether the host has any is its own affair.
    let (all, large) = copied(Some(PageSize::Large));
    assert!(all >= 64 && large <= all, "{large} of {all} MiB");
    // A child has not had its parent's memory.
    let mut forks = command(PROBE, &["backed"]);
    forks.host_backing(PageSize::Large);
    let (found, report) = inside(forks);
    assert_eq!(found.stdout, "unmapped 0\nchild status 7\n");
    let all = report.counters.anonymous_kib >> 10;
    assert!((64..110).contains(&all) && report.counters.forks == 1, "{all} MiB: {:?}", report.counters);
}

#[test]
fn memory_is_given_when_it_is_mapped_where_that_was_chosen() {
    if !has_kvm() {
        return;
    }
    let given = |prefault: bool| {
        let mut copy =
            command("dd", &["if=/dev/zero", "of=/dev/null", "bs=64M", "count=1", "iflag=fullblock", "status=none"]);
        copy.prefault(prefault);
        let (found, report) = inside(copy);
        assert_eq!(found.status, "Some(0) None", "{found:?}");
        report.counters.prefaulted_kib >> 10
    };
    assert_eq!(given(false), 0);
    let mib = given(true);
    assert!((64..512).contains(&mib), "{mib} MiB");
    // A program that gives memory back and forks ends as before.
    let mut forks = command(PROBE, &["backed"]);
    forks.prefault(true);
    let (found, _) = inside(forks);
    assert_eq!(found.stdout, "unmapped 0\nchild status 7\n");
}

#[test]
fn a_closed_pipe_ends_the_program_as_natively() {
    if !has_kvm() {
        return;
    }
    let mut child = command(PROBE, &["pipe"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut first = [0; 2];
    child.take_stdout().unwrap().read_exact(&mut first).unwrap();
    let report = child.wait().unwrap();
    // Rust's own programs ignore the signal and panic when they cannot print; yes(1) does not.
    assert_eq!((first, report.status.code()), (*b"0\n", Some(101)));
    let mut child = command("yes", &[]).stdout(Stdio::piped()).spawn().unwrap();
    child.take_stdout().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(child.wait().unwrap().status.signal(), Some(13));
}

#[test]
fn a_kill_reaches_everything_that_was_started() {
    if !has_kvm() {
        return;
    }
    let mut shell = command("sh", &["-c", "sleep 1000 & echo $!; wait"]);
    let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.take_stdout().unwrap();
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        out.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().status.signal(), Some(9));
    // Both held the pipe: it ends when they are gone.
    assert_eq!(out.read_to_end(&mut line).unwrap(), 0);
}

#[test]
fn costs_lie_within_their_intervals_and_explain_a_run() {
    if !has_kvm() {
        return;
    }
    let costs = Costs::measure().unwrap();
    for cost in [costs.call, costs.native_call, costs.exit] {
        assert!(cost.low_ns <= cost.ns && cost.ns <= cost.high_ns, "{costs:?}");
    }
    assert!(costs.native_call.ns > 0.0 && costs.call.ns > 0.0, "{costs:?}");
    let (_, report) = inside(command(PROBE, &["random", "5", "2000"]));
    let explained = costs.explain(&report.counters);
    assert!(explained.low_seconds <= explained.seconds && explained.seconds <= explained.high_seconds);
}
