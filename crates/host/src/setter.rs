//! Setting features between trials and undoing them at the end.

use crate::feature::{Absent, FEATURES, Feature, probe, written};
use crate::vms;
use baremark_journal::value::{self, read};
use baremark_journal::{Held, Journal, MakeError};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Why a feature could not be set.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// There is no feature of this key.
    #[error("unknown feature of the host: '{0}'")]
    Unknown(String),
    /// This machine lacks it.
    #[error("{key} is not available here: {source}")]
    Absent {
        /// The feature.
        key: &'static str,
        /// Why.
        #[source]
        source: Absent,
    },
    /// A virtual machine runs that depends on it.
    #[error("{key}: process {pid} runs a virtual machine that depends on it; end it first")]
    InUse {
        /// The feature.
        key: &'static str,
        /// The process.
        pid: u32,
    },
    /// It could not be recorded or written.
    #[error("{key}: {path}: {source}")]
    Set {
        /// The feature.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: MakeError<io::Error>,
    },
    /// Somebody else has changed it since.
    #[error("{key}: {path} is '{found}', not '{expected}' as it was set; somebody else changes this host")]
    Changed {
        /// The feature.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What it was set to.
        expected: String,
    },
}

/// What is set of one feature. The holds undo it when they are dropped.
struct Set {
    level: String,
    values: Vec<(PathBuf, String)>,
    _held: Vec<Held>,
}

/// The features of this host as a study has set them; all are undone when it is dropped.
pub struct Setter {
    journal: Journal,
    root: PathBuf,
    set: BTreeMap<&'static str, Set>,
}

impl Setter {
    /// One that records its changes in `journal`, of files below `root` (`/` but in tests).
    #[must_use]
    pub fn new(journal: Journal, root: &Path) -> Setter {
        Setter { journal, root: root.to_owned(), set: BTreeMap::new() }
    }

    /// Sets a feature, unless it is at this level already by an earlier call: then it is read back.
    ///
    /// # Errors
    /// When this machine lacks it, something depends on it, it cannot be recorded or written, or somebody else has changed it.
    pub fn set(&mut self, key: &str, level: &str) -> Result<(), HostError> {
        let feature = FEATURES.iter().find(|feature| feature.key == key);
        let feature = feature.ok_or_else(|| HostError::Unknown(key.to_owned()))?;
        if let Some(now) = self.set.get(feature.key).filter(|now| now.level == level) {
            return unchanged(feature.key, now);
        }
        let absent = |source| HostError::Absent { key: feature.key, source };
        let (source, files) = probe(feature, &self.root).map_err(absent)?;
        let values = written(source, &files, level).map_err(absent)?;
        free(feature)?;
        // What the level before changed is undone first: each file has one owner, and what was there before the study is what is recorded.
        self.set.remove(feature.key);
        let mut held = Vec::new();
        for (path, value) in &values {
            let set = value::set(&self.journal, path, value);
            held.push(set.map_err(|source| HostError::Set { key: feature.key, path: path.clone(), source })?);
        }
        self.set.insert(feature.key, Set { level: level.to_owned(), values, _held: held });
        Ok(())
    }
}

/// Refuses a feature on which a running virtual machine depends.
fn free(feature: &Feature) -> Result<(), HostError> {
    match vms::running().first().filter(|_| feature.used_by_vms) {
        Some(&pid) => Err(HostError::InUse { key: feature.key, pid }),
        None => Ok(()),
    }
}

fn unchanged(key: &'static str, set: &Set) -> Result<(), HostError> {
    for (path, expected) in &set.values {
        let found = read(path).unwrap_or_else(|why| why.to_string());
        if found != *expected {
            return Err(HostError::Changed { key, path: path.clone(), found, expected: expected.clone() });
        }
    }
    Ok(())
}
