//! Owners that are killed at random moments, also within the calls that change something, and owners in namespaces of their own. Kills at named
//! points are in tests/journal.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::allow_attributes, missing_docs, reason = "tests")]

use baremark_journal::suspended::SuspendedPrograms;
use baremark_journal::value::Values;
use baremark_journal::{Journal, file, file::Files, group::Groups, value};
use baremark_sys::confine::{Limits, hold};
use baremark_sys::process_tree;
use baremark_sys::registry::{self, Made, Record};
use baremark_sys::suspended::{self, Suspended};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FOLDER: &str = "BAREMARK_JOURNAL_CHANGER";
const VALUES: [&str; 3] = ["a", "b", "c"];

/// A journal whose values are files of `folder`.
fn journal(folder: &Path) -> Journal {
    let values = Values::within(folder.canonicalize().unwrap());
    Journal::open(folder.join("journal"), vec![Box::new(values), Box::new(Files)]).unwrap()
}

/// Not a test: the process that the next one kills. Changes values and files without end, a line for each step.
#[test]
fn changer() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let journal = journal(&folder);
    for round in 1_u64.. {
        let held: Vec<_> = VALUES.iter().map(|name| step(&journal, &folder, name, round)).collect();
        drop(held);
    }
}

fn step(journal: &Journal, folder: &Path, name: &str, round: u64) -> impl Sized + use<> {
    let held = value::set(journal, &folder.join(name), &(round % 9 + 1).to_string()).unwrap();
    let made = file::make(journal, folder, |path| fs::write(path, "x")).unwrap();
    eprintln!("step");
    (held, made)
}

fn start(folder: &Path) -> (Child, impl Iterator<Item = String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "changer", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    (child, lines.filter(|line| line == "step"))
}

