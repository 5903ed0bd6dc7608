//! Files of records that are torn, damaged, of another boot, or written by somebody who means harm.

use crate::{journal, records};
use baremark_journal::owner::Owner;
use baremark_journal::value::{self, Values};
use baremark_journal::{Journal, JournalError, Kind, Undone, file::Files};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Whoever wrote a file that no process has locked.
fn dead() -> Owner {
    Owner::this().unwrap()
}

fn line(record: &serde_json::Value) -> String {
    let json = record.to_string();
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

fn owner_line(owner: &Owner) -> String {
    line(&json!({ "owner": { "format": 2, "owner": owner } }))
}

fn file_line(id: u64, path: &Path) -> String {
    let details = json!({ "path": path });
    line(&json!({ "make": { "id": id, "change": { "kind": "file", "target": path, "details": details } } }))
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
        fs::write(self.path("journal/77-1.journal"), text).unwrap();
    }

    /// Without a link in it.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
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
        let refused = recovery.refused.len() + recovery.failed.len() + recovery.damaged.len();
        let settled = recovery.undone.len() + recovery.absent.len() + recovery.held + refused;
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
    let unknown = json!({ "make": { "id": 3, "change": { "kind": "teapot", "target": "t", "details": {} } } });
    let lines =
        value_line(0, elsewhere.path()) + &value_line(1, &link) + &file_line(2, elsewhere.path()) + &line(&unknown);
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
    let left = place.path(&format!("baremark-{word}"));
    fs::write(&left, "x").unwrap();
    let owner = Owner { boot: "the one before".to_owned(), ..Owner::this().unwrap() };
    place.record(owner_line(&owner) + &value_line(0, &place.one) + &file_line(1, &left));
    let recovery = journal(place.folder.path()).recover().unwrap();
    assert_eq!((recovery.absent.len(), recovery.undone.len()), (1, 1), "{recovery:?}");
    assert_eq!(place.read(), ["1", "1"], "the value of this boot is nobody's change");
    assert!(!left.exists() && records(place.folder.path()).is_empty());
}

#[test]
fn changes_of_another_machine_that_has_the_same_folder_are_left_to_it() {
    let place = place();
    let this = Owner::this().unwrap();
    let Some(machine) = this.machine.clone() else { return eprintln!("skipped: no /etc/machine-id") };
    let owner = Owner { boot: "another".to_owned(), machine: Some(format!("not-{machine}")), ..this };
    place.record(owner_line(&owner) + &value_line(0, &place.one));
    let recovery = journal(place.folder.path()).recover().unwrap();
    assert!(recovery.is_quiet() && recovery.held == 1, "{recovery:?}");
    assert_eq!(records(place.folder.path()), ["77-1.journal"]);
}

#[test]
fn records_of_another_format_are_not_obeyed_and_named_and_kept() {
    let place = place();
    for format in [1, 3] {
        let owner = line(&json!({ "owner": { "format": format, "owner": { "what": "this version cannot know" } } }));
        place.record(owner + &value_line(0, &place.one));
        let journal = journal(place.folder.path());
        let recovery = journal.recover().unwrap();
        let (path, why) = &recovery.refused[0];
        assert!(path.ends_with("77-1.journal") && why.contains(&format!("its format is {format}")), "{recovery:?}");
        assert_eq!((place.read(), recovery.undone.len()), (["1".into(), "1".into()], 0));
        assert_eq!(records(place.folder.path()), ["77-1.journal"]);
        // It does not keep this version from its work.
        drop(value::set(&journal, &place.one, "2").unwrap());
    }
}

