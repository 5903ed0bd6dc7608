//! From the windows of all trials to the document: the maximum, what limited it, and the knee.

use super::judge;
use baremark_model::histogram::Histogram;
use baremark_model::maximum::{Basis, Document, Ended, FORMAT, KneeRow, Limiting, Maximum, Plan, Said, Trial, Window};
use baremark_model::order;
use baremark_model::qos::{Bound, Qos, Reading};
use baremark_stats::estimate::mean;
use baremark_stats::percentile::sample_floor;
use baremark_stats::search::{
    self, Approach, Capacity, Level, LevelVerdict, MeanLimit, Operation, capacity, capacity_isotonic, capacity_of_mean,
    hysteresis, judge_limits, over_trials,
};
use std::collections::{BTreeMap, BTreeSet};

/// A trial as it was walked.
pub(super) struct Walked {
    pub(super) ended: Ended,
    pub(super) windows: Vec<Window>,
    /// So many of these, the last, were measured at the answer of all trials.
    pub(super) at_answer: usize,
}

/// The maxima of the trials that found one.
pub(super) fn levels(trials: &[Walked], qos: &Qos, plan: &Plan) -> Vec<f64> {
    trials.iter().filter_map(|trial| maximum(trial, qos, plan)).map(|(maximum, _)| maximum.level).collect()
}

pub(super) fn document(title: &str, factor: &str, qos: &Qos, plan: Plan, trials: &[Walked]) -> Document {
    let knee = knee(trials, qos, &plan);
    let limited_by = limited_by(trials, qos);
    let generator = |window: &Window| window.said == Said::Fail && window.reading.generator_limit.is_some();
    let maxima = maxima(trials, qos, &plan);
    let row = |(trial, one): (&Walked, &Option<(Maximum, usize)>)| Trial {
        ended: trial.ended,
        maximum: one.map(|(maximum, _)| maximum),
        limiting: one.map(|(_, at)| qos.limits[at].to_string()),
        hysteresis: remembered(trial, qos),
        windows: trial.windows.iter().map(without_histogram).collect(),
    };
    let rows: Vec<Trial> = trials.iter().zip(&maxima).map(row).collect();
    let maximum = overall(trials, &maxima, &plan);
    let remembered: Vec<f64> = rows.iter().filter_map(|trial| trial.hysteresis).collect();
    Document {
        format: FORMAT.to_owned(),
        title: title.to_owned(),
        factor: factor.to_owned(),
        qos: qos.clone(),
        plan,
        ended: trials.last().map_or(Ended::Broken, |trial| trial.ended),
        at_answer: maximum.and_then(|maximum| at(maximum.level, trials, qos, &plan)),
        maximum,
        shown_level: shown(trials, qos, &plan),
        limited_by,
        generator_was_the_limit: trials.iter().flat_map(|trial| &trial.windows).any(generator),
        hysteresis: mean(&remembered),
        knee,
        trials: rows,
    }
}

/// The maximum of all trials, as far as they have come.
pub(super) fn answer(trials: &[Walked], qos: &Qos, plan: &Plan) -> Option<Maximum> {
    overall(trials, &maxima(trials, qos, plan), plan)
}

/// Of each trial the maximum, and which limit gave it.
fn maxima(trials: &[Walked], qos: &Qos, plan: &Plan) -> Vec<Option<(Maximum, usize)>> {
    trials.iter().map(|trial| maximum(trial, qos, plan)).collect()
}

/// Levels within this share of the finest step are the same.
const SAME: f64 = 0.1;

/// What was measured at a level itself; `None` where nothing was.
fn at(level: f64, trials: &[Walked], qos: &Qos, plan: &Plan) -> Option<KneeRow> {
    let mut windows = ascending(trials);
    windows.retain(|window| (window.level / level - 1.0).abs() <= SAME * plan.finest);
    (!windows.is_empty()).then(|| row(&windows, qos, plan))
}

/// A window as it is written down.
fn without_histogram(window: &Window) -> Window {
    let mut written = window.clone();
    written.reading.latencies = Histogram::default();
    written
}

