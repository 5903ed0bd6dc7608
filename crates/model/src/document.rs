//! The result document: one versioned JSON object that says everything a program needs to know of a run.
//!
//! Keys are only ever added within a version. Its JSON Schema, docs/result.schema.json, is written from these types by a
//! test, so that the two cannot part.

use crate::codes::{Cause, Decision, Flag, Hindrance, Translation};
use crate::environments::{self, Capabilities};
use crate::machine::MachineFacts;
use crate::metric::Better;
use crate::observation::Observed;
use crate::placement::Placed;
use crate::plan::{Absent, Contrast, Duet, Mode, PlannedWorkload, Treatment};
use crate::seam::Sample;
use crate::study::Design;
use crate::timeline::TimelineRow;
use crate::units::Share;
use crate::wire::ProgramShare;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The name and version of the format, in every document.
pub const FORMAT: &str = "baremark-result/2";
/// The format before it, whose ratios had other outcomes. Its trials are read as those of today.
pub const FORMER_FORMAT: &str = "baremark-result/1";
/// How every estimate and interval of a document is made.
pub const METHOD: &str = "Hodges-Lehmann estimate over blocks, with one interval that decides";

/// A run and everything estimated from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document {
    /// [`FORMAT`].
    pub format: String,
    /// How every estimate and interval is made: [`METHOD`].
    #[serde(default)]
    pub method: String,
    /// What was run, where, and why it ended.
    pub run: RunHead,
    /// One row for each trial, in the order in which they ran.
    pub trials: Vec<TrialRow>,
    /// One row for each treatment and metric.
    pub estimates: Vec<EstimateRow>,
    /// The headline's metric against the metric that the study names for it, one row for each line of the table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slopes: Vec<SlopeRow>,
    /// What each member of an ensemble had alone, one row for each treatment, metric and member; nothing where arms have one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberEstimate>,
    /// How evenly the members of each ensemble fared in the headline's metric; nothing where arms have one member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fairness: Vec<FairnessRow>,
    /// One row for each pair and metric.
    pub ratios: Vec<RatioRow>,
    /// What takes turns with several others: its value next to each one against that next to the first; nothing where nothing does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<ReferenceRow>,
    /// The interim analyses, in order.
    pub looks: Vec<LookRow>,
    /// Treatments of the study that this machine cannot run.
    pub absent: Vec<Absent>,
    /// What a reader should know alongside the numbers.
    pub flags: Vec<FlagRow>,
    /// Why the numbers are what they are, as far as it was counted.
    #[serde(default)]
    pub explanations: Vec<ExplanationRow>,
    /// What a model of page walks predicts, for ratios that were measured and for those that could not be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<PredictionRow>,
    /// System activity; `null` where nothing was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// Where the time of the trials went, one row for each workload and part, those of all workloads together last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub time: Vec<TimeRow>,
    /// What only this kind of workload reports: of each treatment the last phase that has such a detail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<DetailRow>,
    /// What each treatment measured over the time of its phases, where its workload counts that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<TimelineRow>,
    /// How good the conditions of the run were; `null` where its trials say nothing of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reliability: Option<Reliability>,
}

impl Document {
    /// The row of a metric of one treatment.
    #[must_use]
    pub fn estimate_of(&self, metric: &str, treatment: &Treatment) -> Option<&EstimateRow> {
        self.estimates.iter().find(|row| row.metric == metric && row.treatment == *treatment)
    }

    /// What a run has before its first trial: itself alone.
    #[must_use]
    pub fn new(run: RunHead) -> Self {
        Document {
            format: FORMAT.to_owned(),
            method: METHOD.to_owned(),
            run,
            trials: Vec::new(),
            estimates: Vec::new(),
            slopes: Vec::new(),
            members: Vec::new(),
            fairness: Vec::new(),
            ratios: Vec::new(),
            references: Vec::new(),
            looks: Vec::new(),
            absent: Vec::new(),
            flags: Vec::new(),
            explanations: Vec::new(),
            predictions: Vec::new(),
            observed: None,
            time: Vec::new(),
            details: Vec::new(),
            timelines: Vec::new(),
            reliability: None,
        }
    }
}

/// What other programs, the hypervisor and CPU quotas took while phases ran, as a grade with its reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reliability {
    /// The grade.
    pub grade: Grade,
    /// What lowers it, in words; none where it is good.
    pub reasons: Vec<String>,
    /// The code of each reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hindrances: Vec<Hindrance>,
    /// The other programs that used most of the CPUs, with the mean of their shares over all trials.
    pub programs: Vec<ProgramShare>,
}

