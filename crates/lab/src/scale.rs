//! The scale itself on the scale: known costs put on blinded arms, and what the analysis finds of them.
//!
//! This is the one real test of what a study here can resolve: the costs run through the whole path, from the loop that
//! is timed to the interval. The arms carry random labels. [`recover`] works from plan and trials, which hold labels
//! alone; only then does [`open`] take the injected costs. An arm against itself with 0 % on it is among them.

use crate::analysis::{RATE, Run, interval};
use crate::trials;
use baremark_model::metric::Better;
use baremark_model::order;
use baremark_model::plan::{Cell, Contrast, Pair, Plan};
use baremark_model::scale::{FORMAT, InjectedCosts, PARAMETER, ScaleDocument, ScaleRow, extra};
use baremark_model::units::Share;
use baremark_model::value::Value;
use baremark_stats::Interval;
use baremark_stats::special::binomial_cdf;

/// The costs that are put on.
pub const COSTS: [Share; 4] = [Share(0.0), Share(0.01), Share(0.02), Share(0.05)];
/// The factor by which blinded arms differ.
pub const FACTOR: &str = "blinded";

/// `plan`, with its arm `index` run against copies of itself that carry these labels; exactly `blocks` blocks.
#[must_use]
pub fn blind(mut plan: Plan, index: usize, labels: &[String], blocks: u64) -> Plan {
    let base = plan.arms[index].clone();
    let blinded = labels.iter().map(|label| {
        let mut arm = base.clone();
        arm.treatment.insert(FACTOR.to_owned(), label.clone());
        arm.arm.parameters.insert(PARAMETER.to_owned(), Value::Text(label.clone()));
        arm
    });
    let arms: Vec<_> = std::iter::once(base.clone()).chain(blinded).collect();
    let pair =
        |numerator| Pair { numerator, denominator: 0, contrast: Contrast::Factor, interleaved: true, asked: true };
    plan.pairs = (1..arms.len()).map(pair).collect();
    plan.cells = (0..plan.pairs.len()).map(Cell::Pair).collect();
    plan.factors.iter_mut().for_each(|(key, levels)| levels.retain(|level| base.treatment.get(key) == Some(level)));
    plan.factors.push((FACTOR.to_owned(), labels.to_vec()));
    (plan.rows, plan.columns) = (Some(FACTOR.to_owned()), "environment".to_owned());
    (plan.arms, plan.absent, plan.published) = (arms, Vec::new(), None);
    (plan.design.least_blocks, plan.design.most_blocks) = (blocks, blocks);
    plan.title = "Known overheads in blinded arms: are they recovered?".to_owned();
    plan
}

/// What was found of one blinded arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    pair: usize,
    label: String,
    blocks: usize,
    /// Of ln(1 + cost).
    interval: Option<Interval>,
}

/// The cost of every blinded arm of a run, as the analysis of any study would find it.
#[must_use]
pub fn recover(run: &Run, better: Better) -> Vec<Recovered> {
    let of_pair = |(pair, planned): (usize, &Pair)| {
        let label = run.plan.arms[planned.numerator].treatment.get(FACTOR)?.clone();
        let logs: Vec<f64> = trials::log_ratios(&run.plan, &run.trials, pair)
            .into_iter()
            .map(|log| if better == Better::Higher { -log } else { log })
            .collect();
        Some(Recovered { pair, label, blocks: logs.len(), interval: interval(&logs) })
    };
    run.plan.pairs.iter().enumerate().filter_map(of_pair).collect()
}

/// The injected costs, opened after everything was found.
#[must_use]
pub fn open(run: &Run, native_means: &str, found: Vec<Recovered>, costs: &InjectedCosts) -> ScaleDocument {
    let row = |found: Recovered| {
        let asked = *costs.0.get(&found.label)?;
        let injected = injected(run, found.pair, asked);
        let limits = found.interval.map(|interval| (interval.lo, interval.centre, interval.hi));
        Some(ScaleRow {
            label: found.label,
            asked: asked.0,
            injected: injected.exp_m1(),
            blocks: found.blocks,
            recovered: limits.map(|(_, centre, _)| centre.exp_m1()),
            lo: limits.map(|(lo, ..)| lo.exp_m1()),
            hi: limits.map(|(.., hi)| hi.exp_m1()),
            covers: limits.map(|(lo, _, hi)| lo <= injected && injected <= hi),
            told_from_none: limits.map(|(lo, _, hi)| lo > 0.0 || hi < 0.0),
        })
    };
    let mut rows: Vec<ScaleRow> = found.into_iter().filter_map(row).collect();
    order::by(&mut rows, |one, two| one.asked.total_cmp(&two.asked).then_with(|| one.label.cmp(&two.label)));
    let intervals = rows.iter().filter(|row| row.covers.is_some()).count();
    let covered = rows.iter().filter(|row| row.covers == Some(true)).count();
    #[expect(clippy::cast_possible_wrap, reason = "a handful of arms")]
    let chance = binomial_cdf(covered as i64, intervals as u64, 1.0 - RATE);
    ScaleDocument {
        format: FORMAT.to_owned(),
        run: run.id.clone(),
        workload: run.plan.workload.clone(),
        native_means: native_means.to_owned(),
        blocks: run.trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0),
        confidence: 1.0 - RATE,
        rows,
        covered,
        intervals,
        chance,
    }
}

/// ln(1 + cost) of what was really injected: repetitions are whole, and each trial finds its own number of them.
fn injected(run: &Run, pair: usize, asked: Share) -> f64 {
    let trials = run.trials.iter().filter(|trial| run.plan.cells[trial.cell] == Cell::Pair(pair));
    let mut logs = Vec::new();
    for phase in trials.filter_map(|trial| trial.counted()).flat_map(|result| &result.series) {
        if phase.arm == 1 && phase.reps > 0 {
            #[expect(clippy::cast_precision_loss, reason = "repetitions are far from 2^53")]
            logs.push((extra(phase.reps, asked) as f64 / phase.reps as f64).ln_1p());
        }
    }
    baremark_stats::estimate::mean(&logs).unwrap_or_else(|| asked.0.ln_1p())
}