#[test]
fn pipes_links_and_files_of_others_are_neither_waited_for_nor_changed_nor_obeyed() {
    let place = place();
    let whole = owner_line(&dead()) + &value_line(0, &place.one);
    let target = place.path("target");
    fs::write(&target, &whole).unwrap();
    symlink(&target, place.path("journal/1-link.journal")).unwrap();
    mknodat(CWD, place.path("journal/2-pipe.journal"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::write(place.path("journal/3-open.journal"), &whole).unwrap();
    fs::set_permissions(place.path("journal/3-open.journal"), fs::Permissions::from_mode(0o666)).unwrap();
    let mut reasons = vec!["it is a link", "not a regular file", "others may write it (mode 666)"];
    let others = place.path("journal/4-others.journal");
    fs::write(&others, &whole).unwrap();
    match std::os::unix::fs::chown(&others, Some(65_534), None) {
        Ok(()) => reasons.push("it belongs to user 65534"),
        // It cannot be given away: it must not be there.
        Err(_) => fs::remove_file(&others).unwrap(),
    }
    let own = journal(place.folder.path());
    let recovery = own.recover().unwrap();
    let found: Vec<&str> = recovery.refused.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(found, reasons, "{recovery:?}");
    assert_eq!((place.read(), recovery.undone.len()), (["1".into(), "1".into()], 0));
    assert_eq!(fs::read_to_string(&target).unwrap(), whole, "what a link leads to is not changed");
    drop(value::set(&own, &place.one, "2").unwrap());
    assert_eq!(records(place.folder.path()).len(), reasons.len(), "kept for a person");
}

#[test]
fn a_lock_that_is_no_file_is_refused_at_once_and_what_it_leads_to_is_not_changed() {
    let place = place();
    let target = place.path("target");
    fs::write(&target, "kept").unwrap();
    let lock = place.path("journal/lock");
    for pipe in [true, false] {
        drop(fs::remove_file(&lock));
        match pipe {
            true => mknodat(CWD, &lock, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
            false => symlink(&target, &lock).unwrap(),
        }
        let journal = journal(place.folder.path());
        journal.recover().expect_err("the lock is no file");
        value::set(&journal, &place.one, "2").expect_err("the lock is no file");
    }
    assert_eq!((fs::read_to_string(&target).unwrap().as_str(), place.read()), ("kept", ["1".into(), "1".into()]));
}

#[test]
fn a_file_is_removed_only_where_its_record_leads_to_what_a_run_makes() {
    let place = place();
    let outside = tempfile::tempdir().unwrap();
    let kept = outside.path().join("baremark-work-1-0");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("file"), "x").unwrap();
    // A folder with a link inside goes, and not what it leads to.
    let own = place.path("baremark-work-7-0");
    fs::create_dir(&own).unwrap();
    symlink(&kept, own.join("link")).unwrap();
    // A link of that name goes itself.
    let link = place.path("baremark-work-7-1");
    symlink(&kept, &link).unwrap();
    // A link on the way is not followed.
    symlink(outside.path(), place.path("way")).unwrap();
    let by_link = place.path("way/baremark-work-1-0");
    let up = place.path("baremark-work-7-0").join("..").join("baremark-work-7-2");
    let plain = place.path("one");
    let lines = [&own, &link, &by_link, &up, &plain];
    let text: String = lines.iter().enumerate().map(|(id, path)| file_line(id as u64, path)).collect();
    place.record(owner_line(&dead()) + &text);
    let recovery = journal(place.folder.path()).recover().unwrap();
    assert_eq!((recovery.undone.len(), recovery.failed.len()), (2, 3), "{recovery:?}");
    assert!(!own.exists() && fs::symlink_metadata(&link).is_err());
    assert!(kept.join("file").exists() && plain.exists());
}

#[test]
fn a_folder_that_a_living_process_has_locked_stays_with_its_record() {
    let place = place();
    let folder = place.path("baremark-farm-7-0");
    fs::create_dir(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    place.record(owner_line(&dead()) + &file_line(0, &folder));
    let recovery = journal(place.folder.path()).recover().unwrap();
    assert!(recovery.is_quiet() && recovery.held == 1 && folder.exists(), "{recovery:?}");
    drop(lock);
    // As it is before it has its lock.
    fs::create_dir(place.path("baremark-farm-7-0.new")).unwrap();
    let recovery = journal(place.folder.path()).recover().unwrap();
    assert_eq!(recovery.undone, [folder.display().to_string()], "{recovery:?}");
    assert!(!folder.exists() && !place.path("baremark-farm-7-0.new").exists());
}

#[test]
fn a_folder_that_others_can_enter_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let changes = folder.path().join("changes");
    fs::create_dir(&changes).unwrap();
    for mode in [0o777, 0o750] {
        fs::set_permissions(&changes, fs::Permissions::from_mode(mode)).unwrap();
        let refused = Journal::open(&changes, vec![Box::new(Values::system()), Box::new(Files)]).unwrap_err();
        assert!(matches!(refused, JournalError::Unsafe { .. }), "{refused}");
        assert!(refused.to_string().contains(&format!("(mode {mode:04o}); chmod 700 ")), "{refused}");
    }
}

/// Something of which there is no more than a record: it cannot be undone as long as the file of its details is there.
struct Used;

impl Kind for Used {
    fn name(&self) -> &'static str {
        "used"
    }

    fn undo(&self, details: &serde_json::Value) -> io::Result<Undone> {
        match details["by"].as_str().is_some_and(|path| Path::new(path).exists()) {
            true => Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty)),
            false => Ok(Undone::Done),
        }
    }
}

