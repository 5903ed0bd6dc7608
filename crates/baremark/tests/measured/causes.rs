//! Known causes of a loss are injected, and must be named: by a run's first screen, and by `explain`. A control comes first; one that names
//! the cause already, as on a busy machine, and what the machine lacks are counted skips. The injections are those of `make soak`.

use crate::common::bench::{Bench, text};
use std::path::Path;
use std::process::Command;

/// Runs `scripts/injections` for these kinds, and passes on what it skipped.
fn injected(kinds: &[&str]) {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: no python3");
        return;
    }
    let bench = Bench::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/injections");
    let ran = Command::new("python3")
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_baremark"))
        .arg(bench.path("injections"))
        .args(kinds)
        .output()
        .unwrap();
    let out = text(&ran.stdout);
    out.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| eprintln!("{line}"));
    assert!(ran.status.success(), "{out}{}", text(&ran.stderr));
    for kind in kinds {
        let line =
            |line: &str| line.starts_with(&format!("{kind}: named")) || line.contains(&format!("injection {kind}:"));
        assert!(out.lines().any(line), "{kind} was neither tried nor skipped: {out}");
    }
}

#[test]
fn page_walks_are_named_as_the_cause_of_a_loss() {
    injected(&["page-walks"]);
}

#[test]
fn neighbours_in_the_phases_of_one_arm_are_named_by_what_they_take() {
    injected(&["cpu-hog", "memory-neighbour"]);
}

#[test]
fn saturated_layers_of_the_machine_are_named() {
    injected(&["cpu", "neighbour", "memory"]);
}

#[test]
fn a_throttled_disk_a_slow_link_and_a_slow_server_are_named() {
    injected(&["disk", "network", "server"]);
}
