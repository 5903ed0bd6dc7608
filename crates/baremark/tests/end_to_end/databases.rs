//! Workloads on databases as ordinary studies: an answer from the embedded database, data that is reused and verified, and
//! nothing left but that.

use crate::bench::{Bench, signal, text};
use baremark_databases::database::Database as _;
use baremark_databases::kept::Kept;
use baremark_databases::sqlite::{Sqlite, Synchronous};
use std::fs;
use std::io::{BufRead, BufReader};

fn study(bench: &Bench, workload: &str) -> String {
    format!(
        "[study]\ntitle = \"a database\"\n[workload]\n{workload}\nduration = \"300 ms\"\nwarm_up = \"50 ms\"\ndata = \"{}\"\n\
         [design]\nquads = 1\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"10 min\"\n",
        bench.path("baremark-data").display()
    )
}

/// Names in the folder of data that are not loaded data.
fn left(bench: &Bench) -> Vec<String> {
    let names = fs::read_dir(bench.path("baremark-data")).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with("sqlite-")).collect()
}

#[test]
fn the_hammer_compares_settings_of_the_embedded_database() {
    let bench = Bench::new();
    let workload = "kind = \"oltp-hammer\"\nrows = 1000";
    let factors = "[factors]\nsynchronous_commit = [true, false]\n\
                   [report]\ncolumns = \"synchronous_commit\"\nratio_to = { synchronous_commit = true }\n";
    bench.write("study.toml", study(&bench, workload) + factors);
    let document = bench.json(&["run", "study.toml", "--json"]);
    let printed = document.to_string();
    for metric in ["tx_per_s", "tx_per_s_per_cpu", "latency_p95_ms", "cpu_us_per_tx"] {
        assert!(printed.contains(&format!("\"{metric}\"")), "{metric} is nowhere in {printed}");
    }
    assert!(document["ratios"].as_array().is_some_and(|ratios| !ratios.is_empty()), "{printed}");
    assert_eq!(left(&bench), [""; 0]);
}

/// Runs the study until it has said this, then interrupts it; all that it said.
fn until(bench: &Bench, word: &str) -> String {
    let mut lab = bench.spawn(&["run", "study.toml"]);
    let mut said = String::new();
    for line in BufReader::new(lab.stderr.take().unwrap()).lines().map_while(Result::ok) {
        if line.contains(word) {
            signal(lab.id(), libc::SIGINT);
        }
        said = said + &line + "\n";
    }
    assert_eq!(lab.wait().unwrap().code(), Some(130), "{said}");
    said
}

#[test]
fn order_entry_answers_and_damaged_data_is_refused_and_loaded_anew() {
    let bench = Bench::new();
    bench.write("study.toml", study(&bench, "kind = \"order-entry\"\nconnections = 2"));
    until(&bench, "block 1 is stored");
    let tables = text(&bench.run(&["report", "--tables", "d1"]).stdout);
    assert!(tables.contains("tx_per_s") && tables.contains("59.5K"), "{tables}");
    let kept = fs::read_dir(bench.path("baremark-data")).unwrap().flatten().next().unwrap().path();
    let file = kept.join("data/database");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let said = until(&bench, "block 2 is stored");
    assert!(said.contains("is not as it was loaded; it is loaded anew with the next run"), "{said}");
    assert_eq!(left(&bench), [""; 0]);
}

/// Data that is sound by its checksums and inconsistent in itself: the run that finds it has no result.
#[test]
fn the_dvd_store_answers_and_a_database_that_is_inconsistent_after_the_run_is_no_result() {
    let bench = Bench::new();
    bench.write("study.toml", study(&bench, "kind = \"dvd-store\"\nconnections = 2"));
    let said = until(&bench, "block 1 is stored");
    assert!(said.contains("block 1 is stored"), "{said}");
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
    assert!(!said.contains("block 1 is stored"), "{said}");
    assert_eq!(left(&bench), [""; 0]);
}

#[test]
fn the_management_database_answers_and_a_feed_that_falls_behind_discards_the_trial() {
    let bench = Bench::busy();
    let study = |feed: &str| {
        let workload = format!("kind = \"management-db\"\ninventory = \"10 x 100\"\nfeed_interval = \"{feed}\"");
        study(&bench, &workload).replace("300 ms", "3 s")
    };
    bench.write("study.toml", study("500 ms"));
    until(&bench, "block 1 is stored");
    let printed = text(&bench.run(&["report", "--json"]).stdout);
    for metric in ["cycle_s", "cycle_with_feed_s", "rollup_1d_rows_per_s", "snapshot_with_feed_s"] {
        assert!(printed.contains(&format!("\"{metric}\"")), "{metric} is nowhere in {printed}");
    }
    // Ten thousand reports a second are more than one connection sends.
    bench.write("study.toml", study("1 ms\"\nlag_limit = \"100 ms"));
    let said = until(&bench, "the feed fell behind");
    assert!(!said.contains("block 1 is stored"), "{said}");
    assert_eq!(left(&bench), [""; 0]);
}

#[test]
fn what_cannot_be_together_is_refused_before_anything_runs() {
    let bench = Bench::new();
    for (workload, said) in [
        ("kind = \"order-entry\"\npace = \"keyed\"\nconnections = 11", "a warehouse has 10 terminals"),
        ("kind = \"order-entry\"\nhuge_pages = true", "huge_pages = true: sqlite cannot be held to it"),
        ("kind = \"dvd-store\"\nrate = 100\nthink = \"1 s\"", "rate is set and think is not 0"),
        ("kind = \"management-db\"\nrate = 100", "rate: management-db has a feed of its own"),
        ("kind = \"order-entry\"\nutilization = 77\nrate = 100", "rate and utilization are set"),
        ("kind = \"oltp-hammer\"\nmix = \"50/50\"", "must be four numbers of sum 100"),
        ("kind = \"oltp-hammer\"\ndatabase = \"mariadb\"\nfsync = false", "fsync = false: mariadb always syncs"),
    ] {
        bench.write("study.toml", study(&bench, workload));
        let output = bench.run(&["run", "study.toml"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
        assert!(!bench.path("baremark-data").exists());
    }
}
