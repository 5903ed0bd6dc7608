//! Conducting a run: block after block, until the stopping rule, the budget or the user ends it.
//!
//! A trial is stored before the next begins. What an interrupt or a kill takes away is the trial that was running, never
//! one that was finished. A cell whose trials fail again and again is given up, with its reason; the others go on.

mod budget;
mod second_look;

pub use second_look::{CallCounter, Uncounted};

use crate::analysis::FRAME_ROUND_TRIP;
use crate::comparison::label;
use crate::fitting::{Peers, carried, fitted};
use crate::host_observer::{HostObserver, placed};
use crate::link::{AgentLink, Came, LinkError};
use crate::members;
use crate::schedule;
use crate::sites::{self, Sites, Wanted};
use crate::spend::{self, TrialTime};
use crate::trials::{self, Finished, PATIENCE};
use crate::turns::{self, Side};
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::codes::Decision;
use baremark_model::document::LookRow;
use baremark_model::environments::{self, NATIVE};
use baremark_model::event::{Event, TrialStatus};
use baremark_model::observation::THIS_MACHINE;
use baremark_model::observer::ObserveSpec;
use baremark_model::page_size::PageSize;
use baremark_model::plan::{Plan, Treatment, set_elsewhere};
use baremark_model::seam::Sample;
use baremark_model::second_look::SecondLook;
use baremark_model::site::Environment;
use baremark_model::tables;
use baremark_model::units::Nanos;
use baremark_model::value::Value as ParameterValue;
use baremark_model::wire::{TrialResult, TrialSpec};
use baremark_stats::Estimate;
use baremark_stats::interim::{Analysis, Rule, Step, StopReason, rate};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Where a run is written down while it continues.
pub trait RunLog {
    /// Stores a finished trial; when this returns, a kill cannot lose it.
    ///
    /// # Errors
    /// The run stops.
    fn trial(&mut self, trial: &Finished) -> Result<(), RunLogError>;

    /// Stores part of a trial that goes on.
    ///
    /// # Errors
    /// The trial continues, and would begin anew if it were interrupted.
    fn progress(&mut self, progress: &Progress) -> Result<(), RunLogError>;

    /// Stores an interim analysis.
    ///
    /// # Errors
    /// The run stops.
    fn look(&mut self, look: &LookRow) -> Result<(), RunLogError>;

    /// Stores what was examined after the last block.
    ///
    /// # Errors
    /// The run stops.
    fn second_look(&mut self, found: &SecondLook) -> Result<(), RunLogError>;
}

/// Part of a trial that goes on, stored so that the trial can be taken up if it is interrupted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The trial's block.
    pub block: u64,
    /// The trial's cell.
    pub cell: usize,
    /// The phase's place in the schedule.
    pub position: usize,
    /// As the workload writes it.
    pub row: Value,
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The stopping rule or the budget ended it; in words.
    Complete(String),
    /// The user stopped it; it can be resumed.
    Interrupted,
    /// No cell is left that works; in words. It can be resumed when the cause is gone.
    Failed(String),
    /// Every ratio that is requested lacks a cell that never worked; in words. It can be resumed when the cause is gone.
    NothingToCompare(String),
}

/// The run could not be written down: why, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RunLogError(pub String);

/// A run in progress.
pub struct Conductor<'c> {
    /// What is run.
    pub plan: &'c Plan,
    /// The run's name.
    pub run: &'c str,
    /// Where its agents run, by the name of the environment.
    pub environments: &'c BTreeMap<String, Box<dyn Environment>>,
    /// Set when the user wants it to stop.
    pub interrupt: &'c AtomicBool,
    /// What an earlier process stored of trials that it did not finish.
    pub progress: &'c [Progress],
    /// Block devices that its sites may overwrite.
    pub overwritable: &'c [PathBuf],
    /// Brings this host into the state that a treatment names, before each trial of it; in words why it cannot.
    pub host: &'c mut dyn FnMut(&Treatment) -> Result<(), String>,
    /// Counts system calls when the run is over; `None` where nothing is to be examined.
    pub calls: Option<&'c mut dyn CallCounter>,
    /// What is examined then may take so long, however short the comparison was; less where that is much of its budget.
    pub examine_least: Duration,
    /// Where it is written down.
    pub log: &'c mut dyn RunLog,
    /// Who watches.
    pub watch: &'c mut dyn FnMut(&Event),
}

