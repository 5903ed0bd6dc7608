//! The guest's memory: blocks of this process's address space, and page tables that map them where they lie.
//!
//! Guest-virtual is host-virtual. Address space is cut into blocks of 256 MiB; the block that is needed as the *i*-th becomes
//! memory slot *i*, at guest-physical `BASE + i` blocks. Large leaves are filled for a whole block at once, small ones by
//! 2 MiB as they are needed. Every leaf is present, writable and executable: rights are the business of the host's own
//! memory map, which KVM follows, so that `mprotect`, `munmap` and copy-on-write need nothing here. Entries are only ever
//! added; one that is present never changes, which shadow paging might not notice.
//!
//! What belongs to the runner is left out where it is known when a table is filled: a stray pointer of the program finds
//! nothing there, as natively. This guards against accidents, not against a program that means harm.

use crate::runner::arena::{ARENA, LARGE, SLOT_BYTES, SLOT_SHIFT};
use crate::runner::kvm::{self, Failed};
use baremark_microvm::layout::{self, BASE, USER_END};
use baremark_model::page_size::PageSize;
use kvm_bindings::kvm_userspace_memory_region;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Blocks in the lower half of a 47-bit address space.
const BLOCKS: usize = 1 << (47 - SLOT_SHIFT);

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const ACCESSED_DIRTY: u64 = 0x60;
const LARGE_LEAF: u64 = 1 << 7;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
/// What ring 3 may use; tables carry it too, and leaves decide.
const RING3: u64 = PRESENT | WRITABLE | USER | ACCESSED_DIRTY;
/// What only ring 0 may use.
const RING0: u64 = PRESENT | WRITABLE | ACCESSED_DIRTY;
const PAGE: u64 = 4096;
const ENTRIES: u64 = 512;
/// Memory slots that KVM has on x86, less what it keeps.
const MOST_SLOTS: u32 = 32_000;

/// Slot plus one by block; 0 is none. Written under the lock of the machine, read without.
static SLOT_OF_BLOCK: [AtomicU32; BLOCKS] = [const { AtomicU32::new(0) }; BLOCKS];
/// Block by slot, for those in use: most pages of the other list are never touched.
static BLOCK_OF_SLOT: [AtomicU32; MOST_SLOTS as usize] = [const { AtomicU32::new(0) }; MOST_SLOTS as usize];

/// Why an address cannot be given to the guest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// No page left for the guest's tables.
    TablesFull,
    /// The guest's physical address space, or KVM's slots, are used up.
    PhysicalFull,
    /// KVM refused a memory slot.
    Kvm(Failed),
}

/// What became of a request for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// There is an entry now that was not there.
    Added,
    /// There was one already, or there must be none.
    Nothing,
}

/// Bytes of a supervisor area for leaves of this size: tables for 7.8 TiB, which is all slots, in large pages or for 250 GiB in small ones.
pub(crate) const fn area_bytes(page: PageSize) -> u64 {
    match page {
        PageSize::Large => 48 << 20,
        PageSize::Small => 512 << 20,
    }
}

/// The memory of one guest.
#[derive(Debug)]
pub(crate) struct Space {
    page: PageSize,
    vm: i32,
    used: u32,
    most: u32,
    next_table: u64,
}

impl Space {
    /// No memory of no machine.
    pub(crate) const fn new() -> Self {
        Space { page: PageSize::Large, vm: -1, used: 0, most: 0, next_table: 0 }
    }

    /// Begins anew for machine `vm`, over a supervisor area of zeros, whose blocks become the first slots.
    pub(crate) fn begin(&mut self, vm: i32, page: PageSize, physical_bits: u32) -> Result<(), Refusal> {
        for block in &BLOCK_OF_SLOT[..self.used as usize] {
            SLOT_OF_BLOCK[block.load(Ordering::Relaxed) as usize].store(0, Ordering::Relaxed);
        }
        *self = Space { page, vm, used: 0, most: most_slots(physical_bits), next_table: layout::TABLES + PAGE };
        let last = ARENA.area() + ARENA.area_bytes() - 1;
        (ARENA.area() >> SLOT_SHIFT..=last >> SLOT_SHIFT).try_for_each(|block| self.slot(block).map(drop))
    }

