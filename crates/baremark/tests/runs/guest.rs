//! `baremark guest`: a program in the microVM, through the binary that is handed out.

use crate::bench::{kvm, program};
use crate::sites::cpu;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

const BAREMARK: &str = env!("CARGO_BIN_EXE_baremark");

#[test]
fn a_program_ends_as_natively_and_its_counters_are_written() {
    if !kvm() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let stats = folder.path().join("stats.json");
    let mut command = Command::new(BAREMARK);
    command.args(["guest", "--vcpus", "4", "--stats"]).arg(&stats);
    let output = command.args(["--", "sh", "-c", "echo one | tr a-z A-Z; exit 3"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), b"ONE\n".as_slice()), "{output:?}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
    assert_eq!((json["format"].as_str(), json["version"].as_u64()), (Some("baremark-guest-program"), Some(1)));
    assert!(json["calls"].as_u64() > Some(20) && json["images"] == json["images_in_guest"], "{json}");
}

#[test]
fn calls_are_answered_without_exits_where_that_was_chosen() {
    if !kvm() {
        return;
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: a thread that polls needs a second CPU");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let counted = |exitless: &str| {
        let stats = folder.path().join(exitless);
        let mut command = Command::new(BAREMARK);
        command.args(["guest", "--exitless", exitless, "--stats"]).arg(&stats);
        let output = command.args(["--", "sha256sum", program().to_str().unwrap()]).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
        (output, json)
    };
    let ((with, on), (without, off)) = (counted("on"), counted("off"));
    assert_eq!((with.status.code(), &with.stdout), (Some(0), &without.stdout), "{with:?}");
    let count = |json: &serde_json::Value, of: &str| json[of].as_u64().unwrap();
    // On a busy machine the polling thread may have no CPU for all of it.
    assert!(count(&on, "exitless_calls") + count(&on, "exitless_fallbacks") > 0, "{on}");
    assert_eq!(count(&on, "polling_threads"), 1, "{on}");
    assert_eq!((count(&off, "exitless_calls"), count(&off, "polling_threads")), (0, 0), "{off}");
    let only = Command::new("taskset")
        .args(["-c", &cpu().to_string(), BAREMARK, "guest", "--exitless", "on", "--", "true"])
        .output();
    let only = only.unwrap();
    let message = String::from_utf8_lossy(&only.stderr);
    assert!(!only.status.success() && message.contains("allow at least 2"), "{message}");
}

#[test]
fn the_program_has_none_of_this_programs_signal_actions() {
    if !kvm() {
        return;
    }
    // yes(1) ends by SIGPIPE unless whoever started it ignores that, as Rust's start-up does.
    let mut child = Command::new(BAREMARK).args(["guest", "--", "yes"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 2];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!((first, child.wait().unwrap().signal()), (*b"y\n", Some(13)));
}

#[test]
fn a_program_that_is_not_there_ends_as_in_a_shell() {
    if !kvm() {
        return;
    }
    let output = Command::new(BAREMARK).args(["guest", "--", "/nonexistent"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(message, "baremark: guest: cannot execute /nonexistent: No such file or directory (os error 2)\n");
}
