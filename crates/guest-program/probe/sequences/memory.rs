//! Steps on memory: mappings in the arena, what may be done with them, and what is in them.

use super::{ARENA, PAGE, PAGES, Sequence};
use std::arch::asm;

/// Pages of the longest mapping.
const LONGEST: u64 = 4;

pub fn step(s: &mut Sequence) {
    let pages = 1 + s.below(LONGEST);
    let page = s.below(PAGES - LONGEST);
    let (at, bytes) = (ARENA + page * PAGE, pages * PAGE);
    match s.below(14) {
        0 | 1 => map(s, at, bytes),
        2 => map_file(s, at, bytes),
        3 => drop(s.call("munmap", libc::SYS_munmap, &[at, bytes])),
        4 => {
            let protection = s.below(4);
            s.call("mprotect", libc::SYS_mprotect, &[at, bytes, protection]);
        }
        5 => remap(s, at, bytes),
        6 => {
            let advice = s.one_of(&[0, 1, 2, 3, 4, 4, 4, 10, 11, 14, 15, 18, 19, 99]);
            s.call("madvise", libc::SYS_madvise, &[at, bytes, advice]);
        }
        7 => {
            let flags = s.below(8);
            s.call("msync", libc::SYS_msync, &[at, bytes, flags]);
        }
        8 => {
            let to = s.filled(0);
            s.call("mincore", libc::SYS_mincore, &[at, bytes, to]);
        }
        9 => copy(s, at),
        10 => bad(s, at),
        _ => access(s, at),
    }
}

fn map(s: &mut Sequence, at: u64, bytes: u64) {
    let sharing = s.one_of(&[libc::MAP_PRIVATE, libc::MAP_PRIVATE, libc::MAP_SHARED]);
    let fixed = s.one_of(&[libc::MAP_FIXED, libc::MAP_FIXED, libc::MAP_FIXED_NOREPLACE]);
    let flags = (sharing | fixed | libc::MAP_ANONYMOUS) as u64;
    let protection = s.below(4);
    s.call("mmap", libc::SYS_mmap, &[at, bytes, protection, flags, u64::MAX, 0]);
}

fn map_file(s: &mut Sequence, at: u64, bytes: u64) {
    let sharing = s.one_of(&[libc::MAP_PRIVATE, libc::MAP_SHARED]);
    let flags = (sharing | libc::MAP_FIXED) as u64;
    let (fd, protection, offset) = (s.fd(), s.below(4), s.one_of(&[0, 0, PAGE, 100]));
    s.call("mmap file", libc::SYS_mmap, &[at, bytes, protection, flags, fd, offset]);
}

fn remap(s: &mut Sequence, at: u64, bytes: u64) {
    let to = ARENA + s.below(PAGES - LONGEST) * PAGE;
    let new = (1 + s.below(LONGEST)) * PAGE;
    let moved = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
    // Without a place of its own a mapping only moves if it may, and then to where the kernel likes.
    let flags = s.one_of(&[0, moved, moved, libc::MREMAP_FIXED as u64]);
    s.call("mremap", libc::SYS_mremap, &[at, bytes, new, flags, to]);
}

fn copy(s: &mut Sequence, at: u64) {
    let room = s.filled(0);
    let (local, remote) = ([room, 64], [at, 64]);
    let own = u64::from(std::process::id());
    let arguments = [own, local.as_ptr() as u64, 1, remote.as_ptr() as u64, 1, 0];
    let read = crate::call(libc::SYS_process_vm_readv, &arguments);
    s.note("process_vm_readv", read);
    s.room_contents("copied", read);
}

/// Ranges that are none.
fn bad(s: &mut Sequence, at: u64) {
    let (at, bytes) = s.one_of(&[(at + 1, PAGE), (at, 0), (at, u64::MAX), (1 << 47, PAGE), (u64::MAX - 4095, PAGE)]);
    let (name, number) = s.one_of(&[
        ("munmap", libc::SYS_munmap),
        ("mprotect", libc::SYS_mprotect),
        ("madvise", libc::SYS_madvise),
        ("msync", libc::SYS_msync),
    ]);
    // A length beyond the end of memory ends nothing: it is refused as a whole.
    s.call(name, number, &[at, bytes, 0]);
}

/// Loads and stores of the program itself; where they fail a handler counts it.
fn access(s: &mut Sequence, at: u64) {
    let at = at + s.one_of(&[0, 8, 4088]);
    if s.below(2) == 0 {
        let value = s.below(1 << 32);
        // SAFETY: memory of the arena, which is used by address alone; where there is none the handler goes on behind the instruction, whose
        // length is in R15: 48 89 07, mov [rdi], rax.
        unsafe { asm!("mov [rdi], rax", in("rdi") at, in("rax") value, in("r15") 3u64) };
        s.note("store", 0);
    } else {
        let value: u64;
        // SAFETY: as above; 48 8b 07, mov rax, [rdi].
        unsafe { asm!("mov rax, [rdi]", in("rdi") at, inout("rax") 0x5eed_u64 => value, in("r15") 3u64) };
        s.note("load", value.cast_signed());
    }
}
