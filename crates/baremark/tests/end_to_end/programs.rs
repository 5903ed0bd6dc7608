//! The shipped studies of external programs, shrunk, with the real programs; and what a run does with bad ones.

use crate::bench::{Bench, kvm};
use crate::environments::qemu::{alone, fetched};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The text of a shipped study with its numbers made small.
fn shrunk(study: &str, changes: &[(&str, &str)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../studies/{study}.toml"));
    let text = std::fs::read_to_string(path).unwrap();
    // One treatment, and of it one trial: a budget this small has room for no more.
    let text: String =
        text.lines().filter(|line| !line.starts_with("ratio_to")).map(|line| format!("{line}\n")).collect();
    let changes = changes.iter().chain(&[("budget", "\"1 s\"")]);
    changes.fold(text, |text, (key, value)| {
        let of_key = |line: &str| line.starts_with(&format!("{key} = "));
        assert!(text.lines().any(of_key), "{study} has no {key}");
        let lines = text.lines().map(|line| if of_key(line) { format!("{key} = {value}") } else { line.to_owned() });
        lines.collect::<Vec<_>>().join("\n")
    })
}

/// Whether all programs are there; what is missing is reported.
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
    let counted = document["trials"].as_array().unwrap().iter().filter(|trial| trial["status"] == "ok");
    assert!(counted.count() >= 1, "{complaints}\n{document:#}");
    document
}

/// The estimate of a metric in the first treatment that has it.
fn estimate(document: &Value, metric: &str) -> f64 {
    let rows = document["estimates"].as_array().unwrap();
    let row = rows.iter().find(|row| row["metric"] == metric);
    let row = row.unwrap_or_else(|| panic!("no {metric} in {:#}", document["estimates"]));
    row["estimate"].as_f64().unwrap_or_else(|| panic!("{row:#}"))
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
    // A rate is operations / time, and the means of several runs are no less apart than that.
    let operations = 2.0 / 3.0 * 300.0_f64.powi(3) + 1.5 * 300.0_f64.powi(2);
    let done = estimate(&document, "HPL_Tflops") * 1e12 * estimate(&document, "HPL_time");
    assert!(done > 0.95 * operations, "{done} of {operations}");
    assert!(estimate(&document, "MPIRandomAccess_ErrorsFraction") <= 0.01);
}

/// What HPC Challenge's summary says in addition to its results: versions, sizes of types and problems, how it was built and run.
const SETTINGS: &[&str] = &[
    "Version",
    "LANG",
    "Success",
    "sizeof_",
    "CommWorldProcs",
    "MPI_Wtick",
    "HPL_eps",
    "HPL_Rnorm",
    "HPL_Anorm",
    "HPL_Xnorm",
    "HPL_Bnorm",
    "HPL_N",
    "HPL_n",
    "HPL_depth",
    "HPL_c",
    "HPL_order",
    "HPL_dMACH",
    "HPL_sMACH",
    "HPLM",
    "dweps",
    "sweps",
    "DGEMM_N",
    "PTRANS_n",
    "MPIRandomAccess_LCG_N",
    "MPIRandomAccess_N",
    "RandomAccess_LCG_N",
    "RandomAccess_N",
    "STREAM_",
    "FFT_N",
    "FFTE",
    "MPIFFT_N",
    "MPIFFT_Procs",
    "M_OPENMP",
    "omp_",
    "Mem",
    "CPS_",
];
/// Of what a share of errors or a rate is made, which are the results.
const PARTS: &[&str] = &["_Errors", "_ExeUpdates", "_TimeBound", "_Algorithm"];

