//! The guest's page tables, in the supervisor area.
//!
//! Entries are only ever added, never changed: a processor may not cache what was not present, so no guest needs to be
//! told; and a change of a *present* entry from outside the guest would go unnoticed by shadow paging. A new table is
//! filled before the entry that makes it reachable is stored. Every user leaf is present, writable, executable, accessed
//! and dirty: protection is the host's business, through its own tables.

use crate::layout;
use crate::mapping::Mapping;
use crate::pool::Pool;
use baremark_model::arm::GuestTables;
use baremark_model::page_size::PageSize;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const ACCESSED_DIRTY: u64 = 0x60;
const LARGE: u64 = 1 << 7;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
/// What ring 3 may use; tables carry it too, and leaves decide.
const RING3: u64 = PRESENT | WRITABLE | USER | ACCESSED_DIRTY;
/// What only ring 0 may use.
const RING0: u64 = PRESENT | WRITABLE | ACCESSED_DIRTY;

const ENTRIES: usize = 512;
const TABLE_BYTES: u64 = 4096;
/// Pages set aside for the root and the tables between root and leaves.
const UPPER: u32 = 4096;
#[expect(clippy::cast_possible_truncation, reason = "the area has fewer than 2^32 pages")]
const LEAVES: u32 = ((layout::AREA - layout::TABLES) / TABLE_BYTES) as u32 - UPPER;

/// Shifts of the four levels' indices, root first.
const SHIFTS: [u32; 4] = [39, 30, 21, 12];

/// All pages for tables are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// Who may use a page of the supervisor area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    /// The stubs and what the processor reads by itself.
    Zero,
    /// Also the code that is measured.
    Three,
}

/// The page tables of one guest.
#[derive(Debug)]
pub(crate) struct Tables {
    area: Mapping,
    page: PageSize,
    upper: u32,
    leaves: Pool,
}

impl Tables {
    /// An empty root in `area`, which is all zero from [`layout::TABLES`] on.
    pub(crate) fn new(area: Mapping, page: PageSize, order: GuestTables, seed: u64) -> io::Result<Self> {
        Ok(Tables { area, page, upper: 1, leaves: Pool::new(LEAVES, order, seed)? })
    }

    /// Guest-physical address of the root.
    pub(crate) const fn root() -> u64 {
        layout::BASE + layout::TABLES
    }

    /// The supervisor area itself.
    pub(crate) fn area(&self) -> &Mapping {
        &self.area
    }

    /// Bytes that one leaf table covers: 2 MiB of small pages, or 1 GiB of large ones.
    pub(crate) fn reach(&self) -> u64 {
        match self.page {
            PageSize::Small => 2 << 20,
            PageSize::Large => layout::BLOCK,
        }
    }

    /// Makes sure that the leaf table over `va` is there, with all its leaves; `physical` is where `va` lies.
    pub(crate) fn fill(&mut self, va: u64, physical: u64) -> Result<(), Exhausted> {
        let (levels, step, size_bit) = match self.page {
            PageSize::Small => (3, 4096, 0),
            PageSize::Large => (2, 2 << 20, LARGE),
        };
        let slot = self.descend(va, levels - 1)?;
        if self.entry(slot).load(Ordering::Acquire) & PRESENT != 0 {
            return Ok(());
        }
        let table = self.take_leaf()?;
        let first = physical & !(self.reach() - 1);
        for (number, entry) in (0u64..).zip(self.table(table)) {
            entry.store((first + number * step) | size_bit | RING3, Ordering::Relaxed);
        }
        self.entry(slot).store(table | RING3, Ordering::Release);
        Ok(())
    }

    /// Maps the page at `offset` of the supervisor area where it lies.
    pub(crate) fn map_own(&mut self, offset: u64, ring: Ring) -> Result<(), Exhausted> {
        let slot = self.descend(self.area.address() as u64 + offset, 3)?;
        let access = match ring {
            Ring::Zero => RING0,
            Ring::Three => RING3,
        };
        self.entry(slot).store((layout::BASE + offset) | access, Ordering::Release);
        Ok(())
    }

    /// Guest-physical address of the entry for `va` that is `levels` tables below the root, making the tables.
    fn descend(&mut self, va: u64, levels: usize) -> Result<u64, Exhausted> {
        let mut table = Tables::root();
        for shift in &SHIFTS[..levels] {
            let slot = slot_of(table, va, *shift);
            if self.entry(slot).load(Ordering::Acquire) & PRESENT == 0 {
                let below = self.take_upper()?;
                self.entry(slot).store(below | RING3, Ordering::Release);
            }
            table = self.entry(slot).load(Ordering::Acquire) & ADDRESS;
        }
        Ok(slot_of(table, va, SHIFTS[levels]))
    }

