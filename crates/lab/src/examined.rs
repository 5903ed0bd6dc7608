//! A difference of a program in a container or sandbox, split into what was examined when the comparison was over ([`crate::conduct`]): system calls, page faults, what a CPU
//! quota withheld, and the rest.
//!
//! A part is what it takes in the numerator's runs less what it takes in the denominator's, in percent of the denominator's time in the comparison: calls times
//! the cost of the one that does least, and faults times the cost of one, each as timed at the site. The rest is the difference less all parts; its interval is that of the
//! difference and of the parts together, which were measured in different runs. Parts whose whole interval is more than delta have a cause of their own; the others are
//! named, and excluded as a cause where their whole interval is less.

use crate::activity::row;
use crate::trials::{self, Finished, Side};
use baremark_model::codes::Cause;
use baremark_model::command;
use baremark_model::document::{ExplanationRow, Outcome, RatioRow};
use baremark_model::order;
use baremark_model::plan::Plan;
use baremark_model::second_look::{ExaminedPair, ExaminedSide, SecondLook};
use baremark_stats::Interval;
use baremark_stats::estimate::mean;
use baremark_stats::interim::rate;
use baremark_stats::location;
use baremark_stats::multiplicity::{Claim, judge_study};
use baremark_stats::outcome::Better;
use std::collections::BTreeSet;

/// The words for what is counted, where it was not examined, too.
pub(crate) const CALLS: &str = "system calls";

/// A part of a difference: what takes the time, and the seconds of a run in it.
struct Part {
    cause: Cause,
    name: &'static str,
    what: String,
    advice: String,
    /// Block by block, in percent of the denominator's time.
    blocks: Vec<f64>,
}

/// The rows of each pair that was examined, by the numerator's arm: parts, the largest first, and the rest.
pub(crate) fn explain(
    plan: &Plan,
    trials: &[Finished],
    examined: &SecondLook,
    ratios: &[RatioRow],
) -> Vec<(usize, ExplanationRow)> {
    let of = |found: &ExaminedPair| {
        let arm = plan.pairs.get(found.pair)?.numerator;
        let rows = of_pair(plan, trials, found, ratios)?;
        Some(rows.into_iter().map(move |row| (arm, row)))
    };
    // A document of somebody else may name a pair again and again.
    let mut seen = BTreeSet::new();
    let once = examined.pairs.iter().filter(|found| seen.insert(found.pair));
    once.filter_map(of).flatten().collect()
}

/// Whether a pair is compared by wall time, which does not contain all CPU time of its programs: they use several CPUs at once.
pub(crate) fn uses_several_cpus(plan: &Plan, trials: &[Finished], pair: usize) -> bool {
    plan.metric_of(plan.pairs[pair].denominator) == command::WALL.key
        && !trials::use_one_cpu(&trials::sides(plan, trials, pair))
}

/// `None` of what is compared by neither wall time nor CPU time, and where the comparison has no value.
fn of_pair(plan: &Plan, trials: &[Finished], found: &ExaminedPair, ratios: &[RatioRow]) -> Option<Vec<ExplanationRow>> {
    let pair = plan.pairs.get(found.pair)?;
    let headline = plan.metric_of(pair.denominator);
    let is_wall = headline == command::WALL.key;
    if !is_wall && headline != command::CPU.key {
        return None;
    }
    let sides = trials::sides(plan, trials, found.pair);
    let value = |side: Side<'_>, key: &str| side.trial.value(side.arm, key);
    let wholes: Vec<f64> = sides.iter().filter_map(|of| of.mean(0, |side| value(side, headline))).collect();
    let whole = mean(&wholes).filter(|whole| *whole > 0.0)?;
    let difference: Vec<f64> = sides
        .iter()
        .filter_map(|of| of.means(|side| value(side, headline)))
        .map(|[below, above]| 100.0 * (above - below) / whole)
        .collect();
    let base = plan.arms[pair.denominator].environment.as_str();
    let mut absent: Vec<String> =
        found.absent.iter().map(|of| format!("{} ({})", of.what, of.reason.trim_end_matches('.'))).collect();
    let mut parts = Vec::new();
    if uses_several_cpus(plan, trials, found.pair) {
        absent.push("CPU time of several threads (wall time does not contain it; compare cpu_s)".to_owned());
    } else if !found.blocks.is_empty() {
        parts = parts_of(found, (whole, is_wall), (base, headline), &mut absent);
    }
    let claims: Vec<Claim> = [&difference]
        .into_iter()
        .chain(parts.iter().map(|part| &part.blocks))
        .map(|blocks| Claim::of(blocks, location::SMALLEST, plan.design.delta.0, Better::Lower))
        .collect();
    let mut judged = judge_study(&claims, rate(plan.extensions.len())).into_iter().map(|judged| judged.interval);
    let whole_difference = judged.next()??;
    let intervals: Vec<(Part, Interval)> =
        parts.into_iter().zip(judged).filter_map(|(part, interval)| Some((part, interval?))).collect();
    let rest = rest(&whole_difference, intervals.iter().map(|(_, interval)| interval));
    let matters = 100.0 * plan.design.delta.0;
    let arm = pair.numerator;
    let mut rows: Vec<ExplanationRow> = intervals
        .iter()
        .map(|(part, interval)| {
            let shown = interval.lo > matters || interval.hi < -matters;
            let cause = if shown { part.cause } else { Cause::Examined };
            let excluded = interval.lo.abs().max(interval.hi.abs()) <= matters;
            let excluded = if excluded {
                format!("excluded as a cause of more than {}", plan.design.delta)
            } else {
                String::new()
            };
            let advice: Vec<&str> = [part.advice.as_str(), &excluded].into_iter().filter(|of| !of.is_empty()).collect();
            row(plan, arm, (cause, &part.what), "%", *interval, &advice.join("; "))
        })
        .collect();
    order::by(&mut rows, |one, two| two.value.abs().total_cmp(&one.value.abs()));
    let names: Vec<&str> = intervals.iter().map(|(part, _)| part.name).collect();
    let what = match names.is_empty() {
        true => format!("difference of which nothing was examined, of {base}'s {headline}"),
        false => format!("extra time beyond {}, of {base}'s {headline}", names.join(", ")),
    };
    let ratio = ratios.iter().find(|row| {
        row.metric == headline
            && row.treatment == plan.arms[pair.numerator].treatment
            && row.relative_to == plan.arms[pair.denominator].treatment
    });
    let mut advice = Vec::new();
    if let Some(ratio) = ratio.filter(|ratio| ratio.outcome == Outcome::Equivalent) {
        let most = ratio.lo.zip(ratio.hi).map_or(0.0, |(lo, hi)| 100.0 * (hi - 1.0).abs().max((lo - 1.0).abs()));
        advice.push(format!("no difference: equivalent within {most:.1} %"));
    }
    if !absent.is_empty() {
        advice.push(format!("not examined: {}", absent.join("; ")));
    }
    rows.push(row(plan, arm, (Cause::Examined, &what), "%", rest, &advice.join("; ")));
    Some(rows)
}

