//! Kills and interrupts: nothing measured is lost, nothing is left running, and the run continues.

use crate::bench::{Bench, SMALL, children, lives, signal, text};
use baremark_stats::Rng;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const STUDY: &str = "small.toml";

/// A bench with a study that runs long enough to be killed in the middle of, when it is run with [`LONG`].
fn bench() -> Bench {
    let bench = Bench::new();
    let native = SMALL.replace("[\"native\", \"null\"]", "\"native\"").replace("20 ms", "10 ms");
    bench.write(STUDY, native.replace("most_blocks = 12", "most_blocks = 90000").replace("60 s", "24 h"));
    bench
}

/// A self-check has a ratio, whose precision of 0.1 % it will not reach before it is killed.
const LONG: &[&str] = &["run", STUDY, "--aa"];

fn trials_stored(bench: &Bench) -> u64 {
    let history = bench.json(&["history", "--json"]);
    history["runs"][0]["trials"].as_u64().unwrap_or(0)
}

/// Trials that the program said it had finished: it says so after they are stored.
fn acknowledged(log: &str) -> u64 {
    log.lines().filter(|line| line.starts_with("block ") && line.contains(" is stored")).count() as u64
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
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
        wait_until("the agent died with its lab", || agents.iter().all(|&agent| !lives(agent)));
        if bench.store().exists() {
            let stored = trials_stored(&bench);
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
    let document = bench.json(&["report", "--json"]);
    let mut places: Vec<(u64, u64)> = document["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| (trial["block"].as_u64().unwrap(), trial["cell"].as_u64().unwrap()))
        .collect();
    let count = places.len();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), count, "no trial was measured twice");
}

#[test]
fn an_interrupt_stops_cleanly_and_the_run_can_be_resumed_to_its_end() {
    let bench = Bench::new();
    bench.write(STUDY, SMALL);
    let mut child = bench.spawn(&["run", STUDY]);
    let (mut log, mut rest) = after_trials(&mut child, 1);
    let agents = children(child.id());
    signal(child.id(), libc::SIGINT);
    let status = child.wait().unwrap();
    rest.read_to_string(&mut log).unwrap();
    assert_eq!(status.code(), Some(130), "{log}");
    assert!(log.contains("baremark resume"), "{log}");
    wait_until("the agent is gone", || agents.iter().all(|&agent| !lives(agent)));
    let run = &bench.json(&["history", "--json"])["runs"][0];
    assert_eq!((&run["state"], &run["ended"]), (&"interrupted".into(), &serde_json::Value::Null), "{run:#}");
    let report = text(&bench.run(&["report"]).stdout);
    assert!(report.contains("Stopped: interrupted by the user; `baremark resume "), "{report}");
    let document = bench.json(&["resume", "--json"]);
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
    let mut child = bench.spawn(LONG);
    let _log = after_trials(&mut child, 1);
    let held = lock_files(&bench);
    assert_eq!(held.len(), 1);
    let output = bench.run(&["resume", "nothing"]);
    assert_eq!((output.status.code(), lock_files(&bench)), (Some(2), held), "a live run keeps its lock");
    signal(child.id(), libc::SIGKILL);
    child.wait().unwrap();
    assert_eq!(lock_files(&bench).len(), 1);
    // A process that the killed one was about to start has the lock until the kernel has ended it as well.
    wait_until("the lock file is removed", || {
        bench.run(&["resume", "nothing"]);
        lock_files(&bench).is_empty()
    });
    assert_eq!(bench.json(&["history", "--json"])["runs"][0]["state"], "killed");
}

#[test]
fn a_hang_up_stops_a_run_as_an_interrupt_does() {
    let bench = bench();
    let mut child = bench.spawn(LONG);
    let (_, mut rest) = after_trials(&mut child, 2);
    let agents = children(child.id());
    // The kernel and the shell may both say that the terminal is gone.
    signal(child.id(), libc::SIGHUP);
    signal(child.id(), libc::SIGHUP);
    let (mut report, mut log) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut report).unwrap();
    rest.read_to_string(&mut log).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{log}");
    assert!(report.contains("a small study") && report.contains("Stopped: interrupted by the user"), "{report}");
    wait_until("the agent is gone", || agents.iter().all(|&agent| !lives(agent)));
    assert_eq!(lock_files(&bench), [""; 0]);
    assert_eq!(bench.json(&["history", "--json"])["runs"][0]["state"], "interrupted");
}

