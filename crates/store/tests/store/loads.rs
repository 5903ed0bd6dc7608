//! Loads beside runs: what is told while they run, how they end, and what a killed one leaves.

use crate::support::STARTED;
use baremark_model::machine::MachineFacts;
use baremark_model::units::UnixTime;
use baremark_store::{LoadRecord, RunId, RunState, Store};
use serde_json::json;

fn record(id: &str) -> LoadRecord {
    LoadRecord {
        id: id.parse::<RunId>().unwrap(),
        kind: "baremark-load/1".to_owned(),
        title: "http://127.0.0.1:1/".to_owned(),
        asked: json!({ "threads": 1 }),
        machine: MachineFacts::default(),
        version: "0.1.0".to_owned(),
        started: STARTED,
    }
}

/// A load with two seconds and a result.
pub fn fill(path: &std::path::Path, id: &str) {
    let store = Store::open(path).unwrap();
    let load = record(id);
    store.create_load(&load).unwrap();
    store.add_load_second(&load.id, &json!({ "at_s": 0, "answered": 5 })).unwrap();
    store.add_load_second(&load.id, &json!({ "at_s": 1, "answered": 7 })).unwrap();
    store.finish_load(&load.id, UnixTime(STARTED.0 + 9), "complete", &json!({ "format": "x" })).unwrap();
}

#[test]
fn a_load_is_live_then_killed_or_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = Store::open(&path).unwrap();
    let (one, other) = (record("20261121-0405-aaaa"), record("20261121-0406-bbbb"));
    let held = store.lock(&one.id).unwrap();
    for load in [&one, &other] {
        store.create_load(load).unwrap();
        store.add_load_second(&load.id, &json!({ "at_s": 0, "answered": 5 })).unwrap();
        store.add_load_second(&load.id, &json!({ "at_s": 1, "answered": 7 })).unwrap();
    }
    store.finish_load(&other.id, UnixTime(STARTED.0 + 9), "complete", &json!({ "format": "x" })).unwrap();
    let state = |id: &RunId| store.loads().unwrap().into_iter().find(|load| load.id == *id).unwrap().state;
    assert_eq!((state(&one.id), state(&other.id)), (RunState::Live, RunState::Finished));
    drop(held);
    assert_eq!(state(&one.id), RunState::Killed);
    // Another process, by reading alone.
    let reader = Store::open_read_only(&path).unwrap();
    let killed = reader.read_load(&one.id).unwrap();
    assert_eq!((killed.document, killed.seconds.len()), (None, 2));
    assert_eq!(killed.seconds[1]["answered"], 7);
    let finished = reader.read_load(&other.id).unwrap();
    assert_eq!(finished.document, Some(json!({ "format": "x" })));
    assert_eq!(finished.summary.stop_reason.as_deref(), Some("complete"));
    assert!(reader.runs().unwrap().is_empty(), "a load is no run of a study");
}

#[test]
fn loads_are_found_by_what_tells_them_apart() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store.db")).unwrap();
    assert_eq!(store.find_load("2026").unwrap(), None);
    for id in ["20261121-0405-aaaa", "20261121-0406-bbbb"] {
        store.create_load(&record(id)).unwrap();
    }
    let found = |name: &str| store.find_load(name).map(|id| id.map(|id| id.to_string())).map_err(|why| why.to_string());
    assert_eq!(found("bbbb"), Ok(Some("20261121-0406-bbbb".to_owned())));
    assert_eq!(found("20261121-0405"), Ok(Some("20261121-0405-aaaa".to_owned())));
    assert_eq!(found("cccc"), Ok(None));
    assert!(found("2026").unwrap_err().contains("20261121-0406-bbbb"));
    let stranger = "20261121-0407-cccc".parse::<RunId>().unwrap();
    assert!(store.read_load(&stranger).is_err() && store.add_load_second(&stranger, &json!({})).is_err());
    assert!(store.finish_load(&stranger, STARTED, "x", &json!({})).is_err());
    assert!(store.create_load(&record("20261121-0405-aaaa")).is_err(), "a name is used once");
}
