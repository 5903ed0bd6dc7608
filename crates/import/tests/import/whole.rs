//! What whole files give.

use crate::{FIXTURES, csv, fixture, of, read, values};
use baremark_import::{Better, FORMATS, ImportError};

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

/// Four copies of a job were four values of a quarter of the rate each, as if it had been measured four times.
#[test]
fn copies_of_a_job_of_fio_are_one_value() {
    let job = |name: &str, iops: f64, ios: u64, mean: f64, error: u64| {
        format!(
            "{{\"jobname\":\"{name}\",\"groupid\":0,\"error\":{error},\"job options\":{{\"bs\":\"4k\"}},\
             \"read\":{{\"io_bytes\":4096,\"iops\":{iops},\"total_ios\":{ios},\"lat_ns\":{{\"mean\":{mean}}},\
             \"clat_ns\":{{\"mean\":1,\"percentile\":{{\"99.000000\":5}}}}}},\"write\":{{\"io_bytes\":0,\"iops\":0}}}}"
        )
    };
    let file = |jobs: &[String]| format!("{{\"fio version\":\"fio-3.33\",\"jobs\":[{}]}}", jobs.join(","));
    let both = [job("j", 100.0, 300, 10.0, 0), job("j", 50.0, 100, 30.0, 0)];
    let imported = of(&file(&both));
    assert_eq!(values(&imported, "j read", "iops"), [150.0]);
    assert_eq!(values(&imported, "j read", "latency_mean_ns"), [15.0]);
    assert_eq!((imported.metrics().len(), imported.parameters["bs"].as_str()), (2, "4k"));
    assert!(imported.notes[0].starts_with("2 jobs named j ran at once: their rates are added"), "{:?}", imported.notes);
    // Of copies of which one failed the rest is a part.
    let [one, _] = &both;
    let failed = of(&file(&[one.clone(), job("j", 1.0, 1, 1.0, 5), job("k", 7.0, 1, 1.0, 0)]));
    assert_eq!(failed.benchmarks(), ["k read"]);
    assert_eq!(failed.notes, ["job j ended with error 5 and is left out"]);
}

#[test]
fn google_benchmark_has_repetitions_without_aggregates() {
    let imported = of(&fixture("google-benchmark.json"));
    let times = values(&imported, "sum/1024", "real_time_ns");
    assert_eq!(times.len(), 3);
    close(times[0], 1_267.414_806_013_720_2);
    // The file has microseconds here.
    close(values(&imported, "copy/4096", "cpu_time_ns")[0], 54.858_779_193_271_71);
    assert_eq!((imported.host.as_deref(), imported.cpus), (Some("vm"), Some(2)));
    assert_eq!(imported.program, "Google Benchmark", "1.7.1 does not write its version");
    let notes = ["the benchmark library was built for debugging", "broken failed and is left out: no file"];
    assert_eq!(imported.notes, notes, "three repetitions failed for one reason");
    let newer =
        fixture("google-benchmark.json").replace("\"load_avg\"", "\"library_version\": \"v1.8.3\", \"load_avg\"");
    assert_eq!(of(&newer).program, "Google Benchmark 1.8.3");
}