#[test]
fn a_terminal_that_hangs_up_stops_a_run_as_an_interrupt_does() {
    let bench = bench();
    let (mut master, mut slave) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: openpty writes two descriptors, and is given nothing else.
    assert_eq!(unsafe { libc::openpty(&raw mut master, &raw mut slave, none, none.cast(), none.cast()) }, 0);
    // SAFETY: fcntl changes a flag of a descriptor of ours: the child must not hold its own terminal open.
    assert_eq!(unsafe { libc::fcntl(master, libc::F_SETFD, libc::FD_CLOEXEC) }, 0);
    // SAFETY: both are open and nobody else's.
    let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    let mut command = bench.command(LONG);
    let stream = || Stdio::from(slave.try_clone().unwrap());
    command.stdin(stream()).stdout(stream()).stderr(stream());
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
    let mut chunk = [0; 4096];
    while !String::from_utf8_lossy(&shown).contains("block 3,") {
        let count = terminal.read(&mut chunk).unwrap();
        shown.extend_from_slice(&chunk[..count]);
    }
    let agents = children(child.id());
    drop(terminal);
    assert_eq!(child.wait().unwrap().code(), Some(130), "nothing can be printed, and that is not a failure");
    wait_until("the agent is gone", || agents.iter().all(|&agent| !lives(agent)));
    assert_eq!(lock_files(&bench), [""; 0]);
    let run = &bench.json(&["history", "--json"])["runs"][0];
    assert!(run["state"] == "interrupted" && run["trials"].as_u64() >= Some(2), "{run:#}");
}

#[test]
fn a_program_started_with_nohup_goes_on_when_the_terminal_hangs_up() {
    let bench = Bench::new();
    bench.write(STUDY, SMALL);
    let mut command = Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_baremark")).arg("--store").arg(bench.store()).args(["run", STUDY, "--quick"]);
    command.current_dir(bench.folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut log, mut rest) = after_trials(&mut child, 1);
    signal(child.id(), libc::SIGHUP);
    let mut report = String::new();
    child.stdout.take().unwrap().read_to_string(&mut report).unwrap();
    rest.read_to_string(&mut log).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{log}");
    assert_eq!(bench.json(&["history", "--json"])["runs"][0]["state"], "finished");
}

#[test]
fn a_run_that_is_going_on_is_not_resumed_beside_itself() {
    let bench = bench();
    let mut child = bench.spawn(LONG);
    let _log = after_trials(&mut child, 1);
    let id = bench.json(&["history", "--json"])["runs"][0]["id"].as_str().unwrap().to_owned();
    let output = bench.run(&["resume", &id]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(&id), "{}", text(&output.stderr));
    signal(child.id(), libc::SIGKILL);
    child.wait().unwrap();
}

#[test]
fn a_killed_agent_costs_its_trial_and_no_more() {
    let bench = Bench::new();
    // Trials of nearly a second: whoever sees the first agent come is there before its trial is over.
    let slow = SMALL.replace("[\"native\", \"null\"]", "\"native\"").replace("20 ms", "200 ms");
    bench.write(STUDY, slow.replace("least_blocks = 10\nmost_blocks = 12", "least_blocks = 6\nmost_blocks = 6"));
    // Without a terminal and with --json the program says nothing while it runs.
    let mut child = bench.spawn(&["run", STUDY, "--aa", "--json"]);
    let is_agent = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"agent")
    };
    let mut agent = None;
    wait_until("there is an agent", || {
        agent = children(child.id()).into_iter().find(is_agent);
        agent.is_some()
    });
    thread::sleep(Duration::from_millis(100));
    signal(agent.unwrap(), libc::SIGKILL);
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(child.wait().unwrap().success());
    let document: serde_json::Value = serde_json::from_str(&output).unwrap();
    let trials = document["trials"].as_array().unwrap();
    let failed: Vec<_> = trials.iter().filter(|trial| trial["status"] == "failed").collect();
    assert_eq!(failed.len(), 1, "{document:#}");
    assert!(failed[0]["reason"].as_str().unwrap().contains("the agent is lost"), "{}", failed[0]);
    assert!(trials.len() == 6 && document["ratios"][0]["blocks"].as_u64() >= Some(4), "{document:#}");
}
