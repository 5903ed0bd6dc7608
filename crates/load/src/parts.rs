//! Parts of a phase, as every load shows them: stretches of time with what was counted in them, and distributions of latencies.

use crate::latency::Latencies;
use baremark_model::seam::Sample;
use baremark_model::wire::Point;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const SECOND: u64 = 1_000_000_000;
/// The most stretches that a phase has; those of a longer phase are longer than a second.
const MOST: usize = 3600;

/// Stretches of a measured time, which began `begin_ns` after the phase and took `elapsed_ns`. Of the seconds of each, and its length in s,
/// `make` gives samples and a histogram, or nothing where it has none.
pub fn stretches<S>(
    seconds: &[S],
    (begin_ns, elapsed_ns): (u64, u64),
    make: impl Fn(&[S], f64) -> Option<(Vec<Sample>, Option<String>)>,
) -> Vec<Point> {
    let each = seconds.len().div_ceil(MOST).max(1);
    let stretch = |(at, seconds): (usize, &[S])| {
        let from = (at * each) as u64 * SECOND;
        let to = (from + each as u64 * SECOND).min(elapsed_ns).max(from);
        let (samples, histogram) = make(seconds, (to - from) as f64 / SECOND as f64)?;
        Some(Point::new("all", (begin_ns + from, begin_ns + to), samples, histogram))
    };
    seconds.chunks(each).enumerate().filter_map(stretch).collect()
}

impl Latencies {
    /// As a point carries them: in HdrHistogram's V2 format and base64; `None` of none.
    #[must_use]
    pub fn encoded(&self) -> Option<String> {
        (self.count() > 0).then(|| STANDARD.encode(self.to_v2()))
    }

    /// Percentiles in ms, each by its metric, as far as there are enough latencies for them.
    #[must_use]
    pub fn percentiles_ms(&self, metrics: &[(&str, f64)]) -> Vec<Sample> {
        metrics.iter().filter_map(|(metric, p)| Some(Sample::new(*metric, self.percentile(*p)? as f64 / 1e6))).collect()
    }
}
