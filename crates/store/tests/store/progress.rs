//! What a run reports while a trial of it is under way: others read it, and a killed run keeps it.

use crate::support::{add, run};
use baremark_store::{RunId, RunState, Store};
use serde_json::json;

/// A run with two rows of progress and a trial.
pub fn fill(path: &std::path::Path, id: &str) -> RunId {
    let store = Store::open(path).unwrap();
    let id = store.create_run(&run(Some(id))).unwrap();
    store.add_progress(&id, &json!({ "at_s": 0, "answered": 5 })).unwrap();
    store.add_progress(&id, &json!({ "at_s": 1, "answered": 7 })).unwrap();
    add(&store, &id, 0, 5).unwrap();
    id
}

#[test]
fn progress_of_a_run_is_read_by_others_and_kept_when_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = Store::open(&path).unwrap();
    let held = store.lock(&"a-1".parse().unwrap()).unwrap();
    let id = fill(&path, "a-1");
    let state = || Store::open_read_only(&path).unwrap().runs().unwrap()[0].state;
    assert_eq!((state(), store.live().len()), (RunState::Live, 1));
    drop(held);
    assert_eq!((state(), store.live().len()), (RunState::Killed, 0));
    let stored = Store::open_read_only(&path).unwrap().load_intact(&id).unwrap();
    assert_eq!((stored.progress.len(), stored.trials.len()), (2, 1));
    assert_eq!(stored.progress[1]["answered"], 7);
    let stranger = "b-2".parse().unwrap();
    assert!(store.add_progress(&stranger, &json!({})).is_err());
    assert!(store.loads().unwrap().is_empty(), "a run is not a load of an earlier version");
}
