//! Verification of a buffered target sees the disk and not the page cache above it.

use baremark_disks::engine::check_all;
use baremark_disks::target::{Cache, Place, Target};
use baremark_disks::verify::{Damage, Fault, Ledger, stamp};
use baremark_disks::writable::Consent;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

const BLOCK: usize = 4096;
const SIZE: u64 = 1 << 20;
const SEED: u64 = 0x5eed;

#[test]
fn a_write_that_the_disk_lost_is_found_below_the_page_cache() {
    let folder = tempfile::tempdir().unwrap();
    let [stored, at] = ["stored", "at"].map(|name| folder.path().join(name));
    for path in [&stored, &at] {
        fs::create_dir(path).unwrap();
    }
    let mounted = baremark_sys::mounts::own_mounts().and_then(|()| baremark_volatile_disk::mount(&stored, &at));
    let _disk = match mounted {
        Ok(disk) => disk,
        Err(why) => return println!("skipped: no disk can be mounted ({why}); it takes /dev/fuse and the superuser"),
    };
    let target = Target::open(&Place::File(at.join("data")), SIZE, Cache::Buffered, Consent::NONE).unwrap();
    let mut ledger = Ledger::new(SEED, BLOCK, SIZE);
    target.fill(1, Some(&mut ledger), &AtomicBool::new(false)).unwrap();

    let below = File::options().read(true).write(true).open(stored.join("data")).unwrap();
    let offset = 5 * BLOCK as u64;
    let mut old = vec![0; BLOCK];
    below.read_exact_at(&mut old, offset).unwrap();
    let mut new = vec![0; BLOCK];
    let sequence = ledger.begin_write(offset).unwrap().unwrap();
    stamp(&mut new, SEED, offset, sequence);
    let file = target.handle(true).unwrap();
    file.write_all_at(&new, offset).unwrap();
    ledger.end_write(offset, sequence).unwrap();
    // The disk acknowledged the write, and has the old block.
    below.write_all_at(&old, offset).unwrap();
    let mut seen = vec![0; BLOCK];
    file.read_exact_at(&mut seen, offset).unwrap();
    assert_eq!(seen, new, "the page cache has what was written");

    let back = check_all(&target, &Mutex::new(ledger)).unwrap();
    let damage = Damage::Stale { found: sequence - 1, acknowledged: sequence };
    assert_eq!((back.faults, back.cached_bytes), (vec![Fault { offset, damage }], 0));
}
