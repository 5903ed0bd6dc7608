//! How many quads each cell's trials have from the second block on: by what the first has shown of noise and costs.
//!
//! The first block has the design's. What its quads vary by, and what a trial takes besides them, decide the rest ([`baremark_stats::spend`]), before the second block
//! and for good: a run that is resumed or extended continues with the quads that its trials have. One block cannot show how much trials vary beyond their quads; that
//! is a prior here ([`BETWEEN_TRIALS`]), and not measured.

use crate::schedule;
use crate::trials::{self, Finished};
use baremark_model::plan::Plan;
use baremark_stats::interim::rate;
use baremark_stats::quads::{self, FEWEST};
use baremark_stats::spend::{Goal, RatioNoise, TrialCost};
use std::time::Duration;

/// Variance between trials over that of one quad: a prior, since one block does not show it. It stands for trials whose standard deviation is a twentieth of a quad's, so that
/// 20 quads are best where a trial's start takes as long as a quad, and no trial has hundreds for the sake of a quiet one. Where it is wrong, blocks are longer or more than
/// they need be; intervals are those of the blocks as they came out, whatever was assumed.
const BETWEEN_TRIALS: f64 = 1.0 / 400.0;
/// What may be planned of the time that is left: trials do not all take as long as the first, and a study that has a block too few has no interval.
const PLANNED: f64 = 0.9;
/// Most quads that a design may have, too.
const MOST_QUADS: f64 = 1000.0;

/// For each cell the quads of a trial; `None` where it has the design's.
pub(crate) fn quads(plan: &Plan, trials: &[Finished]) -> Vec<Option<u64>> {
    if !plan.quads_by_variance {
        return vec![None; plan.cells.len()];
    }
    let chosen = of_first_block(plan, trials);
    let of_cell = |cell: usize| match later(plan, trials, cell) {
        Some(of_trials) => of_trials,
        None => chosen.as_ref().and_then(|chosen| chosen.get(cell).copied()),
    };
    (0..plan.cells.len()).map(of_cell).collect()
}

/// What the trials of later blocks have already; `None` where there is none.
fn later(plan: &Plan, trials: &[Finished], cell: usize) -> Option<Option<u64>> {
    let trial = trials.iter().find(|trial| trial.cell == cell && trial.block > 0)?;
    let of_design = schedule::trial(plan, trial.block, cell);
    let same = (&of_design.schedule, of_design.most_ns) == (&trial.spec.schedule, trial.spec.most_ns);
    Some((!same).then(|| schedule::quads_of(&trial.spec)))
}

/// What the first block decides; `None` where a cell has no trial in it that counts, or too few phases to know how they vary.
fn of_first_block(plan: &Plan, trials: &[Finished]) -> Option<Vec<u64>> {
    let of_cell = |cell: usize| cost(plan, first(trials, cell)?);
    let costs = (0..plan.cells.len()).map(of_cell).collect::<Option<Vec<TrialCost>>>()?;
    let asked = (0..plan.pairs.len()).filter(|&pair| plan.pairs[pair].asked);
    let ratio = |pair: usize| {
        let cells = cells_of(plan, pair)?;
        let between = BETWEEN_TRIALS * cells.iter().map(|&cell| costs[cell].variance).sum::<f64>();
        Some(RatioNoise { cells, between })
    };
    let ratios = asked.map(ratio).collect::<Option<Vec<RatioNoise>>>()?;
    let spent_ns: u64 = trials.iter().filter(|trial| trial.block == 0).map(|trial| trial.elapsed_ns).sum();
    let count = |blocks: u64| u32::try_from(blocks).unwrap_or(u32::MAX);
    let goal = Goal {
        half_width: plan.design.precision.0.ln_1p(),
        confidence: 1.0 - rate(0),
        seconds: PLANNED * seconds(plan.design.budget.0.saturating_sub(spent_ns)),
        smallest: count(plan.design.least_blocks),
        most: count(plan.design.most_blocks),
    };
    let chosen = baremark_stats::spend::quads(&costs, &ratios, &goal)?;
    Some(chosen.into_iter().map(u64::from).collect())
}

/// What a trial of a cell takes.
pub(crate) struct TrialTime {
    /// From its start to its end: the mean of those after the first block, where there are some.
    pub(crate) expected: Duration,
    /// Its phases alone, which every trial has; all of it where what they take is not known.
    pub(crate) phases: Duration,
    /// Whether it has trials after the first block: these neither look for their repetitions nor check their whole result.
    pub(crate) is_repeated: bool,
}

