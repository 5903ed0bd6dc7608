//! What is wrong with a disk is found and named.

use crate::plans::{LIMIT_NS, NO_LIMIT_NS, plan};
use baremark_disks::access::Mix;
use baremark_disks::engine::{Engine, Plan, Stop, check_all, run};
use baremark_disks::target::{Cache, Place, Target};
use baremark_disks::verify::{Damage, Fault, Ledger, check, stamp};
use baremark_disks::writable::Consent;
use baremark_stats::Rng;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
const SIZE: u64 = 1 << 20;
const SEED: u64 = 0x5eed;

/// A file of stamped blocks, of which each was written a few times, and its ledger.
struct Written {
    _folder: tempfile::TempDir,
    file: File,
    target: Target,
    ledger: Mutex<Ledger>,
}

impl Written {
    fn new() -> Written {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let target = Target::open(&Place::File(path.clone()), SIZE, Cache::Buffered, Consent::NONE).unwrap();
        let mut ledger = Ledger::new(SEED, BLOCK, SIZE);
        target.fill(1, Some(&mut ledger), &AtomicBool::new(false)).unwrap();
        let ledger = Mutex::new(ledger);
        let mix = Mix { read_share: 0.3, ..plan().mix };
        let plan = Plan { mix, engine: Engine::Threads, stop: Stop::Count(2000, NO_LIMIT_NS), ..plan() };
        let outcome = run(&plan, &target, Some(&ledger), &AtomicBool::new(false)).unwrap();
        assert_eq!(outcome.faults, [], "nothing was injected");
        assert!(outcome.checked > 400, "reads during the run: {}", outcome.checked);
        assert_eq!(outcome.read_back, 256);
        Written { _folder: folder, file: OpenOptions::new().read(true).write(true).open(path).unwrap(), target, ledger }
    }

    fn block(&self, offset: u64) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        self.file.read_exact_at(&mut block, offset).unwrap();
        block
    }

    /// Writes the block at `offset` once more; `put` decides what becomes of the new data, given the old.
    fn rewrite(&self, offset: u64, put: impl FnOnce(&[u8], &[u8])) -> u32 {
        let old = self.block(offset);
        let mut ledger = self.ledger.lock().unwrap();
        let sequence = ledger.begin_write(offset).unwrap().unwrap();
        let mut new = old.clone();
        stamp(&mut new, SEED, offset, sequence);
        put(&old, &new);
        ledger.end_write(offset, sequence).unwrap();
        sequence
    }

    /// The damaged blocks; they are made whole again.
    fn faults(&self) -> Vec<Fault> {
        let faults = check_all(&self.target, &self.ledger).unwrap().faults;
        for fault in &faults {
            self.rewrite(fault.offset, |_, new| self.file.write_all_at(new, fault.offset).unwrap());
        }
        assert_eq!(check_all(&self.target, &self.ledger).unwrap().faults, []);
        faults
    }
}

#[test]
fn each_injected_damage_is_found_and_named_in_100_of_100() {
    let written = Written::new();
    let mut rng = Rng::stream(SEED, 4);
    for round in 0..100 {
        let at = |rng: &mut Rng| rng.below(SIZE / BLOCK as u64) * BLOCK as u64;
        let (offset, other) = (at(&mut rng), at(&mut rng));

        let (byte, bit) = (rng.below(BLOCK as u64) as usize, rng.below(8) as u32);
        let mut block = written.block(offset);
        block[byte] ^= 1 << bit;
        written.file.write_all_at(&block, offset).unwrap();
        assert_eq!(written.faults(), [Fault { offset, damage: Damage::BitFlip { byte, bit } }], "round {round}");

        let acknowledged = written.rewrite(offset, |_, _| ());
        let damage = Damage::Stale { found: acknowledged - 1, acknowledged };
        assert_eq!(written.faults(), [Fault { offset, damage }], "round {round}");

        let other = if other == offset { (offset + BLOCK as u64) % SIZE } else { other };
        let acknowledged = written.rewrite(offset, |_, new| written.file.write_all_at(new, other).unwrap());
        let lost = Fault { offset, damage: Damage::Stale { found: acknowledged - 1, acknowledged } };
        let strayed = Fault { offset: other, damage: Damage::Misdirected { belongs_at: offset } };
        let mut expected = [lost, strayed];
        expected.sort_by_key(|fault| fault.offset);
        assert_eq!(written.faults(), expected, "round {round}");

        // At any word, so in the middle of a sector too; either end may be the new one.
        let (cut, new_first) = (8 * (1 + rng.below(BLOCK as u64 / 8 - 2)) as usize, rng.below(2) == 0);
        let sequence = written.rewrite(offset, |old, new| {
            let (first, last) = if new_first { (new, old) } else { (old, new) };
            written.file.write_all_at(&[&first[..cut], &last[cut..]].concat(), offset).unwrap();
        });
        let (new, old) = (sequence, sequence - 1);
        let damage =
            if new_first { Damage::Torn { start: new, end: old } } else { Damage::Torn { start: old, end: new } };
        assert_eq!(written.faults(), [Fault { offset, damage }], "round {round}: cut at {cut}");
    }
}

#[test]
fn what_no_write_made_is_named_too() {
    let mut block = vec![0; BLOCK];
    assert_eq!(check(&block, SEED, 0, 1, 1), Err(Damage::Foreign));
    stamp(&mut block, SEED + 1, 0, 1);
    assert_eq!(check(&block, SEED, 0, 1, 1), Err(Damage::Foreign));
    stamp(&mut block, SEED, 0, 3);
    assert_eq!(check(&block, SEED, 0, 1, 2), Err(Damage::NeverWritten { found: 3 }));
    assert_eq!([check(&block, SEED, 0, 3, 3), check(&block, SEED, 0, 2, 3)], [Ok(3), Ok(3)], "acknowledged or not");
    block[1000..1100].fill(7);
    assert_eq!(check(&block, SEED, 0, 3, 3), Err(Damage::Corrupt { sectors: 2 }));
}

