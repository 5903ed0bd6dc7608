//! The proxy between two ends: every byte, in order, after the delay.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::allow_attributes, reason = "tests")]

use baremark_delay::{Delay, Proxy, Wait, probe};
use baremark_sys::calls::again_after_signals;
use baremark_sys::network::HeldPort;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const ANY: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

fn delay(one_way: Duration) -> Delay {
    Delay { one_way, ..Delay::default() }
}

/// Each way takes its delay at least, whatever else the CPUs do; that it takes little more is in tests/measured.
#[test]
fn a_round_trip_takes_both_delays_at_least() {
    for wait in [Wait::default(), Wait::Sleeping] {
        let one_way = Duration::from_millis(3);
        let measured = probe::round_trip(Delay { wait, ..delay(one_way) }, 10).unwrap();
        assert!(measured.median >= 2 * one_way && measured.largest >= measured.median, "{wait:?}: {measured:?}");
    }
}

#[test]
fn a_stream_arrives_whole_and_in_order_with_jitter_and_its_end_comes_last() {
    let server = TcpListener::bind(ANY).unwrap();
    let jittered = Delay { jitter: Duration::from_millis(2), seed: 7, ..delay(Duration::from_millis(2)) };
    let proxy = Proxy::tcp(ANY.into(), server.local_addr().unwrap(), jittered).unwrap();
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    let (mut inside, _) = server.accept().unwrap();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number ^ (number >> 8)) as u8).collect();
    let sent = bytes.clone();
    let answers = std::thread::spawn(move || {
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        answer
    });
    let mut received = Vec::new();
    inside.read_to_end(&mut received).unwrap();
    assert!(received == bytes, "{} bytes", received.len());
    inside.write_all(b"and back").unwrap();
    drop(inside);
    assert_eq!(answers.join().unwrap(), b"and back");
    assert!(proxy.report().chunks > 1 && proxy.report().dropped == 0, "{:?}", proxy.report());
}

#[test]
fn datagrams_go_to_and_fro_and_take_at_least_both_delays() {
    let server = UdpSocket::bind(ANY).unwrap();
    let one_way = Duration::from_millis(3);
    let proxy = Proxy::udp(ANY.into(), server.local_addr().unwrap(), delay(one_way)).unwrap();
    let clients = [UdpSocket::bind(ANY).unwrap(), UdpSocket::bind(ANY).unwrap()];
    let mut buffer = [0; 100];
    for (number, client) in clients.iter().enumerate() {
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let began = Instant::now();
        client.send_to(&[number as u8; 33], proxy.address()).unwrap();
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        assert!(began.elapsed() >= one_way);
        server.send_to(&buffer[..length], from).unwrap();
        let length = again_after_signals(|| client.recv(&mut buffer)).unwrap();
        assert!(began.elapsed() >= 2 * one_way);
        assert_eq!(&buffer[..length], &[number as u8; 33], "each client its own answer");
    }
    // A chunk is counted just after it was written.
    let deadline = Instant::now() + Duration::from_secs(60);
    while proxy.report().chunks < 4 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    let report = proxy.report();
    assert!(report.chunks == 4 && report.median.unwrap() >= one_way, "{report:?}");
}

#[test]
fn a_server_that_is_not_there_ends_the_connection_and_not_the_proxy() {
    // Nobody listens on it as long as it is held.
    let held = HeldPort::any().unwrap();
    let gone = SocketAddr::from((Ipv4Addr::LOCALHOST, held.number()));
    let proxy = Proxy::tcp(ANY.into(), gone, Delay::default()).unwrap();
    for _ in 0..2 {
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert_eq!(again_after_signals(|| client.read(&mut [0; 1])).unwrap_or(0), 0);
    }
}

#[test]
fn dropping_it_closes_its_connections() {
    let server = TcpListener::bind(ANY).unwrap();
    let proxy = Proxy::tcp(ANY.into(), server.local_addr().unwrap(), Delay::default()).unwrap();
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    client.write_all(b"x").unwrap();
    let (mut inside, _) = server.accept().unwrap();
    inside.read_exact(&mut [0; 1]).unwrap();
    let address = proxy.address();
    drop(proxy);
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(again_after_signals(|| client.read(&mut [0; 1])).unwrap(), 0, "closed");
    let deadline = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(address).is_ok() {
        assert!(Instant::now() < deadline, "it still listens");
    }
}
