//! How much disk space a workload's database takes: the data that is kept, a copy of it for each run, and the log.

use crate::dataset_cache::{self, Kept};
use crate::folders::{Folders, Room};
use crate::kind::Kind;
use crate::parameters::Common;
use baremark_model::fingerprint;
use baremark_model::job::JobError;
use baremark_model::units::Bytes;
use baremark_stats::Rng;
use std::path::Path;

/// Room for the log of a database in addition to its data, as a share of that and at least so much.
const LOG_BYTES: u64 = 256 << 20;
const REMEDY: &str = "make room, lower the scale, or name another folder with the parameter data";
/// What makes the rows of every workload.
const SOURCES: [&str; 2] = [fingerprint!("draws.rs"), fingerprint!("loading.rs")];

/// The data of a workload, loaded or to be loaded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Data {
    /// The workload's name with its scale, such as `order-entry-1`.
    name: String,
    /// The database, as a study has it.
    database: &'static str,
    /// Bytes of the loaded database, about; of both sites where there are two.
    bytes: u64,
    has_two_sites: bool,
    /// Where it is kept, and where copies of it run.
    folders: Folders,
    /// The database is on a server that is there already.
    is_external: bool,
    /// The digest of what makes it.
    pub made_by: String,
}

impl Data {
    /// The data of the workload `name`, which has about `bytes` of its own; `sources` are the texts of its schema and generator.
    pub(crate) fn of(name: String, bytes: u64, sources: &[&str], common: &Common) -> Data {
        let setup = &common.setup;
        let has_two_sites = setup.sites.is_some_and(|sites| sites.round_trip.is_some());
        let is_external = setup.external.is_some();
        let base = if is_external { 0 } else { setup.kind.base_bytes() };
        let bytes = (1 + u64::from(has_two_sites)) * (bytes + base);
        let (database, folders) = (setup.kind.word(), common.folders.clone());
        let made_by = made_by(sources, setup.kind);
        Data { name, database, bytes, has_two_sites, folders, is_external, made_by }
    }

    /// The name of its place among kept data, for a database of this version.
    pub(crate) fn place(&self, version: &str) -> String {
        format!("{}-{}-{}", self.database, self.name, folder_word(version))
    }

    /// A copy of it for a run, and the log.
    fn copy(&self) -> u64 {
        self.bytes + self.bytes / 2 + LOG_BYTES
    }

    /// What a run takes in all, beyond what is kept already.
    fn needed(&self, is_kept: bool) -> u64 {
        self.copy() + if is_kept { 0 } else { self.bytes }
    }

    /// What there is too little of; `None` where there is enough.
    fn lacking(&self, is_kept: bool, room: Room) -> Option<String> {
        let shown = |path: Option<&Path>| path.map(|path| path.display().to_string()).unwrap_or_default();
        let (kept, running) = (shown(self.folders.kept.as_deref()), shown(Some(&self.folders.running)));
        let (bytes, needed) = (Bytes(self.bytes), Bytes(self.needed(is_kept)));
        match room.running {
            None if room.kept < needed.0 => Some(format!(
                "{kept} has {:.1} free; the database takes {bytes:.1}, and {needed:.1} with a copy for each run and its log",
                Bytes(room.kept)
            )),
            Some(_) if !is_kept && room.kept < self.bytes => {
                Some(format!("{kept} has {:.1} free; the database takes {bytes:.1}", Bytes(room.kept)))
            }
            Some(free) if free < self.copy() => Some(format!(
                "{running} has {:.1} free; a copy of the database for each run and its log take {:.1}",
                Bytes(free),
                Bytes(self.copy())
            )),
            _ => None,
        }
    }

    /// Refuses a disk that is too small for the kept data, a copy of it and the database's log.
    ///
    /// # Errors
    /// [`JobError::Missing`] with what is free and what is needed.
    pub(crate) fn fits(&self, is_kept: bool, room: Room) -> Result<(), JobError> {
        let refused = |what| Err(JobError::Missing { what, remedy: REMEDY.to_owned() });
        self.lacking(is_kept, room).map_or(Ok(()), refused)
    }

