//! Trying a feature: it is set to another level than it has, read back, and undone.

use crate::cpus;
use crate::feature::{Feature, Host, Levels, PAGE_KIB, offered, probe, written};
use crate::setter::{HostError, Setter};
use baremark_journal::Journal;
use baremark_journal::value::{OFF, read};
use std::path::{Path, PathBuf};

/// What became of a feature that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It was set to this level, read back, and is as it was.
    Works(String),
    /// There is no level but the one that it has.
    Alone,
    /// A file is not as it was.
    NotUndone {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What it was.
        before: String,
    },
}

/// Sets a feature of `host` to the first other level that it takes, and undoes that.
///
/// # Errors
/// Why it cannot be set: this machine lacks it, a virtual machine depends on it, or the kernel refuses every other level.
pub fn tried(feature: &Feature, journal: Journal, host: &Host) -> Result<Tried, HostError> {
    let absent = |source| HostError::Absent { key: feature.key, source };
    let (source, files) = probe(feature, host).map_err(absent)?;
    let now = |file: &Path| read(file).unwrap_or_else(|why| why.to_string());
    let before: Vec<(PathBuf, String)> = files.iter().map(|file| (file.clone(), now(file))).collect();
    let changes = |level: &String| {
        let values = written(source, &files, level).unwrap_or_default();
        values.iter().any(|(setting, value)| setting.read().is_ok_and(|now| now != *value))
    };
    let mut setter = Setter::new(journal, host.clone());
    let mut refused = None;
    for level in levels(source.levels, &before).into_iter().filter(changes) {
        // The second call reads back.
        match setter.set(feature.key, &level).and_then(|()| setter.set(feature.key, &level)) {
            Err(why @ HostError::Set { .. }) => refused = Some(why),
            Err(why) => return Err(why),
            Ok(()) => {
                drop(setter);
                let changed = before.into_iter().find(|(path, value)| now(path) != *value);
                return Ok(changed.map_or(Tried::Works(level), |(path, before)| {
                    let found = now(&path);
                    Tried::NotUndone { path, found, before }
                }));
            }
        }
    }
    refused.map_or(Ok(Tried::Alone), Err)
}

/// Levels that may be set: those with names, or the numbers next to the one that is there.
fn levels(levels: Levels, before: &[(PathBuf, String)]) -> Vec<String> {
    let Some((path, value)) = before.first() else { return Vec::new() };
    match levels {
        Levels::Words(words) | Levels::Loaded(_, words) => words.iter().map(|(level, _)| (*level).to_owned()).collect(),
        Levels::Offered(list) => offered(&path.with_file_name(list)),
        Levels::Number => next_to(value, 1),
        Levels::PagesInKib => next_to(value, PAGE_KIB),
        Levels::DeepestState => (0..8).map(|state| state.to_string()).collect(),
        Levels::Cpus => cpus::online(path).iter().map(u32::to_string).collect(),
        Levels::Switches => {
            let other = |word: String| word.strip_prefix(OFF).map_or_else(|| format!("{OFF}{word}"), str::to_owned);
            offered(path).into_iter().map(other).collect()
        }
    }
}

/// The numbers at this distance from one.
fn next_to(value: &str, step: u64) -> Vec<String> {
    let number = value.parse::<u64>().ok();
    let next = number.and_then(|number| number.checked_add(step));
    let last = number.and_then(|number| number.checked_sub(step));
    next.into_iter().chain(last).map(|number| number.to_string()).collect()
}
