//! Agents that serve more than one trial, where a study wants its places kept: for a block, or for the whole run.
//!
//! A fresh site for each trial is the rule, for a site's start is part of what varies. A guest that boots for a minute or a
//! job that waits in a queue may be worth keeping; an agent that has failed never is. An agent of this machine whose trial had much memory serves no
//! other, and ends when another trial needs as much. The sites of an ensemble start side by side, and none is left when one of them cannot.

use crate::link::{AgentLink, LinkError};
use crate::parallel_start::start_in_parallel;
use baremark_model::environments::{self, NATIVE};
use baremark_model::plan::Plan;
use baremark_model::site::{Environment, Portion, SiteError};
use baremark_model::value::Value;
use baremark_model::wire::{ArmRecord, MUCH_BYTES};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// How long one site serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fresh {
    Trial,
    Block,
    Run,
}

/// What the study says about the sites of one environment.
fn fresh(plan: &Plan, environment: &str) -> Fresh {
    match plan.environments.get(environment).and_then(|settings| settings.get(environments::FRESH.key)) {
        Some(Value::Choice(word)) if word == "block" => Fresh::Block,
        Some(Value::Choice(word)) if word == environments::WHOLE_RUN => Fresh::Run,
        _ => Fresh::Trial,
    }
}

/// The sites of one trial: where, how many among which the work is divided, and the ranks of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'e> {
    pub environment: &'e str,
    /// Whether it is the second of two sites of one environment that take turns.
    pub second: bool,
    pub block: u64,
    pub of: usize,
    pub ranks: usize,
}

/// Agents that are kept for a later trial.
struct Kept<'i> {
    /// The block that they last served.
    block: u64,
    ranks: usize,
    agents: Vec<AgentLink<'i>>,
}

/// An agent of this machine that has had its trial and holds the frames of its memory, so that no hypervisor takes them before another trial needs as many.
struct Holding<'i> {
    bytes: u64,
    #[expect(dead_code, reason = "held for its drop, which ends the agent")]
    agent: AgentLink<'i>,
}

/// The agents that are kept, by environment, and whether they are the second there.
#[derive(Default)]
pub(crate) struct Sites<'i> {
    kept: BTreeMap<(String, bool), Kept<'i>>,
    holding: Option<Holding<'i>>,
}

/// The memory of some arms of a trial.
pub(crate) fn memory_of(arms: &[ArmRecord]) -> u64 {
    arms.iter().map(|arm| arm.pages_after.resident_bytes).sum()
}

impl<'i> Sites<'i> {
    /// The agents that were kept for this, or new ones.
    pub(crate) fn take(
        &mut self,
        plan: &Plan,
        wanted: Wanted<'_>,
        environment: &dyn Environment,
        interrupt: &'i AtomicBool,
    ) -> Result<Vec<AgentLink<'i>>, LinkError> {
        // Those that served another block, or are of another shape, are gone before the next are started.
        if let Some(kept) = self.kept.remove(&(wanted.environment.to_owned(), wanted.second)) {
            let in_time = kept.block == wanted.block || fresh(plan, wanted.environment) == Fresh::Run;
            if in_time && (kept.agents.len(), kept.ranks) == (wanted.of, wanted.ranks) {
                return Ok(kept.agents);
            }
        }
        start_all(environment, wanted, interrupt)
    }

    /// Before a trial that needs so much memory, or nobody knows how much: frames that are held for one like it are free.
    pub(crate) fn make_room(&mut self, needed: Option<u64>) {
        self.holding.take_if(|holding| needed.is_none_or(|needed| needed >= holding.bytes / 2));
    }

    /// Keeps agents that have just run a trial well, in so much memory, if the study wants them kept, or the memory is much.
    pub(crate) fn keep(&mut self, plan: &Plan, wanted: Wanted<'_>, mut agents: Vec<AgentLink<'i>>, bytes: u64) {
        if fresh(plan, wanted.environment) != Fresh::Trial {
            let kept = Kept { block: wanted.block, ranks: wanted.ranks, agents };
            self.kept.insert((wanted.environment.to_owned(), wanted.second), kept);
        } else if wanted.environment == NATIVE && agents.len() == 1 && bytes >= MUCH_BYTES {
            let most = self.holding.as_ref().map_or(0, |holding| holding.bytes);
            if bytes > most {
                self.holding = agents.pop().map(|agent| Holding { bytes, agent });
            }
        }
    }
}

/// Starts all sites of a trial side by side.
fn start_all<'i>(
    environment: &dyn Environment,
    wanted: Wanted<'_>,
    interrupt: &'i AtomicBool,
) -> Result<Vec<AgentLink<'i>>, LinkError> {
    let sites = start_in_parallel(wanted.of, interrupt, |index, given_up| {
        start(environment, (wanted, index), (given_up, interrupt))
    });
    sites.map_err(|(index, why)| why.of_site(index, wanted.of))
}

/// Starts one of the sites, unless the first of the flags is set meanwhile.
fn start<'i>(
    environment: &dyn Environment,
    (wanted, index): (Wanted<'_>, usize),
    (given_up, interrupt): (&AtomicBool, &'i AtomicBool),
) -> Result<AgentLink<'i>, LinkError> {
    let Wanted { of, ranks, .. } = wanted;
    let own = environment.portion(Portion { index, of, ranks }).map_err(SiteError::from)?;
    AgentLink::start_unless(given_up, own.as_deref().unwrap_or(environment), interrupt)
}