    /// What is free where it is kept and runs, on this machine; the folders need not be there yet.
    pub(crate) fn free(&self) -> Option<Room> {
        Room::of(&self.folders).ok()
    }

    /// How much it takes, in words. `environments` is where; `free` is what is free there, absent where that is known there alone.
    pub(crate) fn words(&self, environments: &str, free: Option<Room>) -> String {
        let bytes = Bytes(self.bytes);
        let sites = if self.has_two_sites { " at two sites" } else { "" };
        let what = format!("{} on {} in {environments}{sites}", self.name, self.database);
        if self.is_external {
            return format!(
                "{what}: loads about {bytes:.1} into the database of url; its server's free space is not known here"
            );
        }
        let (Some(room), Some(root)) = (free, &self.folders.kept) else {
            return format!(
                "{what}: loads about {bytes:.1} into {}; it takes {:.1} with a copy for each run and its log, and is refused where that is not free",
                self.folders.there(),
                Bytes(self.needed(false))
            );
        };
        let version = Kind::of(self.database).and_then(|kind| kind.version().ok());
        let is_kept = version.is_some_and(|version| Kept::is_at(root, &self.place(&version), &self.made_by));
        let (root, running) = (root.display(), self.folders.running.display());
        let (needed, copy) = (Bytes(self.needed(is_kept)), Bytes(self.copy()));
        let takes = match (is_kept, room.running) {
            (true, None) => {
                format!("about {bytes:.1} are loaded already in {root}; a run takes {needed:.1} for a copy and its log")
            }
            (false, None) => {
                format!("loads about {bytes:.1} into {root}; it takes {needed:.1} with a copy for each run and its log")
            }
            (true, Some(_)) => format!(
                "about {bytes:.1} are loaded already in {root}; a run takes {copy:.1} in {running} for a copy and its log"
            ),
            (false, Some(_)) => format!(
                "loads about {bytes:.1} into {root}, where {:.1} are free; a run takes {copy:.1} in {running} for a copy and its log",
                Bytes(room.kept)
            ),
        };
        let remedy = self.lacking(is_kept, room).map_or_else(String::new, |_| format!(", too little: {REMEDY}"));
        format!("{what}: {takes}; {:.1} are free{remedy}", Bytes(room.running.unwrap_or(room.kept)))
    }
}

/// The digest of what makes the data of a workload: the texts of its schema and generator, of what all workloads share, and of what makes an
/// empty database of this kind.
fn made_by(sources: &[&str], kind: Kind) -> String {
    // Of the generator of random numbers, what comes out of it.
    let mut rng = Rng::new(1);
    let drawn = format!("{} {} {}", rng.next_u64(), rng.below(1000), rng.exponential());
    let service = kind.service().map_or("", |service| service.source());
    dataset_cache::digest(SOURCES.iter().chain(sources).copied().chain([service, &drawn]))
}

