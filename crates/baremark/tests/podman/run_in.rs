//! `baremark run --in`: one program in a container as well.

use crate::common::bench::{Bench, text};
use crate::common::run_in::fold_in;

#[test]
fn a_static_and_a_dynamic_program_print_the_same_in_a_container() {
    let bench = Bench::new();
    let listed = text(&bench.run(&["list", "environments"]).stdout);
    if listed.lines().any(|line| line.starts_with("container") && line.contains("not here")) {
        eprintln!("skipped: no containers: {listed}");
        return;
    }
    for out in fold_in(&bench, "native,container") {
        assert!(out.contains("container / native = 1.00 "), "{out}");
    }
}
