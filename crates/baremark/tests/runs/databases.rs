//! Workloads on databases as ordinary studies: an answer from the embedded database, data that is reused and verified, and
//! nothing left but that.

use crate::common::bench::{Bench, text, unbroken};
use crate::common::databases::{self, damage, left, until_stored};
use crate::common::schemas::assert_fits;
use baremark_databases::database::Database as _;
use baremark_databases::dataset_cache::Kept;
use baremark_databases::sqlite::{Sqlite, Synchronous};
use serde_json::{Value, json};
use std::fs;

/// A study whose database never waits for a disk: on a machine where others write, one commit may take longer than a phase.
fn study(bench: &Bench, workload: &str) -> String {
    databases::study(bench, &format!("{workload}\nfsync = false"))
}

/// A study of so many blocks.
fn in_blocks(study: &str, count: u64) -> String {
    study.replace("_blocks = 4", &format!("_blocks = {count}"))
}

/// In a place that has its own agent, which reports over the wire.
#[test]
fn rows_that_are_loaded_are_reported() {
    let bench = Bench::new();
    bench.write("study.toml", in_blocks(&study(&bench, "kind = \"oltp-hammer\"\nrows = 12000"), 2));
    let output = bench.run(&["run", "study.toml"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let told: Vec<&str> = said.lines().filter(|line| line.contains("rows/s")).collect();
    assert!(matches!(told[..], [line] if line.starts_with("loaded 12.0K rows in ")), "once, for data is kept: {said}");
}

#[test]
fn the_hammer_compares_settings_of_the_embedded_database() {
    let bench = Bench::new();
    let workload = "kind = \"oltp-hammer\"\nrows = 1000";
    let factors = "[factors]\nsynchronous_commit = [true, false]\nranks = [1, 1000]\n\
                   [report]\ncolumns = \"synchronous_commit\"\nratio_to = { synchronous_commit = true }\n";
    bench.write("study.toml", study(&bench, workload) + factors);
    let document = bench.json(&["run", "study.toml", "--json"]);
    let printed = document.to_string();
    let counted = ["server_minor_faults_per_s", "server_major_faults_per_s", "server_context_switches_per_s"];
    for metric in ["tx_per_s", "tx_per_s_per_cpu", "latency_p95_ms", "cpu_us_per_tx"].into_iter().chain(counted) {
        assert!(printed.contains(&format!("\"{metric}\"")), "{metric} is nowhere in {printed}");
    }
    assert!(
        printed.contains("\"tlb_shootdowns_per_s\"") || printed.contains("TLB shootdowns: not available: "),
        "neither counted nor explained: {printed}"
    );
    let absent = document["absent"].as_array().unwrap();
    let told = |row: &Value| row["reason"].as_str().is_some_and(|why| why.contains("1000 ranks need a CPU each"));
    assert!(absent.len() == 2 && absent.iter().all(told), "{absent:?}");
    // Of each native treatment three, from what was counted.
    let predicted = document["predictions"].as_array().unwrap();
    let of = |words: &str| {
        let rows =
            predicted.iter().filter(|row| row["scheme"].as_str().is_some_and(|scheme| scheme.starts_with(words)));
        rows.filter(|row| row["measured"] == false && row["lo"].as_f64() <= row["hi"].as_f64()).count()
    };
    assert_eq!(["nested, ", "shadow, ", "nested against shadow"].map(of), [2; 3], "{predicted:#?}");
    assert!(document["ratios"].as_array().is_some_and(|ratios| !ratios.is_empty()), "{printed}");
    // What the workload reports of its operations and CPUs is in the document and in the report.
    let detail = &document["details"][0]["document"];
    let operation = &detail["operations"][0];
    let (samples, p50) = (operation["latency"]["samples"].as_u64().unwrap_or(0), &operation["latency"]["p50_ns"]);
    // Below six there is no median.
    assert!(operation["committed"].as_u64() > Some(0) && p50.is_u64() == (samples >= 6) && *p50 != 0, "{detail:#}");
    assert!(detail["cpu"]["driver"].as_f64() > Some(0.0), "{detail:#}");
    let shown = text(&bench.run(&["report", "--details"]).stdout);
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let name = operation["name"].as_str().unwrap();
    for part in ["Databases: the last phase of each treatment", "Latency by operation", "CPUs used: driver ", name] {
        assert!(shown.contains(part), "no {part} in {shown}");
    }
    assert_eq!(left(&bench), [""; 0]);
}

/// Two settings that cannot vary in one run here stand for two releases: each run has its own base.
#[test]
fn two_runs_of_a_database_are_joined() {
    let bench = Bench::new();
    let factors = "[factors]\nsynchronous_commit = [true, false]\n\
                   [report]\ncolumns = \"synchronous_commit\"\nratio_to = { synchronous_commit = true }\n";
    let workload =
        |more: &str| study(&bench, &format!("kind = \"oltp-hammer\"\nrows = 1000{more}")).replace("300 ms", "150 ms");
    let mut documents = Vec::new();
    for more in ["", "\nbuffers = \"64 MiB\""] {
        bench.write("study.toml", workload(more) + factors);
        documents.push(bench.json(&["run", "study.toml", "--json"]));
    }
    let runs: Vec<&str> = documents.iter().map(|document| document["run"]["id"].as_str().unwrap()).collect();
    let output = bench.run(&["report", "--join", runs[0], runs[1], "--json"]);
    let joined = assert_fits(&output.stdout, "baremark-joined/2");
    let (row, facts) = (&joined["rows"][0], &joined["factors"]);
    assert_eq!((joined["spread"].as_str(), joined["rows"].as_array().unwrap().len()), (Some("within_runs"), 1));
    let own: Vec<&Value> = documents.iter().map(|document| &document["ratios"][0]).collect();
    assert_eq!([&row["base"]["ratio"], &row["other"]["ratio"]], [&own[0]["ratio"], &own[1]["ratio"]]);
    // A trial in which no transaction ended in time does not count. Without a block there is no ratio, and without four no interval.
    let [base, other, both] = [&own[0]["ratio"], &own[1]["ratio"], &row["ratio"]].map(Value::as_f64);
    let quotient = base.zip(other).map(|(base, other)| other / base);
    let agrees = |(both, quotient): (f64, f64)| (both / quotient - 1.0).abs() < 1e-9;
    assert!(both.is_some() == quotient.is_some() && both.zip(quotient).is_none_or(agrees), "{row:#}");
    let is_short = |row: &&Value| row["blocks"].as_u64() < Some(4);
    assert_eq!(row["lo"].is_null(), own.iter().any(is_short), "{row:#}");
    let buffers = facts.as_array().unwrap().iter().find(|fact| fact["fact"] == "parameters.buffers");
    assert_eq!(buffers.map(|fact| &fact["values"]), Some(&json!(["256 MiB", "64 MiB"])));

    let output = bench.run(&["compare", "--join", runs[0], runs[1]]);
    let said = text(&output.stdout);
    assert!(output.status.success() && said.contains("Ratio of ratios: other / base"), "{said}");
    assert!(said.contains("parameters.buffers") && said.contains("256 MiB -> 64 MiB"), "{said}");

    // Its ratio needs no interval.
    let third =
        factors.replace("synchronous_commit", "buffers").replace("true", "\"64 MiB\"").replace("false", "\"32 MiB\"");
    bench.write("study.toml", in_blocks(&workload(""), 1) + &third);
    let output = bench.run(&["run", "study.toml", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_measured = document["ratios"][0]["blocks"] == 1;
    assert_eq!(output.status.code(), Some(i32::from(!is_measured)), "{}", text(&output.stderr));
    let third = document["run"]["id"].as_str().unwrap();
    for (base, other, says) in [
        (runs[0], runs[0], "is named twice; name different runs"),
        (runs[0], third, "the runs have no ratio in common"),
        (runs[0], "nobody", "no run is called 'nobody'"),
    ] {
        let output = bench.run(&["report", "--join", base, other]);
        let said = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn order_entry_answers() {
    let bench = Bench::new();
    bench.write("study.toml", study(&bench, "kind = \"order-entry\"\nconnections = 2"));
    until_stored(&bench, 1);
    let tables = text(&bench.run(&["report", "--tables", "order-entry"]).stdout);
    assert!(tables.contains("tx_per_s") && tables.contains("59.5K"), "{tables}");
    let (ours, _) = tables.split_once("Published, on other hardware").unwrap();
    assert!(!ours.contains('–') && ours.contains("CPU utilization"), "a blank without a reason: {ours}");
    assert_eq!(left(&bench), [""; 0]);
}

/// With few rows, which are soon loaded anew; half a million are in the suite `servers`.
#[test]
fn damaged_data_is_refused_and_loaded_anew() {
    let bench = Bench::new();
    bench.write("study.toml", study(&bench, "kind = \"oltp-hammer\"\nrows = 1000"));
    until_stored(&bench, 1);
    damage(&bench);
    let said = until_stored(&bench, 2);
    assert!(said.contains("is not as it was loaded; it is loaded anew with the next run"), "{said}");
    assert_eq!(left(&bench), [""; 0]);
}

/// Data that is sound by its checksums and inconsistent in itself: the run that finds it has no result.
#[test]
fn the_dvd_store_answers_and_a_database_that_is_inconsistent_after_the_run_is_no_result() {
    let bench = Bench::new();
    bench.write("study.toml", study(&bench, "kind = \"dvd-store\"\nconnections = 2").replace("300 ms", "1 s"));
    until_stored(&bench, 1);
    let printed = text(&bench.run(&["report", "--json"]).stdout);
    for metric in ["orders_per_min", "login_p50_ms", "purchase_p50_ms", "disk_writes_per_s", "rolled_back"] {
        assert!(printed.contains(&format!("\"{metric}\"")), "{metric} is nowhere in {printed}");
    }
    let folder = fs::read_dir(bench.path("baremark-data")).unwrap().flatten().next().unwrap().path();
    let kept = Kept::open(&bench.path("baremark-data"), &folder.file_name().unwrap().to_string_lossy()).unwrap();
    let copy = bench.path("copy");
    kept.take(&copy, None).unwrap();
    let database = Sqlite::new(copy.join("database"), Synchronous::Full, 8 << 20);
    database
        .connect()
        .unwrap()
        .script("update inventory set quan_in_stock = quan_in_stock + 1 where prod_id = 3")
        .unwrap();
    kept.put(&copy).unwrap();
    let output = bench.run(&["run", "study.toml"]);
    let said = text(&output.stderr);
    let broken = "the database is inconsistent after the run: condition 1 (stock + units sold = units received, by product) fails in 1 rows";
    assert!(said.contains(broken), "{said}");
    assert_ne!(output.status.code(), Some(0), "{said}");
    assert!(!said.contains(" is stored"), "{said}");
    assert_eq!(left(&bench), [""; 0]);
}

#[test]
fn the_dvd_store_behind_its_web_front_answers() {
    let bench = Bench::new();
    let workload = "kind = \"dvd-store\"\nconnections = 2\nfront = \"web\"\npool = 1";
    bench.write("study.toml", study(&bench, workload).replace("300 ms", "1 s"));
    until_stored(&bench, 1);
    let printed = text(&bench.run(&["report", "--json"]).stdout);
    // The database is in the front's process, whose CPU time is the server's.
    for metric in ["orders_per_min", "login_p50_ms", "purchase_p50_ms", "server_cpu_us_per_tx"] {
        assert!(printed.contains(&format!("\"{metric}\"")), "{metric} is nowhere in {printed}");
    }
    assert!(printed.contains("share CPUs and talk over loopback"), "{printed}");
    assert_eq!(left(&bench), [""; 0]);
}

#[test]
fn the_size_of_data_is_stated_before_it_is_loaded() {
    let bench = Bench::new();
    bench.write("study.toml", in_blocks(&study(&bench, "kind = \"oltp-hammer\"\nrows = 12000"), 1));
    let (folder, what) = (bench.path("baremark-data").display().to_string(), "oltp-hammer-12000 on sqlite in native:");
    // 12,000 rows of 300 bytes, and what one more copy and the log take.
    let expected =
        format!("{what} loads about 3.4 MiB into {folder}; it takes 264.6 MiB with a copy for each run and its log;");

    let planned = unbroken(&bench.run(&["plan", "study.toml"]).stdout);
    assert!(planned.contains(&expected), "{planned}");
    let free = planned.split(&expected).nth(1).unwrap_or_default();
    assert!(free.contains("iB are free"), "{planned}");
    assert!(!bench.path("baremark-data").exists(), "a plan makes nothing");

    let output = bench.run(&["run", "study.toml"]);
    let said = unbroken(&output.stderr);
    assert!(output.status.success(), "{said}");
    let [stated, loaded] = [expected.as_str(), "loaded 12.0K rows"].map(|words| said.find(words));
    assert!(stated.is_some() && stated < loaded, "{said}");

    let planned = unbroken(&bench.run(&["plan", "study.toml"]).stdout);
    assert!(planned.contains(&format!("{what} about 3.4 MiB are loaded already in {folder}")), "{planned}");
}

#[test]
fn the_dvd_store_steps_its_connections_to_a_utilization() {
    let bench = Bench::new();
    let workload = "kind = \"dvd-store\"\nconnections = 2\nutilization = 50";
    let (document, _) = bench.first_block(&study(&bench, workload));
    let printed = document.to_string();
    for metric in ["orders_per_min", "latency_mean_ms", "cpu_utilization"] {
        assert!(printed.contains(&format!("\"{metric}\"")), "{metric} is nowhere in {:#}", document["estimates"]);
    }
    assert!(
        printed.contains("\"tx_per_s_at_utilization\"")
            || printed.contains("no two steps have a CPU utilization of 50 %"),
        "neither interpolated nor explained: {:#}",
        document["flags"]
    );
    assert!(!printed.contains("\"disk_writes_per_s\""), "steps have different rates, of which none is printed");
}

/// That a feed which falls behind discards its trial is judged by `measured`.
#[test]
fn the_management_database_reports_its_operations_with_and_without_its_feed() {
    let bench = Bench::new();
    let workload =
        "kind = \"management-db\"\ninventory = \"10 x 100\"\nfeed_interval = \"500 ms\"\nlag_limit = \"5 min\"";
    let study = study(&bench, workload).replace("300 ms", "2 s");
    bench.write("study.toml", in_blocks(&study, 1));
    let output = bench.run(&["run", "study.toml", "--json"]);
    let printed = text(&output.stdout);
    let document: Value =
        serde_json::from_str(&printed).unwrap_or_else(|why| panic!("{why}: {}", text(&output.stderr)));
    let trial = &document["trials"][0];
    if trial["status"] == "ok" {
        for metric in ["cycle_s", "cycle_with_feed_s", "rollup_1d_rows_per_s", "snapshot_with_feed_s"] {
            assert!(printed.contains(&format!("\"{metric}\"")), "{metric} is nowhere in {printed}");
        }
    } else {
        // In so short a time a machine that others use as well may not end each of the nine operations.
        assert!(trial["reason"].is_string() || trial["reasons"].is_array(), "{trial:#}");
    }
    assert_eq!(left(&bench), [""; 0]);
}

/// Whoever may write the folder decides what is copied from there, by whoever runs baremark.
#[test]
fn a_folder_of_data_that_others_may_write_is_refused() {
    let bench = Bench::new();
    let data = bench.path("baremark-data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    bench.write("study.toml", study(&bench, "kind = \"order-entry\""));
    let output = bench.run(&["run", "study.toml"]);
    let said = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_ne!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("others may write") && said.contains("chmod go-w"), "{said}");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "nothing is made there");
}
