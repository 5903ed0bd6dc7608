//! Transfers over a veth pair and a bridge, which need the superuser.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::allow_attributes, reason = "tests")]

mod support;

use baremark_journal::Journal;
use baremark_streams::ends::Path;
use baremark_streams::engine::{Direction, Order, Pattern};
use baremark_sys::ethtool::{Offload, is_on};
use support::{order, ran};

fn veth() -> Option<Path> {
    let made = Path::veth();
    if let Err(why) = &made {
        println!("skipped: {why}");
    }
    made.ok()
}

/// The sizes of packets that follow are in tests/measured.
#[test]
fn a_pair_carries_streams_with_each_offload_and_without() {
    let Some(path) = veth() else { return };
    for on in [true, false] {
        for offload in [Offload::Tso, Offload::Gso] {
            path.switch(0, offload, on).unwrap();
            let of_eth0 = || is_on("eth0", offload).unwrap();
            assert_eq!(path.namespace(0).unwrap().run(of_eth0).unwrap(), on, "{offload:?}");
        }
        ran(&order(Pattern::Stream, 64 << 10), &path);
    }
    path.switch(1, Offload::Gro, true).unwrap();
    ran(&order(Pattern::Stream, 64 << 10), &path);
}

#[test]
fn a_bridge_carries_streams_and_is_gone_afterwards() {
    if veth().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path().join("journal"), baremark_networks::kinds()).unwrap();
    let path = Path::bridge(&journal).unwrap();
    let both = Order { direction: Direction::Both, ..order(Pattern::Stream, 16 << 10) };
    ran(&both, &path);
    drop(path);
    assert_eq!(std::fs::read_dir(folder.path().join("journal")).unwrap().count(), 1, "the lock alone");
}
