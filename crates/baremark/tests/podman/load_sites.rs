//! One load from this machine and from a container.

use crate::common::load_sites::{agents_in_containers, assert_lost, assert_merged, containers};
use crate::common::sites::{Program, wait_for};

#[test]
fn a_site_in_a_container_is_merged_exactly() {
    if containers() {
        assert_merged(&["native", "container"], None);
    }
}

#[test]
fn a_site_in_a_container_that_is_cut_off_is_named() {
    if containers() {
        let program = Program::new();
        assert_lost(&program, "container", None, || agents_in_containers(&program));
        wait_for(|| agents_in_containers(&program).is_empty().then_some(()));
    }
}
