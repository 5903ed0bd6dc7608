//! Where the frames behind our memory lie, and which of our pages have one, from `/proc/self/pagemap`.

use baremark_model::units::Bytes;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The smallest page, and the bytes of its entry in pagemap.
const PAGE: u64 = 4096;
const ENTRY: usize = 8;
/// Pages of a range that is judged: 2 MiB.
const RANGE: usize = 512;
/// Ranges that are read at once.
const AT_ONCE: usize = 64;
/// Of an entry: that the page is in memory, and its frame's number (`admin-guide/mm/pagemap`).
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// Bytes of those whole ranges of 2 MiB from `address` on, `bytes` long, whose frames lie one after the other; `None` where the kernel does not show
/// frames to this user (`CAP_SYS_ADMIN`).
///
/// # Errors
/// When pagemap cannot be read.
pub fn contiguous_bytes(address: u64, bytes: u64) -> io::Result<Option<u64>> {
    contiguous_in(&File::open("/proc/self/pagemap")?, address, bytes)
}

/// The addresses of those pages of 4 KiB of `bytes` from `address` on that are in this process's page tables: pages that it has used, and of files those that the kernel has mapped
/// around them.
///
/// # Errors
/// When pagemap cannot be read.
pub fn mapped_pages(address: u64, bytes: u64) -> io::Result<Vec<u64>> {
    mapped_in(&File::open("/proc/self/pagemap")?, address, bytes)
}

fn mapped_in(pagemap: &File, address: u64, bytes: u64) -> io::Result<Vec<u64>> {
    let first = address / PAGE;
    let count = (address + bytes).div_ceil(PAGE) - first;
    let mut read = vec![0; Bytes(count * ENTRY as u64).count()];
    pagemap.read_exact_at(&mut read, first * ENTRY as u64)?;
    let pages = read.chunks_exact(ENTRY).map(entry).zip(first..);
    Ok(pages.filter(|(entry, _)| entry & PRESENT != 0).map(|(_, page)| page * PAGE).collect())
}

fn contiguous_in(pagemap: &File, address: u64, bytes: u64) -> io::Result<Option<u64>> {
    let mut found = 0;
    let mut at = address / PAGE;
    let mut ranges = usize::try_from(bytes / PAGE).unwrap_or(usize::MAX) / RANGE;
    while ranges > 0 {
        let now = ranges.min(AT_ONCE);
        let mut read = vec![0; now * RANGE * ENTRY];
        pagemap.read_exact_at(&mut read, at * ENTRY as u64)?;
        let entries: Vec<u64> = read.chunks_exact(ENTRY).map(entry).collect();
        if entries.iter().any(|entry| entry & PRESENT != 0 && entry & FRAME == 0) {
            return Ok(None);
        }
        found += entries.chunks_exact(RANGE).filter(|range| is_contiguous(range)).count() as u64;
        at += (now * RANGE) as u64;
        ranges -= now;
    }
    Ok(Some(found * RANGE as u64 * PAGE))
}

fn entry(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |entry, &byte| entry << 8 | u64::from(byte))
}

fn is_contiguous(range: &[u64]) -> bool {
    let first = range[0] & FRAME;
    range.iter().zip(first..).all(|(entry, frame)| entry & PRESENT != 0 && entry & FRAME == frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn pagemap(entries: &[u64]) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        entries.iter().for_each(|entry| file.write_all(&entry.to_le_bytes()).expect("written"));
        file
    }

    fn run(first: u64) -> Vec<u64> {
        (first..first + RANGE as u64).map(|frame| PRESENT | frame).collect()
    }

    #[test]
    fn ranges_whose_frames_follow_one_another_are_counted() {
        let mut broken = run(9_000);
        broken.swap(3, 4);
        let absent: Vec<u64> = run(20_000).into_iter().map(|entry| entry & !PRESENT).collect();
        let file = pagemap(&[run(512), broken, absent, run(40_001)].concat());
        assert_eq!(contiguous_in(&file, 0, 8 << 20).expect("read"), Some(4 << 20));
        assert_eq!(contiguous_in(&file, 2 << 20, 4 << 20).expect("read"), Some(0));
        assert_eq!(contiguous_in(&file, 0, 1 << 20).expect("read"), Some(0), "no whole range");
    }

    #[test]
    fn hidden_frames_are_not_taken_for_one_place() {
        let file = pagemap(&vec![PRESENT; RANGE]);
        assert_eq!(contiguous_in(&file, 0, 2 << 20).expect("read"), None);
        assert!(contiguous_in(&file, 2 << 20, 2 << 20).is_err(), "the file ends");
    }

    #[test]
    fn pages_that_are_mapped_are_named_by_their_addresses() {
        let file = pagemap(&[PRESENT | 7, 7, PRESENT, 0, PRESENT | 9]);
        assert_eq!(mapped_in(&file, 0, 5 * PAGE).expect("read"), [0, 2 * PAGE, 4 * PAGE]);
        assert_eq!(mapped_in(&file, 2 * PAGE + 1, PAGE).expect("read"), [2 * PAGE], "parts of two pages");
        assert!(mapped_in(&file, PAGE, PAGE).expect("read").is_empty());
        assert!(mapped_in(&file, 4 * PAGE, 2 * PAGE).is_err(), "the file ends");
    }

    #[test]
    fn more_ranges_than_are_read_at_once() {
        let entries: Vec<u64> = (0..AT_ONCE as u64 + 3).flat_map(|range| run(1 + 1024 * range)).collect();
        let bytes = (entries.len() as u64) * PAGE;
        assert_eq!(contiguous_in(&pagemap(&entries), 0, bytes).expect("read"), Some(bytes));
    }
}
