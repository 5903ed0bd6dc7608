//! One test under supervision, played by shells: what it leaves fails it, is named, and is ended.
#![allow(clippy::unwrap_used, clippy::allow_attributes, missing_docs, unsafe_code, reason = "a test crate")]

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A shell's script under supervision.
fn supervised(limit_s: u64, ending_s: &str, script: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_test-runner"));
    command.args(["supervise", "plain", &limit_s.to_string(), ending_s, "sh", "-c", script]);
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

/// A number of seconds that no other process sleeps, with this one's number and `tag`.
fn sleep_of(tag: u32) -> String {
    format!("30{tag}0.{}", std::process::id())
}

fn sleeps(seconds: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let of = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).unwrap_or_default();
    processes.map(of).any(|line| String::from_utf8_lossy(&line) == format!("sleep\0{seconds}\0"))
}

#[test]
fn the_programs_exit_decides() {
    assert_eq!(supervised(600, "60", "echo fine").0, Some(0));
    let (code, said) = supervised(600, "60", "echo broken; exit 101");
    assert_eq!((code, said.as_str()), (Some(1), "broken\n"));
    assert_eq!(supervised(600, "60", "kill -9 $$").0, Some(1));
}

#[test]
fn what_ends_in_its_own_time_is_waited_for() {
    let (code, said) = supervised(600, "60", "(sleep 0.3; echo late) & exit 0");
    assert_eq!((code, said.as_str()), (Some(0), "late\n"));
}

#[test]
fn a_program_that_does_not_end_is_ended_and_where_it_stood_is_said() {
    let seconds = sleep_of(1);
    let begun = Instant::now();
    let (code, said) = supervised(1, "60", &format!("exec sleep {seconds}"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("not ended within 1 s:\n") && said.contains(&format!("sleep {seconds}")), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(300) && !sleeps(&seconds));
}

#[test]
fn a_process_that_is_left_is_named_and_ended_however_far_it_went() {
    let seconds = sleep_of(2);
    let script = format!("sleep {seconds} >&- & echo $!; sleep {seconds} >&- & echo $!; exec >&-; wait");
    // It ends once both are what they are to be named as.
    let is_sleep = format!("[ \"$(tr '\\0' ' ' < /proc/$pid/cmdline)\" = 'sleep {seconds} ' ]");
    let program = format!("for pid in $(setsid sh -c '{script}' &); do until {is_sleep}; do sleep 0.01; done; done");
    let (code, said) = supervised(600, "1", &program);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(said.matches(&format!("sleep {seconds}\n")).count(), 2, "{said}");
    assert!(said.contains(&format!("sh -c {script}\n")) && said.contains("left: process "), "{said}");
    assert!(!sleeps(&seconds));
}

/// `nohup make test` has a hang-up ignored, which a test that sends one would wait for.
#[test]
fn a_test_has_the_usual_action_for_a_signal_that_is_ignored_here() {
    let supervisor = env!("CARGO_BIN_EXE_test-runner");
    let script = "trap '' HUP; \"$0\" supervise plain 600 60 sh -c 'kill -HUP $$; echo ignored'";
    let Output { status, stdout, .. } = Command::new("sh").args(["-c", script, supervisor]).output().unwrap();
    assert_eq!((status.code(), stdout), (Some(1), Vec::new()));
}

/// Whoever runs the tests may be killed.
#[test]
fn a_supervisor_whose_parent_is_gone_ends_what_is_below_it() {
    let seconds = sleep_of(3);
    let supervisor = env!("CARGO_BIN_EXE_test-runner");
    let script = format!("{supervisor} supervise plain 600 60 sh -c 'setsid sleep {seconds} & sleep {seconds}' & wait");
    let mut child = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let becomes = |wanted: bool| {
        while sleeps(&seconds) != wanted && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(sleeps(&seconds), wanted);
    };
    becomes(true);
    child.kill().unwrap();
    child.wait().unwrap();
    becomes(false);
}

/// The request to end may come while the supervisor is not in a call that it interrupts, as when another thread takes it.
#[test]
fn a_request_that_interrupts_no_wait_is_noticed() {
    let seconds = sleep_of(4);
    let mut command = Command::new(env!("CARGO_BIN_EXE_test-runner"));
    let mut supervisor = command.args(["supervise", "plain", "600", "60", "sleep", &seconds]).spawn().unwrap();
    let process = i32::try_from(supervisor.id()).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let other_thread = || {
        let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
        threads.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).find(|thread| *thread != process)
    };
    let other = loop {
        if let Some(thread) = other_thread().filter(|_| sleeps(&seconds)) {
            break thread;
        }
        assert!(Instant::now() < until, "the supervisor has no other thread");
        std::thread::sleep(Duration::from_millis(5));
    };
    // SAFETY: takes numbers.
    assert_eq!(unsafe { libc::syscall(libc::SYS_tgkill, process, other, libc::SIGTERM) }, 0);
    let ended = loop {
        if let Some(status) = supervisor.try_wait().unwrap() {
            break Some(status);
        }
        if Instant::now() > until {
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    drop(supervisor.kill());
    assert_eq!(ended.and_then(|status| status.code()), Some(1), "asked to end, it did not");
    assert!(!sleeps(&seconds));
}

#[test]
fn what_is_no_program_is_an_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_test-runner"));
    let output = command.args(["supervise", "plain", "5", "5", "/nowhere/program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/program"));
}
