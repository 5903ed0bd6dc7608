//! Commits without a second copy, or with one that is near, are quicker than those that wait for a distant one.

use crate::copies::{LEAST, commit, kept, replicated, serving};
use baremark_databases::sites::Mechanism;

#[test]
fn a_commit_without_a_second_copy_does_not_wait() {
    let root = tempfile::tempdir().unwrap();
    let Some(kept) = kept(root.path()) else { return };
    let server = serving(&replicated(Mechanism::Standby("on"), None), &kept, root.path());
    let took = commit(&*server.database(), 50);
    assert!(took < LEAST && server.standby().is_none(), "without a second copy: {took:?}");
}

#[test]
fn a_commit_to_two_disks_without_a_distance_does_not_wait() {
    let root = tempfile::tempdir().unwrap();
    let Some(kept) = kept(root.path()) else { return };
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() || !baremark_sys::confine::is_root() {
        eprintln!("skipped: no disk can be mounted; it takes /dev/fuse and the superuser");
        return;
    }
    let mut server = serving(&replicated(Mechanism::Disk, None), &kept, root.path());
    let took = commit(&*server.database(), 50);
    assert!(took < LEAST, "{took:?}");
    server.stop();
}