/// How good the conditions of a run were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// Nothing is known that could have changed the figures.
    Good,
    /// The figures are noisier than they need be.
    Fair,
    /// Others took so much that the figures describe this machine under their load.
    Poor,
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Grade::Good => "good",
            Grade::Fair => "fair",
            Grade::Poor => "poor",
        })
    }
}

/// What only one kind of workload reports of a treatment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DetailRow {
    /// The treatment.
    pub treatment: Treatment,
    /// The block of the trial.
    pub block: u64,
    /// The name and version of the format, such as `baremark-auction/2`.
    pub format: String,
    /// The document, as that workload writes it.
    pub document: serde_json::Value,
}

/// What one part of the trials took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TimeRow {
    /// The workload's kind; empty for all together.
    pub workload: String,
    /// The part: `measured`, the time inside the measured regions; `between phases`, entering and leaving them, reporting and
    /// observing; `verification`, `memory` and so on; `start`, of the agent.
    pub part: String,
    /// Seconds over all trials.
    pub seconds: f64,
    /// The share of the wall time of these trials.
    pub share: f64,
}

/// What was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunHead {
    /// The run's name in the store.
    pub id: String,
    /// The study's question.
    pub study: String,
    /// The study file as the user named it.
    pub file: String,
    /// The workload's kind; of several, all with commas between.
    pub workload: String,
    /// The headline's metric; of several workloads, each one's.
    pub metric: String,
    /// The workloads where there are several, in the study's order; empty where there is one.
    #[serde(default)]
    pub workloads: Vec<PlannedWorkload>,
    /// The published table to print alongside it.
    pub published: Option<String>,
    /// Of what the native arm is native: `bare metal` or `this virtual machine`.
    pub native_means: String,
    /// Factor down the table's side.
    pub rows: Option<String>,
    /// Factor along the table's top.
    pub columns: String,
    /// The factors that vary, with their levels in order.
    pub factors: Vec<(String, Vec<String>)>,
    /// What all arms have in common and is not a factor: ranks, page, and the workload's parameters, in words.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// What was set about the places where arms ran; those of which nothing can be set are left out.
    #[serde(default)]
    pub environments: Vec<UsedEnvironment>,
    /// What the environments that treatments name are and can do, by their names; empty in documents of versions that did not say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capabilities: BTreeMap<String, Capabilities>,
    /// The machine.
    pub machine: MachineFacts,
    /// The version of baremark.
    pub version: String,
    /// Precision, budget, phases and seed.
    pub design: Design,
    /// Where both programs of a pair ran at the same time; absent where arms took turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duet: Option<Duet>,
    /// What the command line added.
    pub mode: Mode,
    /// Each time that the run was given more after a result could be seen: how many interim analyses there were then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<usize>,
    /// When it began, RFC 3339.
    pub started: String,
    /// When it ended, RFC 3339; `null` while it has not.
    pub ended: Option<String>,
    /// Why it ended; `null` while it has not.
    pub stop_reason: Option<String>,
    /// Blocks that are complete: every cell has its trial, but for cells that had been given up; `null` in documents of
    /// versions that did not say.
    #[serde(default)]
    pub blocks: Option<u64>,
}

/// What was set about a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UsedEnvironment {
    /// The level of the factor `environment`: the place's name, or one of the study's own.
    pub name: String,
    /// Which place it is.
    pub place: String,
    /// Every setting that had a value, by the study or by default.
    pub settings: BTreeMap<String, String>,
    /// Of one that is made of layers, those that it lacks, by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

impl UsedEnvironment {
    /// Whether one start of it serves the whole run.
    #[must_use]
    pub fn starts_once(&self) -> bool {
        self.settings.get(environments::FRESH.key).is_some_and(|of| of == environments::WHOLE_RUN)
    }
}

