//! Values of arms over trials: estimates, with intervals that hold nothing impossible, and percentiles in order.
//!
//! What is positive (a time, a rate, a size) is estimated on the log scale, as ratios are: its interval is as skewed as the values, and
//! reaches no negative latency. What may be zero is estimated as it is, and its interval ends at zero.
//!
//! A percentile is that of all trials' samples together: neither a mean nor a median of percentiles is a percentile of anything. Its interval
//! is the wider one, at each end, of two: of [`clusters`], which knows how the share below it differs between trials, and of the spread of the
//! trials' own percentiles, longer where trials have unequal numbers of samples.
//!
//! Trials of earlier versions and of ensembles have percentiles without their distribution. Theirs are estimated as other metrics, and
//! since high ones are absent from trials with few samples, and means over different trials are out of order, the higher one is then
//! estimated by its quotient to the lower one in the trials that have both, times the lower one's estimate over all: a ratio estimator
//! (Cochran 1977, chapter 6). In a trial the higher one is the larger, so that it is in the estimate.

use crate::trials::percentile_of;
use baremark_model::histogram::Histogram;
use baremark_model::percentile::Percentile;
use baremark_stats::clusters::{self, Cluster};
use baremark_stats::estimate::median;
use baremark_stats::location::{SMALLEST, centre};
use baremark_stats::{Estimate, Interval};
use std::collections::BTreeMap;

/// The false discovery rate of a study, and one minus the confidence of a single interval.
pub const RATE: f64 = 0.05;

/// An estimate over trials.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub estimate: f64,
    /// `None` below four trials.
    pub interval: Option<Interval>,
    /// Trials that have a value.
    pub n: usize,
    /// The percentile to whose estimate its quotient was applied.
    pub over: Option<String>,
    /// What a percentile of all trials' samples together rests on.
    pub merged: Option<Merged>,
}

/// What a percentile of several trials rests on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Merged {
    /// Samples of all trials.
    pub samples: u64,
    /// The median of the trials' own percentiles; `None` where none has enough samples.
    pub median: Option<f64>,
    /// The mean of the samples.
    pub mean: Option<f64>,
    /// Their standard deviation; `None` of one.
    pub deviation: Option<f64>,
}

/// Of values, one a trial, in the order measured; `None` without any, or for one that is not finite.
pub(crate) fn of(values: &[f64]) -> Option<Value> {
    let (estimate, interval) = match values.iter().all(|value| *value > 0.0) {
        true => {
            let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            (centre(&logs)?.exp(), plain(&logs).map(|interval| interval.exp()))
        }
        false => (centre(values)?, plain(values).map(|interval| from_zero(values, interval))),
    };
    // What was the same every time stays what it was, whatever the logarithm has lost in its last digit.
    let (least, most) =
        values.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(*value), most.max(*value)));
    let estimate = if least > 0.0 { estimate.clamp(least, most) } else { estimate };
    let interval = interval.map(|interval| Interval {
        centre: estimate,
        lo: interval.lo.min(estimate),
        hi: interval.hi.max(estimate),
        ..interval
    });
    Some(Value { estimate, interval, n: values.len(), over: None, merged: None })
}

/// The interval of an amount.
pub(crate) fn interval(values: &[f64]) -> Option<Interval> {
    of(values)?.interval
}

fn plain(values: &[f64]) -> Option<Interval> {
    Estimate::of(values).map(|estimate| estimate.interval(1.0 - RATE))
}

/// What is never negative has no interval below zero.
fn from_zero(values: &[f64], interval: Interval) -> Interval {
    let nowhere_below = values.iter().all(|value| *value >= 0.0);
    Interval { lo: if nowhere_below { interval.lo.max(0.0) } else { interval.lo }, ..interval }
}

/// The interval of a metric of this unit: a share ends at the whole.
pub(crate) fn of_unit(interval: Interval, unit: &str) -> Interval {
    /// The whole, in percent.
    const WHOLE: f64 = 100.0;
    match unit {
        "%" if interval.centre <= WHOLE => Interval { hi: interval.hi.min(WHOLE), ..interval },
        _ => interval,
    }
}

