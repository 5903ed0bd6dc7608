//! `baremark explain` of a run, and of the machine as it is now.

use crate::common::bench::{Bench, SMALL, text};
use crate::common::played::PLAYED;
use crate::common::schemas::assert_fits;

#[test]
fn explain_answers_for_a_run_and_for_the_machine_now() {
    let bench = Bench::new();
    // Of a program, which may have connections.
    bench.write("played.toml", PLAYED.replace("_blocks = 10", "_blocks = 4"));
    bench.json(&["run", "played.toml", "--json"]);
    let layers = ["hypervisor", "CPU", "run queue", "memory", "paging", "disk", "network", "application tier"];
    let now = ["explain", "--now", "--for", "2 s", "--json"];
    for (arguments, run) in [(&["explain", "--json"][..], true), (&now[..], false)] {
        let document = assert_fits(&bench.run(arguments).stdout, "baremark-explanation/1");
        assert_eq!(document["run"].is_string(), run);
        let place = &document["places"][0];
        let found: Vec<&str> =
            place["layers"].as_array().unwrap().iter().map(|row| row["layer"].as_str().unwrap()).collect();
        assert_eq!(found, layers);
        let used = &place["layers"][1]["utilization"];
        assert!(
            used["lo"].as_f64() <= used["value"].as_f64() && used["value"].as_f64() <= used["hi"].as_f64(),
            "{place:#}"
        );
        // Programs compute in a run; how much goes on here now is not ours.
        assert!(used["value"].as_f64().is_some_and(|value| value > 0.0 || !run), "{place:#}");
        assert!(!place["layers"][6]["saturated"].is_null() && !place["layers"][7]["saturated"].is_null(), "{place:#}");
    }
    let shown = text(&bench.run(&["explain"]).stdout);
    assert!(shown.contains("Answer  ") && !shown.contains("  application tier  not observed"), "{shown}");
    for (arguments, why) in [
        (&["explain", "--now", "--for", "1 s"][..], "write a time from 2 s to 10 min"),
        (&["explain", "--now", "latest"][..], "cannot be used with"),
        (&["explain", "--for", "3 s"][..], "--now"),
    ] {
        let refused = bench.run(arguments);
        assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
    }
    let unobserved = format!("{SMALL}\n[observe]\nwhich = \"null\"\n");
    let study = bench.write("null.toml", unobserved);
    bench.json(&["run", study.to_str().unwrap(), "--json", "--quick"]);
    // What ranks themselves measured is known without observers, and the rest is not guessed.
    let place = &bench.json(&["explain", "--json"])["places"][0];
    let known = |layer: &str| {
        let row = place["layers"].as_array().unwrap().iter().find(|row| row["layer"] == layer);
        !row.expect(layer)["saturated"].is_null()
    };
    assert!(known("run queue") && !known("memory") && !known("disk"), "{place:#}");
}
