//! One load from this machine, from behind a real sshd and from a container.

use crate::common::load_sites::{assert_merged, containers};
use crate::common::sites::wait_for;
use crate::common::sshd::Server;

#[test]
fn sites_behind_ssh_and_in_containers_are_merged_exactly() {
    let Some(machine) = Server::start() else { return };
    if !containers() {
        return;
    }
    assert_merged(&["native", "ssh:machine", "ssh:machine", "container"], Some(&machine.config()));
    wait_for(|| machine.left().is_empty().then_some(()));
}
