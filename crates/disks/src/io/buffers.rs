//! One aligned buffer per outstanding I/O, as `O_DIRECT` needs them.
#![expect(unsafe_code, reason = "memory of a given alignment, shared with the kernel")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::slice;

/// Alignment of every buffer in bytes: a page, which satisfies every block device.
pub(crate) const ALIGNMENT: usize = 4096;

/// `count` buffers of `size` bytes each, zeroed.
pub(crate) struct Buffers {
    start: *mut u8,
    layout: Layout,
    size: usize,
    count: usize,
}

// SAFETY: the memory belongs to this value alone and moves with it; nothing refers to the thread that allocated it.
unsafe impl Send for Buffers {}

impl Buffers {
    /// # Panics
    /// When `count` buffers of `size` bytes exceed the address space.
    pub(crate) fn new(count: usize, size: usize) -> Buffers {
        let size = size.max(1).next_multiple_of(ALIGNMENT);
        let bytes = size.checked_mul(count.max(1)).expect("buffers fit into the address space");
        let layout = Layout::from_size_align(bytes, ALIGNMENT).expect("the alignment is a power of two");
        // SAFETY: the layout has a size above 0.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Buffers { start, layout, size, count: count.max(1) }
    }

    /// Bytes of each.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Where buffer `slot` starts.
    ///
    /// # Panics
    /// When there is no such buffer.
    pub(crate) fn at(&self, slot: usize) -> *mut u8 {
        assert!(slot < self.count, "buffer {slot} of {}", self.count);
        // SAFETY: `slot` is below `count` (asserted), so the result is inside the allocation of `count * size` bytes.
        unsafe { self.start.add(slot * self.size) }
    }

    /// Buffer `slot`, which the kernel must not be using.
    pub(crate) fn of(&self, slot: usize) -> &[u8] {
        // SAFETY: `at` is the start of `size` initialized bytes of ours; `Ring` hands out slots that are not in flight.
        unsafe { slice::from_raw_parts(self.at(slot), self.size) }
    }

    /// Buffer `slot`, which the kernel must not be using.
    pub(crate) fn of_mut(&mut self, slot: usize) -> &mut [u8] {
        // SAFETY: as in `of`, and `&mut self` makes this the only reference.
        unsafe { slice::from_raw_parts_mut(self.at(slot), self.size) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start, self.layout) };
    }
}