/// With an odd number of processes, all of which must be in the grid of the dense solve.
#[test]
fn the_summary_of_hpcc_holds_no_result_that_the_study_does_not_read() {
    if !has("hpcc", &["hpcc", "mpirun"]) {
        return;
    }
    let text = shrunk("hpcc", &[("n", "200"), ("nb", "32"), ("processes", "3")]);
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("summary");
    let mpirun = "mpirun --allow-run-as-root --oversubscribe --bind-to none -np $0 hpcc";
    let script = format!("{mpirun} && cp hpccoutf.txt {}", kept.display());
    let (before, rest) = text.split_once("argv = [").unwrap();
    let (_, after) = rest.split_once("]\n").unwrap();
    document(&format!("{before}argv = [\"sh\", \"-c\", \"{script}\", \"{{processes}}\"]\n{after}"));
    let summary = std::fs::read_to_string(kept).unwrap();
    let (_, summary) = summary.split_once("Begin of Summary section").unwrap();
    let told: Vec<(&str, &str)> = summary.lines().filter_map(|line| line.split_once('=')).collect();
    assert!(told.len() > 140, "{told:?}");
    let value = |key: &str| told.iter().find(|(told, _)| *told == key).map(|(_, value)| *value);
    assert_eq!((value("HPL_nprow"), value("HPL_npcol"), value("CommWorldProcs")), (Some("1"), Some("3"), Some("3")));
    let is_read = |key: &str| text.lines().any(|line| line.starts_with(&format!("{key} = {{ unit")));
    let is_setting =
        |key: &str| SETTINGS.iter().any(|start| key.starts_with(start)) || PARTS.iter().any(|part| key.ends_with(part));
    let unread: Vec<_> = told.iter().filter(|(key, _)| !is_read(key) && !is_setting(key)).collect();
    assert!(unread.is_empty(), "{unread:?}");
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
        all_positive(&of_threads, &["rounds_per_s", "latency_p99_ms"]);
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
    if has("gromacs-mpi", &["gmx", "gmx_mpi", "mpirun"]) {
        let changes = [("nanometres", "\"2.5\""), ("steps", "200"), ("processes", "2")];
        let document = document(&shrunk("gromacs-mpi", &changes));
        all_positive(&document, &["ns_per_day", "step_us", "communication"]);
        // 2 fs a step. The mean of several rates is no less than the rate of the mean time.
        let ns_per_day = 86_400.0 / (estimate(&document, "step_us") * 1e-6) * 2e-6;
        let share = ns_per_day / estimate(&document, "ns_per_day");
        assert!((0.05..1.05).contains(&share), "{ns_per_day} in {document:#}");
    }
}

#[test]
#[ignore = "soak: builds Apache httpd"]
fn apache_is_compiled_and_runs() {
    let sources = std::env::var("CARGO_TARGET_DIR").map_or_else(
        |_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sources"),
        |target| Path::new(&target).join("sources"),
    );
    let Ok(tarball) = sources.join("apache2.tar.gz").canonicalize() else {
        println!("skipped: study compile-apache: no source; scripts/fetch-sources gets it");
        return;
    };
    let tarball = format!("{tarball:?}");
    let native = [("tarball", tarball.as_str()), ("ranks", "2"), ("environment", "\"native\"")];
    let document = document(&shrunk("compile-apache", &native));
    all_positive(&document, &["wall_s", "cpu_s"]);
    assert!(estimate(&document, "files_per_s") > 0.1);
}

/// Two sites: this one, and a name space of its own at the other end of a cable that is not there.
#[test]
fn messages_go_between_two_networks() {
    let ip =
        |arguments: &str| Command::new("ip").args(arguments.split(' ')).output().is_ok_and(|ran| ran.status.success());
    let number = std::process::id() % 10_000;
    let (space, here, there) = (format!("bmk{number}"), format!("bmh{number}"), format!("bmt{number}"));
    let net = format!("10.{}.{}", 100 + number / 250 % 100, number % 250);
    if !ip(&format!("netns add {space}")) {
        println!("skipped: study ping-pong between networks: no right to make a network name space");
        return;
    }
    let _space = Gone(space.clone());
    assert!(ip(&format!("link add {here} type veth peer name {there} netns {space}")));
    assert!(ip(&format!("addr add {net}.1/24 dev {here}")) && ip(&format!("link set {here} up")));
    assert!(
        ip(&format!("-n {space} addr add {net}.2/24 dev {there}")) && ip(&format!("-n {space} link set {there} up"))
    );
    let peer = format!("{net}.2:7007");
    let mut echo = Command::new("ip")
        .args(["netns", "exec", &space, env!("CARGO_BIN_EXE_baremark"), "echo", "--listen", &peer])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(echo.stdout.take().unwrap()), &mut line).unwrap();
    let text = |transport: &str| {
        let text = shrunk("ping-pong", &[("message", "\"1 KiB\""), ("transport", transport), ("phase", "\"200 ms\"")]);
        text.replace("kind = \"ping-pong\"", &format!("kind = \"ping-pong\"\npeer = \"{peer}\""))
    };
    let documents = [document(&text("\"tcp\"")), document(&text("\"udp\""))];
    echo.kill().unwrap();
    echo.wait().unwrap();
    assert_eq!(line, format!("listening on {peer}\n"));
    documents.iter().for_each(|document| all_positive(document, &["latency_p50_us", "latency_mean_us", "bandwidth"]));
}