#[test]
fn whatever_a_killed_owner_left_the_next_start_undoes() {
    let folder = tempfile::tempdir().unwrap();
    VALUES.iter().for_each(|name| fs::write(folder.path().join(name), "0").unwrap());
    for kill in 0..20_u64 {
        let (mut child, mut steps) = start(folder.path());
        // A random number of steps, and a random part of the next.
        let random = u64::from_str_radix(&file::random_word().unwrap()[..8], 16).unwrap();
        assert!(steps.by_ref().nth(usize::try_from(random % 11).unwrap()).is_some(), "kill {kill}");
        for _ in 0..random % 5000 {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let recovery = journal(folder.path()).recover().unwrap();
        assert!(
            recovery.foreign.is_empty() && recovery.failed.is_empty() && recovery.damaged.is_empty(),
            "{recovery:?}"
        );
        let values = VALUES.map(|name| value::read(&folder.path().join(name)).unwrap());
        assert_eq!(values, ["0", "0", "0"], "kill {kill} after {random}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "three values and the journal: {recovery:?}");
        let mut left = fs::read_dir(folder.path().join("journal")).unwrap().flatten();
        assert!(!left.any(|entry| entry.file_name().to_string_lossy().ends_with(".journal")));
    }
}

const RECOVERER: &str = "BAREMARK_JOURNAL_RECOVERER";

/// Not a test: a process that recovers, in namespaces of its own.
#[test]
fn recoverer() {
    let Some(folder) = std::env::var_os(RECOVERER).map(PathBuf::from) else { return };
    let recovery = journal(&folder).recover().unwrap();
    eprintln!("recovered {} held {}", recovery.undone.len(), recovery.held);
}

/// Process numbers, start times and /proc are others there; the lock of a living owner is the same.
#[test]
fn an_owner_is_alive_seen_from_other_time_and_process_namespaces() {
    let folder = tempfile::tempdir().unwrap();
    VALUES.iter().for_each(|name| fs::write(folder.path().join(name), "0").unwrap());
    let path = folder.path().join("a");
    let owner = journal(folder.path());
    let held = value::set(&owner, &path, "1").unwrap();
    for options in [&["--time", "--boottime", "86400"][..], &["--pid", "--mount-proc"]] {
        let mut command = Command::new("unshare");
        command.args(options).arg("--fork").arg(std::env::current_exe().unwrap());
        let ended =
            command.args(["--exact", "recoverer", "--nocapture"]).env(RECOVERER, folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        if !ended.status.success() && said.contains("unshare: ") {
            eprintln!("skipped: {}", said.trim());
            continue;
        }
        assert!(said.contains("recovered 0 held 1"), "{options:?}: {said}");
        assert_eq!(value::read(&path).unwrap(), "1", "{options:?}");
    }
    drop(held);
    assert_eq!(value::read(&path).unwrap(), "0");
}

const GROUP_OWNER: &str = "BAREMARK_JOURNAL_GROUP_OWNER";

fn journal_of_groups(folder: &Path) -> Journal {
    Journal::open(folder.join("journal"), vec![Box::new(Groups)]).unwrap()
}

fn recorded(made: Made<'_>) -> std::io::Result<Box<dyn Record>> {
    journal_of_groups(&PathBuf::from(std::env::var_os(GROUP_OWNER).unwrap())).record(made)
}

/// Not a test: a process that limits a child's memory, names the group, and waits to be killed.
#[test]
fn group_owner() {
    if std::env::var_os(GROUP_OWNER).is_none() {
        return;
    }
    registry::install(recorded);
    let mut command = Command::new("sleep");
    // It has left the process group, and dies with nobody.
    let held = hold(command.arg("600"), &Limits { memory_bytes: Some(64 << 20), ..Limits::default() }, 0).unwrap();
    let child = command.spawn().unwrap();
    eprintln!("made {:?} {}", held.memory, child.id());
    let _kept = (held, child);
    loop {
        std::thread::park();
    }
}

#[test]
fn the_group_of_a_killed_owner_ends_with_what_runs_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = Command::new(std::env::current_exe().unwrap());
    owner.args(["--exact", "group_owner", "--nocapture"]).env(GROUP_OWNER, folder.path());
    let mut owner = owner.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(owner.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find_map(|line| line.strip_prefix("made ").map(str::to_owned)).expect("it starts a child");
    let (memory, left) = line.split_once(' ').unwrap();
    owner.kill().unwrap();
    owner.wait().unwrap();
    let lives = || fs::read_to_string(format!("/proc/{left}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    assert!(lives(), "nobody ends it with its owner");
    let recovery = journal_of_groups(folder.path()).recover().unwrap();
    if memory != "ControlGroup" {
        Command::new("kill").args(["-9", left]).status().unwrap();
        return eprintln!("skipped: no control group can be made here");
    }
    let [undone] = recovery.undone.as_slice() else { panic!("{recovery:?}") };
    let group = Path::new(undone.strip_prefix("control group ").unwrap());
    assert!(!group.exists() && !lives(), "{undone}");
}

const SUSPENSION_OWNER: &str = "BAREMARK_JOURNAL_SUSPENSION_OWNER";

fn journal_of_programs(folder: &Path) -> Journal {
    Journal::open(folder.join("journal"), vec![Box::new(SuspendedPrograms)]).unwrap()
}

fn recorded_program(made: Made<'_>) -> std::io::Result<Box<dyn Record>> {
    journal_of_programs(&PathBuf::from(std::env::var_os(SUSPENSION_OWNER).unwrap())).record(made)
}

/// State and session of a process.
fn state_of(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.nth(2)?.parse().ok()?))
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Not a test: a process that suspends a program, names its two processes, and waits to be killed.
#[test]
fn suspension_owner() {
    if std::env::var_os(SUSPENSION_OWNER).is_none() {
        return;
    }
    registry::install(recorded_program);
    // Both in sessions of their own, where the kernel continues nobody whose parent dies.
    let child = Command::new("setsid").args(["sh", "-c", "setsid sleep 600 & wait"]).spawn().unwrap();
    let root = child.id();
    let leads = |pid: u32| state_of(pid).is_some_and(|(_, session)| session == pid);
    let below = || process_tree::pids(root).unwrap().into_iter().find(|pid| *pid != root && leads(*pid));
    wait_for("both have sessions", || leads(root) && below().is_some());
    let below = below().unwrap();
    let record = suspended::recorded(&suspended::processes(root).unwrap()).unwrap();
    assert!(record.is_some());
    let suspended = Suspended::of(root, Duration::from_secs(60)).unwrap();
    eprintln!("suspended {root} {below}");
    let _kept = (suspended, record, child);
    loop {
        std::thread::park();
    }
}

/// What a killed owner had suspended continues with the next start; so does what a process has left that was killed then.
fn goes_on(kills_root: bool) {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = Command::new(std::env::current_exe().unwrap());
    owner.args(["--exact", "suspension_owner", "--nocapture"]).env(SUSPENSION_OWNER, folder.path());
    let mut owner = owner.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(owner.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find_map(|line| line.strip_prefix("suspended ").map(str::to_owned)).expect("it suspends a child");
    let [root, below] = line.split(' ').map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()[..] else {
        panic!("{line}")
    };
    owner.kill().unwrap();
    owner.wait().unwrap();
    let is_stopped = |pid| state_of(pid).is_some_and(|(state, _)| state == "T");
    assert!(is_stopped(root) && is_stopped(below), "{:?} {:?}", state_of(root), state_of(below));
    if kills_root {
        Command::new("kill").args(["-9", &root.to_string()]).status().unwrap();
        wait_for("it ends", || state_of(root).is_none_or(|(state, _)| state == "Z"));
        assert!(is_stopped(below), "nobody continues it with its parent's death: {:?}", state_of(below));
    }
    let recovery = journal_of_programs(folder.path()).recover().unwrap();
    wait_for("it goes on", || !is_stopped(root) && !is_stopped(below));
    let goes_on = state_of(below).is_some_and(|(state, _)| state != "Z");
    let left = if kills_root { vec![below] } else { vec![root, below] };
    Command::new("kill").arg("-9").args(left.iter().map(u32::to_string)).status().unwrap();
    assert!(goes_on, "it is there");
    let [undone] = recovery.undone.as_slice() else { panic!("{recovery:?}") };
    assert!(undone.starts_with(&format!("suspended process {root} ")), "{undone}");
    assert!(journal_of_programs(folder.path()).recover().unwrap().undone.is_empty(), "once");
}

#[test]
fn a_program_that_a_killed_owner_had_suspended_goes_on_with_the_next_start() {
    goes_on(false);
}

#[test]
fn processes_of_a_suspended_program_go_on_with_the_next_start_though_the_first_of_them_is_gone() {
    goes_on(true);
}
