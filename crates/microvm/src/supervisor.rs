//! What ring 0 of the guest consists of: descriptor tables, task states, and stubs of a few instructions.
//!
//! There is no kernel in the guest. An exception's stub tells us its number by an `out`, drops the error code and
//! returns; SYSCALL's stub does the same. Ring 3 may execute `out` to 64 ports because its task state's permission
//! bitmap says so, not by a raised I/O privilege level. The SYSCALL stub lies on a page that ring 3 can reach, because
//! PVM (shadow paging without hardware help) enters it at ring 3; on a processor's own virtualization it runs in ring 0,
//! which is why the guest must have SMEP and SMAP off.

use crate::exception;
use crate::layout;
use crate::mapping::Mapping;
use std::ptr::NonNull;

/// Bytes between two exception stubs.
const STUB_BYTES: u64 = 16;
/// Offset of the permission bitmap in a task state; 64 ports and a terminator follow.
const BITMAP: u16 = 104;
/// A task state's limit, terminator included.
pub const TSS_LIMIT: u16 = BITMAP + 8;

/// `out imm8, al`.
const OUT: u8 = 0xe6;
/// `add rsp, 8`.
const DROP_ERROR_CODE: [u8; 4] = [0x48, 0x83, 0xc4, 0x08];
const IRETQ: [u8; 2] = [0x48, 0xcf];
const SYSRETQ: [u8; 3] = [0x48, 0x0f, 0x07];

/// Address of a rank's task state.
#[must_use]
pub fn task_state(area: u64, rank: usize) -> u64 {
    area + layout::RANKS + rank as u64 * layout::RANK_BYTES
}

/// A rank's selector in the descriptor table.
#[must_use]
pub fn task_selector(rank: usize) -> u16 {
    u16::try_from(layout::GDT_FIRST_TSS + rank as u64 * 16).unwrap_or(0)
}

/// Offsets of the pages that ring 0 of a machine of `ranks` needs.
pub(crate) fn pages(ranks: usize) -> impl Iterator<Item = u64> {
    shared_pages().chain((0..ranks).flat_map(rank_pages))
}

/// Offsets of the pages that ring 0 needs whatever the number of ranks; the page of the SYSCALL stub is not among them.
pub fn shared_pages() -> impl Iterator<Item = u64> {
    let gdt = (1..=u64::from(layout::GDT_LIMIT) / 4096).map(|page| layout::GDT + page * 4096);
    [layout::GDT, layout::IDT, layout::STUBS].into_iter().chain(gdt)
}

/// Offsets of one rank's own pages.
pub fn rank_pages(rank: usize) -> impl Iterator<Item = u64> {
    let first = layout::RANKS + rank as u64 * layout::RANK_BYTES;
    (0..layout::RANK_BYTES / 4096).map(move |page| first + page * 4096)
}

/// Fills a fresh area for `ranks` ranks.
pub(crate) fn install(area: &Mapping, ranks: usize) {
    // SAFETY: the mapping is readable, writable and zero, and it outlives this function.
    let area = unsafe { Area::new(area.pointer(), area.bytes()) };
    area.install_shared();
    (0..ranks).for_each(|rank| area.install_rank(rank));
}

/// Flat 64-bit segments: ring 0's code and stack, ring 3's data and code.
const SEGMENTS: [(u16, u64); 4] = [
    (layout::RING0_CODE, 0x00af_9b00_0000_ffff),
    (layout::RING0_CODE + 8, 0x00cf_9300_0000_ffff),
    (layout::RING3_DATA, 0x00cf_f300_0000_ffff),
    (layout::RING3_CODE, 0x00af_fb00_0000_ffff),
];

/// A supervisor area while it is filled: where it starts, in this process as in the guest.
#[derive(Debug)]
pub struct Area {
    start: NonNull<u8>,
    bytes: usize,
}

impl Area {
    /// The area of `bytes` at `start`.
    ///
    /// # Safety
    /// The bytes are readable and writable as long as this value lives, were zero at first, and nothing refers into them.
    #[must_use]
    pub unsafe fn new(start: NonNull<u8>, bytes: usize) -> Self {
        Area { start, bytes }
    }

