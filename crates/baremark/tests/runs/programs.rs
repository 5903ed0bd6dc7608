//! What a run does with programs that do not what they should.

use crate::common::bench::{Bench, kvm};
use crate::common::outcome::{measured, rows};
use crate::common::sites::wait_for;
use serde_json::Value;
use std::process::Stdio;

const BAD: &str = r#"
[study]
title = "a program that does not do what it should"
[workload]
kind = "command"
timeout = "2 s"
[command]
argv = ["sh", "-c", "{script}"]
[command.parameters]
script = "true"
[command.metrics.rate]
unit = "1/s"
better = "higher"
regex = 'rate (?<value>\S+)'
[factors]
script = ["echo rate 1", "echo rate 1; sleep SECONDS"]
[design]
least_blocks = 4
most_blocks = 4
budget = "1 h"
"#;

/// The study, and a number of seconds that no other process sleeps.
fn study(number: u32) -> (String, String) {
    let seconds = format!("{number}.{}", std::process::id());
    (BAD.replace("SECONDS", &seconds), seconds)
}

/// The trials of a document of this script.
fn of<'d>(document: &'d Value, script: &str) -> Vec<&'d Value> {
    let ran = |trial: &&Value| trial["arms"][0]["treatment"]["script"] == script;
    rows(document, "trials").iter().filter(ran).collect()
}

#[test]
fn a_treatment_that_hangs_is_given_up_and_the_other_goes_on() {
    let bench = Bench::new();
    let (study, seconds) = study(1234);
    bench.write("study.toml", study);
    let (document, complaints) = measured(&bench, &["--json", "run", "study.toml"]);
    let hanging = of(&document, &format!("echo rate 1; sleep {seconds}"));
    assert_eq!(hanging.len(), 3, "given up after three in a row: {complaints}");
    let ended = "sh did not end within 2 s and was ended with all that it had started";
    for trial in hanging {
        let reason = trial["reason"].as_str().unwrap();
        assert!(trial["status"] == "failed" && reason.contains(ended), "{trial:#}");
        assert!(reason.ends_with(ended) || reason.ends_with("; its last words:\n    rate 1"), "{trial:#}");
    }
    // A machine that stands still for two seconds fails a trial of the other as well, and says so.
    for trial in of(&document, "echo rate 1") {
        assert!(
            trial["status"] == "ok" || trial["reason"].as_str().is_some_and(|why| why.contains(ended)),
            "{trial:#}"
        );
    }
    assert!(of(&document, "echo rate 1").len() >= 3, "{document:#}");
    assert!(!is_running(&seconds));
}

#[test]
fn a_program_in_the_microvm_that_does_not_end_is_ended_and_says_where_it_stood() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    let (study, seconds) = study(3456);
    let inside = study.replace("[factors]", "[factors]\nenvironment = \"microvm\"").replace("sleep ", "exec sleep ");
    let once = inside.replace("least_blocks = 4\nmost_blocks = 4", "least_blocks = 1\nmost_blocks = 1");
    bench.write("study.toml", once.replace("timeout = \"2 s\"", "timeout = \"10 s\""));
    let (document, complaints) = measured(&bench, &["--json", "run", "study.toml"]);
    let hanging = of(&document, &format!("echo rate 1; exec sleep {seconds}"));
    let reason = hanging.iter().find_map(|trial| trial["reason"].as_str()).expect(&complaints);
    // It waits in clock_nanosleep(2).
    let expected = [
        "the program did not end within 10 s and was killed; thread ".to_owned(),
        format!(" is in system call {} from 0x", libc::SYS_clock_nanosleep),
    ];
    assert!(expected.iter().all(|words| reason.contains(words)), "{reason}");
    assert!(!is_running(&seconds));
}

/// A lab that is killed takes the agent with it, that its keeper, and that the program.
#[test]
fn a_killed_lab_leaves_no_program() {
    let bench = Bench::new();
    let (study, seconds) = study(4321);
    bench.write("study.toml", study.replace("timeout = \"2 s\"", "timeout = \"24 h\""));
    let mut command = bench.command(&["run", "study.toml"]);
    let mut lab = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| is_running(&seconds).then_some(()));
    lab.kill().unwrap();
    lab.wait().unwrap();
    wait_for(|| (!is_running(&seconds)).then_some(()));
}

fn is_running(word: &str) -> bool {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| line.split(|&byte| byte == 0).any(|argument| argument == word.as_bytes()))
}
