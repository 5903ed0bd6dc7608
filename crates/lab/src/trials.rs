//! From finished trials to the numbers that statistics works on: one value for each trial and arm, one log ratio for each
//! trial of a pair.

use baremark_model::command;
use baremark_model::disturbed::QUAD;
use baremark_model::event::TrialStatus;
use baremark_model::hdr;
use baremark_model::histogram::Histogram;
use baremark_model::metric::Metric;
use baremark_model::order;
use baremark_model::percentile::Percentile;
use baremark_model::plan::{Cell, Pair, Plan};
use baremark_model::wire::{Series, TrialResult, TrialSpec};
use baremark_stats::percentile::sample_floor;
use baremark_stats::quads;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// Trials of one cell that may fail or be void in a row before it is given up.
pub(crate) const PATIENCE: usize = 3;

/// Blocks that are complete: those in which every one of the `cells` has its trial, but for cells that had been given up by
/// then. `trials` are blocks and cells, each with whether it counts. Log, report and history all show this number.
#[must_use]
pub fn complete_blocks(cells: usize, trials: impl IntoIterator<Item = (u64, usize, bool)>) -> u64 {
    let mut by_block: BTreeMap<u64, BTreeMap<usize, bool>> = BTreeMap::new();
    for (block, cell, counts) in trials {
        by_block.entry(block).or_default().insert(cell, counts);
    }
    let mut setbacks = vec![0; cells];
    let mut complete = 0;
    for block in by_block.values() {
        let has = |cell: usize| block.contains_key(&cell) || setbacks[cell] >= PATIENCE;
        complete += u64::from((0..cells).all(has));
        for (&cell, &counts) in block.iter().filter(|(cell, _)| **cell < cells) {
            setbacks[cell] = if counts { 0 } else { setbacks[cell] + 1 };
        }
    }
    complete
}

/// Whether a trial counts of which this came: not where the result has reasons against it.
#[must_use]
pub fn status_of(result: &TrialResult) -> TrialStatus {
    match result.void.as_slice() {
        [] => TrialStatus::Ok,
        reasons => TrialStatus::Void { reasons: reasons.to_vec() },
    }
}

/// The blocks of a run that are complete.
#[must_use]
pub fn blocks_of(plan: &Plan, trials: &[Finished]) -> u64 {
    let done = |trial: &Finished| (trial.block, trial.cell, trial.status == TrialStatus::Ok);
    complete_blocks(plan.cells.len(), trials.iter().map(done))
}

/// Percentiles of a trial that were worked out from its distributions, by arm and metric, so that each distribution is read once; `None` where
/// there is none.
#[derive(Debug, Default)]
pub struct Percentiles(Mutex<Known>);

/// By arm and metric: `None` where there is no distribution, and in it where its samples are too few.
type Known = BTreeMap<(usize, String), Option<Option<f64>>>;

impl Clone for Percentiles {
    fn clone(&self) -> Percentiles {
        Percentiles::default()
    }
}

/// A trial as the store gives it back.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its block, from 0.
    pub block: u64,
    /// Its cell in the plan.
    pub cell: usize,
    /// Its place among all trials of the run, from 0.
    pub place: u64,
    /// What was asked.
    pub spec: TrialSpec,
    /// How it ended.
    pub status: TrialStatus,
    /// What came of it, unless it failed.
    pub result: Option<TrialResult>,
    /// How long it took, start of the agent included.
    pub elapsed_ns: u64,
    /// What was worked out of it before.
    pub percentiles: Percentiles,
}

impl Finished {
    /// The result, if the trial counts.
    pub fn counted(&self) -> Option<&TrialResult> {
        match self.status {
            TrialStatus::Ok => self.result.as_ref(),
            _ => None,
        }
    }

    /// The values of `metric` in the phases of `arm`, in the order measured; empty unless the trial counts.
    pub fn phases(&self, arm: usize, metric: &str) -> Vec<f64> {
        let Some(result) = self.counted() else { return Vec::new() };
        let of_arm = result.series.iter().filter(|phase| phase.arm == arm);
        of_arm.filter_map(|phase| value(&phase.samples, metric)).collect()
    }

