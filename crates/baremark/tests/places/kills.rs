//! Runs of every kind that are killed with all that they have started.

use crate::bench::program;
use std::path::Path;
use std::process::Command;

/// Kills of each kind of run; `make soak` has 100.
const KILLS: &str = "3";

#[test]
fn nothing_is_left_of_runs_of_any_kind_that_are_killed_at_random_moments() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kill-everything");
    let ended = Command::new(script).arg(program()).arg(KILLS).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    // What this machine cannot run is a line of its own.
    print!("{said}");
    assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
}
