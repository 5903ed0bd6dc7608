//! What a system call and a page fault take at this site.
//!
//! Each is the quickest of some batches: who had the CPU meanwhile is in the others.

use baremark_model::page_size::PageSize;
use baremark_model::wire::FromAgent;
use baremark_sys::clock::monotonic_ns;
use baremark_sys::paging::{Fresh, empty_call};

const BATCHES: u64 = 20;
/// Memory that is touched in a batch: 512 pages.
const FRESH_BYTES: usize = 2 << 20;

/// Makes `calls` calls or some more, and times them and first touches of memory.
pub(crate) fn measure(calls: u64) -> FromAgent {
    let each = calls.div_ceil(BATCHES).max(1);
    let batch = || {
        let begun = monotonic_ns();
        (0..each).for_each(|_| empty_call());
        monotonic_ns().saturating_sub(begun)
    };
    let quickest = (0..BATCHES).map(|_| batch()).min().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of less than a second")]
    let call_ns = quickest as f64 / each as f64;
    FromAgent::CallsTimed { call_ns, fault_ns: fault_ns() }
}

/// Nanoseconds of a first touch; `None` where no memory can be mapped.
fn fault_ns() -> Option<f64> {
    let batch = |_| {
        let mut fresh = Fresh::map(FRESH_BYTES, PageSize::Small).ok()?;
        let begun = monotonic_ns();
        fresh.touch_each();
        let took = monotonic_ns().saturating_sub(begun);
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of less than a second, and 512 pages")]
        let each = took as f64 / fresh.pages() as f64;
        Some(each)
    };
    (0..BATCHES).filter_map(batch).min_by(f64::total_cmp)
}
