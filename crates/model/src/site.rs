//! The seam of environments: how an agent comes to be somewhere, and how it leaves.

use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;

/// Something that an environment needs and that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {remedy}")]
pub struct Missing {
    /// What is missing.
    pub what: String,
    /// What would help.
    pub remedy: String,
}

/// Why a site could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// Something is missing.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What it said.
        source: std::io::Error,
    },
    /// What was started did not become a site.
    #[error("{what}{}", last_words(log))]
    NotReady {
        /// What was expected of it, and for how long.
        what: String,
        /// The last lines that it wrote, oldest first.
        log: Vec<String>,
    },
    /// The user stopped the run while the site was being started.
    #[error("interrupted")]
    Interrupted,
}

fn last_words(log: &[String]) -> String {
    if log.is_empty() { String::new() } else { format!("; its last words:\n    {}", log.join("\n    ")) }
}

/// The two streams on which an agent speaks frames.
pub struct Link {
    /// From the agent.
    pub from_agent: Box<dyn Read + Send>,
    /// To the agent.
    pub to_agent: Box<dyn Write + Send>,
}

/// One place in which an agent runs. Dropping a site leaves nothing behind: no process, no memory, no mount.
pub trait Site {
    /// The agent's streams; they can be taken once.
    fn link(&mut self) -> Option<Link>;

    /// Ends the agent now, whatever it is doing, and waits until it is gone.
    fn kill(&mut self);

    /// The last lines that the agent wrote for people, oldest first.
    fn log(&self) -> Vec<String>;
}

/// Which of several sites that run at once, and what it has to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Portion {
    /// Its place among them, from 0.
    pub index: usize,
    /// How many there are; 1 is the common case.
    pub of: usize,
    /// The ranks that run at it.
    pub ranks: usize,
}

/// How agents come to be somewhere.
pub trait Environment {
    /// Its name in studies.
    fn name(&self) -> &'static str;

    /// Says cheaply whether it can be used here.
    ///
    /// # Errors
    /// What is missing, with the remedy.
    fn probe(&self) -> Result<(), Missing>;

    /// Whether its sites run on an emulated processor: they exercise the mechanics, and no ratio of theirs has a verdict.
    /// It may start a bounded test to find out, which `interrupt` ends early, so ask after [`Environment::probe`].
    fn emulated(&self, interrupt: &AtomicBool) -> bool {
        let _ = interrupt;
        false
    }

    /// The environment of one of several sites among which this one's CPUs and memory are divided; `None` for this one
    /// as it is.
    ///
    /// # Errors
    /// Why it cannot be divided so.
    fn portion(&self, portion: Portion) -> Result<Option<Box<dyn Environment>>, Missing> {
        if portion.of == 1 {
            return Ok(None);
        }
        let what = format!("several sites of {} cannot run in one trial", self.name());
        Err(Missing { what, remedy: "leave count out, or write count = 1".to_owned() })
    }

    /// Starts one site with one agent in it; given up as soon as `interrupt` is set.
    ///
    /// # Errors
    /// When something is missing or refused, or it was interrupted; nothing is left behind.
    fn start(&self, interrupt: &AtomicBool) -> Result<Box<dyn Site>, SiteError>;
}
