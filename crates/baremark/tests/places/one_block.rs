//! The study of guests and containers to its first block.

use crate::common::one_block::{SMALL_STREAM, one_block};
use crate::common::qemu;

#[test]
fn the_study_of_several_guests_and_containers_runs_to_its_first_block() {
    let kernel = format!("[environments.qemu]\nkernel = {:?}\naccel = \"tcg\"", qemu::fetched());
    let once = ("fresh = \"block\"", "fresh = \"run\"");
    one_block(
        "consolidation-guests",
        &[SMALL_STREAM, ("[environments.qemu]", &kernel), ("\"4 GiB\"", "\"2 GiB\""), once],
    );
}