/// What a run has so far.
struct State<'i> {
    host_observer: HostObserver<'i>,
    sites: Sites<'i>,
    peers: Peers<'i>,
    trials: Vec<Finished>,
    looks: Vec<Analysis>,
    spent: Duration,
    /// Quads of the trials of each cell from the second block on, once that begins.
    quads: Option<Vec<Option<u64>>>,
    setbacks: Vec<usize>,
    given_up: Vec<bool>,
    last_reason: String,
}

impl<'c> Conductor<'c> {
    /// Runs what is still missing. `trials` and `looks` are those that an earlier process stored; they are complete
    /// with the new ones when this returns.
    ///
    /// # Errors
    /// When the run can no longer be written down.
    pub fn conduct(&mut self, trials: &mut Vec<Finished>, looks: &[LookRow]) -> Result<Ending, RunLogError> {
        let cells = self.plan.cells.len();
        let mut state = State {
            host_observer: HostObserver::default(),
            sites: Sites::default(),
            peers: Peers::default(),
            spent: trials.iter().map(|trial| Duration::from_nanos(trial.elapsed_ns)).sum(),
            trials: std::mem::take(trials),
            looks: Vec::new(),
            quads: None,
            setbacks: vec![0; cells],
            given_up: vec![false; cells],
            last_reason: String::new(),
        };
        // Analyses before an extension were of intervals at another confidence, and confirm nothing.
        let counting = looks.get(self.plan.extensions.last().copied().unwrap_or(0)..).unwrap_or_default();
        for row in counting {
            let lost = self.lost_blocks(&state, row.blocks);
            state.looks.push(from_row(row, lost));
        }
        (self.watch)(&Event::Started {
            run: self.run.to_owned(),
            title: self.plan.title.clone(),
            trials_per_block: cells,
            blocks_done: trials::blocks_of(self.plan, &state.trials),
            spent_ns: Nanos::from(state.spent).0,
            look: counting.last().cloned(),
        });
        let began = Instant::now();
        let ending = self.blocks(&mut state).and_then(|ending| {
            if matches!(ending, Ending::Complete(_)) {
                self.second_look(&mut state)?;
            }
            Ok(ending)
        });
        if let Ok(ending) = &ending {
            (self.watch)(&Event::Stopped {
                reason: ending.words(),
                blocks: trials::blocks_of(self.plan, &state.trials),
                elapsed_ns: Nanos::from(began.elapsed()).0,
            });
        }
        *trials = state.trials;
        ending
    }

    fn blocks(&mut self, state: &mut State<'c>) -> Result<Ending, RunLogError> {
        loop {
            // Up to the first analysis the budget alone ends it, also where another process has begun.
            let (rule, most) = self.rule(state, !state.looks.is_empty());
            let until = match rule.next(&state.looks) {
                Step::Measure { until } | Step::Confirm { until } => u64::from(until),
                Step::Stop { reason } => {
                    let blocks = trials::blocks_of(self.plan, &state.trials);
                    return Ok(Ending::Complete(stop_words(reason, self.plan, blocks)));
                }
            };
            if let Some(ending) = self.measure_counting(state, until, most)? {
                return Ok(ending);
            }
            self.look(state)?;
        }
    }

    /// Runs blocks until `until` of them count, `most` of all at most; an ending when something ends the run first.
    fn measure_counting(
        &mut self,
        state: &mut State<'c>,
        until: u64,
        most: u64,
    ) -> Result<Option<Ending>, RunLogError> {
        let mut wanted = until.min(most);
        loop {
            if let Some(ending) = self.measure(state, wanted)? {
                return Ok(Some(ending));
            }
            let blocks = trials::blocks_of(self.plan, &state.trials);
            wanted = (until + self.lost_blocks(state, blocks)).min(most);
            if wanted <= blocks {
                return Ok(None);
            }
        }
    }

