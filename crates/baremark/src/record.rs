//! The lab's journal over the store: runs as they are created, written, read back and named by users.

use crate::bundled;
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::source::Source;
use crate::watch::say;
use baremark_lab::analysis::Run;
use baremark_lab::conduct::{Ending, Progress, RunLog, RunLogError};
use baremark_lab::trials::{Finished, complete_blocks};
use baremark_model::codes::Origin;
use baremark_model::document::LookRow;
use baremark_model::event::TrialStatus;
use baremark_model::machine::MachineFacts;
use baremark_model::plan::Plan;
use baremark_model::scale::InjectedCosts;
use baremark_model::second_look::SecondLook;
use baremark_model::units::{Nanos, UnixTime};
use baremark_model::wire::TrialResult;
use baremark_store::{
    LockError, RunId, RunLock, RunRecord, RunState, RunSummary, Store, StoreError, StoredRun, TrialEntry, Turn,
};
use baremark_sys::{machine, point, wall};
use serde::Deserialize as _;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Whether a run of `baremark load` can be continued: what its command line says is all stored.
fn is_resumable(store: &Store, id: &RunId) -> bool {
    let Ok(StoredRun { plan, .. }) = store.load_head(id) else { return false };
    plan.search.map_or(plan.load.is_some(), |request| request.complete)
}

/// A run that this process is writing; holds the run's lock.
pub struct Record<'s> {
    store: &'s Store,
    id: RunId,
    next_seq: u64,
    cells: usize,
    /// Block, cell, and whether it counts, of every trial.
    trials: Vec<(u64, usize, bool)>,
    /// What an earlier process stored of trials that it did not finish.
    progress: Vec<Progress>,
    others: Others,
    /// What is another than when the run began: every trial from here on is flagged with it.
    changed: Option<String>,
    _lock: RunLock,
}

/// How often a run that waits checks whether the others have ended: a lock notifies nobody when it is released.
const WAIT_INTERVAL: Duration = Duration::from_millis(200);

/// Sees to it that a new run does not measure alongside others of its store unnoticed: warns, or with `--wait` waits for their end.
/// The turn is to be kept until the new run holds its lock.
pub fn turn(context: &Context, store: &Store) -> Result<Option<Turn>, Refusal> {
    let live = store.live();
    if live.is_empty() && !context.wait {
        return Ok(None);
    }
    if !context.wait {
        let names = names(&live);
        say(format_args!(
            "warning: {names} on this machine now: each disturbs the other, and trials are flagged; --wait waits for its end"
        ));
        return Ok(None);
    }
    let mut told = false;
    let mut turn = None;
    loop {
        turn = turn.or(store.turn().map_err(Refusal::failure)?);
        let live = store.live();
        if turn.is_some() && live.is_empty() {
            return Ok(turn);
        }
        if !told && !live.is_empty() {
            say(format_args!("waiting: {} on this machine now", names(&live)));
            told = true;
        }
        if context.interrupt.load(Ordering::Relaxed) {
            let message = "interrupted while waiting for another run; nothing was measured".to_owned();
            return Err(Refusal { exit: Exit::Interrupted, message });
        }
        std::thread::sleep(WAIT_INTERVAL);
    }
}

/// "run A measures", "runs A and B measure".
fn names(live: &BTreeSet<String>) -> String {
    let names: Vec<&str> = live.iter().map(String::as_str).collect();
    match names.as_slice() {
        [one] => format!("run {one} measures"),
        several => format!("runs {} measure", several.join(" and ")),
    }
}

impl<'s> Record<'s> {
    /// Makes a new run in its turn, and holds it.
    pub fn create(context: &Context, store: &'s Store, source: &Source, plan: &Plan) -> Result<Self, Refusal> {
        let _turn = turn(context, store)?;
        let (id, lock) = begin(store, source, plan)?;
        let others = Others::of(store, &id);
        let (cells, trials, progress) = (plan.cells.len(), Vec::new(), Vec::new());
        point::reached("run-created");
        Ok(Record { store, id, next_seq: 0, cells, trials, progress, others, changed: None, _lock: lock })
    }