    /// The trial's value of `metric` for `arm`: the exponential of the trimmed mean over the logarithms of its phases, as the
    /// ratio's; of fewer than five phases, or where a value is not positive, the same of the values. `None` unless the trial
    /// counts. Phases of quads that its record says do not count are not in it. A percentile is that of all phases' samples together; in trials that
    /// were stored without distributions it is as any other metric, where every phase has it.
    pub fn value(&self, arm: usize, metric: &str) -> Option<f64> {
        if let Some(percentile) = Percentile::of_key(metric)
            && let Some(value) = self.percentile(arm, metric, &percentile)
        {
            return value;
        }
        let own = self.counting(arm)?;
        let values: Vec<f64> = own.iter().filter_map(|phase| value(&phase.samples, metric)).collect();
        let phases = of_all_phases(metric, values, own.len())?;
        if phases.len() >= quads::FEWEST && phases.iter().all(|value| *value > 0.0) {
            let logs: Vec<f64> = phases.iter().map(|value| value.ln()).collect();
            return quads::summary(&logs).map(f64::exp);
        }
        quads::summary(&phases)
    }

    /// The phases of `arm` but for those of quads that its record says do not count; `None` unless the trial counts.
    pub(crate) fn counting(&self, arm: usize) -> Option<Vec<&Series>> {
        let result = self.counted()?;
        let counts = |place: usize| result.discarded.iter().all(|discarded| discarded.quad != place / QUAD);
        let own = result.series.iter().enumerate().filter(|(place, phase)| phase.arm == arm && counts(*place));
        Some(own.map(|(_, phase)| phase).collect())
    }

    /// A percentile of all samples of `arm`; `None` where their distribution is not known, and in it where they are too few.
    fn percentile(&self, arm: usize, metric: &str, percentile: &Percentile) -> Option<Option<f64>> {
        let mut known = self.percentiles.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = known.get(&(arm, metric.to_owned())) {
            return *value;
        }
        let distribution = self.distribution(arm, &percentile.of);
        let value_of = |percentile: &Percentile| distribution.as_ref().map(|all| percentile_of(all, percentile));
        // Those of the same distribution are asked for next.
        let phases = self.counted().into_iter().flat_map(|result| &result.series).filter(|phase| phase.arm == arm);
        let metrics: BTreeSet<&str> = phases.flat_map(|phase| &phase.samples).map(|sample| &*sample.metric).collect();
        let others = metrics.into_iter().filter_map(|metric| {
            let other = Percentile::of_key(metric).filter(|other| other.of == percentile.of)?;
            Some(((arm, metric.to_owned()), value_of(&other)))
        });
        known.extend(others);
        let value = value_of(percentile);
        known.insert((arm, metric.to_owned()), value);
        value
    }

    /// All samples of `arm` in the phases of the trial, of a distribution as percentiles' keys name it. `None` unless the trial counts,
    /// of ensembles, whose percentile is that of a member by the metric's rule, and where a phase has percentiles of the distribution
    /// and was stored without it, as earlier versions did.
    pub fn distribution(&self, arm: usize, of: &str) -> Option<Histogram> {
        let is_percentile = |metric: &str| Percentile::of_key(metric).is_some_and(|found| found.of == of);
        let mut all = Histogram::default();
        for phase in self.counted()?.series.iter().filter(|phase| phase.arm == arm) {
            let own = phase.points.iter().filter(|point| point.distributions.iter().any(|named| named == of));
            // A part without a histogram is one in which nothing was measured. A stranger's may be long: one is in memory at once.
            let mut own = own.filter_map(|point| point.histogram.as_deref()).peekable();
            if !phase.members.is_empty()
                || own.peek().is_none() && phase.samples.iter().any(|sample| is_percentile(&sample.metric))
            {
                return None;
            }
            for text in own {
                all.add(&hdr::decoded(text).ok()?);
            }
        }
        Some(all)
    }

    /// The values of the first and of the second half of the phases of `arm`; `None` below ten phases.
    pub fn halves(&self, arm: usize, metric: &str) -> Option<(f64, f64)> {
        let phases = self.phases(arm, metric);
        let (first, second) = phases.split_at(phases.len() / 2);
        (phases.len() >= 10).then_some(())?;
        quads::summary(first).zip(quads::summary(second))
    }

