//! One load from this machine and from behind a real sshd.

use crate::common::load_sites::{assert_lost, assert_merged};
use crate::common::sites::{Program, wait_for};
use crate::common::sshd::Server;

#[test]
fn sites_behind_ssh_are_merged_exactly() {
    let Some(machine) = Server::start() else { return };
    assert_merged(&["native", "ssh:machine", "ssh:machine"], Some(&machine.config()));
    wait_for(|| machine.left().is_empty().then_some(()));
}

#[test]
fn a_site_behind_ssh_that_is_cut_off_is_named() {
    let Some(machine) = Server::start() else { return };
    let agents = || {
        let left = machine.left().into_iter();
        left.filter_map(|left| left.rsplit_once("/proc/")?.1.parse().ok()).collect()
    };
    assert_lost(&Program::new(), "ssh:machine", Some(&machine.config()), agents);
    wait_for(|| machine.left().is_empty().then_some(()));
}
