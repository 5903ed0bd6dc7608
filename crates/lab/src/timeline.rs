//! What each treatment measured over the time of its phases, from the parts of stored phases.
//!
//! The phases of a treatment are joined in the order in which they ran, without what was between them, and divided into few stretches of equal
//! length, so that a document's size does not follow that of the run.

use crate::run::Run;
use baremark_model::hdr;
use baremark_model::percentile::Percentile;
use baremark_model::plan::PlannedArm;
use baremark_model::seam::Sample;
use baremark_model::timeline::{BINS, BinnedLatencies, MOST_STRETCHES, Stretch, TimelineRow, bin};
use baremark_model::wire::Point;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;
/// Treatments whose time a document has.
const MOST_ROWS: usize = 64;
/// The part of a phase that is of all operations together.
const ALL: &str = "all";
/// How the keys of counts begin; other values are rates and levels.
const COUNTS: &str = "failed";

/// A part of a phase on the treatment's own time.
struct Piece<'p> {
    from_ns: u64,
    block: u64,
    point: &'p Point,
}

impl Piece<'_> {
    fn length_ns(&self) -> u64 {
        self.point.end_ns - self.point.begin_ns
    }

    /// Times that a stranger wrote may be any.
    fn end_ns(&self) -> u64 {
        self.from_ns.saturating_add(self.length_ns())
    }
}

/// The rows of a run, one for each treatment whose phases have parts over time.
pub(crate) fn rows(run: &Run) -> Vec<TimelineRow> {
    let row = |(arm, planned): (usize, &PlannedArm)| {
        let stretches = stretches(&pieces(run, arm));
        (stretches.len() > 1).then(|| TimelineRow { treatment: planned.treatment.clone(), stretches })
    };
    run.plan.arms.iter().enumerate().filter_map(row).take(MOST_ROWS).collect()
}

/// The parts of all phases of an arm, also of trials that do not count.
fn pieces(run: &Run, arm: usize) -> Vec<Piece<'_>> {
    let (mut pieces, mut before_ns) = (Vec::new(), 0_u64);
    for trial in &run.trials {
        let arms = run.plan.cells.get(trial.cell).map(|cell| run.plan.arms_of(*cell)).unwrap_or_default();
        let phases = trial.result.iter().flat_map(|result| &result.series);
        for phase in phases.filter(|phase| arms.get(phase.arm) == Some(&arm)) {
            let parts = || phase.points.iter().filter(|point| is_over_time(point));
            let Some(begin_ns) = parts().map(|point| point.begin_ns).min() else { continue };
            let end_ns = parts().map(|point| point.end_ns).max().unwrap_or(begin_ns);
            let block = trial.block;
            pieces.extend(parts().map(|point| {
                let from_ns = before_ns.saturating_add(point.begin_ns - begin_ns);
                Piece { from_ns, block, point }
            }));
            before_ns = before_ns.saturating_add(end_ns - begin_ns);
        }
    }
    pieces
}

/// Whether a part is a stretch of its phase, and no distribution of the whole.
fn is_over_time(point: &Point) -> bool {
    let values = point.name == ALL && point.distributions.is_empty() && !point.samples.is_empty();
    point.end_ns > point.begin_ns && (values || !point.bins.is_empty())
}

/// What is added up of a stretch.
#[derive(Default)]
struct Sum<'p> {
    blocks: Option<[u64; 2]>,
    /// Of each metric the sum, and the seconds that it is of.
    samples: BTreeMap<&'p str, (f64, f64)>,
    latencies: BTreeMap<&'p str, Vec<u64>>,
}

impl<'p> Sum<'p> {
    fn add(&mut self, piece: &Piece<'p>) {
        let Piece { block, point, .. } = *piece;
        let [first, last] = self.blocks.unwrap_or([block; 2]);
        self.blocks = Some([first.min(block), last.max(block)]);
        let seconds = piece.length_ns() as f64 / SECOND as f64;
        for sample in point.samples.iter().filter(|sample| sample.value.is_finite()) {
            let (sum, of) = self.samples.entry(&sample.metric).or_default();
            if Percentile::of_key(&sample.metric).is_some() {
                (*sum, *of) = (sum.max(sample.value), 1.0);
            } else if sample.metric.starts_with(COUNTS) {
                (*sum, *of) = (*sum + sample.value, 1.0);
            } else {
                (*sum, *of) = (*sum + sample.value * seconds, *of + seconds);
            }
        }
        let mut count = |bin: usize, more: u64| {
            let bins = self.latencies.entry(&point.name).or_insert_with(|| vec![0; BINS]);
            if let Some(known) = bins.get_mut(bin) {
                *known = known.saturating_add(more);
            }
        };
        for [bin, more] in &point.bins {
            count(usize::try_from(*bin).unwrap_or(usize::MAX), *more);
        }
        let whole = point.histogram.as_deref().filter(|_| point.bins.is_empty());
        for (ns, more) in whole.and_then(|text| hdr::decoded(text).ok()).iter().flat_map(|read| read.counts()) {
            count(bin(*ns), *more);
        }
    }

