//! How much disk space a workload's database takes: the data that is kept, a copy of it for each run, and the log.

use crate::kept::Kept;
use crate::kind::Kind;
use crate::parameters::Common;
use baremark_model::job::JobError;
use baremark_model::units::Bytes;
use baremark_sys::file_system::FileSystem;
use std::path::PathBuf;

/// Room for the log of a database in addition to its data, as a share of that and at least so much.
const LOG_BYTES: u64 = 256 << 20;
const REMEDY: &str = "make room, lower the scale, or name another folder with the parameter data";

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
    /// Where it is kept.
    root: PathBuf,
    /// The database is on a server that is there already.
    is_external: bool,
}

impl Data {
    /// The data of the workload `name`, which has about `bytes` of its own.
    pub(crate) fn of(name: String, bytes: u64, common: &Common) -> Data {
        let setup = &common.setup;
        let has_two_sites = setup.sites.is_some_and(|sites| sites.round_trip.is_some());
        let is_external = setup.external.is_some();
        let base = if is_external { 0 } else { setup.kind.base_bytes() };
        let bytes = (1 + u64::from(has_two_sites)) * (bytes + base);
        Data { name, database: setup.kind.word(), bytes, has_two_sites, root: common.root.clone(), is_external }
    }

    /// The name of its place among kept data, for a database of this version.
    pub(crate) fn place(&self, version: &str) -> String {
        format!("{}-{}-{}", self.database, self.name, folder_word(version))
    }

    /// What a run takes in all, beyond what is kept already.
    fn needed(&self, is_kept: bool) -> u64 {
        let copies = if is_kept { 1 } else { 2 };
        copies * self.bytes + self.bytes / 2 + LOG_BYTES
    }

    /// Refuses a disk that is too small for the kept data, a copy of it and the database's log.
    ///
    /// # Errors
    /// [`JobError::Missing`] with what is free and what is needed.
    pub(crate) fn fits(&self, is_kept: bool, free: u64) -> Result<(), JobError> {
        let needed = self.needed(is_kept);
        if free >= needed {
            return Ok(());
        }
        Err(JobError::Missing {
            what: format!(
                "{} has {:.1} free; the database takes {:.1}, and {:.1} with a copy for each run and its log",
                self.root.display(),
                Bytes(free),
                Bytes(self.bytes),
                Bytes(needed)
            ),
            remedy: REMEDY.to_owned(),
        })
    }

    /// What is free where it is kept, on this machine; the folder need not be there yet.
    pub(crate) fn free(&self) -> Option<u64> {
        let there = self.root.ancestors().find(|path| path.exists())?;
        FileSystem::of(there).ok().map(|system| system.free_bytes)
    }

    /// How much it takes, in words. `environments` is where; `free` is what is free there, absent where that is known there alone.
    pub(crate) fn words(&self, environments: &str, free: Option<u64>) -> String {
        let (bytes, root) = (Bytes(self.bytes), self.root.display());
        let sites = if self.has_two_sites { " at two sites" } else { "" };
        let what = format!("{} on {} in {environments}{sites}", self.name, self.database);
        if self.is_external {
            return format!(
                "{what}: loads about {bytes:.1} into the database of url; its server's free space is not known here"
            );
        }
        let Some(free) = free else {
            return format!(
                "{what}: loads about {bytes:.1} into {root} there; it takes {:.1} with a copy for each run and its log, and is refused where that is not free",
                Bytes(self.needed(false))
            );
        };
        let kept = Kind::of(self.database).and_then(|kind| kind.version().ok());
        let is_kept = kept.is_some_and(|version| Kept::is_at(&self.root, &self.place(&version)));
        let needed = self.needed(is_kept);
        let takes = match is_kept {
            true => format!(
                "about {bytes:.1} are loaded already in {root}; a run takes {:.1} for a copy and its log",
                Bytes(needed)
            ),
            false => format!(
                "loads about {bytes:.1} into {root}; it takes {:.1} with a copy for each run and its log",
                Bytes(needed)
            ),
        };
        let remedy = if free < needed { format!(", too little: {REMEDY}") } else { String::new() };
        format!("{what}: {takes}; {:.1} are free{remedy}", Bytes(free))
    }
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
    use std::path::Path;

    const MIB: u64 = 1 << 20;

    fn data(root: &Path) -> Data {
        let (name, root) = ("order-entry-1".to_owned(), root.to_owned());
        Data { name, database: "sqlite", bytes: 100 * MIB, has_two_sites: false, root, is_external: false }
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
        assert_eq!(data.fits(false, needed), Ok(()));
        let refused = data.fits(false, needed - 1).expect_err("a byte too little").to_string();
        assert!(refused.contains("the database takes 100.0 MiB, and 506.0 MiB with a copy"), "{refused}");
        let said = data.words("native", Some(needed));
        let expected = format!(
            "order-entry-1 on sqlite in native: loads about 100.0 MiB into {}; it takes 506.0 MiB with a copy for each run and its log; 506.0 MiB are free",
            root.path().display()
        );
        assert_eq!(said, expected);
        let said = data.words("native", Some(needed - 1));
        assert!(said.contains("too little: make room"), "{said}");
    }

    #[test]
    fn data_that_is_kept_takes_a_copy_less() {
        let root = tempfile::tempdir().expect("a folder");
        let data = data(root.path());
        let version = Kind::Sqlite.version().expect("it is embedded");
        let kept = Kept::open(root.path(), &data.place(&version)).expect("a place");
        let loaded = root.path().join("loaded");
        std::fs::create_dir(&loaded).expect("a folder");
        kept.put(&loaded).expect("it is kept");
        let said = data.words("native", Some(1 << 40));
        assert!(said.contains("are loaded already") && said.contains("a run takes 406.0 MiB"), "{said}");
        assert_eq!(data.fits(true, 406 * MIB), Ok(()));
    }

    #[test]
    fn free_space_is_not_stated_where_it_is_not_known() {
        let mut data = data(Path::new("/nowhere"));
        let there = data.words("container", None);
        assert!(there.contains("in container: loads about 100.0 MiB") && !there.contains("are free"), "{there}");
        data.has_two_sites = true;
        let both = data.words("native", None);
        assert!(both.contains("sqlite in native at two sites: loads about"), "{both}");
        data.is_external = true;
        let external = data.words("native", Some(0));
        assert!(external.contains("database of url") && !external.contains("too little"), "{external}");
    }
}
