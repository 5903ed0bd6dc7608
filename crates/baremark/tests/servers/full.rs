//! All tiers together: users by TLS, servers that come and go, web servers that read their configuration again.

use crate::common::full::{TLS, assert_whole, by_a_policy, by_a_schedule, over_tls};
use crate::common::tiers::{FULL_NEEDS, OTHER_NEEDS, have};

#[test]
fn servers_come_and_go_under_users_and_nothing_is_lost() {
    if !have(FULL_NEEDS) {
        return;
    }
    let result = by_a_schedule();
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
    let result = by_a_policy();
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
    for (needs, set) in TLS {
        if have(&[needs]) {
            let (result, succeeded, _) = over_tls(set);
            let row = &result["applications"][0];
            assert!(row["tls"] == true && succeeded > 0, "{set}: {}", row["load"]["failures"]);
        }
    }
}
