//! Kills and interrupts: nothing measured is lost, nothing is left running, and the run continues.
//!
//! The program is stopped at a named point (`baremark_sys::point`), and killed or interrupted there.

use crate::common::bench::{Bench, SMALL, children, lives, signal, text};
use crate::common::outcome::{rows, sound};
use crate::common::played::{PLAYED, one_level};
use crate::common::points::{interrupt, is_stopped, kill, stopped_at};
use baremark_stats::Rng;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const STUDY: &str = "small.toml";
/// The point after a trial was stored.
const STORED: &str = "trial-stored";

/// A study that has no end of its own, when it is run with [`LONG`].
fn bench() -> Bench {
    let bench = Bench::new();
    let native = SMALL.replace("[\"native\", \"null\"]", "\"native\"").replace("20 ms", "10 ms");
    bench.write(STUDY, native.replace("most_blocks = 12", "most_blocks = 90000").replace("60 s", "24 h"));
    bench
}

/// A self-check has a ratio, whose precision of 0.1 % it will not reach before it is killed.
const LONG: &[&str] = &["run", STUDY, "--aa"];

/// The program, whose messages nobody reads: whoever stops cannot wait for a reader.
fn silent(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = bench.command(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn latest(bench: &Bench) -> Value {
    bench.json(&["history", "--json"])["runs"][0].clone()
}

/// Sends a signal to a program that has stopped itself, which then goes on.
fn told(child: &Child, what: i32) {
    signal(child.id(), what);
    signal(child.id(), libc::SIGCONT);
}

/// Waits until something is so.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(180);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn wait_until_gone(agents: &[u32]) {
    wait_until("the agents are gone", || agents.iter().all(|&agent| !lives(agent)));
}

/// Block and cell of every trial of the run, in order.
fn places(document: &Value) -> Vec<(u64, u64)> {
    let place = |trial: &Value| (trial["block"].as_u64().unwrap(), trial["cell"].as_u64().unwrap());
    let mut places: Vec<(u64, u64)> = rows(document, "trials").iter().map(place).collect();
    places.sort_unstable();
    places
}

#[test]
fn killed_at_any_point_no_stored_trial_is_lost_and_none_is_measured_twice() {
    let bench = Bench::new();
    // Ten blocks of one trial, an interim analysis, and the end.
    bench.write(STUDY, PLAYED);
    let mut begun: &[&str] = &["run", STUDY];
    for (point, stored) in [
        ("run-created", 0),
        ("trial-ended", 0),
        ("trial-stored", 1),
        ("trial-ended:3", 3),
        ("trial-stored:3", 6),
        ("analysis-stored", 10),
        ("run-ends", 10),
    ] {
        let mut child = stopped_at(&mut silent(&bench, begun), point);
        let agents = children(child.id());
        kill(&mut child);
        wait_until_gone(&agents);
        let run = latest(&bench);
        assert_eq!((&run["trials"], &run["state"]), (&stored.into(), &"killed".into()), "at {point}");
        begun = &["resume"];
    }
    let document = bench.json(&["resume", "--json"]);
    sound(&document);
    assert_eq!(places(&document), (0..10).map(|block| (block, 0)).collect::<Vec<_>>(), "{:#}", document["trials"]);
    let history = bench.json(&["history", "--json"]);
    assert_eq!(history["runs"].as_array().unwrap().len(), 1, "resumed as one run: {history:#}");
    assert_eq!(history["runs"][0]["state"], "finished");
}

#[test]
fn an_interrupt_stops_cleanly_and_the_run_can_be_resumed_to_its_end() {
    let bench = Bench::new();
    bench.write(STUDY, PLAYED);
    let log = File::create(bench.path("log")).unwrap();
    let mut child = stopped_at(silent(&bench, &["run", STUDY]).stderr(log), STORED);
    let agents = children(child.id());
    interrupt(&child);
    let status = child.wait().unwrap();
    let log = std::fs::read_to_string(bench.path("log")).unwrap();
    assert_eq!(status.code(), Some(130), "{log}");
    assert!(log.contains("baremark resume"), "{log}");
    wait_until_gone(&agents);
    let run = latest(&bench);
    assert_eq!((&run["state"], &run["ended"]), (&"interrupted".into(), &Value::Null), "{run:#}");
    let report = text(&bench.run(&["report"]).stdout);
    assert!(report.contains("Stopped: interrupted by the user; `baremark resume "), "{report}");
    let document = bench.json(&["resume", "--json"]);
    sound(&document);
    assert!(document["run"]["ended"].is_string(), "{document:#}");
    let output = bench.run(&["resume"]);
    assert_eq!(output.status.code(), Some(2), "a finished run is not resumed");
}

/// The lock files next to the store.
fn lock_files(bench: &Bench) -> Vec<String> {
    let names = std::fs::read_dir(bench.path("store")).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".lock")).collect()
}

