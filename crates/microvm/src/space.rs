//! The guest's memory: which blocks of this process it has, and how a page fault gets one more.
//!
//! A block becomes a memslot when it is first needed, and gets its leaf tables then: all 512 large leaves at once, or
//! small ones by 2 MiB (filling a whole block with small leaves at once would double the time to the first instruction).
//! What the executor knows beforehand it *populates* from outside, which takes no exit; what it does not know the guest
//! asks for by a page fault. Faults are served in the exit handler: no allocation, no lock but our own.

use crate::error::{Error, failed};
use crate::latch::Latch;
use crate::layout::{self, BLOCK, BLOCK_SHIFT, BLOCKS};
use crate::mapping::{Mapping, PAGE};
use crate::maps;
use crate::tables::{Exhausted, Ring, Tables};
use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VmFd;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Why an address cannot be given to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The process has nothing there, or it is ours to keep.
    Unmapped,
    /// No page left for the guest's tables.
    TablesFull,
    /// The guest's physical address space is used up.
    PhysicalFull,
    /// KVM refused another memslot, with this error number.
    Slot(i32),
}

/// The memory of one machine.
#[derive(Debug)]
pub(crate) struct Space {
    vm: Arc<VmFd>,
    area: Range<u64>,
    building: Latch<Building>,
    index: Index,
}

#[derive(Debug)]
struct Building {
    tables: Tables,
    used: u32,
    most: u32,
}

impl Space {
    /// An empty space for `vm` whose physical addresses have `physical_bits`; slot 0 is `tables`' area.
    pub(crate) fn new(vm: Arc<VmFd>, tables: Tables, physical_bits: u32) -> Result<Self, Error> {
        let start = tables.area().address() as u64;
        let slot = kvm_userspace_memory_region {
            slot: 0,
            flags: 0,
            guest_phys_addr: layout::BASE,
            memory_size: layout::AREA,
            userspace_addr: start,
        };
        // SAFETY: the area is a mapping of that size that `tables` keeps as long as the VM has the slot.
        unsafe { vm.set_user_memory_region(slot) }.map_err(failed("KVM_SET_USER_MEMORY_REGION"))?;
        let most = physical_blocks(physical_bits);
        let index = Index::new().map_err(|source| Error::Memory { what: "index of blocks", source })?;
        let building = Latch::new(Building { tables, used: 0, most });
        Ok(Space { vm, area: start..start + BLOCK, building, index })
    }

    /// Where the supervisor area starts, in this process as in the guest.
    pub(crate) fn area(&self) -> u64 {
        self.area.start
    }

    /// Maps one page of the supervisor area for the guest.
    pub(crate) fn map_own(&self, offset: u64, ring: Ring) -> Result<(), Refusal> {
        self.building.with(|building| building.tables.map_own(offset, ring)).map_err(Refusal::from)
    }

    /// Gives the guest `bytes` from `va` on, without asking whether they are mapped.
    pub(crate) fn populate(&self, va: u64, bytes: u64) -> Result<(), Refusal> {
        let end = va.checked_add(bytes).filter(|end| *end <= layout::USER_END).ok_or(Refusal::Unmapped)?;
        let mut at = va;
        while at < end {
            let reach = self.fill(at)?;
            at = (at & !(reach - 1)) + reach;
        }
        Ok(())
    }

    /// Serves the guest's fault on `va`, where no table entry is present yet.
    pub(crate) fn resolve(&self, va: u64) -> Result<(), Refusal> {
        if va >= layout::USER_END || !maps::covers(va) {
            return Err(Refusal::Unmapped);
        }
        self.fill(va).map(drop)
    }

    /// The virtual address that the guest has at `physical`.
    pub(crate) fn virtual_of(&self, physical: u64) -> Option<u64> {
        let slot = physical.checked_sub(layout::BASE)? >> BLOCK_SHIFT;
        let block = self.index.block_of(usize::try_from(slot).ok()?)?;
        Some((u64::from(block) << BLOCK_SHIFT) + (physical & (BLOCK - 1)))
    }

    /// Makes the leaf table over `va`, and its block's memslot if need be; gives how far a leaf table reaches.
    fn fill(&self, va: u64) -> Result<u64, Refusal> {
        if self.area.contains(&va) {
            return Err(Refusal::Unmapped);
        }
        self.building.with(|building| {
            let slot = self.slot(building, va >> BLOCK_SHIFT)?;
            let physical = layout::BASE + (u64::from(slot) << BLOCK_SHIFT) + (va & (BLOCK - 1));
            building.tables.fill(va, physical)?;
            Ok(building.tables.reach())
        })
    }

