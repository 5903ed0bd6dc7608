//! Known causes of a loss are injected, and must be named: by a run's first screen, and by `explain`. A control comes first; one that names
//! the cause already, as on a busy machine, and what the machine lacks are counted skips. The injections are those of `make soak`.

use crate::common::bench::{Bench, text};
use std::path::Path;
use std::process::Command;

/// Runs `scripts/injections` for one kind, and passes on what it skipped; what was found is the figure of the test.
fn injected(kind: &str) {
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
        .arg(kind)
        .output()
        .unwrap();
    let out = text(&ran.stdout);
    out.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| eprintln!("{line}"));
    assert!(ran.status.success(), "{out}{}", text(&ran.stderr));
    let found = out.lines().find_map(|line| line.strip_prefix(&format!("{kind}: ")));
    if let Some(found) = found {
        println!("measured: {found}");
    }
    let skipped = format!("injection {kind}:");
    assert!(found.is_some() || out.contains(&skipped), "{kind} was neither tried nor skipped: {out}");
}

#[test]
fn page_walks_are_named_as_the_cause_of_a_loss() {
    injected("page-walks");
}

#[test]
fn longer_page_walks_are_named_as_the_cause_of_a_loss() {
    injected("walk-time");
}

#[test]
fn exits_from_the_microvm_are_named_as_the_cause_of_a_loss() {
    injected("exits");
}

#[test]
fn a_neighbour_on_the_cpu_of_one_arm_is_named_by_what_it_takes() {
    injected("cpu-hog");
}

#[test]
fn a_neighbour_at_the_memory_of_one_arm_is_named_by_what_it_takes() {
    injected("memory-neighbour");
}

#[test]
fn a_saturated_processor_is_named() {
    injected("cpu");
}

#[test]
fn a_queue_for_one_cpu_is_named() {
    injected("neighbour");
}

#[test]
fn short_memory_is_named() {
    injected("memory");
}

#[test]
fn a_throttled_disk_is_named() {
    injected("disk");
}

#[test]
fn a_slow_link_is_named() {
    injected("network");
}

#[test]
fn a_slow_server_is_named() {
    injected("server");
}
