//! The arrows that ARCHITECTURE.md draws are the arrows that the workspace has.

use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The rows `| level | crate | what | may depend on |` of ARCHITECTURE.md, with each crate's level.
fn drawn(text: &str) -> (Arrows, BTreeMap<String, u32>) {
    let mut arrows = Arrows::new();
    let mut levels = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [level, name, _, may] = cells.as_slice() else { continue };
        let Ok(level) = level.parse() else { continue };
        levels.insert((*name).to_owned(), level);
        let may = may.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        arrows.insert((*name).to_owned(), may.collect());
    }
    (arrows, levels)
}

fn short(name: &str) -> String {
    name.strip_prefix("baremark-").unwrap_or(name).to_owned()
}

#[test]
fn the_workspace_has_just_the_arrows_that_are_drawn() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (drawn, levels) = drawn(&fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap());
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .other_options(vec!["--locked".to_owned()])
        .exec()
        .unwrap();
    let mut found = Arrows::new();
    for package in metadata.workspace_packages() {
        let normal = package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal);
        let own = normal.filter(|dependency| dependency.name.starts_with("baremark"));
        found.insert(short(&package.name), own.map(|dependency| short(&dependency.name)).collect());
    }
    assert_eq!(found, drawn, "left: cargo metadata, right: ARCHITECTURE.md");
    for (from, to) in &found {
        for target in to {
            let down = levels[target] < levels[from] || (levels[from] == 1 && target == "sys");
            assert!(down, "{from} -> {target} does not point down");
        }
    }
}
