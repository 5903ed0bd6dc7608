//! The sources of the workspace's crates, read for the tests of their shape.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The folders of all crates, by name.
pub fn crates() -> Vec<(String, PathBuf)> {
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap());
    let mut crates: Vec<_> =
        folders.map(|entry| (entry.file_name().into_string().unwrap(), entry.path().join("src"))).collect();
    crates.sort();
    assert!(crates.len() > 20, "{} crates", crates.len());
    crates
}

/// The folders of the applications, by name.
pub fn apps() -> Vec<(String, PathBuf)> {
    ["auction", "gpu"].map(|name| (name.to_owned(), root().join("apps").join(name).join("src"))).to_vec()
}

/// All Rust files below a folder, sorted; those of tests alone are left out.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.file_name().and_then(|name| name.to_str()).unwrap_or_default() {
                "tests" | "tests.rs" => {}
                _ if path.is_dir() => folders.push(path),
                name if name.ends_with(".rs") => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}
