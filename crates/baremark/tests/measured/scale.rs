//! Known costs on blinded arms, through the whole program.

use crate::common::bench::{Bench, text};
use crate::common::schemas::assert_fits;

/// Work that is counted in cycles and disturbed by little: five per cent of it must be found.
const STUDY: &str = r#"
[study]
title = "multiply and add"
[workload]
kind = "fma"
[factors]
environment = "native"
ranks = 1
[design]
phase = "20 ms"
quads = 1
"#;

#[test]
fn intervals_cover_known_costs() {
    let bench = Bench::new();
    bench.write("fma.toml", STUDY);
    let output = bench.run(&["verify-scale", "fma.toml", "--quick", "--json"]);
    // A shared machine may spoil a comparison, and then the program says so by its exit code.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    let found = assert_fits(&output.stdout, "baremark-scale/1");
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8, "{found:#}");
    for row in rows {
        let (asked, injected) = (row["asked"].as_f64().unwrap(), row["injected"].as_f64().unwrap());
        assert!((asked - injected).abs() < 1e-9, "whole repetitions: {row:#}");
    }
    // How well costs are recovered is the machine's to say, and the command's to print; what must hold on any machine is
    // that the intervals are honest about it: no more than a few may miss what was injected.
    let (covered, intervals) = (found["covered"].as_u64().unwrap(), found["intervals"].as_u64().unwrap());
    assert!(2 * covered >= intervals, "{found:#}");
}