    /// Takes up a run that this process holds.
    pub fn resume(store: &'s Store, lock: RunLock, stored: StoredRun) -> Result<Self, Refusal> {
        let id = stored.id.clone();
        store.reopen(&id).map_err(Refusal::failure)?;
        let last = stored.trials.iter().map(|trial| trial.started.0.saturating_add(trial.elapsed.0)).max();
        wall::follow(last.unwrap_or(stored.started.0));
        let trials = stored.trials.iter().map(|trial| (trial.block, trial.cell, trial.status == TrialStatus::Ok));
        let (next_seq, cells, trials) = (stored.next_seq(), stored.plan.cells.len(), trials.collect());
        let others = Others::of(store, &id);
        // Rows of a load are of another form, and no trial's.
        let progress = stored.progress.iter().filter_map(|row| Progress::deserialize(row).ok()).collect();
        let began = (&stored.machine, stored.version.as_str());
        let changed = changed(began, (&machine::at_once(), env!("CARGO_PKG_VERSION")));
        changed.iter().for_each(|what| say(format_args!("warning: {what}: trials from now on are flagged with it")));
        Ok(Record { store, id, next_seq, cells, trials, progress, others, changed, _lock: lock })
    }

    /// What was stored of trials that were not finished.
    pub fn progress(&self) -> Vec<Progress> {
        self.progress.clone()
    }

    /// The run as it is stored now.
    pub fn run(&self) -> Result<Run, Refusal> {
        load(self.store, &self.id)
    }

    /// What its blinded arms carry; `None` where it has none.
    pub fn injected(&self) -> Result<Option<InjectedCosts>, Refusal> {
        injected_costs_of(self.store, &self.id)
    }

    /// Writes what is reported while a trial is under way.
    pub fn add_progress(&self, row: &serde_json::Value) -> Result<(), RunLogError> {
        self.store.add_progress(&self.id, row).map_err(unwritten)?;
        point::reached("progress-stored");
        Ok(())
    }

    /// The result of a trial that has just ended with the flags that are known here; `None` where there are none.
    fn flagged(&mut self, result: &TrialResult) -> Option<TrialResult> {
        let flagged = self.others.flagged(self.store, &self.id, result);
        let Some(changed) = &self.changed else { return flagged };
        let mut result = flagged.unwrap_or_else(|| result.clone());
        result.flags.push(changed.clone());
        Some(result)
    }

    /// Writes down how the run ended; one that was interrupted or failed can be resumed.
    pub fn close(&self, ending: &Ending) -> Result<(), Refusal> {
        let (id, words) = (&self.id, ending.words());
        point::reached("run-ends");
        let written = match ending {
            Ending::Complete(_) => self.store.finish(id, now(), &words),
            Ending::Interrupted => self.store.interrupt(id, &words),
            Ending::Failed(_) | Ending::NothingToCompare(_) => self.store.fail_run(id, now(), &words),
        };
        written.map_err(Refusal::failure)
    }
}

impl RunLog for Record<'_> {
    fn trial(&mut self, trial: &Finished) -> Result<(), RunLogError> {
        point::reached("trial-ended");
        self.trials.push((trial.block, trial.cell, trial.status == TrialStatus::Ok));
        let flagged = trial.result.as_ref().and_then(|result| self.flagged(result));
        let entry = TrialEntry {
            block: trial.block,
            cell: trial.cell,
            seq: self.next_seq,
            spec: &trial.spec,
            status: &trial.status,
            result: flagged.as_ref().or(trial.result.as_ref()),
            started: UnixTime(wall::unix_time_ns().saturating_sub(trial.elapsed_ns)),
            elapsed: Nanos(trial.elapsed_ns),
            blocks_complete: complete_blocks(self.cells, self.trials.iter().copied()),
        };
        self.store.add_trial(&self.id, &entry).map_err(unwritten)?;
        self.next_seq += 1;
        point::reached("trial-stored");
        Ok(())
    }

    fn progress(&mut self, progress: &Progress) -> Result<(), RunLogError> {
        self.add_progress(&serde_json::to_value(progress).map_err(unwritten)?)
    }

    fn look(&mut self, look: &LookRow) -> Result<(), RunLogError> {
        self.store.add_look(&self.id, look).map_err(unwritten)?;
        point::reached("analysis-stored");
        Ok(())
    }

    fn second_look(&mut self, found: &SecondLook) -> Result<(), RunLogError> {
        self.store.set_examined(&self.id, found).map_err(unwritten)
    }
}

/// Why something could not be written down.
pub fn unwritten(why: impl ToString) -> RunLogError {
    RunLogError(why.to_string())
}

/// The other runs that were live when the last trial of a run ended.
struct Others(BTreeSet<String>);

impl Others {
    /// Those that are live now.
    fn of(store: &Store, own: &RunId) -> Others {
        let mut live = store.live();
        live.remove(own.as_str());
        Others(live)
    }

