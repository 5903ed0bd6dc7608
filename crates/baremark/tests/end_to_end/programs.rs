//! The shipped studies of external programs, shrunk, with the real programs; and what a run does with bad ones.

use crate::bench::Bench;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The text of a shipped study with its numbers made small.
fn shrunk(study: &str, changes: &[(&str, &str)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../studies/{study}.toml"));
    let text = std::fs::read_to_string(path).unwrap();
    // One trial is what a budget this small has room for.
    let changes = changes.iter().chain(&[("budget", "\"1 s\"")]);
    changes.fold(text, |text, (key, value)| {
        let of_key = |line: &str| line.starts_with(&format!("{key} = "));
        assert!(text.lines().any(of_key), "{study} has no {key}");
        let lines = text.lines().map(|line| if of_key(line) { format!("{key} = {value}") } else { line.to_owned() });
        lines.collect::<Vec<_>>().join("\n")
    })
}

/// Whether all programs are there; what is missing is told.
fn has(study: &str, programs: &[&str]) -> bool {
    let there = |program: &&str| Command::new("which").arg(program).output().is_ok_and(|ran| ran.status.success());
    match programs.iter().find(|program| !there(program)) {
        None => true,
        Some(missing) => {
            println!("skipped: study {study}: {missing} is not installed");
            false
        }
    }
}

/// Runs a study; its document.
fn document(text: &str) -> Value {
    let bench = Bench::new();
    bench.write("study.toml", text);
    let ran = bench.command(&["--json", "run", "study.toml"]).output().unwrap();
    let complaints = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{complaints}");
    let document: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let counted = document["trials"].as_array().unwrap().iter().filter(|trial| trial["status"]["status"] == "ok");
    assert!(counted.count() >= 1, "{complaints}\n{document:#}");
    document
}

/// The estimate of a metric in the first treatment that has it.
fn estimate(document: &Value, metric: &str) -> f64 {
    let rows = document["estimates"].as_array().unwrap();
    let row = rows.iter().find(|row| row["metric"] == metric);
    let row = row.unwrap_or_else(|| panic!("no {metric} in {:#}", document["estimates"]));
    row["value"].as_f64().unwrap_or_else(|| panic!("{row:#}"))
}

fn all_positive(document: &Value, metrics: &[&str]) {
    for metric in metrics {
        assert!(estimate(document, metric) > 0.0, "{metric}");
    }
}

#[test]
fn hpcc_gives_every_result_of_its_summary() {
    if !has("hpcc", &["hpcc", "mpirun"]) {
        return;
    }
    let text = shrunk("hpcc", &[("n", "300"), ("nb", "32"), ("processes", "2")]);
    let document = document(&text);
    all_positive(
        &document,
        &[
            "HPL_Tflops",
            "StarDGEMM_Gflops",
            "PTRANS_GBs",
            "MPIRandomAccess_GUPs",
            "StarRandomAccess_GUPs",
            "SingleRandomAccess_LCG_GUPs",
            "StarSTREAM_Triad",
            "MPIFFT_Gflops",
            "MaxPingPongLatency_usec",
            "RandomlyOrderedRingBandwidth_GBytes",
        ],
    );
    // Seconds that HPL took, and operations that it did, tell its rate again.
    let operations = 2.0 / 3.0 * 300.0_f64.powi(3) + 1.5 * 300.0_f64.powi(2);
    let rate = operations / estimate(&document, "HPL_time") / 1e12;
    let told = estimate(&document, "HPL_Tflops");
    assert!((rate / told - 1.0).abs() < 0.6, "{rate} and {told}");
    assert!(estimate(&document, "MPIRandomAccess_ErrorsFraction") <= 0.01);
}

#[test]
fn lammps_melts_a_crystal_that_the_study_made() {
    if has("lammps-melt", &["lmp", "mpirun"]) {
        let document = document(&shrunk("lammps-melt", &[("cells", "6"), ("steps", "50")]));
        all_positive(&document, &["step_us", "communication", "wall_s"]);
    }
}

#[test]
fn sysbench_counts() {
    if has("sysbench-cpu", &["sysbench"]) {
        let of_cpu = document(&shrunk("sysbench-cpu", &[("seconds", "1"), ("threads", "1")]));
        all_positive(&of_cpu, &["events_per_s", "latency_p99_ms"]);
        let of_memory = document(&shrunk("sysbench-memory", &[("seconds", "1"), ("block", "\"1M\"")]));
        let blocks = estimate(&of_memory, "operations_per_s") * f64::from(1 << 20) / 1e6;
        let bandwidth = estimate(&of_memory, "bandwidth");
        assert!((blocks / bandwidth - 1.0).abs() < 0.02, "{blocks} and {bandwidth}");
        let of_threads = document(&shrunk("sysbench-threads", &[("seconds", "1"), ("threads", "2")]));
        all_positive(&of_threads, &["rounds", "latency_p99_ms"]);
    }
}

#[test]
fn stress_ng_and_fio_and_iperf3_are_read() {
    if has("stress-ng", &["stress-ng"]) {
        let document = document(&shrunk("stress-ng", &[("seconds", "1"), ("stressor", "\"switch\"")]));
        all_positive(&document, &["operations_per_s", "operations_per_cpu_s"]);
    }
    if has("fio", &["fio"]) {
        let changes = [("seconds", "1"), ("size", "\"4m\""), ("depth", "4"), ("direct", "0"), ("access", "\"randrw\"")];
        let document = document(&shrunk("fio", &changes));
        let bandwidth = estimate(&document, "read_iops") * 4096.0 / 1e6;
        assert!((bandwidth / estimate(&document, "read_bandwidth") - 1.0).abs() < 0.02);
        assert!(estimate(&document, "read_p50_us") <= estimate(&document, "read_p99_9_us"));
        all_positive(&document, &["write_iops", "write_mean_us", "write_p99_us"]);
    }
    if has("iperf3", &["iperf3"]) {
        let document = document(&shrunk("iperf3", &[("seconds", "1"), ("streams", "2")]));
        all_positive(&document, &["received", "receiver_cpu"]);
    }
}

#[test]
#[ignore = "soak: gromacs is large"]
fn gromacs_moves_water_that_the_study_poured() {
    if has("gromacs-water", &["gmx"]) {
        let changes = [("nanometres", "\"2.5\""), ("steps", "200"), ("threads", "1")];
        all_positive(&document(&shrunk("gromacs-water", &changes)), &["ns_per_day"]);
    }
}

const BAD: &str = r#"
[study]
title = "a program that does not do what it should"
[workload]
kind = "command"
timeout = "1 s"
[command]
argv = ["sh", "-c", "{script}"]
[command.parameters]
script = "true"
[command.metrics.rate]
unit = "1/s"
better = "higher"
regex = 'rate (?<value>\S+)'
[factors]
script = ["echo rate 1", "echo rate 1; sleep 1234.5"]
[design]
least_blocks = 4
most_blocks = 4
"#;

#[test]
fn a_treatment_that_hangs_is_given_up_and_the_other_goes_on() {
    let bench = Bench::new();
    bench.write("study.toml", BAD);
    let ran = bench.command(&["--json", "run", "study.toml"]).output().unwrap();
    let complaints = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{complaints}");
    let document: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let trials = document["trials"].as_array().unwrap();
    let of = |status: &str| trials.iter().filter(|trial| trial["status"]["status"] == status).count();
    assert_eq!((of("ok"), of("failed")), (4, 3), "{document:#}");
    let reason = trials.iter().find_map(|trial| trial["status"]["reason"].as_str()).unwrap();
    let expected = "sh did not end within 1 s and was ended with all that it had started; its last words:\n    rate 1";
    assert!(reason.ends_with(expected), "{reason}");
    assert!(complaints.contains("3 trials in a row did not count, so this comparison is given up"), "{complaints}");
    assert!(!is_running("1234.5"));
}

/// A lab that is killed takes the agent with it, that its keeper, and that the program.
#[test]
fn a_killed_lab_leaves_no_program() {
    let bench = Bench::new();
    bench.write("study.toml", BAD.replace("timeout = \"1 s\"", "timeout = \"10 min\"").replace("1234.5", "4321.5"));
    let mut lab = bench.spawn(&["run", "study.toml"]);
    crate::environments::wait_for(|| is_running("4321.5").then_some(()));
    lab.kill().unwrap();
    lab.wait().unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while is_running("4321.5") {
        assert!(std::time::Instant::now() < deadline, "the program outlived its lab");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_running(word: &str) -> bool {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| line.split(|&byte| byte == 0).any(|argument| argument == word.as_bytes()))
}