/// A network name space that goes with its end of the cable.
struct Gone(String);

impl Drop for Gone {
    fn drop(&mut self) {
        drop(Command::new("ip").args(["netns", "del", &self.0]).status());
    }
}

#[test]
fn java_warehouses_and_desktop_users_run_as_their_studies_say() {
    if has("jvm-warehouse", &["java", "javac"]) {
        let huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        // Where everybody gets huge pages there is no heap of small ones; where nobody does there is none of huge ones.
        let levels: &[&str] = match () {
            () if huge.contains("[always]") => &["thp"],
            () if huge.contains("[madvise]") => &["4k", "thp"],
            () => &["4k"],
        };
        for pages in levels {
            let pages = format!("{pages:?}");
            let text = shrunk("jvm-warehouse", &[&SMALL_HEAP[..], &NATIVE, &[("pages", &pages)]].concat());
            all_positive(
                &document(&text.replace("[factors]", "warm = \"200 ms\"\n[factors]")),
                &["transactions_per_s"],
            );
        }
    }
    let sessions = shrunk("sessions", &[&FEW_USERS[..], &NATIVE].concat());
    assert_eq!(estimate(&document(&sessions), "users_within_limit"), 2.0);
}

const NATIVE: [(&str, &str); 2] = [("environment", "\"native\""), ("ranks", "1")];
const SMALL_HEAP: [(&str, &str); 3] = [("heap", "\"128 MiB\""), ("time", "\"1 s\""), ("gc", "\"parallel\"")];
const FEW_USERS: [(&str, &str); 5] =
    [("most", "2"), ("each", "\"2 MiB\""), ("pace", "\"20 ms\""), ("limit", "\"1 min\""), ("time", "\"200 ms\"")];

/// A shipped study with these changes in an emulated guest of one vCPU; `None` where there is none here.
fn in_a_guest(study: &str, memory: &str, changes: &[(&str, &str)]) -> Option<Value> {
    let kernel = fetched();
    if !kernel.join("vmlinuz").exists() {
        eprintln!("skipped: study {study}: no kernel for guests; run scripts/fetch-kernel");
        return None;
    }
    let guest = [("environment", "\"qemu\""), ("ranks", "1"), ("memory", memory)];
    let text = shrunk(study, &[changes, &guest].concat());
    let emulated = format!("[environments.qemu]\nkernel = {kernel:?}\naccel = \"tcg\"");
    Some(document(&text.replace("[environments.qemu]", &emulated)))
}

/// The mechanics of desktop users in a guest: emulated, it says nothing of costs.
#[test]
fn desktop_users_run_in_a_guest() {
    let _alone = alone();
    let Some(document) = in_a_guest("sessions", "\"512 MiB\"", &FEW_USERS) else { return };
    assert_eq!(estimate(&document, "users_within_limit"), 2.0);
}

