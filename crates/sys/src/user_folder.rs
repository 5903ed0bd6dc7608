//! The user's folders.

use std::path::PathBuf;

/// The user's folder for this program's data; `None` where neither $XDG_DATA_HOME nor $HOME is set. A path that is not absolute does not
/// count, as the XDG Base Directory Specification has it.
#[must_use]
pub fn data() -> Option<PathBuf> {
    let home = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = home("XDG_DATA_HOME").or_else(|| Some(home("HOME")?.join(".local/share")))?;
    Some(data.join("baremark"))
}

/// Where loaded data of databases is kept, where a study does not say it; `None` where there is no home.
#[must_use]
pub fn databases() -> Option<PathBuf> {
    Some(data()?.join("databases"))
}

/// Where files lie that may be large and do not outlive a run: on a disk, and every user gets there; `None` on small systems, which have no such
/// folder.
#[must_use]
pub fn running() -> Option<PathBuf> {
    Some(PathBuf::from("/var/tmp")).filter(|folder| folder.is_dir())
}

/// Where the guests' kernel is fetched to, and taken from where a study names none; `None` where there is no home.
#[must_use]
pub fn guest_kernel() -> Option<PathBuf> {
    Some(data()?.join("kernel"))
}

/// That folder, where a kernel was fetched to it.
#[must_use]
pub fn fetched_kernel() -> Option<PathBuf> {
    guest_kernel().filter(|folder| folder.join("vmlinuz").exists())
}
