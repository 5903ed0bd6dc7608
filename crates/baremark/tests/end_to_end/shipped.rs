//! The studies that ship with the program.

use crate::bench::{Bench, kvm, text};
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn every_study_of_the_folder_is_shipped_and_can_be_planned() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let bench = Bench::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        let output = bench.run(&["plan", name]);
        let said = text(&output.stderr);
        assert!(!said.contains("no shipped study"), "{name} is not built in");
        // 3: nothing of it can run here, which is the machine's matter and not the study's.
        if output.status.code() == Some(3) {
            continue;
        }
        assert!(output.status.success(), "{name}: {said}");
        let plan = bench.json(&["plan", name, "--json"]);
        assert!(!rows(&plan, "arms").is_empty(), "{plan:#}");
        let asked = rows(&plan, "pairs").iter().any(|pair| pair["asked"] == true);
        assert_eq!(text(&output.stdout).contains("on this machine is not known"), asked, "{name}: {output:?}");
    }
}

#[test]
fn the_standard_study_gives_the_three_kernels_and_says_why() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    let document = bench.json(&["run", "standard", "--quick", "--json"]);
    let (ratios, why) = (rows(&document, "ratios"), rows(&document, "explanations"));
    for (workload, metric) in
        [("stream", "triad_mb_per_s"), ("random-access", "gups"), ("hpl", "gflops"), ("fma", "gflops")]
    {
        let of = |row: &&Value| row["treatment"]["workload"] == workload;
        let own: Vec<_> = ratios.iter().filter(of).collect();
        assert!(!own.is_empty(), "{workload} has no ratio");
        for ratio in own.iter().filter(|ratio| ratio["contrast"] == "environment") {
            assert_eq!(ratio["metric"], metric, "{ratio}");
            let limits = (ratio["lo"].as_f64(), ratio["ratio"].as_f64(), ratio["hi"].as_f64());
            // Blocks that are seen to depend on each other, as when other work begins meanwhile, have no interval.
            assert!(
                ratio["independence"] == "rejected" && limits.0.is_none()
                    || limits.0 > Some(0.0) && limits.0 <= limits.1 && limits.1 <= limits.2,
                "{ratio}"
            );
            assert_eq!(ratio["treatment"]["workload"], ratio["relative_to"]["workload"]);
        }
        let said: Vec<&str> = why.iter().filter(of).filter_map(|row| row["what"].as_str()).collect();
        let expected = if workload == "fma" { "of computing alone" } else { "computing alone does not explain" };
        assert!(said.iter().any(|what| what.contains(expected)), "{workload}: {said:?}");
        assert!(said.iter().any(|what| what.contains("VM exits")), "{workload}: {said:?}");
    }
    assert!(why.iter().any(|row| row["what"] == "one demand-zero page fault" && row["lo"].as_f64().is_some()));
    assert!(rows(&document, "absent").iter().all(|row| row["treatment"]["workload"] == "page-table"));
    let report = text(&bench.run(&["report"]).stdout);
    for part in ["stream:", "random-access:", "hpl:", "fma:", "page-table:", "Published", "Why"] {
        assert!(report.contains(part), "{part} is missing: {report}");
    }
}

fn rows<'v>(document: &'v Value, key: &str) -> &'v Vec<Value> {
    document[key].as_array().unwrap()
}
