//! What goes in comes out.

use crate::support::*;
use baremark_model::event::TrialStatus;
use baremark_model::second_look::{ExaminedPair, ExaminedSide, SecondLook, Unexamined};
use baremark_model::units::{Nanos, UnixTime};
use baremark_store::{RunId, RunState, Store, StoreError, TrialEntry};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_run_reads_back_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folder/baremark.db");
    let store = Store::open(&path).unwrap();
    let id = store.create_run(&run(None)).unwrap();
    assert!(id.as_str().starts_with("20251121-0335-"), "{id}");
    add(&store, &id, 0, 3).unwrap();
    let failed = TrialStatus::Failed { reason: "the agent died; start it again".to_owned() };
    let entry = TrialEntry {
        block: 0,
        cell: 1,
        seq: 1,
        spec: &spec(u64::MAX),
        status: &failed,
        result: None,
        started: UnixTime(STARTED.0 + 9),
        elapsed: Nanos(77),
        blocks_complete: 1,
    };
    store.add_trial(&id, &entry).unwrap();
    store.add_look(&id, &look(1, None)).unwrap();
    store.add_look(&id, &look(2, Some(0.1 + 0.2))).unwrap();
    store.finish(&id, UnixTime(STARTED.0 + 1), "precision reached").unwrap();
    drop(store);

    let stored = Store::open_read_only(&path).unwrap().load(&id).unwrap();
    let given = run(None);
    assert_eq!(
        (stored.study_file, stored.study_text, stored.plan, stored.machine, stored.version, stored.started),
        (given.study_file, given.study_text, given.plan, given.machine, given.version, given.started)
    );
    assert_eq!(
        (stored.ended, stored.stop_reason.as_deref()),
        (Some(UnixTime(STARTED.0 + 1)), Some("precision reached"))
    );
    assert_eq!(stored.looks, [look(1, None), look(2, Some(0.1 + 0.2))]);
    assert_eq!(stored.torn, []);
    assert_eq!(stored.trials.len(), 2);
    assert_eq!((&stored.trials[0].spec, stored.trials[0].result.as_ref()), (&spec(0), Some(&result(0, 3))));
    let last = &stored.trials[1];
    assert_eq!((last.block, last.cell, last.seq, &last.status, last.elapsed), (0, 1, 1, &failed, Nanos(77)));
    assert_eq!((&last.spec, &last.result, last.started), (&spec(u64::MAX), &None, UnixTime(STARTED.0 + 9)));
}

#[test]
fn a_run_that_is_extended_has_its_new_study_and_plan_and_is_intact() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baremark.db");
    let store = Store::open(&path).unwrap();
    let id = store.create_run(&run(None)).unwrap();
    add(&store, &id, 0, 3).unwrap();
    store.finish(&id, UnixTime(STARTED.0 + 1), "budget used up").unwrap();
    let mut longer = plan();
    longer.design.budget = Nanos(600_000_000_000);
    longer.extensions = vec![0];
    store.extend(&id, "[study]\ntitle = \"longer\"\n", &longer).unwrap();
    assert!(store.extend(&"b-2".parse().unwrap(), "", &longer).is_err(), "unknown");
    drop(store);
    let stored = Store::open_read_only(&path).unwrap().load_intact(&id).unwrap();
    assert_eq!((stored.study_text.as_str(), &stored.plan), ("[study]\ntitle = \"longer\"\n", &longer));
    assert_eq!((stored.trials.len(), stored.ended, stored.stop_reason), (1, None, None));
}