    /// Runs the trials that are missing until `until` blocks are there; an ending when something ends the run first. Where the budget is too short for the
    /// smallest study of all comparisons, those that take least of it have theirs first.
    fn measure(&mut self, state: &mut State<'c>, until: u64) -> Result<Option<Ending>, RunLogError> {
        let plan = self.plan;
        let before = state.trials.len();
        if let Some(ending) = self.fill(state, budget::in_blocks(plan, 0..until.min(1)))? {
            return Ok(Some(ending));
        }
        let short = state.shortage(plan);
        if let Some(text) = short.as_ref().filter(|_| state.trials.len() > before) {
            (self.watch)(&Event::Warning { text: text.clone() });
        }
        let smallest = plan.design.least_blocks.min(plan.design.most_blocks);
        if short.is_none() || until > smallest {
            return self.fill(state, budget::in_blocks(plan, 1..until));
        }
        loop {
            let left = Duration::from_nanos(plan.design.budget.0).saturating_sub(state.spent);
            let times = state.times(plan);
            let (next, is_asked_again) =
                budget::shortest_first(plan, &times, left, |block, cell| state.lacks(block, cell));
            let ending = self.fill(state, next)?;
            if ending.is_some() || !is_asked_again {
                return Ok(ending);
            }
        }
    }

    /// Runs those of these trials, each of a block and a cell, that are missing.
    fn fill(&mut self, state: &mut State<'c>, trials: Vec<(u64, usize)>) -> Result<Option<Ending>, RunLogError> {
        for (block, cell) in trials {
            if !state.lacks(block, cell) {
                continue;
            }
            if self.interrupt.load(Ordering::Relaxed) {
                return Ok(Some(Ending::Interrupted));
            }
            if state.over_budget(self.plan, cell) {
                return Ok(Some(Ending::Complete(stop_words(StopReason::Budget, self.plan, 0))));
            }
            match self.trial(block, cell, state) {
                None => return Ok(Some(Ending::Interrupted)),
                Some(finished) => self.take(state, finished)?,
            }
            if self.has_nothing_to_compare(state) {
                return Ok(Some(Ending::NothingToCompare(state.last_reason.clone())));
            }
        }
        let none_is_left = state.given_up.iter().all(|&given_up| given_up);
        Ok(none_is_left.then(|| Ending::Failed(state.last_reason.clone())))
    }

    /// Whether every ratio that is requested lacks a cell that has been given up without one trial that counts, while others
    /// work: what they would still measure could be compared with nothing.
    fn has_nothing_to_compare(&self, state: &State) -> bool {
        let has = |cell: usize| {
            let counts = |trial: &Finished| trial.cell == cell && trial.counted().is_some();
            !state.given_up[cell] || state.trials.iter().any(counts)
        };
        let without = |pair: usize| !trials::can_be_measured(self.plan, pair, has);
        let mut asked = (0..self.plan.pairs.len()).filter(|&pair| self.plan.pairs[pair].asked).peekable();
        state.given_up.contains(&true)
            && state.given_up.contains(&false)
            && asked.peek().is_some()
            && asked.all(without)
    }

    /// Runs one trial, in a fresh agent unless the study keeps them; `None` when the user interrupted it.
    fn trial(&mut self, block: u64, cell: usize, state: &mut State<'c>) -> Option<Finished> {
        let overwritable = self.overwritable.to_vec();
        let quads = state.quads(self.plan, block, cell);
        let asked = schedule::trial_of(self.plan, block, cell, quads);
        let reps = state.reps(cell);
        let reps_near = if reps.is_none() { state.reps_like(&asked) } else { None };
        let spec = TrialSpec { reps, reps_near, overwritable, ..asked };
        let arms = self.plan.arms_of(self.plan.cells[cell]);
        let treatments = arms.iter().map(|&arm| self.plan.arms[arm].treatment.clone()).collect();
        (self.watch)(&Event::TrialStarted { block, cell, treatments });
        let began = Instant::now();
        let wanted = self.wanted(&spec, block, cell);
        // What another place takes of this machine's memory besides, such as a guest's own, nobody knows here.
        let alone = wanted.iter().all(|own| own.environment == NATIVE);
        state.sites.make_room(state.memory_of(cell).filter(|_| alone));
        // All arms of a trial have the same state of the host.
        let host = arms.first().map_or(Ok(()), |&arm| self.set_host(arm));
        let outcome = host.map_err(LinkError::Host).and_then(|()| match wanted.as_slice() {
            &[below, above] => self.run_in_turns([below, above], &spec, state),
            own => {
                let own = own.first().copied().ok_or_else(|| LinkError::OutOfTurn("a trial of no arm".to_owned()))?;
                let agents = self.agents(own, state)?;
                self.run(agents, own, (&spec, (block, cell)), state)
            }
        });
        let elapsed_ns = Nanos::from(began.elapsed()).0;
        let (status, result) = self.judge(outcome)?;
        Some(Finished {
            block,
            cell,
            place: state.next_place(),
            spec,
            status,
            result,
            elapsed_ns,
            percentiles: Default::default(),
        })
    }

