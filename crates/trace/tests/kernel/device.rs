//! A loop device of our own, and what is done with it.

use baremark_trace::disk::{Direction, DiskTrace, Ios, Key, Snapshot};
use baremark_trace::diskstats::{self, Device};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub const BLOCK: usize = 4096;

/// Tracing, or nothing where this machine cannot, which is printed.
pub fn tracing() -> Option<DiskTrace> {
    DiskTrace::start().inspect_err(|why| println!("skipped: {why}")).ok()
}

/// A loop device over a file. Open as it is, it is marked for its end, which comes when it is closed, also by a kill.
pub struct Loop {
    pub device: File,
    pub number: (u32, u32),
}

impl Loop {
    pub fn new(folder: &Path) -> Option<Loop> {
        let image = folder.join("image");
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&image).output().ok()?;
        if !made.status.success() {
            println!("skipped: no loop device can be made here");
            return None;
        }
        let path = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        let device = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
        assert!(Command::new("losetup").args(["--detach", &path]).status().unwrap().success());
        let number = device.metadata().unwrap().rdev();
        Some(Loop { device, number: (libc::major(number), libc::minor(number)) })
    }

    /// The kernel's counters once nothing is under way.
    pub fn counters(&self) -> Device {
        let in_flight = format!("/sys/dev/block/{}:{}/inflight", self.number.0, self.number.1);
        let deadline = Instant::now() + Duration::from_secs(60);
        while fs::read_to_string(&in_flight).unwrap().split_whitespace().any(|count| count != "0") {
            assert!(Instant::now() < deadline, "I/Os do not end");
            std::thread::yield_now();
        }
        diskstats::read().unwrap().remove(&self.number).unwrap()
    }
}

/// A buffer that may be used with `O_DIRECT`: `bytes` from the offset.
pub fn aligned(bytes: usize) -> (Vec<u8>, usize) {
    let buffer = vec![0x5a; bytes + BLOCK];
    let offset = buffer.as_ptr().align_offset(BLOCK);
    (buffer, offset)
}

/// The I/Os of a device in one direction.
pub fn of(ios: &BTreeMap<Key, Ios>, device: (u32, u32), direction: Direction) -> Ios {
    let mut all = Ios::default();
    ios.iter()
        .filter(|(key, _)| key.device == device && key.direction == direction)
        .for_each(|(_, ios)| all.merge(ios));
    all
}

/// The kernel's counters before and after, and what was traced between.
pub struct Exercised {
    pub from: Device,
    pub to: Device,
    pub seen: Snapshot,
}

/// I/Os of every kind: direct and through the cache, of many sizes, in order and not.
pub fn exercise(device: &Loop, trace: &DiskTrace) -> Exercised {
    let (from, begun) = (device.counters(), trace.snapshot().unwrap());
    let (mut buffer, offset) = aligned(2 * BLOCK);
    for number in 0..100_u64 {
        device.device.write_all_at(&buffer[offset..][..BLOCK], number * 7 % 100 * BLOCK as u64).unwrap();
    }
    device.device.sync_all().unwrap();
    for number in 0..57_u64 {
        device.device.read_exact_at(&mut buffer[offset..][..2 * BLOCK], number * 2 * BLOCK as u64).unwrap();
    }
    // Many sizes and merges, as the kernel makes them of its cache.
    let path = format!("/dev/block/{}:{}", device.number.0, device.number.1);
    let path = if Path::new(&path).exists() { path } else { format!("/dev/loop{}", device.number.1) };
    let cached = OpenOptions::new().read(true).write(true).open(path).unwrap();
    cached.write_all_at(&vec![7; 5 << 20], 8 << 20).unwrap();
    for number in 0..200_u64 {
        cached.write_all_at(&[9; 512], (20 << 20) + number * 12_345).unwrap();
    }
    cached.sync_all().unwrap();
    cached.read_exact_at(&mut vec![0; 3 << 20], 40 << 20).unwrap();
    Exercised { from, to: device.counters(), seen: trace.snapshot().unwrap().since(&begun) }
}
