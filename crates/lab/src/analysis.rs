//! From a stored run to the result document.
//!
//! Everything is worked out anew from the trials; nothing is carried over from the time when they were measured. Ratios
//! are judged together as one family, each interval with its verdict and how sensitive it is.

use crate::explain;
use crate::observed;
use crate::tally::{self, Finished, Observation};
use crate::time_use;
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::{Better, Descriptor, Value};
use baremark_model::document::{
    Document, EstimateRow, FORMAT, FlagRow, LookRow, MemberEstimate, Outcome, RatioRow, RunHead, SensitivityRow,
    TrialArm, TrialRow, UsedEnvironment,
};
use baremark_model::imported::Imported;
use baremark_model::machine::MachineFacts;
use baremark_model::plan::{Contrast, Pair, Plan, Treatment};
use baremark_model::seam::Sample;
use baremark_model::tables;
use baremark_model::units::{Share, UnixTime};
use baremark_stats::estimate::{mean_interval, median};
use baremark_stats::halves::drift;
use baremark_stats::{Estimator, Family, Independence, Interval, Judged, PairedRatio, Reason, Verdict, judge};
use std::collections::BTreeMap;
use std::thread;

/// The false discovery rate of a study, and one minus the confidence of a single interval.
pub const RATE: f64 = 0.05;
/// A drift inside phases below this share is nobody's concern.
const DRIFT_TOLERANCE: f64 = 0.01;
/// Key of the metric that an executor without a body gives.
const EMPTY_REGION: &str = "empty_region_ns";
/// Key of what the lab measures beside it: a short frame to the agent and back.
pub(crate) const FRAME_ROUND_TRIP: &str = "frame_round_trip_ns";

/// A run as stored.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its name.
    pub id: String,
    /// The study file as the user named it.
    pub file: String,
    /// The plan.
    pub plan: Plan,
    /// The machine.
    pub machine: MachineFacts,
    /// The version of baremark that measured.
    pub version: String,
    /// When it began.
    pub started: UnixTime,
    /// When it ended.
    pub ended: Option<UnixTime>,
    /// Why it ended.
    pub stop_reason: Option<String>,
    /// Its trials, in the order measured.
    pub trials: Vec<Finished>,
    /// Its looks.
    pub looks: Vec<LookRow>,
    /// What other programs observed meanwhile.
    pub imported: Vec<Imported>,
    /// What a reader must know of how it was stored, each with the number of trials that it concerns; 0 for the run.
    pub notes: Vec<(String, usize)>,
}

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

/// The document but for what was observed around the work.
fn measured(run: &Run, workloads: &[&Descriptor]) -> Document {
    let ratios = ratios(&run.plan, &run.trials);
    Document {
        format: FORMAT.to_owned(),
        run: head(run),
        trials: run.trials.iter().map(|trial| trial_row(&run.plan, trial)).collect(),
        estimates: estimates(run, workloads),
        members: member_estimates(run, workloads),
        looks: run.looks.clone(),
        absent: run.plan.absent.clone(),
        flags: flags(run, workloads, &ratios),
        ratios,
        explanations: explain::explain(&run.plan, &run.trials, workloads),
        predictions: Vec::new(),
        observed: None,
        time: time_use::rows(&run.trials),
    }
}

fn head(run: &Run) -> RunHead {
    let virtual_machine = run.machine.virtualization.hypervisor == Some(true);
    RunHead {
        id: run.id.clone(),
        study: run.plan.title.clone(),
        file: run.file.clone(),
        workload: run.plan.workload.clone(),
        metric: run.plan.metric.clone(),
        workloads: run.plan.workloads.clone(),
        published: run.plan.published.clone(),
        native_means: if virtual_machine { "this virtual machine" } else { "bare metal" }.to_owned(),
        rows: run.plan.rows.clone(),
        columns: run.plan.columns.clone(),
        factors: run.plan.factors.clone(),
        parameters: parameters(&run.plan),
        environments: environments(&run.plan),
        machine: run.machine.clone(),
        version: run.version.clone(),
        design: run.plan.design.clone(),
        mode: run.plan.mode,
        started: run.started.to_string(),
        ended: run.ended.map(|time| time.to_string()),
        stop_reason: run.stop_reason.clone(),
        blocks: Some(tally::blocks_of(&run.plan, &run.trials)),
    }
}