/// What a trial of each cell takes with these quads, by its trials after the first block, or by the costs of the first; as long as that where its trials have the
/// design's quads, or do not say what they cost.
pub(crate) fn times(plan: &Plan, trials: &[Finished], quads: &[Option<u64>]) -> Vec<TrialTime> {
    let of_cell = |(cell, quads): (usize, &Option<u64>)| {
        let first = first(trials, cell);
        let taken = first.map_or(0, |first| first.elapsed_ns);
        let measured = first.and_then(phases_ns).unwrap_or(taken);
        let planned = quads.zip(first.and_then(|first| cost(plan, first))).and_then(|(count, cost)| {
            #[expect(clippy::cast_precision_loss, reason = "at most a thousand")]
            let phases_s = count as f64 * cost.quad_s;
            let of = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
            of(cost.start_s + phases_s).zip(of(phases_s))
        });
        let (expected, phases) = planned.unwrap_or((Duration::from_nanos(taken), Duration::from_nanos(measured)));
        let repeated = trials.iter().filter(|trial| trial.cell == cell && trial.block > 0);
        let (count, ns) = repeated.fold((0_u64, 0_u64), |(count, ns), trial| (count + 1, ns + trial.elapsed_ns));
        let mean = ns.checked_div(count).map(Duration::from_nanos);
        TrialTime { expected: mean.unwrap_or(expected), phases, is_repeated: mean.is_some() }
    };
    quads.iter().enumerate().map(of_cell).collect()
}

/// All cells, those that a requested ratio needs together.
pub(crate) fn connected(plan: &Plan) -> Vec<Vec<usize>> {
    let asked = (0..plan.pairs.len()).filter(|&pair| plan.pairs[pair].asked).filter_map(|pair| cells_of(plan, pair));
    let mut groups: Vec<Vec<usize>> = (0..plan.cells.len()).map(|cell| vec![cell]).collect();
    for cells in asked {
        let (together, others): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.iter().any(|cell| cells.contains(cell)));
        groups = others;
        groups.push(together.concat());
    }
    groups
}

fn first(trials: &[Finished], cell: usize) -> Option<&Finished> {
    trials.iter().find(|trial| trial.cell == cell && trial.block == 0)
}

/// The cells whose trials give a ratio.
fn cells_of(plan: &Plan, pair: usize) -> Option<Vec<usize>> {
    let mut cells: Vec<usize> = trials::places_of(plan, pair).iter().flatten().map(|(cell, _)| *cell).collect();
    cells.sort_unstable();
    cells.dedup();
    (!cells.is_empty()).then_some(cells)
}

/// What a trial took besides its quads, what each took, and how much they vary. The first block's trials find their repetitions, check their whole result and may start
/// sites that are kept: later ones take less, so that their quads are somewhat more than the best. Where others disturbed a trial, that is in its noise and costs as in any other's.
fn cost(plan: &Plan, trial: &Finished) -> Option<TrialCost> {
    let done = trial.counted()?.series.len() / phases_of_quad(trial);
    let phases_ns = phases_ns(trial)?;
    if done == 0 || phases_ns == 0 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a number of quads")]
    let quad_s = seconds(phases_ns) / done as f64;
    let least = u32::try_from(done.min(FEWEST)).unwrap_or(1);
    let start_ns = trial.elapsed_ns.saturating_sub(phases_ns);
    // What is long to start, such as a database that is loaded, may be measured for as long.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a thousand")]
    let most = (seconds(start_ns.max(schedule::MOST_MEASURED_NS)) / quad_s).clamp(1.0, MOST_QUADS) as u32;
    let start_s = seconds(start_ns);
    Some(TrialCost { start_s, quad_s, variance: variance(plan, trial)?, least, most: most.max(least) })
}

/// From the begin of a trial's first phase to the end of its last, where it counts and has some.
fn phases_ns(trial: &Finished) -> Option<u64> {
    let series = &trial.counted()?.series;
    series.last()?.end_ns.checked_sub(series.first()?.begin_ns)
}

/// Phases of a quad: two of each arm.
fn phases_of_quad(trial: &Finished) -> usize {
    2 * trial.spec.arms.len().max(1)
}

/// Variance of what one quad adds to a log ratio: from the quads where they are enough, else from the phases of each arm, in which a drift counts as noise.
fn variance(plan: &Plan, trial: &Finished) -> Option<f64> {
    let arms = plan.arms_of(plan.cells[trial.cell]);
    let metric = plan.metric_of(*arms.first()?);
    let own = if arms.len() == 2 { trial.quads(0, 1, metric) } else { Vec::new() };
    quads::variance(&own).or_else(|| {
        let of_arm = |arm: usize| {
            let phases = trial.phases(arm, metric);
            let logs: Vec<f64> = phases.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
            // A quad has two of its phases.
            baremark_stats::estimate::sd(&logs).filter(|_| logs.len() == phases.len()).map(|sd| sd * sd / 2.0)
        };
        (0..arms.len()).map(of_arm).sum()
    })
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a run")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
