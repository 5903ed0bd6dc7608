//! The memory of one process: what of it has changed since the last checkpoint, and its bytes.
//!
//! Writable mappings are tracked. Pages of read-only ones that are a process's own, such as relocated tables, are copied when the mapping is
//! first seen. Pages of files that a process maps for itself and has not changed are not copied, nor is memory of devices and of the kernel.

use crate::copied::Copied;
use crate::encoding::{digest, put, put_at};
use crate::secondary::UNCHANGED;
use baremark_sys::dirty_pages::{self, Pages, Range, Tracker};
use baremark_sys::tracee;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// A mapping, as `/proc/PID/maps` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    writable: bool,
    shared: bool,
}

impl Mapping {
    /// From a line; `None` for what is not memory of the process: the kernel's own pages, and files that it only reads.
    fn of(line: &str) -> Option<Mapping> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let rights = fields.next()?.as_bytes();
        let kernels = ["[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]"];
        let number = |text| u64::from_str_radix(text, 16).ok();
        let [_, write, _, share] = *rights else { return None };
        let mapping =
            Mapping { start: number(start)?, end: number(end)?, writable: write == b'w', shared: share == b's' };
        let is_device = line.contains(" /dev/") && !line.contains(" /dev/shm/") && !line.contains(" /dev/zero");
        // What a virtual processor shares with its process, among others: the kernel writes there without any page table.
        let is_kernels = kernels.iter().any(|name| line.ends_with(name)) || line.contains(" anon_inode:");
        let left_out = is_kernels || is_device;
        (!left_out && (mapping.writable || !mapping.shared)).then_some(mapping)
    }

    /// Whether a page here belongs to the copy: a process's own, or one that processes share.
    fn keeps(&self, range: &Range) -> bool {
        self.shared || !range.is_of_file()
    }
}

/// What a checkpoint has of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Pages.
    pub pages: u64,
    /// Those that no earlier checkpoint had.
    pub new: u64,
    /// Pages that the copy has with this checkpoint.
    pub held: u64,
    /// Those that could not be read; the copy has zeros of them.
    pub unreadable: u64,
    /// Of all pages that the process holds, where they were to be compared: the sum of their digests.
    pub digest: u64,
}

/// A process whose memory is tracked.
#[derive(Debug)]
pub struct Memory {
    id: u64,
    process: i32,
    pagemap: File,
    bytes: File,
    tracker: Tracker,
    text: String,
    mappings: Vec<Mapping>,
    copied: Copied,
    /// Ranges that belong to the runner and not to the program.
    left_out: Vec<(u64, u64)>,
    /// Whether the next checkpoint has all pages.
    whole: bool,
    /// For ranges, so that none is allocated while the process stands.
    found: Vec<Range>,
    wanted: Vec<(u64, u64)>,
}

impl Memory {
    /// Begins to track a process of which `thread` stands; `syscall` is where the vDSO has a SYSCALL instruction.
    ///
    /// # Errors
    /// What the kernel gives: userfaultfd or `PAGEMAP_SCAN` may be missing or forbidden.
    pub fn track(id: u64, process: i32, thread: i32, syscall: u64) -> io::Result<Memory> {
        let text = fs::read_to_string(format!("/proc/{process}/maps"))?;
        let missing = || io::Error::new(io::ErrorKind::Unsupported, "a process without vDSO is not of 64 bits");
        let (vdso, _) = text.lines().find_map(tracee::vdso_of).ok_or_else(missing)?;
        Memory::of(id, process, Tracker::open(process, thread, vdso + syscall)?)
    }

    /// Begins to track a process that has opened a userfaultfd for this itself. Its number is 0.
    ///
    /// # Errors
    /// What the kernel gives.
    pub fn with_faults(process: i32, faults: OwnedFd) -> io::Result<Memory> {
        Memory::of(0, process, Tracker::of(faults)?)
    }

    fn of(id: u64, process: i32, tracker: Tracker) -> io::Result<Memory> {
        Ok(Memory {
            id,
            process,
            pagemap: File::open(format!("/proc/{process}/pagemap"))?,
            bytes: File::open(format!("/proc/{process}/mem"))?,
            tracker,
            text: String::new(),
            mappings: Vec::new(),
            copied: Copied::default(),
            left_out: Vec::new(),
            whole: false,
            found: Vec::new(),
            wanted: Vec::new(),
        })
    }

    /// Leaves out what lies in these ranges.
    pub fn leave_out(&mut self, ranges: Vec<(u64, u64)>) {
        self.left_out = ranges;
    }