/// The places of the plan with all that is set about them.
fn environments(plan: &Plan) -> Vec<UsedEnvironment> {
    let used = |(name, settings): (&String, &BTreeMap<String, Value>)| {
        let own = settings.iter().filter(|(key, _)| *key != tables::LIKE.key);
        UsedEnvironment {
            name: name.clone(),
            place: tables::kind_of(name, &plan.environments).to_owned(),
            settings: own.map(|(key, value)| (key.clone(), value.to_string())).collect(),
        }
    };
    plan.environments.iter().map(used).collect()
}

/// What all arms have in common and is no factor of the study; of several workloads, what all arms of each have, as
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

/// Of each member of an ensemble alone, the median of every metric over the phases of `arm`.
fn members(trial: &Finished, arm: usize, metrics: &[String]) -> Vec<Vec<Sample>> {
    let Some(result) = trial.counted() else { return Vec::new() };
    let phases: Vec<_> = result.series.iter().filter(|phase| phase.arm == arm).collect();
    let count = phases.iter().map(|phase| phase.members.len()).max().unwrap_or(0);
    let of_member = |member: usize| {
        let values = |metric: &str| -> Vec<f64> {
            let own = phases.iter().filter_map(|phase| phase.members.get(member));
            own.filter_map(|own| own.samples.iter().find(|sample| sample.metric == metric).map(|s| s.value)).collect()
        };
        let sample = |metric: &String| Some(Sample { metric: metric.clone(), value: median(&values(metric))? });
        metrics.iter().filter_map(sample).collect()
    };
    (0..count).map(of_member).collect()
}

fn trial_row(plan: &Plan, trial: &Finished) -> TrialRow {
    let metrics = metrics_of(trial);
    let records = trial.result.as_ref().map(|result| result.arms.as_slice()).unwrap_or_default();
    let arms = plan.arms_of(plan.cells[trial.cell]);
    let arm_row = |(index, &arm): (usize, &usize)| TrialArm {
        treatment: plan.arms[arm].treatment.clone(),
        medians: metrics
            .iter()
            .filter_map(|metric| {
                let value = trial.value(index, metric)?;
                Some(Sample { metric: metric.clone(), value })
            })
            .collect(),
        phases: trial.phases(index, plan.metric_of(arm)),
        counters: records.get(index).map(|record| record.counters.clone()).unwrap_or_default(),
        mmu: records.get(index).and_then(|record| record.executor.mmu.clone()),
        placed: records.get(index).map(|record| record.placed.clone()),
        members: members(trial, index, &metrics),
    };
    TrialRow {
        block: trial.block,
        cell: trial.cell,
        status: trial.status.clone(),
        arms: arms.iter().enumerate().map(arm_row).collect(),
        schedule: trial.spec.schedule.clone(),
        flags: trial.result.as_ref().map(|result| result.flags.clone()).unwrap_or_default(),
        elapsed_ns: trial.elapsed_ns,
    }
}

/// For each arm of the plan: the places (trial, arm in the trial) at which it was executed and counted.
pub(crate) fn places<'t>(plan: &Plan, trials: &'t [Finished], arm: usize) -> Vec<(&'t Finished, usize)> {
    let mut found = Vec::new();
    for trial in trials.iter().filter(|trial| trial.counted().is_some()) {
        let arms = plan.arms_of(plan.cells[trial.cell]);
        found.extend(arms.iter().enumerate().filter(|(_, of)| **of == arm).map(|(index, _)| (trial, index)));
    }
    found
}

/// The descriptor of what an arm runs; `None` where this version has no such workload.
pub(crate) fn workload_of<'w>(plan: &Plan, workloads: &[&'w Descriptor], arm: usize) -> Option<&'w Descriptor> {
    workloads.iter().find(|workload| workload.kind == plan.workload_of(arm)).copied()
}

/// Which way the headline's metric of an arm is better.
pub(crate) fn better(plan: &Plan, workloads: &[&Descriptor], arm: usize) -> Option<Better> {
    workload_of(plan, workloads, arm)?.metric(plan.metric_of(arm)).map(|metric| metric.better)
}

