//! The lab's clock, by which the clocks of sites are compared.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The lab's clock, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    // Not near 0, so that a site's clock that is behind has moments too.
    nanos(BEGAN.get_or_init(Instant::now).elapsed()) + (1 << 62)
}

/// A duration in nanoseconds.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
