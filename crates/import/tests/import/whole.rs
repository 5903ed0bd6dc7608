//! What whole files give.

use crate::{FIXTURES, csv, fixture, of, values};
use baremark_import::{Better, FORMATS, ImportError, read};

fn close(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 1e-9, "{value} is not {expected}");
}

#[test]
fn every_format_has_a_fixture_and_is_recognised() {
    for (name, format) in FIXTURES {
        assert_eq!(of(&fixture(name)).format, *format, "{name}");
        // Named, it is read as well.
        assert!(read(fixture(name).as_bytes(), Some(format), &[]).is_ok(), "{name}");
    }
    for format in FORMATS.iter().filter(|format| format.name != "csv") {
        assert!(FIXTURES.iter().any(|(_, of)| *of == format.name), "{} has no fixture", format.name);
    }
    assert!(matches!(read(b"nothing that is known", None, &[]), Err(ImportError::Unknown)));
    let why = read(b"x", Some("fyo"), &[]).unwrap_err().to_string();
    assert!(why.starts_with("no format 'fyo'; write one of hyperfine, fio"), "{why}");
}

#[test]
fn hyperfine_has_each_run() {
    let imported = of(&fixture("hyperfine.json"));
    assert_eq!(imported.benchmarks().len(), 2);
    assert!(imported.free_names, "commands are what is compared");
    let first = imported.benchmarks()[0];
    assert_eq!(values(&imported, first, "wall_s").len(), 12);
    assert!(first.starts_with("gzip -1") && values(&imported, first, "wall_s").iter().all(|time| *time < 1.0));
    assert_eq!(imported.measured[0].metric.better, Better::Lower);
}

#[test]
fn fio_has_both_directions_and_what_was_done() {
    let imported = of(&fixture("fio.json"));
    assert_eq!(imported.program, "fio 3.33");
    assert_eq!(imported.benchmarks(), ["readers read", "readers write"]);
    for (direction, key) in [("read", "latency_mean_ns"), ("write", "latency_p99_ns"), ("read", "iops")] {
        assert_eq!(values(&imported, &format!("readers {direction}"), key).len(), 1);
    }
    let parameter = |key: &str| imported.parameters.get(key).map(String::as_str);
    assert_eq!((parameter("bs"), parameter("rw"), parameter("filename")), (Some("4k"), Some("randrw"), None));
    assert!(imported.unix_s.is_some_and(|seconds| seconds > 1_700_000_000));
}

#[test]
fn google_benchmark_has_repetitions_without_aggregates() {
    let imported = of(&fixture("google-benchmark.json"));
    let times = values(&imported, "BM_Sort/1024", "real_time_ns");
    assert_eq!(times.len(), 3);
    close(times[0], 17_100.0);
    close(values(&imported, "BM_Copy", "cpu_time_ns")[0], 810.0);
    assert_eq!((imported.host.as_deref(), imported.cpus), (Some("builder"), Some(8)));
    assert_eq!(imported.program, "Google Benchmark 1.8.3");
    assert_eq!(imported.notes, ["BM_Broken failed and is left out: no file"]);
}

#[test]
fn criterion_has_the_time_of_an_iteration() {
    let imported = of(&fixture("criterion-messages.json"));
    assert_eq!(values(&imported, "sort/small", "time_ns"), [250.0, 251.0, 248.0]);
    assert_eq!(values(&imported, "sort/large", "time_ns"), [81_000.0, 80_000.0]);
    let sample = of(&fixture("criterion-sample.json"));
    close(values(&sample, "", "time_ns")[1], 120.5);
    close(values(&of(&fixture("criterion-estimates.json")), "", "time_ns")[0], 120.3);
    assert_eq!(values(&of(&fixture("criterion-raw.csv")), "parse/quick/1024", "time_ns"), [500.0, 510.0]);
}

#[test]
fn pgbench_has_its_summary_and_what_a_log_comes_to() {
    let imported = of(&fixture("pgbench.txt"));
    assert_eq!(imported.program, "pgbench 15.18");
    close(values(&imported, "", "transactions_per_s")[0], 357.847_049);
    close(values(&imported, "", "latency_mean_ms")[0], 5.589);
    assert_eq!(imported.parameters["clients"], "2");
    // The log of the same run: two clients were busy all the time, so that rate and latency belong together.
    let log = of(&fixture("pgbench.log"));
    let (rate, mean) = (values(&log, "", "transactions_per_s")[0], values(&log, "", "latency_mean_ms")[0]);
    assert!((rate * mean / 1e3 / 2.0 - 1.0).abs() < 0.1, "{rate} {mean}");
    assert!((rate / 357.8 - 1.0).abs() < 0.1, "{rate}");
    assert!(values(&log, "", "latency_p99_ms")[0] > mean);
    let intervals = of("1795378779 100 50000 1 1 1\n1795378780 300 150000 1 1 1\n1795378781 7 1 1 1 1\n");
    close(values(&intervals, "", "transactions_per_s")[0], 200.0);
    close(values(&intervals, "", "latency_mean_ms")[0], 0.5);
    let aggregate = of(&fixture("pgbench-aggregate.log"));
    assert!(values(&aggregate, "", "transactions_per_s")[0] > 1.0 && aggregate.notes[0].contains("last interval"));
    let before_14 = "transaction type: x\nlatency average: 1.500 ms\ntps = 90.0 (including connections establishing)\n\
                     tps = 91.5 (excluding connections establishing)\n";
    close(values(&of(before_14), "", "transactions_per_s")[0], 91.5);
}