fn overall(trials: &[Walked], maxima: &[Option<(Maximum, usize)>], plan: &Plan) -> Option<Maximum> {
    let all = || trials.iter().zip(maxima).filter_map(|(trial, one)| Some((trial.ended, one.as_ref()?.0)));
    // What one that was cut short lies between is an answer where there is no other, and no trial from a fresh start.
    let is_found = all().any(|(ended, _)| ended == Ended::Found);
    let found = all().filter(|(ended, _)| !is_found || *ended == Ended::Found);
    let found: Vec<Maximum> = found.map(|(_, maximum)| maximum).collect();
    let levels: Vec<f64> = found.iter().map(|maximum| maximum.level).collect();
    let isotonic: Vec<f64> = found.iter().filter_map(|maximum| maximum.isotonic_level).collect();
    if let Some(over) = over_trials(&levels, plan.confidence) {
        return Some(Maximum {
            level: over.level,
            low: over.interval.map(|interval| interval.lo),
            high: over.interval.map(|interval| interval.hi),
            confidence: plan.confidence,
            basis: Basis::FreshTrials,
            isotonic_level: mean(&isotonic),
        });
    }
    // Too few trials to know how starts differ: the first that found one, labelled as what it is.
    found.first().copied()
}

/// The smallest level at which a limit is reached, and which limit that is.
fn maximum(trial: &Walked, qos: &Qos, plan: &Plan) -> Option<(Maximum, usize)> {
    let fitted: Vec<Window> = trial.windows.iter().filter(|window| window.fitted).cloned().collect();
    match trial.ended {
        Ended::Found => {}
        // Not walked to its end: all that there is lies between what passed and what did not.
        Ended::TimeOver => return turned(&trial.windows, qos, plan),
        _ => return None,
    }
    let found = least(&fitted, qos, plan).or_else(|| turned(&fitted, qos, plan));
    // Those at the finest step may not order, as where one below a level that passed fails: all windows of the trial say where it is, but for those that were measured
    // because it was known.
    found.or_else(|| least(&trial.windows[..trial.windows.len() - trial.at_answer], qos, plan))
}

/// Of the levels at which limits are reached the smallest, and which limit that is.
fn least(windows: &[Window], qos: &Qos, plan: &Plan) -> Option<(Maximum, usize)> {
    let found = (0..qos.limits.len()).filter_map(|at| Some((reached(windows, qos, at, plan)?, at)));
    found.min_by(|(left, _), (right, _)| left.level.total_cmp(&right.level))
}

fn reached(windows: &[Window], qos: &Qos, at: usize, plan: &Plan) -> Option<Maximum> {
    let limit = &qos.limits[at];
    if let Some(allowed) = limit.allowed() {
        return reached_by_counts(&counted(windows, at), allowed, plan);
    }
    let Bound::Utilization { resource, most } = &limit.bound else { return None };
    let mut least: Option<Capacity> = None;
    for name in resource_names(windows, resource.as_deref()) {
        let of = |window: &Window| Some(Level { level: window.level, value: *window.reading.utilization.get(&name)? });
        let values: Vec<Level> = windows.iter().filter_map(of).collect();
        let Some(fit) = capacity_of_mean(&values, *most, plan.confidence) else { continue };
        let range = windows.iter().map(|window| window.level);
        let top = range.fold(0.0, f64::max);
        // Far beyond what was measured it limits nothing.
        if fit.level <= 1.1 * top && least.is_none_or(|least| fit.level < least.level) {
            least = Some(fit);
        }
    }
    least.map(|fit| of_fit(&fit, None, plan))
}

/// By the curve through the counts, where it and its interval lie among the levels measured; else by the step between two of them.
fn reached_by_counts(counts: &[search::Window], allowed: f64, plan: &Plan) -> Option<Maximum> {
    let isotonic = capacity_isotonic(counts, allowed);
    // An interval that leaves the levels measured says that the curve does not fit: a machine that breaks down under a little more load, and
    // once broken down stays so at lower levels, has no curve.
    let sound = |fit: &Capacity| {
        within(counts, fit.level) && fit.interval.is_none_or(|of| within(counts, of.lo) && within(counts, of.hi))
    };
    match capacity(counts, allowed, plan.confidence) {
        Some(fit) if sound(&fit) => {
            let (fitted, step) = (of_fit(&fit, isotonic, plan), of_step(counts, allowed, fit.level, plan));
            // A curve that hangs on a single window has no interval of its own.
            Some(if fitted.low.is_some() { fitted } else { Maximum { level: fitted.level, ..step } })
        }
        // The share leaps from nothing to everything: no curve fits a step, but its place is between two levels.
        _ => isotonic.map(|level| of_step(counts, allowed, level, plan)),
    }
}

