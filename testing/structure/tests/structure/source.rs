//! The sources of the workspace's crates, read for the tests of their shape.

use cargo_metadata::{Metadata, MetadataCommand, TargetKind};
use std::fs;
use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A row `| level | crate | what | may depend on |` of ARCHITECTURE.md.
pub struct Row {
    pub level: u32,
    pub name: String,
    pub what: String,
    pub may: Vec<String>,
}

/// The rows of ARCHITECTURE.md's table of crates.
pub fn table() -> Vec<Row> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [level, name, what, may] = cells.as_slice() else { return None };
        let may = may.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Some(Row { level: level.parse().ok()?, name: (*name).to_owned(), what: (*what).to_owned(), may })
    };
    text.lines().filter_map(row).collect()
}

/// What cargo knows of the workspace.
pub fn metadata() -> Metadata {
    let mut command = MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml")).no_deps().other_options(vec!["--locked".to_owned()]);
    command.exec().unwrap()
}

/// A package's name as ARCHITECTURE.md has it.
pub fn short(name: &str) -> String {
    name.strip_prefix("baremark-").unwrap_or(name).to_owned()
}

/// The folders of all packages, by name.
pub fn packages() -> Vec<(String, PathBuf)> {
    let metadata = metadata();
    let packages = metadata.workspace_packages().into_iter();
    packages.map(|package| (short(&package.name), package.manifest_path.parent().unwrap().into())).collect()
}

/// The examples of all packages: package, and name.
pub fn examples() -> Vec<(String, String)> {
    let metadata = metadata();
    let of = |package: &cargo_metadata::Package| {
        let targets = package.targets.iter().filter(|target| target.kind.contains(&TargetKind::Example));
        targets.map(|target| (package.name.to_string(), target.name.clone())).collect::<Vec<_>>()
    };
    metadata.workspace_packages().into_iter().flat_map(of).collect()
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
