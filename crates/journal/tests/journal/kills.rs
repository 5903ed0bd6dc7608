//! Owners that are killed at named points, and owners that are alive. Kills at random moments are in tests/kernel.

use crate::{journal, records};
use baremark_journal::value::Values;
use baremark_journal::{Journal, Kind, Undone, file, file::Files, value};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const FOLDER: &str = "BAREMARK_JOURNAL_CHANGER";
const POINT: &str = "BAREMARK_JOURNAL_POINT";
const STARTER: &str = "BAREMARK_JOURNAL_STARTER";
const VALUES: [&str; 3] = ["a", "b", "c"];

/// Where the changer says that it is at the point for which it was started, and waits to be killed: the N-th of that name.
fn reached(name: &str) {
    static BEFORE: AtomicU32 = AtomicU32::new(0);
    let point = std::env::var(POINT).unwrap();
    let (wanted, count) = point.split_once(':').unwrap();
    if wanted == name && BEFORE.fetch_add(1, Ordering::SeqCst) + 1 == count.parse::<u32>().unwrap() {
        eprintln!("at {point}");
        loop {
            std::thread::park();
        }
    }
}

/// A kind whose undoing has points.
struct Watched<K>(K);

impl<K: Kind> Kind for Watched<K> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn survives_reboot(&self) -> bool {
        self.0.survives_reboot()
    }

    fn undo(&self, details: &Value) -> io::Result<Undone> {
        reached("undoing");
        let undone = self.0.undo(details);
        reached("undone");
        undone
    }
}

/// Not a test: the process that the tests of this file kill. Changes three values, each of them and a file with it, and undoes all. Each step opens
/// the journal by itself, as every workload of a process does.
#[test]
fn changer() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let open = || {
        let values = Values::within(folder.canonicalize().unwrap());
        let kinds: Vec<Box<dyn Kind>> = vec![Box::new(Watched(values)), Box::new(Watched(Files))];
        Journal::open(folder.join("journal"), kinds).unwrap()
    };
    // One that is over before the others has to leave their records.
    let first = file::make(&open(), &folder, |path| fs::write(path, "x")).unwrap();
    let held: Vec<_> = VALUES.iter().map(|name| step(&open(), &folder, name)).collect();
    first.2.gone().unwrap();
    fs::remove_file(first.0).unwrap();
    reached("first is over");
    drop(held);
}

fn step(journal: &Journal, folder: &Path, name: &str) -> impl Sized + use<> {
    let path = folder.join(name);
    let details = json!({ "path": path, "previous": "0", "value": "1" });
    let make = |_: &Value| {
        reached("value recorded");
        fs::write(&path, "1")?;
        reached("value made");
        Ok::<(), io::Error>(())
    };
    let value = journal.make_from("value".to_owned(), path.display().to_string(), || Ok(details), make).unwrap();
    let make = |path: &Path| {
        reached("file recorded");
        fs::write(path, "x")?;
        reached("file made");
        Ok(())
    };
    let file = file::make(journal, folder, make).unwrap();
    reached("held");
    (value, file)
}

/// The changer, at a point.
fn at(folder: &Path, point: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::changer", "--nocapture"])
        .env(FOLDER, folder)
        .env(POINT, point)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == format!("at {point}")), "it does not come to {point}");
    child
}

fn place() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    VALUES.iter().for_each(|name| fs::write(folder.path().join(name), "0").unwrap());
    folder
}

fn values(folder: &Path) -> Vec<String> {
    VALUES.iter().map(|name| value::read(&folder.join(name)).unwrap()).collect()
}

