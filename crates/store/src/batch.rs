//! Many trials of a run in one transaction: one sync for all of them, and all of them or none.

use crate::error::StoreError;
use crate::heads::Head;
use crate::record::TrialEntry;
use crate::rows;
use crate::run_id::RunId;
use crate::store::{Store, json, whole, written};
use rusqlite::{Transaction, params};

/// Trials that are being added to a run.
#[derive(Debug)]
pub struct Batch<'s> {
    store: &'s Store,
    change: Transaction<'s>,
    head: Head,
}

impl Store {
    /// Adds what `work` adds to a run. When this returns, all of it is on the disk; meanwhile no other process can write to the store, so
    /// a batch should take no more than seconds.
    ///
    /// # Errors
    /// When the run is unknown or damaged, the file cannot be written, or `work` fails; then nothing of it is stored.
    pub fn batch<E: From<StoreError>>(
        &self,
        run: &RunId,
        work: impl FnOnce(&mut Batch<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let fail = |why| self.fail("add to the run", why);
        let change = self.change().map_err(fail)?;
        let head = self.writable(&change, run)?;
        let mut batch = Batch { store: self, change, head };
        work(&mut batch)?;
        let Batch { change, head, .. } = batch;
        Ok(head.update(&change).and_then(|()| change.commit()).map_err(fail)?)
    }
}

impl Batch<'_> {
    /// Adds a trial.
    ///
    /// # Errors
    /// When its place is taken, or a value in it cannot be read back (NaN, infinity).
    pub fn add_trial(&mut self, trial: &TrialEntry<'_>) -> Result<(), StoreError> {
        let what = format!("trial {} of run {}", trial.seq, self.head.id);
        // All numbers of a specification are in the plan, which was read back.
        let (spec, status) = (written(&what, trial.spec)?, json(&what, trial.status)?);
        let result = trial.result.map(|result| json(&what, result)).transpose()?;
        let numbers =
            [whole(trial.seq), whole(trial.block), whole(trial.cell), whole(trial.started.0), whole(trial.elapsed.0)];
        let checksum = rows::trial(&self.head.id, numbers, [&status, &spec], result.as_deref());
        let [seq, block, cell, started, elapsed] = numbers;
        let sql = "INSERT INTO trial (run, seq, block, cell, started_ns, elapsed_ns, status, spec, result, checksum)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        let row = params![self.head.id.as_str(), seq, block, cell, started, elapsed, status, spec, result, checksum];
        let inserted = self.change.prepare_cached(sql).and_then(|mut insert| insert.execute(row));
        inserted.map_err(|why| self.store.not_added(why, what))?;
        self.head.trials += 1;
        self.head.blocks = whole(trial.blocks_complete);
        self.head.add(checksum);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::{self, STUDY};
    use crate::record::FORMAT;
    use baremark_model::event::TrialStatus;
    use baremark_model::units::{Nanos, UnixTime};
    use baremark_model::wire::TrialSpec;
    use std::fs;
    use std::path::Path;

    fn spec() -> TrialSpec {
        let text = "{\"workload\":\"w\",\"arms\":[],\"schedule\":[0],\"allocation_order\":[0],\"phase_ns\":1,\"reps\":null,\
                    \"most_ns\":null,\"separate\":false,\"watchdog_ns\":1,\"cpus\":[],\"seed\":1,\"observe\":null}";
        serde_json::from_str(text).expect("a specification")
    }

    fn entry(spec: &TrialSpec, seq: u64) -> TrialEntry<'_> {
        TrialEntry {
            block: seq,
            cell: 0,
            seq,
            spec,
            status: &TrialStatus::Ok,
            result: None,
            started: UnixTime(1),
            elapsed: Nanos(1),
            blocks_complete: seq,
        }
    }

    /// A new store with a run, and its file.
    fn begun(folder: &Path) -> (Store, RunId) {
        let store = Store::open(folder.join("db")).expect("opens");
        let id: RunId = "a".parse().expect("a name");
        let head = Head { format: FORMAT, kind: STUDY.to_owned(), started_ns: 1, ..Head::empty(id.clone()) };
        store.create(head, &[]).expect("stored");
        (store, id)
    }

    /// The transactions in the write-ahead log: frames with a size of the database are the last of one.
    fn commits(folder: &Path) -> usize {
        let log = fs::read(folder.join("db-wal")).expect("a log");
        let word = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().expect("4 bytes"));
        let frame = 24 + word(8) as usize;
        (32..).step_by(frame).take_while(|at| at + frame <= log.len()).filter(|at| word(at + 4) > 0).count()
    }

    /// Before, each value of an import was a transaction with a sync: 1,000 in a second.
    #[test]
    fn many_trials_are_one_transaction() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, id) = begun(folder.path());
        let (before, spec) = (commits(folder.path()), spec());
        store.batch(&id, |batch| (0..300).try_for_each(|seq| batch.add_trial(&entry(&spec, seq)))).expect("stored");
        assert_eq!(commits(folder.path()), before + 1);
        let head = heads::one(&store.connection, &id).expect("read").expect("there").verified(true).expect("intact");
        assert_eq!((head.trials, head.blocks), (300, 299));
        store.add_trial(&id, &entry(&spec, 300)).expect("one more");
        assert_eq!(commits(folder.path()), before + 2);
    }

    #[test]
    fn a_batch_that_fails_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, id) = begun(folder.path());
        let spec = spec();
        let twice: Result<(), StoreError> =
            store.batch(&id, |batch| [7, 8, 7].into_iter().try_for_each(|seq| batch.add_trial(&entry(&spec, seq))));
        assert!(matches!(twice, Err(StoreError::Duplicate(what)) if what == "trial 7 of run a"));
        let head = heads::one(&store.connection, &id).expect("read").expect("there").verified(true).expect("intact");
        assert_eq!(head.trials, 0);
        let rows: i64 = store.connection.query_row("SELECT count(*) FROM trial", (), |row| row.get(0)).expect("read");
        assert_eq!(rows, 0);
    }
}
