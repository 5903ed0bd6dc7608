//! `--json` of what measures is a document that fits its schema in docs/.

use crate::common::bench::{Bench, SMALL};
use crate::common::outcome::{rows, sound};
use crate::common::played::noisy;
use crate::common::schemas::fits;

#[test]
fn documents_of_views_fit_their_schemas() {
    let bench = Bench::new();
    fits(&bench, &["top", "--json", "--interval", "100 ms", "--count", "1"], "baremark-top/1");
    fits(&bench, &["top", "--cost", "--json", "--interval", "50 ms", "--count", "4"], "baremark-top-cost/1");
    fits(&bench, &["top", "--rows", "--batch", "json", "--interval", "100 ms", "--count", "1"], "baremark-top-rows/1");
}

#[test]
fn documents_of_runs_fit_their_schemas() {
    let bench = Bench::new();
    let study = bench.write("noisy.toml", noisy(&bench));
    let study = study.to_str().unwrap();
    for _ in 0..3 {
        fits(&bench, &["run", study, "--quick", "--json"], "baremark-result/2");
    }
    fits(&bench, &["report", "--json"], "baremark-result/2");
    fits(&bench, &["ab", "sleep 0.02", "sleep 0.02", "--budget", "2s", "--json"], "baremark-result/2");
    let planned = fits(&bench, &["plan", study, "--json"], "baremark-plan/1");
    assert!(planned["price"]["levels"].is_array(), "{planned:#}");
    let history = fits(&bench, &["history", "--json"], "baremark-history/1");
    fits(&bench, &["history", "--changes", "--json"], "baremark-changes/1");
    let run = history["runs"][1]["id"].as_str().unwrap();
    let (base, other) = (format!("{run}:rate=100"), format!("{run}:rate=130"));
    fits(&bench, &["compare", &base, &other, "--json"], "baremark-comparison/2");
    fits(&bench, &["check", "--against", &base, &other, "--json"], "baremark-comparison/2");
}

/// A kernel has figures of memory and pages, of counters and of the null executor, which no program has.
#[test]
fn a_document_of_a_kernel_fits_its_schema() {
    let bench = Bench::new();
    let study = bench.write("fast.toml", SMALL.replace("\"4k\"", "[\"4k\", \"2m\"]").replace("20 ms", "2 ms"));
    let document = fits(&bench, &["run", study.to_str().unwrap(), "--quick", "--json"], "baremark-result/2");
    sound(&document);
    assert!(!rows(&document, "trials").is_empty(), "{document:#}");
}
