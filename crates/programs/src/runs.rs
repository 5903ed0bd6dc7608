//! Several runs of a program in one phase, as one: the mean of each metric, without the extremes.
//!
//! A run that the operating system interrupted for milliseconds says nothing of a program that takes one. A mean of all would
//! follow such runs, a median would not see what a program does in some of its runs alone.

use baremark_model::command::{RUN_TIMES_OF, WALL};
use baremark_model::hdr;
use baremark_model::histogram::Histogram;
use baremark_model::identity::{self, Sum};
use baremark_model::job::JobRun;
use baremark_model::seam::Sample;
use baremark_model::units::Nanos;
use baremark_model::wire::Point;
use std::collections::BTreeMap;
use std::time::Duration;

/// Runs from which on the extremes are left out.
const FEWEST: usize = 5;

/// The run times of these runs, all of them, as a part of their phase: the phase's own metrics are means. `None` where no run has any.
#[must_use]
pub fn run_times(runs: &[JobRun]) -> Option<Point> {
    let times = runs.iter().flat_map(|run| &run.samples).filter(|sample| sample.metric == WALL.key);
    let times: Vec<u64> = times.map(|sample| Nanos::from(Duration::from_secs_f64(sample.value.max(0.0))).0).collect();
    let whole = (0, times.iter().sum());
    let counts: Histogram = times.into_iter().map(|ns| (ns, 1)).collect();
    let histogram = hdr::encoded(&counts)?;
    Some(Point::new("runs", whole, Vec::new(), Some(histogram)).of(&[RUN_TIMES_OF]))
}

/// The runs of one phase as one; nothing of none.
#[must_use]
pub fn joined(runs: Vec<JobRun>) -> JobRun {
    let count = runs.len();
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    let mut joined = JobRun { points: run_times(&runs).into_iter().collect(), ..JobRun::default() };
    for run in runs {
        for Sample { metric, value } in run.samples {
            if !values.contains_key(&metric) {
                order.push(metric.clone());
            }
            values.entry(metric).or_default().push(value);
        }
        joined.flags.extend(run.flags);
        joined.void.extend(run.void);
        joined.checked = run.checked;
    }
    let sample = |metric: String| {
        let value = trimmed_mean(values.get(&metric)?)?;
        Some(Sample::new(metric, value))
    };
    joined.samples = order.into_iter().filter_map(sample).collect();
    identity::SUMS.iter().for_each(|sum| add_up(&mut joined.samples, sum));
    for list in [&mut joined.flags, &mut joined.void] {
        list.sort();
        list.dedup();
    }
    if count > 1 {
        joined.checked = format!("{count} runs; of the last, {}", joined.checked);
    }
    joined
}

/// Makes parts add up to their whole again: the extremes that were left out of each need not be of the same runs. The parts keep their
/// proportions.
fn add_up(samples: &mut [Sample], sum: &Sum) {
    let value = |metric: &str| samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value);
    let parts: Option<Vec<f64>> = sum.parts.iter().map(|part| value(part)).collect();
    let (Some(whole), Some(all)) = (value(sum.whole), parts.map(|parts| parts.iter().sum::<f64>())) else { return };
    if all > 0.0 {
        let parts = samples.iter_mut().filter(|sample| sum.parts.contains(&sample.metric.as_str()));
        parts.for_each(|sample| sample.value *= whole / all);
    }
}

