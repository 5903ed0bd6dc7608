//! The lab's journal over the store: runs as they are created, written, read back and named by users.

use crate::context::Context;
use crate::exit::Refusal;
use crate::source::Source;
use crate::watch::say;
use baremark_lab::analysis::Run;
use baremark_lab::conduct::{Ending, Journal};
use baremark_lab::tally::Finished;
use baremark_model::document::LookRow;
use baremark_model::machine::MachineFacts;
use baremark_model::plan::Plan;
use baremark_model::scale::Envelope;
use baremark_model::units::{Nanos, UnixTime};
use baremark_store::{LockError, RunId, RunLock, RunRecord, RunState, Store, StoreError, TrialEntry};
use baremark_sys::{clock, machine};
use std::hash::{BuildHasher, Hasher, RandomState};

/// A run that this process is writing; holds the run's lock.
pub struct Record<'s> {
    store: &'s Store,
    id: RunId,
    next_seq: u64,
    _lock: RunLock,
}

impl<'s> Record<'s> {
    /// Makes a new run and holds it.
    pub fn create(store: &'s Store, source: &Source, plan: &Plan) -> Result<Self, Refusal> {
        let started = now();
        let id = RunId::generate(started);
        let lock = store.lock(&id).map_err(Refusal::failure)?;
        let record = RunRecord {
            id: Some(id.clone()),
            study_file: source.name.clone(),
            study_text: String::from_utf8_lossy(&source.bytes).into_owned(),
            plan: seeded(plan),
            machine: machine::this(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started,
        };
        store.create_run(&record).map_err(Refusal::failure)?;
        Ok(Record { store, id, next_seq: 0, _lock: lock })
    }

    /// Takes up a run that nobody holds.
    pub fn take_up(store: &'s Store, id: RunId) -> Result<Self, Refusal> {
        let lock = store.lock(&id).map_err(|why| match why {
            LockError::Live { .. } => Refusal::bad_input(why),
            other => Refusal::failure(other),
        })?;
        let next_seq = store.load(&id).map_err(Refusal::failure)?.next_seq();
        Ok(Record { store, id, next_seq, _lock: lock })
    }

    /// The run's name.
    pub fn id(&self) -> RunId {
        self.id.clone()
    }

    /// The run as it is stored now.
    pub fn run(&self) -> Result<Run, Refusal> {
        load(self.store, &self.id)
    }

    /// What its sealed arms carry; `None` where it has none.
    pub fn envelope(&self) -> Result<Option<Envelope>, Refusal> {
        envelope_of(self.store, &self.id)
    }

    /// Writes down how the run ended; one that was interrupted or failed has not ended and can be resumed.
    pub fn close(&self, ending: &Ending) -> Result<(), Refusal> {
        match ending {
            Ending::Complete(reason) => self.store.finish(&self.id, now(), reason).map_err(Refusal::failure),
            Ending::Interrupted | Ending::Failed(_) => Ok(()),
        }
    }
}

impl Journal for Record<'_> {
    fn trial(&mut self, trial: &Finished) -> Result<(), String> {
        let entry = TrialEntry {
            block: trial.block,
            cell: trial.cell,
            // Not the trial's own place: a torn row, which is not read back, has one too.
            seq: self.next_seq,
            spec: &trial.spec,
            status: &trial.status,
            result: trial.result.as_ref(),
            started: UnixTime(clock::unix_time_ns().saturating_sub(trial.elapsed_ns)),
            elapsed: Nanos(trial.elapsed_ns),
        };
        self.store.add_trial(&self.id, &entry).map_err(|why| why.to_string())?;
        self.next_seq += 1;
        Ok(())
    }

    fn look(&mut self, look: &LookRow) -> Result<(), String> {
        self.store.add_look(&self.id, look).map_err(|why| why.to_string())
    }
}

/// The plan with a seed of its own where the study leaves it to the run.
fn seeded(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    if plan.design.seed == 0 {
        // The system's randomness; small enough to be typed as a whole number of TOML.
        plan.design.seed = (RandomState::new().build_hasher().finish() >> 16).max(1);
    }
    plan
}