/// Where a staircase has turned though no limit gives a level (the mix, or the generator): between what passed and what did not.
fn turned(windows: &[Window], qos: &Qos, plan: &Plan) -> Option<(Maximum, usize)> {
    let levels = |said: Said| windows.iter().filter(move |window| window.said == said).map(|window| window.level);
    let high = levels(Said::Fail).reduce(f64::min)?;
    let low = levels(Said::Pass).filter(|level| *level < high).reduce(f64::max)?;
    let at = windows.iter().filter(|window| window.said == Said::Fail).find_map(|window| {
        let broken = judge::broken(std::slice::from_ref(window), qos);
        qos.limits.iter().position(|limit| broken.contains(&limit.to_string()))
    });
    let maximum = Maximum {
        level: 0.5 * (low + high),
        low: Some(low),
        high: Some(high),
        confidence: plan.confidence,
        basis: Basis::Bracket,
        isotonic_level: None,
    };
    Some((maximum, at.unwrap_or(0)))
}

fn of_fit(fit: &Capacity, isotonic: Option<f64>, plan: &Plan) -> Maximum {
    Maximum {
        level: fit.level,
        low: fit.interval.map(|interval| interval.lo),
        high: fit.interval.map(|interval| interval.hi),
        confidence: plan.confidence,
        basis: Basis::WithinRun,
        isotonic_level: isotonic,
    }
}

/// The interval of a step: from the highest level whose windows keep the share to the lowest above that do not.
fn of_step(counts: &[search::Window], allowed: f64, level: f64, plan: &Plan) -> Maximum {
    let keeps = |one: &&search::Window| one.count.bad as f64 <= allowed * one.count.all as f64;
    let low = counts.iter().filter(keeps).map(|one| one.level).filter(|one| *one <= level).reduce(f64::max);
    let breaks = |one: &&search::Window| !keeps(one);
    let high = counts.iter().filter(breaks).map(|one| one.level).filter(|one| *one >= level).reduce(f64::min);
    Maximum { level, low, high, confidence: plan.confidence, basis: Basis::Bracket, isotonic_level: Some(level) }
}

/// Whether a level lies among those measured, give or take a half: a curve extrapolated further is not a finding.
fn within(windows: &[search::Window], level: f64) -> bool {
    let levels = || windows.iter().map(|window| window.level);
    let (low, high) = (levels().fold(f64::MAX, f64::min), levels().fold(0.0, f64::max));
    (0.67 * low..=1.5 * high).contains(&level)
}

fn counted(windows: &[Window], at: usize) -> Vec<search::Window> {
    let counts = judge::counts(windows, at);
    let one = |(window, count): (&Window, _)| search::Window {
        level: window.level,
        count,
        approach: if window.from_above { Approach::Above } else { Approach::Below },
    };
    windows.iter().zip(counts).filter(|(_, count)| count.all > 0).map(one).collect()
}

fn remembered(trial: &Walked, qos: &Qos) -> Option<f64> {
    let fitted: Vec<Window> = trial.windows.iter().filter(|window| window.fitted).cloned().collect();
    let of = |(at, limit): (usize, &baremark_model::qos::Limit)| hysteresis(&counted(&fitted, at), limit.allowed()?);
    let found: Vec<f64> = qos.limits.iter().enumerate().filter_map(of).collect();
    found.into_iter().reduce(f64::min)
}

fn resource_names(windows: &[Window], wanted: Option<&str>) -> Vec<String> {
    let all = windows.iter().flat_map(|window| window.reading.utilization.keys().cloned());
    let names: BTreeSet<String> = all.filter(|name| wanted.is_none_or(|wanted| wanted == name)).collect();
    names.into_iter().collect()
}

