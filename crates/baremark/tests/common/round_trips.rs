//! LAMMPS on two nodes of network namespaces, by the shipped study of round trips.

use super::bench::{Bench, root, text};
use super::consolidation::command;
use super::tiers::have;
use serde_json::Value;
use std::fs;

/// The study with its shared memory and its shortest and longest round trip: its document; `None` where something is missing.
pub fn ran(bench: &Bench) -> Option<Value> {
    if !root() || !have(&["lmp", "mpirun"]) {
        return None;
    }
    let shipped = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/mpi-latency.toml")).unwrap();
    let shorter = [
        (
            "\"shared memory\", \"0 us\", \"50 us\", \"100 us\", \"500 us\", \"1000 us\"]",
            "\"shared memory\", \"0 us\", \"1000 us\"]",
        ),
        ("cells = [8, 16]", "cells = 6"),
        ("steps = 400", "steps = 200"),
        ("least_blocks = 4", "least_blocks = 1\nmost_blocks = 1"),
    ];
    let study = shorter.iter().fold(shipped, |study, (long, short)| {
        assert!(study.contains(long), "{long}");
        study.replace(long, short)
    });
    // A program that no level names is a mistake in a study.
    let study = ["50 us", "100 us", "500 us"].iter().fold(study, |study, name| {
        let (before, rest) = study.split_once(&format!("[commands.\"{name}\"]")).unwrap();
        let after = rest.find("\n[").unwrap();
        format!("{before}{}", &rest[after + 1..])
    });
    bench.write("mpi.toml", study);
    let output = command(bench, &["run", "mpi.toml", "--json"]).output().unwrap();
    let said = text(&output.stderr);
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}")))
}

/// The estimate of a metric for a program of the study.
pub fn estimate(result: &Value, metric: &str, command: &str) -> Option<f64> {
    let rows = result["estimates"].as_array().unwrap().iter();
    let mut own = rows.filter(|row| row["metric"] == metric && row["treatment"]["command"] == command);
    own.next().and_then(|row| row["estimate"].as_f64())
}
