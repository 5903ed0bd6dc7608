//! Tiers on a bridge of the lab, of which the web server is in a container. Needs root.

use crate::common::bench::{Bench, root};
use crate::common::tiers::{assert_at_work, document, have, ran, sound, told};

const LAB: &[&str] = &["topology.network=lab", "web.service=nginx", "database.service=postgres"];

/// App, web and database tiers in a namespace each, and the web server in a container.
#[test]
fn tiers_on_a_bridge_and_in_a_container_serve_their_users() {
    if !root() || !have(&["nginx", "postgres", "podman"]) {
        return;
    }
    let bench = Bench::new();
    let output = ran(&bench, &[LAB, &["web.on=container"]].concat(), &[]);
    let row = document(&output);
    let row = sound(&row);
    assert_at_work(row, &["web-1", "app-1", "database-1"]);
    for name in ["app-1", "database-1"] {
        assert_eq!(told(row, name)["on"], "native, lab network");
    }
    assert_eq!(told(row, "web-1")["on"], "container, lab network");
}
