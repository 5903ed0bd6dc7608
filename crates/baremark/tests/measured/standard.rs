//! The standard study, as it ships.

use crate::common::bench::{Bench, kvm, text};
use crate::common::outcome::rows;
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn the_standard_study_gives_the_three_kernels_and_says_why() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    // A look has a number of blocks, whatever its budget: a busy machine gets the time for them.
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/standard.toml");
    let shipped = fs::read_to_string(shipped).unwrap();
    let patient = shipped.replace("budget = \"60 s\"", "budget = \"10 min\"");
    assert_ne!(patient, shipped);
    bench.write("standard.toml", patient);
    let document = bench.json(&["run", "standard.toml", "--quick", "--json"]);
    let (ratios, why) = (rows(&document, "ratios"), rows(&document, "explanations"));
    for (workload, metric) in
        [("stream", "triad_mb_per_s"), ("random-access", "gups"), ("hpl", "gflops"), ("fma", "gflops")]
    {
        let of = |row: &&Value| row["treatment"]["workload"] == workload;
        let own: Vec<_> = ratios.iter().filter(of).collect();
        assert!(!own.is_empty(), "{workload} has no ratio");
        for ratio in own.iter().filter(|ratio| ratio["contrast"] == "environment") {
            assert_eq!(ratio["metric"], metric, "{ratio}");
            // The kernel may move a page in a phase: the trial is void, and of the fewest blocks of --quick one is missing.
            let void = |row: &&Value| row["status"] == "void" && row["arms"].to_string().contains(workload);
            if ratio["outcome"] == "not_enough" && rows(&document, "trials").iter().filter(void).count() > 0 {
                continue;
            }
            let limits = (ratio["lo"].as_f64(), ratio["ratio"].as_f64(), ratio["hi"].as_f64());
            // No run ends without a bound, on a busy machine too.
            assert!(limits.0 > Some(0.0) && limits.0 <= limits.1 && limits.1 <= limits.2, "{ratio}");
            assert_ne!(ratio["outcome"], "not_enough", "{ratio}");
            assert_eq!(ratio["treatment"]["workload"], ratio["relative_to"]["workload"]);
        }
        let said: Vec<&str> = why.iter().filter(of).filter_map(|row| row["what"].as_str()).collect();
        let expected = if workload == "fma" { "of computing alone" } else { "computing alone does not explain" };
        assert!(said.iter().any(|what| what.contains(expected)), "{workload}: {said:?}");
        assert!(said.iter().any(|what| what.contains("VM exits")), "{workload}: {said:?}");
    }
    assert!(why.iter().any(|row| row["what"] == "one demand-zero page fault" && row["lo"].as_f64().is_some()));
    assert!(rows(&document, "absent").iter().all(|row| row["treatment"]["workload"] == "page-table"));
    let report = text(&bench.run(&["report", "--details"]).stdout);
    for part in ["stream:", "random-access:", "hpl:", "fma:", "page-table:", "Published", "Why"] {
        assert!(report.contains(part), "{part} is missing: {report}");
    }
}
