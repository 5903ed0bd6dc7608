//! The resolved plan: what a study comes to on a given machine. It cannot be invalid.
//!
//! Levels become treatments, treatments become arms that an agent can execute, and arms that are to be compared are put
//! into one cell, so that they share a trial. What this machine lacks stays in the plan with its reason: a table with a
//! hole in it is honest, a table without the row is not.

mod compared;
mod contrasts;
mod duet;
mod levels;
mod trials;
mod written;

pub use self::compared::{Contrast, Duet, Pair, PlannedArm, Treatment};
use self::contrasts::{REFERENCE_OF_NONE, reference_of_none};
pub use self::levels::set_elsewhere;
use self::levels::{
    count_of, environment_of, frames_of, host_backing, is_smaller, page_of, placed, quick_value, with_held,
};
use crate::arm::{ExecutorKind, GuestTables, ResolvedArm};
use crate::codes::ReasonCode;
use crate::command;
use crate::descriptor::{Descriptor, HeldBy};
use crate::distinct::distinct;
use crate::environments;
use crate::instead;
use crate::knob::Default;
use crate::maximum::SearchRequest;
use crate::observer::ObserveSpec;
use crate::page_size::PageSize;
use crate::peer;
use crate::placement::{Ranks, Topology};
use crate::problem::{Problem, Problems};
use crate::scale::InjectedCosts;
use crate::study::{Chosen, Design, Study};
use crate::tables;
use crate::units::{Bytes, Nanos};
use crate::value::{Program, Value};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What planning must know of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The CPUs that the process may use.
    pub cpus: Vec<usize>,
    /// To which cores, sockets and nodes they belong; `None` where that was not looked at.
    pub topology: Option<Topology>,
    /// The CPU time that quotas permit the process, in thousandths of a CPU; `None` where there is no quota.
    pub quota_millicpus: Option<u32>,
    /// Memory that could be had without swapping.
    pub memory_available: Bytes,
    /// Environments that cannot run here, with the reason and the remedy; features of the host, as `host.KEY`, and their
    /// levels, as `host.KEY=LEVEL`, likewise.
    pub absent: BTreeMap<String, String>,
    /// Environments whose machine is emulated here: they exercise the mechanics and never give a verdict.
    pub emulated: BTreeSet<String>,
    /// What environments were found to have on this machine, to be recorded with their settings.
    pub found: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// What the command line adds to a study.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Mode {
    /// Fewest blocks and smallest sizes: a look, not a measurement.
    pub quick: bool,
    /// Every treatment against itself, through the identical path: the noise floor.
    pub self_check: bool,
}

/// What one trial of every block executes: two arms in turns, or one alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Both arms of this pair: in one process, or at two sites where they run in different places.
    Pair(usize),
    /// This arm alone.
    Single(usize),
}

impl Cell {
    /// Phases of a trial of so many quads; one of each arm of none.
    #[must_use]
    pub fn phases(self, quads: u64) -> u64 {
        match self {
            Cell::Pair(_) => (4 * quads).max(2),
            Cell::Single(_) => (2 * quads).max(1),
        }
    }
}

/// A treatment that cannot run on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Absent {
    /// The levels.
    pub treatment: Treatment,
    /// Why, and what would help.
    pub reason: String,
    /// Why; `null` in plans of versions that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ReasonCode>,
}

impl Absent {
    fn new(treatment: Treatment, (code, reason): Why) -> Self {
        Absent { treatment, reason, code: Some(code) }
    }
}

/// Why a treatment cannot run, as a code and in words.
type Why = (ReasonCode, String);

/// One of several workloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PlannedWorkload {
    /// Its kind: a level of the factor `workload`.
    pub kind: String,
    /// Its headline's metric.
    pub metric: String,
    /// The published table to print alongside it.
    pub published: Option<String>,
}

