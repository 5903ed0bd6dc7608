//! Latencies of a guest's disks as its hypervisor counts them, next to those that are measured inside the guest.
//!
//! A hypervisor counts I/Os into bins between boundaries. A percentile is the geometric middle of the bin that has it, so that it is known to
//! half the width of a bin; below a number of I/Os that supports it there is none.

use crate::hdr;
use crate::seam::Sample;
use crate::wire::Point;
use serde_json::{Value, json};

/// I/Os of one kind of one disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskLatency {
    /// The disk's name, such as `disk0`.
    pub disk: String,
    /// `read`, `write` or `flush`.
    pub operation: &'static str,
    /// How many were completed.
    pub operations: u64,
    /// Time that they took, all together.
    pub total_ns: u64,
    /// Ascending boundaries of the bins.
    pub boundaries_ns: Vec<u64>,
    /// I/Os below the first boundary, between each and the next, and above the last.
    pub bins: Vec<u64>,
}

/// Kinds of I/O, as in [`DiskLatency::operation`].
pub const OPERATIONS: [&str; 3] = ["read", "write", "flush"];

/// The boundaries that are set: 16 % apart, from 1 us to 100 s.
#[must_use]
pub fn boundaries_ns() -> Vec<u64> {
    const COUNT: usize = 128;
    let ratio = (1e11_f64 / 1e3).powf(1.0 / (COUNT - 1) as f64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1e3 to 1e11")]
    let boundary = |index: usize| (1e3 * ratio.powi(i32::try_from(index).unwrap_or(0))).round() as u64;
    (0..COUNT).map(boundary).collect()
}

/// The latency in ns that a share `p` of the I/Os in `bins` did not exceed; `None` below `least` of them.
fn percentile(boundaries: &[u64], bins: &[u64], p: f64, least: u64) -> Option<f64> {
    let all: u64 = bins.iter().sum();
    if all == 0 || all < least {
        return None;
    }
    let rank = (p * all as f64).ceil().max(1.0);
    let mut below = 0;
    let bin = bins.iter().position(|count| {
        below += count;
        below as f64 >= rank
    })?;
    middle(boundaries, bin)
}

/// What represents a bin, in ns: its geometric middle.
fn middle(boundaries: &[u64], bin: usize) -> Option<f64> {
    let edge = |index: usize| boundaries.get(index).map(|ns| *ns as f64);
    match (bin.checked_sub(1).and_then(edge), edge(bin)) {
        (Some(low), Some(high)) => Some((low * high).sqrt()),
        // Of the first and the last bin only one edge is known.
        (low, high) => low.or(high),
    }
}

/// Least I/Os of a median and of a 99th percentile: as many as leave some on either side.
const LEAST: [(&str, f64, u64); 2] = [("p50", 0.5, 6), ("p99", 0.99, 368)];

/// The bins of all disks together, of one kind of I/O, with their boundaries; `None` of none.
fn together<'d>(all: &'d [DiskLatency], operation: &str) -> Option<(&'d [u64], Vec<u64>)> {
    let of = || all.iter().filter(|one| one.operation == operation);
    let mut bins: Vec<u64> = Vec::new();
    for one in of() {
        bins.resize(bins.len().max(one.bins.len()), 0);
        bins.iter_mut().zip(&one.bins).for_each(|(sum, more)| *sum += more);
    }
    of().next().map(|first| (first.boundaries_ns.as_slice(), bins))
}

/// The distributions over all disks of which [`samples`] has percentiles, in a phase that took so long: each I/O has the latency that
/// represents its bin.
#[must_use]
pub fn points(all: &[DiskLatency], took_ns: u64) -> Vec<Point> {
    let point = |operation: &&str| {
        let (boundaries, bins) = together(all, operation)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two boundaries")]
        let counts = bins.iter().enumerate().filter_map(|(bin, count)| Some((middle(boundaries, bin)? as u64, *count)));
        let histogram = hdr::encoded(&counts.collect())?;
        let of = format!("qemu_{operation}_us");
        Some(Point::new(&format!("qemu {operation}"), (0, took_ns), Vec::new(), Some(histogram)).of(&[&of]))
    };
    OPERATIONS.iter().filter_map(point).collect()
}

