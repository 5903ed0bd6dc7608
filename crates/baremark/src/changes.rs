//! Changes to this host: the journal of them, and undoing what earlier processes left that were killed.
//!
//! All that a run makes outside of its processes is recorded here: settings of the host, links, control groups, containers, folders, programs that it
//! suspends.

use crate::exit::Refusal;
use crate::message::say;
use baremark_consolidation::quota::ControlGroups;
use baremark_environments::container::Containers;
use baremark_host::Modules;
use baremark_journal::file::Files;
use baremark_journal::group::Groups;
use baremark_journal::suspended::SuspendedPrograms;
use baremark_journal::value::Values;
use baremark_journal::{Journal, JournalError, Kind, Recovery};
use baremark_sys::registry;
use std::path::PathBuf;

/// Names in the one line that commands print; `doctor` prints all.
const NAMED: usize = 3;

/// Every type of change that this program makes to a host. A new one is one line here.
fn kinds() -> Vec<Box<dyn Kind>> {
    let mut kinds = baremark_networks::kinds();
    kinds.extend([
        Box::new(Values::system()) as Box<dyn Kind>,
        Box::new(Files),
        Box::new(Groups),
        Box::new(SuspendedPrograms),
        Box::new(ControlGroups),
        Box::new(Modules),
        Box::new(Containers),
    ]);
    kinds
}

/// Where changes are recorded: $XDG_STATE_HOME/baremark/changes; without it /var/lib/baremark/changes for root, else
/// ~/.local/state/baremark/changes.
fn folder() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = named("XDG_STATE_HOME");
    let own = || named("HOME").filter(|_| !baremark_sys::confine::is_root()).map(|home| home.join(".local/state"));
    state.or_else(own).unwrap_or_else(|| PathBuf::from("/var/lib")).join("baremark/changes")
}

/// The journal of this process's changes to this host. However often it is opened, a process has one.
pub fn journal() -> Result<Journal, JournalError> {
    Journal::open(folder(), kinds())
}

/// Has folders and control groups recorded before they are made, wherever in this process that is.
pub fn record_all() {
    registry::install(|made| journal()?.record(made));
}

/// Undoes what processes left on this host that have ended without undoing it.
///
/// # Errors
/// When the journal cannot be read.
pub fn recover() -> Result<Recovery, Refusal> {
    // Without the folder nothing was ever recorded.
    if !folder().exists() {
        return Ok(Recovery::default());
    }
    journal().and_then(|journal| journal.recover()).map_err(Refusal::failure)
}

/// The same of a command that changes the host itself: says in one line what was undone.
///
/// # Errors
/// As [`recover`].
pub fn recover_and_say() -> Result<(), Refusal> {
    summary(&recover()?).into_iter().for_each(say);
    Ok(())
}

/// The same of a command that does something else: it does not wait where another process does that, and says what keeps it from it.
pub fn recover_in_passing() {
    if !folder().exists() {
        return;
    }
    match journal().and_then(|journal| journal.recover_at_once()) {
        Ok(recovery) => recovery.as_ref().and_then(summary).into_iter().for_each(say),
        Err(why) => say(format_args!("warning: {why}")),
    }
}

/// What became of the changes, in one line; `None` where there was nothing.
fn summary(recovery: &Recovery) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(first) = recovery.undone.get(..NAMED.min(recovery.undone.len())).filter(|first| !first.is_empty()) {
        let more = recovery.undone.len() - first.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        parts.push(format!("undone: {}{more}, left by a run that was killed", first.join(", ")));
    }
    let others = describe(recovery).len() - recovery.undone.len();
    match others {
        0 => {}
        1 => {
            parts.push("warning: 1 change of a run that was killed is not undone; baremark doctor shows why".to_owned())
        }
        _ => parts.push(format!(
            "warning: {others} changes of runs that were killed are not undone; baremark doctor shows why"
        )),
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// What became of each change, in lines.
pub fn describe(recovery: &Recovery) -> Vec<String> {
    let mut lines = Vec::new();
    for target in &recovery.undone {
        lines.push(format!("undone: {target}, left by a run that was killed"));
    }
    for (target, found) in &recovery.foreign {
        lines.push(format!("not undone: {target} has been changed since by another program: {found}"));
    }
    for (target, why) in &recovery.failed {
        lines.push(format!("warning: {target} is still changed by a run that was killed: {why}; undo it by hand"));
    }
    for (path, what) in &recovery.damaged {
        let path = path.display();
        lines.push(format!(
            "warning: {path} is a damaged record of changes: {what}; check the changes by hand, then remove the file"
        ));
    }
    for (path, why) in &recovery.refused {
        let path = path.display();
        lines.push(format!("warning: {path} is not obeyed as a record of changes: {why}; examine it, then remove it"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_one_line_and_doctor_shows_each_change() {
        assert_eq!(summary(&Recovery { absent: vec!["never made".to_owned()], held: 2, ..Recovery::default() }), None);
        let names = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        let recovery = Recovery { undone: names, ..Recovery::default() };
        let line = summary(&recovery).expect("something was undone");
        assert_eq!(line, "undone: a, b, c and 2 more, left by a run that was killed");
        assert_eq!(describe(&recovery).len(), 5);
        let refused = vec![("/x.journal".into(), "it is a link".to_owned())];
        let line = summary(&Recovery { refused, undone: vec!["a".to_owned()], ..Recovery::default() });
        let expected = "undone: a, left by a run that was killed; \
                        warning: 1 change of a run that was killed is not undone; baremark doctor shows why";
        assert_eq!(line.as_deref(), Some(expected));
    }
}
