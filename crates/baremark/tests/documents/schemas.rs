//! `--json` of every command is one JSON document with a `format`, which its schema in docs/ describes; here those of stored runs.

use crate::common::schemas::{fits, misfits};
use crate::common::stored::{self, named};
use serde_json::Value;

const COMMAND: &str = "counting lines";

#[test]
fn documents_of_stored_runs_fit_their_schemas() {
    let bench = stored::bench("schema-4.db");
    let run = named(&bench, COMMAND);
    fits(&bench, &["history", "--json"], "baremark-history/1");
    fits(&bench, &["history", "--changes", "--json"], "baremark-changes/1");
    fits(&bench, &["report", &run, "--json"], "baremark-result/2");
    let (base, other) = (format!("{run}:numbers=1000"), format!("{run}:numbers=2000"));
    fits(&bench, &["compare", &base, &other, "--json"], "baremark-comparison/2");
    fits(&bench, &["check", "--against", &base, &other, "--json"], "baremark-comparison/2");
    let bench = stored::bench("small.db");
    for study in ["a small study", "a self-check of 7 blocks", "a self-check of 31 blocks"] {
        fits(&bench, &["report", &named(&bench, study), "--json"], "baremark-result/2");
        fits(&bench, &["report", &named(&bench, study), "--verify-document", "--json"], "baremark-violations/1");
    }
}

#[test]
fn the_validator_finds_what_is_wrong() {
    let schema = serde_json::json!({
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": { "a": { "type": ["integer", "null"] }, "b": { "type": "array", "items": { "enum": [1, 2] } } },
    });
    let wrong = |value: Value| {
        let mut found = Vec::new();
        misfits(&value, &schema, &schema, "", &mut found);
        found.len()
    };
    assert_eq!(wrong(serde_json::json!({ "a": 1, "b": [1, 2] })), 0);
    for value in [serde_json::json!({}), serde_json::json!({ "a": "x" }), serde_json::json!({ "a": null, "b": [3] })] {
        assert_eq!(wrong(value.clone()), 1, "{value}");
    }
    assert_eq!(wrong(serde_json::json!({ "a": 1.5, "c": 1 })), 2);
}
