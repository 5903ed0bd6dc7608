//! Ports that run out, and addresses to come from.

use crate::server::{Then, answer, load, prompt, run, serve};
use baremark_load::document::Verdict;
use baremark_load::load::{Drive, Engine, Load, Stop};
use std::process::Command;
use std::sync::Arc;

/// Runs one test of this program again in a process of its own, prepared by a command that is put before it.
fn again(before: &[&str], name: &str, variable: &str, value: &str) -> Option<std::process::Output> {
    let itself = std::env::current_exe().unwrap();
    let output = Command::new(before[0])
        .args(&before[1..])
        .arg(itself)
        .args([name, "--exact", "--nocapture"])
        .env(variable, value)
        .output();
    match output {
        Ok(output) => Some(output),
        Err(why) => {
            println!("skipped: {} cannot be started: {why}", before[0]);
            None
        }
    }
}

/// Whether this process has a network of its own. Where it does not, the test is run again in one that has.
fn has_own_network(name: &str, variable: &str) -> bool {
    if std::env::var_os(variable).is_some() {
        return true;
    }
    let Some(output) = again(&["unshare", "--net"], name, variable, "1") else { return false };
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if told.contains("unshare failed") || told.contains("skipped: ") {
        println!("skipped: no network of its own can be had here: {}", told.trim());
    } else {
        assert!(output.status.success(), "{told}");
    }
    false
}

/// A network of its own with eleven ports, of which each closed connection keeps one for a minute.
#[test]
fn ports_run_out_where_there_are_few() {
    if !has_own_network("ports::ports_run_out_where_there_are_few", "BAREMARK_LOAD_FEW_PORTS") {
        return;
    }
    // A port that waits is not used again early.
    let few = std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40010")
        .and_then(|()| std::fs::write("/proc/sys/net/ipv4/tcp_tw_reuse", "0"));
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    if few.is_err() || !up.is_ok_and(|status| status.success()) {
        println!("skipped: the network of its own cannot be set up");
        return;
    }
    let server = prompt();
    let mut asked = load(server.address, Drive::Closed, 500);
    asked.connections = 40;
    // What can be foreseen is said beforehand.
    let why = Engine::new(asked, Arc::default()).err().unwrap().to_string();
    assert!(why.starts_with("40 connections at a time need 40 ports, and 1 pairs of addresses have 11 each"), "{why}");
    assert!(why.contains("--source"), "{why}");
    let closing = serve(|_, stream| {
        answer(stream, 200, "Connection: close\r\n", "");
        // Whoever closes first keeps the port.
        drop(std::io::copy(stream, &mut std::io::sink()));
        Then::Close
    });
    let document = run(Load { stop: Stop::Count(100), ..load(closing.address, Drive::Closed, 0) });
    assert!(document.statuses[&200] > 0 && document.failures["ports-exhausted"] > 0, "{:?}", document.failures);
    assert_eq!(document.generator.verdict, Verdict::WasTheLimit);
}

/// What is sent to the second address of a network comes from the first. It was refused as no address of this machine.
#[test]
fn connections_come_from_every_address_of_a_network() {
    if !has_own_network("ports::connections_come_from_every_address_of_a_network", "BAREMARK_LOAD_ADDRESSES") {
        return;
    }
    let ip = |words: &str| Command::new("ip").args(words.split(' ')).status().is_ok_and(|status| status.success());
    let commands = ["link set lo up", "address add 192.0.2.1/24 dev lo", "address add 192.0.2.2/24 dev lo"];
    if !commands.into_iter().all(ip) {
        println!("skipped: the network of its own cannot be set up");
        return;
    }
    let server = prompt();
    let refusal = |source: &str| {
        let asked = Load { sources: vec![source.parse().unwrap()], ..load(server.address, Drive::Closed, 500) };
        Engine::new(asked, Arc::default()).err().map(|why| why.to_string())
    };
    let is_judged = || {
        assert_eq!([refusal("192.0.2.1"), refusal("192.0.2.2"), refusal("127.0.0.2")], [const { None }; 3]);
        for nobodys in ["198.51.100.1", "224.0.0.1", "0.0.0.0"] {
            assert!(refusal(nobodys).is_some_and(|why| why.contains("ip address show")), "{nobodys}");
        }
    };
    is_judged();
    if std::fs::write("/proc/sys/net/ipv4/ip_nonlocal_bind", "1").is_ok() {
        is_judged();
    }
}
