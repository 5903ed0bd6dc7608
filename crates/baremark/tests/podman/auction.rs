//! The shipped study of the auction, an arm of which is in a container.

use crate::common::tiers::{have, run_shrunk};

/// That of places is run with its guests, see `places`.
#[test]
fn the_shipped_study_of_the_auction_runs_shrunk() {
    if have(&["podman"]) {
        run_shrunk(&[("auction", 3)]);
    }
}