    /// Brings the host of an arm into the state that its treatment names: this machine, and no other.
    fn set_host(&mut self, arm: usize) -> Result<(), String> {
        let planned = &self.plan.arms[arm];
        let feature = tables::host_levels(&planned.treatment).next();
        let settings = self.plan.environments.get(&planned.environment);
        match feature.filter(|_| !environments::is_hosted_here(planned.place(), settings)) {
            Some((key, _)) => Err(set_elsewhere(key, &planned.environment)),
            None => (self.host)(&planned.treatment),
        }
    }

    /// An agent at each site that is requested: those that were kept, or new ones.
    fn agents(&self, wanted: Wanted<'c>, state: &mut State<'c>) -> Result<Vec<AgentLink<'c>>, LinkError> {
        let name = wanted.environment;
        let environment = self.environments.get(name);
        let environment = environment.ok_or_else(|| LinkError::OutOfTurn(format!("no environment {name}")))?;
        state.sites.take(self.plan, wanted, &**environment, self.interrupt)
    }

    /// Has the agents run the trial; while it runs elsewhere, this machine is observed alongside it. Agents that gave a result are
    /// kept, where the study keeps them.
    fn run(
        &mut self,
        mut agents: Vec<AgentLink<'c>>,
        wanted: Wanted<'c>,
        (spec, (block, cell)): (&TrialSpec, (u64, usize)),
        state: &mut State<'c>,
    ) -> Result<TrialResult, LinkError> {
        let name = wanted.environment;
        let fit = |agent: &mut AgentLink<'c>| self.fit(spec, agent, name, state);
        let specs = agents.iter_mut().map(fit).collect::<Result<Vec<_>, _>>()?;
        let elsewhere = spec.observe.as_ref().filter(|_| name != NATIVE);
        if let Some(observe) = elsewhere {
            self.observe_host(observe, state);
        }
        let limit = limit_of(spec);
        let (watch, log) = (&mut *self.watch, &mut *self.log);
        let run = match agents.as_mut_slice() {
            [agent] => agent
                .run((&specs[0], of_trial(self.progress, block, cell)), limit, &mut |came| match came {
                    Came::Loading(loading) => watch(&Event::Loading(loading)),
                    Came::Phase { position, of } => watch(&Event::Phase { position, of }),
                    Came::Progress { position, row } => {
                        if let Err(RunLogError(text)) = log.progress(&Progress { block, cell, position, row }) {
                            watch(&Event::Warning { text });
                        }
                    }
                })
                .and_then(|mut result| {
                    floor(agent, &mut result)?;
                    let site = if name == NATIVE { THIS_MACHINE } else { name };
                    result.observations = result.observations.into_iter().map(|seen| placed(seen, site)).collect();
                    Ok(result)
                }),
            several => {
                members::run(several, (&specs, name), limit, self.plan.design.precision.0, &mut |came| match came {
                    Came::Loading(loading) => watch(&Event::Loading(loading)),
                    Came::Phase { position, of } => watch(&Event::Phase { position, of }),
                    // A trial of several sites is not taken up in its middle.
                    Came::Progress { .. } => {}
                })
            }
        };
        let on_host = elsewhere.map(|_| state.host_observer.end());
        let mut result = run?;
        state.sites.keep(self.plan, wanted, agents, sites::memory_of(&result.arms));
        result.observations.extend(on_host);
        Ok(result)
    }

    /// Has an agent at each of two sites run its arm of the trial, phase by phase in turns. Where neither is this machine, that is observed alongside.
    /// Of a trial that fails neither agent is kept.
    fn run_in_turns(
        &mut self,
        wanted: [Wanted<'c>; 2],
        spec: &TrialSpec,
        state: &mut State<'c>,
    ) -> Result<TrialResult, LinkError> {
        let mut agents = Vec::with_capacity(wanted.len());
        let mut specs = Vec::with_capacity(wanted.len());
        for (arm, own) in wanted.into_iter().enumerate() {
            let place = own.environment;
            let mut started = self.agents(own, state).map_err(|why| why.at(place))?;
            for agent in &mut started {
                let part = turns::part(spec, arm, place);
                specs.push(self.fit(&part, agent, place, state).map_err(|why| why.at(place))?);
            }
            agents.extend(started);
        }
        let elsewhere = spec.observe.as_ref().filter(|_| wanted.iter().all(|own| own.environment != NATIVE));
        if let Some(observe) = elsewhere {
            self.observe_host(observe, state);
        }
        let sides = agents.iter_mut().zip(specs).zip(wanted);
        let sides = sides.map(|((agent, spec), own)| Side { agent, spec, place: own.environment });
        let run = match <[Side<'_, 'c>; 2]>::try_from(sides.collect::<Vec<_>>()) {
            Ok(mut sides) => turns::run(&mut sides, spec, limit_of(spec), &mut |came| match came {
                Came::Loading(loading) => (self.watch)(&Event::Loading(loading)),
                Came::Phase { position, of } => (self.watch)(&Event::Phase { position, of }),
                // A trial of several sites is not taken up in its middle.
                Came::Progress { .. } => {}
            }),
            Err(sides) => Err(LinkError::OutOfTurn(format!("a trial in turns at {} sites", sides.len()))),
        };
        let on_host = elsewhere.map(|_| state.host_observer.end());
        let mut result = run?;
        for (arm, (own, agent)) in wanted.into_iter().zip(agents).enumerate() {
            let bytes = sites::memory_of(result.arms.get(arm..=arm).unwrap_or_default());
            state.sites.keep(self.plan, own, vec![agent], bytes);
        }
        result.observations.extend(on_host);
        Ok(result)
    }

    /// The trial as the agent at a site of `place` gets it.
    fn fit(
        &self,
        spec: &TrialSpec,
        agent: &mut AgentLink<'c>,
        place: &str,
        state: &mut State<'c>,
    ) -> Result<TrialSpec, LinkError> {
        let fitted = fitted(spec, agent, &mut state.peers, self.environments, self.interrupt)?;
        let kind = environments::kind_of(place, &self.plan.environments);
        if environments::can(kind).host_files { Ok(fitted) } else { carried(fitted, agent) }
    }

    /// Begins to observe this machine alongside a trial that runs elsewhere.
    fn observe_host(&self, observe: &ObserveSpec, state: &mut State<'c>) {
        let native = self.environments.get(NATIVE).map(|native| &**native);
        state.host_observer.begin(native, self.interrupt, observe);
    }

    /// The sites that a trial needs: of one environment, or one for each of two arms that take turns at different sites. On this machine all members
    /// run in one agent; elsewhere each has a site of its own.
    fn wanted(&self, spec: &TrialSpec, block: u64, cell: usize) -> Vec<Wanted<'c>> {
        let environments = self.plan.environments_of(self.plan.cells[cell]);
        let first = environments.first().copied();
        let one = |(index, environment): (usize, &'c str)| {
            let arm = spec.arms.get(index).and_then(|arm| arm.members.first()).map(|member| &member.arm);
            let of = arm.map_or(1, |arm| arm.parts.max(1));
            let of = if environment == NATIVE { 1 } else { of };
            let second = index > 0 && first == Some(environment);
            Wanted { environment, second, block, of, ranks: arm.map_or(1, |arm| arm.ranks) }
        };
        environments.into_iter().enumerate().map(one).collect()
    }

    /// Whether a trial counts, and what is kept of it; `None` when the user interrupted it.
    fn judge(&self, outcome: Result<TrialResult, LinkError>) -> Option<(TrialStatus, Option<TrialResult>)> {
        match outcome {
            Err(LinkError::Interrupted) => None,
            Err(why) => Some((TrialStatus::Failed { reason: why.to_string() }, None)),
            Ok(mut result) => {
                flag_lost_time(&mut result, self.plan);
                Some((trials::status_of(&result), Some(result)))
            }
        }
    }

    fn take(&mut self, state: &mut State, finished: Finished) -> Result<(), RunLogError> {
        self.log.trial(&finished)?;
        let Finished { block, cell, elapsed_ns, .. } = finished;
        let status = finished.status.clone();
        (self.watch)(&Event::TrialEnded { block, cell, status: status.clone(), elapsed_ns });
        state.spent += Duration::from_nanos(elapsed_ns);
        state.trials.push(finished);
        let Some(reason) = status.reason() else {
            state.setbacks[cell] = 0;
            return Ok(());
        };
        state.setbacks[cell] += 1;
        if state.setbacks[cell] >= PATIENCE {
            state.given_up[cell] = true;
            let arms = self.plan.arms_of(self.plan.cells[cell]);
            let names: Vec<String> = arms.iter().map(|&arm| label(&self.plan.arms[arm].treatment)).collect();
            let names = names.join(" and ");
            let text = format!("{names}: {PATIENCE} trials in a row did not count, and no more are run: {reason}");
            (self.watch)(&Event::Warning { text });
        }
        state.last_reason = reason;
        Ok(())
    }

    /// One interim analysis of the blocks that count: recorded whatever comes of it. It is decided by the blocks that fit the budget as they have lasted up to
    /// now, as what is done next is.
    fn look(&mut self, state: &mut State) -> Result<(), RunLogError> {
        let (rule, _) = self.rule(state, true);
        let asked = (0..self.plan.pairs.len()).filter(|&pair| self.plan.pairs[pair].asked);
        // A pair that was given up will never have a width.
        let given_up = state.given_up.contains(&true);
        let estimates: Vec<Option<Estimate>> = asked
            .map(|pair| Estimate::of(&trials::log_ratios(self.plan, &state.trials, pair)))
            .filter(|estimate| estimate.is_some() || !given_up)
            .collect();
        let blocks = trials::blocks_of(self.plan, &state.trials);
        let lost = self.lost_blocks(state, blocks);
        let now = u32::try_from(blocks.saturating_sub(lost)).unwrap_or(u32::MAX);
        let confidence = 1.0 - rate(self.plan.extensions.len());
        let analysis = Analysis::of(now, confidence, estimates.iter().map(Option::as_ref));
        state.looks.push(analysis);
        let (step, says) = match rule.next(&state.looks) {
            Step::Measure { until } => (Decision::Continue, format!("{} blocks", u64::from(until) + lost)),
            Step::Confirm { until } => (Decision::Confirm, format!("{} blocks", u64::from(until) + lost)),
            Step::Stop { reason } => (Decision::Stop, stop_words(reason, self.plan, blocks)),
        };
        let half_width = analysis.half_width;
        let row = LookRow {
            blocks,
            half_width: half_width.is_finite().then(|| half_width.exp_m1()),
            correlated: analysis.correlated,
            decision: format!("{} {says}", step.begins()),
            step: Some(step),
        };
        self.log.look(&row)?;
        (self.watch)(&Event::Looked(row));
        Ok(())
    }

    /// The stopping rule in blocks that count, and how many there may be of all: those that fit the budget as blocks have lasted so far, where that is to count.
    fn rule(&self, state: &State, within_budget: bool) -> (Rule, u64) {
        let design = &self.plan.design;
        let [least, most] =
            [design.least_blocks, design.most_blocks].map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX));
        let blocks = trials::blocks_of(self.plan, &state.trials);
        let affordable = match u32::try_from(blocks) {
            Ok(blocks) if within_budget && blocks > 0 && !state.spent.is_zero() => {
                let first = state.trials.iter().filter(|trial| trial.block == 0).map(|trial| trial.elapsed_ns).sum();
                let spent_s = (state.spent.as_secs_f64(), Duration::from_nanos(first).as_secs_f64());
                most.min(budget::fitting(design.budget.seconds(), blocks, spent_s))
            }
            _ => most,
        };
        // Without a ratio there is no width to reach: the smallest study gives every estimate its interval.
        let fixed = self.plan.mode.quick || !self.plan.pairs.iter().any(|pair| pair.asked);
        // A block more is measured for each that does not count, since fewer than the smallest study give no interval; of a fixed size at most twice as many.
        let most = if fixed { affordable.min(least.saturating_mul(2)) } else { affordable };
        let lost = u32::try_from(self.lost_blocks(state, blocks)).unwrap_or(u32::MAX);
        let counting = most.saturating_sub(lost);
        let smallest = least.min(counting);
        (Rule::new(design.precision.0, smallest, if fixed { smallest } else { counting }), u64::from(most))
    }

    /// How many of the first `blocks` blocks lack a value of what is compared, or of what is measured where nothing is compared; of what
    /// was not given up, the most.
    fn lost_blocks(&self, state: &State, blocks: u64) -> u64 {
        let works = |cell: usize| !state.given_up[cell];
        let counted = |cell: usize| {
            let of_cell = |trial: &&Finished| trial.cell == cell && trial.block < blocks && trial.counted().is_some();
            state.trials.iter().filter(of_cell).count()
        };
        let asked = (0..self.plan.pairs.len())
            .filter(|&pair| self.plan.pairs[pair].asked && trials::can_be_measured(self.plan, pair, works));
        let values = |pair: usize| trials::observations(self.plan, &state.trials, pair);
        let compared = asked.map(|pair| values(pair).iter().filter(|seen| seen.block() < blocks).count());
        let measured = (0..self.plan.cells.len()).filter(|&cell| works(cell)).map(counted);
        let fewest = compared.chain(measured).min().and_then(|fewest| u64::try_from(fewest).ok());
        blocks.saturating_sub(fewest.unwrap_or(blocks))
    }
}