/// A study, resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The study's question.
    pub title: String,
    /// The published table to print alongside it.
    pub published: Option<String>,
    /// The workload's kind; of several, all with commas between.
    pub workload: String,
    /// The headline's metric; of several workloads, each one's.
    pub metric: String,
    /// The workloads where there are several, in the study's order; empty where there is one.
    #[serde(default)]
    pub workloads: Vec<PlannedWorkload>,
    /// Other metrics that get a ratio, by workload.
    #[serde(default)]
    pub also: BTreeMap<String, Vec<String>>,
    /// The factors that vary, in the study's order, with the labels of their levels.
    pub factors: Vec<(String, Vec<String>)>,
    /// Factor down the table's side, if one was named.
    pub rows: Option<String>,
    /// Factor along the table's top.
    pub columns: String,
    /// The metric against which the headline's slope along the columns is estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Everything that is executed.
    pub arms: Vec<PlannedArm>,
    /// Every ratio that is estimated.
    pub pairs: Vec<Pair>,
    /// The trials of each block.
    pub cells: Vec<Cell>,
    /// What is not executed, and why.
    pub absent: Vec<Absent>,
    /// Precision, budget and phases, as changed by the mode.
    pub design: Design,
    /// Whether trials have quads by what the first block has shown of noise and costs, from the second block on: where the study does not set them, and compares
    /// something. Plans of earlier versions have not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quads_by_variance: bool,
    /// Pairs of one environment whose arms run at a site each: an A/A of a place that shares no process with others, as its ratios are measured. Plans of earlier
    /// versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<usize>,
    /// Where both programs of a pair run at the same time; absent where arms take turns, and in plans of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duet: Option<Duet>,
    /// What the command line added.
    pub mode: Mode,
    /// Each time that the run was given more (`resume --budget`, `--precision`) by somebody who may have seen a result: how many interim analyses there
    /// were then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<usize>,
    /// Of a search for the highest load, what the study does not say of it. Plans of other runs have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchRequest>,
    /// Of a load by `baremark load`, what the study does not say of it; none where something of its command line is not stored, and in plans of other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadRequest>,
    /// What the labels of blinded arms represent. What analyses a run is given its plan without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injected: Option<InjectedCosts>,
    /// The CPUs to which ranks are pinned, in order.
    pub cpus: Vec<usize>,
    /// What is set about the places, by environment.
    #[serde(default)]
    pub environments: BTreeMap<String, BTreeMap<String, Value>>,
    /// System activity.
    #[serde(default)]
    pub observe: ObserveSpec,
}

/// What of a load by `baremark load` its study does not hold, stored with the run's plan, so that the load can be resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRequest {
    /// The seed of the load.
    pub seed: u64,
    /// The CPUs of the generator; none where it may use all.
    pub cpus: Vec<usize>,
    /// Digests of what was read from files, by what it is.
    pub files: BTreeMap<String, String>,
    /// The sites that generate it, as its command line says; none where its own process does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<String>,
    /// The absolute path of the ssh configuration of its sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_config: Option<String>,
}

impl Plan {
    /// The kind of workload that the arm `index` runs.
    #[must_use]
    pub fn workload_of(&self, index: usize) -> &str {
        self.arms[index].treatment.get(tables::WORKLOAD).unwrap_or(&self.workload)
    }

    /// The headline's metric of the workload that the arm `index` runs.
    #[must_use]
    pub fn metric_of(&self, index: usize) -> &str {
        let kind = self.workload_of(index);
        self.workloads.iter().find(|of| of.kind == kind).map_or(&self.metric, |of| &of.metric)
    }

    /// The environments in which the trials of `cell` run: one where its arms share a site, else that of each arm, denominator first.
    #[must_use]
    pub fn environments_of(&self, cell: Cell) -> Vec<&str> {
        let mut all: Vec<&str> = self.arms_of(cell).into_iter().map(|arm| self.arms[arm].site()).collect();
        // An A/A of a place elsewhere has two sites of it.
        if !matches!(cell, Cell::Pair(pair) if self.apart.contains(&pair)) {
            all.dedup();
        }
        all
    }

    /// The arms of one cell, denominator first.
    #[must_use]
    pub fn arms_of(&self, cell: Cell) -> Vec<usize> {
        match cell {
            Cell::Pair(pair) => vec![self.pairs[pair].denominator, self.pairs[pair].numerator],
            Cell::Single(arm) => vec![arm],
        }
    }

