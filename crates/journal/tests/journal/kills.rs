//! Owners that are killed, and owners that are alive.

use crate::{journal, records};
use baremark_journal::{Journal, file, value};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const FOLDER: &str = "BAREMARK_JOURNAL_CHANGER";
const VALUES: [&str; 3] = ["a", "b", "c"];

/// Not a test: the process that the tests of this file kill. Changes values and files without end, a line for each step.
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
        .args(["--exact", "kills::changer", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    (child, lines.filter(|line| line == "step"))
}

fn values(folder: &Path) -> Vec<String> {
    VALUES.iter().map(|name| value::read(&folder.join(name)).unwrap()).collect()
}

#[test]
fn whatever_a_killed_owner_left_the_next_start_undoes() {
    let folder = tempfile::tempdir().unwrap();
    VALUES.iter().for_each(|name| fs::write(folder.path().join(name), "0").unwrap());
    let mut found = 0;
    for kill in 0..20_u64 {
        let (mut child, mut steps) = start(folder.path());
        // A random number of steps, and a random part of the next.
        let random = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
        let random = u64::from_str_radix(&random[..8], 16).unwrap();
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
        found += recovery.undone.len();
        assert_eq!(values(folder.path()), ["0", "0", "0"], "kill {kill} after {random}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "three values and the journal: {recovery:?}");
        assert!(records(folder.path()).is_empty());
    }
    assert!(found > 0, "no kill came in the middle");
}

#[test]
fn a_live_owner_is_not_disturbed_and_its_targets_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    VALUES.iter().for_each(|name| fs::write(folder.path().join(name), "0").unwrap());
    let (mut child, mut steps) = start(folder.path());
    assert!(steps.next().is_some());
    // Stopped, so that it holds what it holds.
    let stop = |signal: &str| Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    let held = loop {
        assert!(stop("-STOP").success());
        while !is_stopped(child.id()) {
            std::thread::yield_now();
        }
        if value::read(&folder.path().join("a")).unwrap() != "0" && may_lock(folder.path()) {
            break values(folder.path());
        }
        assert!(stop("-CONT").success());
        assert!(steps.next().is_some());
    };
    let own = journal(folder.path());
    let recovery = own.recover().unwrap();
    assert!(recovery.is_quiet() && recovery.held > 0, "{recovery:?}");
    assert_eq!(values(folder.path()), held);
    let refused = value::set(&own, &folder.path().join("a"), "x").unwrap_err();
    assert!(refused.to_string().contains(&format!("already changed by process {}", child.id())), "{refused}");
    child.kill().unwrap();
    child.wait().unwrap();
    // Without a recovery: what a dead owner left is undone when its target is requested.
    let taken = value::set(&own, &folder.path().join("a"), "x").unwrap();
    assert!(journal(folder.path()).recover().unwrap().is_quiet());
    assert_eq!(values(folder.path())[0], "x", "the dead owner's record is not obeyed again");
    drop(taken);
    assert_eq!(values(folder.path()), ["0", "0", "0"]);
}

/// Whether each thread of a process is stopped: a signal returns before they are, and one that still runs may take the lock.
fn is_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let state = |stat: String| stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok())
        .all(|stat| state(stat) == Some('T'))
}

/// Whether the stopped process does not hold the folder's lock.
fn may_lock(folder: &Path) -> bool {
    fs::File::open(folder.join("journal/lock")).unwrap().try_lock().is_ok()
}
