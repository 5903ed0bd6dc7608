//! A database whose writes go to two disks, of which one is mounted by this program.

use crate::copies::{LEAST, ROUND_TRIP, commit, kept, replicated, serving};
use baremark_databases::sites::Mechanism;

#[test]
fn a_commit_waits_for_both_copies_of_a_disk() {
    let root = tempfile::tempdir().unwrap();
    let Some(kept) = kept(root.path()) else { return };
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() || !baremark_sys::confine::is_root() {
        eprintln!("skipped: no disk can be mounted; it takes /dev/fuse and the superuser");
        return;
    }
    for round_trip in [None, Some(ROUND_TRIP)] {
        let mut server = serving(&replicated(Mechanism::Disk, round_trip), &kept, root.path());
        let took = commit(&*server.database(), 5);
        assert!(round_trip.is_none() || took >= LEAST, "{round_trip:?}: {took:?}");
        server.stop();
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains("baremark-replicated-disk"), "a disk is mounted for everybody");
}
