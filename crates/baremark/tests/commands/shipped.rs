//! The studies that ship with the program.

use crate::common::bench::{Bench, text};
use crate::common::outcome::rows;
use std::fs;
use std::path::Path;

/// What a machine may lack, in the words of a refusal.
const LACKS: &[&str] = &[
    " of memory in one trial, and ",
    " of memory, and ",
    " ranks need a CPU each, and this process may use ",
    "cache sizes are unknown on this machine",
];

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
        // 3: nothing of it can run here, which is the machine's matter and not the study's; its sizes may be, too.
        let lacks = LACKS.iter().any(|lacks| said.contains(lacks));
        if output.status.code() == Some(3) || (output.status.code() == Some(2) && lacks) {
            continue;
        }
        assert!(output.status.success(), "{name}: {said}");
        let plan = bench.json(&["plan", name, "--json"]);
        assert!(!rows(&plan, "arms").is_empty(), "{plan:#}");
        let asked = rows(&plan, "pairs").iter().any(|pair| pair["asked"] == true);
        assert_eq!(text(&output.stdout).contains("Time to ±"), asked, "{name}: {output:?}");
    }
}

/// A ratio has an interval from four blocks on: a study that compares and ends before them never has an answer.
#[test]
fn a_shipped_study_that_compares_may_have_blocks_enough() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    for entry in fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        let study: toml::Table = fs::read_to_string(entry.path()).unwrap().parse().unwrap();
        let most = study.get("design").and_then(|design| design.get("most_blocks")?.as_integer());
        let compares = study.get("report").is_some_and(|report| report.get("ratio_to").is_some());
        assert!(!compares || most.is_none_or(|most| most >= 4), "{}: most_blocks = {most:?}", entry.path().display());
    }
}
