//! I/Os of a loop device of our own, compared with the kernel's counters of the same device.

use crate::device::{BLOCK, Exercised, Loop, aligned, exercise, of, tracing};
use baremark_sys::bpf::loaded_programs;
use baremark_trace::disk::{Direction, DiskTrace, Key};
use baremark_trace::histogram;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn counts_and_bytes_are_the_kernels_to_the_last_io() {
    let folder = tempfile::tempdir().unwrap();
    let Some(device) = Loop::new(folder.path()) else { return };
    let Some(trace) = tracing() else { return };
    let Exercised { from, to, seen } = exercise(&device, &trace);
    for direction in [Direction::Read, Direction::Write] {
        let (ours, before, after) = (of(&seen.ios, device.number, direction), from.of(direction), to.of(direction));
        assert_eq!(ours.count, after.ios - before.ios, "{direction:?}");
        assert_eq!(ours.bytes, after.bytes - before.bytes, "{direction:?}");
        assert_eq!(ours.total.total(), ours.count, "every I/O has a latency");
    }
    // By its name: in a PID namespace this process has another number than in the kernel's first one, which programs of the kernel see.
    let comm = fs::read_to_string("/proc/self/comm").unwrap();
    let own = |direction: Direction| {
        let is_own = |key: &Key| {
            let named = seen.owners.get(&key.process).is_some_and(|owner| owner.comm == comm.trim());
            named && key.device == device.number && key.direction == direction
        };
        let found = seen.ios.iter().find(|(key, _)| is_own(key));
        found.unwrap_or_else(|| panic!("nothing of {comm} among {:?}", seen.owners)).1
    };
    let reads = own(Direction::Read);
    let count = |histogram: &histogram::Histogram, value: u64| {
        let lower = histogram::lower(histogram::bin(value));
        histogram.bins().iter().find(|bin| bin.from == lower).map_or(0, |bin| bin.count)
    };
    assert!(count(&reads.size, 2 * BLOCK as u64) >= 57, "{:?}", reads.size.bins());
    assert!(count(&reads.seek_last, 0) >= 56, "they are one after the other: {:?}", reads.seek_last.bins());
    assert!(count(&reads.outstanding, 0) >= 57, "one at a time: {:?}", reads.outstanding.bins());
    let writes = own(Direction::Write);
    assert!(count(&writes.size, BLOCK as u64) >= 100, "{:?}", writes.size.bins());
    assert!(writes.seek_last.percentile(0.5).unwrap() > 0, "every seventh: {:?}", writes.seek_last.bins());
    assert_eq!(writes.queue.total(), writes.device.total());
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