    /// ln(`above` / `below`) of each quad, in the order measured: of four phases in which each arm ran twice, but for those that
    /// the trial's record says do not count. Empty unless the trial counts and its arms were interleaved, and where a phase of them lacks a positive
    /// value: to leave out its quad alone would be a choice of quads by their outcome.
    pub fn quads(&self, below: usize, above: usize, metric: &str) -> Vec<f64> {
        let Some(result) = self.counted() else { return Vec::new() };
        let of_arm = |quad: &[Series], arm: usize| -> Vec<f64> {
            quad.iter().filter(|phase| phase.arm == arm).filter_map(|phase| value(&phase.samples, metric)).collect()
        };
        let log_ratio = |quad: &[Series]| {
            let (below, above) = (of_arm(quad, below), of_arm(quad, above));
            (below.len() == 2 && above.len() == 2).then(|| quads::log_ratio(&below, &above)).flatten()
        };
        let counts = |quad: &usize| result.discarded.iter().all(|discarded| discarded.quad != *quad);
        let quads = result.series.chunks_exact(4).enumerate().filter(|(quad, _)| counts(quad));
        quads.map(|(_, quad)| log_ratio(quad)).collect::<Option<Vec<f64>>>().unwrap_or_default()
    }

    /// By how much each of the hypervisor's counters grew inside the timed regions of `arm`, and how long its ranks were in
    /// them, in seconds of all ranks together. `None` unless the trial counts.
    pub fn grown(&self, arm: usize) -> Option<(BTreeMap<String, u64>, f64)> {
        let result = self.counted()?;
        let mut grown = result.arms.get(arm)?.grown.clone();
        let mut seconds = 0.0;
        for run in result.series.iter().filter(|phase| phase.arm == arm).flat_map(|phase| &phase.runs) {
            // In results of format 1 each run has its own counts.
            for (name, count) in &run.audit.counters {
                *grown.entry(name.clone()).or_default() += count;
            }
            seconds += run.times.iter().map(|time| result.tick_rate_per_s.own(time)).sum::<f64>();
        }
        Some((grown, seconds))
    }

    /// Whether this trial was measured before `other`, as the plan orders the trials of a block.
    fn started_before(&self, other: &Finished) -> bool {
        (self.block, self.place) < (other.block, other.place)
    }
}

/// A percentile of a distribution of nanoseconds, in the unit of its key; `None` where there are too few samples for it.
pub(crate) fn percentile_of(samples: &Histogram, percentile: &Percentile) -> Option<f64> {
    /// At which a percentile is known to be below the largest sample.
    const CONFIDENCE: f64 = 0.95;
    let enough = sample_floor(percentile.share, CONFIDENCE).is_none_or(|floor| samples.count() >= floor);
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of at most an hour")]
    let value = samples.value_at(percentile.share).filter(|_| enough)? as f64;
    Some(value / percentile.unit_ns()?)
}

/// The values of a metric in the phases of an arm, of which there are so many; `None` of a percentile for which some phase has too few
/// samples: means of different phases are not in order.
pub(crate) fn of_all_phases(metric: &str, values: Vec<f64>, phases: usize) -> Option<Vec<f64>> {
    (values.len() == phases || Percentile::of_key(metric).is_none()).then_some(values)
}

fn value(samples: &[baremark_model::seam::Sample], metric: &str) -> Option<f64> {
    samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value)
}

/// One observation of a pair: where its denominator and its numerator were measured in a block, and what came out.
#[derive(Clone, Debug)]
pub(crate) struct Observation<'t> {
    /// Where both were measured.
    pub sides: Sides<'t>,
    /// ln(numerator / denominator): of the trial's quads where both took turns, else of the mean logarithms of both arms' values.
    pub log_ratio: f64,
}

impl Observation<'_> {
    /// The block.
    pub fn block(&self) -> u64 {
        self.sides.first(0).trial.block
    }

    /// Whether the denominator ran first.
    pub fn began_below(&self) -> bool {
        if self.sides.interleaved() {
            return self.sides.first(0).trial.spec.schedule.first() == Some(&0);
        }
        self.sides.first(0).trial.started_before(self.sides.first(1).trial)
    }

    /// Whether no trial was flagged.
    pub fn unflagged(&self) -> bool {
        self.trials().all(|trial| trial.counted().is_some_and(|result| result.flags.is_empty()))
    }

    /// Whether both were measured with one instruction set.
    pub fn same_instruction_set(&self) -> bool {
        let mut sets = self.trials().map(|trial| trial.counted().map(|result| result.instruction_set));
        let first = sets.next();
        sets.all(|set| Some(set) == first)
    }

    fn trials(&self) -> impl Iterator<Item = &Finished> {
        self.sides.0.iter().flatten().map(|side| side.trial)
    }
}

