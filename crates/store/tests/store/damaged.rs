//! Files that are not what they should be.

use crate::support::*;
use baremark_model::second_look::SecondLook;
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
    assert!(why.contains("has schema 99, this baremark knows up to 4; use the newer baremark"), "{why}");
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
            Ok(run) => errors += usize::from(!run.torn.is_empty() || !run.damage.is_empty()),
            Err(StoreError::Corrupt { .. } | StoreError::Sqlite { .. } | StoreError::Damaged { .. }) => errors += 1,
            Err(other) => panic!("page {page}: {other}"),
        }
    }
    assert!(errors > 10, "{errors}");
}

/// Runs SQL on the file behind the store's back.
fn tamper(path: &Path, sql: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn a_damaged_trial_is_named_beside_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    filled(&path);
    tamper(&path, "UPDATE trial SET result = substr(result, 1, 100) WHERE seq = 7");
    tamper(&path, "UPDATE trial SET elapsed_ns = 6 WHERE seq = 2");
    let stored = Store::open(&path).unwrap().load(&"a-1".parse().unwrap()).unwrap();
    assert_eq!(stored.trials.iter().map(|trial| trial.seq).collect::<Vec<_>>(), [0, 1, 3, 4, 5, 6]);
    let torn: Vec<String> = stored.torn.iter().map(|torn| format!("{}: {}", torn.place(), torn.why)).collect();
    assert!(torn[0].starts_with("trial block 1 cell 0: checksum mismatch (stored "), "{torn:?}");
    assert!(torn[1].starts_with("trial block 3 cell 1: checksum mismatch (stored "), "{torn:?}");
    let why = Store::open(&path).unwrap().load_intact(&"a-1".parse().unwrap()).unwrap_err().to_string();
    assert!(why.starts_with("run a-1, trial block 1 cell 0: checksum mismatch (stored "), "{why}");
    assert!(why.contains("), and 1 more; ") && why.ends_with("restore it from a copy"), "{why}");
    assert_eq!(stored.damage, [""; 0]);
    assert_eq!(stored.next_seq(), 8, "a damaged trial keeps its place");
}

#[test]
fn a_trial_that_an_earlier_version_wrote_and_that_cannot_be_parsed_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    filled(&path);
    tamper(&path, "UPDATE trial SET status = '{\"status\":\"odd\"}', checksum = NULL WHERE seq = 2");
    let stored = Store::open(&path).unwrap().load(&"a-1".parse().unwrap()).unwrap();
    assert!(stored.torn[0].why.starts_with("status: unknown variant `odd`"), "{}", stored.torn[0].why);
}

