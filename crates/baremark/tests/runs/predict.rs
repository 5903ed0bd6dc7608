//! Predictions in reports.

use crate::common::bench::{Bench, SMALL, kvm, text};
use crate::common::outcome::measured;
use crate::common::refused::refused;

fn calibration(machine: &str, processor: &str) -> String {
    format!(
        "machine = \"{machine}\"\nprocessor = \"{processor}\"\ndate = \"today\"\nrun = \"made-up\"\n\n[latency]\n\
         l1_ns = [1.0, 1.1]\nl2_ns = [3.5, 4.0]\nl3_ns = [14.0, 16.0]\nmemory_ns = [100.0, 160.0]\n"
    )
}

#[test]
fn reports_use_the_calibration_of_this_very_machine_alone() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    bench.write("guests.toml", SMALL.replace("\"null\"", "\"microvm\"").replace("20 ms", "5 ms"));
    let (first, _) = measured(&bench, &["--json", "run", "guests.toml", "--quick"]);
    if first["predictions"].as_array().is_none_or(Vec::is_empty) {
        println!("skipped: predictions in a report: this processor is none of those known");
        return;
    }
    let processor = |document: &serde_json::Value| document["predictions"][0]["processor"].as_str().unwrap().to_owned();
    assert!(processor(&first).ends_with(", not calibrated"), "{}", processor(&first));
    let machine = bench.json(&["--json", "predict", "guests.toml"])["machine"].as_str().unwrap().to_owned();
    let named = first["run"]["machine"]["cpu"]["model_name"].as_str().unwrap().to_owned();
    let report = |file: &str| {
        bench.write("store/machine.toml", file);
        let output = bench.run(&["--json", "report"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        (processor(&serde_json::from_slice(&output.stdout).unwrap()), text(&output.stderr))
    };
    let (calibrated, _) = report(&calibration(&machine, &named));
    assert!(calibrated.ends_with(", calibrated by run made-up"), "{calibrated}");
    let (other, said) = report(&calibration(&machine, "another processor"));
    assert!(other.ends_with(", not calibrated") && said.is_empty(), "{other}: {said}");
    let (broken, said) = report("once upon a time");
    assert!(broken.ends_with(", not calibrated"), "{broken}");
    assert!(said.contains("predictions do without the calibration") && said.contains("machine.toml"), "{said}");
    let refused = refused(&bench, &["predict", "guests.toml"], 2);
    assert!(refused.contains("measure again with `baremark predict --calibrate`"), "{refused}");
}
