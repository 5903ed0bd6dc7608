//! Runs with every tier, whose servers come and go under users.

use super::bench::{Bench, text};
use super::tiers::{FULL, OTHER, assert_at_work, document, ran, sound};
use serde_json::Value;

/// Every instance reports about itself, and nothing is lost.
pub fn assert_whole(result: &Value, instances: &[&str]) {
    let row = sound(result);
    assert!(row["invariants"]["report"]["live_bids"].as_i64().unwrap() > 0, "somebody bid: {}", row["invariants"]);
    let load = &row["load"];
    assert!(load["elasticity"]["failed_operations"].is_u64(), "{load}");
    assert!(load["propagation"]["samples"].as_u64().unwrap_or(0) > 0, "pushed bids are seen: {load}");
    for told in row["instances"].as_array().unwrap() {
        let is_lost = |line: &Value| line.as_str().is_some_and(|line| line.contains("bus: "));
        assert!(!told["log"].as_array().unwrap().iter().any(is_lost), "the bus carries: {told}");
    }
    assert_at_work(row, instances);
}

/// Nobody that users asked failed.
pub fn assert_none_failed(result: &Value) {
    let load = &result["applications"][0]["load"];
    assert_eq!(load["elasticity"]["failed_operations"], 0, "{} {}", load["failures"], load["failure_examples"]);
}

/// Servers that are added and removed by a schedule, and a web server that reads its configuration again.
pub fn by_a_schedule() -> Value {
    let bench = Bench::new();
    // Servers that take long to start have seconds for it before fewer are requested again: then none would come.
    let schedule = "elastic.schedule=[{ at = '0 s', app = 2, web = 1 }, { at = '2 s', app = 3 }, { at = '4 s', web = 2 }, \
                    { at = '14 s', app = 2 }, { at = '16 s', web = 1 }]";
    let reload = "faults=[{ at = '18 s', tier = 'web', what = 'reload' }]";
    let set = [FULL, &[schedule, reload, "elastic.capacity=15", "load.duration=21 s"]].concat();
    document(&ran(&bench, &set, &[]))
}

/// A server that a policy adds.
pub fn by_a_policy() -> Value {
    let bench = Bench::new();
    // Any use at all asks for one more, and a second without any for no fewer: how quick this machine is decides nothing.
    let policy =
        ["elastic.policy=utilization", "elastic.least=2", "elastic.most=3", "elastic.high=0.1 %", "elastic.low=0 %"];
    let reload = "faults=[{ at = '8 s', tier = 'web', what = 'reload' }]";
    let set = [OTHER, &policy, &[reload, "elastic.every=1 s", "elastic.cooldown=2 s", "load.duration=14 s"]].concat();
    document(&ran(&bench, &set, &[]))
}

/// Every tier in a container, and users from one as well; `None` where containers cannot be had.
pub fn in_containers() -> Option<Value> {
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
        return None;
    }
    Some(document(&output))
}

/// Settings that end TLS at one of the three servers that can, and what they need.
pub const TLS: [(&str, &str); 4] = [
    ("nginx", "web.service=nginx"),
    ("apache2", "web.service=apache"),
    ("haproxy", "balancer.service=haproxy"),
    ("nginx", "balancer.service=nginx"),
];

/// Few users by TLS: the result, and how many operations succeeded and failed.
pub fn over_tls(set: &str) -> (Value, u64, u64) {
    let bench = Bench::new();
    let few = ["topology.tls=true", "load.users=10", "load.warm_up=1 s", "load.duration=2 s", "limits.mix=900 %"];
    let result = document(&ran(&bench, &[&[set][..], &few].concat(), &[]));
    let operations = sound(&result)["load"]["operations"].as_array().unwrap();
    let sum = |key: &str| operations.iter().map(|row| row[key].as_u64().unwrap()).sum();
    let (succeeded, failed) = (sum("succeeded"), sum("failed"));
    (result, succeeded, failed)
}

/// Few users of two sites over two balancers, with TLS; also what is reported of it.
pub fn over_two_balancers() -> (Value, String) {
    let bench = Bench::new();
    let few = ["load.users=10", "load.warm_up=1 s", "load.duration=3 s", "limits.mix=900 %"];
    let balanced =
        ["topology.tls=true", "balancer.service=haproxy", "balancer.count=2", "load.on=['native', 'native']"];
    let result = document(&ran(&bench, &[few, balanced].concat(), &[]));
    (result, text(&bench.run(&["report", "--details"]).stdout))
}
