//! What this process has mapped, read from `/proc/self/maps` without allocating.
//!
//! A guest's page fault asks whether an address belongs to the process at all; the question is put in the exit handler,
//! where nothing may be allocated, so the file is read through a small buffer and parsed byte by byte.

use std::ffi::CStr;
use std::ops::{ControlFlow, Range};

/// Whether any mapping covers `address`. When the file cannot be read the answer is yes: the kernel then decides, when
/// the memory is touched.
pub(crate) fn covers(address: u64) -> bool {
    let mut covered = false;
    let complete = visit(c"/proc/self/maps", |range| {
        covered = range.contains(&address);
        if covered { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    covered || !complete
}

/// Calls `each` for every mapping in `file`, in order, until told to stop. False when the file could not be read.
pub(crate) fn visit(file: &CStr, mut each: impl FnMut(Range<u64>) -> ControlFlow<()>) -> bool {
    // SAFETY: `file` is a string that ends in NUL.
    let fd = unsafe { libc::open(file.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return false;
    }
    let mut parser = Parser::default();
    let mut buffer = [0u8; 2048];
    let complete = loop {
        // SAFETY: the buffer lives through the call and is as long as is said.
        let read = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
        let Ok(read) = usize::try_from(read) else { break false };
        if read == 0 || buffer[..read].iter().filter_map(|byte| parser.push(*byte)).any(|range| each(range).is_break())
        {
            break true;
        }
    };
    // SAFETY: the descriptor was opened above and is not used again.
    unsafe { libc::close(fd) };
    complete
}

/// Where in a line `start-end perms ...` the parser stands.
#[derive(Clone, Copy, Debug, Default)]
enum At {
    #[default]
    Start,
    End,
    Rest,
}

#[derive(Debug, Default)]
struct Parser {
    at: At,
    start: u64,
    end: u64,
}

impl Parser {
    /// Takes one byte; gives the range when its line's second number is complete.
    fn push(&mut self, byte: u8) -> Option<Range<u64>> {
        match (self.at, byte) {
            (_, b'\n') => *self = Parser::default(),
            (At::Start, b'-') => self.at = At::End,
            (At::End, b' ') => {
                self.at = At::Rest;
                return Some(self.start..self.end);
            }
            (At::Start, digit) => self.start = self.start << 4 | hex(digit),
            (At::End, digit) => self.end = self.end << 4 | hex(digit),
            (At::Rest, _) => {}
        }
        None
    }
}

fn hex(digit: u8) -> u64 {
    (digit as char).to_digit(16).unwrap_or(0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_give_ranges_and_names_give_nothing() {
        let text = "00400000-0040c000 r-xp 00000000 08:02 17 /usr/bin/a-b c\n7ffd000-7ffe000 rw-p 0 00:00 0 [stack]\n";
        let mut parser = Parser::default();
        let ranges: Vec<_> = text.bytes().filter_map(|byte| parser.push(byte)).collect();
        assert_eq!(ranges, [0x40_0000..0x40_c000, 0x7ff_d000..0x7ff_e000]);
    }

    #[test]
    fn our_own_stack_is_mapped_and_the_null_page_is_not() {
        let here = 0u64;
        assert!(covers(std::ptr::from_ref(&here).addr() as u64));
        assert!(!covers(0));
        assert!(!visit(c"/proc/self/no-such-file", |_| ControlFlow::Continue(())));
    }
}
