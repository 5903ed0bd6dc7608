//! What each treatment measured over the time of its phases, from the parts of stored phases.
//!
//! The phases of a treatment are joined in the order in which they ran, without what was between them, and divided into few stretches of equal
//! length, so that a document's size does not follow that of the run.

use crate::run::Run;
use baremark_model::hdr;
use baremark_model::order;
use baremark_model::percentile::Percentile;
use baremark_model::plan::PlannedArm;
use baremark_model::seam::Sample;
use baremark_model::timeline::{BINS, BinnedLatencies, MOST_STRETCHES, Stretch, TimelineRow, bin, read};
use baremark_model::wire::Point;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;
/// Treatments whose time a document has.
const MOST_ROWS: usize = 64;
/// The part of a phase that is of all operations together.
const ALL: &str = "all";
/// How the keys of counts begin; other values are rates and levels.
const COUNTS: &str = "failed";

/// A last part of a phase that is shorter is not a part of its own: clocks are read after the work has ended.
const REST: u64 = SECOND / 100;

/// A part of a phase on the treatment's own time.
struct Piece<'p> {
    from_ns: u64,
    block: u64,
    discarded: bool,
    flagged: bool,
    /// Whether it is what is left at the end of its phase, of hardly any length.
    rest: bool,
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

    fn middle_ns(&self) -> u64 {
        self.from_ns.saturating_add(self.length_ns() / 2)
    }
}

/// The rows of a run, one for each treatment whose phases have parts over time.
pub(crate) fn rows(run: &Run) -> Vec<TimelineRow> {
    let row = |(planned, pieces): (&PlannedArm, Vec<Piece<'_>>)| {
        let stretches = stretches(pieces);
        (stretches.len() > 1).then(|| TimelineRow { treatment: planned.treatment.clone(), stretches })
    };
    run.plan.arms.iter().zip(pieces(run)).filter_map(row).take(MOST_ROWS).collect()
}

/// The parts of all phases of each arm, also of trials that do not count.
fn pieces(run: &Run) -> Vec<Vec<Piece<'_>>> {
    let mut all: Vec<(u64, Vec<Piece<'_>>)> = run.plan.arms.iter().map(|_| (0, Vec::new())).collect();
    for trial in &run.trials {
        let Some(result) = &trial.result else { continue };
        let arms = run.plan.cells.get(trial.cell).map(|cell| run.plan.arms_of(*cell)).unwrap_or_default();
        let (block, discarded, flagged) = (trial.block, trial.counted().is_none(), !result.flags.is_empty());
        for phase in &result.series {
            let of_arm = arms.get(phase.arm).and_then(|arm| all.get_mut(*arm));
            let Some((before_ns, pieces)) = of_arm else { continue };
            let parts = || phase.points.iter().filter(|point| is_over_time(point));
            let Some(begin_ns) = parts().map(|point| point.begin_ns).min() else { continue };
            let end_ns = parts().map(|point| point.end_ns).max().unwrap_or(begin_ns);
            pieces.extend(parts().map(|point| {
                let from_ns = before_ns.saturating_add(point.begin_ns - begin_ns);
                let is_short = point.end_ns - point.begin_ns < REST;
                let rest = is_short && point.begin_ns > begin_ns && point.end_ns == end_ns;
                Piece { from_ns, block, discarded, flagged, rest, point }
            }));
            *before_ns = before_ns.saturating_add(end_ns - begin_ns);
        }
    }
    all.into_iter().map(|(_, pieces)| pieces).collect()
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
    discarded: bool,
    flagged: bool,
    /// Of each metric the sum, and the seconds that it is of.
    samples: BTreeMap<&'p str, (f64, f64)>,
    latencies: BTreeMap<&'p str, Vec<u64>>,
}

