//! What the windows of a visit say, limit by limit, and what broke.

use baremark_model::maximum::{Said, Samples, Window};
use baremark_model::qos::{Bound, Qos};
use baremark_stats::estimate::mean;
use baremark_stats::multinomial::off_mix;
use baremark_stats::percentile::one_sided_floor;
use baremark_stats::search::Count;

/// A window's verdict only says where to measure next; the floor is that of a one-sided limit at this level.
const STEERING_ALPHA: f64 = 0.1;
/// Confidence of the mix's intervals.
const MIX_CONFIDENCE: f64 = 0.99;

/// What the windows of one visit say together: one limit broken is a failure, too few samples no pass.
pub(super) fn visit(windows: &[Window], qos: &Qos, samples: Samples) -> Said {
    if !broken(windows, qos).is_empty() {
        return Said::Fail;
    }
    let mut shares = qos.limits.iter().enumerate().filter_map(|(at, limit)| Some((at, limit.allowed()?))).peekable();
    let enough = |(at, allowed)| sum(&counts(windows, at)).all >= one_sided_floor(1.0 - allowed, STEERING_ALPHA);
    let pass = match samples {
        Samples::Each => shares.all(enough),
        Samples::Some => shares.peek().is_none() || shares.any(enough),
    };
    if pass { Said::Pass } else { Said::Insufficient }
}

/// The limits that the windows break, as typed, and the generator's own reason. With too few samples a share counts as
/// broken only when no good sample to come could mend it.
pub(super) fn broken(windows: &[Window], qos: &Qos) -> Vec<String> {
    let mut found = limits_broken(windows, qos);
    // A load that the generator could not make has not been kept.
    found.extend(windows.iter().find_map(|window| window.reading.generator_limit.clone()));
    found
}

/// The limits that were exceeded.
pub(super) fn limits_broken(windows: &[Window], qos: &Qos) -> Vec<String> {
    let mut found = Vec::new();
    for (at, limit) in qos.limits.iter().enumerate() {
        let breaks = match &limit.bound {
            Bound::Latency { beyond: allowed, .. }
            | Bound::Delay { beyond: allowed, .. }
            | Bound::Failures { most: allowed } => {
                let count = sum(&counts(windows, at));
                let all = count.all.max(one_sided_floor(1.0 - allowed, STEERING_ALPHA));
                count.bad as f64 > allowed * all as f64
            }
            Bound::Mix { tolerance } => !off(windows, qos, *tolerance).is_empty(),
            Bound::Utilization { resource, most } => {
                means(windows, resource.as_deref()).iter().any(|values| mean(values).is_some_and(|mean| mean > *most))
            }
        };
        if breaks {
            found.push(limit.to_string());
        }
    }
    found
}

/// The counts of the limit `at`, window by window.
pub(super) fn counts(windows: &[Window], at: usize) -> Vec<Count> {
    let of = |window: &Window| window.reading.broken.get(at).copied().flatten().unwrap_or_default();
    windows.iter().map(of).map(|broken| Count { bad: broken.bad, all: broken.all }).collect()
}

/// The named resource's means, window by window, or those of each resource that was read.
pub(super) fn means(windows: &[Window], resource: Option<&str>) -> Vec<Vec<f64>> {
    let mut names: Vec<&String> = windows.iter().flat_map(|window| window.reading.utilization.keys()).collect();
    names.sort();
    names.dedup();
    names.retain(|name| resource.is_none_or(|wanted| wanted == name.as_str()));
    let of =
        |name: &String| windows.iter().filter_map(|window| window.reading.utilization.get(name).copied()).collect();
    names.into_iter().map(of).collect()
}

pub(super) fn off(windows: &[Window], qos: &Qos, tolerance: f64) -> Vec<usize> {
    let ended = |name: &String| windows.iter().filter_map(|window| window.reading.ended.get(name)).sum::<u64>();
    let counts: Vec<u64> = qos.mix.keys().map(ended).collect();
    let wanted: Vec<f64> = qos.mix.values().copied().collect();
    off_mix(&counts, &wanted, tolerance, MIX_CONFIDENCE)
}

pub(super) fn sum(counts: &[Count]) -> Count {
    counts.iter().fold(Count { bad: 0, all: 0 }, |sum, one| Count { bad: sum.bad + one.bad, all: sum.all + one.all })
}