fn now() -> UnixTime {
    UnixTime(clock::unix_time_ns())
}

/// A run as the analysis wants it. Trials whose rows are torn are named on standard error and left out.
pub fn load(store: &Store, id: &RunId) -> Result<Run, Refusal> {
    let stored = store.load(id).map_err(Refusal::failure)?;
    for torn in &stored.torn {
        say(format_args!("warning: trial {} of run {id} cannot be read and is left out: {}", torn.seq, torn.why));
    }
    let trials = stored.trials.into_iter().map(|trial| Finished {
        block: trial.block,
        cell: trial.cell,
        place: trial.seq,
        spec: trial.spec,
        status: trial.status,
        result: trial.result,
        elapsed_ns: trial.elapsed.0,
    });
    Ok(Run {
        id: stored.id.to_string(),
        file: stored.study_file,
        plan: stored.plan,
        machine: stored.machine,
        version: stored.version,
        started: stored.started,
        ended: stored.ended,
        stop_reason: stored.stop_reason,
        trials: trials.collect(),
        looks: stored.looks,
        imported: stored.imported,
    })
}

/// How the line of a study's text begins that holds the envelope: to a study's reader it is a comment.
const SEALED: &str = "# sealed until everything is found: ";

/// A study's text with an envelope.
pub fn seal(study: &[u8], envelope: &Envelope) -> Vec<u8> {
    [study, b"\n", SEALED.as_bytes(), envelope.to_string().as_bytes(), b"\n"].concat()
}

/// The envelope that was stored with a run's study; the analysis, which works from plan and trials, never sees it.
pub fn envelope_of(store: &Store, id: &RunId) -> Result<Option<Envelope>, Refusal> {
    let study = store.load_head(id).map_err(Refusal::failure)?.study_text;
    let sealed = study.lines().find_map(|line| line.strip_prefix(SEALED));
    sealed.map(str::parse).transpose().map_err(Refusal::failure)
}

/// Opens the store for reading; there must be one. A file that is not there, or is something else, was named wrongly.
pub fn open_existing(context: &Context) -> Result<Store, Refusal> {
    Store::open_read_only(context.store_path()?).map_err(|why| match why {
        StoreError::Missing(_) | StoreError::NotAStore { .. } => Refusal::bad_input(why),
        _ => Refusal::failure(why),
    })
}

/// The run that the user named, or the latest.
pub fn find(store: &Store, named: Option<&str>) -> Result<RunId, Refusal> {
    match named {
        Some(name) => store.resolve(name).map_err(Refusal::bad_input),
        None => match store.latest().map_err(Refusal::failure)? {
            Some(run) => Ok(run.id),
            None => Err(Refusal::bad_input("the store has no run yet; `baremark run STUDY` makes one")),
        },
    }
}

/// The run to go on with: the named one, or the latest that is not finished.
pub fn find_unfinished(store: &Store, named: Option<&str>) -> Result<RunId, Refusal> {
    let Some(name) = named else {
        return match store.latest_unfinished().map_err(Refusal::failure)? {
            Some(run) => Ok(run.id),
            None => Err(Refusal::bad_input("every run in the store is finished; there is nothing to resume")),
        };
    };
    let id = store.resolve(name).map_err(Refusal::bad_input)?;
    let runs = store.runs().map_err(Refusal::failure)?;
    match runs.iter().find(|run| run.id == id).map(|run| run.state) {
        Some(RunState::Finished) => {
            Err(Refusal::bad_input(format!("run {id} is finished; `baremark report {id}` shows it")))
        }
        _ => Ok(id),
    }
}

/// A machine in one line.
pub fn machine_line(facts: &MachineFacts) -> String {
    let name = facts.cpu.model_name.as_deref().unwrap_or("an unnamed processor");
    let cpus = facts.cpu.logical_cpus.map_or_else(String::new, |cpus| format!(", {cpus} CPUs"));
    let host = facts.hostname.as_deref().map_or_else(String::new, |host| format!(", {host}"));
    format!("{name}{cpus}{host}")
}
