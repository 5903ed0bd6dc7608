//! `baremark protect`: programs under protection by checkpoints, through the binary that is handed out; and studies that have it as a factor.

use crate::bench::{Bench, kvm, text};
use crate::environments::free_port;
use crate::turns::{long_turn, turn};
use baremark_model::protection::Report;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const BAREMARK: &str = env!("CARGO_BIN_EXE_baremark");
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a program in epochs of so many microseconds, each copy compared; its output and what was counted.
fn protected(epoch_us: u64, further: &[&str], program: &[&str]) -> (Output, Report) {
    let folder = tempfile::tempdir().unwrap();
    let stats = folder.path().join("stats.json");
    let mut command = Command::new(BAREMARK);
    command.args(["protect", "--epoch-us", &epoch_us.to_string(), "--compare", "--stats"]).arg(&stats);
    let output = command.args(further).arg("--").args(program).stdin(Stdio::null()).output().unwrap();
    let report = std::fs::read(&stats).unwrap_or_else(|why| panic!("{why}: {output:?}"));
    (output, serde_json::from_slice(&report).unwrap())
}

fn assert_copied(report: &Report, fewest: u64) {
    assert!(report.compared >= fewest && report.different == 0, "{report:?}");
    assert_eq!((report.unreadable, report.untracked), (0, 0), "{report:?}");
}