    /// Has the next checkpoint contain everything, for a secondary that has nothing yet.
    pub fn start_over(&mut self) {
        self.whole = true;
        self.text.clear();
        self.mappings.clear();
    }

    /// `/proc/PID/maps` at the last checkpoint.
    #[must_use]
    pub fn maps(&self) -> &str {
        &self.text
    }

    /// The ranges that hold something and belong to the copy. The process must stand, after a checkpoint.
    ///
    /// # Errors
    /// What `PAGEMAP_SCAN` gives, and for a process that is gone by now, whose memory was perhaps gone before.
    pub fn present(&mut self) -> io::Result<Vec<(u64, u64)>> {
        dirty_pages::pages(&self.pagemap, Pages::Present, &mut self.found)?;
        let mut present = Vec::new();
        choose(&self.found, &self.mappings, |_| true, &mut present);
        let (first, _) = present.first().ok_or(io::ErrorKind::NotFound)?;
        self.bytes.read_exact_at(&mut [0], *first)?;
        Ok(present)
    }

    /// Adds what has changed to a checkpoint, and with `compare` the ranges of all pages, whose digests are summed up. The process must
    /// stand.
    ///
    /// # Errors
    /// What reading its maps and pages gives.
    pub fn collect(&mut self, message: &mut Vec<u8>, compare: bool) -> io::Result<Collected> {
        put(message, self.id);
        let mappings = self.look_at_mappings(message)?;
        // New memory may be where other memory was, so that each range is asked for again.
        self.protect();
        dirty_pages::pages(&self.pagemap, Pages::Written, &mut self.found)?;
        if std::mem::take(&mut self.whole) {
            dirty_pages::pages(&self.pagemap, Pages::Present, &mut self.found)?;
        }
        self.wanted.clear();
        choose(&self.found, &self.mappings, |mapping| mapping.writable, &mut self.wanted);
        if !mappings.is_empty() {
            dirty_pages::pages(&self.pagemap, Pages::Present, &mut self.found)?;
            choose(&self.found, &mappings, |mapping| !mapping.writable, &mut self.wanted);
            self.wanted.sort_unstable();
        }
        let new = self.copied.add(&self.wanted);
        let (pages, unreadable) = self.add_pages(message);
        let digest = self.add_comparison(message, compare)?;
        Ok(Collected { pages, new, held: self.copied.pages(), unreadable, digest })
    }

    /// Adds what is mapped, where that has changed, and gives the mappings that are new.
    fn look_at_mappings(&mut self, message: &mut Vec<u8>) -> io::Result<Vec<Mapping>> {
        let text = fs::read_to_string(format!("/proc/{}/maps", self.process))?;
        if text == self.text {
            put(message, UNCHANGED);
            return Ok(Vec::new());
        }
        let left_out = &self.left_out;
        let parts = |mapping: Mapping| {
            let parts = without(left_out, mapping.start, mapping.end);
            parts.into_iter().map(move |(start, end)| Mapping { start, end, ..mapping })
        };
        let mappings: Vec<Mapping> = text.lines().filter_map(Mapping::of).flat_map(parts).collect();
        put(message, mappings.len() as u64);
        mappings.iter().flat_map(|mapping| [mapping.start, mapping.end]).for_each(|number| put(message, number));
        let new = mappings.iter().filter(|mapping| !self.mappings.contains(mapping)).copied().collect();
        self.copied.keep(&mappings.iter().map(|mapping| (mapping.start, mapping.end)).collect::<Vec<_>>());
        (self.text, self.mappings) = (text, mappings);
        Ok(new)
    }

    fn protect(&self) {
        for mapping in self.mappings.iter().filter(|mapping| mapping.writable) {
            // What cannot be protected is not found as written either; a comparison shows it.
            drop(self.tracker.add(mapping.start, mapping.end));
        }
    }

    /// Adds the ranges and bytes of `wanted`; how many pages these are, and how many of them could not be read.
    fn add_pages(&self, message: &mut Vec<u8>) -> (u64, u64) {
        put(message, self.wanted.len() as u64);
        self.wanted.iter().flat_map(|(start, end)| [*start, *end]).for_each(|number| put(message, number));
        let (mut pages, mut unreadable) = (0, 0);
        for &(start, end) in &self.wanted {
            let at = message.len();
            let length = usize::try_from(end - start).unwrap_or(usize::MAX);
            message.resize(at + length, 0);
            pages += (end - start) / dirty_pages::PAGE;
            if self.bytes.read_exact_at(&mut message[at..], start).is_err() {
                unreadable += self.read_singly(&mut message[at..], start);
            }
        }
        (pages, unreadable)
    }

