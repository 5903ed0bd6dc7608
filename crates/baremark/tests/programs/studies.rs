//! The shipped studies of external programs, shrunk, with the real programs.

use crate::common::installed::has;
use crate::common::shrunk::{NATIVE, SMALL_HEAP, all_positive, document, estimate, shrunk};
use std::path::Path;

#[test]
fn hpcc_gives_every_result_of_its_summary() {
    if !has("study hpcc", &["hpcc", "mpirun"]) {
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
    if !has("study hpcc", &["hpcc", "mpirun"]) {
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
    if has("study lammps-melt", &["lmp", "mpirun"]) {
        let document = document(&shrunk("lammps-melt", &[("cells", "6"), ("steps", "50")]));
        all_positive(&document, &["step_us", "communication", "wall_s"]);
    }
}

#[test]
fn sysbench_counts() {
    if has("study sysbench-cpu", &["sysbench"]) {
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
    if has("study stress-ng", &["stress-ng"]) {
        let document = document(&shrunk("stress-ng", &[("seconds", "1"), ("stressor", "\"switch\"")]));
        all_positive(&document, &["operations_per_s", "operations_per_cpu_s"]);
    }
    if has("study fio", &["fio"]) {
        let changes = [("seconds", "1"), ("size", "\"4m\""), ("depth", "4"), ("direct", "0"), ("access", "\"randrw\"")];
        let document = document(&shrunk("fio", &changes));
        let bandwidth = estimate(&document, "read_iops") * 4096.0 / 1e6;
        assert!((bandwidth / estimate(&document, "read_bandwidth") - 1.0).abs() < 0.02);
        assert!(estimate(&document, "read_p50_us") <= estimate(&document, "read_p99_9_us"));
        all_positive(&document, &["write_iops", "write_mean_us", "write_p99_us"]);
    }
    if has("study iperf3", &["iperf3"]) {
        let document = document(&shrunk("iperf3", &[("seconds", "1"), ("streams", "2")]));
        all_positive(&document, &["received", "receiver_cpu"]);
    }
}

#[test]
#[ignore = "soak: gromacs is large"]
fn gromacs_moves_water_that_the_study_poured() {
    if has("study gromacs-water", &["gmx"]) {
        let changes = [("nanometres", "\"2.5\""), ("steps", "200"), ("threads", "1")];
        all_positive(&document(&shrunk("gromacs-water", &changes)), &["ns_per_day"]);
    }
    if has("study gromacs-mpi", &["gmx", "gmx_mpi", "mpirun"]) {
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
    all_positive(&document, &["files_per_s"]);
}

#[test]
fn java_warehouses_run_as_their_study_says() {
    if has("study jvm-warehouse", &["java", "javac"]) {
        let huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        // Where everybody gets huge pages there is no heap of small ones; where nobody does there is none of huge ones.
        let levels: &[&str] = match () {
            () if huge.contains("[always]") => &["thp"],
            () if huge.contains("[madvise]") => &["4k", "thp"],
            () => &["4k"],
        };
        for pages in levels {
            let pages = format!("{pages:?}");
            let text = shrunk("jvm-warehouse", &[&SMALL_HEAP[..], &NATIVE, &[("heap_pages", &pages)]].concat());
            all_positive(
                &document(&text.replace("[factors]", "warm_up = \"200 ms\"\n[factors]")),
                &["transactions_per_s"],
            );
        }
    }
}
