//! `baremark ab`: commands compared from a command line, and what is done with those that are wrong. What is compared is what they print.

use crate::common::bench::{Bench, children, lives, text, unbroken};
use crate::common::outcome::{rows, sound};
use crate::common::played::{PLAYED, is_ratio};
use crate::common::points::{kill, stopped_at};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A metric of what a command prints.
const RATE: &str = "rate=rate ([0-9.]+)";

/// A bench with a program that prints a rate, and rests for most of a phase, in which it is repeated.
fn with_rate() -> Bench {
    let bench = Bench::new();
    bench.write("rate", "sleep 0.05\necho rate $1\n");
    bench
}

#[test]
fn a_command_that_is_worse_fails_the_gate() {
    let bench = with_rate();
    let by = ["ab", "--by", "rate", "-m", RATE, "--budget", "24h", "--fail-above", "25%"];
    let ran = bench.run(&[&by[..], &["-n", "one=sh rate 100", "two=sh rate 130"]].concat());
    let out = unbroken(&ran.stdout);
    assert_eq!(ran.status.code(), Some(4), "{out}{}", text(&ran.stderr));
    assert!(out.contains("two / one = 1.30 ") && out.contains("two is worse by 30.0"), "{out}");
    assert!(out.contains("FAIL: worse by more than 25 %"), "{out}");
    let document = bench.json(&["--json", "report"]);
    sound(&document);
    let row = &document["ratios"][0];
    assert!(row["metric"] == "rate" && is_ratio(row, 1.3), "{row:#}");
    assert!(rows(&document, "ratios").iter().any(|row| row["metric"] == "user_s"), "{document:#}");
    assert!(document["run"]["file"].as_str().unwrap().starts_with("baremark "), "what runs it again");
    // The other way round it is better.
    let ran = bench.run(&[&by[..], &["-n", "one=sh rate 130", "two=sh rate 100"]].concat());
    assert_eq!(ran.status.code(), Some(0), "{}{}", text(&ran.stdout), text(&ran.stderr));
}

#[test]
fn the_same_program_does_not_fail_the_gate_and_its_printed_study_is_the_same() {
    let bench = with_rate();
    let commands = ["sh rate 7", "sh rate 7", "--budget", "24h", "--fail-above", "50"];
    let arguments = [&["ab", "--by", "rate", "-m", RATE][..], &commands].concat();
    let ran = bench.run(&arguments);
    assert_eq!(ran.status.code(), Some(0), "{}{}", text(&ran.stdout), text(&ran.stderr));
    let printed = bench.run(&[&arguments[..], &["--print-study"]].concat());
    bench.write("printed.toml", &printed.stdout);
    let ours = bench.json(&["--json", "plan", "printed.toml"]);
    let mut ran = bench.json(&["--json", "report"]);
    let mut ours = ours;
    // The study leaves the seed to each run.
    for design in [&mut ran["run"]["design"], &mut ours["design"]] {
        design["seed"].take();
    }
    assert_eq!(ran["run"]["design"], ours["design"]);
    let texts = |factors: &serde_json::Value| factors.to_string();
    assert_eq!(texts(&ran["run"]["factors"]), texts(&ours["factors"]));
}

#[test]
fn a_command_that_fails_is_told_and_one_that_floods_is_measured() {
    let bench = Bench::new();
    let failing = bench.run(&["ab", "sh -c 'echo no room >&2; exit 3'", "true", "--budget", "10min"]);
    let told = text(&failing.stderr);
    assert_eq!(failing.status.code(), Some(1), "{told}");
    assert!(told.contains("exit code 3") && told.contains("no room") && told.contains("--ignore-exit"), "{told}");
    // Its one trial took the budget: that was exit code 0, and with a gate 5, with which jobs pass.
    for gate in [&[][..], &["--fail-above", "5%"]] {
        let slow = ["ab", "true", "sh -c 'sleep 2; exit 3'", "--budget", "1s"];
        let failing = bench.run(&[&slow[..], gate].concat());
        let told = text(&failing.stderr);
        assert_eq!(failing.status.code(), Some(1), "{gate:?}: {told}");
        assert!(told.contains("error: nothing could be measured: ") && told.contains("--ignore-exit"), "{told}");
    }
    let piped = bench.run(&["ab", "echo a | cat", "true"]);
    assert_eq!(piped.status.code(), Some(2));
    assert!(text(&piped.stderr).contains("'|' is for a shell; add --shell"), "{}", text(&piped.stderr));
    let flood =
        ["head -c 20000000 /dev/zero", "head -c 20000000 /dev/zero", "--output", "keep", "-i", "--budget", "2s"];
    let flood = bench.run(&[&["--json", "ab"], &flood[..]].concat());
    assert_eq!(flood.status.code(), Some(0), "{}", text(&flood.stderr));
}

/// What its first step had made stayed, and the run was one that somebody had killed.
#[test]
fn a_setup_that_fails_is_cleaned_up_and_its_run_has_failed() {
    let bench = Bench::new();
    let steps = ["-s", "touch made", "-s", "false", "-c", "rm made"];
    let failed = bench.run(&[&["ab", "true", "true", "--budget", "10min"][..], &steps].concat());
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed.stderr));
    assert!(text(&failed.stderr).contains("setup: "), "{}", text(&failed.stderr));
    assert!(!bench.path("made").exists(), "its cleanup was not run");
    let history = bench.json(&["--json", "history"]);
    assert_eq!(history["runs"][0]["state"], "failed", "{history:#}");
}