fn estimates(run: &Run, workloads: &[&Descriptor]) -> Vec<EstimateRow> {
    let mut rows = Vec::new();
    for (arm, planned) in run.plan.arms.iter().enumerate() {
        let places = places(&run.plan, &run.trials, arm);
        let metrics = workload_of(&run.plan, workloads, arm).map_or(&[][..], |workload| workload.metrics);
        let mut keys: Vec<(&str, &str, Better)> =
            metrics.iter().map(|metric| (metric.key, metric.unit, metric.better)).collect();
        keys.extend([EMPTY_REGION, FRAME_ROUND_TRIP].map(|key| (key, "ns", Better::Lower)));
        for (key, unit, better) in keys {
            let values: Vec<f64> = places.iter().filter_map(|(trial, index)| trial.value(*index, key)).collect();
            let Some(estimate) = baremark_stats::estimate::mean(&values) else { continue };
            let interval = mean_interval(&values, 1.0 - RATE);
            rows.push(EstimateRow {
                metric: key.to_owned(),
                unit: unit.to_owned(),
                better,
                treatment: planned.treatment.clone(),
                n: values.len(),
                estimate,
                lo: interval.map(|interval| interval.lo),
                hi: interval.map(|interval| interval.hi),
            });
        }
    }
    rows
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
        for (metric, member) in metrics.iter().flat_map(|metric| (0..count).map(move |member| (metric, member))) {
            let own = trials.iter().filter_map(|members| members.get(member)?.iter().find(|s| s.metric == metric.key));
            let values: Vec<f64> = own.map(|sample| sample.value).collect();
            let Some(estimate) = baremark_stats::estimate::mean(&values) else { continue };
            let interval = mean_interval(&values, 1.0 - RATE);
            rows.push(MemberEstimate {
                metric: metric.key.to_owned(),
                unit: metric.unit.to_owned(),
                together: metric.together.words().to_owned(),
                treatment: planned.treatment.clone(),
                member,
                n: values.len(),
                estimate,
                lo: interval.map(|interval| interval.lo),
                hi: interval.map(|interval| interval.hi),
            });
        }
    }
    rows
}

/// Every ratio of the plan, in its order, then those of other metrics: what the study asks for is judged as one family,
/// what explains as another, other metrics as a third.
fn ratios(plan: &Plan, trials: &[Finished]) -> Vec<RatioRow> {
    let of = |asked: bool| -> Vec<(usize, &str)> {
        let pairs = (0..plan.pairs.len()).filter(|&pair| plan.pairs[pair].asked == asked);
        pairs.map(|pair| (pair, plan.metric_of(plan.pairs[pair].denominator))).collect()
    };
    let mut rows: Vec<(usize, RatioRow)> = family(plan, trials, &of(true));
    rows.extend(family(plan, trials, &of(false)));
    rows.sort_by_key(|(pair, _)| *pair);
    let others: Vec<(usize, &str)> = of(true)
        .into_iter()
        .flat_map(|(pair, headline)| {
            let kind = plan.workload_of(plan.pairs[pair].denominator);
            let also = plan.also.get(kind).map_or(&[][..], Vec::as_slice);
            also.iter().map(String::as_str).filter(move |metric| *metric != headline).map(move |metric| (pair, metric))
        })
        .collect();
    rows.extend(family(plan, trials, &others));
    rows.into_iter().map(|(_, row)| row).collect()
}

