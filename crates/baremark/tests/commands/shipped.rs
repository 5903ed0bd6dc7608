//! The studies that ship with the program.

use crate::common::bench::{Bench, text};
use crate::common::outcome::rows;
use crate::machines::unpacked;
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
    // What is installed on the machine at hand is asked of no engine: that takes seconds for each study.
    let machine = unpacked(&bench, "guest-nested-kvm");
    let machine = machine.to_str().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        let output = bench.run(&["plan", name, "--machine", machine]);
        let said = text(&output.stderr);
        assert!(!said.contains("no shipped study"), "{name} is not built in");
        // 3: nothing of it can run here, which is the machine's matter and not the study's; its sizes may be, too.
        let lacks = LACKS.iter().any(|lacks| said.contains(lacks));
        if output.status.code() == Some(3) || (output.status.code() == Some(2) && lacks) {
            continue;
        }
        assert!(output.status.success(), "{name}: {said}");
        let plan = bench.json(&["plan", name, "--machine", machine, "--json"]);
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

/// A study that comes with the program and needs what a machine lacks is the machine's matter (3), not a mistake in what was typed (2): the same
/// text as a file of the user's own.
#[test]
fn a_shipped_study_that_needs_what_is_not_there_ends_with_3() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let machine = folder.join("tests/machines/one-cpu-1-gib.txt");
    let bench = Bench::new();
    for (study, lacks) in [
        ("page-walks", "array needs 768 MiB of memory in one trial, and "),
        ("mtu", "2 ranks need a CPU each, and this process may use 1"),
    ] {
        let code = |study: &str| {
            let output = bench.run(&["plan", study, "--machine", machine.to_str().unwrap()]);
            assert!(text(&output.stderr).contains(lacks), "{study}: {}", text(&output.stderr));
            output.status.code()
        };
        let own = fs::read_to_string(folder.join(format!("../../studies/{study}.toml"))).unwrap();
        bench.write("own.toml", own);
        assert_eq!((code(study), code("own.toml")), (Some(3), Some(2)), "{study}");
    }
}
