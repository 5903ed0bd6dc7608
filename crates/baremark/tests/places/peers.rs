//! What a study's work needs beyond its own site: files that are brought there, and other ends at other sites.

use crate::bench::{Bench, children, root};
use crate::cluster::Cluster;
use crate::qemu;
use crate::sites::{Program, wait_for};
use crate::sshd::Server;
use crate::trials::{Ends, all};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// The settings of emulated guests, where there is a kernel for them; else a line that is counted.
fn guest() -> Option<String> {
    let kernel = qemu::fetched();
    if !kernel.join("vmlinuz").exists() {
        eprintln!("skipped: no kernel for guests; run scripts/fetch-kernel");
        return None;
    }
    let kernel = kernel.canonicalize().unwrap();
    let kernel = format!("kernel = \"{}\"", kernel.display());
    Some(format!(
        "[environments.qemu]\n{kernel}\naccel = \"tcg\"\nvcpus = 1\nmemory = \"768 MiB\"\nnet = \"user\"\nfresh = \"run\"\n"
    ))
}

fn machine(server: &Server) -> String {
    format!("[environments.ssh]\nhost = \"machine\"\nconfig = \"{}\"\nfresh = \"run\"\n", server.config().display())
}

/// Every treatment's estimate of a metric; a treatment without one fails the test.
fn estimates(document: &Value, metric: &str) -> Vec<(Value, f64)> {
    let rows = document["estimates"].as_array().unwrap().iter().filter(|row| row["metric"] == metric);
    rows.map(|row| (row["treatment"].clone(), row["estimate"].as_f64().unwrap_or_else(|| panic!("{row}")))).collect()
}

fn no_trial_failed(document: &Value) {
    assert_eq!(document["absent"].as_array().map(Vec::len), Some(0), "{}", document["absent"]);
    let ends = Ends::of(&all(document));
    assert!(ends.failed == 0 && ends.ok > 0, "{document:#}");
}

/// What ended with the run is soon gone: on a busy machine not at once.
fn nothing_is_left(program: &Program) {
    wait_for(|| program.processes().is_empty().then_some(()));
    let guest = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("qemu"));
    assert_eq!(children(std::process::id()).into_iter().filter(guest).count(), 0);
}

#[test]
fn messages_pass_between_the_sites_of_one_study() {
    let (Some(guest), Some(server)) = (guest(), Server::start()) else { return };
    let program = Program::new();
    let bench = Bench::new();
    let common = format!(
        "[environments.container]\nnetwork = \"host\"\nfresh = \"run\"\n{}{guest}\
         [design]\nphase = \"60 ms\"\nquads = 1\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"3 min\"\nprecision = \"50 %\"\n",
        machine(&server)
    );
    for (environments, peers, transport) in [
        (&["container", "qemu", "ssh"][..], &["site:native", "site:qemu"][..], "tcp"),
        (&["native"], &["site:container", "site:ssh"], "tcp"),
        (&["native"], &["site:qemu"], "udp"),
    ] {
        let study = format!(
            "[study]\ntitle = \"to and fro\"\n[workload]\nkind = \"ping-pong\"\nmessage = \"256 B\"\n\
             [factors]\nenvironment = {environments:?}\npeer = {peers:?}\ntransport = {transport:?}\nranks = 1\n{common}"
        );
        let study = bench.write("ping-pong.toml", study);
        let document = program.document(&bench, &study);
        no_trial_failed(&document);
        for metric in ["latency_mean_us", "messages_per_s"] {
            let rows = estimates(&document, metric);
            assert_eq!(rows.len(), environments.len() * peers.len(), "{metric}: {rows:?}");
            assert!(rows.iter().all(|(_, value)| *value > 0.0), "{rows:?}");
        }
        nothing_is_left(&program);
        wait_for(|| server.left().is_empty().then_some(()));
    }
}

/// On the lab's bridge sites reach each other at addresses of their own; what is on this machine's loopback is led to them.
#[test]
fn sites_on_the_bridge_of_a_run_reach_each_other_and_this_machine() {
    let (Some(guest), true) = (guest(), root()) else { return };
    let program = Program::new();
    let bench = Bench::new();
    let study = format!(
        "[study]\ntitle = \"to and fro\"\n[workload]\nkind = \"ping-pong\"\nmessage = \"256 B\"\n\
         [factors]\nenvironment = [\"native\", \"container\"]\npeer = [\"site:native\", \"site:qemu\"]\nranks = 1\n\
         [environments.container]\nnetwork = \"lab\"\nfresh = \"run\"\n{}\
         [design]\nphase = \"60 ms\"\nquads = 1\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"3 min\"\nprecision = \"50 %\"\n",
        guest.replace("net = \"user\"", "net = \"lab\"")
    );
    let study = bench.write("ping-pong.toml", study);
    let document = program.document(&bench, &study);
    no_trial_failed(&document);
    let rows = estimates(&document, "messages_per_s");
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert!(rows.iter().all(|(_, value)| *value > 0.0), "{rows:?}");
    nothing_is_left(&program);
}