#[test]
fn a_killed_comparison_leaves_nothing_and_is_resumed() {
    let bench = with_rate();
    let arguments = ["ab", "--by", "rate", "-m", RATE, "sh rate 100", "sh rate 120", "--budget", "24h"];
    let mut command = bench.command(&arguments);
    let mut lab = stopped_at(command.stdout(Stdio::null()).stderr(Stdio::null()), "trial-stored");
    let before = children(lab.id());
    kill(&mut lab);
    let end = Instant::now() + Duration::from_secs(180);
    while before.iter().any(|&child| lives(child)) {
        assert!(Instant::now() < end, "its agent is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
    let ran = bench.run(&["--quiet", "resume"]);
    let out = text(&ran.stdout);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert!(out.starts_with("  A  sh rate 100 ") && out.contains("B / A = 1.20"), "as `ab` shows it: {out}");
    let resumed = bench.json(&["--json", "report"]);
    sound(&resumed);
    let row = &resumed["ratios"][0];
    assert!(row["metric"] == "rate" && is_ratio(row, 1.2), "{row:#}");
    assert_eq!(row["blocks"], rows(&resumed, "trials").len(), "every trial counts: {row:#}");
}

/// One command writes into a pipe what the other reads: whichever ran alone would wait for the other until its time-out.
#[test]
fn both_commands_of_a_duet_run_at_the_same_time_and_a_killed_one_is_resumed() {
    if !std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        println!("skipped: a duet needs two CPUs");
        return;
    }
    let bench = Bench::new();
    assert!(Command::new("mkfifo").arg(bench.path("pipe")).status().unwrap().success());
    let options = ["ab", "--duet", "--by", "cpu_s", "--shell", "--warmup", "0", "--timeout", "2min"];
    let printed = bench.run(&[&options[..], &["--print-study", "echo a >pipe", "read x <pipe"]].concat());
    assert!(printed.status.success(), "{}", text(&printed.stderr));
    // Each runs once in a phase.
    bench.write("duet.toml", text(&printed.stdout).replace("repeat = true", "repeat = false"));
    let planned = unbroken(&bench.run(&["plan", "duet.toml"]).stdout);
    assert!(planned.contains("run at the same time on CPUs"), "{planned}");
    let mut command = bench.command(&["run", "duet.toml", "--quick"]);
    let mut lab = stopped_at(command.stdout(Stdio::null()).stderr(Stdio::null()), "trial-stored");
    kill(&mut lab);
    let ran = bench.run(&["--quiet", "resume"]);
    let out = unbroken(&ran.stdout);
    assert!(ran.status.success(), "{out}{}", text(&ran.stderr));
    assert!(out.contains("run at the same time on CPUs") && out.contains(", which they swap"), "{out}");
    let document = bench.json(&["--json", "report"]);
    sound(&document);
    let cpus = document["run"]["duet"]["cpus"].as_array().unwrap();
    assert!(cpus.len() == 2 && cpus[0] != cpus[1], "{cpus:?}");
    let row = &document["ratios"][0];
    assert_eq!(row["metric"], "cpu_s", "{row:#}");
    // What the machine does meanwhile may make a trial not count.
    assert!(row["blocks"].as_u64().is_some_and(|blocks| blocks <= 6), "{row:#}");
    assert_eq!(rows(&document, "trials").len(), 6);
    assert!(!rows(&document, "ratios").iter().any(|row| row["metric"] == "wall_s"), "{document:#}");
}

#[test]
fn the_example_of_init_runs_as_it_is_printed_and_list_alone_lists() {
    let bench = Bench::new();
    let example = bench.run(&["init"]);
    bench.write("mine.toml", text(&example.stdout).replace("budget = \"60 s\"", "budget = \"2 s\""));
    // What it compares is played, so that nothing but a shell is needed.
    let gzip = bench.write("gzip", "#!/bin/sh\necho 'data: 42.5%' >&2\n");
    fs::set_permissions(gzip, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bench.folder.path().display(), std::env::var("PATH").unwrap());
    let ran = bench.command(&["--json", "--quiet", "run", "mine.toml"]).env("PATH", path).output().unwrap();
    assert_eq!((ran.status.code(), text(&ran.stderr)), (Some(0), String::new()));
    let document: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    sound(&document);
    let saved: Vec<_> = rows(&document, "estimates").iter().filter(|row| row["metric"] == "saved_percent").collect();
    assert!(saved.len() == 2 && saved.iter().all(|row| row["estimate"] == 42.5), "{saved:#?}");
    let listed = bench.run(&["list"]);
    assert!(listed.status.success() && text(&listed.stdout).contains("standard"), "{}", text(&listed.stderr));
}

#[test]
fn list_has_what_each_study_answers_and_how_long_it_takes() {
    let bench = Bench::new();
    let titles = bench.json(&["list", "studies", "--json"]);
    let of = |name: &str| titles["studies"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone();
    let title = of("star-random-access").get("title").unwrap().as_str().unwrap().to_owned();
    // Lines are wrapped.
    let list = |arguments: &[&str]| {
        let words = text(&bench.run(arguments).stdout);
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let listed = list(&["list"]);
    assert_eq!(listed.matches("(at most ").count(), titles["studies"].as_array().unwrap().len(), "{listed}");
    assert!(listed.contains(" star-random-access ") && !listed.contains(", took"), "{listed}");
    // A quick run says nothing about the study's time; a complete one does. A file of that name is found first.
    bench.write("star-random-access", PLAYED.replace("a played study", &title));
    for (arguments, took) in
        [(&["run", "star-random-access", "--quick"][..], false), (&["run", "star-random-access"], true)]
    {
        let ran = bench.run(arguments);
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        let listed = list(&["list", "studies"]);
        assert_eq!(listed.matches(", took ").count(), usize::from(took), "{listed}");
    }
}