impl<'p> Sum<'p> {
    fn add(&mut self, piece: &Piece<'p>) {
        let Piece { block, discarded, flagged, point, .. } = *piece;
        let [first, last] = self.blocks.unwrap_or([block; 2]);
        self.blocks = Some([first.min(block), last.max(block)]);
        self.discarded |= discarded;
        self.flagged |= flagged;
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
        for (bin, more) in read(&point.bins) {
            count(bin, more);
        }
        let whole = point.histogram.as_deref().filter(|_| point.bins.is_empty());
        for (ns, more) in whole.and_then(|text| hdr::decoded(text).ok()).iter().flat_map(|read| read.counts()) {
            count(bin(*ns), *more);
        }
    }

    fn stretch(self, at_s: f64, seconds: f64) -> Option<Stretch> {
        // The sum of a stranger's values may be beyond all numbers.
        let means = self.samples.into_iter().map(|(metric, (sum, of))| (metric, sum / of));
        let samples = means.filter(|(_, mean)| mean.is_finite()).map(|(metric, mean)| Sample::new(metric, mean));
        let latencies = self.latencies.into_iter().map(|(name, bins)| {
            let bins = (0..).zip(bins).filter(|(_, count)| *count > 0).map(|(bin, count)| [bin, count]);
            BinnedLatencies { name: name.to_owned(), bins: bins.collect() }
        });
        let (samples, latencies) = (samples.collect(), latencies.collect());
        let Sum { blocks, discarded, flagged, .. } = self;
        Some(Stretch { at_s, seconds, blocks: blocks?, discarded, flagged, samples, latencies })
    }
}

