//! Members of tiles that cannot be.

use crate::common::bench::{Bench, text};
use crate::common::consolidation::{command, tiles};

#[test]
fn a_member_that_cannot_be_is_refused_with_what_would_be_right() {
    let bench = Bench::new();
    let wrong = tiles("latency_p95_ms 5");
    bench.write("tile.toml", wrong);
    let output = command(&bench, &["run", "tile.toml"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("'latency_p95_ms 5' must be METRIC < NUMBER; write limit = "), "{said}");
}
