//! The arrows that ARCHITECTURE.md draws are the arrows that the workspace has.

use crate::source::{self, short};
use cargo_metadata::DependencyKind;
use std::collections::{BTreeMap, BTreeSet};

type Arrows = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_workspace_has_just_the_arrows_that_are_drawn() {
    let rows = source::table();
    let levels: BTreeMap<String, u32> = rows.iter().map(|row| (row.name.clone(), row.level)).collect();
    let drawn: Arrows = rows.into_iter().map(|row| (row.name, row.may.into_iter().collect())).collect();
    let metadata = source::metadata();
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