/// The parts that are known of both sides in all blocks; what is not is added to `absent` unless a reason of it is there.
fn parts_of(
    found: &ExaminedPair,
    (whole, is_wall): (f64, bool),
    (base, headline): (&str, &str),
    absent: &mut Vec<String>,
) -> Vec<Part> {
    let blocks = |seconds: fn(&ExaminedSide) -> Option<f64>| -> Option<Vec<f64>> {
        let of = |[below, above]: &[ExaminedSide; 2]| Some(100.0 * (seconds(above)? - seconds(below)?) / whole);
        found.blocks.iter().map(of).collect()
    };
    let means = |of: fn(&ExaminedSide) -> Option<f64>, side: usize| -> Option<f64> {
        mean(&found.blocks.iter().map(|sides| of(&sides[side])).collect::<Option<Vec<f64>>>()?)
    };
    let against = |what: &str, of: fn(&ExaminedSide) -> Option<f64>| {
        let both = means(of, 1).zip(means(of, 0));
        both.map(|(above, below)| format!("{what} takes {above:.0} ns, against {below:.0} ns in {base}"))
            .unwrap_or_default()
    };
    let each = |of: fn(&ExaminedSide) -> Option<f64>, with: &str| {
        means(of, 1).map(|count| format!(" ({count:.0} a run{with})")).unwrap_or_default()
    };
    let part = |(cause, name, count): (Cause, &'static str, String), advice: String, blocks: Vec<f64>| Part {
        cause,
        name,
        what: format!("extra time of {name}{count}, of {base}'s {headline}"),
        advice,
        blocks,
    };
    let mut parts = Vec::new();
    match blocks(ExaminedSide::in_calls_s) {
        Some(blocks) => {
            let advice = against("a call", |side| Some(side.call_ns));
            let each = each(ExaminedSide::calls_of_a_run, ", with its supervisor's");
            parts.push(part((Cause::SystemCalls, CALLS, each), advice, blocks));
        }
        None if found.absent.iter().any(|of| of.what == CALLS) => {}
        None => absent.push(format!("{CALLS} (they were not counted)")),
    }
    match blocks(ExaminedSide::in_faults_s) {
        Some(blocks) => {
            let advice = against("a fault", |side| side.fault_ns);
            parts.push(part((Cause::PageFaults, "page faults", each(|side| side.page_faults, "")), advice, blocks));
        }
        None => absent.push("page faults (they could not be timed)".to_owned()),
    }
    if is_wall {
        // A side of which nothing is counted has no quota: natively there is no such group where containers have one.
        let of_one = found.blocks.iter().flatten().any(|side| side.throttled.is_some());
        let of_side = |side: &ExaminedSide| side.throttled.map_or(Some(0.0), |_| side.throttled_s());
        match blocks(of_side).filter(|_| of_one) {
            // Where no quota withholds anything there is nothing to estimate.
            Some(blocks) if blocks.iter().any(|percent| *percent != 0.0) => {
                parts.push(part(
                    (Cause::Throttling, "throttling by a CPU quota", String::new()),
                    String::new(),
                    blocks,
                ));
            }
            Some(_) => {}
            None => absent.push("throttling (the kernel does not count it here)".to_owned()),
        }
    }
    parts
}

/// The difference less its parts, with the errors of all of them.
fn rest<'i>(difference: &Interval, parts: impl Iterator<Item = &'i Interval>) -> Interval {
    let (mut centre, mut below, mut above) =
        (difference.centre, (difference.centre - difference.lo).powi(2), (difference.hi - difference.centre).powi(2));
    for part in parts {
        centre -= part.centre;
        below += (part.hi - part.centre).powi(2);
        above += (part.centre - part.lo).powi(2);
    }
    Interval { centre, lo: centre - below.sqrt(), hi: centre + above.sqrt(), ..*difference }
}
