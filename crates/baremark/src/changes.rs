//! Changes to this host: the journal of them, and undoing what earlier processes left that were killed.

use crate::exit::Refusal;
use baremark_consolidation::quota::ControlGroups;
use baremark_environments::container::Containers;
use baremark_host::Modules;
use baremark_journal::file::Files;
use baremark_journal::value::Values;
use baremark_journal::{Journal, JournalError, Kind, Recovery};
use std::path::PathBuf;

/// Every type of change that this program makes to a host. A new one is one line here.
fn kinds() -> Vec<Box<dyn Kind>> {
    let mut kinds = baremark_networks::kinds();
    kinds.extend([
        Box::new(Values::system()) as Box<dyn Kind>,
        Box::new(Files),
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

/// The journal of this process's changes to this host.
pub fn journal() -> Result<Journal, JournalError> {
    Journal::open(folder(), kinds())
}

/// Undoes what processes left on this host that have ended without undoing it; what became of it, in lines.
pub fn recover() -> Result<Vec<String>, Refusal> {
    baremark_consolidation::farm::remove_orphans();
    // Without the folder nothing was ever recorded.
    if !folder().exists() {
        return Ok(Vec::new());
    }
    let recovered = journal().and_then(|journal| journal.recover()).map_err(Refusal::failure)?;
    Ok(describe(&recovered))
}

fn describe(recovery: &Recovery) -> Vec<String> {
    let mut lines = Vec::new();
    for target in &recovery.undone {
        lines.push(format!("undone: {target}, changed by a run that was killed"));
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
    lines
}