#[test]
fn criterion_has_the_time_of_an_iteration() {
    let imported = of(&fixture("criterion-messages.json"));
    assert_eq!(imported.benchmarks().len(), 4);
    let times = values(&imported, "sort/stable/100", "time_ns");
    assert_eq!(times.len(), 12);
    close(times[0], 263_463.0 / 659.0);
    close(values(&imported, "sort/unstable/10000", "time_ns")[11], 86_116_996.0 / 972.0);
    let sample = of(&fixture("criterion-sample.json"));
    close(values(&sample, "", "time_ns")[1], 2_347_299.0 / 2_414.0);
    close(values(&of(&fixture("criterion-estimates.json")), "", "time_ns")[0], 1_040.116_879_739_978_2);
    close(values(&of(&fixture("criterion-raw.csv")), "sort/stable/100", "time_ns")[1], 2_347_299.0 / 2_414.0);
    let unit = "{\"reason\":\"benchmark-complete\",\"id\":\"sort\",\"iteration_count\":[1],\"measured_values\":[81.0],\"unit\":\"us\"}\n\
                {\"reason\":\"group-complete\",\"benchmarks\":[\"sort\"]}\n";
    assert_eq!(values(&of(unit), "sort", "time_ns"), [81_000.0]);
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
    let before_14 = "transaction type: x\nlatency average: 1.500 ms\ntps = 90.0 (including connections establishing)\n";
    let both = format!("{before_14}tps = 91.5 (excluding connections establishing)\n");
    close(values(&of(&both), "", "transactions_per_s")[0], 91.5);
    assert!(crate::why(before_14).contains("line 3: '90.0 (including"), "{}", crate::why(before_14));
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
fn stress_ng_has_two_rates_of_each_stressor() {
    let imported = of(&fixture("stress-ng.yaml"));
    assert_eq!((imported.program.as_str(), imported.parameters["version"].as_str()), ("stress-ng 0.15.06", "0.15.06"));
    assert_eq!(imported.benchmarks(), ["cpu", "vm"]);
    close(values(&imported, "cpu", "bogo_ops_per_s")[0], 546.913_950);
    close(values(&imported, "cpu", "bogo_ops_per_cpu_s")[0], 1_146.127_020);
    close(values(&imported, "vm", "bogo_ops_per_s")[0], 17_602.243_214);
    assert_eq!((imported.host.as_deref(), imported.cpus, imported.unix_s), (Some("vm"), Some(2), Some(1_795_835_278)));
    assert!(imported.measured.iter().all(|of| of.metric.better == Better::Higher) && imported.notes.is_empty());
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
    close(values(&imported, "", "requests_per_s")[0], 1_334.186_643_532_226);
    close(values(&imported, "", "duration_p95_ms")[0], 4.494_517_449_999_999);
    assert_eq!(imported.notes, ["0.75 % of the requests failed"]);
    let handle = fixture("k6-handle.json");
    close(values(&of(&handle), "", "requests_per_s")[0], 1_193.891_833_286_484_6);
    let without_http = handle.replace("\"http_", "\"ws_");
    close(values(&of(&without_http), "", "iterations_per_s")[0], 1_193.891_833_286_484_6);
    let tcp = of(&fixture("iperf3.json"));
    assert!(values(&tcp, "", "bits_per_s")[0] > 1e6);
    assert_eq!((tcp.program.as_str(), tcp.parameters["protocol"].as_str()), ("iperf3 3.12", "TCP"));
    let udp = of(&fixture("iperf3-udp.json"));
    assert!(values(&udp, "", "jitter_ms")[0] > 0.0 && udp.parameters["protocol"] == "UDP");
    // The sender's 100 Mbit/s were the result, of which a third arrived.
    let lossy = |received: &str| {
        let sum = "\"bits_per_second\":1e8,\"jitter_ms\":0.1,\"lost_percent\":65";
        format!("{{\"start\":{{\"test_start\":null}},\"intervals\":[],\"end\":{{\"sum\":{{{sum}}}{received}}}}}")
    };
    for (received, rate) in [(",\"sum_received\":{\"bits_per_second\":3.4e7,\"lost_percent\":65}", 3.4e7), ("", 3.5e7)]
    {
        let imported = of(&lossy(received));
        close(values(&imported, "", "bits_per_s")[0], rate);
        close(values(&imported, "", "jitter_ms")[0], 0.1);
        assert_eq!(imported.notes, ["65.000 % of the datagrams were lost"]);
    }
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
    assert_eq!(values(&imported, "Sorting - Program: gzip - machine1", "seconds_less"), [0.2235, 0.1245, 0.2336]);
    assert_eq!(values(&imported, "Sorting - Program: sort - machine2", "seconds_less"), [0.0865, 0.0807, 0.0715]);
    assert_eq!((imported.host.as_deref(), imported.benchmarks().len()), (None, 4), "two machines");
    let rate = fixture("phoronix.xml").replace("<Proportion>LIB", "<Proportion>HIB").replace(">Seconds<", ">MIPS<");
    assert_eq!(values(&of(&rate), "Sorting - Program: sort - machine2", "mips_more").len(), 3);
    let table = of(&fixture("phoronix.csv"));
    assert_eq!(values(&table, "Sorting - Program: gzip - machine2", "sec_less"), [0.172]);
    assert_eq!(values(&table, "Sorting - Program: sort - machine1", "sec_less"), [0.2474]);
    assert_eq!(table.benchmarks().len(), 4);
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