    /// Phases that one trial of `cell` runs at most.
    #[must_use]
    pub fn phases_of(&self, cell: Cell) -> u64 {
        cell.phases(self.design.quads)
    }

    /// The least time that one block takes: its phases alone, without start and verification.
    #[must_use]
    pub fn least_block(&self) -> Nanos {
        let trial = |cell: Cell| {
            let arms = self.arms_of(cell);
            let each = self.phases_of(cell) / arms.len() as u64;
            let phases = arms.iter().map(|&arm| self.arms[arm].phase(&self.design).0.saturating_mul(each));
            // Those of a duet run at the same time.
            let at_once = if self.duet.is_some() { arms.len() as u64 } else { 1 };
            phases.fold(0, u64::saturating_add) / at_once
        };
        Nanos(self.cells.iter().map(|&cell| trial(cell)).fold(0, u64::saturating_add))
    }
}

/// Blocks of a `--quick` run, where the study is not content with fewer.
pub const QUICK_BLOCKS: u64 = 6;
const QUICK_PHASE: Nanos = Nanos(50_000_000);
const QUICK_QUADS: u64 = 10;
/// The most treatments that a study may have: every one of them is a row of the report.
pub const MOST_TREATMENTS: usize = 4096;

/// Resolves a study on a machine. `file` names the study in messages.
///
/// # Errors
/// Every combination that cannot be executed for reasons that lie in the study; what lies in the machine is recorded
/// in [`Plan::absent`] instead.
pub fn resolve(file: &str, study: &Study, limits: &Limits, mode: Mode) -> Result<Plan, Problems> {
    let problems = instead::problems(study);
    let study = &instead::on_machine(study, &limits.absent);
    let mut resolver = Resolver { study, limits, mode, problems, absent: Vec::new() };
    resolver.check_size();
    let mut arms = if resolver.problems.is_empty() { resolver.arms() } else { Vec::new() };
    let (mut pairs, mut cells) = resolver.compare(&arms);
    while let Some((left_out, reason)) = resolver.too_large_together(&arms, &pairs, &cells) {
        for arm in left_out.into_iter().rev() {
            let treatment = arms.remove(arm).treatment;
            resolver.absent.push(Absent::new(treatment, (ReasonCode::Memory, reason.clone())));
        }
        (pairs, cells) = resolver.compare(&arms);
    }
    while let Some(arm) = reference_of_none(&arms, &pairs) {
        let treatment = arms.remove(arm).treatment;
        resolver.absent.push(Absent::new(treatment, (ReasonCode::NoComparison, REFERENCE_OF_NONE.to_owned())));
        (pairs, cells) = resolver.compare(&arms);
    }
    resolver.check_memory(&arms, &pairs, &cells);
    resolver.check_duet(&arms, &pairs);
    let environments = resolver.environments(&arms);
    if !resolver.problems.is_empty() {
        crate::order::by_key(&mut resolver.problems, |problem| problem.line);
        return Err(Problems { file: file.to_owned(), list: resolver.problems });
    }
    let design = resolver.design();
    let apart = resolver.apart(&arms, &pairs);
    let (duet, observe) = (resolver.duet(), resolver.observed());
    let compares = pairs.iter().any(|pair| pair.asked);
    let quads_by_variance = compares && !mode.quick && design.quads > 0 && study.line("design.quads") == 0;
    let planned = |chosen: &Chosen| PlannedWorkload {
        kind: chosen.descriptor.kind.to_owned(),
        metric: chosen.metric().to_owned(),
        published: chosen.published.clone(),
    };
    let workloads: Vec<PlannedWorkload> = study.workloads.iter().map(planned).collect();
    let joined = |of: fn(&PlannedWorkload) -> &str| workloads.iter().map(of).collect::<Vec<_>>().join(", ");
    Ok(Plan {
        title: study.title.clone(),
        published: if workloads.len() == 1 { workloads[0].published.clone() } else { None },
        workload: joined(|of| &of.kind),
        metric: joined(|of| &of.metric),
        also: study.workloads.iter().map(|of| (of.descriptor.kind.to_owned(), of.also.clone())).collect(),
        workloads: if workloads.len() == 1 { Vec::new() } else { workloads },
        factors: study
            .factors
            .iter()
            .map(|f| (f.key.clone(), f.levels.iter().map(ToString::to_string).collect()))
            .collect(),
        rows: study.layout.rows.clone(),
        columns: study.layout.columns.clone(),
        against: study.layout.against.clone(),
        arms,
        pairs,
        cells,
        absent: resolver.absent,
        design,
        quads_by_variance,
        apart,
        duet,
        mode,
        extensions: Vec::new(),
        search: None,
        load: None,
        injected: None,
        cpus: limits.cpus.clone(),
        environments,
        observe,
    })
}