/// What broke in failed windows, the most frequent first.
fn limited_by(trials: &[Walked], qos: &Qos) -> Vec<Limiting> {
    let failed: Vec<&Window> =
        trials.iter().flat_map(|trial| &trial.windows).filter(|window| window.said == Said::Fail).collect();
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    // The generator says with its own figures why it was the limit, in each window with others: all are one reason, the last of them.
    let generator = failed.iter().filter_map(|window| window.reading.generator_limit.as_ref());
    if let Some(last) = generator.clone().next_back() {
        times.insert(last.clone(), generator.count());
    }
    for window in &failed {
        for what in judge::limits_broken(std::slice::from_ref(window), qos) {
            *times.entry(what).or_default() += 1;
        }
    }
    let mut rows: Vec<Limiting> = times
        .into_iter()
        .map(|(what, count)| Limiting { what, share: count as f64 / failed.len().max(1) as f64 })
        .collect();
    order::by(&mut rows, |left, right| right.share.total_cmp(&left.share));
    rows
}

/// All windows of all trials, level by level: trials draw their own steps, and levels closer than the finest step are one.
fn knee(trials: &[Walked], qos: &Qos, plan: &Plan) -> Vec<KneeRow> {
    let windows = ascending(trials);
    let (mut rows, mut begin) = (Vec::new(), 0);
    while let Some(first) = windows.get(begin) {
        let end = windows.partition_point(|window| window.level <= first.level * (1.0 + plan.finest));
        rows.push(row(&windows[begin..end], qos, plan));
        begin = end;
    }
    rows
}

fn ascending(trials: &[Walked]) -> Vec<Window> {
    let mut windows: Vec<Window> = trials.iter().flat_map(|trial| trial.windows.iter().cloned()).collect();
    order::by(&mut windows, |left, right| left.level.total_cmp(&right.level));
    windows
}

/// The highest level at which every limit is shown to be kept. Windows at a level and up to a tenth above speak for it, since
/// whatever is kept there is kept below; tested upward in a fixed sequence (Maurer, Hothorn & Lehmacher 1995) that ends at the
/// first level that is not shown, so that the error rate is that of one test.
fn shown(trials: &[Walked], qos: &Qos, plan: &Plan) -> Option<f64> {
    let windows = ascending(trials);
    let mut shown = None;
    for (at, window) in windows.iter().enumerate() {
        let end = windows.partition_point(|other| other.level <= 1.1 * window.level);
        match verdict(&windows[at..end], qos, 1.0 - plan.confidence) {
            "pass" => shown = Some(window.level),
            "insufficient" => {}
            _ => return shown,
        }
    }
    shown
}

/// One row of all windows of a level, by one rule: what there was in all of them over their whole time.
fn row(group: &[Window], qos: &Qos, plan: &Plan) -> KneeRow {
    let over_time = |of: &dyn Fn(&Window) -> Option<f64>| {
        weighted(group.iter().filter_map(|one| Some((of(one)?, one.reading.elapsed_s))))
    };
    let utilization = resource_names(group, None).into_iter().filter_map(|name| {
        let share = over_time(&|window| window.reading.utilization.get(&name).copied())?;
        Some((name, share))
    });
    let failed: u64 = group.iter().map(|window| window.reading.failed).sum();
    let all_of = |reading: &Reading| match reading.all {
        0 => (reading.asked_per_s * reading.elapsed_s).max(reading.failed as f64),
        all => all as f64,
    };
    let all: f64 = group.iter().map(|window| all_of(&window.reading)).sum();
    let latencies = Histogram::merged(group.iter().map(|window| &window.reading.latencies));
    let percentile = |p: f64| {
        let enough = sample_floor(p, PERCENTILE_CONFIDENCE).is_some_and(|floor| latencies.count() >= floor);
        latencies.value_at(p).filter(|_| enough)
    };
    KneeRow {
        level: over_time(&|window| Some(window.level)).unwrap_or(0.0),
        windows: group.len(),
        verdict: verdict(group, qos, 1.0 - plan.confidence).to_owned(),
        achieved_per_s: over_time(&|window| Some(window.reading.achieved_per_s)).unwrap_or(0.0),
        failed_share: if all > 0.0 { failed as f64 / all } else { 0.0 },
        p50_ns: percentile(0.5),
        p95_ns: percentile(0.95),
        p99_ns: percentile(0.99),
        utilization: utilization.collect(),
        generator_cpu_share: over_time(&|window| window.reading.generator_cpu_share),
    }
}

