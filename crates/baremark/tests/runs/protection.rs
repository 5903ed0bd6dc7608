//! `baremark protect`: programs under protection by checkpoints, through the binary that is handed out; and studies that have it as a factor.

use crate::common::bench::{Bench, children, kvm, text};
use crate::common::protection::{
    BAREMARK, STUDY_OF_A_PROGRAM, assert_copied, assert_counted, assert_predicted, estimate, protected,
    protected_to_none, row_of, study_of_loads, tracks, until_seen,
};
use baremark_model::protection::Report;
use baremark_sys::network::HeldPort;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

/// Whether there were several checkpoints, so that some of them were of what the program does again and again.
fn several(report: &Report) -> bool {
    report.epochs >= 3
}

/// A script that has a pipeline, so many processes one after the other, and a signal.
fn script(processes: u64) -> String {
    format!(
        "trap 'echo caught' USR1; seq 1 20000 | sort -R --random-source=/dev/zero | sort -n | md5sum; \
         i=0; while [ $i -lt {processes} ]; do i=$((i + 1)); x=$(echo $i); done; echo $x; kill -USR1 $$; exit 5"
    )
}

/// How a program ended, and what it printed.
fn ended(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stdout))
}

#[test]
fn changed_pages_are_those_that_were_written_and_the_copy_is_the_programs_memory() {
    if !tracks() {
        return;
    }
    let (output, report) = until_seen(8000, several, |passes| {
        protected(50_000, &[], &[BAREMARK, "protect", "--write", "1000", "--passes", &passes.to_string()])
    });
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_copied(&report, 3);
    // All once; and in each epoch at most the thousand, the stack, and what the allocator keeps again.
    let again = (report.pages - report.new_pages) / report.epochs;
    assert!(report.new_pages > 1000 && again < 1016, "{again} pages again in each epoch: {report:?}");
    assert!(report.link_bytes > report.pages * 4096 && report.paused_ns < report.wall_ns, "{report:?}");
    assert!(report.period_ns().unwrap() >= 50e6, "{report:?}");
    assert!((report.first_pages..2000).contains(&report.new_pages), "{report:?}");
    // One process in each epoch but for those before it is there and after it has ended.
    assert_eq!(report.processes, 1, "{report:?}");
    assert!((1..=report.epochs).contains(&report.process_checkpoints), "{report:?}");
}

#[test]
fn pages_of_memory_that_grows_are_new_and_processes_that_wait_are_in_every_checkpoint() {
    if !tracks() {
        return;
    }
    // Most of a pass is additions: that the memory grows does not make the program end within a few long epochs.
    let (output, report) = until_seen(6000, several, |passes| {
        let passes = passes.to_string();
        let growing = ["--write", "2", "--passes", &passes, "--new", "--waiting", "3", "--workers", "2"];
        protected(20_000, &[], &[&[BAREMARK, "protect"], &growing[..]].concat())
    });
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_copied(&report, 3);
    // Those that each process writes while it starts, and the few that all write on and on; were what grows not new, nearly all would be there again.
    let again = report.pages - report.new_pages;
    assert!(report.new_pages > 1000 && again < report.pages / 4, "{again} pages again: {report:?}");
    // The program and three that wait, each in every checkpoint at most.
    assert!((report.epochs..=4 * report.epochs).contains(&report.process_checkpoints), "{report:?}");
    // A thread, three processes that begin, execute a program and end, and the first program: two stops each at least.
    assert!(report.events >= 10, "{report:?}");
}

#[test]
fn a_process_that_is_started_stops_a_few_times() {
    if !tracks() {
        return;
    }
    // Over before its first epoch is.
    let (output, report) = protected(120_000_000, &[], &[BAREMARK, "protect", "--start", "6", "--workers", "2"]);
    assert_eq!((output.status.code(), report.epochs), (Some(0), 0), "{output:?}");
    // Each of the 12 begins, executes a program, and ends with a signal to the one that started it.
    assert!((36..=120).contains(&report.events), "{report:?}");
}

#[test]
fn without_protection_nothing_is_stopped_or_copied() {
    let (output, report) = protected(0, &[], &["sh", "-c", "echo $((6 * 7)); exit 3"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), b"42\n".as_slice()));
    assert_eq!((report.epochs, report.pages, report.link_bytes, report.requested_ns), (0, 0, 0, 0));
    assert!(report.wall_ns > 0);
}

