//! What is examined when the comparison is over: runs of a program in a container or a sandbox and natively, whose system calls are counted.
//!
//! Counting makes each call slower, so that these runs are part of no ratio. They are as many as fit a tenth of the time that the comparison took. What cannot be
//! examined is named with its reason, and never fails the run.

use super::{Conductor, RunLogError, State, limit_of};
use crate::examined::CALLS;
use crate::link::{AgentLink, LinkError};
use crate::sites::Wanted;
use crate::{examined, schedule, trials, turns};
use baremark_model::command;
use baremark_model::environments;
use baremark_model::event::Event;
use baremark_model::plan::{Contrast, Pair, Plan};
use baremark_model::seam::Sample;
use baremark_model::second_look::{ExaminedPair, ExaminedSide, SecondLook, Unexamined};
use baremark_model::units::Nanos;
use baremark_model::value::Value;
use baremark_model::wire::{TrialResult, TrialSpec};
use baremark_stats::estimate::mean;
use baremark_stats::location;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why system calls are not counted, with the remedy where there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Uncounted(pub String);

/// Counts the system calls of a process's descendants.
pub trait CallCounter {
    /// Begins to look for the process that identifies itself by this argument of a system call; it is below 2^31.
    ///
    /// # Errors
    /// Why it cannot here, with the remedy where there is one.
    fn begin(&mut self, argument: u32) -> Result<(), Uncounted>;

    /// Has what the process that has identified itself starts from now on counted.
    ///
    /// # Errors
    /// That none has, or why it is not known; nothing is counted then.
    fn choose(&mut self) -> Result<(), Uncounted>;

    /// What was counted since then, by the call's number, and ends it.
    ///
    /// # Errors
    /// Why it is not known.
    fn end(&mut self) -> Result<BTreeMap<u32, u64>, Uncounted>;
}

/// Blocks of two sides.
const BLOCKS: u32 = 6;
/// Calls of which the cost of one is timed.
const TIMED: u64 = 200_000;
/// What is examined takes at most one part in so many of the time that the comparison took, or the least, and that at most one part in so many of the budget.
const PART: u32 = 10;
const LEAST_PART: u32 = 5;
/// Runs of a short program at a site, at most, and what all of them take about.
const MOST_RUNS: f64 = 8.0;
const RUNS_S: f64 = 0.2;

/// Sites that serve no block of the comparison serve this one, or one before it.
const NO_BLOCK: u64 = u64::MAX;

/// The words for all that is examined.
const ALL: &str = "the program";

/// The pairs whose numerator runs a program separated from this machine, on its kernel, and whose denominator runs it natively, compared by a time.
fn pairs(plan: &Plan) -> Vec<usize> {
    let separated = |arm: usize| environments::can(plan.arms[arm].place()).separates_programs();
    let native = |arm: usize| plan.arms[arm].environment == environments::NATIVE;
    let runs_program = |arm: usize| {
        let planned = &plan.arms[arm];
        !planned.emulated && planned.arm.parts <= 1 && plan.workload_of(arm) == command::KIND
    };
    let of = |pair: &Pair| {
        let Pair { numerator, denominator, contrast, asked, .. } = *pair;
        let both_run = runs_program(numerator) && runs_program(denominator);
        let by_time = [command::WALL.key, command::CPU.key].contains(&plan.metric_of(denominator));
        asked && contrast != Contrast::SelfCheck && both_run && by_time && native(denominator) && separated(numerator)
    };
    (0..plan.pairs.len()).filter(|&pair| of(&plan.pairs[pair])).collect()
}

/// Whether something else runs with a program, whose calls would be counted as the program's.
fn has_company(plan: &Plan, arm: usize) -> bool {
    command::of_arm(&plan.arms[arm].arm).is_some_and(|program| !program.prepare.is_empty() || program.beside.is_some())
}

/// So many runs of one arm of a trial alone, each whole, with nothing before them and nothing observed.
fn runs_of(trial: &TrialSpec, (arm, place): (usize, &str), runs: usize) -> TrialSpec {
    let mut spec = turns::part(trial, arm, place);
    spec.schedule = vec![0; runs];
    spec.observe = None;
    for member in Arc::make_mut(&mut spec.arms).iter_mut().flat_map(|arm| &mut arm.members) {
        if let Some(Value::Program(program)) = member.arm.parameters.get_mut(command::KIND) {
            (program.warmup, program.repeat) = (0, false);
        }
    }
    spec
}