#[test]
fn whatever_a_killed_owner_left_the_next_start_undoes() {
    // Changes that are there at each point, and those that are recorded and not there.
    for (point, undone, absent) in [
        ("value recorded:1", 1, 1),
        ("value made:1", 2, 0),
        ("file recorded:1", 2, 1),
        ("file made:1", 3, 0),
        ("held:1", 3, 0),
        ("value recorded:2", 3, 1),
        ("file made:3", 7, 0),
        ("held:3", 7, 0),
        ("first is over:1", 6, 0),
        ("undoing:1", 6, 0),
        ("undone:1", 5, 1),
        ("undoing:4", 3, 0),
        ("undone:4", 2, 1),
        ("undone:6", 0, 1),
    ] {
        let folder = place();
        let mut child = at(folder.path(), point);
        child.kill().unwrap();
        child.wait().unwrap();
        let recovery = journal(folder.path()).recover().unwrap();
        assert!(
            recovery.foreign.is_empty() && recovery.failed.is_empty() && recovery.damaged.is_empty(),
            "{point}: {recovery:?}"
        );
        assert_eq!((recovery.undone.len(), recovery.absent.len()), (undone, absent), "{point}: {recovery:?}");
        assert_eq!(values(folder.path()), ["0", "0", "0"], "{point}");
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 4, "{point}: three values and the journal: {recovery:?}");
        assert!(records(folder.path()).is_empty(), "{point}");
    }
}

#[test]
fn a_live_owner_is_not_disturbed_and_its_targets_are_refused() {
    let folder = place();
    let mut child = at(folder.path(), "held:3");
    let own = journal(folder.path());
    let recovery = own.recover().unwrap();
    assert!(recovery.is_quiet() && recovery.held == 7, "{recovery:?}");
    assert_eq!(records(folder.path()).len(), 1, "a process has one file");
    assert_eq!(values(folder.path()), ["1", "1", "1"]);
    let refused = value::set(&own, &folder.path().join("a"), "x").unwrap_err();
    assert!(refused.to_string().contains(&format!("already changed by process {}", child.id())), "{refused}");
    child.kill().unwrap();
    child.wait().unwrap();
    // Without a recovery: what a dead owner left is undone when its target is requested.
    let taken = value::set(&own, &folder.path().join("a"), "x").unwrap();
    assert!(journal(folder.path()).recover().unwrap().is_quiet());
    assert_eq!(values(folder.path()), ["x", "0", "0"], "the dead owner's record is not obeyed again");
    drop(taken);
    assert_eq!(values(folder.path()), ["0", "0", "0"]);
}

/// Not a test: an owner that starts a program. Its copy says that it is there and executes the program when the input ends.
#[test]
fn starter() {
    let Some(folder) = std::env::var_os(STARTER).map(PathBuf::from) else { return };
    let _held = value::set(&journal(&folder), &folder.join("a"), "1").unwrap();
    let input = io::stdin().as_fd().try_clone_to_owned().unwrap();
    let output = io::stderr().as_fd().try_clone_to_owned().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--list").stdout(Stdio::null());
    // SAFETY: write(2) and read(2) are async-signal-safe, and touch nothing but these bytes.
    unsafe {
        command.pre_exec(move || {
            rustix::io::write(&output, b"copied\n")?;
            rustix::io::read(&input, &mut [0_u8; 1]).map(|_| ()).map_err(io::Error::from)
        })
    };
    command.status().unwrap();
}

/// A program that an owner is just starting is a copy of the owner, with its descriptors, and may outlive it.
#[test]
fn a_copy_of_a_killed_owner_is_not_the_owner() {
    let place = place();
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::starter", "--nocapture"])
        .env(STARTER, place.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (input, output) = (owner.stdin.take().unwrap(), owner.stderr.take().unwrap());
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "copied"), "there is no copy");
    let recovery = journal(place.path()).recover().unwrap();
    assert_eq!((recovery.undone.len(), recovery.held), (0, 1), "its owner is alive: {recovery:?}");
    owner.kill().unwrap();
    owner.wait().unwrap();
    let recovery = journal(place.path()).recover().unwrap();
    assert_eq!((recovery.undone.len(), recovery.held), (1, 0), "its copy is alive: {recovery:?}");
    assert_eq!(value::read(&place.path().join("a")).unwrap(), "0");
    drop(input);
    assert_eq!(lines.count(), 0, "the program has ended");
}
