//! Known causes of a loss are injected, and must be named: by a run's first screen, and by `explain`. A control comes first. The injections are
//! those of `make soak-causes`: large losses, and those of a quarter of the rate, whose strength is looked for on the machine at hand. What the
//! machine lacks is a counted skip, and so is an injection of the wrong strength and, for a large loss, a control that names the cause already,
//! as on a busy machine; one before a loss of a quarter fails.

use crate::common::bench::{Bench, text};
use std::path::Path;
use std::process::Command;

/// Injects a large loss of one kind.
fn injected(kind: &str) {
    inject(kind, &[]);
}

/// Injects a loss of a quarter of the rate; strengths that were found here are known to the next round.
fn mild(kind: &str) {
    let strengths = Path::new(env!("CARGO_TARGET_TMPDIR")).join("strengths.json");
    inject(kind, &["--mild", "--strengths", strengths.to_str().unwrap()]);
}

/// Runs `scripts/injections` for one kind, and passes on what it skipped; what was found is the figure of the test.
fn inject(kind: &str, options: &[&str]) {
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
        .args(options)
        .arg(kind)
        .output()
        .unwrap();
    let out = text(&ran.stdout);
    out.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| eprintln!("{line}"));
    assert!(ran.status.success(), "{out}{}", text(&ran.stderr));
    let found = out.lines().find_map(|line| line.strip_prefix(&format!("{kind}: ")));
    if let Some(found) = found {
        println!("measured: {}", found.split_once(';').map_or(found, |(figure, _)| figure));
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

#[test]
fn page_walks_are_named_as_the_cause_of_a_loss_of_a_quarter() {
    mild("page-walks");
}

#[test]
fn longer_page_walks_are_named_as_the_cause_of_a_loss_of_a_quarter() {
    mild("walk-time");
}

#[test]
fn a_neighbour_that_takes_a_quarter_from_the_cpu_of_one_arm_is_named() {
    mild("cpu-hog");
}

#[test]
fn a_neighbour_that_takes_a_quarter_from_the_memory_of_one_arm_is_named() {
    mild("memory-neighbour");
}

#[test]
fn a_processor_that_loses_a_quarter_is_named() {
    mild("cpu");
}

#[test]
fn a_queue_for_one_cpu_that_costs_a_quarter_is_named() {
    mild("neighbour");
}

#[test]
fn memory_that_is_short_by_a_quarter_of_the_rate_is_named() {
    mild("memory");
}

#[test]
fn a_disk_whose_throttle_costs_a_quarter_is_named() {
    mild("disk");
}

#[test]
fn a_link_that_costs_a_quarter_is_named() {
    mild("network");
}

#[test]
fn a_server_that_costs_a_quarter_is_named() {
    mild("server");
}
