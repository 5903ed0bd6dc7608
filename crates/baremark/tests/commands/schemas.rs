//! `--json` of lists and plans is a document that fits its schema in docs/; that of predictions is looked at where they are.

use crate::common::bench::{Bench, SMALL};
use crate::common::schemas::fits;

#[test]
fn documents_of_lists_and_plans_fit_their_schemas() {
    let bench = Bench::new();
    for what in ["workloads", "environments", "studies", "published", "keys", "formats", "exit-codes"] {
        fits(&bench, &["list", what, "--json"], "baremark-list/1");
    }
    fits(&bench, &["list", "--json"], "baremark-list/1");
    fits(&bench, &["doctor", "--json"], "baremark-doctor/1");
    fits(&bench, &["history", "--json"], "baremark-history/1");
    let study = bench.write("small.toml", SMALL);
    fits(&bench, &["show", "standard", "--json"], "baremark-study/1");
    fits(&bench, &["plan", study.to_str().unwrap(), "--json"], "baremark-plan/1");
}

/// Half a minute of simulation.
#[test]
#[ignore = "long; `make soak` runs it"]
fn schemas_of_long_commands_fit() {
    let document = fits(&Bench::new(), &["predict", "--validate", "--json"], "baremark-validation/1");
    assert!(document["conditions"].as_array().unwrap().len() > 10 && document["ratios"].as_array().unwrap().len() > 3);
}