/// Of several metrics, each with one value for each trial that has it, all in one order of trials. `distribution` has the samples of a trial,
/// by its place in that order, of a distribution that percentiles' keys name; `None` where they are not known. It is asked twice, so that the
/// samples of one trial are in memory at once.
pub(crate) fn of_all(
    metrics: &[(&str, Vec<Option<f64>>)],
    distribution: impl Fn(&str, usize) -> Option<Histogram>,
) -> Vec<Option<Value>> {
    let mut families: BTreeMap<String, Vec<(Percentile, usize)>> = BTreeMap::new();
    for (at, (key, values)) in metrics.iter().enumerate() {
        if let Some(percentile) = Percentile::of_key(key).filter(|_| !values.is_empty()) {
            families.entry(percentile.of.clone()).or_default().push((percentile, at));
        }
    }
    let mut found: Vec<Option<Value>> =
        metrics.iter().map(|(_, values)| of(&values.iter().copied().flatten().collect::<Vec<_>>())).collect();
    for (of, mut family) in families {
        baremark_model::order::by(&mut family, |one, two| one.0.share.total_cmp(&two.0.share));
        let trials = metrics[family[0].1].1.len();
        let percentiles: Vec<&Percentile> = family.iter().map(|(percentile, _)| percentile).collect();
        if let Some(values) = merged(&percentiles, trials, |trial| distribution(&of, trial)) {
            family.iter().zip(values).for_each(|((_, at), value)| found[*at] = value);
            continue;
        }
        family.retain(|(_, at)| metrics[*at].1.iter().any(Option::is_some));
        let widest = family.iter().map(|(_, at)| count(&metrics[*at].1)).max().unwrap_or(0);
        for pair in family.windows(2) {
            let (below, above) = (pair[0].1, pair[1].1);
            if count(&metrics[above].1) < widest {
                found[above] = beyond(metrics, &found, below, above);
            }
        }
    }
    found
}

fn count(values: &[Option<f64>]) -> usize {
    values.iter().flatten().count()
}

/// Percentiles of one distribution, each of all samples of so many trials together; `None` where those of some trial are not known, and in
/// it where they are too few.
fn merged(
    percentiles: &[&Percentile],
    trials: usize,
    samples: impl Fn(usize) -> Option<Histogram>,
) -> Option<Vec<Option<Value>>> {
    if percentiles.iter().any(|of| of.unit_ns().is_none()) {
        return None;
    }
    let mut all = Histogram::default();
    // Of each trial, how many, and its own percentiles.
    let mut own: Vec<(u64, Vec<Option<f64>>)> = Vec::with_capacity(trials);
    for trial in 0..trials {
        let samples = samples(trial)?;
        own.push((samples.count(), percentiles.iter().map(|of| percentile_of(&samples, of)).collect()));
        all.add(&samples);
    }
    let at: Vec<Option<u64>> = percentiles.iter().map(|of| all.value_at(of.share)).collect();
    let mut clusters: Vec<Vec<Cluster>> = vec![Vec::with_capacity(trials); percentiles.len()];
    for trial in 0..trials {
        let samples = samples(trial)?;
        for (clusters, at) in clusters.iter_mut().zip(&at) {
            clusters.push(Cluster { below: at.map_or(0, |ns| samples.count_up_to(ns)), all: samples.count() });
        }
    }
    let value = |(index, percentile): (usize, &&Percentile)| {
        let own = own.iter().filter_map(|(samples, values)| Some((values[index]?, *samples)));
        merged_value(percentile, &all, &clusters[index], &own.collect::<Vec<_>>())
    };
    Some(percentiles.iter().enumerate().map(value).collect())
}

/// A percentile of all samples, of which `own` has the percentiles and sizes of the trials that have enough.
fn merged_value(percentile: &Percentile, all: &Histogram, clusters: &[Cluster], own: &[(f64, u64)]) -> Option<Value> {
    let (estimate, unit_ns) = (percentile_of(all, percentile)?, percentile.unit_ns()?);
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of at most an hour")]
    let value_at = |share: f64| all.value_at(share).map(|ns| ns as f64 / unit_ns);
    let of_shares = clusters::limits(percentile.share, clusters, 1.0 - RATE);
    let of_shares = of_shares.and_then(|(lo, hi)| value_at(lo).zip(value_at(hi)));
    let (values, sizes): (Vec<f64>, Vec<u64>) = own.iter().copied().unzip();
    let longer = clusters::unequal(&sizes);
    let of_spread = of(&values).and_then(|value| Some((value.estimate, value.interval?))).filter(|(_, of)| of.lo > 0.0);
    let of_spread = of_spread.map(|(centre, spread)| {
        let reach = |quotient: f64| (longer * quotient.ln()).exp();
        (estimate / reach(centre / spread.lo), estimate * reach(spread.hi / centre))
    });
    // Few trials of which one is far off spread beyond everything that was measured.
    let of_spread = of_spread.zip(value_at(0.0).zip(value_at(1.0)));
    let of_spread = of_spread.map(|((lo, hi), (least, most))| (lo.max(least), hi.min(most)));
    let ends = of_shares.into_iter().chain(of_spread).reduce(|one, two| (one.0.min(two.0), one.1.max(two.1)));
    let trials = clusters.len();
    // The least and the largest of all move on with every trial.
    let inside = percentile.share > 0.0 && percentile.share < 1.0;
    let interval = ends.filter(|_| trials >= SMALLEST && inside).map(|(lo, hi)| Interval {
        centre: estimate,
        lo: lo.min(estimate),
        hi: hi.max(estimate),
        confidence: 1.0 - RATE,
        units: trials,
    });
    let (mean, deviation) = all.mean_and_deviation().unzip();
    let in_unit = |ns: f64| ns / unit_ns;
    let merged = Some(Merged {
        samples: all.count(),
        median: median(&values),
        mean: mean.map(in_unit),
        deviation: deviation.flatten().map(in_unit),
    });
    Some(Value { estimate, interval, n: trials, over: None, merged })
}