struct Resolver<'s> {
    study: &'s Study,
    limits: &'s Limits,
    mode: Mode,
    problems: Vec<Problem>,
    absent: Vec<Absent>,
}

impl Resolver<'_> {
    fn report(&mut self, line: usize, what: String, remedy: impl Into<String>) {
        let problem = Problem::new(line, what, remedy);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn design(&self) -> Design {
        let mut design = self.study.design.clone();
        if self.mode.quick {
            let short = self.study.workloads.iter().all(|chosen| chosen.descriptor.short_phases);
            if short {
                design.quads = design.quads.min(QUICK_QUADS);
            } else {
                design.phase = design.phase.min(QUICK_PHASE);
                design.quads = design.quads.min(1);
            }
            // What a study of long programs is content with, a look is too.
            design.least_blocks = design.least_blocks.min(QUICK_BLOCKS);
            design.most_blocks = design.least_blocks;
        }
        design
    }

    /// Refuses what no machine could run, before combining anything.
    fn check_size(&mut self) {
        let treatments = self.study.factors.iter().fold(1_usize, |n, factor| n.saturating_mul(factor.levels.len()));
        if treatments > MOST_TREATMENTS {
            let longest = self.study.factors.iter().max_by_key(|factor| factor.levels.len());
            let what = format!("the factors have {treatments} combinations of levels, more than {MOST_TREATMENTS}");
            let remedy = "drop levels, or make one study of each part";
            self.report(longest.map_or(0, |factor| factor.line), what, remedy);
        }
        let varied = |key: &str| self.study.factors.iter().find(|factor| factor.key == key);
        if let (Some(provisioned), Some(_)) = (varied("provisioned"), varied("ranks")) {
            let (line, what) = (provisioned.line, "provisioned and ranks both say how many ranks there are");
            self.report(line, what.to_owned(), "drop one of them");
        }
        if self.limits.cpus.is_empty() {
            self.report(0, "this process may use no CPU".to_owned(), "start it with an affinity mask that has one");
        }
    }

    /// All combinations of levels; factors that do not apply are dropped and what then is alike counts once.
    fn combinations(&self) -> Vec<BTreeMap<String, Value>> {
        let mut all = vec![BTreeMap::new()];
        for factor in &self.study.factors {
            all = all
                .iter()
                .flat_map(|done: &BTreeMap<String, Value>| {
                    factor.levels.iter().map(move |level| {
                        let mut next = done.clone();
                        next.insert(factor.key.clone(), level.clone());
                        next
                    })
                })
                .collect();
        }
        let mut kept: Vec<BTreeMap<String, Value>> = Vec::new();
        for mut levels in all {
            let chosen = self.study.chosen(&levels);
            let kind = environments::kind_of(environment_of(&levels), &self.study.environments).to_owned();
            levels.retain(|key, _| applies(chosen, key) && tables::applies(key, &kind));
            for (key, held) in &chosen.held {
                levels.entry(key.clone()).and_modify(|level| level.clone_from(held));
            }
            let all = with_held(chosen, &levels);
            if host_backing(chosen, &all).unwrap_or_else(|| page_of(&all)) == PageSize::Large {
                levels.remove("page_frames");
            }
            kept.push(levels);
        }
        distinct(kept)
    }

    fn arms(&mut self) -> Vec<PlannedArm> {
        let varies = |key: &str| self.study.factors.iter().find(|factor| factor.key == key);
        let places: Vec<String> = varies(environments::FACTOR).map_or_else(
            || vec![environments::NATIVE.to_owned()],
            |f| f.levels.iter().map(ToString::to_string).collect(),
        );
        for factor in tables::MACHINE_FACTORS.iter().filter_map(|key| varies(key)) {
            let kind = |name| environments::kind_of(name, &self.study.environments);
            let of_a_workload = self.study.workloads.iter().any(|chosen| applies(chosen, &factor.key));
            if !of_a_workload {
                let what = format!("'{}' applies to no workload of this study", factor.key);
                self.report(
                    factor.line,
                    what,
                    "drop the factor; of a program in the microVM, guest_page, host_backing, exitless and prefault can be varied",
                );
            } else if !places.iter().any(|place| tables::applies(&factor.key, kind(place))) {
                let what = format!("'{}' applies to no environment of this study", factor.key);
                self.report(factor.line, what, "add \"microvm\" to environment, or drop the factor");
            }
        }
        let mut arms = Vec::new();
        for levels in self.combinations() {
            let treatment: Treatment = levels.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
            let environment = environment_of(&levels).to_owned();
            let executor = || Some((ReasonCode::Executor, self.lacks_executor(&levels, &environment)?));
            if let Some(why) = self.missing(&levels, &environment).or_else(executor) {
                self.absent.push(Absent::new(treatment, why));
                continue;
            }
            if let Some(arm) = self.arm(&levels, &environment) {
                let needs = self.needs(&levels, &arm, &environment);
                let memory = self.lacks_memory(&levels, &arm).map(|reason| (ReasonCode::Memory, reason));
                let absent = || needs.iter().find_map(|name| self.limits.absent.get(name)).cloned();
                if let Some(why) = memory.or_else(|| Some((ReasonCode::NotAvailable, absent()?))) {
                    self.absent.push(Absent::new(treatment, why));
                    continue;
                }
                let emulated = needs.iter().chain([&environment]).any(|place| self.limits.emulated.contains(place));
                let kind = environments::kind_of(&environment, &self.study.environments);
                let like = (kind != environment).then(|| kind.to_owned());
                arms.push(PlannedArm { treatment, environment, like, arm, emulated });
            }
        }
        if arms.is_empty() && self.problems.is_empty() {
            let mut reasons: Vec<&str> = self.absent.iter().map(|absent| absent.reason.as_str()).collect();
            reasons.dedup();
            let line = self.study.line("factors.environment");
            let problem = Problem::new(line, "nothing in this study can run here", reasons.join("; "));
            let lacks = self.absent.iter().any(|absent| absent.code == Some(ReasonCode::NotAvailable));
            self.problems.push(if lacks { problem.of_machine() } else { problem });
        }
        arms
    }

    /// What an arm needs in addition to its own environment: the place of its other end, its parameters there, and what its workload's own
    /// section names. Of an application that runs elsewhere the latter is that site's matter.
    fn needs(&self, levels: &BTreeMap<String, Value>, arm: &ResolvedArm, environment: &str) -> Vec<String> {
        let program = command::of_arm(arm).map(|program| program_at(environment, program));
        let peer = peer::of_arm(arm).map(str::to_owned);
        let kind = environments::kind_of(environment, &self.study.environments);
        let here = environments::find(kind).is_none_or(|kind| kind.can.interleaves);
        let workload = self.study.chosen(levels).descriptor;
        let own = workload.section.filter(|_| here).map_or_else(Vec::new, |section| (section.needs)(arm));
        let parameter =
            |(key, value): (&String, &Value)| parameter_at(environment, workload.kind, key, &value.to_string());
        program.into_iter().chain(peer).chain(own).chain(arm.parameters.iter().map(parameter)).collect()
    }

    /// Why this machine cannot run a treatment, with the remedy.
    fn missing(&self, levels: &BTreeMap<String, Value>, environment: &str) -> Option<Why> {
        let not_available = |reason: String| Some((ReasonCode::NotAvailable, reason));
        if let Some(reason) = self.limits.absent.get(environment) {
            return not_available(reason.clone());
        }
        let kind = environments::kind_of(environment, &self.study.environments);
        let is_here = environments::is_hosted_here(kind, self.study.environments.get(environment));
        for (key, level) in levels.iter().filter(|(key, _)| key.starts_with(tables::HOST)) {
            if !is_here {
                return Some((ReasonCode::OtherHost, set_elsewhere(key, environment)));
            }
            let absent = self.limits.absent.get(key).or_else(|| self.limits.absent.get(&format!("{key}={level}")));
            if let Some(reason) = absent {
                return not_available(format!("{key} = {level}: {reason}"));
            }
        }
        if environment == environments::NATIVE {
            let kind = self.study.chosen(levels).descriptor.kind;
            let reason = |(key, level): (&String, &Value)| {
                let reason = self.limits.absent.get(&level_of(kind, key, &level.to_string()))?;
                Some(format!("{key} = {level}: {reason}"))
            };
            if let Some(reason) = levels.iter().find_map(reason) {
                return not_available(reason);
            }
        }
        let count = count_of(levels);
        let ranks = match self.provisioned(levels) {
            Some(Err(reason)) => return Some((ReasonCode::Placement, reason)),
            Some(Ok(ranks)) => ranks,
            None => self.ranks(levels),
        };
        if environments::find(kind).is_none_or(|kind| kind.can.interleaves) {
            let flat = Topology::flat(&self.limits.cpus);
            let here = self.limits.topology.as_ref().unwrap_or(&flat);
            let (placement, memory) = placed(levels);
            if let Some(reason) = here.lacks(placement, memory, ranks, count) {
                return Some((ReasonCode::Placement, reason));
            }
        }
        if !ranks.is_multiple_of(count) {
            let reason = format!("a team of {ranks} cannot be divided over {count} machines");
            return Some((ReasonCode::Placement, reason));
        }
        let can = environments::can(kind);
        if can.separates_programs() && ranks / count > self.limits.cpus.len() {
            let (each, cpus) = (ranks / count, self.limits.cpus.len());
            let verb = if each == 1 { "needs" } else { "need" };
            let reason = format!("{} of a {kind} {verb} a CPU each, and this process may use {cpus}", Ranks(each));
            return Some((ReasonCode::Placement, reason));
        }
        if count > 1 && !can.divisible {
            let can = environments::names(|can| can.divisible).join(", ");
            let reason =
                format!("several machines of {environment} cannot run in one trial, only of {can}; count = 1 can");
            return Some((ReasonCode::Division, reason));
        }
        None
    }

    /// Why a workload cannot run in an environment in which others can, or it can in others. A study that could have no value at
    /// all is refused instead.
    fn lacks_executor(&self, levels: &BTreeMap<String, Value>, environment: &str) -> Option<String> {
        let workload = self.study.chosen(levels).descriptor;
        let runs_in = |environment: &str| workload.executors.contains(&environments::executor_of(environment));
        let places =
            self.study.factors.iter().filter(|factor| factor.key == environments::FACTOR).flat_map(|of| &of.levels);
        let elsewhere = places.map(ToString::to_string).any(|place| runs_in(&place));
        if runs_in(environment) || !(self.study.workloads.len() > 1 || elsewhere) {
            return None;
        }
        Some(match environments::executor_of(environment) {
            ExecutorKind::Null => {
                format!("workload '{}' cannot be replaced by nothing, which null runs", workload.kind)
            }
            _ => {
                format!("workload '{}' requires an operating system; {environment} has no guest kernel", workload.kind)
            }
        })
    }

    fn arm(&mut self, levels: &BTreeMap<String, Value>, environment: &str) -> Option<ResolvedArm> {
        let chosen = self.study.chosen(levels);
        let workload = chosen.descriptor;
        let executor = environments::executor_of(environment);
        if !workload.executors.contains(&executor) {
            let what = format!("workload '{}' cannot run in environment '{environment}'", workload.kind);
            let why = match executor {
                ExecutorKind::Microvm => "a microVM has no operating system, which this workload needs; ",
                ExecutorKind::Null => "the no-op place cannot replace this workload; ",
                ExecutorKind::Direct => "",
            };
            let remedy = format!("{why}take that environment out of [factors]");
            self.report(self.study.line("factors.environment"), what, remedy);
            return None;
        }
        let (asked, levels) = (levels, &with_held(chosen, levels));
        let page = page_of(levels);
        let virtual_machine = executor == ExecutorKind::Microvm && workload.kind != command::KIND;
        let arm = ResolvedArm {
            executor,
            ranks: self.ranks(levels) / count_of(levels),
            page,
            frames: frames_of(levels),
            host_backing: host_backing(chosen, levels),
            guest_tables: virtual_machine.then(|| match levels.get("guest_tables") {
                Some(Value::Choice(word)) if word == "scattered" => GuestTables::Scattered,
                _ => GuestTables::Contiguous,
            }),
            parts: count_of(levels),
            placement: placed(levels).0,
            memory: placed(levels).1,
            parameters: self.parameters(chosen, levels, environment),
        };
        let mut sound = true;
        if let Err(misfit) = (workload.check)(&arm) {
            sound = false;
            self.misfit(workload.kind, asked, misfit);
        }
        for (key, misfit) in workload.section.map_or_else(Vec::new, |section| (section.check_arm)(&arm)) {
            let line = match self.line_of_parameter(workload.kind, &key) {
                0 => self.study.line("workload.kind"),
                line => line,
            };
            sound = false;
            self.report(line, misfit.what, misfit.remedy);
        }
        sound.then_some(arm)
    }

    /// Why a level of the size is too large for this machine. A size that the study does not vary is refused instead ([`Self::check_memory`]).
    fn lacks_memory(&self, levels: &BTreeMap<String, Value>, arm: &ResolvedArm) -> Option<String> {
        let footprint = self.study.chosen(levels).descriptor.footprint_of_each_arm()?;
        let varied = self.study.factors.iter().any(|factor| factor.key == footprint.key);
        let (need, available) = ((footprint.bytes)(arm)?, self.limits.memory_available);
        let what = || format!("{} needs {} of memory, and {available:.1} are available", footprint.key, Bytes(need));
        (varied && need > available.0).then(what)
    }

    /// The ranks of all machines together.
    fn ranks(&self, levels: &BTreeMap<String, Value>) -> usize {
        match levels.get("ranks") {
            Some(Value::Count(ranks)) => usize::try_from(*ranks).unwrap_or(usize::MAX),
            _ if self.study.duet => self.provisioned(levels).and_then(Result::ok).unwrap_or(count_of(levels)),
            _ => self.provisioned(levels).and_then(Result::ok).unwrap_or(self.limits.cpus.len()),
        }
    }

    /// The ranks of all machines together where a share of this machine's CPUs is requested, or why machines of equal size cannot have
    /// it; `None` where none is.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "few CPUs"
    )]
    fn provisioned(&self, levels: &BTreeMap<String, Value>) -> Option<Result<usize, String>> {
        let Some(Value::Share(share)) = levels.get("provisioned") else { return None };
        let (cpus, count) = (self.limits.cpus.len(), count_of(levels));
        let each = ((share.0 * cpus as f64 / count as f64).round() as usize).max(1);
        let (ranks, machines) = (each.saturating_mul(count), if count == 1 { "machine" } else { "machines" });
        let reached = ranks as f64 / cpus as f64;
        if (reached - share.0).abs() <= PROVISIONED_WITHIN {
            return Some(Ok(ranks));
        }
        let reached = 100.0 * reached;
        Some(Err(format!(
            "{share} of {cpus} CPUs in {count} {machines} of equal size is {} ({reached:.0} %)",
            Ranks(ranks)
        )))
    }

    /// The workload's parameters: its defaults, over them the study's, over them `--quick`, over them the levels.
    fn parameters(
        &self,
        chosen: &Chosen,
        levels: &BTreeMap<String, Value>,
        environment: &str,
    ) -> BTreeMap<String, Value> {
        let workload = chosen.descriptor;
        let place = environments::kind_of(environment, &self.study.environments);
        let mut values = BTreeMap::new();
        for knob in workload.parameters.iter().filter(|knob| tables::applies(knob.key, place)) {
            let said = chosen.parameters.get(knob.key).cloned().or_else(|| match knob.default {
                Default::Typed(text) => knob.read_text(text).ok(),
                _ => None,
            });
            let quick = self.mode.quick.then(|| quick_value(workload, knob)).flatten();
            let usual = match (said, quick) {
                (Some(said), Some(quick)) if is_smaller(&said, &quick) => Some(said),
                (said, quick) => quick.or(said),
            };
            if let Some(value) = levels.get(knob.key).cloned().or(usual) {
                values.insert(knob.key.to_owned(), value);
            }
        }
        if let Some(section) = workload.section {
            let own = chosen.parameters.iter().filter(|(key, _)| workload.parameter(key).is_none());
            let varied = levels.iter().filter(|(key, _)| (section.has)(key) && workload.parameter(key).is_none());
            values.extend(own.chain(varied).map(|(key, value)| (key.clone(), value.clone())));
        }
        values
    }

    /// The settings of every place that is used, with their defaults; what must be set and is not becomes a problem.
    fn environments(&mut self, arms: &[PlannedArm]) -> BTreeMap<String, BTreeMap<String, Value>> {
        let mut all = BTreeMap::new();
        let peers = arms.iter().filter_map(|arm| peer::of_arm(&arm.arm));
        let used: BTreeSet<&str> = arms.iter().map(|arm| arm.environment.as_str()).chain(peers).collect();
        for name in used {
            let kind = environments::find(environments::kind_of(name, &self.study.environments));
            let Some(kind) = kind.filter(|kind| !kind.settings.is_empty()) else { continue };
            let mut settings = self.study.environments.get(name).cloned().unwrap_or_default();
            let found = self.limits.found.get(name).into_iter().flatten();
            settings.extend(found.map(|(key, words)| (key.clone(), Value::Words(words.clone()))));
            for knob in kind.settings.iter().filter(|knob| !settings.contains_key(knob.key)).collect::<Vec<_>>() {
                match knob.default {
                    Default::Typed(text) => {
                        drop(knob.read_text(text).map(|value| settings.insert(knob.key.to_owned(), value)))
                    }
                    Default::Derived(_) => {}
                    Default::Required => {
                        let what = format!("environment {name} needs {}", knob.key);
                        let remedy = format!("write {} in [environments.{name}]: {}", knob.key, knob.help);
                        self.report(self.study.line("factors.environment"), what, remedy);
                    }
                }
            }
            all.insert(name.to_owned(), settings);
        }
        all
    }

    fn workload_of(&self, arm: &PlannedArm) -> &'static Descriptor {
        let kind = arm.treatment.get(tables::WORKLOAD);
        let found = self.study.workloads.iter().find(|chosen| kind.is_some_and(|kind| kind == chosen.descriptor.kind));
        found.unwrap_or(&self.study.workloads[0]).descriptor
    }
}

