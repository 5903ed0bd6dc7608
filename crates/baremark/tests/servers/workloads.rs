//! A tier that has no place here.

use crate::common::bench::text;
use crate::common::studied::{AUCTION, Studied};
use crate::common::tiers::have;
use serde_json::Value;

#[test]
fn a_tier_that_has_no_place_here_is_absent_with_the_reason() {
    let nowhere = "ssh:nowhere.invalid";
    let study = AUCTION.replace("[factors]\n", "[topology.database]\nservice = \"postgres\"\n[factors]\n");
    let study = study.replace("[\"on\", \"off\"]", &format!("\"on\"\n\"app.on\" = [\"native\", \"{nowhere}\"]"));
    let study = study.replace("columns = \"app.settings.durable\"", "columns = \"app.on\"");
    let study = study.replace("{ \"app.settings.durable\" = \"on\" }", "{ \"app.on\" = \"native\" }");
    if !have(&["postgres"]) {
        return;
    }
    let studied = Studied::new(&study);
    let plan = studied.json(&["plan", "study.toml", "--json"]);
    let reason = |row: &Value| row["reason"].as_str().unwrap_or_default().to_owned();
    assert_eq!(plan["arms"].as_array().unwrap().len(), 1, "{plan:#}");
    let absent = &plan["absent"][0];
    assert_eq!(absent["treatment"]["app.on"], nowhere);
    let why = "no place ssh:nowhere.invalid for the app tier: nowhere.invalid cannot be reached by ssh";
    assert!(reason(absent).starts_with(why), "{absent}");
    studied.bench.write("study.toml", study.replace("[\"native\", ", "[").replace("ratio_to", "# ratio_to"));
    let output = studied.run(&["run", "study.toml"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("nothing in this study can run here; no place ssh:"), "{output:?}");
}