    /// The result of a trial that has just ended, flagged for each run that measured before or after it; `None` where there is nothing to flag.
    fn flagged(&mut self, store: &Store, own: &RunId, result: &TrialResult) -> Option<TrialResult> {
        let before = std::mem::replace(self, Others::of(store, own));
        if self.0.is_empty() && before.0.is_empty() {
            return None;
        }
        let mut result = result.clone();
        let all = before.0.union(&self.0);
        result.flags.extend(all.map(|other| format!("run {other} measured on this machine at the same time")));
        Some(result)
    }
}

/// Locks a run that is to be continued. Before anything of it is read: documents of another format may not be readable.
pub fn hold(store: &Store, id: &RunId) -> Result<RunLock, Refusal> {
    let lock = store.lock(id).map_err(|why| match why {
        LockError::Live { .. } => Refusal::bad_input(why),
        other => Refusal::failure(other),
    })?;
    store.may_be_resumed(id).map_err(|why| match why {
        StoreError::Format { .. } => Refusal::bad_input(why),
        other => Refusal::failure(other),
    })?;
    Ok(lock)
}

/// Makes a new run; its name and its lock. It is the latest one of the store, even where the clock was set back since the last.
fn begin(store: &Store, source: &Source, plan: &Plan) -> Result<(RunId, RunLock), Refusal> {
    // Of a list that is damaged the rest is enough.
    let runs = store.list().map_or_else(|_| Vec::new(), |list| list.runs);
    let measured = runs.iter().filter(|run| Origin::of(&run.study_file).import().is_none());
    measured.for_each(|run| wall::follow(run.ended.unwrap_or(run.started).0));
    begin_elsewhere(store, source, plan, machine::this(), now())
}

/// Makes a run that began at `started` on another machine.
pub fn begin_elsewhere(
    store: &Store,
    source: &Source,
    plan: &Plan,
    machine: MachineFacts,
    started: UnixTime,
) -> Result<(RunId, RunLock), Refusal> {
    let record = RunRecord {
        id: None,
        study_file: source.stored_name(),
        study_text: String::from_utf8_lossy(&source.bytes).into_owned(),
        plan: seeded(plan),
        machine,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started,
    };
    store.begin_run(&record).map_err(Refusal::failure)
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
    UnixTime(wall::unix_time_ns())
}

/// A run as the analysis wants it; one of which anything is damaged is refused.
pub fn load(store: &Store, id: &RunId) -> Result<Run, Refusal> {
    let remedy = format!("; `baremark report {id} --without-damaged` shows the remaining trials");
    let stored = store.load_intact(id).map_err(|why| match why {
        StoreError::Damaged { .. } => Refusal::failure(format!("{why}{remedy}")),
        other => Refusal::failure(other),
    })?;
    Ok(of_stored(stored))
}

/// The same without what is damaged, which is named in the run's flags.
pub fn load_without_damaged(store: &Store, id: &RunId) -> Result<Run, Refusal> {
    store.load(id).map(of_stored).map_err(Refusal::failure)
}

fn of_stored(stored: StoredRun) -> Run {
    let damaged = stored.all_damage().into_iter();
    let mut notes: Vec<(String, usize)> =
        damaged.map(|(what, why)| (format!("excluded because it is damaged: {what}: {why}"), 0)).collect();
    if stored.unverified > 0 {
        let text = "stored by a version without checksums: damage to them would not be noticed".to_owned();
        notes.push((text, usize::try_from(stored.unverified).unwrap_or(usize::MAX)));
    }
    let (head, trials) = bundled::parts(stored, true);
    let run = bundled::run_of(head, trials);
    // An analysis never sees what the labels of blinded arms represent.
    Run { plan: Plan { injected: None, ..run.plan }, notes, ..run }
}