impl RunHead {
    /// What is set about an environment otherwise than about the place that it is, in this study; of that place itself, and
    /// where it is not in the study, otherwise than by default.
    #[must_use]
    pub fn set_otherwise<'r>(&'r self, of: &'r UsedEnvironment) -> Vec<(&'r str, &'r str)> {
        let theirs = self.environments.iter().find(|other| other.name == of.place && of.name != of.place);
        let knobs = environments::knobs_of(&of.place);
        let usual = |key: &str| match theirs {
            Some(theirs) => theirs.settings.get(key).cloned(),
            None => crate::study::default_of(&knobs, key).map(|value| value.to_string()),
        };
        let other = of.settings.iter().filter(|(key, value)| usual(key).as_ref() != Some(value));
        other.map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    /// Which place the environment `name` is: itself, or what the study says that it is like.
    #[must_use]
    pub fn place_of<'n>(&'n self, name: &'n str) -> &'n str {
        self.environments.iter().find(|own| own.name == name).map_or(name, |own| &own.place)
    }

    /// What the environment `name` is and can do: as the document says, else as this version knows it.
    #[must_use]
    pub fn can(&self, name: &str) -> Capabilities {
        self.capabilities.get(name).copied().unwrap_or_else(|| environments::can(self.place_of(name)))
    }

    /// What the environment of `treatment` is and can do.
    #[must_use]
    pub fn can_of(&self, treatment: &Treatment) -> Capabilities {
        self.can(environments::of(treatment))
    }

    /// The headline's metric of what `treatment` runs.
    #[must_use]
    pub fn metric_of(&self, treatment: &Treatment) -> &str {
        let kind = treatment.get(crate::tables::WORKLOAD);
        let of = self.workloads.iter().find(|of| Some(&of.kind) == kind);
        of.map_or(&self.metric, |of| &of.metric)
    }
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrialRow {
    /// Its block, from 0.
    pub block: u64,
    /// Its cell in the plan.
    pub cell: usize,
    /// How it ended.
    #[serde(flatten)]
    pub status: TrialStatus,
    /// The arms, denominator first.
    pub arms: Vec<TrialArm>,
    /// The order in which the arms' phases ran, as indices into `arms`.
    pub schedule: Vec<usize>,
    /// The quads, four phases each, that do not count, from 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discarded: Vec<usize>,
    /// The share of the result that was checked, in ranges that the trial's seed drew; absent where it was the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Share>,
    /// What a reader should know though the trial counts.
    pub flags: Vec<String>,
    /// How long it took, start of the agent included.
    pub elapsed_ns: u64,
    /// When system activity was observed for it, from and to, in seconds since the run began; `null` where it was not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_s: Option<[f64; 2]>,
}

/// One arm of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrialArm {
    /// Its treatment.
    pub treatment: Treatment,
    /// Its value, per metric: a trimmed mean over its phases.
    pub medians: Vec<Sample>,
    /// Each phase's value of the headline's metric, in order.
    pub phases: Vec<f64>,
    /// The hypervisor's counters before the first phase.
    pub counters: BTreeMap<String, u64>,
    /// Which MMU virtualization was at work, in words.
    pub mmu: Option<String>,
    /// How addresses were translated; `null` without a machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translation: Option<Translation>,
    /// Where its ranks and pages were; `null` where the trial gave no result.
    #[serde(default)]
    pub placed: Option<Placed>,
    /// Of each member of an ensemble alone, the median over its phases, per metric; empty where there is one member.
    #[serde(default)]
    pub members: Vec<Vec<Sample>>,
}

impl TrialArm {
    /// How addresses were translated; of documents of earlier versions as their words say.
    #[must_use]
    pub fn translation(&self) -> Option<Translation> {
        self.translation.or_else(|| self.mmu.as_deref().map(Translation::of_words))
    }
}

/// One treatment's metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EstimateRow {
    /// The metric's key.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// The treatment.
    pub treatment: Treatment,
    /// Trials that count.
    pub n: usize,
    /// The estimate over trials of each trial's value; of a percentile with `samples`, that of all trials' samples together.
    pub estimate: f64,
    /// Lower limit of its 95 % interval; `null` below four trials.
    pub lo: Option<f64>,
    /// Upper limit.
    pub hi: Option<f64>,
    /// Of a percentile for which some trials have too few samples: the metric of the percentile below it. Its estimate is that one's, times
    /// the estimate of the quotient of both over the trials that have both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Of a percentile: samples of all trials in the distribution that it is of. `null` where trials were stored without distributions,
    /// as those of earlier versions: the estimate is over the trials' own percentiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Of such a percentile: the median of those of single trials, as far as these have enough samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// Of such a percentile: the mean of all these samples. They are counted in slots 0.1 % or 1 % wide, each by its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Of such a percentile: the standard deviation of the samples, with their number less one; `null` of a single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sd: Option<f64>,
}

