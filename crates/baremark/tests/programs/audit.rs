//! docs/audit.md: its script derives the printed ratio and interval from the stored trials, without any code of the program.

use crate::common::bench::{Bench, text};
use crate::common::installed::has;
use crate::common::stored::{self, named};
use std::path::Path;
use std::process::Command;

/// The script of the page.
fn script() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/audit.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```python\n").expect("a script");
    rest.split_once("```").expect("the end of the script").0.to_owned()
}

/// The lines of the script for a run: metric, derived ratio with ends, printed ratio with ends.
fn audited(bench: &Bench, run: &str) -> Vec<(String, [f64; 3], [f64; 3])> {
    let report = bench.run(&["report", run, "--json"]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    let (script, report) = (bench.write("audit.py", script()), bench.write("report.json", &report.stdout));
    let ran = Command::new("python3").arg(script).arg(bench.store()).arg(report).output().unwrap();
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let numbers = |words: &[&str]| -> [f64; 3] {
        words.iter().map(|word| word.parse().unwrap()).collect::<Vec<f64>>().try_into().unwrap()
    };
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words.len(), words[4]), (8, "printed"), "{line}");
        (words[0].to_owned(), numbers(&words[1..4]), numbers(&words[5..]))
    };
    text(&ran.stdout).lines().map(line).collect()
}

#[test]
fn the_script_of_the_audit_page_derives_the_printed_numbers() {
    if !has("the script of docs/audit.md", &["python3"]) {
        return;
    }
    let bench = stored::bench("small.db");
    // Blocks without and with a long-run variance; several quads, of which some may be discarded.
    for blocks in [7, 31] {
        let run = named(&bench, &format!("a self-check of {blocks} blocks"));
        let rows = audited(&bench, &run);
        assert_eq!(rows.len(), 1, "{rows:?}");
        let (metric, derived, printed) = &rows[0];
        assert_eq!(metric, "gups");
        for (one, other) in derived.iter().zip(printed) {
            assert!((one - other).abs() < 1e-6, "{blocks} blocks: derived {derived:?}, printed {printed:?}");
        }
        let document = bench.json(&["report", &run, "--json"]);
        assert_eq!(document["ratios"][0]["blocks"], blocks, "{document:#}");
    }
}
