//! From a stored run to the result document.
//!
//! Everything is worked out anew from the trials; nothing is carried over from the time when they were measured. The ratios
//! of a study are judged together; each has one interval, which decides its outcome.

use crate::explain;
use crate::observed;
use crate::references;
use crate::reliability;
pub use crate::run::Run;
use crate::run::{better, places, workload_of};
use crate::slope;
use crate::time_use;
use crate::timeline;
use crate::trials::{self, Finished, Observation};
use crate::values;
pub use crate::values::RATE;
use baremark_model::arm::ResolvedArm;
use baremark_model::codes::Flag;
use baremark_model::descriptor::Descriptor;
use baremark_model::document::{
    DetailRow, Document, EstimateRow, FairnessRow, FlagRow, MemberEstimate, Outcome, RatioRow, ReferenceRow, RunHead,
    SensitivityRow, Size, TrialArm, TrialRow, UsedEnvironment,
};
use baremark_model::environments::{self, Capabilities};
use baremark_model::imported;
use baremark_model::metric::Better;
use baremark_model::percentile::Percentile;
use baremark_model::plan::{Contrast, Pair, Plan, Treatment};
use baremark_model::seam::Sample;
use baremark_model::unit::Unit;
use baremark_model::units::Share;
use baremark_model::value::Value;
use baremark_stats::estimate::median;
use baremark_stats::halves::drift;
use baremark_stats::interim::rate;
use baremark_stats::location::{Dependence, centre};
use baremark_stats::multiplicity::{Claim, Judged, judge_study};
use baremark_stats::outcome::{self, Direction, Lack, Subject, Verdict, sharper_at};
use baremark_stats::{Estimate, Interval, precision};
use std::collections::{BTreeMap, BTreeSet};
use std::thread;

/// A drift inside phases below this share is nobody's concern.
const DRIFT_TOLERANCE: f64 = 0.01;
/// Said of a ratio of which a side is emulated, in place of an outcome.
pub(crate) const EMULATED: &str = "no outcome: the times of an emulated machine do not measure a cost";
/// Key of the metric that an executor without a body gives.
const EMPTY_REGION: &str = "empty_region_ns";
/// Key of what the lab measures alongside it: a short frame to the agent and back.
pub(crate) const FRAME_ROUND_TRIP: &str = "frame_round_trip_ns";