/// By how much the headline's metric changes with another metric that was measured in the same trials, along the columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SlopeRow {
    /// The headline's metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The metric that it is regressed on.
    pub against: String,
    /// Its unit.
    pub against_unit: String,
    /// The levels that the treatments of the line have in common, all factors but the columns'.
    pub treatment: Treatment,
    /// Treatments of which both metrics are known: the points of each block's line.
    pub points: usize,
    /// Blocks, each of which has a line of its own by least squares.
    pub blocks: usize,
    /// The estimate over blocks, in units of the metric by unit of the other.
    pub slope: f64,
    /// Lower limit of its 95 % interval; `null` below four blocks.
    pub lo: Option<f64>,
    /// Upper limit.
    pub hi: Option<f64>,
    /// The metric where the other is zero, on the line; the estimate over blocks.
    pub at_zero: f64,
}

/// The estimate of one metric of one member of an ensemble.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemberEstimate {
    /// The metric's key.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// How the members' figures come to that of all together: in words.
    pub together: String,
    /// The treatment.
    pub treatment: Treatment,
    /// Which member, from 0.
    pub member: usize,
    /// Trials that count.
    pub n: usize,
    /// The estimate over trials of the median over phases.
    pub estimate: f64,
    /// Lower limit of its 95 % interval; `null` below four trials.
    pub lo: Option<f64>,
    /// Upper limit.
    pub hi: Option<f64>,
}

/// Jain's index of one metric over the members of an ensemble: (sum of x)² / (n × sum of x²), 1 where all have the same and 1/n where one has
/// everything (Jain, Chiu, Hawe 1984). Of each trial from the members' medians over phases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FairnessRow {
    /// The metric's key.
    pub metric: String,
    /// The treatment.
    pub treatment: Treatment,
    /// Members.
    pub members: usize,
    /// Trials that count.
    pub n: usize,
    /// The estimate over trials.
    pub estimate: f64,
    /// Lower limit of its 95 % interval; `null` below four trials.
    pub lo: Option<f64>,
    /// Upper limit.
    pub hi: Option<f64>,
}

/// A treatment that takes turns with several others in trials of their own: whether it is the same next to each. Both sides are one
/// treatment, so that what is found is no effect of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReferenceRow {
    /// The headline's metric.
    pub metric: String,
    /// The treatment.
    pub treatment: Treatment,
    /// The other arm of the trials.
    pub partner: Treatment,
    /// The other arm of the trials that they are compared with.
    pub first_partner: Treatment,
    /// Blocks that have both.
    pub blocks: usize,
    /// The value next to `partner` over that next to `first_partner`, estimated over blocks.
    pub ratio: f64,
    /// Lower limit of its 95 % interval; `null` below four blocks.
    pub lo: Option<f64>,
    /// Upper limit.
    pub hi: Option<f64>,
}

/// The outcome of a comparison, read off its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Equivalent within delta: the whole interval lies within it.
    Equivalent,
    /// Slower by more than delta: the whole interval lies beyond it.
    SlowerByMore,
    /// Faster by more than delta.
    FasterByMore,
    /// Slower by `lo` to `hi`: the interval leaves out 1 and holds an edge of delta.
    Slower,
    /// Faster by `lo` to `hi`.
    Faster,
    /// Inconclusive: the interval holds 1 and reaches beyond delta, so that no difference larger than its farther limit is left.
    NoLarger,
    /// Not enough data: fewer blocks than the study's smallest number, or unusable values.
    #[default]
    NotEnough,
    /// A side ran on an emulated machine, whose times do not measure a cost.
    Emulated,
}

/// How large a difference is, read off its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// None that matters.
    Equivalent,
    /// Some percent.
    Percent,
    /// A factor of nearly two, or more.
    Factor,
    /// The interval leaves open which side is ahead.
    Inconclusive,
    /// No interval, or no outcome.
    #[default]
    Unknown,
}