#[test]
fn rows_that_are_missing_or_exchanged_are_noticed() {
    for (sql, damage) in [
        ("DELETE FROM trial WHERE seq = 7", "7 of 8 trials are present"),
        ("DELETE FROM look", "0 of 1 looks are present"),
        ("UPDATE look SET half_width = 0.5", "look 0: checksum mismatch"),
        ("UPDATE trial SET checksum = NULL WHERE seq = 7", "its rows differ from those that were written"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        filled(&path);
        let id = "a-1".parse().unwrap();
        Store::open(&path).unwrap().add_look(&id, &look(4, Some(0.25))).unwrap();
        tamper(&path, sql);
        let stored = Store::open_read_only(&path).unwrap().load(&id).unwrap();
        assert!(stored.damage.len() == 1 && stored.damage[0].starts_with(damage), "{sql}: {:?}", stored.damage);
    }
}

#[test]
fn damage_to_what_was_examined_hides_no_trial() {
    for (sql, damage) in [
        ("UPDATE document SET text = '{\"pairs\": []}' WHERE part = 'examined'", "examined: checksum mismatch"),
        ("DELETE FROM document WHERE part = 'examined'", "its rows differ from those that were written"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        filled(&path);
        let id = "a-1".parse().unwrap();
        Store::open(&path).unwrap().set_examined(&id, &SecondLook::default()).unwrap();
        assert_eq!(Store::open(&path).unwrap().load_intact(&id).unwrap().examined, Some(SecondLook::default()));
        tamper(&path, sql);
        let store = Store::open_read_only(&path).unwrap();
        let stored = store.load(&id).unwrap();
        assert_eq!((stored.trials.len(), &stored.examined), (8, &None));
        assert!(stored.damage.len() == 1 && stored.damage[0].starts_with(damage), "{sql}: {:?}", stored.damage);
        assert!(store.load_intact(&id).is_err(), "{sql}");
    }
}

#[test]
fn a_damaged_head_or_plan_is_refused_by_name_and_other_runs_are_read() {
    for (sql, damage) in [
        ("UPDATE run SET title = 'another' WHERE id = 'a-1'", "run a-1: checksum mismatch (stored "),
        ("UPDATE document SET text = text || ' ' WHERE owner = 'a-1' AND part = 'plan'", "run a-1, its plan: checksum"),
        ("DELETE FROM document WHERE owner = 'a-1' AND part = 'machine'", "run a-1, its machine: it does not exist"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        filled(&path);
        Store::open(&path).unwrap().create_run(&run(Some("b-2"))).unwrap();
        tamper(&path, sql);
        let store = Store::open_read_only(&path).unwrap();
        let why = store.load(&"a-1".parse().unwrap()).unwrap_err().to_string();
        assert!(why.starts_with(damage) && why.ends_with("restore it from a copy"), "{sql}: {why}");
        assert_eq!(store.resolve("b-2").unwrap().as_str(), "b-2");
        assert_eq!(store.load(&"b-2".parse().unwrap()).unwrap().trials, []);
        assert_eq!(store.list().unwrap().runs.last().map(|run| run.id.as_str() == "b-2"), Some(sql.contains("title")));
        drop(store);
        let store = Store::open(&path).unwrap();
        let why = add(&store, &"a-1".parse().unwrap(), 8, 1).map_err(|why| why.to_string());
        assert_eq!(why.is_err(), sql.contains("title"), "nothing is added to a run whose head is damaged: {why:?}");
    }
}

#[test]
fn a_run_that_vanished_from_the_list_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    filled(&path);
    Store::open(&path).unwrap().create_run(&run(Some("b-2"))).unwrap();
    tamper(&path, "DELETE FROM run WHERE id = 'a-1'");
    let store = Store::open(&path).unwrap();
    for why in [store.runs().unwrap_err(), store.latest().unwrap_err(), store.resolve("b").unwrap_err()] {
        assert!(why.to_string().starts_with("the list of runs: 1 of 2 runs are present"), "{why}");
    }
    store.create_run(&run(Some("c-3"))).unwrap();
    assert!(store.runs().is_err(), "a new run hides no damage");
    assert_eq!(store.resolve("b-2").unwrap().as_str(), "b-2", "a whole name is never in doubt");
    assert_eq!(store.load(&"b-2".parse().unwrap()).unwrap().torn, []);
}

#[test]
fn a_garbled_plan_names_the_run_and_leaves_history_readable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    filled(&path);
    tamper(&path, "UPDATE document SET text = '{', checksum = NULL WHERE part = 'plan'");
    let store = Store::open(&path).unwrap();
    let why = store.load(&"a-1".parse().unwrap()).unwrap_err().to_string();
    assert!(why.starts_with("run a-1: its plan cannot be read (EOF"), "{why}");
    assert_eq!(store.runs().unwrap()[0].blocks, 4);
}

/// What a store tells: the list, and everything of each run and load; an error or damage is a refusal.
fn told(path: &Path) -> Vec<Option<String>> {
    let Ok(store) = Store::open_read_only(path) else { return vec![None; 5] };
    let load = |id: &str| {
        let run = store.load(&id.parse().unwrap()).ok()?;
        (run.torn.is_empty() && run.damage.is_empty()).then(|| format!("{run:?}"))
    };
    vec![
        store.list().and_then(|list| list.intact()).ok().map(|list| format!("{list:?}")),
        store.resolve("b").ok().map(|id| id.to_string()),
        load("a-1"),
        load("b-2"),
        load("c-3"),
    ]
}

#[test]
fn a_flipped_byte_is_refused_or_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    filled(&path);
    crate::progress::fill(&path, "c-3");
    let store = Store::open(&path).unwrap();
    let other = store.create_run(&run(Some("b-2"))).unwrap();
    (0..6).for_each(|seq| add(&store, &other, seq, 5).unwrap());
    store.add_look(&other, &look(3, Some(0.25))).unwrap();
    store.finish(&other, STARTED, "precision reached").unwrap();
    drop(store);
    let (whole, before) = (fs::read(&path).unwrap(), told(&path));
    assert!(before.iter().all(Option::is_some), "{before:?}");

    let (mut refused, mut spared) = (0, 0);
    let mut moments = Moments(7);
    for round in 0..750 {
        // Half of them in the first pages, where the structure is.
        let within = if round % 2 == 0 { whole.len() } else { 9 * 4096 };
        let at = usize::try_from(moments.below(within as u64)).unwrap();
        let mut bytes = whole.clone();
        bytes[at] ^= u8::try_from(1 + moments.below(255)).unwrap();
        fs::write(&path, &bytes).unwrap();
        let after = told(&path);
        for (before, after) in before.iter().zip(&after) {
            assert!(
                after.is_none() || after == before,
                "byte {at} ({:#x}): {after:?} instead of {before:?}",
                bytes[at]
            );
        }
        refused += usize::from(after.iter().any(Option::is_none));
        spared += usize::from(after.iter().any(Option::is_none) && after.iter().any(Option::is_some));
    }
    // A third is 250, with a standard error of 13.
    assert!(refused > 212, "only {refused} of 750 were noticed: the test flips what does not matter");
    assert!(spared > refused / 2, "of {refused} damaged stores only {spared} had anything left to read");
}