impl Ending {
    /// The ending in words, as a run's stop reason.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Ending::Complete(words) => words.clone(),
            Ending::Interrupted => "interrupted by the user".to_owned(),
            Ending::Failed(reason) => format!("nothing could be measured: {reason}"),
            Ending::NothingToCompare(reason) => format!("nothing could be compared: {reason}"),
        }
    }
}

impl State<'_> {
    /// The repetitions that the first trial of `cell` that counts has found; all others of the cell have the same.
    fn reps(&self, cell: usize) -> Option<u64> {
        self.trials.iter().filter(|trial| trial.cell == cell).find_map(repetitions)
    }

    /// The memory that the last trial of `cell` had; `None` where none came to its end.
    fn memory_of(&self, cell: usize) -> Option<u64> {
        let ended = self.trials.iter().rev().find(|trial| trial.cell == cell && trial.result.is_some())?;
        ended.result.as_ref().map(|result| sites::memory_of(&result.arms))
    }

    /// The repetitions that the first trial of the same work in another cell has found. What they are here is measured: environments, executors and frames
    /// may differ.
    fn reps_like(&self, spec: &TrialSpec) -> Option<u64> {
        let work = WorkOf::trial(spec)?;
        let alike = |trial: &&Finished| WorkOf::trial(&trial.spec).is_some_and(|of| of == work);
        self.trials.iter().filter(alike).find_map(repetitions)
    }

    /// The quads of a trial where they are not those of the design. They are decided when the first block is over, and stay.
    fn quads(&mut self, plan: &Plan, block: u64, cell: usize) -> Option<u64> {
        if block == 0 {
            return None;
        }
        self.decided(plan).get(cell).copied().flatten()
    }

    fn decided(&mut self, plan: &Plan) -> &[Option<u64>] {
        self.quads.get_or_insert_with(|| spend::quads(plan, &self.trials))
    }

    /// What a trial of each cell takes with the quads that were decided, when the first block is over.
    fn times(&mut self, plan: &Plan) -> Vec<TrialTime> {
        let decided = self.decided(plan).to_vec();
        spend::times(plan, &self.trials, &decided)
    }

    /// What the budget is short of for the smallest study, when the first block is over.
    fn shortage(&mut self, plan: &Plan) -> Option<String> {
        let first = self.trials.iter().filter(|trial| trial.block == 0).map(|trial| trial.elapsed_ns).sum();
        let later = self.times(plan).iter().map(|time| time.expected).sum();
        let blocks = [Duration::from_nanos(first), later];
        budget::short_of(plan.design.budget, plan.design.least_blocks, blocks, spend::connected(plan).len() == 1)
    }

    /// The place of the next trial among all of the run.
    fn next_place(&self) -> u64 {
        self.trials.iter().map(|trial| trial.place + 1).max().unwrap_or(0)
    }

    /// Whether a trial is still to be run.
    fn lacks(&self, block: u64, cell: usize) -> bool {
        !self.given_up[cell] && !self.trials.iter().any(|trial| trial.block == block && trial.cell == cell)
    }

    /// Whether one more trial of `cell` would pass the budget, if it takes as long as all took so far, and if it takes as long as those of its cell.
    fn over_budget(&self, plan: &Plan, cell: usize) -> bool {
        let of = |trial: &Finished| (trial.block, trial.elapsed_ns);
        let all = budget::usual(self.trials.iter().map(of));
        let own = self.trials.iter().filter(|trial| trial.cell == cell).map(of);
        let next = if own.clone().next().is_some() { all.min(budget::usual(own)) } else { all };
        self.spent + next > Duration::from_nanos(plan.design.budget.0)
    }
}

