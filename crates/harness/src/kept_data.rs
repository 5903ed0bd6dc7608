//! Loaded data that is kept for later runs: `data = "keep:FOLDER"`.
//!
//! What is kept says what it is: the program's version, the database server, the size, the seed and what else decides its rows.
//! Data that is something else than requested, or not as it was loaded, is refused and never loaded over: it may be what
//! somebody waited for. Each run works on a copy, every file of which is compared with its checksum, and whose rows the
//! application checks before it serves.

use baremark_databases::dataset_cache::{Held, Kept, KeptError};
use baremark_databases::server::ServerError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

const CONTENT: &str = "content.json";
const PASSWORD: &str = "password";

/// Why data that are kept cannot be used or kept.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Their folder cannot be used, or they are not as they were loaded.
    #[error("{folder}: {why}{}", remedy(.why))]
    Kept {
        /// Their folder.
        folder: PathBuf,
        /// Why.
        why: KeptError,
    },
    /// What they are, or the password of their accounts, cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Its file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file that says what they are cannot be read by this version.
    #[error("{path}: {source}")]
    Content {
        /// Its file.
        path: PathBuf,
        /// What is wrong in it.
        source: serde_json::Error,
    },
    /// They are other data than those that are requested.
    #[error(
        "{folder}: it holds other data ({differences}); keep these in another folder, or remove that one to load anew"
    )]
    Other {
        /// Their folder.
        folder: PathBuf,
        /// In what they differ.
        differences: String,
    },
    /// The application finds them broken.
    #[error("the data that are kept do not hold together: {0}; remove them to load anew")]
    Unsound(serde_json::Value),
    /// The version of the database server that makes them is unknown.
    #[error(transparent)]
    Version(#[from] ServerError),
}

fn remedy(why: &KeptError) -> &'static str {
    match why {
        KeptError::Damaged(_) | KeptError::Absent(_) => "; remove it to load anew",
        _ => "",
    }
}

fn in_folder(folder: &Path) -> impl Fn(KeptError) -> DataError + '_ {
    move |why| DataError::Kept { folder: folder.to_owned(), why }
}

/// What decides the rows, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Content(pub BTreeMap<String, String>);

/// A folder of loaded data for one application and one kind of database.
pub(crate) struct KeptData {
    kept: Kept,
    folder: PathBuf,
    content: Content,
    /// Nobody else loads or reads it while this run loads.
    _held: Option<Held>,
}

impl KeptData {
    /// Opens the folder `name` below `root`, waiting while another run loads into it.
    ///
    /// # Errors
    /// When it cannot be made or read, or holds other data than `content`.
    pub(crate) fn open(
        root: &Path,
        name: &str,
        content: Content,
        interrupt: &AtomicBool,
    ) -> Result<KeptData, DataError> {
        let kept = Kept::open(root, name).map_err(in_folder(root))?;
        let held = kept.hold(interrupt).map_err(in_folder(root))?;
        // What is there is read by several at once.
        let held = (!kept.is_there()).then_some(held);
        let data = KeptData { folder: kept.folder().path().to_owned(), kept, content, _held: held };
        if data.is_there() {
            data.fits()?;
        }
        Ok(data)
    }

    /// Whether there is data to reuse.
    pub(crate) fn is_there(&self) -> bool {
        self.kept.is_there()
    }

    /// Whether the data is what is requested.
    fn fits(&self) -> Result<(), DataError> {
        let path = || self.folder.join(CONTENT);
        let text = self.kept.folder().read_to_string(Path::new(CONTENT));
        let text = text.map_err(|source| DataError::File { path: path(), source })?;
        let there = serde_json::from_str(&text);
        let there: Content = there.map_err(|source| DataError::Content { path: path(), source })?;
        let none = String::new();
        let keys = self.content.0.keys().chain(there.0.keys()).collect::<std::collections::BTreeSet<_>>();
        let differs = |key: &&String| {
            let (old, new) = (there.0.get(*key).unwrap_or(&none), self.content.0.get(*key).unwrap_or(&none));
            (old != new).then(|| format!("{key} is '{old}', not '{new}'"))
        };
        let differences: Vec<String> = keys.iter().filter_map(differs).collect();
        match differences.is_empty() {
            true => Ok(()),
            false => Err(DataError::Other { folder: self.folder.clone(), differences: differences.join(", ") }),
        }
    }

