//! The table of environments, and what is asked of it.

use baremark_model::environments::{
    ALL, Capabilities, Holder, LACKING, LACKS, LIKE, VERSION, can, filters_calls, identifies, is_hosted_here, lacking,
    names, of,
};
use baremark_model::value::Value;
use std::collections::BTreeMap;

fn settings(of: &[(&str, Value)]) -> BTreeMap<String, Value> {
    of.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

fn words(of: &[&str]) -> Value {
    Value::Words(of.iter().map(|word| (*word).to_owned()).collect())
}

/// What a row says of itself fits together: nobody takes turns on a kernel that is not this machine's, and only a virtual machine has a guest's.
#[test]
fn the_capabilities_of_each_row_can_be() {
    for kind in ALL {
        let can = kind.can;
        assert!(!can.interleaves || (can.on_this_kernel() && can.on_these_processors()), "{}", kind.name);
        assert!(!can.host_files || can.on_this_kernel(), "{}", kind.name);
        assert_eq!(can.kernel == Holder::Guest, can.virtual_machine && !can.on_this_kernel(), "{}", kind.name);
        assert!(kind.elsewhere_by.iter().all(|key| kind.settings.iter().any(|of| of.key == *key)), "{}", kind.name);
        assert!(kind.short.is_none_or(|short| short.needs.is_empty() || short.takes_target()), "{}", kind.name);
    }
}

#[test]
fn environments_are_found_by_what_they_can() {
    assert_eq!(names(|can| can.divisible), ["microvm", "sandbox", "container", "qemu", "cloud-hypervisor"]);
    assert_eq!(names(|can| can.network), ["native", "sandbox", "container", "qemu", "ssh"]);
    assert_eq!(names(|can| can.interleaves), ["native", "microvm", "null"]);
    assert_eq!(can("elsewhere"), Capabilities::UNKNOWN);
    assert_eq!(of(&BTreeMap::new()), "native");
    assert_eq!(of(&BTreeMap::from([("environment".to_owned(), "tuned".to_owned())])), "tuned");
}

#[test]
fn settings_can_put_an_environment_elsewhere_and_take_its_filter() {
    let hosts = settings(&[("hostfile", Value::Text("hosts".to_owned()))]);
    for (kind, own, here) in [
        ("mpi", None, true),
        ("mpi", Some(&hosts), false),
        ("qemu", None, true),
        ("ssh", None, false),
        ("elsewhere", None, false),
    ] {
        assert_eq!(is_hosted_here(kind, own), here, "{kind} {own:?}");
    }
    let off = settings(&[("seccomp", Value::Choice("off".to_owned()))]);
    let without = settings(&[("layers", words(&["mount", "pid"]))]);
    for (kind, own, filters) in [
        ("container", None, true),
        ("container", Some(&off), false),
        ("sandbox", Some(&without), false),
        ("native", None, false),
        ("microvm", None, false),
        ("qemu", None, false),
    ] {
        assert_eq!(filters_calls(kind, own), filters, "{kind} {own:?}");
    }
}

/// Plans of earlier versions have the reasons alone.
#[test]
fn what_a_sandbox_lacks_is_named_in_old_plans_and_new_ones() {
    let reasons = words(&["user (No space left on device); control-group (needs (root); or a delegated one)"]);
    let old = settings(&[(LACKS, reasons.clone())]);
    assert_eq!(lacking(&old), ["user", "control-group"]);
    let new = settings(&[(LACKS, reasons), (LACKING, words(&["user"]))]);
    assert_eq!(lacking(&new), ["user"]);
    assert_eq!(lacking(&settings(&[])), Vec::<String>::new());
}

#[test]
fn a_setting_that_nobody_knows_identifies_somebody() {
    assert!(identifies("kubernetes", "context") && !identifies("qemu", "cpu_model"));
    assert!(identifies("qemu", "of a later version") && identifies("of a later version", "host"));
    assert!([LIKE.key, LACKS, LACKING, VERSION].into_iter().all(|key| !identifies("of a later version", key)));
}