/// The repetitions of a trial's phases, where it counts and has some.
fn repetitions(trial: &Finished) -> Option<u64> {
    trial.counted()?.series.first().filter(|phase| !phase.runs.is_empty()).map(|phase| phase.reps)
}

/// What a trial's first arm runs, by which its repetitions may be like those of another. All arms of a trial run as many.
#[derive(PartialEq)]
struct WorkOf<'s> {
    workload: &'s str,
    phase_ns: u64,
    ranks: usize,
    parts: usize,
    page: PageSize,
    parameters: &'s BTreeMap<String, ParameterValue>,
}

impl<'s> WorkOf<'s> {
    /// `None` where nothing is run.
    fn trial(spec: &'s TrialSpec) -> Option<WorkOf<'s>> {
        let ResolvedArm { executor, ranks, page, parts, parameters, .. } = &spec.arms.first()?.members.first()?.arm;
        (*executor != ExecutorKind::Null).then_some(WorkOf {
            workload: &spec.workload,
            phase_ns: spec.phase_ns,
            ranks: *ranks,
            parts: *parts,
            page: *page,
            parameters,
        })
    }
}

/// What was stored of a trial.
fn of_trial(progress: &[Progress], block: u64, cell: usize) -> Vec<(usize, Value)> {
    let own = progress.iter().filter(|one| (one.block, one.cell) == (block, cell));
    own.map(|one| (one.position, one.row.clone())).collect()
}

/// Adds to the phases in which nothing was run what talking about them takes.
fn floor(agent: &mut AgentLink<'_>, result: &mut TrialResult) -> Result<(), LinkError> {
    let empty: Vec<bool> = result.arms.iter().map(|arm| !arm.executor.runs_body).collect();
    if !empty.contains(&true) {
        return Ok(());
    }
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a round trip")]
    let value = agent.round_trip_ns()? as f64;
    for phase in result.series.iter_mut().filter(|phase| empty.get(phase.arm) == Some(&true)) {
        phase.samples.push(Sample::new(FRAME_ROUND_TRIP, value));
    }
    Ok(())
}

/// How long a trial may take before it is taken to hang.
fn limit_of(spec: &TrialSpec) -> Duration {
    Duration::from_nanos(spec.watchdog_ns.saturating_mul(4 + spec.schedule.len() as u64))
}

/// A trial is flagged when somebody else took the processor for so long, as seen before or after the phases, that one such
/// stand-still inside a phase would move it by half of the precision requested. Timer ticks are far shorter.
fn flag_lost_time(result: &mut TrialResult, plan: &Plan) {
    let phase = plan.arms.iter().map(|arm| arm.phase(&plan.design)).min().unwrap_or(plan.design.phase);
    let felt = phase.seconds() * plan.design.precision.0 / 2.0;
    for (when, lost) in [("before", result.lost_before), ("after", result.lost_after)] {
        if Nanos(lost.longest_ns).seconds() > felt {
            let text = format!("CPU contention {when} the phases: longer without a CPU than this precision tolerates");
            result.flags.push(text);
        }
    }
}

fn stop_words(reason: StopReason, plan: &Plan, blocks: u64) -> String {
    let design = &plan.design;
    let fixed = plan.mode.quick || !plan.pairs.iter().any(|pair| pair.asked);
    match reason {
        StopReason::Precision => format!("precision of {} reached and confirmed", design.precision),
        StopReason::Budget if blocks == 1 && (design.most_blocks == 1 || fixed && design.least_blocks == 1) => {
            "its only block is measured".to_owned()
        }
        StopReason::Budget if fixed && blocks > design.least_blocks => {
            let more = blocks - design.least_blocks;
            format!(
                "all {} blocks of the smallest study are measured, and {more} more for trials that do not count",
                design.least_blocks
            )
        }
        StopReason::Budget if fixed && blocks == design.least_blocks => {
            format!("all {} blocks of the smallest study are measured", design.least_blocks)
        }
        StopReason::Budget if blocks >= design.most_blocks => format!("all {} blocks are measured", design.most_blocks),
        StopReason::Budget => format!("budget of {} used up", design.budget),
    }
}

/// A stored analysis, of whose blocks so many did not count.
fn from_row(row: &LookRow, lost: u64) -> Analysis {
    Analysis {
        blocks: u32::try_from(row.blocks.saturating_sub(lost)).unwrap_or(u32::MAX),
        half_width: row.half_width.map_or(f64::INFINITY, f64::ln_1p),
        correlated: row.correlated,
    }
}