/// One ratio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RatioRow {
    /// The metric's key.
    pub metric: String,
    /// The treatment above the line.
    pub treatment: Treatment,
    /// The treatment below the line.
    pub relative_to: Treatment,
    /// What the ratio means.
    pub contrast: Contrast,
    /// Blocks that count.
    pub blocks: usize,
    /// The estimate; `null` when no block counts.
    pub ratio: Option<f64>,
    /// Lower limit of its interval.
    pub lo: Option<f64>,
    /// Upper limit of its interval.
    pub hi: Option<f64>,
    /// The interval's confidence, adjusted over the ratios of the study: 0.95 or more.
    pub confidence: f64,
    /// The outcome, read off this interval.
    #[serde(default)]
    pub outcome: Outcome,
    /// The outcome in words.
    pub words: String,
    /// How large the difference is.
    #[serde(default)]
    pub size: Size,
    /// The size in a few words: `equivalent`, `5 % slower`, `half as fast`, `inconclusive`; empty in documents of earlier versions.
    #[serde(default)]
    pub short: String,
    /// Where the outcome could be sharper: about how many more blocks that takes.
    pub more_blocks: Option<u64>,
    /// Whether a side of it ran on an emulated machine, which gives no outcome.
    #[serde(default)]
    pub emulated: bool,
    /// Whether the interval assumes that successive blocks are independent (fewer than 30), instead of allowing for correlation.
    #[serde(default)]
    pub independence_assumed: bool,
    /// Whether successive blocks are visibly correlated.
    #[serde(default)]
    pub correlated: bool,
    /// How sensitive it is: the same ratio from parts of the trials.
    pub sensitivity: Vec<SensitivityRow>,
}

/// A ratio checked: without flagged trials, by order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SensitivityRow {
    /// Which check.
    pub name: String,
    /// Blocks that it uses.
    pub blocks: usize,
    /// The ratio.
    pub ratio: f64,
    /// Whether its interval contradicts the outcome.
    pub flips: bool,
}

/// How a trial ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum TrialStatus {
    /// It counts.
    Ok,
    /// It ran and does not count.
    Void {
        /// Why.
        reasons: Vec<String>,
    },
    /// It did not run to its end.
    Failed {
        /// Why, with the remedy where there is one.
        reason: String,
    },
}

impl TrialStatus {
    /// Why it does not count; `None` where it does.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self {
            TrialStatus::Ok => None,
            TrialStatus::Void { reasons } => Some(reasons.join("; ")),
            TrialStatus::Failed { reason } => Some(reason.clone()),
        }
    }
}

/// One interim analysis of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LookRow {
    /// Blocks at that time.
    pub blocks: u64,
    /// The widest half-width of all ratios, relative; `null` where one has no interval.
    pub half_width: Option<f64>,
    /// Whether successive blocks of any ratio were visibly correlated.
    #[serde(default)]
    pub correlated: bool,
    /// What was decided, and until when or why, in words.
    pub decision: String,
    /// What was decided; `null` in documents of versions that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Decision>,
}

/// Something to know alongside a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FlagRow {
    /// Which treatment it concerns; empty for the whole run.
    pub treatment: Treatment,
    /// In words.
    pub text: String,
    /// In how many trials it was raised; 0 when it concerns the run.
    pub trials: usize,
    /// What programs may decide by, where there is such a thing; `null` also in documents of versions that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Flag>,
}

/// One ratio as a model predicts it; no prediction is fitted to the ratio that it is next to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PredictionRow {
    /// The metric's key.
    pub metric: String,
    /// The treatment above the line.
    pub treatment: Treatment,
    /// The treatment below the line.
    pub relative_to: Treatment,
    /// How addresses are translated there, in words.
    pub scheme: String,
    /// The processor that was simulated.
    pub processor: String,
    /// The ratio, the median of what was drawn.
    pub ratio: f64,
    /// Lower limit of its 95 % interval.
    pub lo: f64,
    /// Upper limit.
    pub hi: f64,
    /// Whether the ratio was measured, too; else the prediction is in its place.
    pub measured: bool,
    /// Whether the measured interval and this one have nothing in common: such a ratio wants an explanation.
    pub disagrees: bool,
}

/// One quantity that helps to explain a treatment's numbers, with its interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExplanationRow {
    /// Which treatment it concerns.
    pub treatment: Treatment,
    /// What it is about; `null` in documents of versions that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// What was counted, in words that a number and its unit can follow.
    pub what: String,
    /// The unit.
    pub unit: String,
    /// The estimate over trials or blocks.
    pub value: f64,
    /// Lower limit of its 95 % interval.
    pub lo: f64,
    /// Upper limit.
    pub hi: f64,
    /// What follows from it, in one sentence; empty where nothing does.
    pub advice: String,
}