    fn take_upper(&mut self) -> Result<u64, Exhausted> {
        if self.upper == UPPER {
            return Err(Exhausted);
        }
        self.upper += 1;
        Ok(Tables::root() + u64::from(self.upper - 1) * TABLE_BYTES)
    }

    fn take_leaf(&mut self) -> Result<u64, Exhausted> {
        let number = self.leaves.take().ok_or(Exhausted)?;
        Ok(Tables::root() + u64::from(UPPER + number) * TABLE_BYTES)
    }

    fn table(&self, physical: u64) -> &[AtomicU64; ENTRIES] {
        let first: *const AtomicU64 = self.entry(physical);
        // SAFETY: `physical` comes from `take_leaf`, so the whole page lies inside the area (LEAVES is computed so).
        unsafe { &*first.cast() }
    }

    fn entry(&self, physical: u64) -> &AtomicU64 {
        #[expect(clippy::cast_possible_truncation, reason = "x86-64 only: usize is 64 bits wide")]
        let offset = (physical - layout::BASE) as usize;
        assert!(offset < self.area.bytes(), "tables lie inside the area");
        // SAFETY: inside the area by the line above, aligned because entries are 8 bytes apart from a page on, zero or
        // written by us; the guest's processor reads it at the same time, which is what an atomic allows.
        unsafe { &*self.area.pointer().as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// The leaf that translates `va`: guest-physical address and page size. For tests and for checking what was built.
    #[cfg(test)]
    fn translate(&self, va: u64) -> Option<(u64, u64)> {
        let mut table = Tables::root();
        for (shift, size) in [(39u32, 0u64), (30, 1 << 30), (21, 2 << 20), (12, 4096)] {
            let entry = self.entry(slot_of(table, va, shift)).load(Ordering::Acquire);
            if entry & PRESENT == 0 {
                return None;
            }
            table = entry & ADDRESS;
            if shift == 12 || entry & LARGE != 0 {
                return Some(((table & !(size - 1)) | (va & (size - 1)), size));
            }
        }
        None
    }
}

fn slot_of(table: u64, va: u64, shift: u32) -> u64 {
    table + (va >> shift & 511) * 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(page: PageSize, order: GuestTables) -> Tables {
        let area = Mapping::aligned(usize::try_from(layout::AREA).expect("64 bits"), 1 << 30).expect("address space");
        Tables::new(area, page, order, 1).expect("memory")
    }

    #[test]
    fn small_leaves_come_by_2_mib_and_large_ones_by_1_gib() {
        let (va, physical) = (0x7000_1234_5678, 0x2_1234_5678);
        for order in [GuestTables::Contiguous, GuestTables::Scattered] {
            let mut small = tables(PageSize::Small, order);
            small.fill(va, physical).expect("room");
            assert_eq!(small.translate(va), Some((physical, 4096)));
            assert_eq!(small.translate(va ^ (2 << 20)), None, "the neighbour's table is not there");
            let mut large = tables(PageSize::Large, order);
            large.fill(va, physical).expect("room");
            assert_eq!(large.translate(va), Some((physical, 2 << 20)));
            assert_eq!(large.translate(va & !(layout::BLOCK - 1)), Some((physical & !(layout::BLOCK - 1), 2 << 20)));
        }
    }

    #[test]
    fn the_supervisor_area_is_mapped_where_it_lies() {
        let mut tables = tables(PageSize::Large, GuestTables::Contiguous);
        tables.map_own(layout::IDT, Ring::Zero).expect("room");
        let va = tables.area().address() as u64;
        assert_eq!(tables.translate(va + layout::IDT + 8), Some((layout::BASE + layout::IDT + 8, 4096)));
        assert_eq!(tables.translate(va + layout::TABLES), None, "tables are not in the guest's own reach");
    }

    #[test]
    fn filling_twice_changes_nothing() {
        let mut tables = tables(PageSize::Small, GuestTables::Scattered);
        tables.fill(0x1000, 0x1_0000_1000).expect("room");
        tables.fill(0x2000, 0x9_0000_2000).expect("room");
        assert_eq!(tables.translate(0x2000), Some((0x1_0000_2000, 4096)), "the first filling covers it already");
    }
}