/// A percentile by its quotient to the one below it, in the trials that have both; `None` where there is none, or one is not positive.
fn beyond(metrics: &[(&str, Vec<Option<f64>>)], found: &[Option<Value>], below: usize, above: usize) -> Option<Value> {
    let base = found[below].as_ref().filter(|base| base.estimate > 0.0)?;
    let both = metrics[below].1.iter().zip(&metrics[above].1).filter_map(|(below, above)| (*below).zip(*above));
    let quotients: Vec<f64> = both.map(|(below, above)| (above / below).ln()).collect();
    let quotient = centre(&quotients)?;
    let estimate = base.estimate * quotient.exp();
    let together = |interval: Interval| {
        let of_base = base.interval?;
        // Two errors that are about independent: of the lower percentile, and of the quotient.
        let reach = |base_log: f64, own: f64| base_log.hypot(own).exp();
        let lo = estimate / reach((base.estimate / of_base.lo).ln(), interval.centre - interval.lo);
        let hi = estimate * reach((of_base.hi / base.estimate).ln(), interval.hi - interval.centre);
        (of_base.lo > 0.0).then_some(Interval { centre: estimate, lo, hi, ..interval })
    };
    let interval = plain(&quotients).and_then(together);
    Some(Value { estimate, interval, n: quotients.len(), over: Some(metrics[below].0.to_owned()), merged: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_amounts_hold_nothing_impossible() {
        let skewed = of(&[0.9, 1.0, 1.3, 6.0]).expect("values");
        let interval = skewed.interval.expect("an interval");
        assert!(0.0 < interval.lo && interval.lo < skewed.estimate && skewed.estimate < interval.hi, "{skewed:?}");
        assert!(interval.hi - skewed.estimate > skewed.estimate - interval.lo, "as skewed as the values: {skewed:?}");
        let with_zero = of(&[0.0, 0.0, 1.0, 0.5]).and_then(|value| value.interval).expect("an interval");
        assert!(with_zero.lo >= 0.0, "{with_zero:?}");
        let signed = of(&[-1.0, 1.0, 0.5, -0.5]).and_then(|value| value.interval).expect("an interval");
        assert!(signed.lo < 0.0 && signed.hi > 0.0, "a difference has both signs: {signed:?}");
        assert_eq!(of(&[250.0; 4]).map(|value| value.estimate), Some(250.0), "exactly");
        assert_eq!(of(&[2.0, 8.0]).map(|value| value.estimate), Some(4.0));
        assert_eq!([of(&[]), of(&[f64::NAN])], [None, None]);
    }

    /// As measured: p99.9 in the three quickest of six trials alone was below p99 of all.
    #[test]
    fn percentiles_without_distributions_are_in_order_whichever_trials_have_them() {
        let p50 = [10.0, 11.0, 10.0, 30.0, 32.0, 31.0];
        let p99 = [15.0, 16.0, 15.5, 60.0, 70.0, 66.0];
        let all = |values: &[f64]| -> Vec<Option<f64>> { values.iter().copied().map(Some).collect() };
        let p999 = vec![Some(18.0), Some(18.5), Some(17.0), None, None, None];
        let plain = of(&[18.0, 18.5, 17.0]).expect("values").estimate;
        let metrics = [
            ("latency_p99_9_us", p999),
            ("latency_p50_us", all(&p50)),
            ("latency_p99_us", all(&p99)),
            ("ops", all(&p50)),
        ];
        let found: Vec<Value> = of_all(&metrics, |_, _| None).into_iter().flatten().collect();
        let [high, low, middle, ops] = found.as_slice() else { panic!("{found:?}") };
        assert!(plain < middle.estimate, "the defect: {plain} below {}", middle.estimate);
        assert!(low.estimate < middle.estimate && middle.estimate < high.estimate, "{found:?}");
        assert_eq!(
            (high.n, high.over.as_deref(), middle.n, middle.over.as_deref()),
            (3, Some("latency_p99_us"), 6, None)
        );
        assert_eq!((ops.n, high.interval.is_some(), middle.interval.is_some()), (6, false, true));
    }

    #[test]
    fn the_least_and_the_largest_of_all_samples_have_no_interval() {
        let metrics = ["run_p00_s", "run_p50_s", "run_max_s"].map(|key| (key, vec![None; 6]));
        let samples = |of: &str, trial: usize| -> Option<Histogram> {
            let ns = |run: u64| (1_000_000_000 + run * 1_000_000 + trial as u64, 1);
            (of == "run_s").then(|| (0..20).map(ns).collect())
        };
        let found: Vec<Value> = of_all(&metrics, samples).into_iter().flatten().collect();
        assert_eq!(found.iter().map(|value| value.interval.is_some()).collect::<Vec<_>>(), [false, true, false]);
        let [least, .., largest] = found.as_slice() else { panic!("{found:?}") };
        assert!((least.estimate - 1.0).abs() < 1e-6 && (largest.estimate - 1.019).abs() < 1e-6, "{found:?}");
        let merged = least.merged.as_ref().expect("all runs");
        assert_eq!(merged.samples, 120);
        // 20 steps of 1 ms, and the trials' few nanoseconds: the mean is in their middle.
        assert!(merged.mean.is_some_and(|mean| (mean - 1.0095).abs() < 1e-6), "{merged:?}");
        let deviation = 0.001 * (33.25_f64 * 120.0 / 119.0).sqrt();
        assert!(merged.deviation.is_some_and(|of| (of - deviation).abs() < 1e-6), "{merged:?}");
    }

    #[test]
    fn two_percentiles_of_the_same_few_trials_stay_in_order() {
        let some = |values: [f64; 5], from: usize| -> Vec<Option<f64>> {
            values.iter().enumerate().map(|(at, value)| (at >= from).then_some(*value)).collect()
        };
        let metrics = [
            ("a_p50_ms", some([9.0, 8.0, 1.0, 1.0, 1.0], 0)),
            ("a_p95_ms", some([0.0, 9.0, 2.0, 2.5, 2.0], 1)),
            ("a_p99_ms", some([0.0, 9.5, 2.5, 3.0, 2.5], 1)),
        ];
        let found: Vec<Value> = of_all(&metrics, |_, _| None).into_iter().flatten().collect();
        let values: Vec<f64> = found.iter().map(|value| value.estimate).collect();
        assert!(values.is_sorted() && values.len() == 3, "{values:?}");
        let widths = found[1].interval.zip(found[0].interval).expect("intervals");
        assert!(widths.0.lo < values[1] && values[1] < widths.0.hi, "{widths:?}");
    }

    /// `count` latencies spread evenly over 0 to `longest_ns`, in steps of `1/count`.
    fn trial(count: u64, longest_ns: u64) -> Histogram {
        (1..=count).map(|at| (at * longest_ns / count, 1)).collect()
    }

    fn merged_of(metrics: &[&str], trials: &[Histogram]) -> Vec<Option<Value>> {
        let percentiles = |key: &str| -> Vec<Option<f64>> {
            let percentile = Percentile::of_key(key).expect("a percentile");
            trials.iter().map(|trial| percentile_of(trial, &percentile)).collect()
        };
        let metrics: Vec<(&str, Vec<Option<f64>>)> = metrics.iter().map(|key| (*key, percentiles(key))).collect();
        of_all(&metrics, |of, at| (of == "latency_us").then(|| trials[at].clone()))
    }

    #[test]
    fn a_percentile_of_trials_is_that_of_all_their_samples() {
        // Three small quick trials, and a slow one with nine tenths of all samples.
        let trials = [trial(400, 1_000_000), trial(400, 1_000_000), trial(400, 1_000_000), trial(10_800, 9_000_000)];
        let found = merged_of(&["latency_p99_9_us", "latency_p50_us", "latency_max_us"], &trials);
        let [Some(high), Some(low), Some(most)] = found.as_slice() else { panic!("{found:?}") };
        let all = Histogram::merged(&trials);
        let direct = |share: f64| all.value_at(share).expect("samples") as f64 / 1e3;
        assert_eq!((high.estimate, low.estimate, most.estimate), (direct(0.999), direct(0.5), 9000.0));
        // Only the slow trial has enough samples for p99.9 of its own.
        let merged = |value: &Value| value.merged.clone().expect("merged");
        assert_eq!((merged(high).samples, high.n, merged(high).median), (12_000, 4, Some(8991.666)));
        // The median of the trials' medians says of the quick ones what the estimate says of the samples.
        assert!((merged(low).median.expect("medians") - 500.0).abs() < 1.0 && low.estimate > 3900.0, "{low:?}");
        for value in [high, low] {
            let interval = value.interval.expect("four trials");
            assert!(0.0 < interval.lo && interval.lo <= value.estimate && value.estimate <= interval.hi, "{value:?}");
            assert!(interval.hi <= most.estimate, "beyond the largest of all: {value:?}");
        }
    }

    #[test]
    fn percentiles_of_all_samples_are_in_order_and_need_as_many_as_they_rest_on() {
        let keys = ["latency_p50_us", "latency_p95_us", "latency_p99_us", "latency_p99_9_us"];
        let trials: Vec<Histogram> = (1..=6).map(|at| trial(at * 100, at * 1_000_000)).collect();
        let found: Vec<Option<Value>> = merged_of(&keys, &trials);
        let values: Vec<f64> = found.iter().flatten().map(|value| value.estimate).collect();
        assert!(values.len() == 3 && values.is_sorted(), "2100 samples are too few for p99.9: {found:?}");
        assert!(trials.iter().all(|trial| trial.count() < 3688));
        let more: Vec<Histogram> = (1..=12).map(|at| trial(400, at * 1_000_000)).collect();
        let high = merged_of(&["latency_p99_9_us"], &more).remove(0).expect("4800 samples are enough together");
        assert_eq!((high.merged.as_ref().and_then(|of| of.median), high.n), (None, 12), "of no trial alone");
        assert!(high.interval.is_some_and(|interval| interval.lo < high.estimate));
        assert_eq!(merged_of(&["latency_p50_us"], &trials[..3]).remove(0).expect("a value").interval, None);
    }

    /// Of trials that differ by a tenth and by a third, as trials of one server do: how often the interval of p50, p99 and p99.9 holds the
    /// percentile of what trials are drawn from.
    #[test]
    fn intervals_of_merged_percentiles_hold_the_truth() {
        use baremark_stats::rng::Rng;
        use baremark_stats::special::normal_quantile;
        const KEYS: [&str; 3] = ["latency_p50_us", "latency_p99_us", "latency_p99_9_us"];
        /// Exponential latencies by their quantiles, of which each has one sample.
        fn drawn(scale_ns: f64, count: u32) -> Histogram {
            let at = |rank: u32| (f64::from(rank) + 0.5) / f64::from(count);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds")]
            (0..count).map(|rank| ((-(1.0 - at(rank)).ln() * scale_ns) as u64, 1)).collect()
        }
        let mut rng = Rng::new(7);
        // Of 100 rounds a share of 95 % has a standard error of 2.2 %, one of 90 % of 3 %: at least three of these below.
        for (spread, trials, least) in [(0.1, 4, 0.88), (0.1, 12, 0.88), (0.3, 6, 0.81)] {
            let scale = |normal: f64| 1e6 * (spread * normal).exp();
            let population: Vec<Histogram> =
                (0..200).map(|at| drawn(scale(normal_quantile((f64::from(at) + 0.5) / 200.0)), 4000)).collect();
            let whole = Histogram::merged(&population);
            let truth: Vec<f64> = KEYS
                .map(|key| percentile_of(&whole, &Percentile::of_key(key).expect("a percentile")).expect("samples"))
                .to_vec();
            let mut held = [0_u32; KEYS.len()];
            const ROUNDS: u32 = 100;
            for _ in 0..ROUNDS {
                let drawn: Vec<Histogram> = (0..trials)
                    .map(|_| drawn(scale(rng.normal()), 3000 + u32::try_from(rng.below(4000)).expect("below 4000")))
                    .collect();
                for ((value, truth), held) in merged_of(&KEYS, &drawn).into_iter().zip(&truth).zip(&mut held) {
                    let interval = value.and_then(|value| value.interval).expect("an interval");
                    *held += u32::from(interval.lo <= *truth && *truth <= interval.hi);
                }
            }
            let shares = held.map(|held| f64::from(held) / f64::from(ROUNDS));
            assert!(shares.iter().all(|share| *share >= least), "spread {spread}, {trials} trials: {shares:?}");
        }
    }
}
