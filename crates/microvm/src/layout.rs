//! Where everything lies: guest-physical space, the supervisor area, ports, and the host's half of the address space.
//!
//! Guest-virtual is host-virtual for the whole process. Virtual space is cut into blocks of 1 GiB; the block that is
//! touched as the *i*-th becomes memslot *i* at guest-physical `BASE + i` GiB, so that guest-physical and host-virtual
//! agree modulo 1 GiB (large leaves stay possible) while guest-physical addresses stay compact (widths of 39 to 46 bits
//! are common) and clear of the interrupt controllers' pages below 4 GiB. Slot 0 is the supervisor area: descriptor
//! tables, stubs, task states, and the guest's page tables, of which only the first few pages are mapped, for ring 0.

/// One block, one memslot.
pub const BLOCK: u64 = 1 << 30;
/// Log2 of [`BLOCK`].
pub const BLOCK_SHIFT: u32 = 30;
/// Blocks in the lower half of a 47-bit address space.
pub const BLOCKS: usize = 1 << 17;
/// The end of what a process can map; the last page below 2^47 is never one.
pub const USER_END: u64 = (1 << 47) - 4096;

/// Guest-physical start of slot 0.
pub const BASE: u64 = 4 << 30;

/// The supervisor area, offsets from its start. The descriptor table of 64 KiB comes first.
pub const GDT: u64 = 0;
/// The descriptor table's limit: all 8192 entries.
pub const GDT_LIMIT: u16 = 0xffff;
/// Entry of the first rank's task state; each takes two entries.
pub const GDT_FIRST_TSS: u64 = 0x40;
/// The interrupt table.
pub const IDT: u64 = 0x1_0000;
/// Exception stubs, 16 bytes each.
pub const STUBS: u64 = 0x1_1000;
/// The one page that ring 3 can also reach: the target of SYSCALL.
pub const SYSCALL_STUB: u64 = 0x1_2000;
/// The first rank's pages: task state, then ring 0's stack.
pub const RANKS: u64 = 0x2_0000;
/// Bytes per rank.
pub const RANK_BYTES: u64 = 0x2000;
/// The most ranks of one machine.
pub const MAX_RANKS: usize = 1024;
/// The first page table; it is the root.
pub const TABLES: u64 = RANKS + MAX_RANKS as u64 * RANK_BYTES;
/// Bytes of the supervisor area: tables for more than 250 GiB in pages of 4 KiB.
pub const AREA: u64 = 512 << 20;

/// Port by which a rank leaves the machine.
pub const PORT_LEAVE: u16 = 0x10;
/// Port of the SYSCALL stub.
pub const PORT_SYSCALL: u16 = 0x11;
/// Port of the token before the region.
pub const PORT_BEGIN: u16 = 0x12;
/// Port of the token after the region.
pub const PORT_END: u16 = 0x13;
/// Port by which a rank sleeps on a word: its address in RDI, the value that it must have in RSI.
pub const PORT_SLEEP: u16 = 0x14;
/// Port by which a rank wakes who sleeps on a word: its address in RDI.
pub const PORT_WAKE: u16 = 0x15;
/// Port of exception 0's stub; vector *v* has this plus *v*.
pub const PORT_VECTORS: u16 = 0x20;
/// Exceptions that have a stub.
pub const VECTORS: u16 = 32;

/// Selector of ring 0's code, to which SYSCALL goes; its stack segment follows.
pub const RING0_CODE: u16 = 0x10;
/// Selector from which SYSRET counts: stack +8, code +16.
pub const SYSRET_BASE: u16 = 0x23;
/// Selector of ring 3's data.
pub const RING3_DATA: u16 = 0x2b;
/// Selector of ring 3's 64-bit code.
pub const RING3_CODE: u16 = 0x33;

/// A memslot's bytes: the last block must not reach the end of the address space.
pub const fn slot_bytes(block: u64) -> u64 {
    let start = block << BLOCK_SHIFT;
    if start + BLOCK > USER_END { USER_END - start } else { BLOCK }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_areas_do_not_overlap() {
        const { assert!(GDT + (GDT_LIMIT as u64) < IDT && IDT + 4096 <= STUBS && STUBS + 4096 <= SYSCALL_STUB) };
        const { assert!(SYSCALL_STUB + 4096 <= RANKS && TABLES.is_multiple_of(4096) && TABLES < AREA && AREA <= BLOCK) };
        const { assert!(GDT_FIRST_TSS + MAX_RANKS as u64 * 16 <= GDT_LIMIT as u64) };
        const { assert!(PORT_VECTORS + VECTORS <= 64, "the I/O bitmap of a task state has 64 ports") };
    }

    #[test]
    fn the_last_block_ends_where_the_address_space_does() {
        assert_eq!(slot_bytes(0), BLOCK);
        assert_eq!(slot_bytes(BLOCKS as u64 - 1), BLOCK - 4096);
    }
}
