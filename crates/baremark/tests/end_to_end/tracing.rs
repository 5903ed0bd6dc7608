//! Histograms of I/Os and packets, and the rows of `top`.

use crate::bench::{Bench, root, text};
use serde_json::Value;
use std::fs;
use std::process::{Child, Command};

/// Busy processes on one CPU, ended when dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn new(count: usize) -> Self {
        let hog = || Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn().unwrap();
        Busy((0..count).map(|_| hog()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

#[test]
fn rows_show_who_uses_a_cpu_and_who_waits_for_it() {
    let bench = Bench::new();
    let busy = Busy::new(2);
    let arguments = ["top", "--rows", "--batch", "json", "--sort", "ready", "--interval", "500 ms", "--count", "2"];
    let output = bench.run(&arguments);
    let samples: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(samples.len(), 2, "{}", text(&output.stderr));
    for child in &busy.0 {
        let id = child.id().to_string();
        let row = samples[1]["rows"].as_array().unwrap().iter().find(|row| row["id"] == id.as_str()).unwrap();
        let (cpu, ready) = (row["cpu_ns"].as_u64().unwrap(), row["ready_ns"].as_u64().unwrap());
        assert!(row["kind"] == "process" && cpu > 0 && ready > 0, "two share a CPU: {row}");
    }
    let ready: Vec<u64> =
        samples[1]["rows"].as_array().unwrap().iter().map(|row| row["ready_ns"].as_u64().unwrap()).collect();
    assert!(ready.is_sorted_by(|a, b| a >= b), "{ready:?}");
    let sheet = text(&bench.run(&["top", "--rows", "--batch", "csv", "--interval", "100 ms", "--count", "1"]).stdout);
    let columns = sheet.lines().next().unwrap().split(',').count();
    assert!(sheet.lines().count() > 2 && sheet.lines().nth(1).unwrap().split(',').count() == columns, "{sheet}");
    let table = text(&bench.run(&["top", "--rows", "--interval", "100 ms", "--count", "1"]).stdout);
    assert!(table.contains("sorted by cpu") && table.contains("ready %"), "{table}");
    let refused = bench.run(&["top", "--batch", "csv"]);
    assert_eq!(refused.status.code(), Some(2), "--batch needs --rows");
}

#[test]
fn histograms_show_a_processs_writes_and_their_heat_map() {
    let bench = Bench::new();
    if !root() {
        return println!("skipped: only the superuser may trace");
    }
    let page = bench.path("heat.html");
    let arguments = ["histograms", "--disk", "--json", "--duration", "1 s", "--interval", "250 ms", "--html"];
    let (file, shown) = (bench.path("written"), bench.path("shown.json"));
    let mut tracing = bench.command(&arguments);
    // Into a file: a pipe that nobody reads would hold it up.
    let mut tracing = tracing.arg(&page).stdout(fs::File::create(&shown).unwrap()).spawn().unwrap();
    // Until tracing ends, so that no start has to be waited for.
    while tracing.try_wait().unwrap().is_none() {
        fs::write(&file, [1; 8192]).unwrap();
        fs::File::open(&file).unwrap().sync_all().unwrap();
    }
    let document: Value = serde_json::from_slice(&fs::read(shown).unwrap()).unwrap();
    if document["source"] == "diskstats" {
        return println!("skipped: {}", document["not_available"]);
    }
    let processes = document["processes"].as_array().unwrap();
    if processes.is_empty() {
        return println!("skipped: the temporary folder is on no block device");
    }
    for (rows, of) in [(document["devices"].as_array().unwrap(), "device"), (processes, "process")] {
        for row in rows {
            let total = row["histograms"].as_array().unwrap().iter().find(|one| one["name"] == "total").unwrap();
            let bins = total["bins"].as_array().unwrap().iter().map(|bin| bin["count"].as_u64().unwrap());
            assert_eq!(bins.sum::<u64>(), row["ios"].as_u64().unwrap(), "{of}: {row}");
        }
    }
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<rect") && page.contains("time from request to completion"), "{page}");
}

#[test]
fn without_rights_there_are_the_kernels_sums_and_the_reason() {
    let bench = Bench::new();
    if !root() {
        return println!("skipped: only the superuser can become another user");
    }
    for (what, file) in [("--disk", "/proc/diskstats"), ("--net", "/proc/net/dev")] {
        let own = bench.command(&["histograms", what, "--duration", "50 ms"]);
        let mut other = Command::new("setpriv");
        other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(own.get_program()).args(own.get_args());
        let Ok(output) = other.output() else { return println!("skipped: setpriv is not installed") };
        if output.status.code() == Some(127) || output.status.code() == Some(126) {
            return println!("skipped: another user cannot start it: {}", text(&output.stderr));
        }
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(
            shown.contains("histograms are not available: loading BPF programs is not permitted; run as root"),
            "{shown}"
        );
        assert!(shown.contains(&format!("from {file}")), "{shown}");
    }
    let refused = bench.run(&["histograms", "--device", "no-such-disk"]);
    assert!(
        refused.status.code() == Some(2) && text(&refused.stderr).contains("there is no block device 'no-such-disk'")
    );
}
