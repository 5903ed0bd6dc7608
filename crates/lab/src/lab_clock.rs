//! The lab's clock, by which the clocks of sites are compared.

use baremark_model::units::Nanos;
use std::sync::OnceLock;
use std::time::Instant;

/// The lab's clock, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    // Not near 0, so that a site's clock that is behind has moments too.
    Nanos::from(BEGAN.get_or_init(Instant::now).elapsed()).0 + (1 << 62)
}
