//! What holds of any run, however disturbed the machine was: every trial counts or says why not, and figures agree with each other.

use crate::common::bench::{Bench, text};
use baremark_report::check_document;
use serde_json::Value;

/// An array of a document.
pub fn rows<'v>(document: &'v Value, key: &str) -> &'v Vec<Value> {
    document[key].as_array().unwrap_or_else(|| panic!("{key} is not an array: {document:#}"))
}

/// Whether a trial counts.
pub fn counts(trial: &Value) -> bool {
    trial["status"] == "ok"
}

/// How many values this treatment has of trials that count; a self-check has two of each.
pub fn counted(document: &Value, treatment: &Value) -> usize {
    let arms = rows(document, "trials").iter().filter(|trial| counts(trial)).flat_map(|trial| rows(trial, "arms"));
    arms.filter(|arm| arm["treatment"] == *treatment).count()
}

/// Runs a study with `--json` among the arguments and gives its document and what it said. A machine on which no trial counts is told
/// so by the exit code and a sentence; either way the document is [`sound`].
pub fn measured(bench: &Bench, arguments: &[&str]) -> (Value, String) {
    let output = bench.run(arguments);
    let said = text(&output.stderr);
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{arguments:?}: {why}: {said}"));
    sound(&document);
    let none = !rows(&document, "trials").iter().any(counts);
    let told = said.contains("nothing could be measured: ");
    match output.status.code() {
        Some(0) => assert!(!none && !told, "{said}"),
        Some(1) => assert!(none && told || said.contains("nothing could be compared: "), "{said}"),
        other => panic!("{arguments:?}: {other:?}: {said}"),
    }
    (document, said)
}

/// Asserts what holds of every document: a trial that does not count has its reason; no estimate has more values and no ratio more blocks
/// than there are trials that count; and it keeps every exact rule of [`check_document`].
pub fn sound(document: &Value) {
    keeps_rules(document);
    for trial in rows(document, "trials") {
        let nonempty = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        let reasons = match trial["status"].as_str() {
            Some("ok") => trial["reason"].is_null() && trial["reasons"].is_null(),
            Some("void") => trial["reasons"].as_array().is_some_and(|all| !all.is_empty() && all.iter().all(nonempty)),
            Some("failed") => nonempty(&trial["reason"]),
            _ => false,
        };
        assert!(reasons, "a trial counts, or says why not: {trial:#}");
    }
    for row in rows(document, "estimates") {
        let n = usize::try_from(row["n"].as_u64().unwrap()).unwrap();
        assert!(n >= 1 && n <= counted(document, &row["treatment"]), "{row:#}");
    }
    for row in rows(document, "ratios") {
        let blocks = usize::try_from(row["blocks"].as_u64().unwrap()).unwrap();
        let [above, below] = ["treatment", "relative_to"].map(|side| counted(document, &row[side]));
        assert!(blocks <= above.min(below), "{row:#}");
        assert_eq!(row["ratio"].is_null(), blocks == 0, "{row:#}");
    }
}

/// Asserts that a document keeps every exact rule of [`check_document`].
pub fn keeps_rules(document: &Value) {
    let typed = serde_json::from_value(document.clone()).unwrap_or_else(|why| panic!("{why}: {document:#}"));
    let violations: Vec<String> = check_document::check_exact(&typed).iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{violations:#?}");
}