/// The observations of `pair`, one for each block in which both arms count, in order of blocks.
pub(crate) fn observations<'t>(plan: &Plan, trials: &'t [Finished], pair: usize) -> Vec<Observation<'t>> {
    observations_of(plan, trials, pair, plan.metric_of(plan.pairs[pair].denominator))
}

/// As [`observations`], of any metric.
pub(crate) fn observations_of<'t>(
    plan: &Plan,
    trials: &'t [Finished],
    pair: usize,
    metric: &str,
) -> Vec<Observation<'t>> {
    let log = |side: Side<'_>| side.trial.value(side.arm, metric).filter(|value| *value > 0.0).map(f64::ln);
    let of = |sides: Sides<'t>| {
        let log_ratio = quads::summary(&sides.quads(metric)).or_else(|| {
            let [below, above] = sides.means(log)?;
            Some(above - below)
        })?;
        Some(Observation { sides, log_ratio })
    };
    sides(plan, trials, pair).into_iter().filter_map(of).collect()
}

/// One arm of a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side<'t> {
    /// The trial.
    pub trial: &'t Finished,
    /// The arm's place in it.
    pub arm: usize,
}

/// The trials of a block in which the denominator and the numerator of a pair were measured, each in the order measured, none without one: one
/// trial for both where they took turns in it, else all that either arm has, so that a ratio is that of the values which are shown.
#[derive(Clone, Debug)]
pub(crate) struct Sides<'t>([Vec<Side<'t>>; 2]);

impl<'t> Sides<'t> {
    /// A value of the denominator and one of the numerator.
    pub fn means(&self, value: impl Fn(Side<'t>) -> Option<f64>) -> Option<[f64; 2]> {
        Some([self.mean(0, &value)?, self.mean(1, &value)?])
    }

    /// A value of the denominator (0) or of the numerator (1): the mean over its trials, of those that have one.
    pub fn mean(&self, which: usize, value: impl Fn(Side<'t>) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.0[which].iter().filter_map(|&side| value(side)).collect();
        #[expect(clippy::cast_precision_loss, reason = "few trials")]
        let count = values.len() as f64;
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)
    }

    /// The trials of the denominator (0) or of the numerator (1).
    pub fn of(&self, which: usize) -> &[Side<'t>] {
        &self.0[which]
    }

    /// The first trial of the denominator (0) or of the numerator (1).
    fn first(&self, which: usize) -> Side<'t> {
        self.0[which][0]
    }

    /// Whether both took turns in one trial.
    fn interleaved(&self) -> bool {
        matches!(&self.0, [below, above] if below.len() == 1 && above.len() == 1 && std::ptr::eq(below[0].trial, above[0].trial))
    }

    /// The log ratios of the quads; none where the arms did not take turns.
    fn quads(&self, metric: &str) -> Vec<f64> {
        let (below, above) = (self.first(0), self.first(1));
        if self.interleaved() { below.trial.quads(below.arm, above.arm, metric) } else { Vec::new() }
    }
}

/// The log ratios of the quads of each block of `pair`, in order of blocks; none where its arms were not interleaved.
pub(crate) fn quads_of(plan: &Plan, trials: &[Finished], pair: usize) -> Vec<Vec<f64>> {
    let metric = plan.metric_of(plan.pairs[pair].denominator);
    let all = sides(plan, trials, pair).into_iter().filter(Sides::interleaved);
    all.map(|sides| sides.quads(metric)).collect()
}

/// Whether programs used one CPU at most, so that their CPU time is a part of their wall time; also where that is not known.
pub(crate) fn use_one_cpu(sides: &[Sides<'_>]) -> bool {
    let cpus = |side: Side<'_>| {
        let of = |metric: Metric| side.trial.value(side.arm, metric.key);
        let cpu_s = of(command::CPU).or_else(|| Some(of(command::USER)? + of(command::SYSTEM)?))?;
        Some(cpu_s / of(command::WALL)?)
    };
    sides.iter().filter_map(|of| of.means(cpus)).flatten().all(|cpus| cpus <= command::ONE_CPU)
}