#[test]
fn sysbench_has_the_figures_of_each_test() {
    let cpu = of(&fixture("sysbench-cpu.txt"));
    close(values(&cpu, "", "events_per_s")[0], 3055.22);
    close(values(&cpu, "", "latency_p95_ms")[0], 0.24);
    assert_eq!((cpu.program.as_str(), cpu.parameters["prime_limit"].as_str()), ("sysbench 1.0.20", "10000"));
    let memory = of(&fixture("sysbench-memory.txt"));
    close(values(&memory, "", "memory_mib_per_s")[0], 4761.41);
    close(values(&memory, "", "operations_per_s")[0], 4_875_685.79);
    assert_eq!(memory.parameters["operation"], "write");
    assert!(memory.notes.iter().any(|note| note.contains("latency_mean_ms are 0")), "{:?}", memory.notes);
    let files = of(&fixture("sysbench-fileio.txt"));
    close(values(&files, "", "reads_per_s")[0], 7307.62);
    close(values(&files, "", "written_mib_per_s")[0], 76.12);
}

#[test]
fn wrk_has_rate_and_latencies_and_refuses_errors() {
    let imported = of(&fixture("wrk.txt"));
    close(values(&imported, "", "requests_per_s")[0], 1494.87);
    close(values(&imported, "", "latency_mean_ms")[0], 1.56);
    close(values(&imported, "", "latency_p99_ms")[0], 6.62);
    assert_eq!((imported.parameters["connections"].as_str(), imported.parameters["duration"].as_str()), ("2", "1s"));
    let refused = fixture("wrk.txt").replace("Requests/sec", "  Non-2xx or 3xx responses: 1502\nRequests/sec");
    assert!(crate::why(&refused).contains("line 12: 1502 responses were errors"), "{}", crate::why(&refused));
}

#[test]
fn k6_and_iperf3_have_their_ends() {
    let imported = of(&fixture("k6-summary.json"));
    close(values(&imported, "", "requests_per_s")[0], 599.7);
    close(values(&imported, "", "duration_p95_ms")[0], 25.75);
    assert_eq!(imported.notes, ["0.2 % of the requests failed"]);
    close(values(&of(&fixture("k6-handle.json")), "", "iterations_per_s")[0], 29.9);
    let tcp = of(&fixture("iperf3.json"));
    assert!(values(&tcp, "", "bits_per_s")[0] > 1e6);
    assert_eq!((tcp.program.as_str(), tcp.parameters["protocol"].as_str()), ("iperf3 3.12", "TCP"));
    let udp = of(&fixture("iperf3-udp.json"));
    assert!(values(&udp, "", "jitter_ms")[0] > 0.0 && udp.parameters["protocol"] == "UDP");
    let failed = r#"{"start":{"test_start":null},"intervals":[],"end":{},"error":"unable to connect"}"#;
    assert!(crate::why(failed).contains("no result: unable to connect"), "{}", crate::why(failed));
}

#[test]
fn hpcc_has_its_summary_without_tests_that_did_not_run() {
    let imported = of(&fixture("hpcc.txt"));
    close(values(&imported, "", "HPL_Tflops")[0], 0.005_845_63);
    close(values(&imported, "", "StarSTREAM_Triad")[0], 85.9039);
    close(values(&imported, "", "MPIRandomAccess_GUPs")[0], 0.085_573_1);
    assert!(!imported.metrics().iter().any(|metric| metric.key.contains("PingPong")), "one process has no ring");
    assert_eq!((imported.parameters["HPL_N"].as_str(), imported.program.as_str()), ("200", "HPCC 1.5.0"));
    assert_eq!((imported.host.as_deref(), imported.unix_s.is_some()), (Some("vm"), true));
    let failed = fixture("hpcc.txt").replace("\nSuccess=1", "\nSuccess=0");
    assert!(crate::why(&failed).contains(": Success=0: a test of the suite failed"), "{}", crate::why(&failed));
}

#[test]
fn phoronix_has_runs_units_and_directions() {
    let imported = of(&fixture("phoronix.xml"));
    let zip = "7-Zip Compression - Test: Compression Rating";
    assert_eq!(values(&imported, zip, "mips_more"), [51_000.0, 51_250.0, 51_350.0]);
    let kernel = "Timed Linux Kernel Compilation - Build: defconfig";
    assert_eq!(values(&imported, kernel, "seconds_less"), [88.412]);
    assert_eq!(imported.host.as_deref(), Some("web01"));
    let table = of(&fixture("phoronix.csv"));
    assert_eq!(values(&table, &format!("{zip} - web02"), "mips_more"), [98_000.0]);
    assert_eq!(values(&table, &format!("{kernel} - web01"), "seconds_less"), [88.412]);
}

#[test]
fn csv_has_the_columns_that_are_named() {
    let imported = csv(&fixture("times.csv"), "test,seconds:lower:s,rate:higher:1/s").unwrap();
    assert_eq!(values(&imported, "parse", "seconds"), [0.125, 0.126]);
    assert_eq!(values(&imported, "write", "rate"), [2.0]);
    let metric = &imported.measured[1].metric;
    assert_eq!((metric.unit.as_str(), metric.better), ("1/s", Better::Higher));
    let why = csv(&fixture("times.csv"), "test,second:lower").unwrap_err().to_string();
    assert_eq!(why, "csv: line 1: no column 'second'; the file has test, seconds, rate, comment");
    let why = csv(&fixture("times.csv"), "test").unwrap_err().to_string();
    assert!(why.contains("no column is a metric"), "{why}");
}
