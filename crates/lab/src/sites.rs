//! Agents that serve more than one trial, where a study wants its places kept: for a block, or for the whole run.
//!
//! A fresh site for each trial is the rule, for a site's start is part of what varies. A guest that boots for a minute or a
//! job that waits in a queue may be worth keeping; an agent that has failed never is.

use crate::link::{AgentLink, LinkError};
use baremark_model::descriptor::Value;
use baremark_model::plan::Plan;
use std::collections::BTreeMap;

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

/// The agents that are kept, by environment, with the block that they last served.
#[derive(Default)]
pub(crate) struct Sites<'i> {
    kept: BTreeMap<String, (u64, AgentLink<'i>)>,
}

impl<'i> Sites<'i> {
    /// The agent that was kept for this, or a new one.
    pub(crate) fn take(
        &mut self,
        plan: &Plan,
        (environment, block): (&str, u64),
        start: impl FnOnce() -> Result<AgentLink<'i>, LinkError>,
    ) -> Result<AgentLink<'i>, LinkError> {
        match self.kept.remove(environment) {
            Some((last, agent)) if last == block || fresh(plan, environment) == Fresh::Run => Ok(agent),
            // One that served another block is gone before the next is started.
            kept => {
                drop(kept);
                start()
            }
        }
    }

    /// Keeps an agent that has just run a trial well, if the study wants it kept.
    pub(crate) fn keep(&mut self, plan: &Plan, (environment, block): (&str, u64), agent: AgentLink<'i>) {
        if fresh(plan, environment) != Fresh::Trial {
            self.kept.insert(environment.to_owned(), (block, agent));
        }
    }
}
