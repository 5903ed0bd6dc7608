//! Setting features between trials and undoing them at the end.

use crate::feature::{Absent, FEATURES, Feature, Host, Levels, Source, probe, written};
use crate::module;
use crate::vms::{self, Vms};
use baremark_journal::value::Setting;
use baremark_journal::{Held, Journal, MakeError};
use baremark_sys::point;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

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
    /// A virtual machine may run that depends on it.
    #[error("{key}: whether a virtual machine depends on it is unknown: {why}")]
    VmsUnknown {
        /// The feature.
        key: &'static str,
        /// Why it is unknown, with the remedy.
        why: String,
    },
    /// Something uses the module that has to be loaded again.
    #[error("{key}: {why}; end what uses it first")]
    ModuleInUse {
        /// The feature.
        key: &'static str,
        /// What.
        why: String,
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
    values: Vec<(Setting, String)>,
    _held: Vec<Held>,
}

/// The features of this host as a study has set them; all are undone when it is dropped.
pub struct Setter {
    journal: Journal,
    host: Host,
    set: BTreeMap<&'static str, Set>,
}

impl Setter {
    /// One that records its changes to `host` in `journal`.
    #[must_use]
    pub fn new(journal: Journal, host: Host) -> Setter {
        Setter { journal, host, set: BTreeMap::new() }
    }

    /// Whether a feature can be set to a level, as far as that is known before it is.
    ///
    /// # Errors
    /// When this machine lacks it.
    pub fn offers(&self, key: &str, level: &str) -> Result<(), HostError> {
        self.wanted(known(key)?, level).map(drop)
    }

    /// Sets a feature, unless it is at this level already by an earlier call: then it is read back.
    ///
    /// # Errors
    /// When this machine lacks it, something depends on it, it cannot be recorded or written, or somebody else has changed it.
    pub fn set(&mut self, key: &str, level: &str) -> Result<(), HostError> {
        let feature = known(key)?;
        if let Some(now) = self.set.get(feature.key).filter(|now| now.level == level) {
            return unchanged(feature.key, now);
        }
        let (source, wanted) = self.wanted(feature, level)?;
        free(feature, &self.host)?;
        self.loadable(feature.key, source, &wanted)?;
        // What the level before changed is undone first: each file has one owner, and what was there before the study is what is recorded.
        if self.set.remove(feature.key).is_some() {
            point::reached("host-undone");
        }
        let (mut values, mut held, mut refused) = (Vec::new(), Vec::new(), None);
        for (setting, value) in wanted {
            match self.change(source, &setting, &value) {
                Ok(hold) => {
                    held.push(hold);
                    values.push((setting, value));
                }
                // An interrupt that the kernel does not let move is no reason against the others.
                Err(why @ MakeError::Change(_)) if matches!(source.levels, Levels::Cpus) => {
                    refused = Some((setting.path, why));
                }
                Err(source) => return Err(HostError::Set { key: feature.key, path: setting.path, source }),
            }
        }
        if let (true, Some((path, source))) = (held.is_empty(), refused) {
            return Err(HostError::Set { key: feature.key, path, source });
        }
        self.set.insert(feature.key, Set { level: level.to_owned(), values, _held: held });
        point::reached("host-set");
        Ok(())
    }

    /// The source of a feature that this host has, and what is written for a level.
    fn wanted(&self, feature: &Feature, level: &str) -> Result<(Source, Vec<(Setting, String)>), HostError> {
        let absent = |source| HostError::Absent { key: feature.key, source };
        let (source, files) = probe(feature, &self.host).map_err(absent)?;
        Ok((source, written(source, &files, level).map_err(absent)?))
    }

    fn change(&self, source: Source, setting: &Setting, value: &str) -> Result<Held, MakeError<io::Error>> {
        match source.levels {
            Levels::Loaded(name, _) => {
                let parameter = setting.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                module::set(&self.journal, name, parameter, value)
            }
            _ => setting.set(&self.journal, value),
        }
    }

    /// Refuses to load a module again that something uses, if it would have to be.
    fn loadable(&self, key: &'static str, source: Source, wanted: &[(Setting, String)]) -> Result<(), HostError> {
        let Levels::Loaded(name, _) = source.levels else { return Ok(()) };
        let there = wanted.iter().all(|(setting, value)| setting.read().is_ok_and(|now| now == *value));
        match module::used(&self.host.root, name).filter(|_| !there) {
            Some(why) => Err(HostError::ModuleInUse { key, why }),
            None => Ok(()),
        }
    }
}

fn known(key: &str) -> Result<&'static Feature, HostError> {
    FEATURES.iter().find(|feature| feature.key == key).ok_or_else(|| HostError::Unknown(key.to_owned()))
}

/// Refuses a feature on which a running virtual machine depends, or may depend.
fn free(feature: &Feature, host: &Host) -> Result<(), HostError> {
    if !feature.used_by_vms {
        return Ok(());
    }
    match vms::running(&host.root) {
        Vms::Absent => Ok(()),
        Vms::Held(pid) => Err(HostError::InUse { key: feature.key, pid }),
        Vms::Unknown(why) => Err(HostError::VmsUnknown { key: feature.key, why }),
    }
}

fn unchanged(key: &'static str, set: &Set) -> Result<(), HostError> {
    for (setting, expected) in &set.values {
        let found = setting.read().unwrap_or_else(|why| why.to_string());
        if found != *expected {
            return Err(HostError::Changed { key, path: setting.path.clone(), found, expected: expected.clone() });
        }
    }
    Ok(())
}
