//! A file tree in the manner of `/proc` and `/sys`: small files of one value, numbered directories.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The tree under one root. What cannot be read is `None` or empty.
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    pub fn new(root: &Path) -> Self {
        Tree { root: root.to_owned() }
    }

    pub fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// A file's text without the white space at its ends; `None` also when nothing is left.
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(path)).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// Where a symbolic link leads.
    pub fn link(&self, path: &str) -> Option<String> {
        Some(fs::read_link(self.root.join(path)).ok()?.to_string_lossy().into_owned())
    }

    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The word in brackets of a file such as "always [madvise] never".
    pub fn chosen(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    }

    /// The names in a directory, sorted.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The numbers of those entries of a directory whose names are `prefix` and a number, ascending.
    pub fn numbered(&self, path: &str, prefix: &str) -> Vec<u64> {
        let names = self.names(path);
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The text of each file of a directory, by name.
    pub fn texts(&self, path: &str) -> BTreeMap<String, String> {
        let names = self.names(path).into_iter();
        names.filter_map(|name| self.text(&format!("{path}/{name}")).map(|text| (name, text))).collect()
    }
}

/// The files of a recorded machine, in a new folder.
#[cfg(test)]
pub(crate) fn unpacked(recorded: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    super::unpack(recorded.trim_start(), dir.path()).expect("a recorded machine");
    dir
}
