//! One study in every place at once, as users run it: the shipped study, shrunk, with the real programs behind each place.

use crate::bench::{Bench, kvm};
use crate::cluster::Cluster;
use crate::sites::{Program, wait_for};
use crate::sshd::Server;
use crate::trials::{Ends, all};
use serde_json::Value;
use std::fs;
use std::path::Path;

const SHIPPED: &str = include_str!("../../../../studies/places.toml");

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
fn one_study_runs_in_seven_places() {
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernel");
    let (Some(server), Some(cluster)) = (Server::start(), Cluster::start()) else { return };
    if !kvm() || !kernel.join("vmlinuz").exists() {
        eprintln!("skipped: the study of seven places: no /dev/kvm, or no kernel for guests");
        return;
    }
    let program = Program::new();
    let bench = Bench::new();
    let study = bench.write("places.toml", shrunk(&server, &cluster, &kernel));
    let document = program.document(&bench, &study);
    assert_eq!(document["absent"].as_array().unwrap().len(), 0, "{}", document["absent"]);
    let trials = document["trials"].as_array().unwrap();
    for place in ["native", "microvm", "qemu", "sandbox", "container", "ssh", "slurm"] {
        let ran = trials.iter().any(|trial| trial.to_string().contains(&format!("\"{place}\"")));
        assert!(ran, "no trial in {place}");
    }
    assert_eq!(Ends::of(&all(&document)).failed, 0, "{document:#}");
    let ratios = document["ratios"].as_array().unwrap();
    let of = |place: &str| ratios.iter().find(|row| row["treatment"]["environment"] == place).unwrap_or(&Value::Null);
    let counts = |place: &str| {
        let of = |trial: &&Value| trial["status"] == "ok" && trial.to_string().contains(&format!("\"{place}\""));
        trials.iter().filter(of).count() > 0
    };
    // A host that is short of memory may move the pages of a machine, which is found and makes the trial void.
    for place in ["microvm", "qemu", "sandbox", "container", "ssh", "slurm"].into_iter().filter(|place| counts(place)) {
        assert!(of(place)["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{place}: {ratios:?}");
    }
    assert_eq!(program.processes(), [""; 0]);
    wait_for(|| cluster.jobs().is_empty().then_some(()));
    assert_eq!(server.left(), [""; 0]);
    assert!(fs::read_dir(cluster.shared()).unwrap().next().is_none());
}