/// The document of a run.
#[must_use]
pub fn document(run: &Run, workloads: &[&Descriptor]) -> Document {
    // What was observed is as much work as all the rest, and has nothing to do with it.
    thread::scope(|scope| {
        let observed = scope.spawn(|| observed::observed(run));
        let found = measured(run, workloads);
        match observed.join() {
            Ok(observed) => Document { observed, ..found },
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The document but for system activity.
fn measured(run: &Run, workloads: &[&Descriptor]) -> Document {
    let ratios = ratios(&run.plan, &run.trials, workloads);
    let explanations = explain::explain(&run.plan, &run.trials, workloads, &ratios, run.examined.as_ref());
    let references = references::rows(&run.plan, &run.trials);
    Document {
        trials: run.trials.iter().map(|trial| trial_row(run, trial)).collect(),
        estimates: estimates(run, workloads),
        slopes: slope::slopes(&run.plan, &run.trials, workloads),
        members: member_estimates(run, workloads),
        fairness: fairness(run),
        looks: run.looks.clone(),
        absent: run.plan.absent.clone(),
        flags: flags(run, workloads, &ratios, &references),
        references,
        ratios,
        explanations,
        time: time_use::rows(&run.trials),
        details: details(run),
        timelines: timeline::rows(run),
        reliability: reliability::of(run, workloads),
        ..Document::new(head(run))
    }
}

/// Of each treatment what its workload alone reports: of the last trial that counts, or where none does, of the last.
fn details(run: &Run) -> Vec<DetailRow> {
    let of_arm = |arm: usize| {
        let last = |counted: bool| {
            let trials = run.trials.iter().rev().filter(|trial| !counted || trial.counted().is_some());
            trials.into_iter().find_map(|trial| detail_of(run, trial, arm))
        };
        last(true).or_else(|| last(false))
    };
    (0..run.plan.arms.len()).filter_map(of_arm).collect()
}

fn detail_of(run: &Run, trial: &Finished, arm: usize) -> Option<DetailRow> {
    let place = run.plan.arms_of(*run.plan.cells.get(trial.cell)?).iter().position(|&of| of == arm)?;
    let phases = trial.result.as_ref()?.series.iter().rev().filter(|phase| phase.arm == place);
    let detail = phases.into_iter().find_map(|phase| phase.detail.clone())?;
    let treatment = run.plan.arms[arm].treatment.clone();
    Some(DetailRow { treatment, block: trial.block, format: detail.format, document: detail.document })
}

fn head(run: &Run) -> RunHead {
    RunHead {
        id: run.id.clone(),
        study: run.plan.title.clone(),
        file: run.file.clone(),
        workload: run.plan.workload.clone(),
        metric: run.plan.metric.clone(),
        workloads: run.plan.workloads.clone(),
        published: run.plan.published.clone(),
        native_means: native_means(run),
        rows: run.plan.rows.clone(),
        columns: run.plan.columns.clone(),
        factors: run.plan.factors.clone(),
        parameters: parameters(&run.plan),
        environments: environments(&run.plan),
        capabilities: capabilities(&run.plan),
        machine: run.machine.clone(),
        version: run.version.clone(),
        design: run.plan.design.clone(),
        duet: run.plan.duet,
        mode: run.plan.mode,
        extensions: run.plan.extensions.clone(),
        started: run.started.to_string(),
        ended: run.ended.map(|time| time.to_string()),
        stop_reason: run.stop_reason.clone(),
        blocks: Some(trials::blocks_of(&run.plan, &run.trials)),
    }
}

/// On what the run was measured, in words.
fn native_means(run: &Run) -> String {
    if run.plan.environments.contains_key(imported::PLACE) {
        return run.machine.hostname.clone().unwrap_or_else(|| "an unnamed machine".to_owned());
    }
    let virtualization = &run.machine.virtualization;
    let means = match (virtualization.is_container(), virtualization.hypervisor == Some(true)) {
        (true, true) => "this container in a virtual machine",
        (true, false) => "this container",
        (false, true) => "this virtual machine",
        (false, false) => "bare metal",
    };
    means.to_owned()
}

/// The places of the plan with all that is set about them.
fn environments(plan: &Plan) -> Vec<UsedEnvironment> {
    let used = |(name, settings): (&String, &BTreeMap<String, Value>)| {
        let own =
            settings.iter().filter(|(key, _)| ![environments::LIKE.key, environments::LACKING].contains(&key.as_str()));
        UsedEnvironment {
            name: name.clone(),
            place: environments::kind_of(name, &plan.environments).to_owned(),
            settings: own.map(|(key, value)| (key.clone(), value.to_string())).collect(),
            lacks: environments::lacking(settings),
        }
    };
    plan.environments.iter().map(used).collect()
}

/// What the environments of the plan's treatments are and can do, by their names.
fn capabilities(plan: &Plan) -> BTreeMap<String, Capabilities> {
    let treatments =
        plan.arms.iter().map(|arm| &arm.treatment).chain(plan.absent.iter().map(|absent| &absent.treatment));
    let names = treatments.map(environments::of).chain(plan.arms.iter().map(|arm| arm.environment.as_str()));
    names.map(|name| (name.to_owned(), environments::can(environments::kind_of(name, &plan.environments)))).collect()
}

/// What all arms have in common and is not a factor of the study; of several workloads, what all arms of each have, as
/// `KIND.key`.
fn parameters(plan: &Plan) -> BTreeMap<String, String> {
    if plan.workloads.is_empty() {
        return common(plan, &plan.workload);
    }
    let of = |kind: &str| -> Vec<(String, String)> {
        common(plan, kind).into_iter().map(|(key, value)| (format!("{kind}.{key}"), value)).collect()
    };
    plan.workloads.iter().flat_map(|workload| of(&workload.kind)).collect()
}

fn common(plan: &Plan, kind: &str) -> BTreeMap<String, String> {
    let of_arm = |arm: &ResolvedArm| -> BTreeMap<String, String> {
        let own = arm.parameters.iter().map(|(key, value)| (key.clone(), value.to_string()));
        let shared = [("ranks".to_owned(), arm.all_ranks().to_string()), ("page".to_owned(), arm.page.to_string())];
        own.chain(shared).collect()
    };
    let own = (0..plan.arms.len()).filter(|&arm| plan.workload_of(arm) == kind);
    let mut arms = own.map(|arm| of_arm(&plan.arms[arm].arm));
    let mut common = arms.next().unwrap_or_default();
    for other in arms {
        common.retain(|key, value| other.get(key) == Some(value));
    }
    common.retain(|key, _| !plan.factors.iter().any(|(factor, _)| factor == key));
    common
}

/// The metrics whose values a trial holds.
fn metrics_of(trial: &Finished) -> Vec<String> {
    let Some(result) = trial.counted() else { return Vec::new() };
    let mut keys: Vec<String> =
        result.series.iter().flat_map(|phase| phase.samples.iter().map(|sample| sample.metric.clone())).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Of each member of an ensemble alone, the median of every metric over the phases of `arm` that are in its value.
fn members(trial: &Finished, arm: usize, metrics: &[String]) -> Vec<Vec<Sample>> {
    let Some(phases) = trial.counting(arm) else { return Vec::new() };
    let count = phases.iter().map(|phase| phase.members.len()).max().unwrap_or(0);
    let of_member = |member: usize| {
        let values = |metric: &str| -> Vec<f64> {
            let own = phases.iter().filter_map(|phase| phase.members.get(member));
            own.filter_map(|own| own.samples.iter().find(|sample| sample.metric == metric).map(|s| s.value)).collect()
        };
        let sample = |metric: &String| {
            let values = trials::of_all_phases(metric, values(metric), phases.len())?;
            Some(Sample::new(metric.clone(), median(&values)?))
        };
        metrics.iter().filter_map(sample).collect()
    };
    (0..count).map(of_member).collect()
}

fn trial_row(run: &Run, trial: &Finished) -> TrialRow {
    let plan = &run.plan;
    let metrics = metrics_of(trial);
    let records = trial.result.as_ref().map(|result| result.arms.as_slice()).unwrap_or_default();
    let arms = plan.arms_of(plan.cells[trial.cell]);
    let arm_row = |(index, &arm): (usize, &usize)| TrialArm {
        treatment: plan.arms[arm].treatment.clone(),
        medians: metrics
            .iter()
            .filter_map(|metric| {
                let value = trial.value(index, metric)?;
                Some(Sample::new(metric.clone(), value))
            })
            .collect(),
        phases: trial.phases(index, plan.metric_of(arm)),
        counters: records.get(index).map(|record| record.counters.clone()).unwrap_or_default(),
        mmu: records.get(index).and_then(|record| record.executor.mmu.clone()),
        translation: records.get(index).and_then(|record| record.executor.translation()),
        placed: records.get(index).map(|record| record.placed.clone()),
        members: members(trial, index, &metrics),
    };
    TrialRow {
        block: trial.block,
        cell: trial.cell,
        status: trial.status.clone(),
        arms: arms.iter().enumerate().map(arm_row).collect(),
        schedule: trial.spec.schedule.clone(),
        discarded: trial.result.iter().flat_map(|result| &result.discarded).map(|quad| quad.quad).collect(),
        verified: records.iter().filter_map(|record| record.verified).min_by(|a, b| a.0.total_cmp(&b.0)),
        flags: trial.result.as_ref().map(|result| result.flags.clone()).unwrap_or_default(),
        elapsed_ns: trial.elapsed_ns,
        observed_s: observed::of_trial(run, trial),
    }
}

/// The interval of differences and of log ratios, one a trial or block, in the order measured; `None` below four. That of amounts
/// is [`values::interval`].
pub(crate) fn interval(values: &[f64]) -> Option<Interval> {
    Estimate::of(values).map(|estimate| estimate.interval(1.0 - RATE))
}

fn estimates(run: &Run, workloads: &[&Descriptor]) -> Vec<EstimateRow> {
    let mut rows = Vec::new();
    for (arm, planned) in run.plan.arms.iter().enumerate() {
        let places = places(&run.plan, &run.trials, arm);
        let metrics = workload_of(&run.plan, workloads, arm).map_or(&[][..], |workload| workload.metrics);
        let mut keys: Vec<(&str, &str, Better)> =
            metrics.iter().map(|metric| (metric.key, metric.unit, metric.better)).collect();
        keys.extend([EMPTY_REGION, FRAME_ROUND_TRIP].map(|key| (key, "ns", Better::Lower)));
        let found = Found::in_trials(&places);
        keys.retain(|(key, ..)| found.has(key));
        let by_trial = |key: &str| places.iter().map(|(trial, index)| trial.value(*index, key)).collect();
        let values: Vec<(&str, Vec<Option<f64>>)> = keys.iter().map(|(key, ..)| (*key, by_trial(key))).collect();
        let distribution =
            |of: &str, at: usize| places.get(at).and_then(|(trial, index)| trial.distribution(*index, of));
        for ((key, unit, better), value) in keys.into_iter().zip(values::of_all(&values, distribution)) {
            let Some(value) = value else { continue };
            let interval = value.interval.map(|interval| values::of_unit(interval, unit));
            rows.push(EstimateRow {
                metric: key.to_owned(),
                unit: unit.to_owned(),
                better,
                treatment: planned.treatment.clone(),
                n: value.n,
                estimate: value.estimate,
                lo: interval.map(|interval| interval.lo),
                hi: interval.map(|interval| interval.hi),
                over: value.over,
                samples: value.merged.as_ref().map(|merged| merged.samples),
                median: value.merged.as_ref().and_then(|merged| merged.median),
                mean: value.merged.as_ref().and_then(|merged| merged.mean),
                sd: value.merged.as_ref().and_then(|merged| merged.deviation),
            });
        }
    }
    rows
}

/// What trials have at all: most workloads have more metrics than a run of them.
struct Found<'r> {
    metrics: BTreeSet<&'r str>,
    /// Whose percentiles can be told.
    distributions: BTreeSet<&'r str>,
}

impl<'r> Found<'r> {
    fn in_trials(places: &[(&'r Finished, usize)]) -> Self {
        let phases = || places.iter().filter_map(|(trial, _)| trial.counted()).flat_map(|result| &result.series);
        Found {
            metrics: phases().flat_map(|phase| &phase.samples).map(|sample| &*sample.metric).collect(),
            distributions: phases()
                .flat_map(|phase| &phase.points)
                .flat_map(|point| &point.distributions)
                .map(|of| &**of)
                .collect(),
        }
    }

    fn has(&self, key: &str) -> bool {
        self.metrics.contains(key)
            || !self.distributions.is_empty()
                && Percentile::of_key(key).is_some_and(|percentile| self.distributions.contains(&*percentile.of))
    }
}

/// What each member of every ensemble had alone, in the order of arms, metrics and members.
fn member_estimates(run: &Run, workloads: &[&Descriptor]) -> Vec<MemberEstimate> {
    let mut rows = Vec::new();
    for (arm, planned) in run.plan.arms.iter().enumerate() {
        let metrics = workload_of(&run.plan, workloads, arm).map_or(&[][..], |workload| workload.metrics);
        let keys: Vec<String> = metrics.iter().map(|metric| metric.key.to_owned()).collect();
        let trials: Vec<Vec<Vec<Sample>>> = places(&run.plan, &run.trials, arm)
            .into_iter()
            .map(|(trial, index)| members(trial, index, &keys))
            .collect();
        let count = trials.iter().map(Vec::len).max().unwrap_or(0);
        let of_member = |member: usize| {
            let value = |trial: &Vec<Vec<Sample>>, key: &str| {
                trial.get(member)?.iter().find(|sample| sample.metric == key).map(|sample| sample.value)
            };
            let by_trial = |key: &'static str| (key, trials.iter().map(|trial| value(trial, key)).collect());
            let values: Vec<_> = metrics.iter().map(|metric| by_trial(metric.key)).collect();
            // A member's distribution is not stored.
            values::of_all(&values, |_, _| None)
        };
        let all: Vec<_> = (0..count).map(of_member).collect();
        for (at, metric) in metrics.iter().enumerate() {
            for (member, values) in all.iter().enumerate() {
                let Some(value) = &values[at] else { continue };
                let interval = value.interval.map(|interval| values::of_unit(interval, metric.unit));
                rows.push(MemberEstimate {
                    metric: metric.key.to_owned(),
                    unit: metric.unit.to_owned(),
                    together: metric.together.words().to_owned(),
                    treatment: planned.treatment.clone(),
                    member,
                    n: value.n,
                    estimate: value.estimate,
                    lo: interval.map(|interval| interval.lo),
                    hi: interval.map(|interval| interval.hi),
                });
            }
        }
    }
    rows
}

/// How evenly the members of every ensemble fared in the headline's metric. An index is at most 1, and so is its interval.
fn fairness(run: &Run) -> Vec<FairnessRow> {
    let mut rows = Vec::new();
    for (arm, planned) in run.plan.arms.iter().enumerate() {
        let metric = run.plan.metric_of(arm);
        let of_trial = |(trial, index): (&Finished, usize)| {
            let own = members(trial, index, &[metric.to_owned()]);
            let values: Option<Vec<f64>> = own.iter().map(|samples| Some(samples.first()?.value)).collect();
            Some((own.len(), jain(&values?)?))
        };
        let found: Vec<(usize, f64)> = places(&run.plan, &run.trials, arm).into_iter().filter_map(of_trial).collect();
        let values: Vec<f64> = found.iter().map(|(_, index)| *index).collect();
        let (Some(&(members, _)), Some(estimate)) = (found.first(), centre(&values)) else { continue };
        let interval = interval(&values);
        rows.push(FairnessRow {
            metric: metric.to_owned(),
            treatment: planned.treatment.clone(),
            members,
            n: values.len(),
            estimate,
            lo: interval.map(|interval| interval.lo.max(0.0)),
            hi: interval.map(|interval| interval.hi.min(1.0)),
        });
    }
    rows
}

/// Jain's index: (sum of x)² / (n × sum of x²). `None` below two values, for a negative one, or where all are zero.
#[expect(clippy::cast_precision_loss, reason = "members are few")]
fn jain(values: &[f64]) -> Option<f64> {
    let squares: f64 = values.iter().map(|value| value * value).sum();
    let usable = values.len() >= 2 && values.iter().all(|value| *value >= 0.0) && squares > 0.0;
    usable.then(|| values.iter().sum::<f64>().powi(2) / (values.len() as f64 * squares))
}

/// Every ratio of the plan, in its order, then those of other metrics. Those that the study requests are judged together,
/// those that explain as well, and those of other metrics.
fn ratios(plan: &Plan, trials: &[Finished], workloads: &[&Descriptor]) -> Vec<RatioRow> {
    let of = |asked: bool| -> Vec<(usize, &str)> {
        let pairs = (0..plan.pairs.len()).filter(|&pair| plan.pairs[pair].asked == asked);
        pairs.map(|pair| (pair, plan.metric_of(plan.pairs[pair].denominator))).collect()
    };
    let judged = |members: &[(usize, &str)]| judged(plan, trials, workloads, members);
    let mut rows: Vec<(usize, RatioRow)> = judged(&of(true));
    rows.extend(judged(&of(false)));
    baremark_model::order::by_key(&mut rows, |(pair, _)| *pair);
    let others: Vec<(usize, &str)> = of(true)
        .into_iter()
        .flat_map(|(pair, headline)| {
            let kind = plan.workload_of(plan.pairs[pair].denominator);
            let also = plan.also.get(kind).map_or(&[][..], Vec::as_slice);
            also.iter().map(String::as_str).filter(move |metric| *metric != headline).map(move |metric| (pair, metric))
        })
        .collect();
    rows.extend(judged(&others));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Ratios judged together. Those of emulated machines are estimated and give no outcome.
fn judged(
    plan: &Plan,
    trials: &[Finished],
    workloads: &[&Descriptor],
    members: &[(usize, &str)],
) -> Vec<(usize, RatioRow)> {
    let delta = plan.design.delta.0;
    let smallest = usize::try_from(plan.design.least_blocks).unwrap_or(usize::MAX);
    let ratio = |&(pair, metric): &(usize, &str)| {
        let seen = trials::observations_of(plan, trials, pair, metric);
        let logs: Vec<f64> = seen.iter().map(|seen| seen.log_ratio).collect();
        let better = better_of(plan, workloads, plan.pairs[pair].numerator, metric);
        (empty_row(plan, pair, metric, &logs), Claim::of(&logs, smallest, delta, better), seen)
    };
    let ratios: Vec<(RatioRow, Claim, Vec<Observation<'_>>)> = members.iter().map(ratio).collect();
    let claims: Vec<Claim> = ratios.iter().filter(|(row, ..)| !row.emulated).map(|(_, claim, _)| *claim).collect();
    let rate = rate(plan.extensions.len());
    let mut together = judge_study(&claims, rate).into_iter();
    let mut rows = Vec::new();
    for ((pair, _), (mut row, claim, seen)) in members.iter().zip(ratios) {
        let judged = if row.emulated { judge_study(&[claim], rate).pop() } else { together.next() };
        if let Some(judged) = judged {
            let numerator = plan.pairs[*pair].numerator;
            let metric = workload_of(plan, workloads, numerator).and_then(|workload| workload.metric(&row.metric));
            let subject = metric.map_or(Subject::Speed, |metric| subject(metric.unit, metric.better));
            fill(&mut row, &claim, &judged, subject);
        }
        row.sensitivity = sensitivity(plan, &seen, &row);
        rows.push((*pair, row));
    }
    rows
}

/// Which way a metric of an arm is better; of a workload that this version does not know, higher.
fn better_of(plan: &Plan, workloads: &[&Descriptor], arm: usize, metric: &str) -> outcome::Better {
    let found = workload_of(plan, workloads, arm).and_then(|workload| workload.metric(metric));
    in_statistics(found.map_or(Better::Higher, |metric| metric.better))
}

/// The same in the terms of the statistics.
pub(crate) fn in_statistics(better: Better) -> outcome::Better {
    match better {
        Better::Higher => outcome::Better::Higher,
        Better::Lower => outcome::Better::Lower,
    }
}

fn empty_row(plan: &Plan, pair: usize, metric: &str, logs: &[f64]) -> RatioRow {
    let Pair { numerator, denominator, contrast, .. } = plan.pairs[pair];
    RatioRow {
        metric: metric.to_owned(),
        treatment: plan.arms[numerator].treatment.clone(),
        relative_to: plan.arms[denominator].treatment.clone(),
        contrast,
        blocks: logs.len(),
        ratio: centre(logs).map(f64::exp),
        lo: None,
        hi: None,
        confidence: 1.0 - RATE,
        outcome: Outcome::NotEnough,
        words: String::new(),
        size: Size::Unknown,
        short: String::new(),
        more_blocks: None,
        emulated: plan.arms[numerator].emulated || plan.arms[denominator].emulated,
        independence_assumed: false,
        correlated: false,
        sensitivity: Vec::new(),
    }
}

fn fill(row: &mut RatioRow, claim: &Claim, judged: &Judged, subject: Subject) {
    let verdict = Verdict::of(&judged.outcome, judged.interval.as_ref(), claim.delta, claim.better, subject);
    (row.outcome, row.size) = (in_document(&judged.outcome), size_in_document(verdict.size));
    (row.words, row.short) = (verdict.words, verdict.short);
    if let Ok(estimate) = &claim.estimate {
        row.ratio = Some(estimate.centre.exp());
        row.independence_assumed = estimate.dependence == Dependence::Assumed;
        row.correlated = estimate.visibly_correlated();
    }
    if let Some(interval) = judged.interval {
        (row.lo, row.hi, row.confidence) = (Some(interval.lo.exp()), Some(interval.hi.exp()), interval.confidence);
    }
    row.more_blocks = more_blocks(claim, judged);
    if row.emulated {
        (row.outcome, row.size) = (Outcome::Emulated, Size::Unknown);
        (row.words, row.short) = (EMULATED.to_owned(), "emulated".to_owned());
        row.more_blocks = None;
    }
}

/// Blocks that would make an outcome sharper, beyond those there are.
fn more_blocks(claim: &Claim, judged: &Judged) -> Option<u64> {
    /// Nobody waits for more.
    const MOST: u32 = 10_000;
    if let outcome::Outcome::NotEnough(Lack::Blocks { have, need }) = judged.outcome {
        return Some((need - have) as u64);
    }
    let (estimate, interval) = (claim.estimate.as_ref().ok()?, judged.interval?);
    let half_width = sharper_at(&interval, claim.delta)?;
    // Whoever measures these extends the run, whose intervals are at that confidence then.
    let confidence = 1.0 - (1.0 - interval.confidence) * rate(1) / rate(0);
    let blocks = precision::blocks_to_reach(estimate, half_width, confidence)?;
    let more = blocks.saturating_sub(u32::try_from(estimate.units).unwrap_or(u32::MAX));
    (1..=MOST).contains(&more).then_some(u64::from(more))
}

/// An outcome as documents hold it.
pub(crate) fn in_document(outcome: &outcome::Outcome) -> Outcome {
    match outcome {
        outcome::Outcome::Equivalent { .. } => Outcome::Equivalent,
        outcome::Outcome::Beyond { direction: Direction::Slower } => Outcome::SlowerByMore,
        outcome::Outcome::Beyond { direction: Direction::Faster } => Outcome::FasterByMore,
        outcome::Outcome::Between { direction: Direction::Slower, .. } => Outcome::Slower,
        outcome::Outcome::Between { direction: Direction::Faster, .. } => Outcome::Faster,
        outcome::Outcome::NoLarger { .. } => Outcome::NoLarger,
        outcome::Outcome::NotEnough(_) => Outcome::NotEnough,
    }
}

/// A size as documents hold it.
fn size_in_document(size: outcome::Size) -> Size {
    match size {
        outcome::Size::Equivalent => Size::Equivalent,
        outcome::Size::Percent => Size::Percent,
        outcome::Size::Factor => Size::Factor,
        outcome::Size::Inconclusive => Size::Inconclusive,
        outcome::Size::Unknown => Size::Unknown,
    }
}

/// Whether a metric's differences are of speed, or of an amount.
pub(crate) fn subject(unit: &str, better: Better) -> Subject {
    let is_speed = Unit::of(unit).is_ok_and(|unit| unit.is_speed(better == Better::Lower));
    if is_speed { Subject::Speed } else { Subject::Amount }
}

/// The same ratio without flagged trials, and by which arm began.
fn sensitivity(plan: &Plan, observations: &[Observation<'_>], row: &RatioRow) -> Vec<SensitivityRow> {
    let mut rows = Vec::new();
    let mut add = |name: &str, keep: &dyn Fn(&Observation<'_>) -> bool| {
        let kept = observations.iter().filter(|seen| keep(seen));
        let logs: Vec<f64> = kept.map(|seen| seen.log_ratio).collect();
        let Some(interval) = interval(&logs).filter(|_| logs.len() < observations.len()) else { return };
        rows.push(SensitivityRow {
            name: name.to_owned(),
            blocks: logs.len(),
            ratio: interval.centre.exp(),
            flips: contradicts(row, &interval, plan.design.delta.0),
        });
    };
    add("without flagged trials", &|seen| seen.unflagged());
    add("trials that began with the reference", &|seen| seen.began_below());
    add("trials that began with the other arm", &|seen| !seen.began_below());
    rows
}

/// Whether another interval contradicts an outcome: it lies wholly where the outcome says that the ratio is not.
fn contradicts(row: &RatioRow, interval: &Interval, delta: f64) -> bool {
    let band = delta.ln_1p();
    let above = row.lo.is_some_and(|lo| lo > 1.0);
    let least = match row.outcome {
        Outcome::Equivalent => return interval.lo > band || interval.hi < -band,
        Outcome::SlowerByMore | Outcome::FasterByMore => band,
        Outcome::Slower | Outcome::Faster => 0.0,
        Outcome::NoLarger | Outcome::NotEnough | Outcome::Emulated => return false,
    };
    if above { interval.hi < least } else { interval.lo > -least }
}

/// Pairs whose arms ran with different instruction sets: then part of the ratio is the processor that the place shows.
fn unequal_instruction_sets(run: &Run) -> Vec<FlagRow> {
    let mut rows = Vec::new();
    for (index, pair) in run.plan.pairs.iter().enumerate() {
        let observations = trials::observations(&run.plan, &run.trials, index);
        let unequal = observations.iter().filter(|seen| !seen.same_instruction_set()).count();
        if unequal > 0 {
            let treatment = run.plan.arms[pair.numerator].treatment.clone();
            let text = "confounded by instruction set: it differs from the reference's".to_owned();
            rows.push(FlagRow { treatment, text, trials: unequal, code: None });
        }
    }
    rows
}

/// Virtual machines that beat native beyond the interval: then something besides virtualization differs between the arms.
fn faster_than_native(run: &Run, workloads: &[&Descriptor], ratios: &[RatioRow]) -> Vec<FlagRow> {
    let mut rows = Vec::new();
    for (row, pair) in ratios.iter().zip(&run.plan.pairs) {
        let arm = &run.plan.arms[pair.numerator].arm;
        let beaten = match better(&run.plan, workloads, pair.numerator) {
            Some(Better::Higher) => row.lo.is_some_and(|lo| lo > 1.0),
            Some(Better::Lower) => row.hi.is_some_and(|hi| hi < 1.0),
            None => false,
        };
        if pair.contrast != Contrast::Environment || arm.host_backing.is_none() || !beaten {
            continue;
        }
        let native = &run.plan.arms[pair.denominator].arm;
        let why = match arm.lies() == native.lies() {
            true => "the arms' memory lies alike, so check placement, frequency and other load",
            false => "its memory is made of larger pages than native's and lies less scattered; vary page_frames",
        };
        let text = format!("faster than native beyond the interval: {why}");
        rows.push(FlagRow {
            treatment: row.treatment.clone(),
            text,
            trials: 0,
            code: Some(Flag::FasterThanNative(why.to_owned())),
        });
    }
    rows
}

fn flags(run: &Run, workloads: &[&Descriptor], ratios: &[RatioRow], references: &[ReferenceRow]) -> Vec<FlagRow> {
    let mut rows = faster_than_native(run, workloads, ratios);
    rows.extend(references::flags(references, run.plan.design.delta));
    rows.extend(unequal_instruction_sets(run));
    let mut raise = |treatment: &Treatment, text: String, trials: usize| {
        rows.push(FlagRow { treatment: treatment.clone(), text, trials, code: None });
    };
    for (arm, planned) in run.plan.arms.iter().enumerate() {
        let places = places(&run.plan, &run.trials, arm);
        let halves: Vec<(f64, f64)> =
            places.iter().filter_map(|(trial, index)| trial.halves(*index, run.plan.metric_of(arm))).collect();
        if let Some(drift) = drift(&halves, DRIFT_TOLERANCE).filter(|drift| drift.flagged) {
            let share = Share(drift.change.centre.exp_m1());
            let text = format!("the second halves of trials differ from the first by {share:.1}");
            raise(&planned.treatment, text, places.len());
        }
    }
    let mut notes: BTreeMap<&str, usize> = BTreeMap::new();
    for flag in run.trials.iter().filter_map(Finished::counted).flat_map(|result| &result.flags) {
        *notes.entry(flag).or_default() += 1;
    }
    notes.extend(run.notes.iter().map(|(text, trials)| (text.as_str(), *trials)));
    for (text, trials) in notes {
        raise(&Treatment::new(), text.to_owned(), trials);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn fairness_is_one_where_all_have_the_same_and_a_share_where_one_has_all() {
        let index = |values: &[f64]| jain(values).map(|index| (1000.0 * index).round());
        assert_eq!(index(&[7.0, 7.0, 7.0]), Some(1000.0));
        assert_eq!(index(&[0.0, 9.0, 0.0, 0.0]), Some(250.0));
        // (1 + 2 + 3)^2 / (3 x 14) = 36 / 42.
        assert_eq!(index(&[1.0, 2.0, 3.0]), Some(857.0));
        assert_eq!([index(&[5.0]), index(&[0.0, 0.0]), index(&[1.0, -1.0])], [None; 3]);
    }
}
