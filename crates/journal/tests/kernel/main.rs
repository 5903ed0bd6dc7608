//! Owners that are killed at random moments, also within the calls by which the kernel is told of a change. Kills at named points are in
//! tests/journal.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::allow_attributes, missing_docs, reason = "tests")]

use baremark_journal::value::Values;
use baremark_journal::{Journal, file, file::Files, value};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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
