//! Killed processes, full disks, places that may not be written.

use crate::support::*;
use baremark_store::{RunId, Store, StoreError};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

const KILLS: u64 = 30;

#[test]
fn a_kill_at_any_moment_loses_no_trial_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let id: RunId = "20251121-0335-aaaa".parse().unwrap();
    let mut moments = Moments(1);
    let mut acknowledged: u64 = 0;
    for kill in 0..KILLS {
        let mut writer = Talker::start(child("write", &path));
        for _ in 0..moments.below(8) {
            acknowledged = writer.hear().expect("it writes").parse::<u64>().unwrap() + 1;
        }
        thread::sleep(Duration::from_micros(moments.below(20_000)));
        writer.child.kill().unwrap();
        assert_eq!(writer.child.wait().unwrap().signal(), Some(9), "killed, not ended");
        if let Some(last) = writer.rest().last() {
            acknowledged = last.parse::<u64>().unwrap() + 1;
        }

        let store = Store::open(&path).unwrap();
        let stored = match store.load(&id) {
            Err(StoreError::Unknown { .. }) if acknowledged == 0 => continue,
            loaded => loaded.unwrap(),
        };
        let count = stored.trials.len() as u64;
        assert!((acknowledged..=acknowledged + 1).contains(&count), "kill {kill}: {count} of {acknowledged} are there");
        assert_eq!(stored.torn, []);
        for (seq, trial) in (0..).zip(&stored.trials) {
            assert_eq!((trial.seq, &trial.spec), (seq, &spec(seq)));
            assert_eq!(trial.result, Some(result(seq, usize::try_from(seq % 7 * 60).unwrap())));
        }
        acknowledged = count;
        drop(store);
        assert_eq!(integrity(&path), "ok", "after kill {kill}");
    }
    assert!(acknowledged > KILLS, "only {acknowledged} trials over {KILLS} kills: they were killed too early to tell");
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

/// A file system of one MiB, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at).output();
        done.is_ok_and(|output| output.status.success()).then(|| SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

fn assert_full_and_intact(path: &Path, said: &[String]) {
    let (error, acknowledged) = said.split_last().expect("it says something");
    assert!(error.starts_with("error: ") && error.contains("cannot grow"), "{error}");
    assert!(error.contains("what was stored before is intact") && error.contains(path.to_str().unwrap()), "{error}");
    assert!(acknowledged.len() >= 3, "{acknowledged:?}");
    let store = Store::open_read_only(path).unwrap();
    let stored = store.load(&store.latest().unwrap().unwrap().id).unwrap();
    assert_eq!((stored.trials.len(), stored.torn), (acknowledged.len(), Vec::new()));
    for (seq, trial) in (0..).zip(&stored.trials) {
        assert_eq!(trial.result, Some(result(seq, 100)));
    }
}

#[test]
fn a_full_disk_is_said_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk")) else {
        return skip("a_full_disk_is_said_and_loses_nothing", "mounting a small disk needs root");
    };
    let path = disk.0.join("db");
    let said = Talker::start(child("fill", &path)).rest();
    assert_full_and_intact(&path, &said);
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

/// Whether permissions bind this process; they do not bind root.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}

/// A child to which permissions apply: as root, one that is nobody.
fn unprivileged(folder: &Path, role: &str, path: &Path) -> Command {
    if !is_root() {
        return child(role, path);
    }
    let program = folder.join("program");
    if !program.exists() {
        // By a process of its own: what another test forks meanwhile would keep it open for writing, when nobody can run it.
        let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status().unwrap();
        assert!(copied.success());
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(program);
    as_child(&mut command, role, path);
    command.uid(65_534).gid(65_534).current_dir("/");
    command
}

#[test]
fn a_folder_or_file_that_is_read_only_is_said_at_once_and_history_still_reads() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let place = folder.path().join("place");
    let path = place.join("db");
    let store = Store::open(&path).unwrap();
    store.create_run(&run(None)).unwrap();
    drop(store);
    let says = |role: &str, path: &Path| Talker::start(unprivileged(folder.path(), role, path)).hear().unwrap();

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
