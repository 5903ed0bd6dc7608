//! Control groups that limit a child's memory or count its stalls ([`baremark_sys::control_group::Own`]).
//!
//! Each has a random word in its name, which is recorded before it is made. Undoing ends what still runs in the group, removes it, and takes the
//! controller for memory back from the groups next to it where it was offered for its sake and nothing uses it.

use crate::change::{Change, Kind, Undone, details_of};
use baremark_sys::control_group::{self, Controller, Parent, Version};
use baremark_sys::{confine, stall_group};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;
use std::path::{Component, Path, PathBuf};

const KIND: &str = "control-group";
/// Where all control groups are.
const GROUPS: &str = "/sys/fs/cgroup";
/// Characters of a random word.
const WORD: usize = 36;

/// The kind of groups of one child.
#[derive(Clone, Copy, Debug)]
pub struct Groups;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    path: PathBuf,
    offers_memory: bool,
}

impl Kind for Groups {
    fn name(&self) -> &'static str {
        KIND
    }

    fn undo(&self, details: &Value) -> io::Result<Undone> {
        let Details { path, offers_memory } = details_of(details)?;
        let parent = parent(&path)?;
        let there = path.try_exists()?;
        control_group::end(&path)?;
        if offers_memory && parent.exists() {
            // Those of another run keep it.
            Parent { path: parent.to_owned(), version: Version::Two }.withdraw(Controller::Memory)?;
        }
        Ok(if there { Undone::Done } else { Undone::Absent })
    }
}

/// The group in which this one is; only a group with a name of ours is ended.
fn parent(path: &Path) -> io::Result<&Path> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let word = [confine::PREFIX, stall_group::PREFIX].iter().find_map(|prefix| name.strip_prefix(prefix));
    let ours = |word: &str| word.len() >= WORD && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let plain = path.starts_with(GROUPS) && path.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
    match path.parent() {
        Some(parent) if plain && word.is_some_and(ours) => Ok(parent),
        _ => {
            let what = format!("{} does not have the name of a control group that baremark makes", path.display());
            Err(io::Error::new(io::ErrorKind::InvalidData, what))
        }
    }
}

/// The record of a group.
pub(crate) fn change(path: &Path, offers_memory: bool) -> io::Result<Change> {
    let target = format!("control group {}", path.display());
    let details = serde_json::to_value(Details { path: path.to_owned(), offers_memory })?;
    Ok(Change { kind: KIND.to_owned(), target, details })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_not_obeyed_for_groups_of_others() {
        let word = "01234567-89ab-cdef-0123-456789abcdef";
        let of = |path: String| Groups.undo(&serde_json::json!({ "path": path, "offers_memory": false }));
        for path in [
            format!("/tmp/baremark-memory-{word}"),
            format!("/sys/fs/cgroup/../../tmp/baremark-memory-{word}"),
            "/sys/fs/cgroup/user.slice".to_owned(),
            "/sys/fs/cgroup/baremark-memory-".to_owned(),
            format!("/sys/fs/cgroup/{word}"),
            format!("/sys/fs/cgroup/baremark-memory-{word}/inner"),
        ] {
            let why = of(path.clone()).expect_err(&path);
            assert_eq!(why.kind(), io::ErrorKind::InvalidData, "{path}: {why}");
        }
        for prefix in [confine::PREFIX, stall_group::PREFIX] {
            assert_eq!(of(format!("/sys/fs/cgroup/{prefix}{word}")).expect("nothing to do"), Undone::Absent);
        }
    }
}
