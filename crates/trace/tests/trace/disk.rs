//! I/Os of a loop device of our own, compared with the kernel's counters of the same device.

use baremark_sys::bpf::loaded_programs;
use baremark_trace::disk::{Direction, DiskTrace, Ios, Key};
use baremark_trace::diskstats::{self, Device};
use baremark_trace::histogram;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;

/// Tracing, or nothing where this machine cannot, which is printed.
fn tracing() -> Option<DiskTrace> {
    DiskTrace::start().inspect_err(|why| println!("skipped: {why}")).ok()
}

/// A loop device over a file. Open as it is, it is marked for its end, which comes when it is closed, also by a kill.
struct Loop {
    device: File,
    number: (u32, u32),
}

impl Loop {
    fn new(folder: &Path) -> Option<Loop> {
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
    fn counters(&self) -> Device {
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
fn aligned(bytes: usize) -> (Vec<u8>, usize) {
    let buffer = vec![0x5a; bytes + BLOCK];
    let offset = buffer.as_ptr().align_offset(BLOCK);
    (buffer, offset)
}

fn of(ios: &BTreeMap<Key, Ios>, device: (u32, u32), direction: Direction) -> Ios {
    let mut all = Ios::default();
    ios.iter()
        .filter(|(key, _)| key.device == device && key.direction == direction)
        .for_each(|(_, ios)| all.merge(ios));
    all
}

#[test]
fn counts_and_bytes_are_the_kernels_to_the_last_io() {
    let folder = tempfile::tempdir().unwrap();
    let Some(device) = Loop::new(folder.path()) else { return };
    let Some(trace) = tracing() else { return };
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
    let (to, seen) = (device.counters(), trace.snapshot().unwrap().since(&begun));
    for direction in [Direction::Read, Direction::Write] {
        let (ours, before, after) = (of(&seen.ios, device.number, direction), from.of(direction), to.of(direction));
        assert_eq!(ours.count, after.ios - before.ios, "{direction:?}");
        assert_eq!(ours.bytes, after.bytes - before.bytes, "{direction:?}");
        assert_eq!(ours.total.total(), ours.count, "every I/O has a latency");
        // The kernel rounds each sum to milliseconds.
        let (own, kernel) = (ours.total_ns / 1_000_000, (after.total_ns - before.total_ns) / 1_000_000);
        assert!(
            own <= kernel + kernel / 4 + 2 && kernel <= own + own / 4 + ours.count / 100 + 2,
            "{own} and {kernel} ms"
        );
    }
    let key = Key { device: device.number, process: std::process::id(), direction: Direction::Read };
    let reads = &seen.ios[&key];
    let count = |histogram: &histogram::Histogram, value: u64| {
        let lower = histogram::lower(histogram::bin(value));
        histogram.bins().iter().find(|bin| bin.from == lower).map_or(0, |bin| bin.count)
    };
    assert!(count(&reads.size, 2 * BLOCK as u64) >= 57, "{:?}", reads.size.bins());
    assert!(count(&reads.seek_last, 0) >= 56, "they are one after the other: {:?}", reads.seek_last.bins());
    assert!(count(&reads.outstanding, 0) >= 57, "one at a time: {:?}", reads.outstanding.bins());
    let writes = &seen.ios[&Key { direction: Direction::Write, ..key }];
    assert!(count(&writes.size, BLOCK as u64) >= 100, "{:?}", writes.size.bins());
    assert!(writes.seek_last.percentile(0.5).unwrap() > 0, "every seventh: {:?}", writes.seek_last.bins());
    assert_eq!(writes.queue.total(), writes.device.total());
    let comm = fs::read_to_string("/proc/self/comm").unwrap();
    assert_eq!(seen.owners[&std::process::id()].comm, comm.trim());
    assert_eq!(seen.not_kept, 0);
}

#[test]
fn two_streams_are_near_to_their_own_ends_and_far_from_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let Some(device) = Loop::new(folder.path()) else { return };
    let Some(trace) = tracing() else { return };
    let (mut buffer, offset) = aligned(BLOCK);
    for number in 0..50_u64 {
        for stream in [0, 32 << 20] {
            device.device.read_exact_at(&mut buffer[offset..][..BLOCK], stream + number * BLOCK as u64).unwrap();
        }
    }
    device.counters();
    let reads = of(&trace.snapshot().unwrap().ios, device.number, Direction::Read);
    assert_eq!((reads.count, reads.seek_last.total()), (100, 99), "the first has no last");
    assert!(reads.seek_last.percentile(0.01).unwrap() > 60_000, "{:?}", reads.seek_last.bins());
    assert_eq!(reads.seek_near.percentile(0.98), Some(0), "{:?}", reads.seek_near.bins());
}

/// What the next test kills.
#[test]
#[ignore = "holds programs until it is killed; another test starts it"]
fn hold() {
    if std::env::var_os("BAREMARK_HOLD").is_none() {
        return;
    }
    let trace = DiskTrace::start();
    println!("{}", trace.as_ref().map_or_else(|why| format!("not available: {why}"), |_| "holding".to_owned()));
    drop(std::io::stdin().read(&mut [0]));
}

/// The programs that a process's descriptors hold.
fn programs_of(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap().flatten();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let number = |text: String| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
    texts.filter_map(number).collect()
}

#[test]
fn a_kill_leaves_no_program() {
    let own = std::env::current_exe().unwrap();
    let mut held = Command::new(own)
        .args(["--ignored", "--exact", "disk::hold", "--nocapture"])
        .env("BAREMARK_HOLD", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(held.stdout.take().unwrap()).lines().map(Result::unwrap);
    let state = lines.find(|line| line.contains("holding") || line.contains("not available")).unwrap();
    let programs = programs_of(held.id());
    let there = loaded_programs();
    held.kill().unwrap();
    held.wait().unwrap();
    if state.contains("not available") {
        return println!("skipped: BPF is not available");
    }
    assert!(
        programs.len() >= 4 && programs.iter().all(|number| there.as_ref().unwrap().contains(number)),
        "{programs:?}"
    );
    let deadline = Instant::now() + Duration::from_secs(60);
    while loaded_programs().unwrap().iter().any(|number| programs.contains(number)) {
        assert!(Instant::now() < deadline, "{programs:?} are still there");
        std::thread::yield_now();
    }
}

#[test]
fn a_user_without_rights_learns_what_is_missing() {
    let Ok(output) = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "disk::hold", "--nocapture"])
        .env("BAREMARK_HOLD", "1")
        .stdin(Stdio::null())
        .output()
    else {
        return println!("skipped: setpriv is not installed");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    if !text.contains("running 1 test") {
        return println!("skipped: setpriv cannot start it: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(text.contains("not available: loading BPF programs is not permitted; run as root"), "{text}");
}
