//! Web farms of nginx, and tiers on a bridge of the lab. Needs root.

use crate::common::bench::{Bench, root, text};
use crate::common::consolidation::{
    assert_servers_without_rights_and_secrets, command, doctor, estimate, ran, recorded, records, study, there,
};
use crate::common::tiers::{self, all_gone, arguments, assert_at_work, document, have, served, sound, told};
use std::fs;
use std::path::PathBuf;

#[test]
fn nginx_serves_a_number_of_servers_that_is_not_searched() {
    if !root() || !have(&["nginx"]) {
        return;
    }
    let bench = Bench::new();
    bench.write("farm.toml", study("nginx", "servers = 2") + "[report]\nmetric = \"requests_per_s\"\n");
    let (result, output) = ran(&bench, "farm.toml");
    let rate = estimate(&result, "requests_per_s");
    assert!(rate.is_some_and(|rate| rate > 0.0), "{result:#}\n{}", text(&output.stderr));
    assert_eq!(estimate(&result, "servers_by_latency"), None, "nothing was searched: {result:#}");
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "everything is undone");
}

/// As those of this program's own server (`kernel`).
#[test]
fn no_nginx_of_a_farm_runs_as_the_superuser_or_has_a_secret() {
    if root() && have(&["nginx"]) {
        assert_servers_without_rights_and_secrets("nginx", " -e stderr -c ");
    }
}

const LAB: &[&str] = &["topology.network=lab", "web.service=nginx", "database.service=postgres"];

/// App, web and database tiers in a namespace each.
#[test]
fn tiers_on_a_bridge_serve_their_users() {
    if !root() || !have(&["nginx", "postgres"]) {
        return;
    }
    let bench = Bench::new();
    let output = tiers::ran(&bench, LAB, &[]);
    let row = document(&output);
    let row = sound(&row);
    assert_at_work(row, &["web-1", "app-1", "database-1"]);
    for name in ["web-1", "app-1", "database-1"] {
        assert_eq!(told(row, name)["on"], "native, lab network");
    }
}

#[test]
fn nothing_is_left_of_tiers_on_a_bridge_that_are_killed() {
    if !root() || !have(&["nginx", "postgres"]) {
        return;
    }
    let bench = Bench::new();
    // The database runs as somebody else, who must get there.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    fs::set_permissions(bench.folder.path(), open).unwrap();
    fs::create_dir(bench.path("runs")).unwrap();
    let set = [LAB, &["load.duration=300 s", "load.warm_up=1 s"]].concat();
    let mut run = command(&bench, &arguments(&set));
    run.arg("--folder").arg(bench.path("runs"));
    let (mut child, servers) = served(&bench, run);
    let names = recorded(&bench);
    assert!(names.len() >= 4, "three nodes and the bridge: {names:?}");
    assert!(there(&names).len() >= 4, "{names:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    all_gone(&servers);
    let said = doctor(&bench);
    assert_eq!(there(&names), [""; 0], "{}", text(&said.stderr));
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "{}", text(&said.stderr));
}