/// Metrics over all disks: `qemu_read_mean_us`, `qemu_read_p50_us` and so on, as far as there are enough I/Os for them.
#[must_use]
pub fn samples(all: &[DiskLatency]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for operation in OPERATIONS {
        let (mut count, mut total) = (0, 0);
        for one in all.iter().filter(|one| one.operation == operation) {
            (count, total) = (count + one.operations, total + one.total_ns);
        }
        let Some((boundaries, bins)) = together(all, operation).filter(|_| count > 0) else { continue };
        let mut push = |what: &str, ns: f64| {
            samples.push(Sample { metric: format!("qemu_{operation}_{what}_us"), value: ns / 1e3 });
        };
        push("mean", total as f64 / count as f64);
        for (what, p, least) in LEAST {
            if let Some(ns) = percentile(boundaries, &bins, p, least) {
                push(what, ns);
            }
        }
    }
    samples
}

/// All of it, for a detail of a phase.
#[must_use]
pub fn document(all: &[DiskLatency]) -> Value {
    let one = |of: &DiskLatency| {
        // Bins without I/Os say nothing.
        let counted: Vec<[u64; 2]> = of
            .bins
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(bin, count)| [of.boundaries_ns.get(bin).copied().unwrap_or(u64::MAX), *count])
            .collect();
        json!({
            "disk": of.disk,
            "operation": of.operation,
            "operations": of.operations,
            "total_ns": of.total_ns,
            "below_ns": counted,
        })
    };
    all.iter().filter(|of| of.operations > 0).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_rise_evenly_to_their_ends() {
        let all = boundaries_ns();
        assert_eq!((all.first(), all.last()), (Some(&1000), Some(&100_000_000_000)));
        assert!(all.windows(2).all(|pair| pair[1] > pair[0] && pair[1] * 100 <= pair[0] * 117));
    }

    fn of(disk: &str, operation: &'static str, bins: &[u64]) -> DiskLatency {
        let operations = bins.iter().sum();
        let boundaries_ns = vec![1000, 4000, 16_000];
        DiskLatency {
            disk: disk.to_owned(),
            operation,
            operations,
            total_ns: 2000 * operations,
            boundaries_ns,
            bins: bins.to_vec(),
        }
    }

    #[test]
    fn percentiles_are_of_all_disks_and_need_enough_operations() {
        let all = [
            of("disk0", "read", &[0, 300, 0, 0]),
            of("disk1", "read", &[0, 50, 49, 1]),
            of("disk0", "write", &[0, 0, 0, 5]),
        ];
        let found: Vec<(String, f64)> = samples(&all).into_iter().map(|sample| (sample.metric, sample.value)).collect();
        let expected = [
            ("qemu_read_mean_us", 2.0),
            ("qemu_read_p50_us", 2.0),
            ("qemu_read_p99_us", 8.0),
            ("qemu_write_mean_us", 2.0),
        ];
        assert_eq!(found, expected.map(|(metric, value)| (metric.to_owned(), value)));
        assert_eq!(samples(&[of("disk0", "flush", &[0; 4])]), []);
        // Percentiles of several trials are those of all their I/Os, for which each must be stored.
        let points = points(&all, 7);
        let names: Vec<&str> = points.iter().map(|point| point.distributions[0].as_str()).collect();
        assert_eq!(names, ["qemu_read_us", "qemu_write_us"]);
        let reads = hdr::decoded(points[0].histogram.as_deref().expect("reads")).expect("as written");
        assert_eq!((reads.count(), reads.value_at(0.5), points[0].end_ns), (400, Some(2000), 7));
        assert_eq!(reads.value_at(0.99).map(|ns| ns / 100), Some(80), "to a thousandth");
        assert_eq!(percentile(&[1000], &[0, 10], 0.5, 6), Some(1000.0), "above the last boundary");
    }

    #[test]
    fn the_document_has_the_bins_that_have_something() {
        let found = document(&[of("disk0", "read", &[0, 3, 0, 1]), of("disk0", "flush", &[0; 4])]);
        assert_eq!(found[0]["below_ns"], json!([[4000, 3], [u64::MAX, 1]]));
        assert_eq!(found.as_array().map(Vec::len), Some(1));
    }
}
