//! Makes a store of many runs: copies of the finished runs of another store, one minute after the other, each with a name of
//! its own.
//!
//! `many_runs FROM TO COUNT`
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::allow_attributes, reason = "an example")]

use baremark_model::units::UnixTime;
use baremark_store::{RunId, RunRecord, RunState, Store, StoredRun, TrialEntry};
use std::env;

const MINUTE_NS: u64 = 60_000_000_000;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [from, to, count] = arguments.as_slice() else { panic!("many_runs FROM TO COUNT") };
    let (from, to, count) = (Store::open_read_only(from).unwrap(), Store::open(to).unwrap(), count.parse().unwrap());
    let finished = from.runs().unwrap().into_iter().filter(|run| run.state == RunState::Finished);
    let runs: Vec<StoredRun> = finished.map(|run| from.load_intact(&run.id).unwrap()).collect();
    assert!(!runs.is_empty(), "the first store has no finished run");
    let first = runs[0].started.0 - count * MINUTE_NS;
    for (run, at) in runs.iter().cycle().zip(0..count) {
        copy(&to, run, UnixTime(first + at * MINUTE_NS));
    }
    println!("{count} runs in {}", to.path().display());
}

fn copy(to: &Store, run: &StoredRun, started: UnixTime) {
    let id = RunId::generate(started);
    let record = RunRecord {
        id: Some(id.clone()),
        study_file: run.study_file.clone(),
        study_text: run.study_text.clone(),
        plan: run.plan.clone(),
        machine: run.machine.clone(),
        version: run.version.clone(),
        started,
    };
    to.create_run(&record).unwrap();
    for trial in &run.trials {
        let entry = TrialEntry {
            block: trial.block,
            cell: trial.cell,
            seq: trial.seq,
            spec: &trial.spec,
            status: &trial.status,
            result: trial.result.as_ref(),
            started: trial.started,
            elapsed: trial.elapsed,
            blocks_complete: trial.block + 1,
        };
        to.add_trial(&id, &entry).unwrap();
    }
    run.looks.iter().for_each(|look| to.add_look(&id, look).unwrap());
    to.finish(&id, UnixTime(started.0 + MINUTE_NS / 2), run.stop_reason.as_deref().unwrap_or_default()).unwrap();
}
