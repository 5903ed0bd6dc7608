//! Histograms of I/Os, by programs in the kernel.

use crate::common::bench::{Bench, root, text};
use serde_json::Value;
use std::fs;
use std::process::Command;

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