#[test]
fn what_was_examined_reads_back_and_takes_the_place_of_what_was_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baremark.db");
    let store = Store::open(&path).unwrap();
    let id = store.create_run(&run(None)).unwrap();
    add(&store, &id, 0, 3).unwrap();
    assert_eq!(store.load_intact(&id).unwrap().examined, None);
    let side = |call_ns: f64| ExaminedSide {
        call_ns,
        fault_ns: Some(512.5),
        runs: 3,
        calls: Some(BTreeMap::from([(1, 50), (59, 1)])),
        page_faults: Some(100.0),
        cpu_s: None,
        throttled: None,
    };
    let absent = vec![Unexamined { what: "throttling".to_owned(), reason: "not counted".to_owned() }];
    let of = |call_ns: f64| SecondLook {
        pairs: vec![ExaminedPair {
            pair: 0,
            blocks: vec![[side(call_ns), side(2.0 * call_ns)]],
            absent: absent.clone(),
        }],
    };
    store.set_examined(&id, &of(100.25)).unwrap();
    store.set_examined(&id, &of(50.0)).unwrap();
    assert!(store.set_examined(&id, &of(f64::NAN)).is_err(), "NaN cannot be read back");
    store.finish(&id, UnixTime(STARTED.0 + 1), "precision reached").unwrap();
    drop(store);
    let store = Store::open_read_only(&path).unwrap();
    assert_eq!(store.load_intact(&id).unwrap().examined, Some(of(50.0)));
    assert_eq!(store.load_head(&id).unwrap().examined, Some(of(50.0)));
}

#[test]
fn folder_and_files_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sub/baremark.db");
    let store = Store::open(&path).unwrap();
    let id = store.create_run(&run(None)).unwrap();
    let _held = store.lock(&id).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(mode(&entry.path()), 0o600, "{:?}", entry.file_name());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["baremark.db", &format!("baremark.db-{id}.lock"), "baremark.db-shm", "baremark.db-wal"]);
}

#[test]
fn a_big_result_is_no_matter() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("db")).unwrap();
    let id = store.create_run(&run(None)).unwrap();
    add(&store, &id, 0, 20_000).unwrap();
    assert_eq!(store.load(&id).unwrap().trials[0].result, Some(result(0, 20_000)));
}

#[test]
fn what_cannot_be_read_back_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("db")).unwrap();
    let id = store.create_run(&run(None)).unwrap();
    let mut bad = result(0, 1);
    bad.arms[0].empty_run_ns = f64::NAN;
    let entry = TrialEntry {
        block: 0,
        cell: 0,
        seq: 0,
        spec: &spec(0),
        status: &TrialStatus::Ok,
        result: Some(&bad),
        started: STARTED,
        elapsed: Nanos(1),
        blocks_complete: 0,
    };
    let why = store.add_trial(&id, &entry).unwrap_err();
    assert!(matches!(&why, StoreError::Unwritable { what, .. } if *what == format!("trial 0 of run {id}")), "{why}");
    assert_eq!(store.load(&id).unwrap().trials, []);
}

#[test]
fn a_place_is_given_once_and_only_in_a_run_that_exists() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("db")).unwrap();
    let id = store.create_run(&run(Some("a-1"))).unwrap();
    add(&store, &id, 0, 1).unwrap();
    assert_eq!(
        add(&store, &id, 0, 1).unwrap_err().to_string(),
        "trial 0 of run a-1 is stored already; a place in the record is given once"
    );
    assert!(matches!(store.create_run(&run(Some("a-1"))), Err(StoreError::Duplicate(_))));
    let ghost: RunId = "a-2".parse().unwrap();
    let unknown = "no run is called 'a-2'; did you mean 'a-1'?";
    assert_eq!(add(&store, &ghost, 0, 1).unwrap_err().to_string(), unknown);
    assert_eq!(store.add_look(&ghost, &look(1, None)).unwrap_err().to_string(), unknown);
    assert_eq!(store.finish(&ghost, STARTED, "").unwrap_err().to_string(), unknown);
    assert_eq!(store.load(&ghost).unwrap_err().to_string(), unknown);
    assert_eq!(store.delete(&ghost).unwrap_err().to_string(), unknown);
}

