//! Whether users notice that servers come and go. Needs the web servers, balancers and databases of the suite `servers`.

use crate::common::bench::root;
use crate::common::full::{
    TLS, assert_none_failed, by_a_policy, by_a_schedule, in_containers, over_tls, over_two_balancers,
};
use crate::common::tiers::{FULL_NEEDS, OTHER_NEEDS, have};

#[test]
fn servers_come_and_go_under_users_and_no_request_fails() {
    if have(FULL_NEEDS) {
        assert_none_failed(&by_a_schedule());
    }
}

#[test]
fn a_policy_adds_servers_and_no_request_fails() {
    if have(OTHER_NEEDS) {
        assert_none_failed(&by_a_policy());
    }
}

#[test]
fn no_request_by_tls_fails() {
    for (needs, set) in TLS {
        if have(&[needs]) {
            let (result, succeeded, failed) = over_tls(set);
            let failures = &result["applications"][0]["load"]["failures"];
            assert!(succeeded > 0 && failed == 0, "{set}: {succeeded} succeeded, {failed} failed: {failures}");
        }
    }
}

#[test]
fn no_request_over_two_balancers_fails() {
    if have(&["haproxy"]) {
        let failures = over_two_balancers().0["applications"][0]["load"]["failures"].clone();
        assert_eq!(failures, serde_json::json!({}));
    }
}

#[test]
fn no_request_to_containers_fails() {
    if have(&[FULL_NEEDS, &["podman"]].concat()) && root() {
        let Some(result) = in_containers() else { return };
        assert_eq!(result["applications"][0]["load"]["failures"], serde_json::json!({}));
    }
}