    /// Reads page by page; how many of them could not be read.
    fn read_singly(&self, into: &mut [u8], start: u64) -> u64 {
        let mut unreadable = 0;
        for (address, page) in (start..).step_by(4096).zip(into.chunks_exact_mut(4096)) {
            if self.bytes.read_exact_at(page, address).is_err() {
                page.fill(0);
                unreadable += 1;
            }
        }
        unreadable
    }

    fn add_comparison(&mut self, message: &mut Vec<u8>, compare: bool) -> io::Result<u64> {
        let count_at = message.len();
        put(message, 0);
        if !compare {
            return Ok(0);
        }
        dirty_pages::pages(&self.pagemap, Pages::Present, &mut self.found)?;
        self.wanted.clear();
        choose(&self.found, &self.mappings, |_| true, &mut self.wanted);
        put_at(message, count_at, self.wanted.len() as u64);
        let (mut sum, mut page) = (0_u64, [0; 4096]);
        for &(start, end) in &self.wanted {
            put(message, start);
            put(message, end);
            for address in (start..end).step_by(4096) {
                if self.bytes.read_exact_at(&mut page, address).is_ok() {
                    sum = sum.wrapping_add(digest(address, &page));
                }
            }
        }
        Ok(sum)
    }
}

/// The parts of a range that are in none of these ranges.
pub(crate) fn without(ranges: &[(u64, u64)], start: u64, end: u64) -> Vec<(u64, u64)> {
    let mut parts = vec![(start, end)];
    for &(from, to) in ranges {
        let cut = |(start, end): (u64, u64)| {
            [(start, end.min(from)), (start.max(to), end)].into_iter().filter(|(start, end)| start < end)
        };
        if from < end && start < to {
            parts = parts.into_iter().flat_map(cut).collect();
        }
    }
    parts
}

/// The parts of `found` that are in mappings of this kind and belong to the copy. Both lists are in order.
fn choose(found: &[Range], mappings: &[Mapping], kind: impl Fn(&Mapping) -> bool, chosen: &mut Vec<(u64, u64)>) {
    let mut mappings = mappings.iter().peekable();
    for range in found {
        while mappings.next_if(|mapping| mapping.end <= range.start).is_some() {}
        let mut rest = mappings.clone();
        while let Some(mapping) = rest.next_if(|mapping| mapping.start < range.end) {
            if kind(mapping) && mapping.keeps(range) {
                chosen.push((range.start.max(mapping.start), range.end.min(mapping.end)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_without_others_is_what_lies_around_them() {
        assert_eq!(without(&[], 1, 9), [(1, 9)]);
        assert_eq!(without(&[(3, 5), (7, 20)], 1, 9), [(1, 3), (5, 7)]);
        assert_eq!(without(&[(0, 4), (10, 12)], 1, 9), [(4, 9)]);
        assert_eq!(without(&[(0, 9)], 1, 9), []);
    }

    #[test]
    fn mappings_are_read_as_the_kernel_writes_them() {
        let of = |line: &str| Mapping::of(line).map(|mapping| (mapping.start, mapping.writable, mapping.shared));
        assert_eq!(of("00400000-00401000 r-xp 00000000 fe:00 12 /usr/bin/x"), Some((0x40_0000, false, false)));
        assert_eq!(of("7ff000-800000 rw-p 00000000 00:00 0 [stack]"), Some((0x7f_f000, true, false)));
        assert_eq!(of("7ff000-800000 rw-s 00000000 00:01 9 /dev/shm/x"), Some((0x7f_f000, true, true)));
        let left_out = [
            "7ff000-800000 r--s 00000000 fe:00 9 /usr/lib/locale/C",
            "7ff000-800000 rw-s 00000000 00:06 9 /dev/kvm",
            "7ff000-803000 rw-s 00000000 00:0e 1061                       anon_inode:kvm-vcpu:0",
            "7ffc8a3f1000-7ffc8a3f5000 r--p 00000000 00:00 0                          [vvar]",
            "7ffc8a3f5000-7ffc8a3f7000 r-xp 00000000 00:00 0                          [vdso]",
            "nonsense",
        ];
        left_out.into_iter().for_each(|line| assert_eq!(of(line), None, "{line}"));
    }
}
