//! Messages between two ends.

use crate::bench::{arm, run_job, value};
use baremark_model::job::{Job, JobError, JobRun};
use baremark_model::units::Bytes;
use baremark_model::value::Value;
use baremark_programs::echo::Echo;
use baremark_programs::ping_pong::PingPong;
use baremark_sys::network::HeldPort;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::Command;

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
    let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
    let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
    deaf.connect(elsewhere.local_addr().unwrap()).unwrap();
    // They take messages and say nothing.
    let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    // One that hangs up.
    let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = hangs.local_addr().unwrap();
    std::thread::spawn(move || hangs.incoming().for_each(drop));
    let refused = format!("{free} refuses: nothing listens there; start `baremark echo --listen {free}` there");
    let mute = "did not answer within 5 s".to_owned();
    let cases = [
        ("tcp", free, [refused].to_vec()),
        ("udp", deaf.local_addr().unwrap(), ["refuses".to_owned()].to_vec()),
        ("tcp", tcp.local_addr().unwrap(), [mute.clone()].to_vec()),
        ("udp", udp.local_addr().unwrap(), [mute].to_vec()),
        ("tcp", hanging, ["broke off", "refuses"].map(str::to_owned).to_vec()),
    ];
    // At once: each that says nothing is waited for.
    std::thread::scope(|scope| {
        for (transport, peer, expected) in &cases {
            scope.spawn(move || {
                let why = between(transport, 64, &peer.to_string()).expect_err("no peer").to_string();
                let is_told = expected.iter().any(|words| why.contains(words.as_str()));
                assert!(is_told && why.starts_with(&peer.to_string()), "{transport} {peer}: {why}");
            });
        }
    });
}

/// Stops interrupt a read with a time limit, which the kernel does not take up again.
#[test]
fn a_process_that_is_stopped_and_goes_on_waits_for_its_peer() {
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let peer = mute.local_addr().unwrap().to_string();
    let stops = "for stop in 1 2 3 4 5; do sleep 0.2; kill -STOP $1; sleep 0.05; kill -CONT $1; done";
    let this = std::process::id().to_string();
    let mut stopping = Command::new("sh").args(["-c", stops, "sh", &this]).spawn().unwrap();
    let why = between("udp", 64, &peer).expect_err("no peer").to_string();
    assert!(stopping.wait().unwrap().success());
    assert!(why.contains("did not answer within 5 s"), "{why}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    let check = PingPong.descriptor().check;
    let parameters = [("transport", Value::Choice("udp".to_owned())), ("message", Value::SizeBytes(Bytes(1 << 17)))];
    assert!(check(&arm(&parameters)).is_err_and(|misfit| misfit.what.contains("does not fit a datagram")));
    let parameters = [("peer", Value::Text("some-host:7".to_owned()))];
    assert!(check(&arm(&parameters)).is_err_and(|misfit| misfit.remedy.contains("names are not resolved")));
}
