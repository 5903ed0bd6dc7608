//! A disk that becomes full: a small file system in memory, which takes the superuser.

use crate::http::{User, until};
use crate::process::Site;
use std::process::Command;
use tempfile::TempDir;

/// A tmpfs that ends with its owner.
struct Small(TempDir);

impl Small {
    fn mount(size: &str) -> Option<Small> {
        let folder = TempDir::new().unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", size, "auction-test"]).arg(folder.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Small(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_refuses_bids_and_loses_none() {
    let Some(disk) = Small::mount("size=16m") else { return println!("skipped: no right to mount a tmpfs") };
    let folder = TempDir::new().unwrap();
    let site = Site::load(&format!("sqlite:{}/site.db", disk.0.path().display()), folder.path(), 30);
    let server = site.serve("1h");
    let at = server.address.as_str();
    let users = [User::log_in(at, 1, &site.password), User::log_in(at, 2, &site.password)];
    users.iter().for_each(|user| assert_eq!(user.join(at, 1).status, 200));
    let filler = disk.0.path().join("filler");
    let _ = std::fs::write(&filler, vec![1; 64 << 20]);
    let mut accepted = 0;
    let mut turn = 0;
    let refusal = until("a refusal", || {
        turn += 1;
        let (item, least) = users[turn % 2].current(at, 1);
        let answer = users[turn % 2].bid(at, 1, item, least).unwrap();
        accepted += usize::from(answer.status == 201);
        (answer.status == 503).then_some(answer)
    });
    assert_eq!(refusal.code(), "unavailable");
    std::fs::remove_file(&filler).unwrap();
    until("a bid once there is room", || {
        turn += 1;
        let (item, least) = users[turn % 2].current(at, 1);
        let stored = users[turn % 2].bid(at, 1, item, least).unwrap().status == 201;
        accepted += usize::from(stored);
        stored.then_some(())
    });
    let stored: usize = users.iter().map(|user| user.live_bids(at, 2).len()).sum();
    assert_eq!(stored, accepted);
    site.holds(&[&server]);
}
