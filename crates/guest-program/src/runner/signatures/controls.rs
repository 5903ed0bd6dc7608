//! Requests of `ioctl`: which of them have descriptors, and which are known to have none.

use crate::runner::descriptors::Descriptors;
use crate::runner::signatures::memory::{for_each_row, number_at, read, word32, word64};
use crate::runner::signatures::wrong::{BAD, Wrong};
use crate::runner::thread::Process;
use std::ops::RangeInclusive;

/// Where requests of `ioctl` have descriptors.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holds {
    /// The argument is one.
    Value,
    /// Memory at the argument has one, so many bytes from its start.
    At(u64),
    /// `struct file_dedupe_range`.
    Ranges,
}

/// Requests with descriptors.
pub(crate) const CONTROLS: &[(u64, Holds)] = &[
    (0x4004_9409, Holds::Value),  // FICLONE
    (0x4020_940d, Holds::At(0)),  // FICLONERANGE
    (0xc018_9436, Holds::Ranges), // FIDEDUPERANGE
    (0xc028_660f, Holds::At(4)),  // EXT4_IOC_MOVE_EXT
    (0x2405, Holds::Value),       // PERF_EVENT_IOC_SET_OUTPUT
    (0x4004_2408, Holds::Value),  // PERF_EVENT_IOC_SET_BPF
    (0x8004_54e0, Holds::At(0)),  // TUNSETSTEERINGEBPF
    (0x8004_54e1, Holds::At(0)),  // TUNSETFILTEREBPF
];

/// Requests without a descriptor: their type, and the numbers of it.
const PLAIN_CONTROLS: &[(u64, RangeInclusive<u64>)] = &[
    (0x00, 1..=2),       // FIBMAP, FIGETBSZ
    (0x03, 0..=255),     // disks: HDIO
    (0x12, 0..=255),     // block devices
    (0x22, 0..=255),     // SCSI
    (0x24, 0..=255),     // performance counters
    (0x52, 0..=255),     // random numbers
    (0x53, 0..=255),     // CD-ROM
    (0x54, 0..=255),     // terminals, pipes, tun
    (0x58, 31..=32),     // FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR
    (0x58, 119..=121),   // FIFREEZE, FITHAW, FITRIM
    (0x66, 0..=14),      // flags of files
    (0x66, 16..=63),     // the same
    (0x70, 0..=255),     // clocks
    (0x76, 1..=2),       // FS_IOC_GETVERSION, FS_IOC_SETVERSION
    (0x89, 0..=0xdf),    // sockets
    (0x89, 0xf0..=0xff), // devices of sockets
    (0x94, 8..=8),       // BTRFS_IOC_SYNC
    (0x94, 31..=31),     // BTRFS_IOC_FS_INFO
    (0x94, 49..=50),     // labels of file systems
    (0xaa, 0..=255),     // userfaultfd
    (0xb7, 0..=255),     // namespaces
];
/// Types of terminals, whose requests have no size; those with one are other devices'.
const CONSOLES: [u64; 2] = [0x4b, 0x56];

/// What is wrong with a request and its argument, if anything is.
pub(crate) fn control(process: &Process, own: &Descriptors, request: u64, argument: u64) -> Option<Wrong> {
    let bad = |is_bad: bool| is_bad.then_some(Wrong::Fails(BAD));
    if let Some((_, holds)) = CONTROLS.iter().find(|(known, _)| *known == request) {
        return bad(match holds {
            Holds::Value => own.is_own(argument),
            Holds::At(offset) => number_at(process, argument.wrapping_add(*offset)).is_some_and(|fd| own.is_own(fd)),
            Holds::Ranges => in_ranges(process, own, argument),
        });
    }
    let (kind, number) = (request >> 8 & 0xff, request & 0xff);
    let is_plain = PLAIN_CONTROLS.iter().any(|(known, numbers)| *known == kind && numbers.contains(&number));
    let is_console = CONSOLES.contains(&kind) && request >> 16 == 0;
    (!is_plain && !is_console).then_some(Wrong::UnlistedControl)
}

fn in_ranges(process: &Process, own: &Descriptors, at: u64) -> bool {
    const HEAD: usize = 24;
    const RANGE: usize = 32;
    let Some(head) = read::<HEAD>(process, at) else { return false };
    let mut found = false;
    for_each_row::<RANGE>(process, at.wrapping_add(HEAD as u64), word32(&head, 16) & 0xffff, |_, row| {
        found |= own.is_own(word64(row, 0));
        !found
    });
    found
}