fn family(plan: &Plan, trials: &[Finished], members: &[(usize, &str)]) -> Vec<(usize, RatioRow)> {
    let delta = plan.design.delta.0;
    let series: Vec<Vec<Observation<'_>>> =
        members.iter().map(|(pair, metric)| tally::observations_of(plan, trials, *pair, metric)).collect();
    let logs = |seen: &Vec<Observation<'_>>| seen.iter().map(|seen| seen.log_ratio).collect::<Vec<f64>>();
    let paired: Vec<Option<PairedRatio>> = series.iter().map(|seen| PairedRatio::new(&logs(seen))).collect();
    let known: Vec<(&PairedRatio, f64)> = paired.iter().flatten().map(|ratio| (ratio, delta)).collect();
    let Family { confidence, judged } = judge(&known, RATE);
    let mut judged = judged.into_iter();
    let mut rows = Vec::new();
    for (((pair, metric), seen), ratio) in members.iter().zip(&series).zip(&paired) {
        let mut row = empty_row(plan, *pair, metric, seen.len(), confidence);
        if let Some((ratio, judged)) = ratio.as_ref().and_then(|ratio| Some((ratio, judged.next()?))) {
            fill(&mut row, ratio, &judged, plan);
            if row.emulated {
                row.verdict = Outcome::Undecided;
                row.words =
                    "no verdict: an emulated machine exercises the mechanics and is no measure of a cost".to_owned();
                row.more_blocks = None;
            }
            row.sensitivity = sensitivity(plan, seen, &row, confidence);
        }
        rows.push((*pair, row));
    }
    rows
}

fn empty_row(plan: &Plan, pair: usize, metric: &str, blocks: usize, confidence: f64) -> RatioRow {
    let Pair { numerator, denominator, contrast, .. } = plan.pairs[pair];
    RatioRow {
        metric: metric.to_owned(),
        treatment: plan.arms[numerator].treatment.clone(),
        relative_to: plan.arms[denominator].treatment.clone(),
        contrast,
        blocks,
        ratio: None,
        lo: None,
        hi: None,
        confidence,
        estimator: name(Estimator::Mean).to_owned(),
        verdict: Outcome::Undecided,
        words: "undecided: too few blocks".to_owned(),
        more_blocks: None,
        more_is_least: false,
        emulated: plan.arms[numerator].emulated || plan.arms[denominator].emulated,
        independence: "assumed".to_owned(),
        sensitivity: Vec::new(),
    }
}

fn fill(row: &mut RatioRow, ratio: &PairedRatio, judged: &Judged, plan: &Plan) {
    row.estimator = name(ratio.estimator()).to_owned();
    row.independence = match ratio.independence() {
        Independence::Shown => "shown",
        Independence::Assumed => "assumed",
        Independence::Rejected => "rejected",
    }
    .to_owned();
    if let Some(interval) = judged.interval {
        row.ratio = Some(interval.centre.exp());
        row.lo = Some(interval.lo.exp());
        row.hi = Some(interval.hi.exp());
    } else {
        row.ratio = median(ratio.units()).map(f64::exp);
    }
    (row.verdict, row.words) = words(&judged.verdict, plan.design.delta, row.contrast);
    if let Verdict::Undecided { more_blocks, reason } = judged.verdict {
        row.more_blocks = more_blocks.map(u64::from);
        row.more_is_least = reason == Reason::TooFewBlocks;
    }
}

/// The verdict as an outcome and in words.
pub(crate) fn words(verdict: &Verdict, delta: Share, contrast: Contrast) -> (Outcome, String) {
    match verdict {
        Verdict::DiffersByMore => (Outcome::DiffersByMore, format!("differs by more than {delta}")),
        Verdict::DiffersByLess => (Outcome::DiffersByLess, format!("differs, by less than {delta}")),
        Verdict::Equivalent if contrast == Contrast::SelfCheck => {
            (Outcome::Equivalent, format!("no difference: equivalent within {delta}"))
        }
        Verdict::Equivalent => (Outcome::Equivalent, format!("equivalent within {delta}")),
        Verdict::Undecided { more_blocks, reason } => {
            let why = match reason {
                Reason::TooFewBlocks => "too few blocks",
                Reason::TooWide => "the interval is still too wide",
                Reason::StraddlesDelta => "it differs, but it may be by more or by less than delta",
                Reason::NotIndependent => "not independent: neighbouring blocks are correlated",
                Reason::IndependenceUnproven => "so few blocks cannot exclude that neighbouring ones are correlated",
            };
            // Too few say nothing of how wide the interval will be.
            let about = if *reason == Reason::TooFewBlocks { "at least" } else { "about" };
            let blocks = if *more_blocks == Some(1) { "block" } else { "blocks" };
            let more = more_blocks.map(|more| format!("; {about} {more} more {blocks}")).unwrap_or_default();
            (Outcome::Undecided, format!("undecided: {why}{more}"))
        }
    }
}

