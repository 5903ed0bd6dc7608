//! Numbers in the program's memory, as far as it can be read.

use crate::runner::thread::Process;
use crate::runner::user;

/// Bytes that are read at once.
const CHUNK: usize = 512;

pub(crate) fn read<const N: usize>(process: &Process, at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    // What cannot be read, the kernel refuses.
    user::read_bytes(process, at, &mut bytes).is_ok().then_some(bytes)
}

pub(crate) fn word32(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(u64::MAX, |word| u32::from_ne_bytes(word).into())
}

pub(crate) fn word64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(u64::MAX, u64::from_ne_bytes)
}

/// The 32-bit number at an address.
pub(crate) fn number_at(process: &Process, at: u64) -> Option<u64> {
    read::<4>(process, at).map(|bytes| word32(&bytes, 0))
}

/// Calls `each` with the address and the bytes of each of `count` rows, until it gives false.
pub(crate) fn for_each_row<const ROW: usize>(
    process: &Process,
    at: u64,
    count: u64,
    mut each: impl FnMut(u64, &[u8]) -> bool,
) {
    let rows = (CHUNK / ROW) as u64;
    let mut first = 0;
    while first < count {
        let mut bytes = [0; CHUNK];
        let part = (count - first).min(rows);
        let bytes = &mut bytes[..usize::try_from(part).unwrap_or(0) * ROW];
        let from = at.wrapping_add(first * ROW as u64);
        if user::read_bytes(process, from, bytes).is_err() {
            return;
        }
        for (index, row) in (0u64..).zip(bytes.chunks_exact(ROW)) {
            if !each(from.wrapping_add(index * ROW as u64), row) {
                return;
            }
        }
        first += part;
    }
}