/// Where `pair` was measured, for each block in which both arms count, in order of blocks.
pub(crate) fn sides<'t>(plan: &Plan, trials: &'t [Finished], pair: usize) -> Vec<Sides<'t>> {
    let [below, above] = places_of(plan, pair).map(|places| {
        let mut by_block: BTreeMap<u64, Vec<Side<'t>>> = BTreeMap::new();
        for trial in trials.iter().filter(|trial| trial.counted().is_some()) {
            let own = places.iter().filter(|(cell, _)| *cell == trial.cell);
            let found: Vec<Side<'t>> = own.map(|&(_, arm)| Side { trial, arm }).collect();
            if !found.is_empty() {
                by_block.entry(trial.block).or_default().extend(found);
            }
        }
        by_block.values_mut().for_each(|sides| order::by_key(sides, |side| side.trial.place));
        by_block
    });
    below.into_iter().filter_map(|(block, below)| Some(Sides([below, above.get(&block)?.clone()]))).collect()
}

/// Where the denominator and the numerator of `pair` are measured: cells, and places among their arms.
pub(crate) fn places_of(plan: &Plan, pair: usize) -> [Vec<(usize, usize)>; 2] {
    let Pair { numerator, denominator, interleaved, .. } = plan.pairs[pair];
    let own = plan.cells.iter().position(|&cell| cell == Cell::Pair(pair));
    match own.filter(|_| interleaved) {
        Some(cell) => [vec![(cell, 0)], vec![(cell, 1)]],
        None => [denominator, numerator].map(|arm| places_of_arm(plan, arm)),
    }
}

/// All cells in which `arm` is measured, and its place among the cell's arms.
fn places_of_arm(plan: &Plan, arm: usize) -> Vec<(usize, usize)> {
    let of = |(cell, of): (usize, &Cell)| Some((cell, plan.arms_of(*of).iter().position(|&found| found == arm)?));
    plan.cells.iter().enumerate().filter_map(of).collect()
}

/// The values of `metric` of `arm` in each cell in which it takes turns with another, by block.
pub(crate) fn by_cell(plan: &Plan, trials: &[Finished], arm: usize, metric: &str) -> Vec<(usize, BTreeMap<u64, f64>)> {
    let with_others = |&(cell, _): &(usize, usize)| matches!(plan.cells[cell], Cell::Pair(_));
    let values = |(cell, place): (usize, usize)| {
        let own = trials.iter().filter(|trial| trial.cell == cell);
        let values =
            own.filter_map(|trial| Some((trial.block, trial.value(place, metric).filter(|value| *value > 0.0)?)));
        (cell, values.collect())
    };
    places_of_arm(plan, arm).into_iter().filter(with_others).map(values).collect()
}

/// Whether `pair` can be measured where the cells that `works` accepts can: each of its arms in one of them.
pub(crate) fn can_be_measured(plan: &Plan, pair: usize, works: impl Fn(usize) -> bool) -> bool {
    places_of(plan, pair).iter().all(|places| places.iter().any(|&(cell, _)| works(cell)))
}

/// The log ratios of `pair`, one for each block in which both arms count, in order of blocks.
pub(crate) fn log_ratios(plan: &Plan, trials: &[Finished], pair: usize) -> Vec<f64> {
    observations(plan, trials, pair).iter().map(|observation| observation.log_ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_alike_whatever_ended_a_run() {
        let counts = |cells, trials: &[(u64, usize, bool)]| complete_blocks(cells, trials.iter().copied());
        assert_eq!(counts(2, &[]), 0);
        assert_eq!(counts(2, &[(0, 1, true), (0, 0, true), (1, 0, true)]), 1, "the budget ended the second block");
        assert_eq!(counts(1, &[(0, 0, false), (1, 0, false)]), 2, "void trials are measured, too");
        // Cell 1 failed three times and was given up; cell 0 went on.
        let mut trials: Vec<(u64, usize, bool)> = (0..10).map(|block| (block, 0, true)).collect();
        trials.extend((0..3).map(|block| (block, 1, false)));
        assert_eq!(counts(2, &trials), 10);
        trials.pop();
        assert_eq!(counts(2, &trials), 2, "it was not given up yet");
    }
}