    /// The secret of the database, which stays with its data.
    pub(crate) fn secret(&self) -> Result<String, DataError> {
        self.kept.secret().map_err(in_folder(&self.folder))
    }

    /// The password of the accounts in the data; absent before anything was kept.
    pub(crate) fn password(&self) -> Option<String> {
        self.kept.folder().read_to_string(Path::new(PASSWORD)).ok().filter(|_| self.is_there())
    }

    /// Keeps the data of a database that has stopped.
    pub(crate) fn put(&self, data: &Path, password: &str) -> Result<(), DataError> {
        let write = |name: &str, text: &str| {
            let written = self.kept.folder().replace(Path::new(name), text.as_bytes(), None);
            written.map_err(|source| DataError::File { path: self.folder.join(name), source })
        };
        write(CONTENT, &serde_json::to_string(&self.content).unwrap_or_default())?;
        write(PASSWORD, password)?;
        self.kept.put(data).map_err(in_folder(&self.folder))
    }

    /// Copies the data to where a stopped database has its own, and checks every file.
    pub(crate) fn take(&self, into: &Path, owner: Option<(u32, u32)>) -> Result<(), DataError> {
        self.kept.take(into, owner).map_err(in_folder(&self.folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn content(users: u64) -> Content {
        Content([("max_users".to_owned(), users.to_string()), ("seed".to_owned(), "1".to_owned())].into())
    }

    fn refused<T>(result: Result<T, DataError>) -> String {
        result.err().map(|why| why.to_string()).unwrap_or_default()
    }

    /// Whoever else may write the folder could have put any data there.
    #[test]
    fn a_folder_that_others_may_write_is_refused_with_the_remedy() {
        let root = tempfile::tempdir().expect("a folder");
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o770)).expect("it is ours");
        let why = refused(KeptData::open(root.path(), "main-sqlite", content(1), &AtomicBool::new(false)));
        assert!(why.contains("others may write") && why.contains("; chmod go-w "), "{why}");
        assert!(!root.path().join("main-sqlite").exists());
    }

    /// Data is reused when it is what is requested and as it was loaded; else the reason is told and nothing is changed.
    #[test]
    fn kept_data_is_refused_when_it_is_other_data_or_damaged() {
        let root = tempfile::tempdir().expect("a folder");
        let never = AtomicBool::new(false);
        let open = |users| KeptData::open(root.path(), "main-sqlite", content(users), &never);
        let data = root.path().join("loaded");
        fs::create_dir(&data).expect("a folder");
        fs::write(data.join("auction.db"), "rows").expect("a file");
        {
            let first = open(300).expect("nothing is there yet");
            assert!(!first.is_there() && first.password().is_none());
            first.put(&data, "pass").expect("it is kept");
        }
        let secret = {
            let again = open(300).expect("it fits");
            assert!(again.is_there());
            assert_eq!(again.password().as_deref(), Some("pass"));
            let into = root.path().join("copy");
            again.take(&into, None).expect("it is sound");
            assert_eq!(fs::read_to_string(into.join("auction.db")).expect("a file"), "rows");
            again.secret().expect("a secret")
        };
        let why = refused(open(600));
        assert!(
            why.contains("it holds other data (max_users is '300', not '600'); keep these in another folder"),
            "{why}"
        );
        fs::write(root.path().join("main-sqlite/data/auction.db"), "r0ws").expect("it is ours");
        let damaged = open(300).expect("it fits");
        let why = refused(damaged.take(&root.path().join("copy"), None));
        assert!(why.contains("is not as it was loaded; remove it to load anew"), "{why}");
        assert_eq!(damaged.secret().expect("a secret"), secret, "it stays with the data");
    }
}