/// At most [`MOST_STRETCHES`], which end where parts end, so that what is counted of each is of the time that it claims.
fn stretches(mut pieces: Vec<Piece<'_>>) -> Vec<Stretch> {
    order::by_key(&mut pieces, |piece| piece.from_ns);
    let total_ns = pieces.iter().map(Piece::end_ns).max().unwrap_or(0);
    let width_ns = total_ns.div_ceil(MOST_STRETCHES as u64).div_ceil(SECOND).max(1) * SECOND;
    let mut all: Vec<(u64, u64, Sum<'_>)> = Vec::new();
    for piece in &pieces {
        let is_full = all.len() >= MOST_STRETCHES;
        let continues = |&(from_ns, to_ns, _): &(u64, u64, Sum<'_>)| {
            is_full || piece.rest || piece.middle_ns() < to_ns || (to_ns - from_ns).saturating_add(REST) < width_ns
        };
        match all.last_mut().filter(|last| continues(last)) {
            Some((_, to_ns, sum)) => {
                *to_ns = piece.end_ns().max(*to_ns);
                sum.add(piece);
            }
            None => {
                let from_ns = all.last().map_or(0, |(_, to_ns, _)| *to_ns).max(piece.from_ns);
                let mut sum = Sum::default();
                sum.add(piece);
                all.push((from_ns, piece.end_ns().max(from_ns), sum));
            }
        }
    }
    let stretch = |(from_ns, to_ns, sum): (u64, u64, Sum<'_>)| {
        sum.stretch(from_ns as f64 / SECOND as f64, (to_ns - from_ns) as f64 / SECOND as f64)
    };
    all.into_iter().filter_map(stretch).collect()
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
        let state = |point| Piece { from_ns: 0, block, discarded: false, flagged: false, rest: false, point };
        points.iter().map(|point| Piece { from_ns: point.begin_ns, ..state(point) }).collect()
    }

    #[test]
    fn each_second_has_its_rate_its_percentile_and_its_latencies_in_bins() {
        let points =
            [second(0, 10.0, 0.0, 2.0, &[(1000, 7), (1_000_000, 1)]), second(1, 20.0, 3.0, 4.0, &[(1000, 20)])];
        let found = stretches(pieces(&points, 2));
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
        let found = stretches(all);
        assert_eq!(found.len(), MOST_STRETCHES);
        let last = found.last().expect("stretches");
        assert_eq!((last.at_s, last.seconds, last.blocks), (118.0, 2.0, [1, 1]));
        let samples = [("failed_operations", 2.0), ("latency_p99_ms", 119.0), ("requests_per_s", 118.5)];
        assert_eq!(last.samples, samples.map(|(key, value)| Sample::new(key, value)));
        assert_eq!(last.latencies[0].bins, [[19, 2]]);
    }

    /// Reads that ended from one time to another, in ms.
    fn reads(from_ms: u64, to_ms: u64, count: u64) -> Point {
        let ns = |ms: u64| ms * (SECOND / 1000);
        Point { bins: format!("19:{count}"), ..Point::new("read", (ns(from_ms), ns(to_ms)), Vec::new(), None) }
    }

    /// Of each stretch where it begins, its length and its count.
    fn counted(points: &[Point]) -> Vec<(f64, f64, u64)> {
        let count = |of: &Stretch| of.latencies.iter().flat_map(|of| &of.bins).map(|[_, count]| *count).sum();
        stretches(pieces(points, 0)).iter().map(|of| (of.at_s, of.seconds, count(of))).collect()
    }

    /// Before, a second of each four had all of their operations, and the others none.
    #[test]
    fn stretches_end_where_parts_end() {
        let long: Vec<Point> = (0..3).map(|at| reads(4000 * at, 4000 * (at + 1), 40)).collect();
        assert_eq!(counted(&long), [(0.0, 4.0, 40), (4.0, 4.0, 40), (8.0, 4.0, 40)]);
        // Phases of 1.5 s, whose parts are a second and half a second: each stretch has ten of a second.
        let phases = [reads(0, 1000, 10), reads(1000, 1500, 5), reads(1500, 2500, 10), reads(2500, 3000, 5)];
        assert_eq!(counted(&phases), [(0.0, 1.0, 10), (1.0, 1.5, 15), (2.5, 0.5, 5)]);
        // Parts of two kinds of whose clocks one was read a moment later.
        let two = [reads(0, 1000, 1), reads(0, 1002, 2), reads(1000, 2000, 4), reads(1002, 2004, 8)];
        assert_eq!(counted(&two), [(0.0, 1.002, 3), (1.002, 1.002, 12)]);
    }

    #[test]
    fn what_is_left_at_the_end_of_a_phase_is_part_of_the_stretch_before() {
        let points = [reads(0, 1000, 7), reads(1000, 1002, 1), reads(1002, 2002, 9)];
        let mut all = pieces(&points, 0);
        (all[1].rest, all[1].discarded, all[1].flagged) = (true, true, false);
        all[2].flagged = true;
        let found = stretches(all);
        let states: Vec<(f64, bool, bool)> = found.iter().map(|of| (of.seconds, of.discarded, of.flagged)).collect();
        assert_eq!(states, [(1.002, true, false), (1.0, false, true)]);
    }

    #[test]
    fn values_beyond_all_numbers_are_left_out() {
        let huge = |of: u64| second(of, f64::MAX, f64::MAX, 1.0, &[]);
        let points: Vec<Point> = (0..120).map(huge).collect();
        let found = stretches(pieces(&points, 0));
        let keys = |of: &Stretch| of.samples.iter().map(|of| of.metric.clone()).collect::<Vec<_>>();
        assert!(found.iter().all(|of| keys(of) == ["latency_p99_ms"]), "{found:?}");
    }

    #[test]
    fn distributions_of_the_whole_phase_are_no_stretch() {
        let whole = second(0, 1.0, 0.0, 1.0, &[(1, 1)]).of(&["latency_ms"]);
        let binned = Point { bins: "33:5 900:1".to_owned(), ..Point::new("read", (0, SECOND), Vec::new(), None) };
        assert!(!is_over_time(&whole) && is_over_time(&binned));
        // A bin that does not exist is not counted.
        let found = stretches(pieces(&[binned], 0));
        assert_eq!(found[0].latencies, [BinnedLatencies { name: "read".to_owned(), bins: vec![[33, 5]] }]);
        assert!(stretches(Vec::new()).is_empty());
    }
}
