//! `baremark protect --failover`: programs in the microVM that are killed and go on.

use crate::common::bench::kvm;
use crate::common::failover::{
    BAREMARK, PATIENCE, Server, UNHURRIED, failovers, kill, number, random, request, signal,
};
use baremark_protection::failover::FailoverReport;
use baremark_protection::writer::READ_LOG;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Has clients place orders while the primary or its program is killed again and again at random moments.
fn orders_through_kills(kills: u64, workers: usize) -> FailoverReport {
    let mut rounds = 0..kills;
    let report = orders_through(Server::start(workers), workers, |server, await_orders| {
        let is_left = rounds.next().is_some();
        if is_left {
            await_orders(1);
            thread::sleep(Duration::from_micros(random(150_000)));
            kill([server.primary, server.program][usize::from(random(2) == 0)]);
            server.await_protection();
        }
        is_left
    });
    assert_eq!(report.failovers.len() as u64, kills, "{report:?}");
    report
}

/// Has clients place orders, each on one connection, as long as `disturb` has something to do to the server; it can wait for so many
/// orders that are answered from then on. Every answer must be the order's place in the log, and the log must have all orders that were
/// answered, once, and no other.
fn orders_through(
    mut server: Server,
    workers: usize,
    mut disturb: impl FnMut(&mut Server, &dyn Fn(u64)) -> bool,
) -> FailoverReport {
    server.await_protection();
    let mut reader = if workers > 1 { Some(server.connect()) } else { None };
    let (stop, placed) = (AtomicBool::new(false), AtomicU64::new(0));
    let clients = if workers > 1 { workers - 1 } else { 1 };
    let mut streams: Vec<TcpStream> = (0..clients).map(|_| server.connect()).collect();
    let answered: Vec<Vec<u64>> = thread::scope(|scope| {
        let (stop, placed) = (&stop, &placed);
        let place = |(of, stream): (u64, &mut TcpStream)| {
            let mut places = Vec::new();
            while !stop.load(Ordering::SeqCst) {
                request(stream, of, places.len() as u64);
                places.push(number(stream));
                placed.fetch_add(1, Ordering::SeqCst);
            }
            places
        };
        let await_orders = |more: u64| {
            let (before, deadline) = (placed.load(Ordering::SeqCst), Instant::now() + PATIENCE);
            while placed.load(Ordering::SeqCst) < before + more {
                assert!(Instant::now() < deadline, "no order was answered after {before}");
                thread::sleep(Duration::from_millis(1));
            }
        };
        let placing: Vec<_> = (1..).zip(&mut streams).map(|client| scope.spawn(move || place(client))).collect();
        while disturb(&mut server, &await_orders) {}
        await_orders(1);
        stop.store(true, Ordering::SeqCst);
        placing.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let reader = reader.as_mut().unwrap_or(&mut streams[0]);
    request(reader, READ_LOG, 0);
    let count = number(reader);
    let log: Vec<[u64; 2]> = (0..count).map(|_| [number(reader), number(reader)]).collect();
    assert_eq!(count, answered.iter().map(|places| places.len() as u64).sum::<u64>());
    for (of, places) in (1..).zip(&answered) {
        for (order, place) in (0..).zip(places) {
            assert_eq!(log[usize::try_from(place - 1).unwrap()], [of, order], "order {order} of client {of}");
        }
    }
    drop(streams);
    let report = server.end();
    assert!(count > report.failovers.len() as u64, "{count} orders");
    assert!(report.failovers.iter().all(|failover| failover.continued_ms > 0.0), "{report:?}");
    let mut served: Vec<f64> = report.failovers.iter().filter_map(|failover| failover.served_ms).collect();
    served.sort_by(f64::total_cmp);
    eprintln!("{count} orders, {} failovers, output released again after {served:.0?} ms", report.failovers.len());
    report
}

#[test]
fn failover_at_a_random_moment_loses_and_repeats_no_order() {
    if kvm() {
        assert_eq!(orders_through_kills(failovers(), 1).threads, 1);
    }
}

#[test]
fn failover_of_a_program_with_threads_loses_and_repeats_no_order() {
    if kvm() {
        assert_eq!(orders_through_kills(failovers(), 4).threads, 5);
    }
}

#[test]
fn failover_from_a_primary_or_a_program_that_hangs_loses_and_repeats_no_order() {
    if !kvm() {
        return;
    }
    // A machine that stands still for so long makes one more failover; no order is lost by that either.
    let limit_ms = 2000;
    let mut hanging = [false, true].into_iter();
    let server = Server::start_with(1, &["--heartbeat-ms", &limit_ms.to_string()]);
    let report = orders_through(server, 1, |server, await_orders| {
        let Some(is_program) = hanging.next() else { return false };
        await_orders(1);
        let hung = loop {
            let hung = if is_program { server.program } else { server.primary };
            if signal("-STOP", hung) {
                break hung;
            }
            // It was followed by another.
            server.note_event();
        };
        let primary = server.primary;
        server.await_protection();
        await_orders(2);
        // Neither of them is there to go on; what they had done since the last epoch never leaves.
        let deadline = Instant::now() + PATIENCE;
        while signal("-CONT", primary) || signal("-CONT", hung) {
            assert!(Instant::now() < deadline, "still there: {primary} or {hung}");
            thread::sleep(Duration::from_millis(1));
        }
        await_orders(2);
        true
    });
    let silent: Vec<f64> = report.failovers.iter().filter_map(|failover| failover.silent_ms).collect();
    assert!(silent.len() >= 2 && silent.iter().all(|ms| *ms >= f64::from(limit_ms)), "{report:?}");
    assert!(report.failovers.iter().all(|failover| failover.continued_ms >= f64::from(limit_ms)), "{report:?}");
}

/// The primary goes on at about the moment when the secondary gives it up: one of the two is heard, and never both.
#[test]
fn failover_from_a_primary_that_goes_on_again_loses_and_repeats_no_order() {
    if !kvm() {
        return;
    }
    let mut rounds = 0..3.max(failovers());
    let server = Server::start_with(1, &["--heartbeat-ms", "200"]);
    let report = orders_through(server, 1, |server, await_orders| {
        let is_left = rounds.next().is_some();
        if is_left {
            // One that was killed was followed by another.
            while !signal("-STOP", server.primary) {
                server.note_event();
            }
            thread::sleep(Duration::from_micros(150_000 + random(100_000)));
            signal("-CONT", server.primary);
            // The request of the second was sent after that: whoever answers it has a secondary.
            await_orders(2);
        }
        is_left
    });
    eprintln!("{} of the pauses were failovers", report.failovers.len());
}

#[test]
fn failover_comes_with_a_new_secondary_when_that_is_lost_or_hangs() {
    if !kvm() {
        return;
    }
    // As above, a machine that stands still for so long makes one more failover.
    let mut server = Server::start_with(1, &["--heartbeat-ms", "5000"]);
    server.await_protection();
    let mut client = server.connect();
    for (round, how) in (0..).zip(["-KILL", "-STOP"]) {
        assert!(signal(how, server.secondary));
        for order in 0..3 {
            request(&mut client, 1, order);
            assert_eq!(number(&mut client), round * 3 + order + 1);
        }
        server.await_protection();
    }
    // The last one has everything: it can take over.
    kill(server.primary);
    request(&mut client, 1, 6);
    assert_eq!(number(&mut client), 7);
    drop(client);
    assert!(!server.end().failovers.is_empty());
}

fn protected(program: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(BAREMARK);
    command.args(["protect", "--failover", "--epoch-us", "10000"]).args(UNHURRIED).arg("--").args(program);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn failover_refuses_by_name_what_a_secondary_cannot_continue() {
    if !kvm() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("written");
    let script = format!("read word; echo $word; echo x > {}; echo $?; ls; exit 3", file.display());
    let output = protected(&["sh", "-c", &script], b"hello\n");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{said} {errors}");
    assert!(said.starts_with("hello\n"), "{said} {errors}");
    for refused in ["refused: openat: files can be opened for reading alone\n", "must stay one process\n"] {
        assert!(errors.contains(refused), "{errors}");
    }
    assert!(!file.exists());
}

#[test]
fn failover_of_a_program_that_is_not_there_is_an_error() {
    if kvm() {
        let output = protected(&["/nonexistent/program"], b"");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() != Some(0) && errors.contains("cannot execute /nonexistent/program"), "{errors}");
    }
}

#[test]
fn failover_leaves_no_process_when_the_conductor_is_killed() {
    if !kvm() {
        return;
    }
    let mut server = Server::start(1);
    server.await_protection();
    let family = descendants(server.process.id());
    assert!(family.len() >= 3, "primary, program and secondary: {family:?}");
    kill(server.process.id());
    server.process.wait().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while family.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
        assert!(Instant::now() < deadline, "still there: {family:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn descendants(of: u32) -> Vec<u32> {
    let listed = fs::read_dir(format!("/proc/{of}/task")).unwrap().flatten();
    let texts = listed.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<u32> =
        texts.flat_map(|text| text.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()).collect();
    children.iter().flat_map(|child| std::iter::once(*child).chain(descendants(*child))).collect()
}
