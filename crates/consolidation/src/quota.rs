//! Control groups with a CPU quota, recorded before they are made.
//!
//! The groups of one run are siblings whose names begin with a random word of the run's, and that word is what is recorded: after a kill
//! every group with it is removed. Version 2 (`cpu.max`) comes first, then version 1 (controller `cpu`); where neither can be used there is
//! no quota, and the run is flagged. Where groups of version 2 have no controller `cpu` yet, they are given it, which is recorded and undone.

use baremark_journal::change::details_of;
use baremark_journal::file::random_word;
use baremark_journal::{Change, Held, Journal, JournalError, Kind, MakeError, Undone};
use baremark_sys::control_group::{self, Controller, Parent, Version};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const KIND: &str = "control-groups";
/// The period over which a quota counts, in microseconds: the kernel's default.
const PERIOD_US: u64 = 100_000;
/// How the names of groups begin.
const PREFIX: &str = "baremark-farm-";

/// The kind of groups with a quota.
#[derive(Clone, Copy, Debug)]
pub struct ControlGroups;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    root: PathBuf,
    /// How the names of all groups of the run begin.
    prefix: String,
    /// Whether groups below the root had no controller `cpu` before.
    #[serde(default)]
    offered: bool,
}

impl Kind for ControlGroups {
    fn name(&self) -> &'static str {
        KIND
    }

    fn undo(&self, details: &Value) -> io::Result<Undone> {
        let Details { root, prefix, offered } = details_of(details)?;
        let word = prefix.strip_prefix(PREFIX).unwrap_or_default();
        if !control_group::can_be_root(Controller::Cpu, &root)
            || word.len() < 8
            || !word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "details: not a group of a farm"));
        }
        let groups = groups_of(&root, &prefix)?;
        groups.iter().try_for_each(|group| control_group::end(group))?;
        if offered {
            // Those of another run keep it.
            Parent { path: root, version: Version::Two }.withdraw(Controller::Cpu)?;
        }
        Ok(if groups.is_empty() { Undone::Absent } else { Undone::Done })
    }
}

fn groups_of(root: &Path, prefix: &str) -> io::Result<Vec<PathBuf>> {
    let own = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(prefix);
    match fs::read_dir(root) {
        Ok(entries) => Ok(entries.flatten().filter(own).map(|entry| entry.path()).collect()),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(why) => Err(why),
    }
}

/// Makes the groups of one run; they are removed when it is dropped, after their processes.
#[derive(Debug)]
pub struct Quotas {
    parent: Parent,
    prefix: String,
    quota_us: u64,
    made: usize,
    _held: Held,
}

impl Quotas {
    /// Quotas of `cpus` CPUs each, 1.0 being one; `None` where this machine has no control groups for that.
    ///
    /// # Errors
    /// When they cannot be recorded.
    pub fn new(journal: &Journal, cpus: f64) -> Result<Option<Quotas>, JournalError> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a period")]
        let quota_us = (cpus * PERIOD_US as f64) as u64;
        for parent in control_group::roots(Controller::Cpu) {
            let Ok(word) = random_word() else { return Ok(None) };
            let prefix = format!("{PREFIX}{word}");
            let offered = !parent.offers(Controller::Cpu);
            let details = serde_json::json!({ "root": parent.path, "prefix": prefix, "offered": offered });
            let change = Change { kind: KIND.to_owned(), target: format!("control groups {prefix}"), details };
            let trial = parent.path.join(format!("{prefix}-trial"));
            let attempt = || {
                parent.offer(Controller::Cpu)?;
                fs::create_dir(&trial)?;
                limit(&trial, parent.version, quota_us)?;
                control_group::end(&trial)
            };
            match journal.make(change, attempt) {
                Ok(((), held)) => return Ok(Some(Quotas { parent, prefix, quota_us, made: 0, _held: held })),
                Err(MakeError::Change(_)) => {}
                Err(MakeError::Journal(why)) => return Err(why),
            }
        }
        Ok(None)
    }

    /// A new group with the quota, and the file by which a process joins it: its number is written there.
    ///
    /// # Errors
    /// What making it gives.
    pub fn group(&mut self) -> io::Result<PathBuf> {
        self.made += 1;
        let group = self.parent.path.join(format!("{}-{}", self.prefix, self.made));
        fs::create_dir(&group)?;
        limit(&group, self.parent.version, self.quota_us)?;
        Ok(group.join("cgroup.procs"))
    }
}

fn limit(group: &Path, version: Version, quota_us: u64) -> io::Result<()> {
    match version {
        Version::One => control_group::set(&group.join("cpu.cfs_quota_us"), &quota_us.to_string()),
        Version::Two => control_group::set(&group.join("cpu.max"), &format!("{quota_us} {PERIOD_US}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_not_obeyed_outside_of_the_groups_of_a_farm() {
        let of = |root: &str, prefix: &str| ControlGroups.undo(&serde_json::json!({ "root": root, "prefix": prefix }));
        for (root, prefix) in [
            ("/tmp", "baremark-farm-12345678"),
            ("/sys/fs/cgroup", "user"),
            ("/sys/fs/cgroup", ""),
            ("/sys/fs/cgroup", "baremark-farm-"),
            ("/sys/fs/cgroup/cpu", "baremark-farm-1234567/../x"),
        ] {
            let why = of(root, prefix).expect_err(prefix);
            assert_eq!(why.kind(), io::ErrorKind::InvalidData, "{root} {prefix}");
        }
        let never = "baremark-farm-00000000-0000-0000-0000-000000000000";
        assert_eq!(of("/sys/fs/cgroup/cpu", never).expect("nothing to do"), Undone::Absent);
    }
}
