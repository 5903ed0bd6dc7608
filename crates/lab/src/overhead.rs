//! What observing costs: the share of one CPU, with an interval over readings.

use baremark_stats::Estimate;

/// A share of one CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The estimate (Hodges and Lehmann).
    pub centre: f64,
    /// Lower limit of its 95 % interval.
    pub lo: f64,
    /// Upper limit.
    pub hi: f64,
}

/// The share that readings took of the interval between them, and of that what reading nothing takes; `None` below four
/// readings. Each pair was made in one interval, so that both saw the same machine.
#[must_use]
pub fn share(readings_ns: &[u64], nothing_ns: &[u64], interval_ns: u64) -> Option<(Share, Share)> {
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of readings")]
    let of = |all: &[u64]| {
        let shares: Vec<f64> = all.iter().map(|spent| *spent as f64 / interval_ns.max(1) as f64).collect();
        let interval = Estimate::of(&shares)?.interval(0.95);
        Some(Share { centre: interval.centre, lo: interval.lo.max(0.0), hi: interval.hi })
    };
    Some((of(readings_ns)?, of(nothing_ns)?))
}