#[test]
fn the_lock_file_of_a_killed_run_is_removed_when_the_store_is_next_written() {
    let bench = bench();
    let mut child = stopped_at(&mut silent(&bench, LONG), STORED);
    let agents = children(child.id());
    let held = lock_files(&bench);
    assert_eq!(held.len(), 1);
    let output = bench.run(&["resume", "nothing"]);
    assert_eq!((output.status.code(), lock_files(&bench)), (Some(2), held), "a live run keeps its lock");
    kill(&mut child);
    wait_until_gone(&agents);
    assert_eq!(lock_files(&bench).len(), 1);
    assert_eq!(bench.run(&["resume", "nothing"]).status.code(), Some(2));
    assert_eq!(lock_files(&bench), [""; 0]);
    assert_eq!(latest(&bench)["state"], "killed");
}

#[test]
fn a_hang_up_stops_a_run_as_an_interrupt_does() {
    let bench = bench();
    let report = File::create(bench.path("report")).unwrap();
    let mut child = stopped_at(silent(&bench, LONG).stdout(report), "trial-stored:2");
    let agents = children(child.id());
    // The kernel and the shell may both say that the terminal is gone.
    told(&child, libc::SIGHUP);
    signal(child.id(), libc::SIGHUP);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let report = std::fs::read_to_string(bench.path("report")).unwrap();
    assert!(report.contains("a small study") && report.contains("Stopped: interrupted by the user"), "{report}");
    wait_until_gone(&agents);
    assert_eq!(lock_files(&bench), [""; 0]);
    assert_eq!(latest(&bench)["state"], "interrupted");
}

#[test]
fn a_terminal_that_hangs_up_stops_a_run_as_an_interrupt_does() {
    let bench = bench();
    let (mut master, mut slave) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: openpty writes two descriptors, and is given nothing else.
    assert_eq!(unsafe { libc::openpty(&raw mut master, &raw mut slave, none, none.cast(), none.cast()) }, 0);
    // SAFETY: both are open and nobody else's.
    let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    for (command, flag) in [(libc::F_SETFD, libc::FD_CLOEXEC), (libc::F_SETFL, libc::O_NONBLOCK)] {
        // SAFETY: fcntl changes a flag of a descriptor of ours: the child must not hold its own terminal open.
        assert_eq!(unsafe { libc::fcntl(master.as_raw_fd(), command, flag) }, 0);
    }
    let mut command = bench.command(LONG);
    let stream = || Stdio::from(slave.try_clone().unwrap());
    command.stdin(stream()).stdout(stream()).stderr(stream()).env(baremark_sys::point::STOP_AT, "trial-stored:3");
    // SAFETY: setsid and ioctl are async-signal-safe and touch no memory.
    unsafe {
        command.pre_exec(|| match libc::setsid() >= 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0 {
            true => Ok(()),
            false => Err(std::io::Error::last_os_error()),
        })
    };
    let mut child = command.spawn().unwrap();
    drop((command, slave));
    let mut terminal = File::from(master);
    let mut shown = Vec::new();
    wait_until("three trials are stored", || {
        let (is_stopped, mut chunk) = (is_stopped(child.id()), [0; 4096]);
        while let Ok(count @ 1..) = terminal.read(&mut chunk) {
            shown.extend_from_slice(&chunk[..count]);
        }
        is_stopped
    });
    let agents = children(child.id());
    drop(terminal);
    signal(child.id(), libc::SIGCONT);
    assert_eq!(child.wait().unwrap().code(), Some(130), "nothing can be printed, and that is not a failure");
    wait_until_gone(&agents);
    assert!(String::from_utf8_lossy(&shown).contains("block 2"), "{shown:?}");
    assert_eq!(lock_files(&bench), [""; 0]);
    let run = latest(&bench);
    assert!(run["state"] == "interrupted" && run["trials"].as_u64() >= Some(3), "{run:#}");
}

