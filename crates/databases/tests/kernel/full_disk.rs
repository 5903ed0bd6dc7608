//! A disk that becomes full: a small file system in memory, which takes the superuser.

use crate::bench::{QUIET, closed, setup, start};
use crate::shop::{SMALL, is_intact, opened, shoppers};
use baremark_databases::dvd_store::orders::{Acknowledged, NAMES};
use baremark_databases::engine;
use baremark_databases::kind::Kind;
use baremark_sys::mounts;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A small file system in memory, which only this thread and what it starts see.
struct SmallDisk {
    at: tempfile::TempDir,
}

impl SmallDisk {
    /// Of so many MiB; `None` with a printed reason where none can be mounted.
    fn mount(mib: u32) -> Option<SmallDisk> {
        let at = tempfile::tempdir().unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={mib}m,mode=755"), "none"]).arg(at.path());
        if mounts::own_mounts().is_ok() && command.status().is_ok_and(|status| status.success()) {
            return Some(SmallDisk { at });
        }
        eprintln!("skipped: no small disk can be mounted; it takes the superuser");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(self.at.path()).status());
    }
}

/// Fills a disk but for half a MiB, as another program would.
fn filled(root: &Path) -> PathBuf {
    let path = root.join("in-the-way");
    let mut file = File::create(&path).unwrap();
    let mut piece = vec![0; 1 << 20];
    while !piece.is_empty() {
        if file.write_all(&piece).is_err() {
            piece.truncate(piece.len() / 2);
        }
    }
    let length = file.metadata().unwrap().len();
    file.set_len(length - (512 << 10)).unwrap();
    path
}

/// Every acknowledged order survives a disk that becomes full under load, and orders go on when there is room again.
fn a_full_disk_loses_nothing(kind: Kind, mib: u32) {
    let Some(disk) = SmallDisk::mount(mib) else { return };
    let Some(mut server) = start(&setup(kind), disk.at.path()) else { return };
    let (database, acknowledged) = (opened(&server, SMALL), Arc::new(Acknowledged::default()));
    let mut clients = shoppers(&*database, SMALL, &acknowledged);
    let in_the_way = filled(disk.at.path());
    let begun = Instant::now();
    // Clients of a server that has ended try it again until the end.
    let seconds = if kind == Kind::Sqlite { 120.0 } else { 20.0 };
    let outcome = engine::run(&*database, &mut clients, &NAMES, &closed(seconds), &mut || 0, &QUIET);
    let word = kind.word();
    match (kind, outcome) {
        (_, Err(why)) => {
            let why = why.to_string();
            assert!(why.contains("resource exhausted") && (why.contains("full") || why.contains("space")), "{why}");
            assert!(begun.elapsed() < Duration::from_secs(100), "{word}: it waited for the end of the load");
        }
        // A server that cannot write its log ends, and says so.
        (Kind::Postgres | Kind::Mariadb, Ok(outcome)) => {
            let why = server.ended().unwrap_or_else(|| panic!("{outcome:?}"));
            assert!(why.contains("No space left on device"), "{why}");
        }
        (_, Ok(outcome)) => panic!("{word}: a full disk was not noticed: {outcome:?}"),
    }
    drop(clients);
    fs::remove_file(in_the_way).unwrap();
    server.restart(&QUIET).unwrap_or_else(|why| panic!("{why}"));
    is_intact(&*database, &acknowledged, word);
    let written = database.connect().unwrap().script("update orders set tax = tax");
    written.unwrap_or_else(|why| panic!("{word} with room again: {why}"));
}

#[test]
fn on_sqlite_a_full_disk_is_named_and_loses_no_acknowledged_order() {
    a_full_disk_loses_nothing(Kind::Sqlite, 40);
}

#[test]
fn on_postgres_a_full_disk_is_named_and_loses_no_acknowledged_order() {
    a_full_disk_loses_nothing(Kind::Postgres, 400);
}

#[test]
fn on_mariadb_a_full_disk_is_named_and_loses_no_acknowledged_order() {
    a_full_disk_loses_nothing(Kind::Mariadb, 500);
}
