//! The list of environments.

use crate::common::bench::{Bench, kvm, text};

#[test]
fn the_list_of_environments_says_what_the_microvm_is_good_for() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    let listed = text(&bench.run(&["list", "environments"]).stdout);
    let said = listed.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "microvm this machine, inside a virtual machine that shares the agent's memory",
        "good for what paging, page sizes and exits cost your own code within a minute",
        "device and kernel work runs natively, so it is a lower bound for a virtual machine",
        "With exitless = \"on\" a polling thread answers the system calls of a program without exits",
    ] {
        assert!(said.contains(part), "{part}: {listed}");
    }
}