#[test]
fn history_is_the_latest_first_with_state_and_finished_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("db")).unwrap();
    assert_eq!(store.latest().unwrap(), None);
    let at = |name: &str, minute: u64| {
        let mut record = run(Some(name));
        record.started = UnixTime(STARTED.0 + minute * 60_000_000_000);
        store.create_run(&record).unwrap()
    };
    let (killed, live, finished) = (at("b-killed", 1), at("a-live", 2), at("c-finished", 0));
    for seq in 0..5 {
        add(&store, &killed, seq, 1).unwrap();
    }
    store.finish(&finished, UnixTime(STARTED.0 + 5), "budget spent").unwrap();
    let _held = store.lock(&live).unwrap();

    let runs = store.runs().unwrap();
    let seen: Vec<_> = runs.iter().map(|run| (run.id.as_str(), run.state, run.trials, run.blocks)).collect();
    assert_eq!(
        seen,
        [
            ("a-live", RunState::Live, 0, 0),
            ("b-killed", RunState::Killed, 5, 2),
            ("c-finished", RunState::Finished, 0, 0)
        ]
    );
    assert_eq!(runs[2].stop_reason.as_deref(), Some("budget spent"));
    assert_eq!(store.latest().unwrap().map(|run| run.id), Some(live));
    assert_eq!(store.latest_unfinished().unwrap().map(|run| run.id), Some(killed));
}

#[test]
fn a_run_is_found_by_the_beginning_or_the_end_of_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("db")).unwrap();
    assert_eq!(store.resolve("x").unwrap_err().to_string(), "no run is called 'x'; no run has been stored yet");
    for name in ["20251121-0335-aaaa", "20251121-0336-bbbb", "20251122-0000-cccc", "20251122-0000-cccc-2"] {
        store.create_run(&run(Some(name))).unwrap();
    }
    let found = |name: &str| store.resolve(name).map(|id| id.to_string()).map_err(|why| why.to_string());
    assert_eq!(found("20251121-0336").as_deref(), Ok("20251121-0336-bbbb"));
    assert_eq!(found("aaaa").as_deref(), Ok("20251121-0335-aaaa"));
    assert_eq!(found("20251122-0000-cccc").as_deref(), Ok("20251122-0000-cccc"), "a whole name is never ambiguous");
    assert_eq!(
        found("20251121"),
        Err("'20251121' may be any of 20251121-0336-bbbb, 20251121-0335-aaaa; type more of the name".to_owned())
    );
    assert_eq!(
        found("20251121-0335-aaab"),
        Err("no run is called '20251121-0335-aaab'; did you mean '20251121-0335-aaaa'?".to_owned())
    );
    let far = found("zzz").unwrap_err();
    assert!(far.starts_with("no run is called 'zzz'; the latest are 20251122-0000-cccc-2, "), "{far}");
    assert!(found("").is_err());
}

#[test]
fn a_deleted_run_is_gone_with_all_of_it_and_a_live_one_cannot_be_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = Store::open(&path).unwrap();
    let (gone, kept) = (store.create_run(&run(None)).unwrap(), store.create_run(&run(None)).unwrap());
    for id in [&gone, &kept] {
        add(&store, id, 0, 1).unwrap();
        store.add_look(id, &look(1, None)).unwrap();
    }
    let held = store.lock(&gone).unwrap();
    let why = store.delete(&gone).unwrap_err().to_string();
    assert!(why.contains(&format!("run {gone} is live: process {}", std::process::id())), "{why}");
    drop(held);
    store.delete(&gone).unwrap();
    assert!(matches!(store.load(&gone), Err(StoreError::Unknown { .. })));
    assert_eq!(store.load(&kept).unwrap().trials.len(), 1);
    let left = |table: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        rusqlite::Connection::open(&path).unwrap().query_row(&sql, (), |row| row.get(0)).unwrap()
    };
    assert_eq!((left("run"), left("trial"), left("look")), (1, 1, 1));
}
