//! The runner's own memory inside the program's address space.
//!
//! One region, reserved before the program is loaded, holds everything: the supervisor area with the guest's page tables,
//! the pages that virtual processors share, and a block for each thread with its record, its signal stack and its stack.
//! Everything of the runner is on a list, so that a program that unmaps or protects more than it owns does not hit it,
//! and so that the guest's page tables can leave it out.
//!
//! A thread's record lies at the start of its block, and blocks lie on multiples of their size: whoever has a stack pointer
//! inside a block has the record. That is how a signal handler finds its thread without thread-local storage.

use crate::runner::sys::{self, Errno, Mapping};
use baremark_microvm::layout;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A large page, to whose multiples everything is aligned that the guest's tables leave out.
pub(crate) const LARGE: u64 = 2 << 20;
/// Log2 of [`SLOT_BYTES`].
pub(crate) const SLOT_SHIFT: u32 = 28;
/// A block of the guest's memory, which is one memory slot. KVM takes a fixed time for a slot and time for each of its pages, of which it
/// keeps records. At this size both are about equal: a program that needs little starts sooner than with larger ones, and one that needs
/// much loses nothing.
pub(crate) const SLOT_BYTES: u64 = 1 << SLOT_SHIFT;
/// A thread's block.
pub(crate) const BLOCK: u64 = 128 << 10;
/// Where in its block a thread's signal stack ends and its stack begins.
const SIGNAL_STACK: Range<u64> = 16 << 10..48 << 10;
/// Blocks of one extent.
const BLOCKS: usize = 128;
const EXTENT: u64 = BLOCKS as u64 * BLOCK;
/// The most extents: 32,768 threads.
const EXTENTS: usize = 256;
/// Room for what one virtual processor shares.
pub(crate) const SHARED_STRIDE: u64 = 16 << 10;
/// The most virtual processors, for whose task states the supervisor area has room.
pub(crate) const VCPUS: usize = layout::MAX_RANKS;
/// Ranges on the list of what belongs to the runner.
const RANGES: usize = 16 + EXTENTS;

/// The region, and the blocks of threads.
#[derive(Debug)]
pub(crate) struct Arena {
    start: AtomicU64,
    area_bytes: AtomicU64,
    extents: [Extent; EXTENTS],
    ranges: [[AtomicU64; 2]; RANGES],
    used_ranges: AtomicUsize,
    data_bytes: AtomicU64,
}

/// Blocks side by side; a bit for each says whether it is taken.
#[derive(Debug)]
struct Extent {
    start: AtomicU64,
    taken: [AtomicU32; BLOCKS / 32],
}

/// A thread's block and the bit that frees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Where it starts.
    pub(crate) start: u64,
    /// Address of the word with its bit.
    pub(crate) word: u64,
    /// The word's other bits.
    pub(crate) others: u32,
}

impl Block {
    /// The top of the thread's stack.
    pub(crate) fn stack_top(self) -> u64 {
        self.start + BLOCK
    }

    /// The thread's signal stack.
    pub(crate) fn signal_stack(self) -> Range<u64> {
        self.start + SIGNAL_STACK.start..self.start + SIGNAL_STACK.end
    }
}

/// The process's own.
pub(crate) static ARENA: Arena = Arena {
    start: AtomicU64::new(0),
    area_bytes: AtomicU64::new(0),
    extents: [const { Extent { start: AtomicU64::new(0), taken: [const { AtomicU32::new(0) }; BLOCKS / 32] } };
        EXTENTS],
    ranges: [const { [AtomicU64::new(0), AtomicU64::new(0)] }; RANGES],
    used_ranges: AtomicUsize::new(0),
    data_bytes: AtomicU64::new(0),
};

