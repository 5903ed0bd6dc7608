//! Namespaces reach each other and the host, at the rate and with the offloads that were requested.

use crate::support::{can, journal, share, transfer};
use baremark_delay::Delay;
use baremark_networks::netlink::Netlink;
use baremark_networks::pair::ADDRESSES;
use baremark_networks::{Namespace, Network, Node, Pair, round_trip};
use baremark_sys::ethtool::{Offload, TapHeader, is_on};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

fn our_links() -> Vec<String> {
    let links = Netlink::open().unwrap().links().unwrap();
    links.into_iter().map(|link| link.name).filter(|name| name.starts_with("bm")).collect()
}

#[test]
fn nodes_of_a_bridge_reach_each_other_and_the_host_and_go_with_it() {
    if !can() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    let network = Network::new(&journal).unwrap();
    let (one, two) = (network.namespace().unwrap(), network.namespace().unwrap());
    assert_ne!(one.address, two.address);
    let tap = network.tap(TapHeader::Virtio).unwrap();
    let names = [network.bridge().to_owned(), one.outside.clone(), two.outside.clone(), tap.name.clone()];
    assert!(names.iter().all(|name| our_links().contains(name)), "{names:?}");
    assert!(transfer(&one.namespace, &two.namespace, two.address, 1 << 20) > 0.0);
    let host = Namespace::current().unwrap();
    assert!(transfer(&one.namespace, &host, network.host().unwrap(), 1 << 20) > 0.0);
    let second = Network::new(&journal).unwrap();
    assert_ne!(second.host().unwrap(), network.host().unwrap(), "a run of its own has a subnet of its own");
    drop((one, two, tap, network));
    assert!(names.iter().all(|name| !our_links().contains(name)), "{:?}", our_links());
    drop(second);
    let left = std::fs::read_dir(folder.path().join("journal")).unwrap().count();
    assert_eq!(left, 1, "the journal holds its lock alone");
}

#[test]
fn a_link_is_not_taken_to_be_gone_by_a_process_in_another_namespace() {
    if !can() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(&journal(folder.path())).unwrap();
    let name = network.bridge().to_owned();
    let failed = Namespace::new().unwrap().run(move || drop(network));
    failed.unwrap();
    let found = Netlink::open().unwrap().link(&name).unwrap().expect("it could not be seen from there");
    let records = std::fs::read_dir(folder.path().join("journal")).unwrap().count();
    assert_eq!(records, 2, "the lock and the record, which is kept");
    Netlink::open().unwrap().remove(found.index).unwrap();
}

/// Counted from before the connection, so that nothing has passed yet: the limit holds whatever else the CPUs do. That it is reached is in
/// tests/measured.
#[test]
fn a_rate_is_exceeded_from_neither_side() {
    if !can() {
        return;
    }
    let pair = Pair::new().unwrap();
    let bits = 200_000_000;
    pair.limit_rate(bits).unwrap();
    for (from, to) in [(0, 1), (1, 0)] {
        let share = share(&pair, (from, to), bits);
        assert!(share < 1.05, "{share}");
    }
}

#[test]
fn offloads_and_frame_sizes_are_switched_and_read_back() {
    if !can() {
        return;
    }
    let pair = Pair::new().unwrap();
    for offload in Offload::ALL {
        for on in [false, true] {
            // Segmentation needs checksums, which are switched last here and are on before.
            pair.switch(0, offload, on).unwrap();
            let (near, far) =
                (pair.ends[0].run(|| is_on("eth0", offload)), pair.ends[1].run(|| is_on("eth0", offload)));
            assert_eq!(near.unwrap().unwrap(), on, "{offload:?}");
            let _ = far.unwrap().unwrap();
        }
    }
    pair.set_mtu(9000).unwrap();
    let refused = pair.set_mtu(10).unwrap_err();
    assert!(refused.to_string().contains("setting an MTU of 10 B"), "{refused}");
    assert!(transfer(&pair.ends[0], &pair.ends[1], ADDRESSES[1], 1 << 20) > 0.0);
}

/// Frames of a namespace are held for the delay, and segments of 64 KiB pass with their bytes as they were.
#[test]
fn nodes_with_a_delay_are_at_least_as_far_apart_as_requested_and_carry_every_byte() {
    if !can() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(&journal(folder.path())).unwrap();
    let one_way = Duration::from_millis(2);
    let near = network.delayed_namespaces(2, Delay::default()).unwrap();
    let far = network.delayed_namespaces(2, Delay { one_way, ..Delay::default() }).unwrap();
    let trip = |nodes: &[Node]| round_trip::measure(&nodes[0], &nodes[1], 50).unwrap();
    let (short, long) = (trip(&near.0), trip(&far.0));
    assert!(long.median >= one_way.mul_f64(1.8), "{long:?}");
    assert_eq!((short.count, long.count), (50, 50));
    // To a node of the other pair and to the host: one bridge.
    let pattern: Vec<u8> = (0..3_000_000_u32).map(|number| (number ^ (number >> 9)) as u8).collect();
    let listener = near.0[1].namespace.run(|| TcpListener::bind((near.0[1].address, 0)).unwrap()).unwrap();
    let to = listener.local_addr().unwrap();
    let received = thread::scope(|scope| {
        let received = scope.spawn(|| {
            let mut received = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            received
        });
        far.0[0].namespace.run(|| TcpStream::connect(to).unwrap().write_all(&pattern).unwrap()).unwrap();
        received.join().unwrap()
    });
    assert!(received == pattern, "{} bytes", received.len());
    let report = far.1.report();
    assert!(report.chunks > 100 && report.median.unwrap() >= one_way / 2, "{report:?}");
    let names: Vec<String> = near.0.iter().chain(&far.0).map(|node| node.outside.clone()).collect();
    drop((near, far, network));
    assert!(names.iter().all(|name| !our_links().contains(name)), "{:?}", our_links());
    let left = std::fs::read_dir(folder.path().join("journal")).unwrap().count();
    assert_eq!(left, 1, "the journal holds its lock alone");
}