#[test]
fn what_another_dead_owners_change_uses_is_undone_after_it() {
    let place = place();
    let user = place.path("baremark-work-7-0");
    fs::write(&user, "").unwrap();
    let used = |id: u64, by: &Path| {
        line(&json!({ "make": { "id": id, "change": { "kind": "used", "target": "used", "details": { "by": by } } } }))
    };
    // The user's record is read after that of what it uses.
    place.record(owner_line(&dead()) + &used(0, &user));
    fs::write(place.path("journal/88-1.journal"), owner_line(&dead()) + &file_line(0, &user)).unwrap();
    let journal = Journal::open(place.path("journal"), vec![Box::new(Used), Box::new(Files)]).unwrap();
    let recovery = journal.recover().unwrap();
    assert!(recovery.failed.is_empty(), "{recovery:?}");
    assert_eq!(recovery.undone, [user.display().to_string(), "used".to_owned()]);
    assert!(records(place.folder.path()).is_empty());

    // What stays in use is said once, and its record is kept.
    place.record(owner_line(&dead()) + &used(0, &place.one));
    let recovery = journal.recover().unwrap();
    assert_eq!(recovery.failed.len(), 1, "{recovery:?}");
    assert_eq!(records(place.folder.path()), ["77-1.journal"]);
}

/// A change that a living process still has, and one that cannot be undone.
struct Refusing;

impl Kind for Refusing {
    fn name(&self) -> &'static str {
        "refusing"
    }

    fn undo(&self, details: &serde_json::Value) -> io::Result<Undone> {
        match details["held"] == true {
            true => Err(io::Error::from(io::ErrorKind::WouldBlock)),
            false => Err(io::Error::other("it refuses")),
        }
    }
}

/// The changes of an owner some of which failed are tried again once those of all others are undone.
#[test]
fn a_change_that_is_held_counts_once_however_often_it_is_tried() {
    let change = |id: u64, held: bool| {
        let target = if held { "held" } else { "refused" };
        let change = json!({ "kind": "refusing", "target": target, "details": { "held": held } });
        line(&json!({ "make": { "id": id, "change": change } }))
    };
    let both = owner_line(&dead()) + &change(0, true) + &change(1, false);
    let refused = [("refused".to_owned(), "it refuses".to_owned())];
    // A damaged file is not read again.
    for (text, damaged) in [(both.clone(), 0), (both + "torn in the middle\n", 1)] {
        let place = place();
        place.record(text);
        let journal = Journal::open(place.path("journal"), vec![Box::new(Refusing)]).unwrap();
        let recovery = journal.recover().unwrap();
        assert_eq!((recovery.held, &recovery.failed[..]), (1, &refused[..]), "{recovery:?}");
        assert_eq!((recovery.damaged.len(), recovery.undone.len()), (damaged, 0), "{recovery:?}");
        assert_eq!(records(place.folder.path()), ["77-1.journal"]);
    }
}
