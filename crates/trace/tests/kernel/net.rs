//! Packets over the loopback of a network namespace of our own, compared with the kernel's counters of it.

use baremark_sys::affinity::{allowed_cpus, pin_current_thread};
use baremark_trace::net::{Interface, NetTrace};
use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

const PACKETS: u64 = 1000;
const BYTES: usize = 500;
/// Headers of UDP and IPv4, and of the link.
const HEADERS: u64 = 28;
const LINK: u64 = 14;
/// Packets to a port that nobody has.
const LOST: u64 = 50;

/// Sends and receives in the namespace that another test makes, and prints its number and the kernel's counters of its loopback.
#[test]
#[ignore = "sends packets; another test starts it in a namespace"]
fn traffic() {
    if std::env::var_os("BAREMARK_TRAFFIC").is_none() {
        return;
    }
    pin_current_thread(allowed_cpus().unwrap()[0]).unwrap();
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (data, mut buffer) = ([7; BYTES], [0; 2 * BYTES]);
    for _ in 0..PACKETS {
        sender.send_to(&data, receiver.local_addr().unwrap()).unwrap();
        assert_eq!(receiver.recv(&mut buffer).unwrap(), BYTES);
    }
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for _ in 0..LOST {
        sender.send_to(&data, nobody).unwrap();
    }
    // Packets of one CPU come in the order in which they were sent: when the first of these has come so have those to nobody, and with the
    // second the answers to them.
    for _ in 0..2 {
        sender.send_to(&data, receiver.local_addr().unwrap()).unwrap();
        assert_eq!(receiver.recv(&mut buffer).unwrap(), BYTES);
    }
    let counters = std::fs::read_to_string("/proc/net/dev").unwrap();
    let line = counters.lines().find_map(|line| line.trim().strip_prefix("lo:")).unwrap();
    println!("namespace {}", std::fs::metadata("/proc/self/ns/net").unwrap().ino());
    println!("counters {line}");
}

#[test]
fn packets_bytes_and_drops_are_the_kernels() {
    let trace = match NetTrace::start() {
        Ok(trace) => trace,
        Err(why) => return println!("skipped: {why}"),
    };
    let own = std::env::current_exe().unwrap();
    let script = "ip link set lo up && exec \"$0\" --ignored --exact net::traffic --nocapture";
    let run =
        Command::new("unshare").args(["--net", "sh", "-c", script]).arg(own).env("BAREMARK_TRAFFIC", "1").output();
    let output = run.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    if !text.contains("running 1 test") {
        return println!("skipped: no network namespace: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(output.status.success(), "{text}");
    let after = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    let namespace = after("namespace ").trim().parse().unwrap();
    let counters: Vec<u64> = after("counters ").split_whitespace().map(|word| word.parse().unwrap()).collect();
    let (kernel_bytes, kernel_packets) = (counters[8], counters[9]);
    let seen = trace.snapshot().unwrap();
    let packets = &seen.interfaces[&Interface { namespace, name: "lo".to_owned() }];
    // The loopback's own counters leave the link's header out, which the stack no longer has either when it takes a packet.
    assert_eq!((packets.sent, packets.sent_bytes), (kernel_packets, kernel_bytes + LINK * kernel_packets));
    assert_eq!((packets.received, packets.received_bytes), (kernel_packets, kernel_bytes));
    assert!(packets.sent >= PACKETS + LOST);
    let size = BYTES as u64 + HEADERS + LINK;
    let bins = packets.sent_size.bins();
    let bin = bins.iter().find(|bin| (bin.from..bin.to.unwrap()).contains(&size)).unwrap();
    assert!(bin.count >= PACKETS + LOST, "{bins:?}");
    assert_eq!(packets.received_size.total(), packets.received);
    assert_eq!((packets.merged, packets.refused), (0, 0));
    let polls: u64 = seen.interfaces.values().map(|packets| packets.polls).sum();
    assert!(polls > 0 && seen.interfaces.values().all(|packets| packets.poll.total() == packets.polls));
    assert!(seen.drops.get("no_socket").is_some_and(|count| *count >= LOST), "{:?}", seen.drops);
}
