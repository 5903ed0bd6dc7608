//! The lab's own machine, observed while arms run elsewhere: what a guest cannot see of its host.
//!
//! An agent of this machine does it, over the same frames as any other. It never fails a trial: when it is lost, the
//! trial's record says so, and the next trial starts another.

use crate::link::{AgentLink, LinkError};
use baremark_model::observation::{Observation, THIS_MACHINE};
use baremark_model::observer::{Absence, ObserveSpec};
use baremark_model::site::Environment;
use baremark_sys::wall::unix_time_ns;
use std::sync::atomic::AtomicBool;

/// The observer of the lab's own machine.
#[derive(Default)]
pub(crate) struct HostObserver<'i> {
    agent: Option<AgentLink<'i>>,
    lost: Option<String>,
}

impl<'i> HostObserver<'i> {
    /// Begins; a failure is told by [`HostObserver::end`].
    pub(crate) fn begin(&mut self, native: Option<&dyn Environment>, interrupt: &'i AtomicBool, spec: &ObserveSpec) {
        self.lost = None;
        if let Err(why) = self.try_begin(native, interrupt, spec) {
            (self.agent, self.lost) = (None, Some(why.to_string()));
        }
    }

    fn try_begin(
        &mut self,
        native: Option<&dyn Environment>,
        interrupt: &'i AtomicBool,
        spec: &ObserveSpec,
    ) -> Result<(), LinkError> {
        let agent = match &mut self.agent {
            Some(agent) => agent,
            none => {
                let native = native.ok_or_else(|| LinkError::OutOfTurn("no environment 'native'".to_owned()))?;
                none.insert(AgentLink::start(native, interrupt)?)
            }
        };
        agent.observe(spec)
    }

    /// Ends, and reports what was observed, or why nothing was.
    pub(crate) fn end(&mut self) -> Observation {
        let observed = match (&mut self.agent, self.lost.take()) {
            (Some(agent), None) => agent.end_observation().map_err(|why| why.to_string()),
            (_, Some(why)) => Err(why),
            (None, None) => Err("it was not begun".to_owned()),
        };
        observed.map(|observation| placed(observation, THIS_MACHINE)).unwrap_or_else(|why| {
            self.agent = None;
            let absent = vec![Absence::new("all", format!("the agent that observes the lab's own machine: {why}"))];
            placed(Observation { absent, ..Observation::default() }, THIS_MACHINE)
        })
    }
}

/// An observation that ended just now, with its place and its beginning by the lab's clock.
#[must_use]
pub fn placed(observation: Observation, place: &str) -> Observation {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a trial lasts less than 500 years")]
    let lasted = (observation.seconds.max(0.0) * 1e9) as u64;
    let began_unix_ns = unix_time_ns().saturating_sub(lasted);
    Observation { place: place.to_owned(), began_unix_ns, ..observation }
}
