//! One program at a site of its own, from the site's start to the program's end, with its log, its account and its ports.
//!
//! Whoever attends holds the site: when the attendant ends, however that happens, the site ends, and the program with it.

use crate::link::{AgentLink, LinkError};
use baremark_model::site::Environment;
use baremark_model::spawned::{Spawn, Spawned};
use baremark_model::value::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often the program is asked about, and how often whoever waits looks up.
const PULSE: Duration = Duration::from_millis(250);
const GLANCE: Duration = Duration::from_millis(10);

/// An errand written down for a process of its own, which is its attendant. It holds no secrets: those go in files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Orders {
    /// The environment of the site.
    pub environment: String,
    /// Its settings, as in a study.
    pub settings: BTreeMap<String, Value>,
    /// Files, ports, grace.
    pub attended: Attended,
    /// The program.
    pub program: Spawn,
    /// Where the attendant writes how the program is doing, as [`Spawned`] in JSON.
    pub account: PathBuf,
}

/// What a program needs at its site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attended {
    /// Files of this machine that are put there before, by their names there.
    pub files: Vec<(String, PathBuf)>,
    /// Ports: what listens there on the first is reached here on the second.
    pub reach: Vec<(u16, u16)>,
    /// Ports: what listens here on the first is reached there on the second, or wherever the site says.
    pub offer: Vec<(u16, u16)>,
    /// How long the program may take to end when it is asked to, in ns.
    pub grace_ns: u64,
}

/// What becomes of it, for whoever watches.
#[derive(Clone, Debug)]
pub enum Account<'a> {
    /// A line that the program wrote.
    Line(&'a str),
    /// So many lines were written too fast to be passed on.
    Missed(u64),
    /// How it is doing.
    State(&'a Spawned),
}

/// Runs a program at a new site until it ends, is stopped, or whoever holds us is gone. Returns how it ended.
///
/// `stop` asks the program to end; `abandoned` ends everything at once.
///
/// # Errors
/// When the site cannot be had or is lost, with its last words.
pub fn attend(
    environment: &dyn Environment,
    asked: &Attended,
    program: &Spawn,
    (stop, abandoned): (&AtomicBool, &AtomicBool),
    watch: &mut dyn FnMut(Account<'_>),
) -> Result<Spawned, LinkError> {
    let mut agent = AgentLink::start(environment, abandoned)?;
    for &(here, there) in &asked.offer {
        agent.site().offer(here, there)?;
    }
    for &(there, here) in &asked.reach {
        agent.site().reach(there, here)?;
    }
    for (name, file) in &asked.files {
        agent.put_file(name, file)?;
    }
    let mut shown = 0;
    let mut state = agent.spawn(program)?;
    loop {
        show(&state, &mut shown, watch);
        if state.ended.is_some() {
            return Ok(state);
        }
        let until = Instant::now() + PULSE;
        while Instant::now() < until && !stop.load(Ordering::Relaxed) && !abandoned.load(Ordering::Relaxed) {
            // A site that is lost says so by its stream, before anything is asked of it.
            if let Some(word) = agent.heard()? {
                return Err(LinkError::OutOfTurn(format!("{word:?}")));
            }
            thread::sleep(GLANCE);
        }
        state = if stop.load(Ordering::Relaxed) {
            agent.stop(&program.name, Duration::from_nanos(asked.grace_ns))?
        } else {
            agent.tell(&program.name)?
        };
    }
}

/// Passes on the lines that are new.
fn show(state: &Spawned, shown: &mut u64, watch: &mut dyn FnMut(Account<'_>)) {
    let new = state.lines.saturating_sub(*shown);
    let there = usize::try_from(new).unwrap_or(usize::MAX).min(state.log.len());
    let missed = new - there as u64;
    if missed > 0 {
        watch(Account::Missed(missed));
    }
    for line in &state.log[state.log.len() - there..] {
        watch(Account::Line(line));
    }
    *shown = state.lines;
    watch(Account::State(state));
}