/// A version as part of a folder's name.
fn folder_word(version: &str) -> String {
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let start = version.find(|c: char| c.is_ascii_digit()).unwrap_or(version.len());
    version[start..].chars().take_while(|c| digits(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn data(root: &Path) -> Data {
        let (name, folders) = ("order-entry-1".to_owned(), Folders::named(root.to_owned()));
        let made_by = made_by(&["create table"], Kind::Sqlite);
        Data { name, database: "sqlite", bytes: 100 * MIB, has_two_sites: false, folders, is_external: false, made_by }
    }

    fn room(kept: u64, running: Option<u64>) -> Room {
        Room { kept, running }
    }

    #[test]
    fn a_version_is_a_part_of_a_name() {
        assert_eq!(folder_word("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)"), "15.14");
        assert_eq!(folder_word(""), "");
    }

    #[test]
    fn what_is_needed_is_stated_as_it_is_checked() {
        let root = tempfile::tempdir().expect("a folder");
        let data = data(root.path());
        let needed = 2 * 100 * MIB + 50 * MIB + LOG_BYTES;
        assert_eq!(data.fits(false, room(needed, None)), Ok(()));
        let refused = data.fits(false, room(needed - 1, None)).expect_err("a byte too little").to_string();
        assert!(refused.contains("the database takes 100.0 MiB, and 506.0 MiB with a copy"), "{refused}");
        let said = data.words("native", Some(room(needed, None)));
        let expected = format!(
            "order-entry-1 on sqlite in native: loads about 100.0 MiB into {}; it takes 506.0 MiB with a copy for each run and its log; 506.0 MiB are free",
            root.path().display()
        );
        assert_eq!(said, expected);
        let said = data.words("native", Some(room(needed - 1, None)));
        assert!(said.contains("too little: make room"), "{said}");
    }

    #[test]
    fn data_that_is_kept_takes_a_copy_less() {
        let root = tempfile::tempdir().expect("a folder");
        let data = data(root.path());
        let version = Kind::Sqlite.version().expect("it is embedded");
        let kept = Kept::open(root.path(), &data.place(&version)).expect("a place").made_by(data.made_by.clone());
        let loaded = root.path().join("loaded");
        std::fs::create_dir(&loaded).expect("a folder");
        kept.put(&loaded).expect("it is kept");
        let said = data.words("native", Some(room(1 << 40, None)));
        assert!(said.contains("are loaded already") && said.contains("a run takes 406.0 MiB"), "{said}");
        assert_eq!(data.fits(true, room(406 * MIB, None)), Ok(()));
        let other = Data { made_by: made_by(&["create table other"], Kind::Sqlite), ..data };
        let said = other.words("native", Some(room(1 << 40, None)));
        assert!(said.contains("loads about 100.0 MiB into"), "of another schema: {said}");
    }

    /// Kept data and the copies of runs may be on two file systems: each needs its part.
    #[test]
    fn each_file_system_has_to_have_room_for_its_part() {
        let root = tempfile::tempdir().expect("a folder");
        let data =
            Data { folders: Folders { running: "/run-here".into(), ..data(root.path()).folders }, ..data(root.path()) };
        let (kept, copy) = (100 * MIB, 406 * MIB);
        assert_eq!(data.fits(false, room(kept, Some(copy))), Ok(()));
        assert_eq!(data.fits(true, room(0, Some(copy))), Ok(()));
        let why = |is_kept, room| data.fits(is_kept, room).expect_err("a byte too little").to_string();
        assert!(why(false, room(kept - 1, Some(copy))).contains("the database takes 100.0 MiB"));
        let refused = why(true, room(kept, Some(copy - 1)));
        assert!(
            refused.contains("/run-here has 406.0 MiB free; a copy of the database for each run and its log take"),
            "{refused}"
        );
        let said = data.words("native", Some(room(kept, Some(copy))));
        let expected =
            "where 100.0 MiB are free; a run takes 406.0 MiB in /run-here for a copy and its log; 406.0 MiB are free";
        assert!(said.ends_with(expected), "{said}");
    }

    #[test]
    fn free_space_is_not_stated_where_it_is_not_known() {
        let mut data = data(Path::new("/nowhere"));
        let there = data.words("container", None);
        assert!(there.contains("in container: loads about 100.0 MiB") && !there.contains("are free"), "{there}");
        data.has_two_sites = true;
        data.folders.is_named = false;
        assert!(data.words("container", None).contains("into its user's data folder there;"));
        let both = data.words("native", None);
        assert!(both.contains("sqlite in native at two sites: loads about"), "{both}");
        data.is_external = true;
        let external = data.words("native", Some(room(0, None)));
        assert!(external.contains("database of url") && !external.contains("too little"), "{external}");
    }
}
