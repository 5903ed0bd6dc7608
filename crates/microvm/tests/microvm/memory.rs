//! Memory that the guest cannot know yet.

use std::ptr;

/// Fresh memory in a block of its own.
pub fn fresh(bytes: usize) -> *mut u8 {
    let (prot, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes + (2 << 30), prot, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start.cast::<u8>().map_addr(|address| address.next_multiple_of(1 << 30))
}

/// So many words of it.
pub fn fresh_words(words: usize) -> &'static mut [u64] {
    let start = fresh(8 * words);
    // SAFETY: a new mapping of at least as many bytes, aligned, zeroed, that nobody else uses and that is never given back.
    unsafe { std::slice::from_raw_parts_mut(start.cast(), words) }
}