/// A fill that was killed over what a file held left a block that was named foreign, by every run after it.
#[test]
fn a_block_whose_first_write_did_not_end_may_hold_anything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![7; 2 * BLOCK]).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let (mut ledger, offset) = (Ledger::new(SEED, BLOCK, 2 * BLOCK as u64), BLOCK as u64);
    assert_eq!(ledger.begin_write(offset).unwrap(), Some(1));
    assert_eq!(ledger.check_all(&file).unwrap().faults, []);
    ledger.end_write(offset, 1).unwrap();
    assert_eq!(ledger.check_all(&file).unwrap().faults, [Fault { offset, damage: Damage::Foreign }], "acknowledged");
}

const CHILD: &str = "BAREMARK_TEST_WRITER";

#[test]
#[ignore = "a process of the next test: writes until it is killed"]
fn writes_until_it_is_killed() {
    let folder = std::env::var_os(CHILD).unwrap();
    let folder = Path::new(&folder);
    let target = Target::open(&Place::File(folder.join("data")), SIZE, Cache::Buffered, Consent::NONE).unwrap();
    let mut ledger = Ledger::create(&folder.join("ledger"), SEED, BLOCK, SIZE).unwrap();
    target.fill(1, Some(&mut ledger), &AtomicBool::new(false)).unwrap();
    let mix = Mix { read_share: 0.0, ..plan().mix };
    let engine = if Engine::probe(&target).is_ok() { Engine::IoUring } else { Engine::Threads };
    let plan = Plan { mix, engine, stop: Stop::After(u64::MAX / 2), ..plan() };
    run(&plan, &target, Some(&Mutex::new(ledger)), &AtomicBool::new(false)).unwrap();
}

/// Killed by SIGKILL when it is dropped.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn what_a_killed_writer_acknowledged_is_there_and_what_is_lost_after_it_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (data, path) = (folder.path().join("data"), folder.path().join("ledger"));
    let mut child = Writer(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "verify::writes_until_it_is_killed", "--ignored"])
            .env(CHILD, folder.path())
            .spawn()
            .unwrap(),
    );
    let deadline = Instant::now() + Duration::from_nanos(LIMIT_NS);
    // The rows are read alongside the writer, which holds the ledger locked.
    let acknowledged = || {
        let bytes = std::fs::read(&path).unwrap_or_default();
        let row = |row: &[u8]| u64::from(u32::from_le_bytes(row[4..8].try_into().unwrap()));
        bytes.get(32..).unwrap_or_default().chunks_exact(8).map(row).sum::<u64>()
    };
    while acknowledged() < 2000 {
        assert!(Instant::now() < deadline && child.0.try_wait().unwrap().is_none(), "the writer did not write");
        std::thread::yield_now();
    }
    assert!(Ledger::open(&path).is_err(), "its writer still runs");
    drop(child);
    let mut ledger = Ledger::open(&path).unwrap().expect("it is there");
    assert!(ledger.acknowledged() >= 2000);
    let file = OpenOptions::new().read(true).write(true).open(&data).unwrap();
    assert_eq!(ledger.check_all(&file).unwrap().faults, [], "kill -9 of a program loses nothing that the kernel has");
    // As if the disk had lost the last write of a block.
    let offset = 7 * BLOCK as u64;
    let mut block = vec![0; BLOCK];
    file.read_exact_at(&mut block, offset).unwrap();
    assert!(check(&block, SEED, offset, 1, u32::MAX).is_ok());
    stamp(&mut block, SEED, offset, 0);
    file.write_all_at(&block, offset).unwrap();
    let faults = ledger.check_all(&file).unwrap().faults;
    assert!(matches!(faults[..], [Fault { offset: 28_672, damage: Damage::Stale { .. } }]), "{faults:?}");
}

/// Rows wait for no disk: after a loss of power the ledger lacks the last of them, and the writes that they are of were named never issued.
#[test]
fn a_block_that_is_newer_than_the_row_of_a_ledger_that_was_left_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (data, path) = (folder.path().join("data"), folder.path().join("ledger"));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&data).unwrap();
    let mut ledger = Ledger::create(&path, SEED, BLOCK, BLOCK as u64).unwrap();
    let mut block = vec![0; BLOCK];
    let mut write = |ledger: &mut Ledger| {
        let sequence = ledger.begin_write(0).unwrap().unwrap();
        stamp(&mut block, SEED, 0, sequence);
        file.write_all_at(&block, 0).unwrap();
        ledger.end_write(0, sequence).unwrap();
    };
    write(&mut ledger);
    let rows = std::fs::read(&path).unwrap();
    write(&mut ledger);
    assert_eq!(ledger.check_all(&file).unwrap().faults, []);
    drop(ledger);
    // As the disk has them when the power comes back.
    std::fs::write(&path, rows).unwrap();
    let mut left = Ledger::open(&path).unwrap().expect("it is there");
    assert_eq!(left.check_all(&file).unwrap().faults, []);
    // A write that was lost is still found.
    stamp(&mut block, SEED, 0, 0);
    file.write_all_at(&block, 0).unwrap();
    let damage = Damage::Stale { found: 0, acknowledged: 1 };
    assert_eq!(left.check_all(&file).unwrap().faults, [Fault { offset: 0, damage }]);
}
