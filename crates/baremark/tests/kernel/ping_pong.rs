//! Messages between two networks.

use crate::common::shrunk::{all_positive, document, shrunk};
use std::process::Command;

/// Two sites: this one, and a name space of its own at the other end of a cable that is not there.
#[test]
fn messages_go_between_two_networks() {
    let ip =
        |arguments: &str| Command::new("ip").args(arguments.split(' ')).output().is_ok_and(|ran| ran.status.success());
    let number = std::process::id() % 10_000;
    let (space, here, there) = (format!("bmk{number}"), format!("bmh{number}"), format!("bmt{number}"));
    let net = format!("10.{}.{}", 100 + number / 250 % 100, number % 250);
    if !ip(&format!("netns add {space}")) {
        println!("skipped: study ping-pong between networks: no right to make a network name space");
        return;
    }
    let _space = Gone(space.clone());
    assert!(ip(&format!("link add {here} type veth peer name {there} netns {space}")));
    assert!(ip(&format!("addr add {net}.1/24 dev {here}")) && ip(&format!("link set {here} up")));
    assert!(
        ip(&format!("-n {space} addr add {net}.2/24 dev {there}")) && ip(&format!("-n {space} link set {there} up"))
    );
    let peer = format!("{net}.2:7007");
    let mut echo = Command::new("ip")
        .args(["netns", "exec", &space, env!("CARGO_BIN_EXE_baremark"), "echo", "--listen", &peer])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(echo.stdout.take().unwrap()), &mut line).unwrap();
    let text = |transport: &str| {
        let text = shrunk("ping-pong", &[("message", "\"1 KiB\""), ("transport", transport), ("phase", "\"200 ms\"")]);
        text.replace("kind = \"ping-pong\"", &format!("kind = \"ping-pong\"\npeer = \"{peer}\""))
    };
    let documents = [document(&text("\"tcp\"")), document(&text("\"udp\""))];
    echo.kill().unwrap();
    echo.wait().unwrap();
    assert_eq!(line, format!("listening on {peer}\n"));
    documents.iter().for_each(|document| all_positive(document, &["latency_p50_us", "latency_mean_us", "bandwidth"]));
}

/// A network name space that goes with its end of the cable.
struct Gone(String);

impl Drop for Gone {
    fn drop(&mut self) {
        drop(Command::new("ip").args(["netns", "del", &self.0]).status());
    }
}
