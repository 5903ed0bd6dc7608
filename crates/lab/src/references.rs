//! Whether what takes turns with several others is the same next to each: an A/A of the reference, made of trials that run anyway.

use crate::trials::{self, Finished};
use baremark_model::document::{FlagRow, ReferenceRow};
use baremark_model::plan::{Plan, Treatment};
use baremark_model::units::Share;
use baremark_stats::Estimate;
use baremark_stats::interim::rate;
use baremark_stats::location::centre;

/// Each arm that takes turns with several: next to each further one against next to the first, block by block.
pub(crate) fn rows(plan: &Plan, trials: &[Finished]) -> Vec<ReferenceRow> {
    let mut rows = Vec::new();
    for (arm, planned) in plan.arms.iter().enumerate() {
        let metric = plan.metric_of(arm);
        let by_cell = trials::by_cell(plan, trials, arm, metric);
        let Some((first_cell, first)) = by_cell.first() else { continue };
        for (cell, other) in by_cell.iter().skip(1) {
            let logs: Vec<f64> =
                other.iter().filter_map(|(block, value)| Some((value / first.get(block)?).ln())).collect();
            let Some(ratio) = centre(&logs).map(f64::exp) else { continue };
            let limits = Estimate::of(&logs).map(|of| of.interval(1.0 - rate(plan.extensions.len())).exp());
            rows.push(ReferenceRow {
                metric: metric.to_owned(),
                treatment: planned.treatment.clone(),
                partner: partner(plan, *cell, arm),
                first_partner: partner(plan, *first_cell, arm),
                blocks: logs.len(),
                ratio,
                lo: limits.map(|limits| limits.lo),
                hi: limits.map(|limits| limits.hi),
            });
        }
    }
    rows
}

/// The treatment of the other arm of a cell.
fn partner(plan: &Plan, cell: usize, arm: usize) -> Treatment {
    let other = plan.arms_of(plan.cells[cell]).into_iter().find(|other| *other != arm);
    other.map(|other| plan.arms[other].treatment.clone()).unwrap_or_default()
}

/// Those that differ by more than matters: their value is not of the treatment alone.
pub(crate) fn flags(rows: &[ReferenceRow], delta: Share) -> Vec<FlagRow> {
    let differs = |row: &&ReferenceRow| {
        let shown = row.lo.zip(row.hi).is_some_and(|(lo, hi)| !(lo..=hi).contains(&1.0));
        shown && row.ratio.ln().abs() > delta.0.ln_1p()
    };
    let flag = |row: &ReferenceRow| {
        let (ratio, partner) = (row.ratio, levels_of(&row.partner));
        let text =
            format!("its value depends on the arm that it is paired with: {ratio:.3} times as much with {partner}");
        FlagRow { treatment: row.treatment.clone(), text, trials: row.blocks, code: None }
    };
    rows.iter().filter(differs).map(flag).collect()
}

/// "environment microvm, page 4k"
fn levels_of(treatment: &Treatment) -> String {
    treatment.iter().map(|(key, level)| format!("{key} {level}")).collect::<Vec<_>>().join(", ")
}
