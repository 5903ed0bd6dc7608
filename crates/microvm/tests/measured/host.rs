//! Memory of a known page size on the host, for one test.

use baremark_model::page_size::PageSize;
use std::fs;
use std::ptr;

/// Zeroed, touched, and made of huge pages or of none, as asked; given back when dropped.
pub struct Buffer {
    start: *mut u64,
    bytes: usize,
    whole: (*mut libc::c_void, usize),
}

impl Buffer {
    /// `bytes`, a multiple of 2 MiB, on such a boundary. Huge pages come as the host can give them, see [`Buffer::huge`].
    pub fn new(bytes: usize, page: PageSize) -> Self {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let mapped = bytes + (2 << 20);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let whole = unsafe { libc::mmap(ptr::null_mut(), mapped, protection, flags, -1, 0) };
        assert_ne!(whole, libc::MAP_FAILED);
        let start = whole.cast::<u64>().map_addr(|address| address.next_multiple_of(2 << 20));
        let advice = match page {
            PageSize::Small => libc::MADV_NOHUGEPAGE,
            PageSize::Large => libc::MADV_HUGEPAGE,
        };
        // SAFETY: `bytes` from the boundary on lie inside the new mapping, which nobody else uses.
        unsafe {
            assert_eq!(libc::madvise(start.cast(), bytes, advice), 0);
            ptr::write_bytes(start, 0, bytes / 8);
        }
        Buffer { start, bytes, whole: (whole, mapped) }
    }

    /// The memory.
    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: `bytes` initialised bytes that this buffer owns.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes / 8) }
    }

    /// Has every huge page mapped by small entries, in place: the memory stays contiguous, only the entries are small.
    pub fn split_entries(&mut self) {
        for offset in (0..self.bytes).step_by(2 << 20) {
            for protection in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
                // SAFETY: a page of this buffer, exclusively borrowed; its content stays.
                unsafe {
                    let page = self.start.byte_add(offset).cast();
                    assert_eq!(libc::mprotect(page, 4096, protection), 0);
                }
            }
        }
    }

    /// Moves every small page to another address of as much address space: the memory is the same, its order is none. Each page
    /// becomes a mapping of its own, of which a process may have 65530.
    pub fn shuffle_pages(&mut self) {
        let (protection, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let whole = unsafe { libc::mmap(ptr::null_mut(), self.bytes, protection, flags, -1, 0) };
        assert_ne!(whole, libc::MAP_FAILED);
        let pages = self.bytes / 4096;
        assert!(pages.is_power_of_two(), "an odd factor permutes the numbers below a power of two");
        for page in 0..pages {
            let from = page.wrapping_mul(0x9e37_79b1) % pages;
            let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            // SAFETY: a page of this buffer, exclusively borrowed, moves into the mapping made above, which nobody else uses.
            unsafe {
                let (old, new) = (self.start.byte_add(4096 * from), whole.byte_add(4096 * page));
                assert_eq!(libc::mremap(old.cast(), 4096, 4096, fixed, new), new);
            }
        }
        // SAFETY: the mapping made in `new`, empty by now, to which nothing refers any more.
        unsafe { libc::munmap(self.whole.0, self.whole.1) };
        (self.start, self.whole) = (whole.cast(), (whole, self.bytes));
    }

    /// How many bytes of it are huge pages just now.
    pub fn huge(&self) -> u64 {
        let text = fs::read_to_string("/proc/self/smaps").unwrap();
        let (low, high) = (self.start.addr(), self.start.addr() + self.bytes);
        let (mut inside, mut kib) = (false, 0);
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or("");
            if let Some((from, _)) = first.split_once('-').filter(|_| !first.ends_with(':')) {
                inside = usize::from_str_radix(from, 16).is_ok_and(|from| (low..high).contains(&from));
            } else if inside && first == "AnonHugePages:" {
                kib += words.next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
            }
        }
        kib << 10
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, to which nothing refers any more.
        unsafe { libc::munmap(self.whole.0, self.whole.1) };
    }
}