    /// The memslot of `block`, made if it is new.
    fn slot(&self, building: &mut Building, block: u64) -> Result<u32, Refusal> {
        let at = usize::try_from(block).ok().filter(|at| *at < BLOCKS).ok_or(Refusal::Unmapped)?;
        if let Some(slot) = self.index.slot_of(at) {
            return Ok(slot);
        }
        if building.used == building.most {
            return Err(Refusal::PhysicalFull);
        }
        let slot = building.used + 1;
        let region = kvm_userspace_memory_region {
            slot,
            flags: 0,
            guest_phys_addr: layout::BASE + (u64::from(slot) << BLOCK_SHIFT),
            memory_size: layout::slot_bytes(block),
            userspace_addr: block << BLOCK_SHIFT,
        };
        // SAFETY: the slot is this process's own memory, which stays this process's own whatever is mapped there later;
        // what the guest does to it is done by code of this process. Physical ranges do not overlap: slots are numbered.
        unsafe { self.vm.set_user_memory_region(region) }.map_err(|error| Refusal::Slot(error.errno()))?;
        building.used = slot;
        self.index.enter(at, slot);
        Ok(slot)
    }
}

impl From<Exhausted> for Refusal {
    fn from(_: Exhausted) -> Self {
        Refusal::TablesFull
    }
}

impl Refusal {
    /// In words, with the remedy.
    pub(crate) fn explain(self) -> String {
        match self {
            Refusal::Unmapped => "the process has no memory there: map and touch buffers before the run".into(),
            Refusal::TablesFull => "no page left for guest page tables: use pages of 2 MiB or less memory".into(),
            Refusal::PhysicalFull => "the guest's physical address space is used up: use less memory".into(),
            Refusal::Slot(errno) => {
                format!("KVM refused a memslot ({}): use less memory", io::Error::from_raw_os_error(errno))
            }
        }
    }
}

/// How many blocks fit above the base with so many address bits.
fn physical_blocks(bits: u32) -> u32 {
    let end = 1u64 << bits.clamp(33, 47);
    u32::try_from((end - layout::BASE - BLOCK) >> BLOCK_SHIFT).unwrap_or(u32::MAX)
}

/// Block to slot and back. Written under the latch, read without.
#[derive(Debug)]
struct Index {
    words: Mapping,
}

impl Index {
    fn new() -> io::Result<Self> {
        Ok(Index { words: Mapping::aligned(2 * BLOCKS * size_of::<AtomicU32>(), PAGE)? })
    }

    /// Word `at`: slots by block first, then blocks by slot. Zero is "none"; blocks are stored plus one.
    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at < 2 * BLOCKS, "the index has two words per block");
        // SAFETY: inside the mapping by the line above, aligned, zero or written by us, only ever used as an atomic.
        unsafe { &*self.words.pointer().as_ptr().cast::<AtomicU32>().add(at) }
    }

    fn enter(&self, block: usize, slot: u32) {
        self.word(block).store(slot, Ordering::Release);
        let plus_one = u32::try_from(block + 1).unwrap_or(0);
        self.word(BLOCKS + slot as usize).store(plus_one, Ordering::Release);
    }

    fn slot_of(&self, block: usize) -> Option<u32> {
        Some(self.word(block).load(Ordering::Acquire)).filter(|slot| *slot != 0)
    }

    fn block_of(&self, slot: usize) -> Option<u32> {
        if slot >= BLOCKS {
            return None;
        }
        self.word(BLOCKS + slot).load(Ordering::Acquire).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_finds_both_ways_and_knows_what_it_lacks() {
        let index = Index::new().expect("memory");
        index.enter(0, 3);
        index.enter(0x1ffff, 1);
        assert_eq!((index.slot_of(0), index.slot_of(1), index.slot_of(0x1ffff)), (Some(3), None, Some(1)));
        assert_eq!((index.block_of(3), index.block_of(2), index.block_of(BLOCKS)), (Some(0), None, None));
    }

    #[test]
    fn narrow_processors_have_fewer_blocks() {
        assert_eq!(physical_blocks(36), 64 - 4 - 1);
        assert_eq!(physical_blocks(39), 512 - 4 - 1);
        assert_eq!(physical_blocks(52), (1 << 17) - 4 - 1);
    }
}