#[test]
fn a_program_started_with_nohup_goes_on_when_the_terminal_hangs_up() {
    let bench = Bench::new();
    bench.write(STUDY, PLAYED);
    let mut command = Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_baremark")).arg("--store").arg(bench.store()).args(["run", STUDY, "--quick"]);
    command.current_dir(bench.folder.path()).env("XDG_STATE_HOME", bench.path("state"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = stopped_at(&mut command, STORED);
    told(&child, libc::SIGHUP);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(latest(&bench)["state"], "finished");
}

#[test]
fn a_run_that_is_going_on_is_not_resumed_beside_itself() {
    let bench = bench();
    let mut child = stopped_at(&mut silent(&bench, LONG), STORED);
    let agents = children(child.id());
    let id = latest(&bench)["id"].as_str().unwrap().to_owned();
    let output = bench.run(&["resume", &id]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(&id), "{}", text(&output.stderr));
    kill(&mut child);
    wait_until_gone(&agents);
}

#[test]
fn a_killed_agent_costs_its_trial_and_no_more() {
    let bench = Bench::new();
    // Its first run does not end until somebody kills it.
    let [go, came] = ["go", "came"].map(|name| bench.path(name));
    let script = format!("echo > {}; test -e {} || exec sleep 3600; echo rate 1", came.display(), go.display());
    let study = one_level(&script).replace("least_blocks = 10\nmost_blocks = 10", "least_blocks = 6\nmost_blocks = 6");
    bench.write(STUDY, study);
    let mut command = bench.command(&["run", STUDY, "--aa", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the program is in its first run", || came.exists());
    let is_agent = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"agent")
    };
    let agent = children(child.id()).into_iter().find(is_agent).expect("its agent");
    bench.write("go", "");
    signal(agent, libc::SIGKILL);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    sound(&document);
    let trials = rows(&document, "trials");
    let failed: Vec<_> = trials.iter().filter(|trial| trial["status"] == "failed").collect();
    assert_eq!((trials.len(), failed.len()), (6, 1), "{document:#}");
    assert!(failed[0]["reason"].as_str().unwrap().contains("the agent is lost"), "{}", failed[0]);
    // A program is not void: all others count.
    let blocks = rows(&document, "ratios").iter().find(|row| row["metric"] == "rate").map(|row| &row["blocks"]);
    assert_eq!(blocks, Some(&5.into()), "{document:#}");
}

/// Trials that the program said it had finished: it says so after they are stored.
fn acknowledged(log: &str) -> u64 {
    log.lines().filter(|line| line.starts_with("block ") && line.contains(" is stored")).count() as u64
}

/// Waits until the child has said that so many trials are over; what it said, and what it will say.
fn after_trials(child: &mut Child, count: u64) -> (String, impl Read + use<>) {
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut seen = String::new();
    while acknowledged(&seen) < count {
        assert!(log.read_line(&mut seen).unwrap() > 0, "it ended early: {seen}");
    }
    (seen, log)
}

#[test]
#[ignore = "soak: kills at moments that nobody chose, BAREMARK_KILLS times"]
fn killed_at_random_moments_no_finished_trial_is_lost() {
    let kills: u64 = std::env::var("BAREMARK_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let bench = bench();
    let mut rng = Rng::new(20_261_121);
    let mut child = bench.spawn(LONG);
    let mut before = 0;
    for kill in 0..kills {
        // Some are killed before their first trial is over, some right after a trial, most in the middle of one.
        let (mut log, mut rest) = after_trials(&mut child, rng.below(3));
        thread::sleep(Duration::from_millis(rng.below(400)));
        let agents = children(child.id());
        signal(child.id(), libc::SIGKILL);
        child.wait().unwrap();
        rest.read_to_string(&mut log).unwrap();
        wait_until_gone(&agents);
        if bench.store().exists() {
            let stored = latest(&bench)["trials"].as_u64().unwrap_or(0);
            assert!(stored >= before + acknowledged(&log), "kill {kill}: {stored} stored, {before} before: {log}");
            before = stored;
        }
        // Killed before its run was in the store, there is nothing to resume yet.
        let begun = bench.json(&["history", "--json"])["runs"].as_array().is_some_and(|runs| !runs.is_empty());
        child = bench.spawn(if begun { &["resume"] } else { LONG });
    }
    assert!(before > 10, "the kills left only {before} trials to lose");
    // Where interrupts are ignored at its start, as in a shell's background, one that comes before its handler is lost.
    let (_, mut rest) = after_trials(&mut child, 1);
    signal(child.id(), libc::SIGINT);
    child.wait().unwrap();
    rest.read_to_string(&mut String::new()).unwrap();
    let history = bench.json(&["history", "--json"]);
    assert_eq!(history["runs"].as_array().unwrap().len(), 1, "resumed as one run: {history:#}");
    let places = places(&bench.json(&["report", "--json"]));
    let mut once = places.clone();
    once.dedup();
    assert_eq!(once, places, "no trial was measured twice");
}
