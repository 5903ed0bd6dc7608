//! Which descriptor numbers belong to the runner, and how they stay out of the program's way.
//!
//! KVM must be called through descriptors of the process that runs the program. They get numbers from the program's own
//! limit on: there a program has none, and the kernel hands out lower ones first. The real limit is raised by what the
//! runner needs, and the program keeps seeing its own (`limits`).

use crate::runner::sys::{self, Errno};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Numbers that can belong to the runner.
pub(crate) const ROOM: usize = 2048;

/// The runner's numbers, as bits from the first one on.
#[derive(Debug)]
pub(crate) struct Descriptors {
    first: AtomicI32,
    end_of_program: AtomicU64,
    own: [AtomicU64; ROOM / 64],
}

/// The process's own.
pub(crate) static DESCRIPTORS: Descriptors = Descriptors::new();

impl Descriptors {
    pub(crate) const fn new() -> Self {
        let own = [const { AtomicU64::new(0) }; ROOM / 64];
        Descriptors { first: AtomicI32::new(0), end_of_program: AtomicU64::new(u64::MAX), own }
    }

    /// Sets the lowest number that a descriptor of the program must not have.
    pub(crate) fn set_end_of_program(&self, end: u64) {
        self.end_of_program.store(end, Ordering::Relaxed);
    }

    /// The lowest number that a descriptor of the program must not have.
    pub(crate) fn end_of_program(&self) -> u64 {
        self.end_of_program.load(Ordering::Relaxed)
    }

    /// Sets the lowest number.
    pub(crate) fn begin(&self, first: i32) {
        self.first.store(first, Ordering::Relaxed);
    }

    /// The lowest number that can be the runner's.
    pub(crate) fn first(&self) -> u64 {
        self.first.load(Ordering::Relaxed).unsigned_abs().into()
    }

    /// The number behind the last one that can be the runner's.
    pub(crate) fn end(&self) -> u64 {
        self.first() + ROOM as u64
    }

    /// Takes over a descriptor of the runner before this one, where it is or at a number of this one's.
    pub(crate) fn inherit(&self, fd: i32) -> Result<i32, Errno> {
        if self.bit(fd).is_none() {
            return self.take(fd);
        }
        sys::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC)?;
        self.adopt(fd).map(|()| fd)
    }

    /// Moves `fd` to a number of the runner's.
    pub(crate) fn take(&self, fd: i32) -> Result<i32, Errno> {
        let moved = sys::fcntl(fd, libc::F_DUPFD_CLOEXEC, self.first.load(Ordering::Relaxed));
        sys::close(fd);
        let moved = moved?;
        self.adopt(moved)?;
        Ok(moved)
    }

    /// Enters a number that is in the right place already.
    pub(crate) fn adopt(&self, fd: i32) -> Result<(), Errno> {
        let Some((word, bit)) = self.bit(fd) else {
            sys::close(fd);
            return Err(Errno(libc::EMFILE));
        };
        word.fetch_or(bit, Ordering::AcqRel);
        Ok(())
    }

    /// Closes one of the runner's.
    pub(crate) fn close(&self, fd: i32) {
        if let Some((word, bit)) = self.bit(fd) {
            word.fetch_and(!bit, Ordering::AcqRel);
        }
        sys::close(fd);
    }

    /// Whether a number that the program names is one of the runner's.
    pub(crate) fn is_own(&self, fd: u64) -> bool {
        // The kernel looks at 32 bits.
        let [a, b, c, d, ..] = fd.to_le_bytes();
        let fd = i32::from_le_bytes([a, b, c, d]);
        self.bit(fd).is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
    }

    /// The runner's numbers in order.
    pub(crate) fn own(&self) -> impl Iterator<Item = i32> {
        let first = self.first.load(Ordering::Relaxed);
        let bits = self.own.iter().map(|word| word.load(Ordering::Acquire));
        bits.zip(0i32..).flat_map(move |(bits, word)| {
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| first + word * 64 + bit)
        })
    }

    fn bit(&self, fd: i32) -> Option<(&AtomicU64, u64)> {
        let offset = usize::try_from(fd.checked_sub(self.first.load(Ordering::Relaxed))?).ok()?;
        Some((self.own.get(offset / 64)?, 1 << (offset % 64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_runners_from_taking_to_closing() {
        let own = Descriptors::new();
        own.begin(300);
        let open = || sys::open(c"/dev/null", libc::O_RDONLY).expect("a descriptor");
        let (first, second) = (own.take(open()).expect("room"), own.take(open()).expect("room"));
        assert!(first >= 300 && second > first);
        assert_eq!(own.own().collect::<Vec<_>>(), [first, second]);
        assert!(own.is_own(first as u64) && own.is_own(1 << 32 | first as u64) && !own.is_own(0));
        own.close(first);
        assert!(!own.is_own(first as u64));
        assert_eq!(own.own().collect::<Vec<_>>(), [second]);
        own.close(second);
        own.begin(0);
        assert_eq!(own.adopt(-1), Err(Errno(libc::EMFILE)));
    }
}