/// What the labels of a run's blinded arms represent; `None` where it has none.
pub fn injected_costs_of(store: &Store, id: &RunId) -> Result<Option<InjectedCosts>, Refusal> {
    Ok(store.load_head(id).map_err(Refusal::failure)?.plan.injected)
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

/// The run to continue with: the named one, or the latest that is not finished. A load goes to servers, which have to be meant: it is continued by its
/// name alone.
pub fn find_unfinished(store: &Store, named: Option<&str>) -> Result<RunId, Refusal> {
    let Some(name) = named else {
        let runs = store.runs().map_err(Refusal::failure)?;
        let unfinished = runs.iter().filter(|run| run.state.can_be_resumed());
        let (loads, others): (Vec<&RunSummary>, Vec<&RunSummary>) =
            unfinished.partition(|run| Origin::of(&run.study_file) == Origin::Load);
        let of_study = |run: &&&RunSummary| !matches!(Origin::of(&run.study_file), Origin::Import(_));
        if let Some(run) = others.iter().find(of_study) {
            return Ok(run.id.clone());
        }
        if let Some(RunSummary { id, .. }) = loads.iter().find(|run| is_resumable(store, &run.id)) {
            return Err(Refusal::bad_input(format!(
                "no study is unfinished, and loads are resumed by name alone, for they go to servers; `baremark resume {id}` continues one"
            )));
        }
        return Err(Refusal::bad_input(match store.live() {
            live if live.is_empty() => "every run in the store is finished; there is nothing to resume".to_owned(),
            live => format!("nothing to resume: {} now, and every other run is finished", names(&live)),
        }));
    };
    let id = store.resolve(name).map_err(Refusal::bad_input)?;
    let runs = store.runs().map_err(Refusal::failure)?;
    let run = runs.iter().find(|run| run.id == id);
    match run.map(|run| run.state) {
        Some(RunState::Finished) => {
            Err(Refusal::bad_input(format!("run {id} is finished; `baremark report {id}` shows it")))
        }
        _ if run.is_some_and(|run| matches!(Origin::of(&run.study_file), Origin::Import(_))) => {
            Err(Refusal::bad_input(format!("run {id} was imported and cannot be resumed; import its file again")))
        }
        _ if run.is_some_and(|run| Origin::of(&run.study_file) == Origin::Load) && !is_resumable(store, &id) => {
            Err(Refusal::bad_input(format!(
                "run {id} was made by `{}`, of which headers, the URL's query and fragment, and sites are not stored, and cannot be resumed; \
                 run the load again",
                Origin::LOAD
            )))
        }
        _ => Ok(id),
    }
}

/// Refuses to continue a run that was begun on another machine.
pub fn same_machine(stored: &StoredRun) -> Result<(), Refusal> {
    if machine::at_once().fingerprint() == stored.machine.fingerprint() {
        return Ok(());
    }
    Err(Refusal::bad_input(format!(
        "run {} was begun on another machine ({}); trials of two machines are not one run",
        stored.id,
        machine_line(&stored.machine)
    )))
}

/// What of machine and program is another now than when a run began, of which its report has the first alone; `None` where nothing is. What a study may change
/// itself, such as large pages, is not looked at.
fn changed((before, began_by): (&MachineFacts, &str), (now, program): (&MachineFacts, &str)) -> Option<String> {
    let other = |what: &str, before: &str, now: &str| (before != now).then(|| format!("{what} {before}, now {now}"));
    let releases = before.kernel.release.as_deref().zip(now.kernel.release.as_deref());
    let microcodes = before.cpu.microcode.as_deref().zip(now.cpu.microcode.as_deref());
    let [known, mitigations] = [&before.kernel.mitigations, &now.kernel.mitigations];
    let found = [
        releases.and_then(|(before, now)| other("Linux", before, now)),
        microcodes.and_then(|(before, now)| other("microcode", before, now)),
        (!known.is_empty() && known != mitigations).then(|| "other mitigations".to_owned()),
        other("baremark", began_by, program),
    ];
    let found: Vec<String> = found.into_iter().flatten().collect();
    (!found.is_empty()).then(|| format!("changed since the run began: {}", found.join("; ")))
}

/// A machine in one line.
pub fn machine_line(facts: &MachineFacts) -> String {
    let name = facts.cpu.model_name.as_deref().unwrap_or("an unnamed processor");
    let cpus = facts.cpu.logical_cpus.map_or_else(String::new, |cpus| format!(", {cpus} CPUs"));
    let host = facts.hostname.as_deref().map_or_else(String::new, |host| format!(", {host}"));
    format!("{name}{cpus}{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that was extended after an update of the kernel had trials under both, and its report and `compare` named the first alone.
    #[test]
    fn trials_after_an_update_are_flagged() {
        let under = |release: &str, mitigation: &str| {
            let mut facts = MachineFacts::default();
            facts.kernel.release = Some(release.to_owned());
            facts.cpu.microcode = Some(format!("of {release}"));
            facts.kernel.mitigations.insert("meltdown".to_owned(), mitigation.to_owned());
            facts
        };
        let before = under("6.8.0", "Mitigation: PTI");
        let of = |now: &MachineFacts, program: &str| changed((&before, "0.9.0"), (now, program));
        assert_eq!(of(&before, "0.9.0"), None);
        let after = under("6.11.0", "Vulnerable");
        assert_eq!(
            of(&after, "0.9.1").as_deref(),
            Some(
                "changed since the run began: Linux 6.8.0, now 6.11.0; microcode of 6.8.0, now of 6.11.0; other mitigations; \
                 baremark 0.9.0, now 0.9.1"
            )
        );
        assert_eq!(changed((&MachineFacts::default(), "0.9.0"), (&after, "0.9.0")), None, "nothing is known of before");
    }
}