/// The same of what takes an emulated processor minutes: a Java machine and a compiler, which are this machine's own.
#[test]
#[ignore = "soak: runs Java and builds Apache httpd on an emulated processor"]
fn java_and_a_compiler_run_in_guests() {
    let _alone = alone();
    if has("jvm-warehouse", &["java", "javac"]) {
        let small = [&SMALL_HEAP[..], &[("pages", "\"4k\"")]].concat();
        let Some(document) = in_a_guest("jvm-warehouse", "\"1 GiB\"", &small) else { return };
        all_positive(&document, &["transactions_per_s"]);
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sources");
    let Ok(tarball) = sources.join("apache2.tar.gz").canonicalize() else {
        println!("skipped: study compile-apache: no source; scripts/fetch-sources gets it");
        return;
    };
    let Some(document) = in_a_guest("compile-apache", "\"4 GiB\"", &[("tarball", &format!("{tarball:?}"))]) else {
        return;
    };
    all_positive(&document, &["wall_s", "cpu_s"]);
}

/// Every kernel micro-benchmark natively, in a container and in a guest, on one CPU and on two: that each gives a time there.
/// One block is enough for that, and one boot of each guest.
#[test]
fn kernel_micro_benchmarks_run_in_guests_and_containers_over_their_cpus() {
    let _alone = alone();
    let memory = format!("\"256 MiB\"\nkernel = {:?}\naccel = \"tcg\"", fetched());
    let changes = [("ranks", "[1, 2]"), ("memory", &*memory), ("fresh", "\"run\""), ("precision", "\"20 %\"")];
    let text =
        shrunk("mmu-guests", &changes).replace("budget = \"1 s\"", "budget = \"10 min\"\nphase = \"50 ms\"\nquads = 1");
    let bench = Bench::new();
    let (document, said) = bench.first_block(&text);
    let absent = document["absent"].as_array().unwrap();
    for row in absent {
        println!("skipped: study mmu-guests: {}", row["reason"].as_str().unwrap_or_default());
    }
    let has = |rows: &[Value], levels: [&str; 3]| {
        let of = |row: &Value| {
            ["workload", "environment", "ranks"].map(|key| row["treatment"][key].as_str().unwrap_or_default()) == levels
        };
        rows.iter()
            .any(|row| of(row) && (row["reason"].is_string() || row["estimate"].as_f64().is_some_and(|ns| ns > 0.0)))
    };
    let estimates = document["estimates"].as_array().unwrap();
    for kind in ["segv", "pcd", "nps", "fw", "syscall"] {
        for place in ["native", "container", "qemu"] {
            for ranks in ["1", "2"] {
                let levels = [kind, place, ranks];
                assert!(has(estimates, levels) || has(absent, levels), "{levels:?}: {said:#?}");
            }
        }
    }
}

const BAD: &str = r#"
[study]
title = "a program that does not do what it should"
[workload]
kind = "command"
timeout = "3 s"
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
    let of = |status: &str| trials.iter().filter(|trial| trial["status"] == status).count();
    assert_eq!((of("ok"), of("failed")), (4, 3), "{document:#}");
    let reason = trials.iter().find_map(|trial| trial["reason"].as_str()).unwrap();
    let expected = "sh did not end within 3 s and was ended with all that it had started; its last words:\n    rate 1";
    assert!(reason.ends_with(expected), "{reason}");
    assert!(!is_running("1234.5"));
}

#[test]
fn a_program_in_the_microvm_that_does_not_end_is_ended_and_says_where_it_stood() {
    if !kvm() {
        return;
    }
    let bench = Bench::idle();
    let inside = BAD.replace("[factors]", "[factors]\nenvironment = \"microvm\"");
    bench.write("study.toml", inside.replace("sleep 1234.5", "exec sleep 3456.5"));
    let ran = bench.command(&["--json", "run", "study.toml"]).output().unwrap();
    let complaints = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{complaints}");
    let document: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let trials = document["trials"].as_array().unwrap();
    let reason = trials.iter().find_map(|trial| trial["reason"].as_str()).unwrap();
    // It waits in clock_nanosleep(2).
    let expected = [
        "the program did not end within 3 s and was killed; thread ".to_owned(),
        format!(" is in system call {} from 0x", libc::SYS_clock_nanosleep),
    ];
    assert!(expected.iter().all(|words| reason.contains(words)), "{reason}");
    assert!(!is_running("3456.5"));
}

/// A lab that is killed takes the agent with it, that its keeper, and that the program.
#[test]
fn a_killed_lab_leaves_no_program() {
    let bench = Bench::new();
    bench.write("study.toml", BAD.replace("timeout = \"3 s\"", "timeout = \"10 min\"").replace("1234.5", "4321.5"));
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
