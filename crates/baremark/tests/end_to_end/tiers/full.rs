//! All tiers together: users by TLS, servers that come and go, web servers that read their configuration again.

use super::{FULL, FULL_NEEDS, OTHER, OTHER_NEEDS, assert_at_work, document, have, ran, sound};
use crate::bench::{Bench, root};
use serde_json::Value;

/// Every instance reports about itself, and nobody that users asked failed.
fn assert_whole(result: &Value, instances: &[&str]) {
    let row = sound(result);
    assert!(row["invariants"]["report"]["live_bids"].as_i64().unwrap() > 0, "somebody bid: {}", row["invariants"]);
    let load = &row["load"];
    assert_eq!(load["elasticity"]["failed_operations"], 0, "{} {}", load["failures"], load["failure_examples"]);
    assert!(load["propagation"]["samples"].as_u64().unwrap_or(0) > 0, "pushed bids are seen: {load}");
    assert_at_work(row, instances);
}

#[test]
fn servers_come_and_go_under_users_and_no_request_fails() {
    if !have(FULL_NEEDS) {
        return;
    }
    let bench = Bench::new();
    // Servers that take long to start have seconds for it before fewer are requested again: then none would come.
    let schedule = "elastic.schedule=[{ at = '0 s', app = 2, web = 1 }, { at = '2 s', app = 3 }, { at = '4 s', web = 2 }, \
                    { at = '14 s', app = 2 }, { at = '16 s', web = 1 }]";
    let reload = "faults=[{ at = '18 s', tier = 'web', what = 'reload' }]";
    let set = [FULL, &[schedule, reload, "elastic.capacity=15", "load.duration=21 s"]].concat();
    let result = document(&ran(&bench, &set, &[]));
    assert_whole(&result, &["balancer-1", "web-1", "app-1", "app-2", "database-1", "bus-1"]);
    let row = &result["applications"][0];
    assert_eq!((row["tls"].as_bool(), row["bus"].as_str()), (Some(true), Some("redis")));
    let elastic = &row["load"]["elasticity"];
    let changes = elastic["adaptations"].as_array().unwrap();
    assert!(changes.len() >= 3, "{elastic}");
    for tier in ["app", "web"] {
        let metrics = &elastic["metrics"][tier];
        assert!(metrics["timeshare_under"].as_f64().unwrap() > 0.0, "40 users of 15 a server need three: {elastic}");
        assert!(metrics["supply_adaptations"].as_u64().unwrap() > 0, "{elastic}");
    }
}

#[test]
fn the_other_services_carry_users_and_a_policy_adds_servers() {
    if !have(OTHER_NEEDS) {
        return;
    }
    let bench = Bench::new();
    // Any use at all asks for one more, and a second without any for no fewer: how quick this machine is decides nothing.
    let policy =
        ["elastic.policy=utilization", "elastic.least=2", "elastic.most=3", "elastic.high=0.1 %", "elastic.low=0 %"];
    let reload = "faults=[{ at = '8 s', tier = 'web', what = 'reload' }]";
    let set = [OTHER, &policy, &[reload, "elastic.every=1 s", "elastic.cooldown=2 s", "load.duration=14 s"]].concat();
    let result = document(&ran(&bench, &set, &[]));
    assert_whole(&result, &["balancer-1", "web-1", "app-1", "app-2", "app-3", "database-1", "bus-1"]);
    let row = &result["applications"][0];
    assert_eq!((row["database"].as_str(), row["bus"].as_str()), (Some("mariadb"), Some("redis")), "the bus that does");
    let change = &row["load"]["elasticity"]["adaptations"][0];
    assert_eq!(
        (change["tier"].as_str(), change["from"].as_u64(), change["to"].as_u64()),
        (Some("app"), Some(2), Some(3))
    );
}

/// The certificate is the run's own, and each of the three that can end TLS takes it.
#[test]
fn users_come_by_tls_to_each_web_server() {
    let bench = Bench::new();
    for (needs, set) in [
        (&["nginx"][..], &["web.service=nginx"][..]),
        (&["apache2"], &["web.service=apache"]),
        (&["haproxy"], &["balancer.service=haproxy"]),
        (&["nginx"], &["balancer.service=nginx"]),
    ] {
        if !have(needs) {
            continue;
        }
        let few = ["topology.tls=true", "load.users=10", "load.warm=1 s", "load.duration=2 s", "limits.mix=900 %"];
        let result = document(&ran(&bench, &[set, &few].concat(), &[]));
        let row = sound(&result);
        assert_eq!(row["tls"], true);
        let operations = row["load"]["operations"].as_array().unwrap();
        let (done, failed) = operations.iter().fold((0, 0), |(done, failed), row| {
            (done + row["succeeded"].as_u64().unwrap(), failed + row["failed"].as_u64().unwrap())
        });
        assert!(done > 0 && failed == 0, "{set:?}: {done} done, {failed} failed: {}", row["load"]["failures"]);
    }
}

/// Without an image a container sees this machine's own programs, so that each tier, the database too, runs in one.
#[test]
fn every_tier_runs_in_a_container() {
    if !have(&[FULL_NEEDS, &["podman"]].concat()) || !root() {
        return;
    }
    let bench = Bench::new();
    let on =
        ["balancer.on=container", "web.on=container", "app.on=container", "database.on=container", "bus.on=container"];
    let reload = "faults=[{ at = '3 s', tier = 'web', what = 'reload' }]";
    // Containers may have fewer open files than this machine.
    let few = "services.haproxy.connections=400";
    let users = "load.on=['native', 'container']";
    let output = ran(&bench, &[FULL, &on, &[reload, few, users]].concat(), &[]);
    if output.status.code() == Some(3) {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let result = document(&output);
    let row = sound(&result);
    assert_at_work(row, &["balancer-1", "web-1", "app-1", "app-2", "database-1", "bus-1"]);
    for one in row["instances"].as_array().unwrap() {
        assert_eq!(one["on"], "container", "{one}");
    }
    let sites = row["load"]["sites"].as_array().unwrap();
    let came = |site: &Value| site["succeeded"].as_u64().unwrap() > 0;
    assert!(sites.len() == 2 && sites.iter().all(came), "users come from a container, too: {sites:?}");
    let failed = &row["load"]["failures"];
    assert!(failed.as_object().is_some_and(serde_json::Map::is_empty), "{failed}");
}
