//! What the members of an ensemble come to together.
//!
//! Members are released by one barrier and measured each by its own clock. How their figures join is a property of the
//! metric, so it is in the descriptor's row: published totals of several virtual machines are sums of figures that
//! each machine had at its own best moment, and only [`Aggregate::Window`] says what all gave at the same time.

use crate::metric::{Aggregate, Metric};
use crate::seam::Sample;

/// One member's figures and the time from its first start to its last end, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Part<'s> {
    /// Its metrics.
    pub samples: &'s [Sample],
    /// Its own window.
    pub seconds: f64,
}

/// The metrics of the whole ensemble; `window` is the time in seconds from the first start of any member to the last end of
/// any. Metrics that one member lacks, or that no row of `metrics` defines, are left out: half a sum is not a sum.
#[must_use]
pub fn together(metrics: &[Metric], parts: &[Part<'_>], window: f64) -> Vec<Sample> {
    by_rules(metrics.iter().map(|metric| (metric.key, metric.together)), parts, window)
}

/// The same, of metrics whose rows are known by key and rule alone.
#[must_use]
pub fn by_rules<'k>(
    rules: impl IntoIterator<Item = (&'k str, Aggregate)>,
    parts: &[Part<'_>],
    window: f64,
) -> Vec<Sample> {
    if let [only] = parts {
        return only.samples.to_vec();
    }
    let joined = rules.into_iter().filter_map(|(key, rule)| {
        let value = |part: &Part<'_>| part.samples.iter().find(|sample| sample.metric == key).map(|s| s.value);
        let values: Vec<f64> = parts.iter().map(value).collect::<Option<_>>()?;
        Some(Sample::new(key, join(rule, &values, parts, window)?))
    });
    joined.collect()
}

#[expect(clippy::cast_precision_loss, reason = "members are few")]
fn join(rule: Aggregate, values: &[f64], parts: &[Part<'_>], window: f64) -> Option<f64> {
    let sum = values.iter().sum::<f64>();
    match rule {
        _ if values.is_empty() => None,
        Aggregate::Sum => Some(sum),
        Aggregate::Mean => Some(sum / values.len() as f64),
        Aggregate::Most => values.iter().copied().max_by(f64::total_cmp),
        Aggregate::Window => {
            let amount: f64 = values.iter().zip(parts).map(|(rate, part)| rate * part.seconds).sum();
            (window > 0.0).then(|| amount / window)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Better;

    const METRICS: &[Metric] = &[
        Metric { key: "sum", unit: "MB/s", better: Better::Higher, together: Aggregate::Sum, help: "" },
        Metric { key: "mean", unit: "GUP/s", better: Better::Higher, together: Aggregate::Mean, help: "" },
        Metric { key: "most", unit: "ns", better: Better::Lower, together: Aggregate::Most, help: "" },
        Metric { key: "window", unit: "MB/s", better: Better::Higher, together: Aggregate::Window, help: "" },
    ];

    fn samples(values: [f64; 4]) -> Vec<Sample> {
        METRICS.iter().zip(values).map(|(m, value)| Sample::new(m.key, value)).collect()
    }

    #[test]
    fn each_metric_joins_by_its_own_rule() {
        // The second machine ran at half the rate for twice as long: 100 MB each, 200 MB in the 2 s from start to end.
        let (fast, slow) = (samples([100.0, 1.0, 7.0, 100.0]), samples([50.0, 3.0, 9.0, 50.0]));
        let parts = [Part { samples: &fast, seconds: 1.0 }, Part { samples: &slow, seconds: 2.0 }];
        let values: Vec<f64> = together(METRICS, &parts, 2.0).iter().map(|sample| sample.value).collect();
        assert_eq!(values, [150.0, 2.0, 9.0, 100.0]);
    }

    #[test]
    fn members_that_missed_each_other_do_not_add_up_by_the_window() {
        let each = samples([100.0, 1.0, 7.0, 100.0]);
        let parts = [Part { samples: &each, seconds: 1.0 }; 2];
        let of = |window| together(METRICS, &parts, window)[3].value;
        assert_eq!((of(1.0), of(2.0)), (200.0, 100.0), "side by side, and one after the other");
    }

    #[test]
    fn one_member_is_itself_and_a_metric_that_one_lacks_is_nobodys() {
        let each = samples([100.0, 1.0, 7.0, 100.0]);
        let part = Part { samples: &each, seconds: 1.0 };
        assert_eq!(together(&[], &[part], 0.0), each);
        let poorer = Part { samples: &each[..1], seconds: 1.0 };
        let keys: Vec<String> = together(METRICS, &[part, poorer], 1.0).into_iter().map(|s| s.metric).collect();
        assert_eq!(keys, ["sum"]);
    }
}
