//! Random sequences of system calls: what is drawn, and what never is. The suite `kernel` compares them.

use crate::support::{PROBE, natively};
use std::process::Command;

#[test]
fn a_sequence_is_the_same_in_every_run_and_smaller_without_some_of_its_steps() {
    let folder = tempfile::tempdir().unwrap();
    let run = |left_out: &str| {
        let output = Command::new(PROBE).args(["sequence", "7", left_out]).current_dir(folder.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let whole = run("");
    assert_eq!(run(""), whole);
    let steps = |text: &str| text.lines().filter(|line| line.starts_with("step ")).count();
    assert!((5..=30).contains(&steps(&whole)), "{whole}");
    assert_eq!(steps(&run("0,2")), steps(&whole) - 2);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left in the folder");
}

#[test]
fn what_sequences_never_call_is_in_the_guide() {
    let guide = include_str!("../../../../docs/guide.md");
    let listed = natively(PROBE, &["never"]).stdout;
    let missing: Vec<&str> = listed
        .lines()
        .map(|line| line.split(':').next().unwrap())
        .filter(|name| !guide.contains(&format!("`{name}`")))
        .collect();
    assert!(listed.lines().count() > 30 && missing.is_empty(), "not in docs/guide.md: {missing:?}");
}