/// The mean of `values` without the smallest and the largest fifth, each rounded down; of fewer than five, the mean of all.
/// `None` of none.
///
/// Source: Wilcox, Introduction to Robust Estimation and Hypothesis Testing, 3rd ed. 2012, section 3.3 (20 % trimming).
#[must_use]
pub fn trimmed_mean(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = if sorted.len() < FEWEST { 0 } else { sorted.len() / 5 };
    let kept = sorted.get(cut..sorted.len() - cut)?;
    #[expect(clippy::cast_precision_loss, reason = "a number of runs")]
    let count = kept.len() as f64;
    (count > 0.0).then(|| kept.iter().sum::<f64>() / count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::command::RUN_TIMES;
    use baremark_model::metric::Metric;
    use baremark_model::percentile::Percentile;

    /// Percentiles of several trials are those of all their samples, for which each run's time must be stored.
    #[test]
    fn every_run_is_in_the_distribution_of_which_run_times_are_percentiles() {
        let run = |wall: f64| JobRun { samples: vec![Sample::new("wall_s", wall)], ..JobRun::default() };
        let joined = joined([0.5, 0.25, 1.0].map(run).into());
        let [point] = joined.points.as_slice() else { panic!("{:?}", joined.points) };
        let of = |metric: &Metric| Percentile::of_key(metric.key).map(|percentile| percentile.of);
        assert!(RUN_TIMES.iter().all(|metric| of(metric).as_ref() == point.distributions.first()), "{point:?}");
        assert_eq!((point.distributions.len(), point.end_ns), (1, 1_750_000_000));
        let read = hdr::decoded(point.histogram.as_deref().expect("three runs")).expect("as it was written");
        let ms = |share: f64| read.value_at(share).map(|ns| ns / 1_000_000);
        assert_eq!((read.count(), ms(0.0), ms(1.0)), (3, Some(250), Some(1000)));
        assert_eq!(run_times(&[JobRun::default()]), None);
    }

    #[test]
    fn a_mean_leaves_out_the_extremes_of_five_and_more() {
        let close = |values: &[f64], mean: f64| (trimmed_mean(values).expect("some") - mean).abs() < 1e-12;
        assert!(close(&[9.0, 1.0, 2.0], 4.0), "too few to leave any out");
        assert!(close(&[900.0, 1.0, 3.0, 2.0, -900.0], 2.0));
        assert!(close(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1000.0], 4.5));
        assert_eq!(trimmed_mean(&[]), None);
    }

    /// CPU time was 0.80 ms of 0.77 ms in user mode and in the kernel.
    #[test]
    fn parts_of_joined_runs_add_up_to_their_whole() {
        let run = |user: f64, system: f64| JobRun {
            samples: [("cpu_s", user + system), ("user_s", user), ("system_s", system)]
                .map(|(metric, value)| Sample::new(metric, value))
                .into(),
            ..JobRun::default()
        };
        let runs = [(1.0, 9.0), (2.0, 2.0), (8.0, 1.0), (3.0, 3.0), (0.0, 4.0)].map(|(user, system)| run(user, system));
        let joined = joined(runs.into());
        let of = |metric: &str| joined.samples.iter().find(|of| of.metric == metric).expect("it was there").value;
        let (cpu, user, system) = (of("cpu_s"), of("user_s"), of("system_s"));
        assert!((cpu - 19.0 / 3.0).abs() < 1e-12, "the trimmed mean of the runs: {cpu}");
        assert!((user + system - cpu).abs() < 1e-12, "{user} + {system} is {cpu}");
        assert!(
            (user / system - 2.0 / 3.0).abs() < 1e-12,
            "in the proportion of their own means, 2 to 3: {user} {system}"
        );
    }

    #[test]
    fn runs_are_joined_metric_by_metric() {
        let run = |wall: f64, rate: Option<f64>, flag: &str| JobRun {
            samples: [("wall_s", Some(wall)), ("rate", rate)]
                .into_iter()
                .filter_map(|(metric, value)| Some(Sample::new(metric, value?)))
                .collect(),
            checked: "it ended with exit code 0".to_owned(),
            flags: vec![flag.to_owned()],
            ..JobRun::default()
        };
        let joined = joined(vec![run(1.0, None, "b"), run(2.0, Some(7.0), "a"), run(3.0, Some(9.0), "a")]);
        let samples: Vec<(&str, f64)> = joined.samples.iter().map(|of| (of.metric.as_str(), of.value)).collect();
        assert_eq!(samples, [("wall_s", 2.0), ("rate", 8.0)]);
        assert_eq!(joined.flags, ["a", "b"]);
        assert_eq!(joined.checked, "3 runs; of the last, it ended with exit code 0");
    }
}
