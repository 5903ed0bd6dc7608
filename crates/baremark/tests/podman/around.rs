//! System activity of a container and of the machine that it is on.

use crate::common::activity::rows;
use crate::common::bench::{Bench, SMALL, text};

#[test]
fn an_arm_elsewhere_is_observed_there_and_here() {
    let bench = Bench::new();
    let environments = bench.json(&["list", "environments", "--json"]);
    let container =
        environments["environments"].as_array().unwrap().iter().find(|place| place["name"] == "container").unwrap();
    if !container["missing"].is_null() {
        println!("skipped: no containers here: {}", container["missing"]);
        return;
    }
    let study = SMALL.replace("[\"native\", \"null\"]", "[\"native\", \"container\"]");
    let study = bench.write(
        "both.toml",
        study.replace("least_blocks = 10", "least_blocks = 4").replace("most_blocks = 12", "most_blocks = 4"),
    );
    let document = bench.json(&["run", study.to_str().unwrap(), "--json"]);
    let switches = |place| rows(&document, "container", place, "kernel.context_switches").len();
    assert_eq!((switches("container"), switches("this machine")), (1, 1), "{:#}", document["observed"]["absent"]);
    assert_eq!(rows(&document, "native", "container", "kernel.context_switches").len(), 0);
    let tables = text(&bench.run(&["report", "--tables", "d1"]).stdout);
    assert!(
        tables.contains("System activity of the machine") && !tables.contains("System activity in the guest\n"),
        "{tables}"
    );
    assert!(tables.contains("container: its kernel is this machine's"), "{tables}");
}
