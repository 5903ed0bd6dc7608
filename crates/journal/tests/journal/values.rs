//! Values that are set, held, undone and changed by somebody else.

use crate::{journal, records};
use baremark_journal::value::{Setting, Values};
use baremark_journal::{Change, JournalError, Kind, MakeError, Undone, file, value};
use serde_json::json;
use std::fs;
use std::io;

#[test]
fn a_value_is_undone_with_its_hold_and_leaves_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("setting");
    fs::write(&path, "0\n").unwrap();
    let journal = journal(folder.path());
    let held = value::set(&journal, &path, "1").unwrap();
    assert_eq!((value::read(&path).unwrap().as_str(), records(folder.path()).len()), ("1", 1));
    drop(held);
    assert_eq!((value::read(&path).unwrap().as_str(), records(folder.path()).len()), ("0", 0));
}

#[test]
fn a_value_that_somebody_else_has_changed_is_left_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("setting");
    fs::write(&path, "0").unwrap();
    let journal = journal(folder.path());
    let held = value::set(&journal, &path, "1").unwrap();
    fs::write(&path, "7").unwrap();
    assert_eq!(held.undo().unwrap(), Undone::Foreign("7, not 1".to_owned()));
    assert_eq!(value::read(&path).unwrap(), "7");
    let held = value::set(&journal, &path, "1").unwrap();
    fs::write(&path, "7").unwrap();
    assert_eq!(held.undo().unwrap(), Undone::Absent, "they have undone it themselves");
}

/// The kernel rounds some numbers; a rounded one was left, as if somebody else had written it.
#[test]
fn a_value_of_which_another_one_becomes_is_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("setting");
    // Of a longer text one that is written leaves the rest.
    fs::write(&path, "8192").unwrap();
    let journal = journal(folder.path());
    let refused = value::set(&journal, &path, "9").unwrap_err();
    assert!(refused.to_string().ends_with("'9' was written and '9192' is read"), "{refused}");
    assert_eq!((value::read(&path).unwrap().as_str(), records(folder.path()).len()), ("8192", 0));
}

#[test]
fn a_list_of_choices_has_the_marked_one_as_its_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scheduler");
    fs::write(&path, "none [mq-deadline] kyber\n").unwrap();
    assert_eq!(value::read(&path).unwrap(), "mq-deadline");
    fs::write(&path, "none voluntary (full)\n").unwrap();
    assert_eq!(value::read(&path).unwrap(), "full");
}

#[test]
fn a_switch_in_a_list_has_a_value_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("features");
    fs::write(&path, "PLACE_LAG NO_HRTICK\n").unwrap();
    let of = |name: &str| Setting::switch(&path, name);
    assert_eq!(
        (of("PLACE_LAG").read().unwrap(), of("HRTICK").read().unwrap()),
        ("PLACE_LAG".into(), "NO_HRTICK".into())
    );
    let unknown = of("LAG").read().unwrap_err();
    assert!(unknown.to_string().ends_with("features has no switch LAG"), "{unknown}");
    let values = Values::within(folder.path());
    let details = json!({ "path": path, "switch": "HRTICK", "previous": "NO_HRTICK", "value": "HRTICK" });
    assert_eq!(values.undo(&details).unwrap(), Undone::Absent);
    fs::write(&path, "PLACE_LAG HRTICK\n").unwrap();
    assert_eq!(values.undo(&details).unwrap(), Undone::Done);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "NO_HRTICK HRTICK\n",
        "the word alone is written, and the kernel finds its place"
    );
}

#[test]
fn a_change_that_fails_is_undone_and_one_that_cannot_be_recorded_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    let failed = file::make(&journal, folder.path(), |path| {
        fs::write(path, "half of it")?;
        Err::<(), _>(io::Error::other("the disk is full"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "the disk is full");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the journal's folder alone");
    let change = Change { kind: "teapot".to_owned(), target: "x".to_owned(), details: serde_json::Value::Null };
    let refused = journal.make(change, || -> Result<(), io::Error> { panic!("made without a record") });
    assert!(matches!(refused, Err(MakeError::Journal(JournalError::UnknownKind(kind))) if kind == "teapot"));
}

#[test]
fn a_target_has_one_owner_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("setting");
    fs::write(&path, "0").unwrap();
    let journal = journal(folder.path());
    let held = value::set(&journal, &path, "1").unwrap();
    let twice = value::set(&journal, &path, "2").unwrap_err();
    assert!(twice.to_string().contains(&format!("already changed by process {}", std::process::id())), "{twice}");
    assert_eq!(value::read(&path).unwrap(), "1");
    drop(held);
    drop(value::set(&journal, &path, "2").unwrap());
    assert_eq!(value::read(&path).unwrap(), "0");
}

#[test]
fn a_file_and_a_folder_go_with_their_holds() {
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path());
    let (one, (), held_one) = file::make(&journal, folder.path(), |path| fs::write(path, "x")).unwrap();
    let (two, (), held_two) = file::make(&journal, folder.path(), |path| {
        fs::create_dir(path)?;
        fs::write(path.join("inside"), "x")
    })
    .unwrap();
    assert!(one.exists() && two.exists());
    drop((held_one, held_two));
    assert!(!one.exists() && !two.exists());
}
