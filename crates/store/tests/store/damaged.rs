//! Files that are not what they should be.

use crate::support::*;
use baremark_store::{Store, StoreError};
use std::fs;
use std::path::Path;

/// A store with some trials in it, closed.
fn filled(path: &Path) {
    let store = Store::open(path).unwrap();
    let id = store.create_run(&run(Some("a-1"))).unwrap();
    for seq in 0..8 {
        add(&store, &id, seq, 20).unwrap();
    }
}

/// What both ways of opening say of the file, and that neither changed it.
fn refused(path: &Path) -> StoreError {
    let before = fs::read(path).unwrap();
    let why = Store::open(path).expect_err("opened for writing");
    let again = Store::open_read_only(path).expect_err("opened for reading");
    assert_eq!(why.to_string(), again.to_string());
    assert_eq!(fs::read(path).unwrap(), before, "a refused file is not touched");
    assert!(why.to_string().contains(path.to_str().unwrap()), "{why}");
    why
}

#[test]
fn files_of_others_are_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "[study]\ntitle = \"not a store\"\n").unwrap();
    let why = refused(&text).to_string();
    assert!(why.ends_with("is not a baremark store (no SQLite file); name another file with --store"), "{why}");

    let foreign = folder.path().join("foreign");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE run (id TEXT)").unwrap();
    assert!(matches!(refused(&foreign), StoreError::NotAStore { what, .. } if what.contains("another program")));
}

#[test]
fn an_empty_file_becomes_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    fs::write(&path, "").unwrap();
    assert!(matches!(Store::open_read_only(&path), Err(StoreError::Missing(_))));
    filled(&path);
    assert_eq!(Store::open(&path).unwrap().runs().unwrap().len(), 1);
}

#[test]
fn a_later_schema_is_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    filled(&path);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA user_version = 99; CREATE TABLE later (x)").unwrap();
    drop(connection);
    let why = refused(&path).to_string();
    assert!(why.contains("has schema 99, this baremark knows up to 3; use the newer baremark"), "{why}");
}

#[test]
fn a_spoilt_header_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    filled(&path);
    let whole = fs::read(&path).unwrap();
    let spoilt = |range: std::ops::Range<usize>| {
        let mut bytes = whole.clone();
        bytes[range].fill(0xee);
        fs::write(&path, bytes).unwrap();
        refused(&path)
    };
    assert!(matches!(spoilt(0..16), StoreError::NotAStore { .. }));
    assert!(matches!(spoilt(16..24), StoreError::NotAStore { .. } | StoreError::Corrupt { .. }));
    assert!(matches!(spoilt(100..1000), StoreError::Corrupt { .. }));
    assert!(matches!(spoilt(4096..8192), StoreError::Corrupt { .. }), "the page of the table of runs");
}

#[test]
fn a_file_that_was_cut_off_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    filled(&path);
    let whole = fs::read(&path).unwrap();
    for keep in [50, 1000, 4096, 5000, whole.len() / 2, whole.len() - 4096] {
        fs::write(&path, &whole[..keep]).unwrap();
        let why = refused(&path);
        assert!(matches!(why, StoreError::Corrupt { .. }), "{keep} of {} bytes: {why}", whole.len());
        assert!(why.to_string().contains(".recover"), "{why}");
    }
}

#[test]
fn a_spoilt_trial_is_an_error_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    filled(&path);
    let whole = fs::read(&path).unwrap();
    let mut errors = 0;
    for page in 2..whole.len() / 4096 {
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xee);
        fs::write(&path, bytes).unwrap();
        let loaded = Store::open(&path).and_then(|store| store.load(&"a-1".parse().unwrap()));
        match loaded {
            Ok(run) => errors += usize::from(!run.torn.is_empty()),
            Err(StoreError::Corrupt { .. } | StoreError::Sqlite { .. }) => errors += 1,
            Err(other) => panic!("page {page}: {other}"),
        }
    }
    assert!(errors > 10, "{errors}");
}

#[test]
fn a_torn_trial_is_reported_beside_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    filled(&path);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("UPDATE trial SET result = substr(result, 1, 100) WHERE seq = 7").unwrap();
    connection.execute_batch("UPDATE trial SET status = '{\"status\":\"odd\"}' WHERE seq = 2").unwrap();
    drop(connection);
    let stored = Store::open(&path).unwrap().load(&"a-1".parse().unwrap()).unwrap();
    assert_eq!(stored.trials.iter().map(|trial| trial.seq).collect::<Vec<_>>(), [0, 1, 3, 4, 5, 6]);
    assert_eq!(
        stored.torn.iter().map(|torn| (torn.block, torn.cell, torn.seq)).collect::<Vec<_>>(),
        [(1, 0, 2), (3, 1, 7)]
    );
    assert!(stored.torn[0].why.starts_with("status: unknown variant `odd`"), "{}", stored.torn[0].why);
    assert!(stored.torn[1].why.starts_with("result: EOF"), "{}", stored.torn[1].why);
    assert_eq!(stored.next_seq(), 8, "a torn trial keeps its place");
}

#[test]
fn a_garbled_plan_names_the_run_and_leaves_history_readable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    filled(&path);
    rusqlite::Connection::open(&path).unwrap().execute_batch("UPDATE run SET plan = '{'").unwrap();
    let store = Store::open(&path).unwrap();
    let why = store.load(&"a-1".parse().unwrap()).unwrap_err().to_string();
    assert!(why.starts_with("run a-1: its plan cannot be read (EOF"), "{why}");
    assert_eq!(store.runs().unwrap()[0].blocks, 4);
}