impl Arena {
    /// Reserves the region, with a supervisor area of `area_bytes` that lies in as few blocks of the guest's memory as it can.
    pub(crate) fn reserve(&self, area_bytes: u64) -> Result<(), Errno> {
        let bytes = area_bytes + VCPUS as u64 * SHARED_STRIDE + EXTENT;
        let reserved = Mapping::anonymous(libc::PROT_NONE, libc::MAP_NORESERVE);
        let whole = bytes + area_bytes + LARGE;
        // SAFETY: a new mapping where the kernel has room.
        let from = unsafe { sys::map(0, whole, reserved) }?;
        let start = placed(from, area_bytes);
        // SAFETY: both ends of the mapping made above, which nobody uses.
        unsafe {
            cut(from, start);
            cut(start + bytes, from + whole);
        }
        self.start.store(start, Ordering::Relaxed);
        self.area_bytes.store(area_bytes, Ordering::Relaxed);
        self.own(start..start + bytes);
        self.renew_area()?;
        self.count_data(area_bytes);
        self.open_extent(0, self.shared_page(VCPUS))
    }

    /// Maps fresh memory for the supervisor area, also in the child of a fork, which does not inherit it.
    pub(crate) fn renew_area(&self) -> Result<(), Errno> {
        let readable = libc::PROT_READ | libc::PROT_WRITE;
        let mapping = Mapping::anonymous(readable, libc::MAP_NORESERVE | libc::MAP_FIXED);
        let (start, bytes) = (self.area(), self.area_bytes());
        // SAFETY: the part of the region that is set aside for this.
        unsafe { sys::map(start, bytes, mapping) }?;
        sys::advise(start, bytes, libc::MADV_DONTFORK)?;
        // Page tables are walked by KVM in small pieces; where huge pages do not exist there is nothing to refuse.
        let _ = sys::advise(start, bytes, libc::MADV_NOHUGEPAGE);
        Ok(())
    }

    /// Where the supervisor area starts.
    pub(crate) fn area(&self) -> u64 {
        self.start.load(Ordering::Relaxed)
    }

    /// The supervisor area's length.
    pub(crate) fn area_bytes(&self) -> u64 {
        self.area_bytes.load(Ordering::Relaxed)
    }

    /// Where virtual processor `index` shares its page.
    pub(crate) fn shared_page(&self, index: usize) -> u64 {
        self.area() + self.area_bytes() + index as u64 * SHARED_STRIDE
    }

    /// Enters a range into the list of what belongs to the runner.
    pub(crate) fn own(&self, range: Range<u64>) {
        let at = self.used_ranges.fetch_add(1, Ordering::AcqRel);
        if let Some([start, end]) = self.ranges.get(at) {
            end.store(range.end, Ordering::Release);
            start.store(range.start, Ordering::Release);
        }
    }

    /// What belongs to the runner.
    pub(crate) fn owned(&self) -> impl Iterator<Item = Range<u64>> {
        let used = self.used_ranges.load(Ordering::Acquire).min(RANGES);
        self.ranges[..used].iter().map(|[start, end]| start.load(Ordering::Acquire)..end.load(Ordering::Acquire))
    }

    /// The first range of the runner's that overlaps `range`.
    pub(crate) fn overlap(&self, range: &Range<u64>) -> Option<Range<u64>> {
        self.owned().filter(|own| own.start < range.end && range.start < own.end).min_by_key(|own| own.start)
    }

