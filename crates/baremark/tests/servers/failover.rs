//! `baremark protect --failover` of Redis.

use crate::common::bench::kvm;
use crate::common::failover::{Server, failovers, kill, random};
use crate::common::sites::free_port;
use crate::common::tiers::have;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// What Redis answers to a command: a number, or a text.
fn ask_redis(client: &mut BufReader<TcpStream>, command: &str) -> String {
    client.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    if let Some(length) = line.strip_prefix('$') {
        let mut bytes = vec![0; length.trim().parse::<usize>().unwrap() + 2];
        client.read_exact(&mut bytes).unwrap();
        line = String::from_utf8(bytes).unwrap();
    }
    line.trim_end().trim_start_matches(':').to_owned()
}

#[test]
fn failover_of_redis_loses_and_repeats_no_command() {
    if !kvm() || !have(&["redis-server"]) {
        return;
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let port = address.port().to_string();
    let options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--io-threads", "1"];
    let program = [&["redis-server", "--port", &port][..], &options].concat();
    let mut redis = Server::of_program(&program, Stdio::null);
    redis.address = address;
    redis.await_protection();
    let kills = failovers().max(2);
    let stop = AtomicBool::new(false);
    let counted = thread::scope(|scope| {
        let counting: Vec<_> = ["a", "b"]
            .into_iter()
            .map(|key| {
                let (stop, mut client) = (&stop, BufReader::new(redis.connect()));
                scope.spawn(move || {
                    let mut count = 0;
                    while !stop.load(Ordering::SeqCst) {
                        count += 1;
                        assert_eq!(ask_redis(&mut client, &format!("INCR {key}")), count.to_string());
                        assert_eq!(ask_redis(&mut client, &format!("SET {key}{count} {count}")), "+OK");
                    }
                    count
                })
            })
            .collect();
        for _ in 0..kills {
            thread::sleep(Duration::from_micros(50_000 + random(100_000)));
            kill([redis.primary, redis.program][usize::from(random(2) == 0)]);
            redis.await_protection();
        }
        stop.store(true, Ordering::SeqCst);
        counting.into_iter().map(|client| client.join().unwrap()).collect::<Vec<u64>>()
    });
    let mut client = BufReader::new(redis.connect());
    for (key, count) in ["a", "b"].into_iter().zip(&counted) {
        assert_eq!(ask_redis(&mut client, &format!("GET {key}")), count.to_string());
        (1..=*count).for_each(|at| assert_eq!(ask_redis(&mut client, &format!("GET {key}{at}")), at.to_string()));
    }
    assert_eq!(ask_redis(&mut client, "DBSIZE"), (2 + counted.iter().sum::<u64>()).to_string());
    client.get_mut().write_all(b"SHUTDOWN NOSAVE\r\n").unwrap();
    let report = redis.report();
    eprintln!("{counted:?} commands of each kind, refused: {:?}", report.refused);
    assert_eq!(report.failovers.len() as u64, kills, "{report:?}");
}
