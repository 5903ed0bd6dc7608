//! Workloads on databases as ordinary studies: an answer from the embedded database, data that is reused and verified, and
//! nothing left but that.

use crate::bench::{Bench, text};
use std::fs;

fn study(bench: &Bench, workload: &str, factors: &str, blocks: usize) -> String {
    format!(
        "[study]\ntitle = \"a database\"\n[workload]\n{workload}\nduration = \"300 ms\"\nwarm_up = \"50 ms\"\ndata = \"{}\"\n\
         [factors]\n{factors}\n[design]\nquads = 1\nleast_blocks = {blocks}\nmost_blocks = {blocks}\nbudget = \"10 min\"\n",
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
    bench.write("study.toml", study(&bench, workload, "synchronous_commit = [true, false]", 4));
    let document = bench.json(&["run", "study.toml", "--json"]);
    let printed = document.to_string();
    for metric in ["tx_per_s", "tx_per_s_per_cpu", "latency_p95_ms", "cpu_us_per_tx"] {
        assert!(printed.contains(&format!("\"{metric}\"")), "{metric} is nowhere in {printed}");
    }
    assert!(document["ratios"].as_array().is_some_and(|ratios| !ratios.is_empty()), "{printed}");
    assert_eq!(left(&bench), [""; 0]);
}

#[test]
fn order_entry_answers_and_damaged_data_is_refused_and_loaded_anew() {
    let bench = Bench::new();
    bench.write("study.toml", study(&bench, "kind = \"order-entry\"\nconnections = 2", "", 1));
    let run = || bench.run(&["run", "study.toml"]);
    let first = run();
    assert!(first.status.success(), "{}", text(&first.stderr));
    let tables = bench.run(&["report", "--tables", "d1"]);
    let tables = text(&tables.stdout);
    assert!(tables.contains("transactions/s") && tables.contains("59.5K"), "{tables}");
    let kept = fs::read_dir(bench.path("baremark-data")).unwrap().flatten().next().unwrap().path();
    let file = kept.join("data/database");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let damaged = run();
    let said = text(&damaged.stderr) + &text(&damaged.stdout);
    assert!(said.contains("is not as it was loaded; it is loaded anew with the next run"), "{said}");
    let again = run();
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(left(&bench), [""; 0]);
}

#[test]
fn what_cannot_be_together_is_refused_before_anything_runs() {
    let bench = Bench::new();
    for (workload, said) in [
        ("kind = \"order-entry\"\npace = \"keyed\"\nconnections = 11", "a warehouse has 10 terminals"),
        ("kind = \"order-entry\"\nhuge_pages = true", "huge_pages = true: sqlite cannot be held to it"),
        ("kind = \"oltp-hammer\"\nmix = \"50/50\"", "must be four numbers of sum 100"),
        ("kind = \"oltp-hammer\"\ndatabase = \"mariadb\"\nfsync = false", "fsync = false: mariadb always syncs"),
    ] {
        bench.write("study.toml", study(&bench, workload, "", 4));
        let output = bench.run(&["run", "study.toml"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
        assert!(!bench.path("baremark-data").exists());
    }
}