impl<'c> Conductor<'c> {
    /// Examines the pairs for which that is possible, and stores what was found.
    pub(super) fn second_look(&mut self, state: &mut State<'c>) -> Result<(), RunLogError> {
        let plan = self.plan;
        // A difference without an interval is not split.
        let has_interval = |pair: &usize| trials::log_ratios(plan, &state.trials, *pair).len() >= location::SMALLEST;
        let pairs: Vec<usize> = pairs(plan).into_iter().filter(has_interval).collect();
        if pairs.is_empty() || self.calls.is_none() {
            return Ok(());
        }
        let least = match plan.mode.quick {
            true => Duration::ZERO,
            false => self.examine_least.min(Duration::from_nanos(plan.design.budget.0) / LEAST_PART),
        };
        let allowed = (state.spent / PART).max(least) / u32::try_from(pairs.len()).unwrap_or(u32::MAX);
        let mut found = SecondLook::default();
        for pair in pairs {
            match self.pair(pair, allowed, state) {
                Some(examined) => found.pairs.push(examined),
                // The comparison is complete: what is missing is what was examined of this pair and those after it.
                None => break,
            }
        }
        if found.pairs.is_empty() {
            return Ok(());
        }
        self.log.second_look(&found)
    }

    /// Examines one pair; `None` when the user interrupted it.
    fn pair(&mut self, pair: usize, allowed: Duration, state: &mut State<'c>) -> Option<ExaminedPair> {
        let Pair { numerator, denominator, .. } = self.plan.pairs[pair];
        let mut examined = ExaminedPair { pair, blocks: Vec::new(), absent: Vec::new() };
        if examined::uses_several_cpus(self.plan, &state.trials, pair) {
            // No part of the difference would be known.
            return Some(examined);
        }
        let arms = [denominator, numerator];
        let runs_s: f64 = arms.iter().filter_map(|&arm| runs(self.plan, state, arm)).map(|(count, s)| count * s).sum();
        // A program of minutes is not begun.
        let expected = Duration::try_from_secs_f64(runs_s).unwrap_or(Duration::MAX).saturating_mul(BLOCKS);
        if expected > allowed {
            lacks(&mut examined, ALL, too_long(expected, allowed));
            return Some(examined);
        }
        let treatments = arms.map(|arm| self.plan.arms[arm].treatment.clone()).to_vec();
        (self.watch)(&Event::Examining { treatments, most_ns: Nanos::from(allowed).0 });
        let begun = Instant::now();
        for block in 0..BLOCKS {
            let order = if block.is_multiple_of(2) { [0, 1] } else { [1, 0] };
            let mut sides = [None, None];
            for side in order {
                match self.side(arms[side], block, state) {
                    Ok((seen, uncounted)) => {
                        uncounted.into_iter().for_each(|Uncounted(why)| lacks(&mut examined, CALLS, why));
                        sides[side] = Some(seen);
                    }
                    Err(LinkError::Interrupted) => return None,
                    Err(why) => {
                        lacks(&mut examined, ALL, why.to_string());
                        return Some(examined);
                    }
                }
            }
            let [Some(below), Some(above)] = sides else { break };
            examined.blocks.push([below, above]);
            let spent = begun.elapsed();
            // Each block starts its sites anew, unless the study keeps them.
            let takes = spent * BLOCKS;
            if block == 0 && takes > allowed {
                examined.blocks.clear();
                lacks(&mut examined, ALL, too_long(takes, allowed));
                break;
            }
            if block + 1 < BLOCKS && spent > allowed {
                lacks(&mut examined, "some blocks", "the time allowed is over".to_owned());
                break;
            }
        }
        Some(examined)
    }

