//! Agents that serve more than one trial, where a study wants its places kept: for a block, or for the whole run.
//!
//! A fresh site for each trial is the rule, for a site's start is part of what varies. A guest that boots for a minute or a
//! job that waits in a queue may be worth keeping; an agent that has failed never is. The sites of an ensemble start side by
//! side, and none is left when one of them cannot.

use crate::link::{AgentLink, LinkError};
use baremark_model::descriptor::Value;
use baremark_model::plan::Plan;
use baremark_model::site::{Environment, Portion, SiteError};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How often it is looked whether sites are there.
const GLANCE: Duration = Duration::from_millis(2);

/// How long one site serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fresh {
    Trial,
    Block,
    Run,
}

/// What the study says about the sites of one environment.
fn fresh(plan: &Plan, environment: &str) -> Fresh {
    match plan.environments.get(environment).and_then(|settings| settings.get("fresh")) {
        Some(Value::Choice(word)) if word == "block" => Fresh::Block,
        Some(Value::Choice(word)) if word == "run" => Fresh::Run,
        _ => Fresh::Trial,
    }
}

/// The sites of one trial: where, how many among which the work is divided, and the ranks of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'e> {
    pub environment: &'e str,
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

/// The agents that are kept, by environment.
#[derive(Default)]
pub(crate) struct Sites<'i> {
    kept: BTreeMap<String, Kept<'i>>,
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
        if let Some(kept) = self.kept.remove(wanted.environment) {
            let in_time = kept.block == wanted.block || fresh(plan, wanted.environment) == Fresh::Run;
            if in_time && (kept.agents.len(), kept.ranks) == (wanted.of, wanted.ranks) {
                return Ok(kept.agents);
            }
        }
        start_all(environment, wanted, interrupt)
    }

    /// Keeps agents that have just run a trial well, if the study wants them kept.
    pub(crate) fn keep(&mut self, plan: &Plan, wanted: Wanted<'_>, agents: Vec<AgentLink<'i>>) {
        if fresh(plan, wanted.environment) != Fresh::Trial {
            let kept = Kept { block: wanted.block, ranks: wanted.ranks, agents };
            self.kept.insert(wanted.environment.to_owned(), kept);
        }
    }
}

/// Starts all sites of a trial, as many at a time as this machine has CPUs: each then takes about as long as it would alone.
/// When one cannot be started the others are given up.
fn start_all<'i>(
    environment: &dyn Environment,
    wanted: Wanted<'_>,
    interrupt: &'i AtomicBool,
) -> Result<Vec<AgentLink<'i>>, LinkError> {
    if wanted.of == 1 {
        return Ok(vec![start(environment, (wanted, 0), (interrupt, interrupt))?]);
    }
    let (next, given_up) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        let mut started = Vec::new();
        while !given_up.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= wanted.of {
                break;
            }
            let site = start(environment, (wanted, index), (&given_up, interrupt));
            given_up.fetch_or(site.is_err(), Ordering::Relaxed);
            started.push((index, site));
        }
        started
    };
    let at_a_time = thread::available_parallelism().map_or(1, NonZero::get).max(2).min(wanted.of);
    let mut sites = thread::scope(|scope| {
        let workers: Vec<_> = (0..at_a_time).map(|_| scope.spawn(work)).collect();
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            given_up.fetch_or(interrupt.load(Ordering::Relaxed), Ordering::Relaxed);
            thread::sleep(GLANCE);
        }
        let ended =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|why| std::panic::resume_unwind(why)));
        ended.flatten().collect::<Vec<_>>()
    });
    sites.sort_by_key(|(index, _)| *index);
    // Those that were given up because of another say only that.
    let cause = sites.iter().position(|(_, site)| !matches!(site, Ok(_) | Err(LinkError::Interrupted)));
    if let Some((_, Err(why))) = cause.map(|cause| sites.swap_remove(cause)) {
        return Err(why);
    }
    if sites.len() < wanted.of {
        return Err(LinkError::Interrupted);
    }
    sites.into_iter().map(|(_, site)| site).collect()
}

/// Starts one of the sites, unless the first of the flags is set meanwhile.
fn start<'i>(
    environment: &dyn Environment,
    (wanted, index): (Wanted<'_>, usize),
    (given_up, interrupt): (&AtomicBool, &'i AtomicBool),
) -> Result<AgentLink<'i>, LinkError> {
    let Wanted { of, ranks, .. } = wanted;
    let portion = environment.portion(Portion { index, of, ranks }).map_err(SiteError::from);
    let own = portion.map_err(|why| LinkError::from(why).of_site(index, of))?;
    let own = own.as_deref().unwrap_or(environment);
    AgentLink::start_unless(given_up, own, interrupt).map_err(|why| why.of_site(index, of))
}