    /// Guest-physical address of the root table.
    pub(crate) fn root() -> u64 {
        physical_of_table(layout::TABLES)
    }

    /// Maps the page at `offset` of the supervisor area, for ring 0 alone or for ring 3 too.
    pub(crate) fn map_own(&mut self, offset: u64, for_program: bool) -> Result<(), Refusal> {
        let entry = self.descend(ARENA.area() + offset, 12)?;
        let access = if for_program { RING3 } else { RING0 };
        entry.store(physical_of_table(offset) | access, Ordering::Release);
        Ok(())
    }

    /// Gives the guest every page of `range` that it can have.
    pub(crate) fn cover(&mut self, range: &Range<u64>) -> Result<Filled, Refusal> {
        let reach = self.reach();
        let mut at = range.start & !(reach - 1);
        let mut filled = Filled::Nothing;
        while at < range.end.min(USER_END) {
            if self.fill(at.max(range.start))? == Filled::Added {
                filled = Filled::Added;
            }
            at += reach;
        }
        Ok(filled)
    }

    /// Bytes that become reachable at once.
    pub(crate) fn reach(&self) -> u64 {
        match self.page {
            PageSize::Large => SLOT_BYTES,
            PageSize::Small => LARGE,
        }
    }

    /// Makes the entries around `address`, and its block's memory slot.
    fn fill(&mut self, address: u64) -> Result<Filled, Refusal> {
        let slot = self.slot(address >> SLOT_SHIFT)?;
        let physical = |at: u64| BASE + (u64::from(slot) << SLOT_SHIFT) + (at & (SLOT_BYTES - 1));
        let start = address & !(self.reach() - 1);
        let mut filled = Filled::Nothing;
        for at in (start..start + self.reach()).step_by(LARGE as usize) {
            let whole = at..at + LARGE;
            let entry = self.descend(at, 21)?;
            if entry.load(Ordering::Acquire) & PRESENT != 0 || ARENA.owned().any(|own| contains(&own, &whole)) {
                continue;
            }
            let leaf = if self.page == PageSize::Large && ARENA.overlap(&whole).is_none() {
                physical(at) | LARGE_LEAF | RING3
            } else {
                self.small_leaves(at, physical(at))? | RING3
            };
            entry.store(leaf, Ordering::Release);
            filled = Filled::Added;
        }
        Ok(filled)
    }

    /// A table of small leaves from `at` on, without what belongs to the runner; gives its physical address.
    fn small_leaves(&mut self, at: u64, physical: u64) -> Result<u64, Refusal> {
        let table = self.take_table()?;
        for number in 0..ENTRIES {
            let page = at + number * PAGE..at + (number + 1) * PAGE;
            if ARENA.overlap(&page).is_none() {
                entry(table, number).store((physical + number * PAGE) | RING3, Ordering::Relaxed);
            }
        }
        Ok(physical_of_table(table))
    }

    /// The slot of `block`, made if it is new.
    fn slot(&mut self, block: u64) -> Result<u32, Refusal> {
        let known = usize::try_from(block).ok().and_then(|block| SLOT_OF_BLOCK.get(block));
        let known = known.ok_or(Refusal::PhysicalFull)?;
        if let Some(slot) = known.load(Ordering::Acquire).checked_sub(1) {
            return Ok(slot);
        }
        if self.used == self.most {
            return Err(Refusal::PhysicalFull);
        }
        let slot = self.used;
        let region = kvm_userspace_memory_region {
            slot,
            flags: 0,
            guest_phys_addr: BASE + (u64::from(slot) << SLOT_SHIFT),
            memory_size: slot_bytes(block),
            userspace_addr: block << SLOT_SHIFT,
        };
        kvm::add_memory(self.vm, region).map_err(Refusal::Kvm)?;
        self.used += 1;
        BLOCK_OF_SLOT[slot as usize].store(u32::try_from(block).unwrap_or(0), Ordering::Relaxed);
        known.store(slot + 1, Ordering::Release);
        Ok(slot)
    }

