//! What a study says of its databases before it loads them, and that its settings reach the server.

use crate::bench::{Bench, signal, text};
use crate::tiers::have;
use std::fs;
use std::io::{BufRead as _, BufReader};

/// A short study of a workload on a database, whose data is in the bench's own folder.
fn study(bench: &Bench, workload: &str) -> String {
    format!(
        "[study]\ntitle = \"a database\"\n[workload]\n{workload}\nduration = \"300 ms\"\nwarm_up = \"50 ms\"\ndata = \"{}\"\n\
         [design]\nquads = 1\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"10 min\"\n",
        bench.path("data").display()
    )
}

/// Lines that were broken are whole again.
fn unbroken(bytes: &[u8]) -> String {
    text(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_size_of_data_is_stated_before_it_is_loaded() {
    let bench = Bench::new();
    bench.write("study.toml", study(&bench, "kind = \"oltp-hammer\"\nrows = 12000"));
    let (folder, what) = (bench.path("data").display().to_string(), "oltp-hammer-12000 on sqlite in native:");
    // 12,000 rows of 300 bytes, and what one more copy and the log take.
    let expected =
        format!("{what} loads about 3.4 MiB into {folder}; it takes 264.6 MiB with a copy for each run and its log;");

    let planned = unbroken(&bench.run(&["plan", "study.toml"]).stdout);
    assert!(planned.contains(&expected), "{planned}");
    let free = planned.split(&expected).nth(1).unwrap_or_default();
    assert!(free.contains("iB are free"), "{planned}");
    assert!(!bench.path("data").exists(), "a plan makes nothing");

    let output = bench.run(&["run", "study.toml"]);
    let said = unbroken(&output.stderr);
    assert!(output.status.success(), "{said}");
    let [stated, loaded] = [expected.as_str(), "loaded 12.0K rows"].map(|words| said.find(words));
    assert!(stated.is_some() && stated < loaded, "{said}");

    let planned = unbroken(&bench.run(&["plan", "study.toml"]).stdout);
    assert!(planned.contains(&format!("{what} about 3.4 MiB are loaded already in {folder}")), "{planned}");
}

/// Runs the study until it has said this, then interrupts it.
fn is_said(bench: &Bench, study: &str, words: &str) -> bool {
    bench.write("study.toml", study);
    let mut lab = bench.spawn(&["run", "study.toml"]);
    let mut found = false;
    for line in BufReader::new(lab.stderr.take().unwrap()).lines().map_while(Result::ok) {
        if !found && line.contains(words) {
            found = true;
            signal(lab.id(), libc::SIGINT);
        }
    }
    lab.wait().unwrap();
    found
}

/// Levels of a factor: each phase's server reports its own.
#[test]
fn each_level_of_wal_sync_method_reaches_its_server() {
    if !have(&["postgres"]) {
        return;
    }
    let bench = Bench::new();
    // The server runs as somebody else, who must get there.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    fs::set_permissions(bench.folder.path(), open).unwrap();
    let levels = ["fdatasync", "open_datasync"];
    let workload = "kind = \"oltp-hammer\"\nrows = 1000\ndatabase = \"postgres\"";
    let factors = format!(
        "[factors]\nwal_sync_method = {levels:?}\n[report]\ncolumns = \"wal_sync_method\"\n\
         ratio_to = {{ wal_sync_method = \"{}\" }}\n",
        levels[0]
    );
    let (document, _) = bench.first_block(&(study(&bench, workload) + &factors));
    for level in levels {
        // A phase whose server has another fails: see below.
        let expected = format!("the server's wal_sync_method is {level}, read back from it");
        let flags = document["flags"].as_array().unwrap();
        assert!(flags.iter().any(|flag| flag["text"] == *expected), "{level}: {flags:#?}");
    }
    // A level that does not reach the server gives no result.
    let workload =
        format!("{workload}\nwal_sync_method = \"fdatasync\"\nserver_settings = [\"wal_sync_method = fsync\"]");
    let words = "wal_sync_method = \"fdatasync\": the server has fsync; remove it from server_settings";
    assert!(is_said(&bench, &study(&bench, &workload), words));
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

#[test]
fn settings_that_a_database_does_not_have_are_refused() {
    let bench = Bench::new();
    for (workload, words) in [
        ("kind = \"order-entry\"\npipeline = true", "pipeline = true: sqlite is embedded and has no protocol"),
        (
            "kind = \"order-entry\"\ndatabase = \"mariadb\"\npipeline = true",
            "pipeline = true: the client of mariadb sends one statement at a time",
        ),
        ("kind = \"oltp-hammer\"\nwal_sync_method = \"fsync\"", "wal_sync_method: sqlite has no such setting"),
        (
            "kind = \"oltp-hammer\"\ndatabase = \"postgres\"\nwal_sync_method = \"fsync\"\nfsync = false",
            "wal_sync_method is set and fsync = false: nothing is synced",
        ),
        (
            "kind = \"dvd-store\"\ndatabase = \"postgres\"\nreplication = \"on\"\nutilization = 50",
            "utilization and replication are set",
        ),
    ] {
        bench.write("study.toml", study(&bench, workload));
        let output = bench.run(&["plan", "study.toml"]);
        let said = unbroken(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