    /// Runs of one arm, and why their calls were not counted.
    fn side(
        &mut self,
        arm: usize,
        block: u32,
        state: &mut State<'c>,
    ) -> Result<(ExaminedSide, Option<Uncounted>), LinkError> {
        let plan = self.plan;
        let name = plan.arms[arm].environment.as_str();
        self.set_host(arm).map_err(LinkError::Host)?;
        let place = place(plan, arm);
        let (cell, at) = place.ok_or_else(|| LinkError::OutOfTurn("an arm of no trial".to_owned()))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to 8")]
        let runs = runs(plan, state, arm).map_or(1, |(count, _)| count as usize);
        let spec = runs_of(&schedule::trial(plan, 0, cell), (at, name), runs);
        let (block, ranks) = (NO_BLOCK - u64::from(block), plan.arms[arm].arm.ranks);
        let wanted = Wanted { environment: name, second: false, block, of: 1, ranks };
        let agent = self.agents(wanted, state)?.into_iter().next();
        let mut agent = agent.ok_or_else(|| LinkError::OutOfTurn(format!("no site of {name}")))?;
        let (call_ns, fault_ns) = agent.time_calls(TIMED)?;
        let spec = self.fit(&spec, &mut agent, name, state)?;
        let counting = if has_company(plan, arm) {
            let why = "the study prepares the program, or runs another alongside it: calls would be those of both";
            Err(Uncounted(why.to_owned()))
        } else {
            self.count(&mut agent)?
        };
        let ran = agent.run((&spec, Vec::new()), limit_of(&spec), &mut |_| {});
        // What was begun is ended, whatever became of the runs.
        let counted = match &mut self.calls {
            Some(calls) => counting.and_then(|()| calls.end()),
            None => Err(no_counter()),
        };
        let result = ran?;
        if let Some(why) = result.void.first() {
            return Err(LinkError::Refused { what: "a run".to_owned(), why: why.clone() });
        }
        let (calls, uncounted) = match counted {
            Ok(calls) => (Some(calls), None),
            Err(why) => (None, Some(why)),
        };
        let side = ExaminedSide {
            call_ns,
            fault_ns,
            runs: result.series.len() as u64,
            calls,
            page_faults: of_a_run(&result, command::PAGE_FAULTS.key),
            cpu_s: of_a_run(&result, command::CPU.key),
            throttled: result.disturbance.as_ref().and_then(|disturbance| disturbance.throttled),
        };
        state.sites.keep(plan, wanted, vec![agent], 0);
        Ok((side, uncounted))
    }

    /// Begins to count the calls of what the agent starts; the inner error is why that is not possible.
    fn count(&mut self, agent: &mut AgentLink<'c>) -> Result<Result<(), Uncounted>, LinkError> {
        let Some(calls) = &mut self.calls else { return Ok(Err(no_counter())) };
        // Drawn, so that nobody else's call has it, nor that of another lab's agent.
        let argument = (RandomState::new().build_hasher().finish() >> 33) as u32;
        if let Err(why) = calls.begin(argument) {
            return Ok(Err(why));
        }
        if let Err(why) = agent.identify(argument) {
            // What was begun is ended: it would go on for as long as this process lives.
            drop(calls.end());
            return Err(why);
        }
        Ok(calls.choose())
    }
}

/// Of a lab without a counter.
fn no_counter() -> Uncounted {
    Uncounted("no counter of system calls is available".to_owned())
}

/// Notes what was not examined, once.
fn lacks(examined: &mut ExaminedPair, what: &str, reason: String) {
    let missing = Unexamined { what: what.to_owned(), reason };
    if !examined.absent.contains(&missing) {
        examined.absent.push(missing);
    }
}

/// A cell in which an arm is measured, and its place there.
fn place(plan: &Plan, arm: usize) -> Option<(usize, usize)> {
    let of = |cell: usize| plan.arms_of(plan.cells[cell]).iter().position(|&of| of == arm);
    (0..plan.cells.len()).find_map(|cell| Some((cell, of(cell)?)))
}

/// How many runs of an arm are examined at once, a whole number, and what one took in the trials, in seconds; `None` where that is not known.
fn runs(plan: &Plan, state: &State<'_>, arm: usize) -> Option<(f64, f64)> {
    let (cell, at) = place(plan, arm)?;
    let of_cell = state.trials.iter().filter(|trial| trial.cell == cell);
    let walls: Vec<f64> = of_cell.filter_map(|trial| trial.value(at, command::WALL.key)).collect();
    let wall = mean(&walls).filter(|wall| *wall > 0.0)?;
    Some(((RUNS_S / wall).clamp(1.0, MOST_RUNS).floor(), wall))
}

/// Why a program is not examined that takes so long.
fn too_long(takes: Duration, allowed: Duration) -> String {
    // Rounded away from each other, so that they are never the same.
    let (takes, allowed) = (takes.as_secs_f64().ceil(), (10.0 * allowed.as_secs_f64()).floor() / 10.0);
    format!("it would take {takes} s, and {allowed} s are allowed for it; a longer comparison allows more")
}

/// The mean of a metric over the runs; `None` where one lacks it.
fn of_a_run(result: &TrialResult, metric: &str) -> Option<f64> {
    let of_phase =
        |samples: &[Sample]| samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value);
    let values: Option<Vec<f64>> = result.series.iter().map(|phase| of_phase(&phase.samples)).collect();
    mean(&values?)
}
