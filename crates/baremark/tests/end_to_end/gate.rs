//! The test command itself: what it makes of results, with a cargo of the test's own.

use crate::bench::{Bench, text};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What cargo prints of one test program in which `failed` failed.
fn printed(passed: &[&str], failed: &[&str]) -> String {
    let lines = |names: &[&str], how| names.iter().map(|name| format!("test {name} ... {how}\n")).collect::<String>();
    let outputs: String = failed.iter().map(|name| format!("---- {name} stdout ----\nit broke\n\n")).collect();
    format!(
        "{}{}\nsuccesses:\n\n---- a::fine stdout ----\nskipped: no docker\na figure\n\n\nsuccesses:\n    a::fine\n\nfailures:\n\n{outputs}\n\
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

/// Exit code and output of scripts/test-systems where cargo prints this and runs these commands for the tests of the whole program.
fn judged(commands: &str, printed: &str) -> (i32, String) {
    judged_part("whole", commands, printed)
}

/// The same for one part of the tests; the others print nothing.
fn judged_part(part: &str, commands: &str, printed: &str) -> (i32, String) {
    judged_within("5", part, commands, printed)
}

/// The same where what is about to end may take this time. The machine is a file `state` in its folder, which becomes the file
/// `later` once it was looked at.
fn judged_within(ending: &str, part: &str, commands: &str, printed: &str) -> (i32, String) {
    let bench = Bench::new();
    bench.write("state", "mount /\n");
    bench.write("printed", printed);
    let cargo = "cat $here/printed\n! grep -q ' \\.\\.\\. FAILED$' $here/printed\n";
    let called = format!("echo \"$TEST_PART: $*\" >>$here/calls\n[ \"$TEST_PART\" = {part} ] || exit 0");
    let program = |name: &str, text: &str| {
        let path = bench.write(name, format!("#!/bin/sh\nhere=$(dirname \"$0\")\n{text}"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    program("cargo", &format!("{called}\n{commands}\n{cargo}"));
    let state = program("host-state", "sort $here/state\n[ ! -e $here/later ] || mv $here/later $here/state\n");
    let paths = format!("{}:{}", bench.folder.path().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.arg(script("test-systems")).env("PATH", paths).env("CARGO_TARGET_DIR", bench.path("target"));
    command.env("HOST_STATE", state).env("ENDING", ending).env_remove("RUST_TEST_THREADS");
    let output = command.output().unwrap();
    let calls = fs::read_to_string(bench.path("calls")).unwrap();
    let mut parts: Vec<&str> = calls.lines().filter_map(|call| call.split(": ").next()).collect();
    parts.sort_unstable();
    assert_eq!(parts, ["", "alone", "beside", "whole"], "tests are built, and nothing is tried twice: {calls}");
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
    assert!(said.contains("it broke") && !said.contains("a figure"), "{said}");
    for part in ["alone", "beside"] {
        let (code, said) = judged_part(part, "", &printed(&["a::fine"], &["b::broken"]));
        assert_eq!((code, counts(&said).as_str()), (1, "1 passed, 1 failed, 1 skipped"), "{said}");
        assert!(said.contains("it broke"), "{said}");
    }
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
fn what_goes_in_its_own_time_is_waited_for() {
    let going = "cp $here/state $here/later\necho 'link going' >>$here/state";
    let (code, said) = judged_within("600", "whole", going, &printed(&["a::fine"], &[]));
    assert_eq!((code, said.contains("link going")), (0, false), "{said}");
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
    assert!(said.contains("\n  parent ") && said.contains(" s ago, in /"), "{said}");
    let pid = line.split([' ', ':']).nth(1).unwrap();
    // It was killed; on a busy machine it is gone a moment later.
    let deadline = Instant::now() + Duration::from_secs(60);
    while fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().contains(&seconds) {
        assert!(Instant::now() < deadline, "{said}");
        thread::sleep(Duration::from_millis(5));
    }
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
fn each_test_program_belongs_to_one_part_and_those_of_the_whole_are_started_at_once() {
    let bench = Bench::new();
    let started = |part: Option<&str>, name: &str, arguments: &[&str]| {
        let folder = bench.path(name.split('/').next().unwrap());
        fs::create_dir_all(&folder).unwrap();
        let path = bench.write(name, "#!/bin/sh\necho \"$@\"\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let mut runner = Command::new(script("test-runner"));
        runner.arg(path).args(arguments).current_dir(folder).env_remove("TEST_PART");
        text(&runner.envs(part.map(|part| ("TEST_PART", part))).output().unwrap().stdout)
    };
    assert_eq!(started(None, "baremark/end_to_end-0123", &["name"]), "name --test-threads=1000\n");
    assert_eq!(started(None, "baremark/end_to_end-0123", &["--test-threads=1"]), "--test-threads=1\n");
    assert_eq!(started(None, "lab/lab-0123", &["name"]), "name\n");
    for (name, own) in [
        ("baremark/end_to_end-0123", "whole"),
        ("baremark/structure-0123", "beside"),
        ("lab/lab-0123", "beside"),
        ("bundle/hostile-0123", "beside"),
        ("load/hostile-0123", "alone"),
        ("load/rust_out", "beside"),
    ] {
        let ran = |part: &&str| started(Some(part), name, &["name"]).starts_with("name");
        let parts: Vec<&str> = ["alone", "whole", "beside"].into_iter().filter(ran).collect();
        assert_eq!(parts, [own], "{name}");
    }
}

/// A crate that is renamed would move to another part, and nobody would notice.
#[test]
fn the_crates_that_are_tested_alone_exist() {
    let runner = fs::read_to_string(script("test-runner")).unwrap();
    let line = runner.lines().find(|line| line.trim_end().ends_with("part=alone ;;")).unwrap();
    let crates: Vec<&str> = line.split(')').next().unwrap().split('|').map(|one| one.trim()).collect();
    assert!(crates.len() > 5, "{crates:?}");
    for of in crates {
        let name = of.strip_suffix("\\ *").unwrap_or_else(|| panic!("{of}"));
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("Cargo.toml").exists(), "{name}");
    }
}