    /// The entry for `address` in the table whose entries reach `1 << bits` bytes, with the tables above it.
    fn descend(&mut self, address: u64, bits: u32) -> Result<&'static AtomicU64, Refusal> {
        let mut table = layout::TABLES;
        let mut shift = 39;
        loop {
            let slot = entry(table, address >> shift & (ENTRIES - 1));
            if shift == bits {
                return Ok(slot);
            }
            if slot.load(Ordering::Acquire) & PRESENT == 0 {
                let below = self.take_table()?;
                slot.store(physical_of_table(below) | RING3, Ordering::Release);
            }
            table = offset_of_table(slot.load(Ordering::Acquire) & ADDRESS);
            shift -= 9;
        }
    }

    /// Offset of `count` pages side by side in the supervisor area, of zeros, for another use than tables.
    pub(crate) fn take_pages(&mut self, count: u64) -> Result<u64, Refusal> {
        let first = self.take_table()?;
        (1..count).try_for_each(|_| self.take_table().map(drop))?;
        Ok(first)
    }

    fn take_table(&mut self) -> Result<u64, Refusal> {
        if self.next_table + PAGE > ARENA.area_bytes() {
            return Err(Refusal::TablesFull);
        }
        self.next_table += PAGE;
        Ok(self.next_table - PAGE)
    }
}

/// Whether the guest has the block of `address`.
pub(crate) fn has_block(address: u64) -> bool {
    let block = usize::try_from(address >> SLOT_SHIFT).ok().and_then(|block| SLOT_OF_BLOCK.get(block));
    block.is_some_and(|slot| slot.load(Ordering::Acquire) != 0)
}

/// Tables lie in the first slots, side by side from their block's offset on.
fn physical_of_table(offset: u64) -> u64 {
    BASE + (ARENA.area() & (SLOT_BYTES - 1)) + offset
}

fn offset_of_table(physical: u64) -> u64 {
    physical - physical_of_table(0)
}

/// Entry `number` of the table at `offset` of the supervisor area.
fn entry(offset: u64, number: u64) -> &'static AtomicU64 {
    assert!(offset + PAGE <= ARENA.area_bytes() && number < ENTRIES, "tables lie inside the area");
    let address = ARENA.area() + offset + number * 8;
    // SAFETY: inside the supervisor area by the line above, which stays mapped as long as this process lives, aligned, and
    // zero or written by us; the guest's processor reads it at the same time, which is what an atomic allows.
    unsafe { &*ptr::with_exposed_provenance::<AtomicU64>(address as usize) }
}

fn contains(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// A slot's bytes: the last block must not reach the end of the address space.
fn slot_bytes(block: u64) -> u64 {
    (USER_END - (block << SLOT_SHIFT)).min(SLOT_BYTES)
}

/// How many blocks fit above the base with so many physical address bits.
fn most_slots(bits: u32) -> u32 {
    let blocks = ((1u64 << bits.clamp(33, 47)) - BASE) >> SLOT_SHIFT;
    u32::try_from(blocks).map_or(MOST_SLOTS, |blocks| blocks.min(MOST_SLOTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_processors_have_fewer_blocks() {
        assert_eq!(most_slots(36), 240);
        assert_eq!(most_slots(39), 2032);
        assert_eq!(most_slots(48), MOST_SLOTS);
    }

    #[test]
    fn the_last_slot_ends_where_address_space_does() {
        assert_eq!(slot_bytes(0), SLOT_BYTES);
        assert_eq!(slot_bytes(BLOCKS as u64 - 1), SLOT_BYTES - PAGE);
    }

    #[test]
    fn a_range_contains_itself_and_no_more() {
        assert!(contains(&(0..10), &(0..10)) && !contains(&(0..10), &(5..11)));
    }
}
