//! One study in every place at once, as users run it: the shipped study, shrunk, with the real programs behind each place.

use super::cluster::Cluster;
use super::ssh::Server;
use super::{Program, slurm};
use crate::bench::{Bench, kvm};
use serde_json::Value;
use std::fs;
use std::path::Path;

const SHIPPED: &str = include_str!("../../../../../studies/places.toml");

/// The shipped study for this machine: one guest for the whole run, small tables, the fewest blocks.
fn shrunk(server: &Server, cluster: &Cluster, kernel: &Path) -> String {
    let host = format!("host = \"machine\"\nconfig = \"{}\"", server.config().display());
    let cluster = format!("[environments.slurm]\nconfig = \"{}\"", cluster.config().display());
    let design = "phase = \"10 ms\"\nquads = 1\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"8 min\"";
    SHIPPED
        .replace("\"64 MiB\"", "\"4 MiB\"")
        .replace("host = \"localhost\"", &host)
        .replace("[environments.slurm]", &cluster)
        .replace(
            "[environments.qemu]",
            &format!("[environments.qemu]\nkernel = \"{}\"\naccel = \"tcg\"\nvcpus = 1", kernel.display()),
        )
        .replace("budget = \"10 min\"", design)
}

#[test]
fn one_study_runs_in_six_places() {
    let _alone = slurm::alone();
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernel");
    let (Some(server), Some(cluster)) = (Server::start(), Cluster::start()) else { return };
    if !kvm() || !kernel.join("vmlinuz").exists() {
        eprintln!("skipped: the study of six places: no /dev/kvm, or no kernel for guests");
        return;
    }
    let program = Program::new();
    let bench = Bench::new();
    let study = bench.write("places.toml", shrunk(&server, &cluster, &kernel));
    let document = program.document(&bench, &study);
    assert_eq!(document["absent"].as_array().unwrap().len(), 0, "{}", document["absent"]);
    let trials = document["trials"].as_array().unwrap();
    for place in ["native", "microvm", "qemu", "container", "ssh", "slurm"] {
        let ran = trials.iter().any(|trial| trial.to_string().contains(&format!("\"{place}\"")));
        assert!(ran, "no trial in {place}");
    }
    for trial in trials {
        let reasons = trial["reasons"].as_array().map(Vec::as_slice).unwrap_or_default();
        // A host that is short of memory may move the pages of a machine, which is found and makes the trial void.
        let moved = |reason: &Value| reason.as_str().is_some_and(|why| why.contains("page faults handled by KVM"));
        let status = trial["status"]["status"].as_str().or(trial["status"].as_str());
        let void = status == Some("void") && !reasons.is_empty() && reasons.iter().all(moved);
        assert!(status == Some("ok") || void, "{trial}");
    }
    let ratios = document["ratios"].as_array().unwrap();
    let of = |place: &str| ratios.iter().find(|row| row["treatment"]["environment"] == place).unwrap_or(&Value::Null);
    for place in ["microvm", "qemu", "container", "ssh", "slurm"] {
        assert!(of(place)["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{place}: {ratios:?}");
    }
    assert_eq!(program.processes(), [""; 0]);
    assert_eq!(cluster.jobs(), [""; 0]);
    assert_eq!(server.left(), [""; 0]);
    assert!(fs::read_dir(cluster.shared()).unwrap().next().is_none());
}