/// The same ratio without flagged trials, by the other estimators, and by which arm began.
fn sensitivity(plan: &Plan, observations: &[Observation<'_>], row: &RatioRow, confidence: f64) -> Vec<SensitivityRow> {
    let logs = |keep: &dyn Fn(&Observation<'_>) -> bool| -> Vec<f64> {
        observations.iter().filter(|seen| keep(seen)).map(|seen| seen.log_ratio).collect()
    };
    let all = logs(&|_| true);
    let mut rows = Vec::new();
    let mut add = |name: &str, logs: &[f64], interval: Option<Interval>| {
        let Some(interval) = interval else { return };
        rows.push(SensitivityRow {
            name: name.to_owned(),
            blocks: logs.len(),
            ratio: interval.centre.exp(),
            flips: contradicts(row.verdict, &interval, plan.design.delta.0),
        });
    };
    let by =
        |logs: &[f64], estimator| PairedRatio::new(logs).and_then(|ratio| ratio.interval_by(estimator, confidence));
    let unflagged = logs(&|seen| seen.unflagged());
    if unflagged.len() < all.len() {
        add("without flagged trials", &unflagged, by(&unflagged, Estimator::Mean));
    }
    for estimator in [Estimator::Mean, Estimator::Median, Estimator::HodgesLehmann] {
        if name(estimator) != row.estimator {
            add(name(estimator), &all, by(&all, estimator));
        }
    }
    for (name, below) in
        [("trials that began with the reference", true), ("trials that began with the other arm", false)]
    {
        let some = logs(&|seen| seen.began_below() == below);
        add(name, &some, by(&some, Estimator::Mean));
    }
    rows
}

/// Whether another interval speaks against a verdict: it lies wholly where the verdict says that the ratio is not.
fn contradicts(verdict: Outcome, interval: &Interval, delta: f64) -> bool {
    let band = delta.ln_1p();
    let beyond = interval.lo > band || interval.hi < -band;
    let within = interval.lo > -band && interval.hi < band;
    match verdict {
        Outcome::DiffersByMore => within,
        Outcome::DiffersByLess => beyond,
        Outcome::Equivalent => beyond,
        Outcome::Undecided => false,
    }
}

/// Pairs whose arms ran with different instruction sets: then part of the ratio is the processor that the place shows.
fn unequal_instruction_sets(run: &Run) -> Vec<FlagRow> {
    let mut rows = Vec::new();
    for (index, pair) in run.plan.pairs.iter().enumerate() {
        let set = |trial: &Finished| trial.counted().map(|result| result.instruction_set);
        let observations = tally::observations(&run.plan, &run.trials, index);
        let unequal = observations.iter().filter(|seen| set(seen.below) != set(seen.above)).count();
        if unequal > 0 {
            let treatment = run.plan.arms[pair.numerator].treatment.clone();
            let text =
                "its instruction set is another than its reference's: the ratio is not one of places alone".to_owned();
            rows.push(FlagRow { treatment, text, trials: unequal });
        }
    }
    rows
}

/// Virtual machines that beat native beyond the interval: then something beside virtualization differs between the arms.
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
        let why = match arm.host_backing == Some(arm.page) {
            true => "the arms share their memory, so look at placement, frequency and what else ran",
            false => {
                "its memory is made of larger pages than native's and lies less scattered; compare host_backing = page"
            }
        };
        let text = format!("faster than native beyond the interval: {why}");
        rows.push(FlagRow { treatment: row.treatment.clone(), text, trials: 0 });
    }
    rows
}

fn flags(run: &Run, workloads: &[&Descriptor], ratios: &[RatioRow]) -> Vec<FlagRow> {
    let mut rows = faster_than_native(run, workloads, ratios);
    rows.extend(unequal_instruction_sets(run));
    let mut raise = |treatment: &Treatment, text: String, trials: usize| {
        rows.push(FlagRow { treatment: treatment.clone(), text, trials });
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

/// An estimator's name in documents.
fn name(estimator: Estimator) -> &'static str {
    match estimator {
        Estimator::Mean => "mean log ratio",
        Estimator::Median => "median",
        Estimator::HodgesLehmann => "Hodges-Lehmann",
    }
}
