//! Killed processes, files that may not grow, places that may not be written. Full disks are in tests/kernel.

use crate::support::*;
use baremark_store::{RunId, Store, StoreError};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// Points of the writer: before it stores a trial, and before it says that it has. Kills within are in tests/kernel, and what they may leave of a
/// transaction in the test after this.
#[test]
fn a_kill_between_two_trials_loses_none_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let id: RunId = "20251121-0335-aaaa".parse().unwrap();
    for (point, there) in
        [("adding 0", 0), ("adding 3", 3), ("added 3", 4), ("added 4", 5), ("adding 20", 20), ("added 30", 31)]
    {
        let mut command = child("write", &path);
        command.env(STOP_AT, point);
        let mut writer = Talker::start(command);
        while writer.hear().expect("it writes") != point {}
        writer.child.kill().unwrap();
        assert_eq!(writer.child.wait().unwrap().signal(), Some(9), "killed, not ended");
        let store = Store::open(&path).unwrap();
        let stored = store.load(&id).unwrap();
        assert_eq!((stored.trials.len(), stored.torn.len()), (there, 0), "{point}");
        for (seq, trial) in (0..).zip(&stored.trials) {
            assert_eq!((trial.seq, &trial.spec), (seq, &spec(seq)));
            assert_eq!(trial.result, Some(result(seq, phases_of(seq))));
        }
        drop(store);
        assert_eq!(integrity(&path), "ok", "{point}");
    }
}

/// A power cut leaves some beginning of the log on the disk: whatever its length, what opens is a beginning of the run.
#[test]
fn a_log_cut_off_anywhere_leaves_a_whole_beginning_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = Store::open(&path).unwrap();
    let id = store.create_run(&run(Some("a"))).unwrap();
    for seq in 0..6 {
        add(&store, &id, seq, 5).unwrap();
    }
    let (file, log) = (fs::read(&path).unwrap(), fs::read(folder.path().join("db-wal")).unwrap());
    assert!(log.len() > 50_000, "the log holds the trials");
    let mut seen = std::collections::BTreeSet::new();
    for cut in (0..=log.len()).step_by(1009).chain([log.len()]) {
        let place = tempfile::tempdir().unwrap();
        let copy = place.path().join("db");
        fs::write(&copy, &file).unwrap();
        fs::write(place.path().join("db-wal"), &log[..cut]).unwrap();
        let store = Store::open(&copy).unwrap();
        let stored = store.load(&id).map_or(0, |stored| stored.trials.len());
        seen.insert(stored);
        for seq in 0..stored as u64 {
            let trial = &store.load(&id).unwrap().trials[usize::try_from(seq).unwrap()];
            assert_eq!((trial.seq, &trial.result), (seq, &Some(result(seq, 5))));
        }
        drop(store);
        assert_eq!(integrity(&copy), "ok", "cut at {cut}");
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_limit_on_file_sizes_is_said_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    // The shell's ulimit counts KiB (bash) or 512-byte blocks (dash): one or two MiB.
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 2000; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    as_child(&mut shell, "fill", &path);
    let said = Talker::start(shell).rest();
    assert_full_and_intact(&path, &said);
    let store = Store::open(&path).unwrap();
    let id = store.latest().unwrap().unwrap().id;
    let next = store.load(&id).unwrap().next_seq();
    add(&store, &id, next, 100).expect("with room again it goes on");
    drop(store);
    assert_eq!(integrity(&path), "ok");
}

/// A child to which permissions apply, also where this process is the superuser's; `None`, which is said, where it cannot give up that right.
fn bound(role: &str, path: &Path) -> Option<Command> {
    if !fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0) {
        return Some(child(role, path));
    }
    let setpriv = || {
        let mut setpriv = Command::new("setpriv");
        let rights = "-dac_override,-dac_read_search";
        setpriv.arg(format!("--bounding-set={rights}")).arg(format!("--inh-caps={rights}"));
        setpriv
    };
    if !setpriv().arg("true").status().is_ok_and(|status| status.success()) {
        skip("a_folder_or_file_that_is_read_only", "setpriv cannot take rights from the superuser here");
        return None;
    }
    let mut command = setpriv();
    command.arg(std::env::current_exe().unwrap());
    as_child(&mut command, role, path);
    Some(command)
}

#[test]
fn a_folder_or_file_that_is_read_only_is_said_at_once_and_history_still_reads() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let path = place.join("db");
    let store = Store::open(&path).unwrap();
    store.create_run(&run(None)).unwrap();
    drop(store);
    if bound("open", &path).is_none() {
        return;
    }
    let says = |role: &str, path: &Path| Talker::start(bound(role, path).unwrap()).hear().unwrap();

    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(&place, Permissions::from_mode(0o555)).unwrap();
    let said = says("open", &path);
    assert!(said.starts_with(&format!("{} cannot be written: it, its folder or its file", path.display())), "{said}");
    assert!(said.ends_with("name another file with --store"), "{said}");
    assert_eq!(says("history", &path), "1 runs");
    let said = says("open", &place.join("other"));
    assert!(said.starts_with("cannot make ") && said.contains("Permission denied"), "{said}");

    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let said = says("open", &path);
    assert!(said.contains("cannot be written: it, its folder"), "a writable file in a read-only folder: {said}");

    fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
    let said = says("history", &path);
    assert!(said.starts_with("cannot read ") && said.contains("Permission denied"), "{said}");
    fs::set_permissions(&place, Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn history_of_nothing_says_so_and_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none/db");
    let why = Store::open_read_only(&path).unwrap_err();
    assert!(matches!(why, StoreError::Missing(_)), "{why}");
    assert!(!path.parent().unwrap().exists());
}