#[test]
fn processes_threads_and_signals_are_as_without_protection() {
    if !tracks() {
        return;
    }
    let mut processes = 0;
    let enough = |report: &Report| report.compared >= 5 && report.processes > 1;
    let (_, report) = until_seen(60, enough, |started| {
        processes = started;
        let script = script(started);
        let native = Command::new("sh").args(["-c", &script]).output().unwrap();
        let (output, report) = protected(2_000, &[], &["sh", "-c", &script]);
        assert_eq!(ended(&output), ended(&native), "{output:?}");
        (output, report)
    });
    assert_copied(&report, 5);
    assert!(report.events > processes, "{report:?}");
    let (killed, _) = protected(2_000, &[], &["sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(128 + 9));
    let (quiet, _) = protected(2_000, &[], &["sh", "-c", "yes | head -1"]);
    assert_eq!(quiet.stdout, b"y\n");
}

#[test]
fn a_link_of_given_rate_and_delay_makes_epochs_longer() {
    if !tracks() {
        return;
    }
    let writer = [BAREMARK, "protect", "--write", "500", "--passes", "12000"];
    // 500 pages are 16.4 Mbit: 164 ms at 100 Mbit/s.
    let (_, slow) = protected(5_000, &["--link-mbit", "100"], &writer);
    assert_copied(&slow, 1);
    // That is a bound from below, whatever else a busy machine adds to both.
    assert!(slow.period_ns().unwrap() > 100e6, "{slow:?}");
    assert!(slow.flags().iter().any(|flag| flag.contains("the link saturates")), "{:?}", slow.flags());
    let (_, delayed) = protected(5_000, &["--link-delay-us", "20000"], &writer);
    assert!(delayed.acknowledging_ns / delayed.epochs > 40_000_000, "{delayed:?}");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    for epoch in ["0", "20000"] {
        let output = Command::new(BAREMARK)
            .args(["protect", "--epoch-us", epoch, "--", "/nonexistent/program"])
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = "error: /nonexistent/program: No such file or directory (os error 2); name a program that can be executed\n";
        assert_eq!((output.status.code(), message.as_str()), (Some(1), expected));
    }
}

/// A protected server that answers with bytes, and where its clients connect.
fn server(epoch_us: u64, stats: &Path) -> (Child, TcpStream) {
    // Nobody else is given these ports before the program listens there.
    let held = [HeldPort::any().unwrap(), HeldPort::any().unwrap()];
    let [proxy, server] = [0, 1].map(|at: usize| SocketAddr::from((Ipv4Addr::LOCALHOST, held[at].number())));
    let (listen, at) = (proxy.to_string(), server.to_string());
    let mut command = Command::new(BAREMARK);
    command.args(["protect", "--epoch-us", &epoch_us.to_string(), "--listen", &listen, "--server", &at, "--stats"]);
    command.arg(stats).args(["--", BAREMARK, "protect", "--answer", &at]).stdin(Stdio::piped());
    let child = command.spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        match TcpStream::connect(proxy) {
            Ok(client) => {
                client.set_read_timeout(Some(PATIENCE)).unwrap();
                return (child, client);
            }
            Err(why) => assert!(Instant::now() < deadline, "{why}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The round trip of a request for 64 bytes.
fn round_trip(client: &mut TcpStream, number: u64) -> Duration {
    let asked = Instant::now();
    client.write_all(&[number.to_le_bytes(), 64_u64.to_le_bytes()].concat()).unwrap();
    let mut answer = [0; 64];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..8], number.to_le_bytes());
    asked.elapsed()
}

#[test]
fn answers_of_a_protected_server_wait_for_the_end_of_their_epoch() {
    if !tracks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let stats = folder.path().join("stats.json");
    let epoch = Duration::from_millis(200);
    let (mut child, mut client) = server(200_000, &stats);
    round_trip(&mut client, 0);
    let asked = Instant::now();
    for number in 1..6 {
        round_trip(&mut client, number);
    }
    // Each was released at the end of an epoch, and the next was asked for after that: five ends lie four epochs apart, or more.
    assert!(asked.elapsed() >= 4 * epoch, "{:?}", asked.elapsed());
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let report: Report = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
    assert_eq!(report.released_bytes, 6 * 64);
}

#[test]
fn a_killed_primary_leaves_neither_program_nor_secondary() {
    if !tracks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut child, mut client) = server(20_000, &folder.path().join("stats.json"));
    round_trip(&mut client, 0);
    let family = children(child.id());
    assert_eq!(family.len(), 2, "the program and the secondary");
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while family.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
        assert!(Instant::now() < deadline, "still there: {family:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn protection_is_a_factor_of_loads_whose_prediction_and_round_trips_are_reported() {
    let bench = Bench::new();
    if !tracks() {
        return;
    }
    bench.write("loads.toml", study_of_loads(r#""memory", "ping-pong""#, 1, 1));
    let document = bench.json(&["--json", "--quiet", "run", "loads.toml"]);
    for load in ["memory", "ping-pong"] {
        assert!(protected_to_none(&document, "work_per_s", &[("load", load)]) > 0.0);
        assert_counted(&document, &[("load", load)]);
    }
    let of =
        |metric: &str, load: &str, protect: &str| estimate(&document, metric, &[("load", load), ("protect", protect)]);
    assert!(protected_to_none(&document, "run_s", &[("load", "memory")]) > 0.0);
    assert_eq!(of("predicted_ratio", "memory", "none"), 1.0);
    assert_predicted(&document, &[("load", "memory")]);
    // Each takes an epoch at least: on a busy machine a phase has fewer than the six that a median needs.
    let longest = row_of(&document, "estimates", "round_trip_max_us", &[("load", "ping-pong"), ("protect", "20 ms")]);
    let (longest_us, trips) = (longest["estimate"].as_f64().unwrap(), longest["samples"].as_u64().unwrap());
    assert!(longest_us > 0.0 && trips > 0, "{longest:#}");
    let rows = document["estimates"].as_array().unwrap();
    let median =
        rows.iter().find(|row| row["metric"] == "round_trip_p50_us" && row["treatment"] == longest["treatment"]);
    assert_eq!(median.is_some(), trips >= 6, "{document:#}");
    assert!(median.is_none_or(|row| row["estimate"].as_f64() <= Some(longest_us)), "{document:#}");
    let is_of_a_server = |row: &&Value| row["treatment"]["load"] == "ping-pong" && row["metric"] == "predicted_ratio";
    assert_eq!(rows.iter().filter(is_of_a_server).count(), 0, "a server has no run time to predict: {document:#}");
}

#[test]
fn protection_is_a_factor_of_any_program() {
    let bench = Bench::new();
    if !tracks() {
        return;
    }
    bench.write("program.toml", STUDY_OF_A_PROGRAM);
    let document = bench.json(&["--json", "--quiet", "run", "program.toml"]);
    assert!(protected_to_none(&document, "wall_s", &[]) > 0.0);
    assert_counted(&document, &[]);
    assert_predicted(&document, &[]);
    let rows = document["estimates"].as_array().unwrap();
    let is_without = |row: &&Value| row["treatment"]["protect"] == "none" && row["metric"] == "pages_per_epoch";
    assert_eq!(rows.iter().filter(is_without).count(), 0, "without protection nothing is copied: {document:#}");
}

#[test]
fn protection_is_a_factor_of_programs_in_the_microvm() {
    let bench = Bench::new();
    if !kvm() || !tracks() {
        return;
    }
    let study = STUDY_OF_A_PROGRAM.replace("[factors]", "[factors]\nenvironment = [\"microvm\"]");
    bench.write("inside.toml", study);
    let document = bench.json(&["--json", "--quiet", "run", "inside.toml"]);
    assert!(protected_to_none(&document, "wall_s", &[]) > 0.0);
    assert_counted(&document, &[]);
    for protect in ["none", "20 ms"] {
        assert!(estimate(&document, "forwarded_calls", &[("protect", protect)]) > 0.0, "{document:#}");
    }
    assert_predicted(&document, &[]);
    // The 64 that the program writes, and those of the process that carries it.
    let pages = estimate(&document, "pages_per_epoch", &[("protect", "20 ms")]);
    assert!(pages >= 64.0, "{pages}: {document:#}");
    assert!(!document.to_string().contains("could not be tracked"), "{document:#}");
}

#[test]
fn the_copy_of_a_program_in_the_microvm_is_its_memory() {
    if !kvm() || !tracks() {
        return;
    }
    let (output, report) = until_seen(4000, several, |passes| {
        let passes = passes.to_string();
        let writer = [BAREMARK, "guest", "--", BAREMARK, "protect", "--write", "1000", "--passes", &passes];
        protected(50_000, &[], &writer)
    });
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_copied(&report, 3);
    // All once; and in each epoch at most what the program writes through the microVM again, and few pages of the process that carries it.
    let again = (report.pages - report.new_pages) / report.epochs;
    assert!(report.new_pages > 1000 && again < 1500, "{again} pages again in each epoch: {report:?}");
    // One process in each epoch but for those before it is there and after it has ended.
    assert_eq!(report.processes, 1, "{report:?}");
    assert!((1..=report.epochs).contains(&report.process_checkpoints), "{report:?}");
}

#[test]
fn processes_and_signals_in_the_microvm_are_as_without_protection() {
    if !kvm() || !tracks() {
        return;
    }
    let _ = until_seen(
        20,
        |report| several(report) && report.processes > 1,
        |started| {
            let script = script(started);
            let native = Command::new("sh").args(["-c", &script]).output().unwrap();
            let (output, report) = protected(5_000, &[], &[BAREMARK, "guest", "--", "sh", "-c", &script]);
            assert_eq!(ended(&output), ended(&native), "{output:?}");
            (output, report)
        },
    );
}