    fn stretch(self, at_s: f64, seconds: f64) -> Option<Stretch> {
        let samples = self.samples.into_iter().map(|(metric, (sum, of))| Sample::new(metric, sum / of));
        let latencies = self.latencies.into_iter().map(|(name, bins)| {
            let bins = (0..).zip(bins).filter(|(_, count)| *count > 0).map(|(bin, count)| [bin, count]);
            BinnedLatencies { name: name.to_owned(), bins: bins.collect() }
        });
        let (samples, latencies) = (samples.collect(), latencies.collect());
        Some(Stretch { at_s, seconds, blocks: self.blocks?, samples, latencies })
    }
}

/// At most [`MOST_STRETCHES`] of whole seconds each. A part belongs to the stretch in which its middle is.
fn stretches(pieces: &[Piece<'_>]) -> Vec<Stretch> {
    let total_ns = pieces.iter().map(Piece::end_ns).max().unwrap_or(0);
    let width_ns = total_ns.div_ceil(MOST_STRETCHES as u64).div_ceil(SECOND).max(1) * SECOND;
    let mut sums: BTreeMap<u64, Sum<'_>> = BTreeMap::new();
    for piece in pieces {
        sums.entry(piece.from_ns.saturating_add(piece.length_ns() / 2) / width_ns).or_default().add(piece);
    }
    let stretch = |(number, sum): (u64, Sum<'_>)| {
        let from_ns = number * width_ns;
        let length_ns = width_ns.min(total_ns.saturating_sub(from_ns));
        sum.stretch(from_ns as f64 / SECOND as f64, length_ns as f64 / SECOND as f64)
    };
    sums.into_iter().filter_map(stretch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::histogram::Histogram;

    fn second(of: u64, rate: f64, failed: f64, p99: f64, latencies: &[(u64, u64)]) -> Point {
        let samples = vec![
            Sample::new("requests_per_s", rate),
            Sample::new("failed_operations", failed),
            Sample::new("latency_p99_ms", p99),
        ];
        let histogram: Histogram = latencies.iter().copied().collect();
        Point::new(ALL, (of * SECOND, (of + 1) * SECOND), samples, hdr::encoded(&histogram))
    }

    fn pieces<'p>(points: &'p [Point], block: u64) -> Vec<Piece<'p>> {
        points.iter().map(|point| Piece { from_ns: point.begin_ns, block, point }).collect()
    }

    #[test]
    fn each_second_has_its_rate_its_percentile_and_its_latencies_in_bins() {
        let points =
            [second(0, 10.0, 0.0, 2.0, &[(1000, 7), (1_000_000, 1)]), second(1, 20.0, 3.0, 4.0, &[(1000, 20)])];
        let found = stretches(&pieces(&points, 2));
        let times: Vec<(f64, f64, [u64; 2])> = found.iter().map(|of| (of.at_s, of.seconds, of.blocks)).collect();
        assert_eq!(times, [(0.0, 1.0, [2, 2]), (1.0, 1.0, [2, 2])]);
        let all = |bins: &[[u64; 2]]| vec![BinnedLatencies { name: ALL.to_owned(), bins: bins.to_vec() }];
        // 2^9.5 ns to 2^10 ns has a microsecond, 2^19.5 ns to 2^20 ns a millisecond.
        assert_eq!([&found[0].latencies, &found[1].latencies], [&all(&[[19, 7], [39, 1]]), &all(&[[19, 20]])]);
        let value = |of: &Stretch, key: &str| of.samples.iter().find(|of| of.metric == key).map(|of| of.value);
        assert_eq!(value(&found[1], "requests_per_s"), Some(20.0));
        assert_eq!(value(&found[1], "failed_operations"), Some(3.0));
    }

    #[test]
    fn long_work_has_few_stretches_with_the_mean_of_rates_the_largest_percentile_and_the_sum_of_counts() {
        #[expect(clippy::cast_precision_loss, reason = "few seconds")]
        let points: Vec<Point> = (0..120).map(|at| second(at, at as f64, 1.0, at as f64, &[(1000, 1)])).collect();
        let mut all = pieces(&points[..60], 0);
        all.extend(pieces(&points[60..], 1));
        let found = stretches(&all);
        assert_eq!(found.len(), MOST_STRETCHES);
        let last = found.last().expect("stretches");
        assert_eq!((last.at_s, last.seconds, last.blocks), (118.0, 2.0, [1, 1]));
        let samples = [("failed_operations", 2.0), ("latency_p99_ms", 119.0), ("requests_per_s", 118.5)];
        assert_eq!(last.samples, samples.map(|(key, value)| Sample::new(key, value)));
        assert_eq!(last.latencies[0].bins, [[19, 2]]);
    }

    #[test]
    fn distributions_of_the_whole_phase_are_no_stretch() {
        let whole = second(0, 1.0, 0.0, 1.0, &[(1, 1)]).of(&["latency_ms"]);
        let binned = Point { bins: vec![[33, 5], [900, 1]], ..Point::new("read", (0, SECOND), Vec::new(), None) };
        assert!(!is_over_time(&whole) && is_over_time(&binned));
        // A bin that does not exist is not counted.
        let found = stretches(&pieces(&[binned], 0));
        assert_eq!(found[0].latencies, [BinnedLatencies { name: "read".to_owned(), bins: vec![[33, 5]] }]);
        assert!(stretches(&[]).is_empty());
    }
}
