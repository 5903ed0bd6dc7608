//! System activity: observed during runs, and imported.

use crate::common::activity::rows;
use crate::common::bench::{Bench, SMALL, text};
use std::process::Command;

#[test]
fn a_run_tells_what_happened_around_each_arm_and_what_telling_cost() {
    let bench = Bench::new();
    let study = bench.write("small.toml", SMALL);
    let document = bench.json(&["run", study.to_str().unwrap(), "--json"]);
    let [disks, interfaces] = ["/proc/diskstats", "/proc/net/dev"].map(|file| std::fs::read_to_string(file).unwrap());
    for environment in ["native", "null"] {
        for quantity in ["cpu.utilization", "kernel.context_switches", "disk.iops", "net.receive_packets", "vm.faults"]
        {
            let found = rows(&document, environment, "this machine", quantity);
            // A machine or a container may have no disk, and the loopback alone.
            let is_there = match quantity {
                "disk.iops" => !disks.trim().is_empty(),
                "net.receive_packets" => interfaces.lines().skip(2).any(|line| !line.trim_start().starts_with("lo:")),
                _ => true,
            };
            assert_eq!(found.len(), usize::from(is_there), "{environment} {quantity}");
            let Some(found) = found.first() else { continue };
            assert!(found["value"].as_f64() >= Some(0.0) && found["n"].as_u64() > Some(0), "{found}");
        }
    }
    let busy = rows(&document, "native", "this machine", "cpu.busy")[0]["value"].as_f64().unwrap();
    assert!(busy >= 0.0, "{busy}");
    let observed = &document["observed"];
    let points = observed["series"].as_array().unwrap().iter().find(|series| series["quantity"] == "cpu.utilization");
    assert!(!points.unwrap()["points"].as_array().unwrap().is_empty());
    let cost = observed["cost"][0]["share"].as_f64().unwrap();
    assert!(cost > 0.0, "a share of one CPU: {cost}");
    let report = text(&bench.run(&["report", "--details"]).stdout);
    assert!(report.contains("System activity") && report.contains("observing took"), "{report}");
    let tables = text(&bench.run(&["report", "--tables", "d1"]).stdout);
    assert!(tables.contains("CPU utilization") && tables.contains("network packets/s"), "{tables}");
    for (what, heading) in [("observations", "place,quantity"), ("series", "place,quantity")] {
        let csv = text(&bench.run(&["report", &format!("--csv={what}")]).stdout);
        assert!(csv.starts_with(heading) && csv.lines().count() > 10, "{csv}");
    }
    let page = bench.path("report.html");
    assert!(bench.run(&["report", "--html", page.to_str().unwrap()]).status.success());
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("id=\"around\"") && page.contains("around-cpu-utilization"));
}

#[test]
fn a_study_says_what_is_observed_and_mistakes_are_told() {
    let bench = Bench::new();
    let with = |section: &str| bench.write("small.toml", format!("{SMALL}\n[observe]\n{section}\n"));
    let study = with("which = [\"kernel\", \"null\"]\ninterval = \"200 ms\"");
    let document = bench.json(&["run", study.to_str().unwrap(), "--json", "--quick"]);
    assert_eq!(document["observed"]["interval_ns"], 200_000_000);
    assert_eq!(rows(&document, "native", "this machine", "kernel.context_switches").len(), 1);
    assert!(rows(&document, "native", "this machine", "cpu.utilization").is_empty(), "nobody asked for it");
    let refused = |section: &str| {
        let output = bench.run(&["plan", with(section).to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    assert!(refused("which = [\"cpus\"]").contains("did you mean 'cpu'?"));
    assert!(refused("which = []").contains("'which' names no observer; name observers, or write \"null\""));
    assert!(refused("which = [\"cpu\", \"cpu\"]").contains("names the observer 'cpu' twice"));
    assert!(refused("interval = \"1 ms\"").contains("a duration from 100 ms"));
    assert!(refused("intervall = \"1 s\"").contains("did you mean 'interval'?"));
}

/// A file of esxtop's whose rows begin at `start`, in seconds since 1970.
fn esxtop(start: i64) -> String {
    let heading = "\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\esx1\\Physical Cpu(_Total)\\% Util Time\"\n";
    let row = |second: i64| format!("\"{}\",\"{}.0\"\n", date(start + second), 40 + second);
    (0..5).map(row).fold(heading.to_owned(), |text, row| text + &row)
}

fn date(seconds: i64) -> String {
    let mut date = Command::new("date");
    let output = date.args(["-u", "+%m/%d/%Y %H:%M:%S", "-d", &format!("@{seconds}")]).output().unwrap();
    text(&output.stdout).trim().to_owned()
}

#[test]
fn what_esxtop_wrote_stands_beside_a_run() {
    let bench = Bench::new();
    let study = bench.write("small.toml", SMALL);
    let begun = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let document = bench.json(&["run", study.to_str().unwrap(), "--json", "--quick"]);
    let run = document["run"]["id"].as_str().unwrap();
    let file = bench.write("night.csv", esxtop(begun as i64));
    let file = file.to_str().unwrap();
    let shown = text(&bench.run(&["import", file]).stdout);
    assert!(shown.contains("esxtop of esx1") && shown.contains("CPU utilization (%)"), "{shown}");
    let listed = text(&bench.run(&["import", file, "--list"]).stdout);
    assert!(listed.contains("Physical Cpu\\% Util Time"), "{listed}");
    let far = bench.run(&["import", file, "--run", run, "--shift", "-2 h"]);
    assert!(far.status.code() == Some(2) && text(&far.stderr).contains("--shift"), "{}", text(&far.stderr));
    let taken = bench.run(&["import", file, "--run", run]);
    assert!(taken.status.success(), "{}", text(&taken.stderr));
    let document = bench.json(&["report", "--json"]);
    let series = document["observed"]["series"].as_array().unwrap();
    let imported =
        series.iter().find(|series| series["place"] == "esxtop esx1" && series["quantity"] == "cpu.utilization");
    assert_eq!(imported.unwrap()["points"].as_array().unwrap().len(), 5);
    let wrong = bench.run(&["import", "--format", "esxtop", study.to_str().unwrap()]);
    assert!(wrong.status.code() == Some(2) && text(&wrong.stderr).contains("this is not a batch output of esxtop"));
}
