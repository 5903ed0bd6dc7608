//! Known costs are looked for in a run with blinded arms alone.

use crate::common::refused::refused;
use crate::common::stored::{self, named};

#[test]
fn a_run_without_blinded_arms_is_refused() {
    let bench = stored::bench("small.db");
    let run = named(&bench, "a self-check of 7 blocks");
    let said = refused(&bench, &["verify-scale", "--run", &run], 2);
    assert!(said.contains("has no blinded arms"), "{said}");
}
