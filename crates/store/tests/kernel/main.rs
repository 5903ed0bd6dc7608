//! Disks that are full, which the superuser makes, and writers that are killed at random moments. Kills at named points are in tests/store.
#![allow(clippy::unwrap_used, clippy::allow_attributes, missing_docs, reason = "a test crate")]

#[path = "../store/support.rs"]
#[allow(dead_code, reason = "the other tests use all of it")]
mod support;

use baremark_store::{RunId, Store, StoreError};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;
use support::*;

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
            assert_eq!(trial.result, Some(result(seq, phases_of(seq))));
        }
        acknowledged = count;
        drop(store);
        assert_eq!(integrity(&path), "ok", "after kill {kill}");
    }
    assert!(acknowledged > KILLS, "only {acknowledged} trials over {KILLS} kills: they were killed too early to tell");
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
