//! The state in which a vCPU starts: 64-bit ring 3 with the calling thread's own thread pointer and extended state.
//!
//! Every value is architectural (Intel SDM volume 3, chapters 2, 3 and 14; AMD APM volume 2, chapters 3 to 6). CR4 leaves
//! SMEP and SMAP off, see `supervisor`, and asks for FSGSBASE only where the processor has it. XCR0 is the process's own,
//! less what KVM does not offer to guests (AMX tiles need a permission that we do not ask for).

use crate::layout;
use crate::supervisor;
use crate::tables::Tables;
use kvm_bindings::{kvm_cpuid_entry2, kvm_dtable, kvm_msr_entry, kvm_segment, kvm_sregs};
use std::arch::asm;

/// PG, AM, WP, NE, ET, MP, PE; caches on.
const CR0: u64 = 0x8005_0033;
const CR4_PAE: u64 = 1 << 5;
const CR4_OSFXSR: u64 = 1 << 9;
const CR4_OSXMMEXCPT: u64 = 1 << 10;
const CR4_FSGSBASE: u64 = 1 << 16;
const CR4_OSXSAVE: u64 = 1 << 18;
/// SCE, LME, LMA, NXE.
const EFER: u64 = 0xd01;
/// Bit 1 is always set; interrupts on, as any process has them.
pub const RFLAGS: u64 = 0x202;
/// What SYSCALL clears: TF, IF, DF, IOPL, NT, AC, as Linux does.
const SYSCALL_MASK: u64 = 0x4_7700;
const MSR_STAR: u32 = 0xc000_0081;
const MSR_LSTAR: u32 = 0xc000_0082;
const MSR_SFMASK: u32 = 0xc000_0084;
/// x87, SSE, AVX, and AVX-512's three.
const XCR0_VECTORS: u64 = 0xe7;

/// Segments, tables and control registers of rank `rank`, from what the vCPU has after creation.
#[must_use]
pub fn special(initial: kvm_sregs, area: u64, rank: usize, cpuid: &[kvm_cpuid_entry2]) -> kvm_sregs {
    let code = kvm_segment {
        limit: u32::MAX,
        selector: layout::RING3_CODE,
        type_: 11,
        present: 1,
        dpl: 3,
        s: 1,
        l: 1,
        g: 1,
        ..kvm_segment::default()
    };
    let data = kvm_segment { selector: layout::RING3_DATA, type_: 3, l: 0, db: 1, ..code };
    let null = kvm_segment { selector: 0, ..data };
    let task = kvm_segment {
        base: supervisor::task_state(area, rank),
        limit: supervisor::TSS_LIMIT.into(),
        selector: supervisor::task_selector(rank),
        type_: 11,
        present: 1,
        ..kvm_segment::default()
    };
    kvm_sregs {
        cs: code,
        ds: data,
        es: data,
        ss: data,
        fs: kvm_segment { base: thread_pointer(), ..null },
        gs: null,
        tr: task,
        gdt: kvm_dtable { base: area + layout::GDT, limit: layout::GDT_LIMIT, ..kvm_dtable::default() },
        idt: kvm_dtable { base: area + layout::IDT, limit: layout::VECTORS * 16 - 1, ..kvm_dtable::default() },
        cr0: CR0,
        cr3: Tables::root(),
        cr4: CR4_PAE | CR4_OSFXSR | CR4_OSXMMEXCPT | CR4_OSXSAVE | if has_fsgsbase(cpuid) { CR4_FSGSBASE } else { 0 },
        efer: EFER,
        ..initial
    }
}

/// The registers by which SYSCALL finds its stub.
#[must_use]
pub fn syscall_msrs(area: u64) -> [kvm_msr_entry; 3] {
    let star = u64::from(layout::SYSRET_BASE) << 48 | u64::from(layout::RING0_CODE) << 32;
    [(MSR_STAR, star), (MSR_LSTAR, area + layout::SYSCALL_STUB), (MSR_SFMASK, SYSCALL_MASK)]
        .map(|(index, data)| kvm_msr_entry { index, data, ..kvm_msr_entry::default() })
}

/// XCR0 for the guest: the process's own where KVM offers it.
#[must_use]
pub fn xcr0(cpuid: &[kvm_cpuid_entry2]) -> u64 {
    let offered = leaf(cpuid, 0xd, 0).map_or(XCR0_VECTORS, |entry| u64::from(entry.edx) << 32 | u64::from(entry.eax));
    own_xcr0() & offered
}

/// Bits of a guest-physical address; 36 where the processor does not say.
#[must_use]
pub fn physical_bits(cpuid: &[kvm_cpuid_entry2]) -> u32 {
    leaf(cpuid, 0x8000_0008, 0).map_or(36, |entry| entry.eax & 0xff)
}

fn has_fsgsbase(cpuid: &[kvm_cpuid_entry2]) -> bool {
    leaf(cpuid, 7, 0).is_some_and(|entry| entry.ebx & 1 != 0)
}

fn leaf(cpuid: &[kvm_cpuid_entry2], function: u32, index: u32) -> Option<&kvm_cpuid_entry2> {
    cpuid.iter().find(|entry| entry.function == function && entry.index == index)
}

fn own_xcr0() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: every processor and kernel that has KVM's XCRS extension has OSXSAVE on; XGETBV touches no memory.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the x86-64 ABI for thread-local storage has the thread pointer point at itself; the word is only read.
    unsafe { asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly)) };
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_3_starts_in_long_mode_without_smep_and_smap() {
        let sregs = special(kvm_sregs::default(), 0x10_0000_0000, 1, &[]);
        assert_eq!((sregs.cs.selector & 3, sregs.cs.l, sregs.ss.dpl), (3, 1, 3));
        assert_eq!(sregs.cr4 & (1 << 20 | 1 << 21 | CR4_FSGSBASE), 0);
        assert_eq!(sregs.tr.base, 0x10_0000_0000 + layout::RANKS + layout::RANK_BYTES);
        assert_ne!(sregs.fs.base, 0);
    }

    #[test]
    fn what_kvm_does_not_offer_is_left_out_of_xcr0() {
        let offered = kvm_cpuid_entry2 { function: 0xd, eax: 7, ..kvm_cpuid_entry2::default() };
        assert_eq!(xcr0(&[offered]), own_xcr0() & 7);
        assert_eq!(physical_bits(&[]), 36);
    }
}
