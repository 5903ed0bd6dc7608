//! The script that a bundle carries derives its numbers again, and needs nothing of this program.

use crate::common::bench::{Bench, text};
use crate::common::bundled::bundled;
use crate::common::installed::has;
use baremark_bundle::unpack;
use serde_json::Value;
use std::fs;
use std::process::Command;

#[test]
fn a_bundle_is_derived_again_by_the_script_that_it_carries() {
    if !has("deriving a bundle again", &["python3"]) {
        return;
    }
    let bench = Bench::new();
    let bundle = unpack(bundled(&bench).as_slice()).unwrap();
    fs::write(bench.path("rederive.py"), baremark_bundle::REDERIVE).unwrap();
    let derived =
        Command::new("python3").arg("rederive.py").arg("run.tar.gz").current_dir(bench.folder.path()).output();
    let derived = derived.unwrap();
    let said = text(&derived.stdout);
    assert!(derived.status.success() && !said.contains("DIFFERS"), "{said}{}", text(&derived.stderr));
    let result: Value = serde_json::from_slice(&bundle.result).unwrap();
    let printed = result["estimates"].as_array().unwrap().len() + result["ratios"].as_array().unwrap().len();
    assert_eq!(said.lines().filter(|line| line.starts_with("ok ")).count(), printed, "{said}");
    assert_eq!(result["ratios"].as_array().unwrap().len(), 1);
}