    /// Writes what all ranks share: segments, gates, stubs.
    pub fn install_shared(&self) {
        for (selector, descriptor) in SEGMENTS {
            self.put(layout::GDT + u64::from(selector & !7), &descriptor.to_le_bytes());
        }
        for vector in 0..layout::VECTORS {
            self.install_vector(vector);
        }
        let [port, _] = layout::PORT_SYSCALL.to_le_bytes();
        let [a, b, c] = SYSRETQ;
        self.put(layout::SYSCALL_STUB, &[OUT, port, a, b, c]);
    }

    fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// Writes `bytes` at `offset`.
    ///
    /// # Panics
    /// When they do not lie inside the area.
    pub fn put(&self, offset: u64, bytes: &[u8]) {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        assert!(offset < self.bytes && bytes.len() <= self.bytes - offset, "inside the area");
        // SAFETY: inside the area by the line above, whose bytes are writable and unreferenced by the promise of `new`.
        unsafe { self.start.as_ptr().add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// A stub and its gate: interrupts off, ring 0's code, no stack of its own; callable by `int` for #BP and #OF only.
    fn install_vector(&self, vector: u16) {
        let [port, _] = (layout::PORT_VECTORS + vector).to_le_bytes();
        let [number, _] = vector.to_le_bytes();
        let mut code = vec![OUT, port];
        if exception::has_error_code(number) {
            code.extend(DROP_ERROR_CODE);
        }
        code.extend(IRETQ);
        let offset = layout::STUBS + u64::from(vector) * STUB_BYTES;
        self.put(offset, &code);
        let gate = gate(self.address() + offset, if matches!(vector, 3 | 4) { 3 } else { 0 });
        self.put(layout::IDT + u64::from(vector) * 16, &gate.to_le_bytes());
    }

    /// Writes `rank`'s task state, its descriptor, and the top of ring 0's stack in it (for ring changes and as interrupt
    /// stack 1). Ranks are below [`layout::MAX_RANKS`].
    pub fn install_rank(&self, rank: usize) {
        let address = task_state(self.address(), rank);
        let offset = address - self.address();
        let stack = (address + layout::RANK_BYTES).to_le_bytes();
        self.put(offset + 4, &stack);
        self.put(offset + 36, &stack);
        self.put(offset + 102, &BITMAP.to_le_bytes());
        self.put(offset + u64::from(TSS_LIMIT), &[0xff]);
        let low = u64::from(TSS_LIMIT) | (address & 0xff_ffff) << 16 | 0x8b << 40 | (address >> 24 & 0xff) << 56;
        let descriptor = u128::from(low) | u128::from(address >> 32) << 64;
        self.put(layout::GDT + u64::from(task_selector(rank)), &descriptor.to_le_bytes());
    }
}

/// A 64-bit interrupt gate to ring 0's code at `target`, for `int` from ring `caller` inwards.
fn gate(target: u64, caller: u64) -> u128 {
    let low = (target & 0xffff)
        | u64::from(layout::RING0_CODE) << 16
        | (0x8e | caller << 5) << 40
        | (target >> 16 & 0xffff) << 48;
    u128::from(low) | u128::from(target >> 32) << 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_carries_its_target_in_three_parts() {
        let gate = gate(0x1122_3344_5566_7788, 3);
        assert_eq!(gate, 0x0000_0000_1122_3344_5566_ee00_0010_7788);
    }

    #[test]
    fn every_rank_has_its_own_selector_and_pages() {
        assert_eq!(task_selector(0), 0x40);
        assert_eq!(task_selector(layout::MAX_RANKS - 1), 0x40 + 0x3ff0);
        assert_eq!(pages(2).filter(|page| *page >= layout::RANKS).count(), 4);
        assert!(pages(1).all(|page| page < layout::TABLES && page != layout::SYSCALL_STUB));
    }
}
