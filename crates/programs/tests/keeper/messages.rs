//! Messages between two ends.

use crate::bench::{arm, run_job, value};
use baremark_model::job::{Job, JobError, JobRun};
use baremark_model::units::Bytes;
use baremark_model::value::Value;
use baremark_programs::echo::Echo;
use baremark_programs::ping_pong::PingPong;
use baremark_sys::network::HeldPort;
use std::net::{SocketAddr, TcpListener, UdpSocket};

fn between(transport: &str, message: u64, peer: &str) -> Result<JobRun, JobError> {
    let parameters = [
        ("transport", Value::Choice(transport.to_owned())),
        ("message", Value::SizeBytes(Bytes(message))),
        ("peer", Value::Text(peer.to_owned())),
    ];
    run_job(&PingPong, &arm(&parameters))
}

#[test]
fn they_go_to_and_fro_whatever_their_size() {
    for (transport, message) in [("tcp", 1), ("tcp", 100_000), ("udp", 16), ("udp", 1400), ("udp", 65_507)] {
        let run = between(transport, message, "loopback").unwrap();
        assert!(value(&run, "latency_mean_us") > 0.0 && value(&run, "bandwidth") > 0.0, "{transport}: {run:?}");
        let bandwidth = value(&run, "messages_per_s") * message as f64 / 1e6;
        assert!((bandwidth / value(&run, "bandwidth") - 1.0).abs() < 1e-6, "{run:?}");
        let lost = run.samples.iter().find(|sample| sample.metric == "lost").map(|sample| sample.value);
        assert_eq!(lost.is_some(), transport == "udp");
        assert!(lost.is_none_or(|lost| (0.0..=100.0).contains(&lost)), "{run:?}");
        assert!(run.checked.ends_with("every byte as sent"), "{run:?}");
    }
}

#[test]
fn several_runs_share_a_peer() {
    let server = Echo::bind("127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
    let peer = server.address().unwrap().to_string();
    std::thread::spawn(move || server.serve());
    for transport in ["udp", "tcp", "udp"] {
        let run = between(transport, 64, &peer).unwrap();
        assert!(value(&run, "messages_per_s") > 0.0, "{run:?}");
    }
}

#[test]
fn a_peer_that_is_not_there_is_told() {
    // Ports that nobody else is given, and at which nobody listens: a datagram to a socket that hears another alone is refused.
    let held = HeldPort::any().unwrap();
    let free = SocketAddr::from(([127, 0, 0, 1], held.number()));
    let why = between("tcp", 64, &free.to_string()).expect_err("refused").to_string();
    let remedy = format!("start `baremark echo --listen {free}` there");
    assert!(why.starts_with(&format!("{free} refuses: nothing listens there; {remedy}")), "{why}");
    let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
    let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
    deaf.connect(elsewhere.local_addr().unwrap()).unwrap();
    let why = between("udp", 64, &deaf.local_addr().unwrap().to_string()).expect_err("refused").to_string();
    assert!(why.contains("refuses"), "{why}");
    // It takes messages and says nothing.
    let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let mute = tcp.local_addr().unwrap().to_string();
    let why = between("tcp", 64, &mute).expect_err("mute").to_string();
    assert!(why.contains("did not answer within 5 s"), "{why}");
    let mute = udp.local_addr().unwrap().to_string();
    let why = between("udp", 64, &mute).expect_err("mute").to_string();
    assert!(why.contains("did not answer within 5 s"), "{why}");
    // One that hangs up.
    let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = hangs.local_addr().unwrap().to_string();
    std::thread::spawn(move || hangs.incoming().for_each(drop));
    let why = between("tcp", 64, &address).expect_err("hangs up").to_string();
    assert!(why.contains("broke off") || why.contains("refuses"), "{why}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    let check = PingPong.descriptor().check;
    let parameters = [("transport", Value::Choice("udp".to_owned())), ("message", Value::SizeBytes(Bytes(1 << 17)))];
    assert!(check(&arm(&parameters)).is_err_and(|misfit| misfit.what.contains("does not fit a datagram")));
    let parameters = [("peer", Value::Text("some-host:7".to_owned()))];
    assert!(check(&arm(&parameters)).is_err_and(|misfit| misfit.remedy.contains("names are not resolved")));
}
