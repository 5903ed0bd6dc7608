//! Files of records that are torn, damaged, of another boot, or written by somebody who means harm.

use crate::{journal, records};
use baremark_journal::owner::Owner;
use baremark_journal::value::Values;
use baremark_journal::{Journal, JournalError, file::Files};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A process that has ended.
fn dead() -> Owner {
    Owner { start: 1, ..Owner::this().unwrap() }
}

fn line(record: &serde_json::Value) -> String {
    let json = record.to_string();
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

fn owner_line(owner: &Owner) -> String {
    line(&json!({ "owner": { "format": 1, "owner": owner } }))
}

fn value_line(id: u64, path: &Path) -> String {
    let details = json!({ "path": path, "previous": "0", "value": "1" });
    line(&json!({ "make": { "id": id, "change": { "kind": "value", "target": path, "details": details } } }))
}

struct Place {
    folder: tempfile::TempDir,
    one: PathBuf,
    two: PathBuf,
}

/// Two values that hold 1 and should hold 0, and a folder of a journal.
fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    fs::write(&one, "1").unwrap();
    fs::write(&two, "1").unwrap();
    drop(journal(folder.path()));
    Place { folder, one, two }
}

impl Place {
    fn record(&self, text: impl AsRef<[u8]>) {
        fs::write(self.folder.path().join("journal/77-1.journal"), text).unwrap();
    }

    fn read(&self) -> [String; 2] {
        [&self.one, &self.two].map(|path| fs::read_to_string(path).unwrap())
    }
}

#[test]
fn a_torn_last_line_stands_for_no_change_and_the_others_are_undone() {
    let whole = |place: &Place| owner_line(&dead()) + &value_line(0, &place.one) + &value_line(1, &place.two);
    let length = whole(&place()).len();
    // Every length at which the second change is torn, and some of the others.
    for cut in (1..length).step_by(7).chain([length - 1]) {
        let place = place();
        let text = whole(&place);
        place.record(&text[..cut.min(text.len() - 1)]);
        let recovery = journal(place.folder.path()).recover().unwrap();
        assert!(recovery.damaged.is_empty() && recovery.failed.is_empty(), "{cut}: {recovery:?}");
        let first = text[..cut].matches('\n').count() >= 2;
        assert_eq!(place.read(), [if first { "0" } else { "1" }, "1"], "{cut}");
        assert!(records(place.folder.path()).is_empty(), "{cut}");
    }
}

#[test]
fn damage_is_named_by_its_line_what_is_whole_is_undone_and_the_file_is_kept() {
    let place = place();
    let broken = value_line(0, &place.one).replace("previous", "previouS");
    place.record(owner_line(&dead()) + &broken + &value_line(1, &place.two) + "\u{0}\u{0}\n");
    let recovery = journal(place.folder.path()).recover().unwrap();
    assert_eq!(place.read(), ["1", "0"]);
    let (_, what) = &recovery.damaged[0];
    assert!(what.contains("line 2: the checksum does not match") && what.contains("line 4"), "{what}");
    assert_eq!(records(place.folder.path()), ["77-1.journal"], "kept for a person");
    fs::write(&place.two, "1").unwrap();
    journal(place.folder.path()).recover().unwrap();
    assert_eq!(place.read(), ["1", "1"], "what was undone once is not undone again");
}

#[test]
fn bytes_of_any_kind_are_an_answer_and_never_a_panic() {
    let place = place();
    let good = owner_line(&dead()) + &value_line(0, &place.one);
    let mut state = 7_u64;
    for round in 0..400 {
        let mut bytes = good.clone().into_bytes();
        for _ in 0..=round % 4 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(state >> 33).unwrap() % bytes.len();
            bytes[at] = state.to_le_bytes()[2];
        }
        fs::write(&place.one, "1").unwrap();
        place.record(&bytes);
        let recovery = journal(place.folder.path()).recover().unwrap();
        let settled = recovery.undone.len() + recovery.damaged.len() + recovery.absent.len() + recovery.held;
        assert!(settled > 0 || !bytes.ends_with(b"\n"), "round {round}: {recovery:?}");
    }
}

#[test]
fn a_record_is_not_obeyed_outside_of_what_its_kind_may_change() {
    let place = place();
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    fs::write(elsewhere.path(), "1").unwrap();
    let link = place.folder.path().join("link");
    std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
    let file = json!({ "path": elsewhere.path(), "word": "x" });
    let file = json!({ "make": { "id": 2, "change": { "kind": "file", "target": "f", "details": file } } });
    let unknown = json!({ "make": { "id": 3, "change": { "kind": "teapot", "target": "t", "details": {} } } });
    let lines = value_line(0, elsewhere.path()) + &value_line(1, &link) + &line(&file) + &line(&unknown);
    place.record(owner_line(&dead()) + &lines);
    let recovery = journal(place.folder.path()).recover().unwrap();
    assert_eq!((recovery.failed.len(), recovery.undone.len()), (4, 0), "{recovery:?}");
    assert_eq!(fs::read_to_string(elsewhere.path()).unwrap(), "1");
    assert_eq!(records(place.folder.path()), ["77-1.journal"], "what could not be undone is kept");
    assert!(recovery.failed.iter().any(|(_, why)| why.contains("unknown type of change: 'teapot'")), "{recovery:?}");
}

#[test]
fn after_a_reboot_values_are_forgotten_and_files_are_removed() {
    let place = place();
    let word = "0123456789-0123456789-0123456789-012";
    let left = place.folder.path().join(format!("baremark-{word}"));
    fs::write(&left, "x").unwrap();
    let file = json!({ "path": left, "word": word });
    let file = json!({ "make": { "id": 1, "change": { "kind": "file", "target": "f", "details": file } } });
    let owner = Owner { boot: "the one before".to_owned(), ..Owner::this().unwrap() };
    place.record(owner_line(&owner) + &value_line(0, &place.one) + &line(&file));
    let recovery = journal(place.folder.path()).recover().unwrap();
    assert_eq!((recovery.absent.len(), recovery.undone.len()), (1, 1), "{recovery:?}");
    assert_eq!(place.read(), ["1", "1"], "the value of this boot is nobody's change");
    assert!(!left.exists() && records(place.folder.path()).is_empty());
}

#[test]
fn a_folder_that_others_can_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let refused = Journal::open(folder.path(), vec![Box::new(Values::system()), Box::new(Files)]).unwrap_err();
    assert!(matches!(refused, JournalError::Unsafe { .. }), "{refused}");
    assert!(refused.to_string().contains("its mode is 777"), "{refused}");
}