/// By how much of all CPUs machines of equal size may miss the share that is requested: half of the step between published levels.
const PROVISIONED_WITHIN: f64 = 0.025;

/// Factors of the memory that an agent maps, of which a program has none.
const MEMORY: &[&str] = &["guest_tables", "page_frames"];

/// Whether the factor `key` says anything of this workload.
fn applies(chosen: &Chosen, key: &str) -> bool {
    key == tables::WORKLOAD
        || (tables::FACTORS.iter().any(|knob| knob.key == key)
            && !(chosen.descriptor.kind == command::KIND && MEMORY.contains(&key))
            && (key != "page_frames" || chosen.descriptor.footprint.is_some_and(|of| of.held == HeldBy::Agent)))
        || chosen.descriptor.parameter(key).is_some()
        || chosen.descriptor.section.is_some_and(|section| (section.has)(key))
}

/// The key in [`Limits::absent`] of a program that cannot run in an environment where others can.
#[must_use]
pub fn program_at(environment: &str, program: &Program) -> String {
    format!("{environment}: {} {}", program.name, program.argv.first().map_or("", String::as_str))
}

/// The key in [`Limits::absent`] of a workload's parameter that cannot have this value in an environment where others can run.
#[must_use]
pub fn parameter_at(environment: &str, workload: &str, parameter: &str, value: &str) -> String {
    format!("{environment}: {}", level_of(workload, parameter, value))
}

/// The key in [`Limits::absent`] of a workload's parameter that cannot have this level on this machine as it is.
#[must_use]
pub fn level_of(workload: &str, parameter: &str, level: &str) -> String {
    format!("{workload}.{parameter}={level}")
}
