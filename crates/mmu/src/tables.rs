//! Where the entries of page tables lie, by arithmetic: no table is ever built, so memory stays bounded.
//!
//! *Contiguous* tables lie one after another in the order of the addresses they map, as a hypervisor or a fresh system lays
//! them out; *scattered* ones lie each on a page of its own somewhere in `span` bytes, as after a while of use. It decides
//! which cache sets the entries fill and, for a guest's tables, how many entries of the second table they need.

use crate::page::region_bits;
use crate::random::mix;

/// How pages of a kind lie in the space below them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// One after another in the order of what they map.
    Contiguous,
    /// Each somewhere in so many bytes.
    Scattered {
        /// The bytes.
        span: u64,
    },
    /// In the order in which processes side by side first touched them, tables among the pages that they map: what a Linux
    /// does that takes both from the same free lists (before 2.6.24, which began to group pages by mobility).
    Touched {
        /// Processes that touch at the same pace.
        sharers: u32,
        /// Bytes over which pieces of memory lie in no order; 0 where all of it lies in order.
        span: u64,
        /// Bits of such a piece: whole blocks of Linux's buddy allocator, 22 or more.
        piece: u32,
    },
}

/// Small pages that a CPU takes from the free lists at once (Linux's per-CPU lists: batches of 31 for large memory).
const BATCH: u64 = 31;

/// One tree of tables.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    placement: Placement,
    /// Told apart in cache lines from data and from the other tree.
    region: u32,
    salt: u64,
}

/// The number of a cache line in the simulated physical memory: two bits of region, thirty of line.
pub(crate) type Line = u32;

const LINE_BITS: u32 = 30;
/// Where contiguous guest tables lie in guest-physical memory: beyond the data.
const GUEST_TABLES: u64 = 1 << 44;

impl Tables {
    /// `region` is 1 for the walked table, 2 for the second one.
    pub(crate) fn new(placement: Placement, region: u32) -> Self {
        Tables { placement, region, salt: u64::from(region) << 56 }
    }

    /// The line of the entry of `level` that maps `address`.
    #[inline]
    pub(crate) fn line(&self, level: usize, address: u64) -> Line {
        let line = address >> (region_bits(level) + 3);
        let within = match self.placement {
            Placement::Contiguous => fold(line, 27) | ((level as u32) << 27),
            _ => self.line_elsewhere(level, address),
        };
        (self.region << LINE_BITS) | within
    }

    #[inline(never)]
    fn line_elsewhere(&self, level: usize, address: u64) -> Line {
        let line = address >> (region_bits(level) + 3);
        if let Placement::Scattered { .. } = self.placement {
            let page = mix(self.salt ^ ((level as u64) << 50) ^ (line >> 6));
            return (((page as u32) << 6) & ((1 << LINE_BITS) - 1)) | (line as u32 & 63);
        }
        fold((self.frame(level, address) >> 6) | (line & 63), 27) | ((level as u32) << 27)
    }

    /// The address, in the space that the tables lie in, of the table of `level` that maps `address`.
    #[inline]
    pub(crate) fn frame(&self, level: usize, address: u64) -> u64 {
        let table = address >> (region_bits(level) + 9);
        match self.placement {
            // The few upper tables share one large page; the page tables follow in order.
            Placement::Contiguous if level == 1 => GUEST_TABLES + (1 << 21) + (table << 12),
            Placement::Contiguous => GUEST_TABLES + ((((level as u64) << 6) | (table & 63)) << 12),
            Placement::Scattered { span } => scatter(table ^ mix(level as u64), 12, span),
            // Made when the first page that it maps is touched; tables of tables lie next to the first one.
            Placement::Touched { .. } => {
                place(self.placement, table << (region_bits(level) + 9), 12) ^ ((level as u64) << 12)
            }
        }
    }
}

/// Where the page of `bits` that holds `address` lies, and the address in it.
#[inline]
pub(crate) fn place(placement: Placement, address: u64, bits: u32) -> u64 {
    let address = address & ((1 << 44) - 1);
    match placement {
        Placement::Contiguous => address,
        Placement::Scattered { span } => scatter(address >> bits, bits, span) | (address & ((1 << bits) - 1)),
        Placement::Touched { sharers, span, piece } => touched(address, bits, sharers, span, piece),
    }
}

#[inline(never)]
fn touched(address: u64, bits: u32, sharers: u32, span: u64, piece: u32) -> u64 {
    let page = address >> bits;
    // Every 512 small pages need a table; it is taken just before the first of them.
    let page = if bits == 12 { page + (page >> 9) + 1 } else { page };
    let taken = if bits == 12 { taken::<BATCH>(page, sharers) } else { taken::<1>(page, sharers) } << bits;
    let ordered = if span == 0 { taken } else { scatter(taken >> piece, piece, span) | (taken & ((1 << piece) - 1)) };
    ordered | (address & ((1 << bits) - 1))
}

