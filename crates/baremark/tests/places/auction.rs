//! Tiers of other people's servers, each in a container.

use crate::common::bench::root;
use crate::common::full::in_containers;
use crate::common::tiers::{FULL_NEEDS, assert_at_work, have, sound};
use serde_json::Value;

/// Without an image a container sees this machine's own programs, so that each tier, the database too, runs in one.
#[test]
fn every_tier_runs_in_a_container() {
    if !have(&[FULL_NEEDS, &["podman"]].concat()) || !root() {
        return;
    }
    let Some(result) = in_containers() else { return };
    let row = sound(&result);
    assert_at_work(row, &["balancer-1", "web-1", "app-1", "app-2", "database-1", "bus-1"]);
    for one in row["instances"].as_array().unwrap() {
        assert_eq!(one["on"], "container", "{one}");
    }
    let sites = row["load"]["sites"].as_array().unwrap();
    let came = |site: &Value| site["succeeded"].as_u64().unwrap() > 0;
    assert!(sites.len() == 2 && sites.iter().all(came), "users come from a container, too: {sites:?}");
}
