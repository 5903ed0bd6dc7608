//! Values of arms over trials: estimates, with intervals that hold nothing impossible, and percentiles in order.
//!
//! What is positive (a time, a rate, a size) is estimated on the log scale, as ratios are: its interval is as skewed as the values, and
//! reaches no negative latency. What may be zero is estimated as it is, and its interval ends at zero.
//!
//! A percentile needs samples, so that high ones are absent from some trials. Means over different trials are out of order. Where some
//! trials have a lower percentile and not a higher one, the higher one is estimated by its quotient to the lower one in the trials that
//! have both, times the lower one's estimate over all: a ratio estimator (Cochran 1977, chapter 6). In a trial the higher one is the larger,
//! so that it is in the estimate.

use baremark_model::percentile::Percentile;
use baremark_stats::location::centre;
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
    Some(Value { estimate, interval, n: values.len(), over: None })
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

/// Of several metrics, each with one value for each trial that has it, all in one order of trials.
pub(crate) fn of_all(metrics: &[(&str, Vec<Option<f64>>)]) -> Vec<Option<Value>> {
    let mut found: Vec<Option<Value>> =
        metrics.iter().map(|(_, values)| of(&values.iter().copied().flatten().collect::<Vec<_>>())).collect();
    let mut families: BTreeMap<String, Vec<(f64, usize)>> = BTreeMap::new();
    for (at, (key, values)) in metrics.iter().enumerate() {
        if let Some(percentile) = Percentile::of_key(key).filter(|_| values.iter().any(Option::is_some)) {
            families.entry(percentile.of).or_default().push((percentile.share, at));
        }
    }
    for mut family in families.into_values() {
        family.sort_by(|one, two| one.0.total_cmp(&two.0));
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
    Some(Value { estimate, interval, n: quotients.len(), over: Some(metrics[below].0.to_owned()) })
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
    fn percentiles_are_in_order_whichever_trials_have_them() {
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
        let found: Vec<Value> = of_all(&metrics).into_iter().flatten().collect();
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
    fn two_percentiles_of_the_same_few_trials_stay_in_order() {
        let some = |values: [f64; 5], from: usize| -> Vec<Option<f64>> {
            values.iter().enumerate().map(|(at, value)| (at >= from).then_some(*value)).collect()
        };
        let metrics = [
            ("a_p50_ms", some([9.0, 8.0, 1.0, 1.0, 1.0], 0)),
            ("a_p95_ms", some([0.0, 9.0, 2.0, 2.5, 2.0], 1)),
            ("a_p99_ms", some([0.0, 9.5, 2.5, 3.0, 2.5], 1)),
        ];
        let found: Vec<Value> = of_all(&metrics).into_iter().flatten().collect();
        let values: Vec<f64> = found.iter().map(|value| value.estimate).collect();
        assert!(values.is_sorted() && values.len() == 3, "{values:?}");
        let widths = found[1].interval.zip(found[0].interval).expect("intervals");
        assert!(widths.0.lo < values[1] && values[1] < widths.0.hi, "{widths:?}");
    }
}