/// Sums the numbers of a file that the study writes, and says so.
const SUM: &str = r#"
#include <stdio.h>
int main(int argc, char **argv) {
    FILE *file = fopen(argv[1], "r");
    long sum = 0, number;
    if (!file) { perror(argv[1]); return 3; }
    while (fscanf(file, "%ld", &number) == 1) sum += number;
    printf("sum: %ld\n", sum);
    return 0;
}
"#;

const COMMAND: &str = r#"
[study]
title = "a program that is brought"
[workload]
kind = "command"
timeout = "60 s"
[command]
argv = ["{folder}/bin/sum", "numbers.txt"]
[command.parameters]
n = 40
[command.files]
"numbers.txt" = "{n}\n2\n"
[command.bring]
"bin/sum" = "SUM"
[command.metrics]
sum = { unit = "1", better = "higher", regex = 'sum: (?<value>\d+)' }
[design]
least_blocks = 4
most_blocks = 4
budget = "3 min"
phase = "50 ms"
quads = 1
"#;

#[test]
fn a_program_and_its_files_are_brought_wherever_it_runs() {
    let (Some(guest), Some(server), Some(cluster)) = (guest(), Server::start(), Cluster::start()) else { return };
    let program = Program::new();
    let bench = Bench::new();
    let source = bench.write("sum.c", SUM);
    let compiled = Command::new("cc").args(["-O1", "-static", "-o"]).arg(bench.path("sum")).arg(source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no cc that makes static programs");
        return;
    }
    let study = COMMAND.replace("SUM", bench.path("sum").to_str().unwrap())
        + "[factors]\nenvironment = [\"native\", \"container\", \"qemu\", \"ssh\", \"slurm\"]\nranks = 1\n"
        + &guest
        + &machine(&server)
        + &format!("[environments.slurm]\nconfig = \"{}\"\nfresh = \"run\"\n", cluster.config().display());
    let study = bench.write("study.toml", study);
    let document = program.document(&bench, &study);
    no_trial_failed(&document);
    let sums = estimates(&document, "sum");
    assert_eq!(sums.len(), 5, "{sums:?}");
    assert!(sums.iter().all(|(_, sum)| *sum == 42.0), "{sums:?}");
    nothing_is_left(&program);
    wait_for(|| (server.left().is_empty() && cluster.jobs().is_empty()).then_some(()));
}

/// One trial of the shipped study of HPCC, small, in a place with these settings: every part of it gives its result there.
fn hpcc_gives_its_results(place: &str, settings: &str) {
    let shipped = include_str!("../../../../studies/hpcc.toml");
    let study = shipped.replace("\nn = 8000 ", "\nn = 300 ").replace("\nnb = 100\n", "\nnb = 32\n");
    // A budget this small has room for one trial, which runs it once.
    let study = study.replace("budget = \"30 min\"", "budget = \"1 s\"\nquads = 0");
    let study = format!("{study}\n[factors]\nenvironment = [\"{place}\"]\nranks = 1\n{settings}");
    let bench = Bench::new();
    let study = bench.write("hpcc.toml", study);
    let document = bench.json(&["run", "--json", study.to_str().unwrap()]);
    no_trial_failed(&document);
    for metric in ["HPL_Tflops", "PTRANS_GBs", "MPIFFT_Gflops", "StarSTREAM_Triad"] {
        let rows = estimates(&document, metric);
        assert!(rows.len() == 1 && rows[0].1 > 0.0, "{place}: {metric}: {rows:?}");
    }
}

/// Whether HPCC and Open MPI are here; what is missing is reported.
fn hpcc_is_here() -> bool {
    let there = |program: &&str| Command::new("which").arg(program).output().is_ok_and(|ran| ran.status.success());
    let missing = ["hpcc", "mpirun"].into_iter().find(|program| !there(program));
    if let Some(missing) = missing {
        eprintln!("skipped: {missing} is not installed");
    }
    missing.is_none()
}

#[test]
fn hpcc_runs_on_another_machine_from_its_generated_input() {
    let Some(server) = hpcc_is_here().then(Server::start).flatten() else { return };
    hpcc_gives_its_results("ssh", &machine(&server));
    wait_for(|| server.left().is_empty().then_some(()));
}

#[test]
#[ignore = "soak: MPI inside a job of Slurm, whose processes wait for each other on few CPUs"]
fn programs_under_mpi_run_in_a_job_of_slurm() {
    let Some(cluster) = hpcc_is_here().then(Cluster::start).flatten() else { return };
    hpcc_gives_its_results("slurm", &format!("[environments.slurm]\nconfig = \"{}\"\n", cluster.config().display()));
    wait_for(|| cluster.jobs().is_empty().then_some(()));
}