/// The place of a process's page among those that `sharers` take in batches, in turn but not in step.
#[inline]
fn taken<const PAGES: u64>(page: u64, sharers: u32) -> u64 {
    let (turn, sharers) = (page / PAGES, u64::from(sharers));
    // Without a division where it need not be one: this runs for every reference.
    let own = if sharers.is_power_of_two() { mix(turn) & (sharers - 1) } else { mix(turn) % sharers };
    (turn * sharers + own) * PAGES + page % PAGES
}

/// Where a page lies among those of the span: no two pages of a program that fits into it share a place.
#[inline(never)]
fn scatter(page: u64, bits: u32, span: u64) -> u64 {
    let places = (span >> bits).max(1);
    let mask = places.next_power_of_two() - 1;
    // Each step permutes the numbers below a power of two; until it falls below `places` the permutation is applied again.
    let half = ((mask + 1).trailing_zeros() / 2).max(1);
    let mut place = if page < places { page } else { page % places };
    loop {
        place = place.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
        place ^= place >> half;
        place = place.wrapping_mul(0xbf58_476d_1ce4_e5b9) & mask;
        place ^= place >> half;
        if place < places {
            return place << bits;
        }
    }
}

/// The line of a byte of data at a physical address.
#[inline]
pub(crate) fn data_line(address: u64) -> Line {
    fold(address >> 6, LINE_BITS)
}

/// A key of 31 bits; the rare numbers that need more share keys.
#[inline]
pub(crate) fn key(number: u64) -> u32 {
    fold(number, 31)
}

/// What is beyond `bits` is mixed into the rest, but for the lowest six: neighbours stay neighbours, in the same order of sets.
#[inline]
fn fold(number: u64, bits: u32) -> u32 {
    let high = (number >> bits) as u32;
    (number as u32 ^ (high.wrapping_mul(0x9e37_79b1) << 6)) & ((1 << bits) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Bits of the largest block of Linux's buddy allocator.
    const BLOCK_BITS: u32 = 22;

    #[test]
    fn scattered_pages_never_share_a_place() {
        for (bits, pages) in [(12, 2048), (21, 4), (21, 1024), (12, 1), (22, 5632), (12, 1537)] {
            let span = pages << bits;
            let places: HashSet<u64> = (0..pages).map(|page| scatter(page + 0x7f00_0000, bits, span)).collect();
            assert_eq!(places.len() as u64, pages, "{pages} pages of 2^{bits} bytes");
            assert!(
                places.iter().all(|place| *place < span && place % (1 << bits) == 0),
                "inside the span, whole pages"
            );
        }
    }

    #[test]
    fn pages_touched_side_by_side_share_blocks_with_their_tables() {
        let base = 0x7f00_0000_0000;
        for span in [0, 22 << 30] {
            let placement = Placement::Touched { sharers: 4, span, piece: BLOCK_BITS };
            let at = |page: u64| place(placement, base + (page << 12), 12);
            let places: HashSet<u64> = (0..1 << 15).map(|page| at(page) >> 12).collect();
            assert_eq!(places.len(), 1 << 15, "no two pages share a place");
            let batched = (0..1000).filter(|page| at(page + 1) - at(*page) == 1 << 12).count();
            assert!(batched > 900, "batches are in order: {batched}");
            let blocks: HashSet<u64> = (0..1 << 15).map(|page| at(page) >> BLOCK_BITS).collect();
            assert!(
                (128..=132).contains(&blocks.len()),
                "128 MiB lie in the 512 MiB that four touched: {}",
                blocks.len()
            );
            let table = Tables::new(placement, 1).frame(1, base + (700 << 12));
            assert_eq!(table >> BLOCK_BITS, at(512) >> BLOCK_BITS, "a table lies where its first page was taken");
            let colours: HashSet<u64> =
                (0..64).map(|table| Tables::new(placement, 1).frame(1, base + (table << 21)) >> 12 & 63).collect();
            assert!(colours.len() > 16, "tables do not all fall into the same cache sets: {}", colours.len());
        }
    }

    #[test]
    fn lines_of_entries_are_apart_by_level_tree_and_neighbourhood() {
        let touched = [0, 16 << 30].map(|span| Placement::Touched { sharers: 4, span, piece: 26 });
        for placement in [Placement::Contiguous, Placement::Scattered { span: 1 << 30 }, touched[0], touched[1]] {
            let (first, second) = (Tables::new(placement, 1), Tables::new(placement, 2));
            assert_eq!(first.line(1, 0), first.line(1, 7 << 12), "8 entries share a line");
            assert_ne!(first.line(1, 0), first.line(1, 8 << 12));
            assert_ne!(first.line(1, 0), first.line(2, 0));
            assert_ne!(first.line(1, 0), second.line(1, 0));
            assert_ne!(first.line(1, 0), data_line(0));
        }
    }
}