    /// Bytes of address space that the runner takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.owned().map(|own| own.end - own.start).sum()
    }

    /// Counts bytes among the runner's that it may write and shares with nobody: what the kernel counts as data.
    pub(crate) fn count_data(&self, bytes: u64) {
        self.data_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of data that the runner takes.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes.load(Ordering::Relaxed)
    }

    /// A block for a thread. The caller holds a lock that lets no other take one; giving back needs none.
    pub(crate) fn take_block(&self) -> Result<Block, Errno> {
        for (number, extent) in self.extents.iter().enumerate() {
            if extent.start.load(Ordering::Acquire) == 0 {
                let mapping = Mapping::anonymous(libc::PROT_NONE, libc::MAP_NORESERVE);
                // SAFETY: a new mapping where the kernel has room.
                let from = unsafe { sys::map(0, EXTENT + BLOCK, mapping) }?;
                let start = from.next_multiple_of(BLOCK);
                // SAFETY: both ends of the mapping made above, which nobody uses.
                unsafe {
                    cut(from, start);
                    cut(start + EXTENT, from + EXTENT + BLOCK);
                }
                self.own(start..start + EXTENT);
                self.open_extent(number, start)?;
            }
            if let Some(block) = extent.take() {
                return Ok(block);
            }
        }
        Err(Errno(libc::EAGAIN))
    }

    /// The start of every block that is taken.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u64> {
        let extents = self.extents.iter().take_while(|extent| extent.start.load(Ordering::Acquire) != 0);
        extents.flat_map(Extent::taken)
    }

    /// Gives back every block but `kept`: in the child of a fork the other threads do not exist.
    pub(crate) fn keep_only(&self, kept: Block) {
        for extent in &self.extents {
            for word in &extent.taken {
                let own = word.as_ptr() as u64 == kept.word;
                word.store(if own { !kept.others } else { 0 }, Ordering::Release);
            }
        }
    }

    fn open_extent(&self, number: usize, start: u64) -> Result<(), Errno> {
        // SAFETY: memory that was reserved for this extent, and that nobody uses yet.
        unsafe { sys::protect(start, EXTENT, libc::PROT_READ | libc::PROT_WRITE) }?;
        self.count_data(EXTENT);
        self.extents[number].start.store(start, Ordering::Release);
        Ok(())
    }
}

impl Extent {
    fn take(&self) -> Option<Block> {
        for (group, word) in self.taken.iter().enumerate() {
            let bit = word.load(Ordering::Acquire).trailing_ones();
            if bit == 32 {
                continue;
            }
            word.fetch_or(1 << bit, Ordering::AcqRel);
            let start = self.start.load(Ordering::Acquire) + (group as u64 * 32 + u64::from(bit)) * BLOCK;
            return Some(Block { start, word: word.as_ptr() as u64, others: !(1 << bit) });
        }
        None
    }

    fn taken(&self) -> impl Iterator<Item = u64> {
        let start = self.start.load(Ordering::Acquire);
        let bits = self.taken.iter().map(|word| word.load(Ordering::Acquire));
        let taken = bits.enumerate().flat_map(|(group, bits)| {
            (0..32u64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| group as u64 * 32 + bit)
        });
        taken.map(move |number| start + number * BLOCK)
    }
}

/// The first place from `from` on where an area of so many bytes starts on a large page and lies in one block, or begins one where it is
/// larger than a block.
fn placed(from: u64, area_bytes: u64) -> u64 {
    let start = from.next_multiple_of(LARGE);
    let last = start + area_bytes - 1;
    if start >> SLOT_SHIFT == last >> SLOT_SHIFT { start } else { last & !(SLOT_BYTES - 1) }
}

/// Unmaps from `start` to `end`.
///
/// # Safety
/// As [`sys::unmap`].
unsafe fn cut(start: u64, end: u64) {
    if end > start {
        // SAFETY: the caller's promise.
        unsafe { sys::unmap(start, end - start) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_lies_in_as_few_blocks_of_guest_memory_as_it_can() {
        let bytes = 32 << 20;
        assert_eq!(placed(0x7f00_0000_1000, bytes), 0x7f00_0020_0000);
        assert_eq!(placed(0x7f00_3f00_0000, bytes), 0x7f00_4000_0000);
        assert_eq!(placed(0x7f00_3e00_0000, bytes), 0x7f00_3e00_0000, "it just fits");
        assert_eq!(placed(0x7f00_3000_1000, 2 * SLOT_BYTES), 0x7f00_5000_0000, "two whole blocks");
    }

    #[test]
    fn blocks_are_taken_once_given_back_and_found_by_their_bits() {
        let extent = Extent { start: AtomicU64::new(1 << 30), taken: [const { AtomicU32::new(0) }; BLOCKS / 32] };
        let blocks: Vec<Block> = std::iter::from_fn(|| extent.take()).collect();
        assert_eq!(blocks.len(), BLOCKS);
        assert!(blocks.iter().zip(extent.taken()).all(|(block, start)| block.start == start));
        let freed = blocks[40];
        extent.taken[1].fetch_and(freed.others, Ordering::AcqRel);
        assert_eq!(extent.taken().count(), BLOCKS - 1);
        assert_eq!(extent.take(), Some(freed));
    }
}
