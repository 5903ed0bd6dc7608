//! In which of a run's own metrics the extra time of an arm is: CPU time of a program in user mode and in the kernel, communication between its processes, the part of a start that
//! passes before a server's own code runs.
//!
//! Each is the difference of that part between both arms, block by block, in percent of the reference's time: the parts of a difference can be set against it. CPU time is a part of
//! the time that passes only where no more than one CPU is used at once, and has no row for programs that use more. Parts are judged together, and one whose interval holds 0 or that is below
//! delta has no row. The largest comes first.

use crate::activity::row;
use crate::trials::{self, Finished, Side};
use baremark_model::codes::Cause;
use baremark_model::command;
use baremark_model::descriptor::Descriptor;
use baremark_model::document::ExplanationRow;
use baremark_model::order;
use baremark_model::plan::{Pair, Plan};
use baremark_model::unit;
use baremark_stats::interim::rate;
use baremark_stats::location;
use baremark_stats::multiplicity::{Claim, judge_study};
use baremark_stats::outcome::Better;

/// Metrics that are parts of others: the whole, the part, and what it is.
const PARTS: [(&str, &str, &str); 3] = [
    (command::WALL.key, command::USER.key, "CPU time in user mode"),
    (command::WALL.key, command::SYSTEM.key, "CPU time in the kernel"),
    ("answered_ms", "began_ms", "time until the server's main function runs"),
];
/// A metric of which each value is the share of its run's time, in percent, that went to communication.
const COMMUNICATION: &str = "communication";

/// A part of an arm's time that may be shown.
struct Candidate {
    arm: usize,
    what: String,
    blocks: Claim,
}

/// The parts that are shown, by the numerator's arm, the largest of each first.
pub(crate) fn explain(plan: &Plan, trials: &[Finished], workloads: &[&Descriptor]) -> Vec<(usize, ExplanationRow)> {
    let mut all = Vec::new();
    for (index, pair) in plan.pairs.iter().enumerate() {
        let emulated = [pair.numerator, pair.denominator].iter().any(|&arm| plan.arms[arm].emulated);
        if pair.is_compared() && !emulated {
            all.extend(candidates(plan, trials, workloads, (index, pair)));
        }
    }
    let claims: Vec<Claim> = all.iter().map(|one| one.blocks).collect();
    let judged = judge_study(&claims, rate(plan.extensions.len()));
    let matters = 100.0 * plan.design.delta.0;
    let shown = all.iter().zip(judged).filter_map(|(one, judged)| {
        let interval = judged.interval.filter(|of| !of.contains(0.0) && of.centre.abs() > matters)?;
        Some((one.arm, row(plan, one.arm, (Cause::OwnTime, &one.what), "%", interval, "")))
    });
    let mut shown: Vec<(usize, ExplanationRow)> = shown.collect();
    order::by(&mut shown, |one, two| two.1.value.abs().total_cmp(&one.1.value.abs()));
    shown
}

fn candidates(
    plan: &Plan,
    trials: &[Finished],
    workloads: &[&Descriptor],
    (index, pair): (usize, &Pair),
) -> Vec<Candidate> {
    let headline = plan.metric_of(pair.denominator);
    let kind = plan.workload_of(pair.denominator);
    let Some(descriptor) = workloads.iter().find(|of| of.kind == kind) else { return Vec::new() };
    let unit_of = |key: &str| descriptor.metric(key).map(|metric| metric.unit);
    let Some(unit) = unit_of(headline) else { return Vec::new() };
    let base = plan.arms[pair.denominator].environment.as_str();
    let sides = trials::sides(plan, trials, index);
    // Of one trial what the part takes, in the unit of the whole.
    let candidate = |what: &str, part: &dyn Fn(Side<'_>) -> Option<f64>| {
        let share = |side: &trials::Sides<'_>| {
            let [below, above] = side.means(part)?;
            let whole = side.mean(0, |side| side.trial.value(side.arm, headline)).filter(|whole| *whole > 0.0)?;
            Some(100.0 * (above - below) / whole)
        };
        let differences: Vec<f64> = sides.iter().filter_map(share).collect();
        Candidate {
            arm: pair.numerator,
            what: format!("extra {what}, of {base}'s {headline}"),
            // Of its outcome nothing is asked but whether the interval leaves out 0.
            blocks: Claim::of(&differences, location::SMALLEST, plan.design.delta.0, Better::Higher),
        }
    };
    let is_part = |whole: &str| whole == headline && (whole != command::WALL.key || trials::use_one_cpu(&sides));
    let parts = PARTS.iter().filter(|(whole, ..)| is_part(whole));
    let mut all: Vec<Candidate> = parts
        .filter_map(|(_, part, what)| {
            let factor = unit::conversion(unit_of(part)?, unit)?;
            Some(candidate(what, &|side| Some(factor * side.trial.value(side.arm, part)?)))
        })
        .collect();
    let is_time = unit::conversion(unit, "s").is_some();
    if unit_of(COMMUNICATION) == Some("%") && is_time {
        let spent = |side: Side<'_>| {
            let of = |key: &str| side.trial.value(side.arm, key);
            Some(of(COMMUNICATION)? / 100.0 * of(headline)?)
        };
        all.push(candidate("communication", &spent));
    }
    all
}