#[test]
fn changed_pages_are_those_that_were_written_and_the_copy_is_the_programs_memory() {
    let _turn = long_turn();
    // An epoch is long enough for a pass, which takes milliseconds of a CPU, on a busy machine too.
    let (output, report) = protected(50_000, &[], &[BAREMARK, "protect", "--write", "1000", "--passes", "8000"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_copied(&report, 3);
    // All at first; then the thousand, the stack, and what the allocator keeps.
    let later = (report.pages - report.first_pages) / (report.epochs - 1);
    assert!(report.first_pages > 1000 && (900..1016).contains(&later), "{later} pages: {report:?}");
    assert!(report.link_bytes > report.pages * 4096 && report.paused_ns < report.wall_ns, "{report:?}");
    assert!(report.period_ns().unwrap() >= 50e6, "{report:?}");
    // Those of the first checkpoint are new, and few later ones.
    assert!((report.first_pages..report.first_pages + 100).contains(&report.new_pages), "{report:?}");
    assert_eq!((report.process_checkpoints, report.processes), (report.epochs, 1), "{report:?}");
    let held = report.held_pages / report.epochs;
    assert!((report.first_pages - 50..report.first_pages + 100).contains(&held), "{held} pages held: {report:?}");
}

#[test]
fn pages_of_memory_that_grows_are_new_and_processes_that_wait_are_in_every_checkpoint() {
    let _turn = long_turn();
    // Most of a pass is additions: that the memory grows does not make the program end within a few long epochs.
    let growing = ["--write", "2", "--passes", "6000", "--new", "--waiting", "3", "--workers", "2"];
    let (output, report) = protected(20_000, &[], &[&[BAREMARK, "protect"], &growing[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_copied(&report, 3);
    let again = (report.pages - report.new_pages) / report.epochs;
    assert!(report.new_pages > 1000 && again < 100, "{again} pages again in each epoch: {report:?}");
    // Not in those before they began and after they ended.
    assert!((2 * report.epochs..=4 * report.epochs).contains(&report.process_checkpoints), "{report:?}");
    // A thread, three processes that begin, execute a program and end, and the first program: two stops each at least.
    assert!(report.events >= 10, "{report:?}");
}

#[test]
fn a_process_that_is_started_stops_a_few_times() {
    let _turn = turn();
    // Over before its first epoch is.
    let (output, report) = protected(120_000_000, &[], &[BAREMARK, "protect", "--start", "6", "--workers", "2"]);
    assert_eq!((output.status.code(), report.epochs), (Some(0), 0), "{output:?}");
    // Each of the 12 begins, executes a program, and ends with a signal to the one that started it.
    assert!((36..=120).contains(&report.events), "{report:?}");
}

#[test]
fn without_protection_nothing_is_stopped_or_copied() {
    let _turn = turn();
    let (output, report) = protected(0, &[], &["sh", "-c", "echo $((6 * 7)); exit 3"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), b"42\n".as_slice()));
    assert_eq!((report.epochs, report.pages, report.link_bytes, report.requested_ns), (0, 0, 0, 0));
    assert!(report.wall_ns > 0);
}

#[test]
fn processes_threads_and_signals_are_as_without_protection() {
    let _turn = long_turn();
    let pipeline = "seq 1 60000 | sort -R --random-source=/dev/zero | sort -n | md5sum; \
                    i=0; while [ $i -lt 60 ]; do i=$((i + 1)); x=$(echo $i); done; echo $x; kill -USR1 $$; exit 5";
    let script = format!("trap 'echo caught' USR1; {pipeline}");
    let native = Command::new("sh").args(["-c", &script]).output().unwrap();
    let (output, report) = protected(2_000, &[], &["sh", "-c", &script]);
    let ended = |output: &Output| (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned());
    assert_eq!(ended(&output), ended(&native), "{output:?}");
    assert_copied(&report, 5);
    assert!(report.processes > 1, "{report:?}");
    let (killed, _) = protected(2_000, &[], &["sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(128 + 9));
    let (quiet, _) = protected(2_000, &[], &["sh", "-c", "yes | head -1"]);
    assert_eq!(quiet.stdout, b"y\n");
}

#[test]
fn a_link_of_given_rate_and_delay_makes_epochs_longer() {
    let _turn = long_turn();
    let writer = [BAREMARK, "protect", "--write", "500", "--passes", "12000"];
    let (_, fast) = protected(5_000, &[], &writer);
    // 500 pages are 16.4 Mbit: 164 ms at 100 Mbit/s.
    let (_, slow) = protected(5_000, &["--link-mbit", "100"], &writer);
    assert_copied(&slow, 1);
    // That is a bound from below, whatever else a busy machine adds to both.
    let (fast_ns, slow_ns) = (fast.period_ns().unwrap(), slow.period_ns().unwrap());
    assert!(slow_ns > 100e6 && slow_ns > fast_ns, "{fast:?} {slow:?}");
    assert!(slow.flags().iter().any(|flag| flag.contains("the link saturates")), "{:?}", slow.flags());
    let (_, delayed) = protected(5_000, &["--link-delay-us", "20000"], &writer);
    assert!(delayed.acknowledging_ns / delayed.epochs > 40_000_000, "{delayed:?}");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let _turn = turn();
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
    let free = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let [proxy, server]: [SocketAddr; 2] = [free(), free()];
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
    let _turn = long_turn();
    let folder = tempfile::tempdir().unwrap();
    let stats = folder.path().join("stats.json");
    let fastest = |epoch_us: u64| {
        let (mut child, mut client) = server(epoch_us, &stats);
        round_trip(&mut client, 0);
        let fastest = (1..6).map(|number| round_trip(&mut client, number)).min().unwrap();
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        let report: Report = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
        assert_eq!(report.released_bytes, 6 * 64);
        fastest
    };
    // A request that is made when an epoch's output is released is answered when the next epoch's is. A client that
    // has to wait for a CPU asks later in the epoch: it may do so for half of one.
    let (held, passed) = (fastest(1_000_000), fastest(0));
    assert!(held > Duration::from_millis(500) && passed < Duration::from_millis(500), "{held:?} {passed:?}");
}

#[test]
fn a_killed_primary_leaves_neither_program_nor_secondary() {
    let _turn = turn();
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

fn children(of: u32) -> Vec<u32> {
    let listed = std::fs::read_dir(format!("/proc/{of}/task")).unwrap().flatten();
    let texts = listed.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    texts.flat_map(|text| text.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()).collect()
}

/// Loads of fixed work and of round trips, with and without protection. `work` tenths of a second are done in each run.
fn study_of_loads(loads: &str, work: u64, blocks: u64) -> String {
    format!(
        r#"
[study]
title = "loads under protection"
[workload]
kind = "protection"
work = {work}
[factors]
load = [{loads}]
protect = ["none", "20 ms"]
ranks = 1
[design]
phase = "300 ms"
quads = 0
least_blocks = {blocks}
most_blocks = {blocks}
budget = "20 min"
[report]
also = "run_s"
columns = "protect"
ratio_to = {{ protect = "none" }}
"#
    )
}

/// A program that writes pages for a third of a second, with and without protection.
const STUDY_OF_A_PROGRAM: &str = r#"
[study]
title = "a program under protection"
[workload]
kind = "command"
[command]
argv = ["{baremark}", "protect", "--write", "64", "--passes", "6000"]
[factors]
protect = ["none", "20 ms"]
ranks = 1
[design]
quads = 0
least_blocks = 1
most_blocks = 1
budget = "10 min"
[report]
columns = "protect"
ratio_to = { protect = "none" }
"#;

/// Whether changed pages can be found here; where not, a line that is counted.
fn tracks() -> bool {
    let writer = [BAREMARK, "protect", "--write", "1", "--passes", "1000"];
    let mut command = Command::new(BAREMARK);
    let output = command.args(["protect", "--epoch-us", "5000", "--"]).args(writer).output().unwrap();
    let why = text(&output.stderr);
    let is_able = output.status.success();
    if !is_able {
        assert!(why.contains("dirty pages cannot be tracked"), "{why}");
        eprintln!("skipped: {}", why.trim());
    }
    is_able
}

/// The row of a list of the document with these levels.
fn row_of<'d>(document: &'d Value, list: &str, metric: &str, levels: &[(&str, &str)]) -> &'d Value {
    let is_meant = |row: &&Value| {
        row["metric"] == metric && levels.iter().all(|(factor, level)| row["treatment"][*factor] == *level)
    };
    let rows: Vec<&Value> = document[list].as_array().unwrap().iter().filter(is_meant).collect();
    assert_eq!(rows.len(), 1, "{list}, {metric}, {levels:?}: {document:#}");
    rows[0]
}

fn estimate(document: &Value, metric: &str, levels: &[(&str, &str)]) -> f64 {
    row_of(document, "estimates", metric, levels)["estimate"].as_f64().unwrap()
}

/// The ratio of a metric under protection to that without it.
fn protected_to_none(document: &Value, metric: &str, levels: &[(&str, &str)]) -> f64 {
    let row = row_of(document, "ratios", metric, &[levels, &[("protect", "20 ms")]].concat());
    assert_eq!((&row["relative_to"]["protect"], &row["contrast"]), (&"none".into(), &"factor".into()), "{row:#}");
    row["ratio"].as_f64().unwrap_or_else(|| panic!("{row:#}"))
}

/// Of a treatment under protection what was counted.
fn assert_counted(document: &Value, levels: &[(&str, &str)]) {
    let under = [levels, &[("protect", "20 ms")]].concat();
    for metric in ["pages_per_epoch", "mb_per_epoch", "epochs", "pause_us", "paused_percent", "link_mbit_per_s"] {
        assert!(estimate(document, metric, &under) > 0.0, "{metric}, {under:?}: {document:#}");
    }
    // An epoch ends when it is due, or later.
    assert!(estimate(document, "epoch_ms", &under) >= 20.0, "{document:#}");
}

#[test]
fn protection_is_a_factor_of_loads_whose_prediction_and_round_trips_are_reported() {
    let bench = Bench::busy();
    if !tracks() {
        return;
    }
    bench.write("loads.toml", study_of_loads(r#""memory", "ping-pong""#, 3, 1));
    let document = bench.json(&["--json", "--quiet", "run", "loads.toml"]);
    for load in ["memory", "ping-pong"] {
        assert!(protected_to_none(&document, "work_per_s", &[("load", load)]) > 0.0);
        assert_counted(&document, &[("load", load)]);
    }
    let of =
        |metric: &str, load: &str, protect: &str| estimate(&document, metric, &[("load", load), ("protect", protect)]);
    assert!(protected_to_none(&document, "run_s", &[("load", "memory")]) > 0.0);
    assert_eq!(of("predicted_ratio", "memory", "none"), 1.0);
    assert!(of("predicted_ratio", "memory", "20 ms") > 1.0, "{document:#}");
    // 2,048 pages of 4 KiB and few others.
    let pages = of("pages_per_epoch", "memory", "20 ms");
    assert!((1000.0..4000.0).contains(&pages), "{pages}: {document:#}");
    // What is asked when an epoch's output was released is answered when the next epoch's is.
    let held = of("round_trip_p50_us", "ping-pong", "20 ms");
    assert!(held >= 15_000.0, "{held} us: {document:#}");
    let rows = document["estimates"].as_array().unwrap();
    let is_of_a_server = |row: &&Value| row["treatment"]["load"] == "ping-pong" && row["metric"] == "predicted_ratio";
    assert_eq!(rows.iter().filter(is_of_a_server).count(), 0, "a server has no run time to predict: {document:#}");
}

#[test]
fn protection_is_a_factor_of_any_program() {
    let bench = Bench::busy();
    if !tracks() {
        return;
    }
    bench.write("program.toml", STUDY_OF_A_PROGRAM);
    let document = bench.json(&["--json", "--quiet", "run", "program.toml"]);
    assert!(protected_to_none(&document, "wall_s", &[]) > 0.0);
    assert_counted(&document, &[]);
    assert!(estimate(&document, "predicted_ratio", &[("protect", "20 ms")]) > 1.0, "{document:#}");
    let rows = document["estimates"].as_array().unwrap();
    let is_without = |row: &&Value| row["treatment"]["protect"] == "none" && row["metric"] == "pages_per_epoch";
    assert_eq!(rows.iter().filter(is_without).count(), 0, "without protection nothing is copied: {document:#}");
}

#[test]
fn protection_is_a_factor_of_programs_in_the_microvm() {
    let bench = Bench::busy();
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
    assert!(estimate(&document, "predicted_ratio", &[("protect", "20 ms")]) > 1.0, "{document:#}");
    // The 64 that the program writes, and those of the process that carries it.
    let pages = estimate(&document, "pages_per_epoch", &[("protect", "20 ms")]);
    assert!(pages >= 64.0, "{pages}: {document:#}");
    assert!(!document.to_string().contains("could not be tracked"), "{document:#}");
}

#[test]
fn the_copy_of_a_program_in_the_microvm_is_its_memory() {
    let _turn = long_turn();
    if !kvm() || !tracks() {
        return;
    }
    let writer = ["guest", "--", BAREMARK, "protect", "--write", "1000", "--passes", "4000"];
    let (output, report) = protected(50_000, &[], &[&[BAREMARK], &writer[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_copied(&report, 3);
    // All at first; then what the program writes through the microVM, and few pages of the process that carries it.
    let later = (report.pages - report.first_pages) / (report.epochs - 1);
    assert!(report.first_pages > 1000 && (900..1500).contains(&later), "{later} pages: {report:?}");
    assert_eq!((report.process_checkpoints, report.processes), (report.epochs, 1), "{report:?}");
}

#[test]
fn processes_and_signals_in_the_microvm_are_as_without_protection() {
    let _turn = long_turn();
    if !kvm() || !tracks() {
        return;
    }
    let script = "trap 'echo caught' USR1; seq 1 20000 | sort -R --random-source=/dev/zero | sort -n | md5sum; \
                  i=0; while [ $i -lt 20 ]; do i=$((i + 1)); x=$(echo $i); done; echo $x; kill -USR1 $$; exit 5";
    let native = Command::new("sh").args(["-c", script]).output().unwrap();
    let (output, report) = protected(5_000, &[], &[BAREMARK, "guest", "--", "sh", "-c", script]);
    let ended = |output: &Output| (output.status.code(), text(&output.stdout));
    assert_eq!(ended(&output), ended(&native), "{output:?}");
    assert!(report.epochs >= 3 && report.processes > 1, "{report:?}");
}

#[test]
#[ignore = "minutes, and wants a quiet machine: `make soak`"]
fn soak_predicted_run_times_of_loads_are_those_that_are_measured() {
    const LOADS: [&str; 2] = ["memory", "compile"];
    const BLOCKS: u64 = 6;
    const MOST: f64 = 0.2;
    let bench = Bench::sole();
    if !tracks() {
        return;
    }
    let compiles = ["make", "cc"]
        .iter()
        .all(|program| Command::new(program).arg("--version").output().is_ok_and(|of| of.status.success()));
    if !compiles {
        eprintln!("skipped: no make or no cc; the load memory alone is judged");
    }
    let loads = if compiles { &LOADS[..] } else { &LOADS[..1] };
    let listed = loads.iter().map(|load| format!("{load:?}")).collect::<Vec<_>>().join(", ");
    bench.write("loads.toml", study_of_loads(&listed, 10, BLOCKS));
    let document = bench.json(&["--json", "--quiet", "run", "loads.toml"]);
    let mut wrong = Vec::new();
    for &load in loads {
        let measured = protected_to_none(&document, "run_s", &[("load", load)]);
        let predicted = estimate(&document, "predicted_ratio", &[("load", load), ("protect", "20 ms")]);
        let line = format!("{load}: measured {measured:.3}, predicted {predicted:.3} in {BLOCKS} blocks");
        println!("{line}");
        if (predicted / measured - 1.0).abs() > MOST {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "more than {MOST} apart: {}", wrong.join("; "));
}
