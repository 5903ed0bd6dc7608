//! Two runs at once on one machine: what is said, what is recorded, and how one waits for the other.

use crate::common::bench::{Bench, ENDLESS, signal, text};
use std::io::{BufRead, BufReader, Read};
use std::process::Child;

/// Trials of a tenth of a second.
const BRIEF: &str = "[study]\ntitle = \"brief\"\n[workload]\nkind = \"command\"\n[command]\nargv = [\"sleep\", \"0.1\"]\n\
                     [design]\nleast_blocks = 4\nmost_blocks = 4\n";

/// A run that has stored its first block.
fn measuring(bench: &Bench) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut lab = bench.spawn(&["run", "long.toml"]);
    let mut said = BufReader::new(lab.stderr.take().unwrap());
    until(&mut said, "block 1 is stored");
    (lab, said)
}

fn until(said: &mut impl BufRead, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "the program ended before '{words}'");
    }
}

#[test]
fn a_second_run_warns_and_both_record_the_other() {
    let bench = Bench::new();
    bench.write("long.toml", ENDLESS);
    bench.write("brief.toml", BRIEF);
    let (mut long, mut said) = measuring(&bench);
    let brief = bench.run(&["run", "brief.toml", "--json"]);
    let warned = text(&brief.stderr);
    assert!(brief.status.success(), "{warned}");
    assert!(warned.contains("on this machine now: each disturbs the other") && warned.contains("--wait"), "{warned}");
    let nothing = bench.run(&["resume"]);
    let why = text(&nothing.stderr);
    assert!(
        nothing.status.code() == Some(2) && why.contains("nothing to resume: run ") && why.contains(" measures now"),
        "{why}"
    );
    signal(long.id(), libc::SIGINT);
    said.read_to_string(&mut String::new()).unwrap();
    assert_eq!(long.wait().unwrap().code(), Some(130));

    let flagged = |document: &serde_json::Value, other: &serde_json::Value| {
        let wanted = format!("run {} measured on this machine at the same time", other["run"]["id"].as_str().unwrap());
        let flags = document["flags"].as_array().unwrap();
        flags.iter().any(|flag| flag["text"] == wanted.as_str())
    };
    let brief: serde_json::Value = serde_json::from_slice(&brief.stdout).unwrap();
    let history = bench.json(&["history", "--json"]);
    let id = history["runs"].as_array().unwrap().iter().find(|run| run["study"] == "long").unwrap()["id"].clone();
    let long = bench.json(&["report", id.as_str().unwrap(), "--json"]);
    assert!(flagged(&brief, &long), "{:#}", brief["flags"]);
    assert!(flagged(&long, &brief), "{:#}", long["flags"]);
    // Alone, nothing is said.
    let alone = bench.run(&["run", "brief.toml", "--json"]);
    assert!(!text(&alone.stderr).contains("on this machine now"), "{}", text(&alone.stderr));
    assert!(!text(&alone.stdout).contains("at the same time"), "{}", text(&alone.stdout));
}

#[test]
fn a_run_that_waits_begins_when_the_other_has_ended() {
    let bench = Bench::new();
    bench.write("long.toml", ENDLESS);
    bench.write("brief.toml", BRIEF);
    let (mut long, mut said) = measuring(&bench);
    // Both wait, and then take turns.
    let mut waiting: Vec<Child> = (0..2).map(|_| bench.spawn(&["--wait", "run", "brief.toml", "--json"])).collect();
    for lab in &mut waiting {
        let mut heard = BufReader::new(lab.stderr.take().unwrap());
        until(&mut heard, "waiting: run ");
    }
    // One that waits can be interrupted.
    let mut given_up = bench.spawn(&["run", "--wait", "brief.toml"]);
    until(&mut BufReader::new(given_up.stderr.take().unwrap()), "waiting: run ");
    signal(given_up.id(), libc::SIGINT);
    assert_eq!(given_up.wait().unwrap().code(), Some(130));
    signal(long.id(), libc::SIGINT);
    said.read_to_string(&mut String::new()).unwrap();
    long.wait().unwrap();
    for lab in waiting {
        let ran = lab.wait_with_output().unwrap();
        let told = text(&ran.stdout);
        assert!(ran.status.success() && !told.contains("at the same time"), "{told}");
    }
}