/// The mean of values that held for so many seconds each; `None` without any.
fn weighted(values: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (sum, seconds) = values.fold((0.0, 0.0), |(sum, all), (value, seconds)| (sum + value * seconds, all + seconds));
    (seconds > 0.0).then(|| sum / seconds)
}

/// Confidence at which not even the largest latency bounds a percentile that is left out.
const PERCENTILE_CONFIDENCE: f64 = 0.95;

/// What all windows at a level say: one-sided limits of every share and mean, with Holm's correction.
fn verdict(windows: &[Window], qos: &Qos, alpha: f64) -> &'static str {
    let shares: Vec<(Vec<search::Count>, f64)> = qos
        .limits
        .iter()
        .enumerate()
        .filter_map(|(at, limit)| Some((judge::counts(windows, at), limit.allowed()?)))
        .collect();
    let operations: Vec<Operation> =
        shares.iter().map(|(counts, allowed)| Operation { windows: counts, allowed: *allowed }).collect();
    let mut values = Vec::new();
    for limit in &qos.limits {
        if let Bound::Utilization { resource, most } = &limit.bound {
            values.extend(judge::means(windows, resource.as_deref()).into_iter().map(|values| (values, *most)));
        }
    }
    let means: Vec<MeanLimit> =
        values.iter().map(|(values, most)| MeanLimit { windows: values, ceiling: *most }).collect();
    let generator = windows.iter().any(|window| window.reading.generator_limit.is_some());
    let mix_off = qos.limits.iter().any(|limit| match limit.bound {
        Bound::Mix { tolerance } => !judge::off(windows, qos, tolerance).is_empty(),
        _ => false,
    });
    if mix_off {
        return LevelVerdict::Fail(Vec::new()).name();
    }
    match judge_limits(&operations, &means, alpha) {
        // A level that the generator did not reach has not been passed.
        LevelVerdict::Pass if generator => LevelVerdict::Undecided.name(),
        verdict => verdict.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::qos::Broken;
    use baremark_stats::search::Count;

    /// Loops alongside users fail as well, and are not among what was meant to start: 150 of 100 failed.
    #[test]
    fn the_share_that_failed_is_of_all_that_could() {
        let reading = |failed: u64, all: u64| Reading {
            elapsed_s: 1.0,
            asked_per_s: 100.0,
            broken: vec![Some(Broken { bad: failed, all: all.max(100) })],
            failed,
            all,
            ..Reading::default()
        };
        let qos = Qos { limits: vec!["failures<1%".parse().expect("a limit")], ..Qos::default() };
        let share = |readings: &[Reading]| {
            let window = |reading: &Reading| Window {
                level: 100.0,
                from_above: false,
                fitted: false,
                said: Said::Fail,
                reading: reading.clone(),
            };
            let windows: Vec<Window> = readings.iter().map(window).collect();
            row(&windows, &qos, &Plan::between(1.0, 200.0)).failed_share
        };
        assert!((share(&[reading(150, 300)]) - 0.5).abs() < 1e-12);
        // Windows of an earlier version know only what was meant to start.
        assert!((share(&[reading(150, 300), reading(50, 0)]) - 0.5).abs() < 1e-12);
        assert!((share(&[reading(150, 0)]) - 1.0).abs() < 1e-12, "no share is above the whole");
    }

    /// A web server on a busy machine: at 163.7 it passed twice and failed once, at 159.7 it failed. The trial had no level.
    #[test]
    fn a_trial_whose_finest_windows_do_not_order_has_a_level() {
        let qos = Qos { limits: vec!["p99<50ms".parse().expect("a limit")], ..Qos::default() };
        let window = |(level, said, fitted): (f64, Said, bool)| Window {
            level,
            from_above: false,
            fitted,
            said,
            reading: Reading {
                broken: vec![Some(Broken { bad: if said == Said::Fail { 20_000 } else { 100 }, all: 100_000 })],
                ..Reading::default()
            },
        };
        let (pass, fail) = (Said::Pass, Said::Fail);
        let coarse = [(123.9, pass), (142.5, pass), (185.2, fail), (162.4, fail), (151.8, pass), (157.1, pass)];
        let finest = [(163.7, pass), (167.8, fail), (163.7, pass), (167.8, fail), (163.7, fail), (159.7, fail)];
        let of = |of: [(f64, Said); 6], fitted: bool| of.map(|(level, said)| window((level, said, fitted)));
        let level = |mut windows: Vec<Window>, at_answer: usize| {
            for at in 1..windows.len() {
                windows[at].from_above = windows[at - 1].level > windows[at].level;
            }
            let trial = Walked { ended: Ended::Found, windows, at_answer };
            maximum(&trial, &qos, &Plan::between(1.0, 500.0)).map(|(found, _)| found.level)
        };
        assert_eq!(level(of(finest, true).to_vec(), 0), None, "these alone have none");
        let all = || [of(coarse, false), of(finest, true)].concat();
        let found = level(all(), 0).expect("a level");
        assert!((151.0..165.0).contains(&found), "{found}");
        // What is measured at it after that does not move it.
        let there = [all(), vec![window((found, fail, false))]].concat();
        assert_eq!(level(there, 1), Some(found));
    }

    /// Two trials found about 100, and the time ended the third between 50 and 200: its middle, 125, counted as a level found from a fresh start.
    #[test]
    fn a_trial_that_was_cut_short_is_no_trial_from_a_fresh_start() {
        let qos = Qos { limits: vec!["p99<50ms".parse().expect("a limit")], ..Qos::default() };
        let walked = |ended: Ended, of: &[(f64, u64)]| {
            let window = |&(level, bad): &(f64, u64)| Window {
                level,
                from_above: false,
                fitted: ended == Ended::Found,
                said: if bad > 1000 { Said::Fail } else { Said::Pass },
                reading: Reading { broken: vec![Some(Broken { bad, all: 100_000 })], ..Reading::default() },
            };
            Walked { ended, windows: of.iter().map(window).collect(), at_answer: 0 }
        };
        let levels = [(96.0, 100), (98.0, 200), (100.0, 500), (102.0, 2000), (104.0, 5000), (106.0, 9000)];
        let (found, cut) =
            (|| walked(Ended::Found, &levels), || walked(Ended::TimeOver, &[(50.0, 100), (200.0, 20_000)]));
        let of = |trials: &[Walked]| answer(trials, &qos, &Plan::between(1.0, 500.0)).expect("an answer");
        let of_two = of(&[found(), found(), cut()]);
        assert!(of_two.basis != Basis::FreshTrials && (97.0..103.0).contains(&of_two.level), "{of_two:?}");
        assert_eq!(of(&[found(), found(), found(), cut()]), of(&[found(), found(), found()]));
        let alone = of(&[cut()]);
        assert_eq!((alone.basis, alone.level), (Basis::Bracket, 125.0));
    }

    /// Pages that a farm of web servers did not give in time, by its size: it broke down at 145 servers, and at some sizes above it did not.
    #[test]
    fn a_level_of_a_system_that_breaks_down_is_among_those_measured() {
        let measured = [
            (75, 0),
            (94, 0),
            (114, 0),
            (132, 1),
            (139, 12),
            (144, 1),
            (145, 390),
            (150, 240),
            (152, 210),
            (158, 110),
            (164, 630),
            (187, 680),
        ];
        // It also stays broken down for a while when its load is taken back: at one of the lower levels or another.
        let mut answers = 0;
        for still in [0, 75, 94, 114, 132, 139] {
            let window = |&(level, bad): &(u32, u64)| search::Window {
                level: f64::from(level),
                count: Count { bad: if level == still { 600 } else { bad }, all: 1000 },
                approach: if level >= 145 { Approach::Above } else { Approach::Below },
            };
            let counts: Vec<search::Window> = measured.iter().map(window).collect();
            let Some(found) = reached_by_counts(&counts, 0.05, &Plan::between(1.0, 500.0)) else { continue };
            answers += 1;
            let inside = |level: f64| (0.67 * 75.0..=1.5 * 187.0).contains(&level);
            assert!(inside(found.level), "{still}: {found:?}");
            assert!(found.low.is_none_or(inside) && found.high.is_none_or(inside), "{still}: {found:?}");
        }
        assert!(answers >= 3, "{answers}");
    }
}
