//! Control groups with a CPU quota, recorded before they are made.
//!
//! The groups of one run are siblings whose names begin with a random word of the run's, and that word is what is recorded: after a kill
//! every group with it is removed. Version 1 (controller `cpu`) and version 2 (`cpu.max`) are known; where neither can be used there is
//! no quota, and the run is flagged.

use baremark_journal::change::details_of;
use baremark_journal::file::random_word;
use baremark_journal::{Change, Held, Journal, JournalError, Kind, MakeError, Undone};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

const KIND: &str = "control-groups";
/// The period over which a quota counts, in microseconds: the kernel's default.
const PERIOD_US: u64 = 100_000;
/// Where groups with the controller `cpu` are made, and the file of the quota.
const ROOTS: [(&str, &str); 3] = [
    ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"),
    ("/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us"),
    ("/sys/fs/cgroup", "cpu.max"),
];
/// How the names of groups begin.
const PREFIX: &str = "baremark-farm-";
/// How long the processes of a group may take to end that were killed.
const PATIENCE: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(5);

/// The kind of groups with a quota.
#[derive(Clone, Copy, Debug)]
pub struct ControlGroups;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    root: PathBuf,
    /// How the names of all groups of the run begin.
    prefix: String,
}

impl Kind for ControlGroups {
    fn name(&self) -> &'static str {
        KIND
    }

    fn undo(&self, details: &Value) -> io::Result<Undone> {
        let Details { root, prefix } = details_of(details)?;
        let word = prefix.strip_prefix(PREFIX).unwrap_or_default();
        let known = ROOTS.iter().any(|(one, _)| Path::new(one) == root);
        if !known || word.len() < 8 || !word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "details: not a group of a farm"));
        }
        let groups = groups_of(&root, &prefix)?;
        groups.iter().try_for_each(|group| remove(group))?;
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

/// Removes a group; processes in it that were killed may take a moment to end.
fn remove(group: &Path) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match fs::remove_dir(group) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(why) if why.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => thread::sleep(GLANCE),
            removed => return removed,
        }
    }
}

/// Makes the groups of one run; they are removed when it is dropped, after their processes.
#[derive(Debug)]
pub struct Quotas {
    root: PathBuf,
    file: &'static str,
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
        for (root, file) in ROOTS {
            let Ok(word) = random_word() else { return Ok(None) };
            let prefix = format!("{PREFIX}{word}");
            let details = serde_json::json!({ "root": root, "prefix": prefix });
            let change = Change { kind: KIND.to_owned(), target: format!("control groups {prefix}"), details };
            let trial = Path::new(root).join(format!("{prefix}-trial"));
            let attempt = || fs::create_dir(&trial).and_then(|()| limit(&trial.join(file), file, quota_us));
            match journal.make(change, || attempt().and_then(|()| remove(&trial))) {
                Ok(((), held)) => {
                    let root = PathBuf::from(root);
                    return Ok(Some(Quotas { root, file, prefix, quota_us, made: 0, _held: held }));
                }
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
        let group = self.root.join(format!("{}-{}", self.prefix, self.made));
        fs::create_dir(&group)?;
        limit(&group.join(self.file), self.file, self.quota_us)?;
        Ok(group.join("cgroup.procs"))
    }
}

fn limit(path: &Path, file: &str, quota_us: u64) -> io::Result<()> {
    let text = if file == "cpu.max" { format!("{quota_us} {PERIOD_US}") } else { quota_us.to_string() };
    // Not created: where the folder is not a control group there is no such file.
    io::Write::write_all(&mut fs::File::options().write(true).open(path)?, text.as_bytes())
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
