//! Copies from and to the program's memory that fail as the kernel's do.
//!
//! Most pointers of a program go to the kernel unchanged, which checks them. The few that the runner follows itself are
//! followed by the kernel too, by `process_vm_readv` and `process_vm_writev` on this very process: a pointer to nowhere is
//! EFAULT, and never a fault in the runner.

use crate::runner::sys::{self, Errno};
use crate::runner::thread::Process;
use std::mem::size_of_val;
use std::sync::atomic::Ordering;

const FAULT: Errno = Errno(libc::EFAULT);

/// Copies `bytes.len()` bytes from `from`.
pub(crate) fn read_bytes(process: &Process, from: u64, bytes: &mut [u8]) -> Result<(), Errno> {
    match transfer(libc::SYS_process_vm_readv, process, bytes.as_mut_ptr() as u64, from, bytes.len()) {
        copied if copied == bytes.len() => Ok(()),
        _ => Err(FAULT),
    }
}

/// Copies up to `bytes.len()` bytes from `from`, as many as are there; gives how many.
pub(crate) fn read_some(process: &Process, from: u64, bytes: &mut [u8]) -> usize {
    // The kernel copies whole pages or nothing of them, so a text at the end of memory is read page by page.
    let first = bytes.len().min(4096 - (from & 4095) as usize);
    let at = bytes.as_mut_ptr() as u64;
    let copied = transfer(libc::SYS_process_vm_readv, process, at, from, first);
    if copied < first || first == bytes.len() {
        return copied;
    }
    let rest = bytes.len() - first;
    copied + transfer(libc::SYS_process_vm_readv, process, at + first as u64, from + first as u64, rest)
}

/// Copies `bytes` to `to`.
pub(crate) fn write_bytes(process: &Process, to: u64, bytes: &[u8]) -> Result<(), Errno> {
    match transfer(libc::SYS_process_vm_writev, process, bytes.as_ptr() as u64, to, bytes.len()) {
        copied if copied == bytes.len() => Ok(()),
        _ => Err(FAULT),
    }
}

/// Reads `N` words.
pub(crate) fn read_words<const N: usize>(process: &Process, from: u64) -> Result<[u64; N], Errno> {
    let mut words = [0u64; N];
    match transfer(libc::SYS_process_vm_readv, process, words.as_mut_ptr() as u64, from, size_of_val(&words)) {
        copied if copied == size_of_val(&words) => Ok(words),
        _ => Err(FAULT),
    }
}

/// Writes `words`.
pub(crate) fn write_words(process: &Process, to: u64, words: &[u64]) -> Result<(), Errno> {
    match transfer(libc::SYS_process_vm_writev, process, words.as_ptr() as u64, to, size_of_val(words)) {
        copied if copied == size_of_val(words) => Ok(()),
        _ => Err(FAULT),
    }
}

/// Whether copies work at all: some sandboxes forbid the calls.
pub(crate) fn works(process: &Process) -> bool {
    let word = 7u64;
    read_words::<1>(process, (&raw const word) as u64) == Ok([7])
}

/// One copy between `own`, memory of the runner's, and `theirs`; gives how many bytes were copied.
fn transfer(call: i64, process: &Process, own: u64, theirs: u64, bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    let (local, remote) = ([own, bytes as u64], [theirs, bytes as u64]);
    let arguments =
        [process.pid.load(Ordering::Relaxed).into(), local.as_ptr() as u64, 1, remote.as_ptr() as u64, 1, 0];
    // SAFETY: callers pass memory of their own of that length, writable where it is read into; the other side is checked by
    // the kernel, and is memory that the program itself could have read or written.
    let copied = unsafe { sys::raw(call, arguments) };
    usize::try_from(copied).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process() -> Process {
        let process = Process::new();
        process.pid.store(std::process::id(), Ordering::Relaxed);
        process
    }

    #[test]
    fn a_pointer_to_nowhere_is_an_error() {
        let process = process();
        assert!(works(&process));
        assert_eq!(read_words::<2>(&process, 8), Err(FAULT));
        assert_eq!(write_words(&process, 8, &[1]), Err(FAULT));
        assert_eq!(write_bytes(&process, u64::MAX - 4, b"abc"), Err(FAULT));
        // Text may not be written, and is not.
        assert_eq!(write_bytes(&process, works as *const () as u64, b"abc"), Err(FAULT));
    }

    #[test]
    fn what_is_there_is_copied_both_ways() {
        let process = process();
        let mut words = [1u64, 2, 3];
        assert_eq!(read_words::<3>(&process, words.as_ptr() as u64), Ok([1, 2, 3]));
        write_words(&process, words.as_mut_ptr() as u64, &[4, 5]).expect("writable");
        // SAFETY: the first word of an array on this stack; volatile, because the kernel has written it.
        assert_eq!(unsafe { std::ptr::read_volatile(&raw const words[0]) }, 4);
    }

    #[test]
    fn a_text_before_an_unmapped_page_is_read_to_its_end() {
        let process = process();
        let mapping = crate::runner::sys::Mapping::anonymous(libc::PROT_READ | libc::PROT_WRITE, 0);
        // SAFETY: new memory, of which the second page is given back; nobody else knows it.
        let page = unsafe {
            let start = sys::map(0, 8192, mapping).expect("memory");
            sys::unmap(start + 4096, 4096);
            start
        };
        write_bytes(&process, page + 4093, b"abc").expect("writable");
        let mut bytes = [0; 16];
        assert_eq!(read_some(&process, page + 4093, &mut bytes), 3);
        assert_eq!(&bytes[..3], b"abc");
        // SAFETY: the page made above.
        unsafe { sys::unmap(page, 4096) };
    }
}
