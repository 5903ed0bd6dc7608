//! The test command itself: what it makes of results, with a cargo of the test's own.

use crate::bench::{Bench, text};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What cargo prints of one test program in which `failed` failed.
fn printed(passed: &[&str], failed: &[&str]) -> String {
    let lines = |names: &[&str], how| names.iter().map(|name| format!("test {name} ... {how}\n")).collect::<String>();
    let outputs: String = failed.iter().map(|name| format!("---- {name} stdout ----\nit broke\n\n")).collect();
    format!(
        "{}{}\nsuccesses:\n\n---- a::fine stdout ----\nskipped: no docker\n\n\nsuccesses:\n    a::fine\n\nfailures:\n\n{outputs}\n\
         test result: so. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        lines(passed, "ok"),
        lines(failed, "FAILED"),
        passed.len(),
        failed.len()
    )
}

/// A script of this repository.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name)
}

/// Exit code and output of scripts/test where cargo prints this and runs these commands. The machine is a file `state` in its
/// folder.
fn judged(commands: &str, printed: &str) -> (i32, String) {
    let bench = Bench::new();
    bench.write("state", "mount /\n");
    bench.write("printed", printed);
    let cargo = "echo >>$here/calls\ncat $here/printed\n! grep -q ' \\.\\.\\. FAILED$' $here/printed\n";
    let program = |name: &str, text: &str| {
        let path = bench.write(name, format!("#!/bin/sh\nhere=$(dirname \"$0\")\n{text}"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    program("cargo", &format!("{commands}\n{cargo}"));
    let state = program("host-state", "sort $here/state\n");
    let paths = format!("{}:{}", bench.folder.path().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.arg(script("test")).env("PATH", paths).env("CARGO_TARGET_DIR", bench.path("target"));
    command.env("HOST_STATE", state).env("ENDING", "5").env_remove("RUST_TEST_THREADS");
    let output = command.output().unwrap();
    assert_eq!(fs::read_to_string(bench.path("calls")).unwrap(), "\n", "nothing is tried twice");
    (output.status.code().unwrap(), text(&output.stdout))
}

#[test]
fn what_fails_once_has_failed_and_what_is_skipped_is_counted() {
    let counts = |said: &str| said.lines().last().unwrap_or_default().to_owned();
    let (code, said) = judged("", &printed(&["a::fine"], &[]));
    assert_eq!((code, counts(&said).as_str()), (0, "1 passed, 0 failed, 1 skipped"), "{said}");
    assert!(said.contains("no docker") && !said.contains("    a::fine"), "{said}");
    let (code, said) = judged("", &printed(&["a::fine"], &["b::broken"]));
    assert_eq!((code, counts(&said).as_str()), (1, "1 passed, 1 failed, 1 skipped"), "{said}");
    assert!(said.contains("it broke"), "{said}");
    // A program that was killed has a result for none of its tests.
    let (code, said) = judged("", "test b::broken ... FAILED\n");
    assert_eq!((code, counts(&said).as_str()), (1, "0 passed, 0 failed, 0 skipped"), "{said}");
}

#[test]
fn what_tests_leave_on_the_machine_fails_the_run_and_is_named() {
    let fine = printed(&["a::fine"], &[]);
    let (code, said) = judged("echo 'mount /left' >>$here/state", &fine);
    assert_eq!((code, said.contains("which fails the run:\nmount /left\n")), (1, true), "{said}");
    let (code, said) = judged("echo 'link other' >$here/state", &fine);
    assert_eq!((code, said.contains("\nlink other\ngone: mount /\n")), (1, true), "{said}");
}

#[test]
fn a_process_that_tests_leave_is_named_and_ended_however_far_it_went() {
    let fine = printed(&["a::fine"], &[]);
    // A number of seconds that no other process sleeps.
    let seconds = format!("{}.{}", 300, std::process::id());
    let daemon = format!("setsid sh -c 'setsid sleep {seconds} >/dev/null 2>&1 &' &\nwait");
    let (code, said) = judged(&daemon, &fine);
    let line = said.lines().find(|line| line.starts_with("process ")).unwrap_or_else(|| panic!("{said}"));
    assert_eq!((code, line.ends_with(&format!(": sleep {seconds}"))), (1, true), "{said}");
    let pid = line.split([' ', ':']).nth(1).unwrap();
    let running = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    assert!(!running.contains(&seconds), "{running}");
}

/// What scripts/test-times makes of a log where two tests run at once.
fn times(log: &str, more: &[&str]) -> String {
    let mut times = Command::new(script("test-times"));
    let mut times = times.arg("2").args(more).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    times.stdin.take().unwrap().write_all(log.as_bytes()).unwrap();
    text(&times.wait_with_output().unwrap().stdout)
}

#[test]
fn the_times_of_tests_follow_from_the_order_in_which_they_are_started() {
    let log = "\
100.0      Running unittests src/lib.rs (target/release/deps/toy-0123456789abcdef)
100.0 running 5 tests
100.3 test a ... ok
100.9 test b ... FAILED
101.0 test c ... ok
101.0 test e ... ignored, needs a machine
103.5 test d - should panic ... ok
103.5 test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 3.50s
103.6      Running tests/none.rs (target/release/deps/none-0123456789abcdef)
103.6 running 0 tests
103.6 test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
    let said = times(log, &[]);
    let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["3.5", "5", "src/lib.rs", "(toy)"], "{said}");
    // With two threads c began when a ended, d when b did.
    let tests: Vec<String> = rows[3..].iter().map(|row| format!("{} {}", row[0], row[3..].join(" "))).collect();
    assert_eq!(tests[..4], ["2.6 d - should panic", "0.9 b", "0.7 c", "0.3 a"], "{said}");
    assert_eq!(rows.len(), 8, "a suite without tests has no line: {said}");
}

#[test]
fn a_test_that_takes_turns_has_the_time_of_its_turns() {
    let log = "\
100.0      Running tests/end_to_end.rs (target/release/deps/end_to_end-0123456789abcdef)
100.0 running 2 tests
160.0 test a ... ok
170.0 test b ... ok
170.0 test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 70.00s
";
    let bench = Bench::new();
    let file = bench.write("times", "1.5 b\n10.0 a\n2.0 b\n");
    let said = times(log, &[file.to_str().unwrap()]);
    assert!(said.contains("10.0  tests/end_to_end.rs (end_to_end): a\n"), "{said}");
    assert!(said.contains("3.5  tests/end_to_end.rs (end_to_end): b\n"), "{said}");
}

#[test]
fn tests_of_the_whole_program_are_started_at_once_unless_a_number_is_given() {
    let bench = Bench::new();
    let started = |name: &str, arguments: &[&str]| {
        let path = bench.write(name, "#!/bin/sh\necho \"$@\"\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        text(&Command::new(script("test-runner")).arg(path).args(arguments).output().unwrap().stdout)
    };
    assert_eq!(started("end_to_end-0123", &["name"]), "name --test-threads=1000\n");
    assert_eq!(started("end_to_end-0123", &["--test-threads=1"]), "--test-threads=1\n");
    assert_eq!(started("lab-0123", &["name"]), "name\n");
}
