//! How the headline's metric changes with another metric that was measured in the same trials (`[report] against`).
//!
//! Treatments that differ in the columns' factor alone are the points of a line; those without the other metric, such as a base that has
//! none, are not on it. Every block has a line of its own, so that the interval over blocks holds whatever varies between them.

use crate::trials::Finished;
use baremark_model::descriptor::Descriptor;
use baremark_model::distinct::grouped;
use baremark_model::document::SlopeRow;
use baremark_model::metric::Metric;
use baremark_model::plan::{Plan, Treatment};
use baremark_stats::Estimate;
use baremark_stats::estimate::mean;
use baremark_stats::line::Line;
use baremark_stats::location::centre;
use std::collections::BTreeMap;

/// That of every interval of a single estimate.
const CONFIDENCE: f64 = 0.95;

/// One row for each line of treatments, in the order of the plan; none where the study names no metric.
pub(crate) fn slopes(plan: &Plan, trials: &[Finished], workloads: &[&Descriptor]) -> Vec<SlopeRow> {
    let Some(against) = &plan.against else { return Vec::new() };
    let lines = grouped(plan.arms.iter().enumerate().map(|(arm, planned)| {
        let mut shared = planned.treatment.clone();
        shared.remove(&plan.columns);
        (shared, arm)
    }));
    let row = |(treatment, arms): (Treatment, Vec<usize>)| {
        let first = *arms.first()?;
        let kind = plan.workload_of(first);
        let of = |key: &str| workloads.iter().find(|workload| workload.kind == kind)?.metric(key);
        line(plan, trials, (of(plan.metric_of(first))?, of(against)?), treatment, &arms)
    };
    lines.into_iter().filter_map(row).collect()
}

fn line(
    plan: &Plan,
    trials: &[Finished],
    (metric, against): (&Metric, &Metric),
    treatment: Treatment,
    arms: &[usize],
) -> Option<SlopeRow> {
    let points: Vec<BTreeMap<u64, (f64, f64)>> =
        arms.iter().map(|&arm| by_block(plan, trials, arm, metric.key, against.key)).collect();
    let points: Vec<_> = points.into_iter().filter(|of| !of.is_empty()).collect();
    // A block that lacks a point would have a line through others.
    let whole = points.first()?.keys().filter_map(|block| points.iter().map(|of| of.get(block).copied()).collect());
    let lines: Vec<Line> = whole.filter_map(|of_block: Vec<(f64, f64)>| Line::through(&of_block)).collect();
    let (slopes, at_zero): (Vec<f64>, Vec<f64>) = lines.iter().map(|line| (line.slope, line.intercept)).unzip();
    let interval = Estimate::of(&slopes).map(|estimate| estimate.interval(CONFIDENCE));
    Some(SlopeRow {
        metric: metric.key.to_owned(),
        unit: metric.unit.to_owned(),
        against: against.key.to_owned(),
        against_unit: against.unit.to_owned(),
        treatment,
        points: points.len(),
        blocks: slopes.len(),
        slope: centre(&slopes)?,
        lo: interval.map(|interval| interval.lo),
        hi: interval.map(|interval| interval.hi),
        at_zero: centre(&at_zero)?,
    })
}

/// Of each block the two metrics of an arm, the mean of its trials where it has several.
fn by_block(plan: &Plan, trials: &[Finished], arm: usize, metric: &str, against: &str) -> BTreeMap<u64, (f64, f64)> {
    let mut values: BTreeMap<u64, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    let place = |trial: &Finished| plan.arms_of(plan.cells[trial.cell]).iter().position(|&of| of == arm);
    let counted = trials.iter().filter(|trial| trial.counted().is_some());
    for (trial, index) in counted.filter_map(|trial| Some((trial, place(trial)?))) {
        if let (Some(value), Some(other)) = (trial.value(index, metric), trial.value(index, against)) {
            let of_block = values.entry(trial.block).or_default();
            of_block.0.push(value);
            of_block.1.push(other);
        }
    }
    values.into_iter().filter_map(|(block, (value, other))| Some((block, (mean(&other)?, mean(&value)?)))).collect()
}
