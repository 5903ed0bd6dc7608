//! What exits of a virtual machine cost. Needs /dev/kvm.

use crate::common::before_work::{estimates, study};
use crate::common::bench::{Bench, kvm};

#[test]
fn an_exit_costs_more_than_a_native_call() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    bench.write("e.toml", study("[\"vm-exit\", \"syscall\"]", "environment = \"native\"", ""));
    let document = bench.json(&["run", "e.toml", "--json"]);
    let one = |metric: &str| estimates(&document, metric, "workload")[0].1;
    assert!(one("exit_ns") > one("native_call_ns") && one("forwarded_call_ns") > one("exit_ns"), "{document:#}");
}
