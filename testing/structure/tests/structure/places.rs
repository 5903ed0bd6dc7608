//! The places that ARCHITECTURE.md names are there, and have what it says that they have; their names are those by which one would look.

use crate::source;
use crate::tokens::of_product;
use std::fs;
use std::path::Path;

/// The part that stands for a new file's name.
const NEW: &str = "NAME.";
/// What comes before the name of something that a source defines.
const DEFINES: [&str; 9] = ["fn", "struct", "enum", "trait", "const", "static", "type", "mod", "union"];

/// The rows of the tables below a heading of ARCHITECTURE.md, without heads.
fn rows<'t>(text: &'t str, heading: &str) -> Vec<Vec<&'t str>> {
    let below = text.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no '{heading}'")).1;
    let section = below.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with('|'));
    lines.skip(2).map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The paths that a cell names, each with the name in parentheses after it: `` `a/b.rs` (`Name`) ``.
fn named(cell: &str) -> Vec<(&str, Option<&str>)> {
    let parts: Vec<&str> = cell.split('`').collect();
    let path = |at: &usize| parts[*at].contains('/') && !parts[*at].contains(' ');
    let item = |at: usize| (parts.get(at + 1) == Some(&" (")).then(|| parts.get(at + 2).copied()).flatten();
    (1..parts.len()).step_by(2).filter(path).map(|at| (parts[at], item(at))).collect()
}

/// Why a place is not as it is named.
fn wrong(root: &Path, (path, item): (&str, Option<&str>)) -> Option<String> {
    let file = root.join(path);
    let stands = if path.contains(NEW) { file.parent().unwrap_or(root) } else { &file };
    if !stands.exists() {
        return Some(format!("{path} is not there"));
    }
    let item = item?;
    let defines = |words: &[String]| DEFINES.contains(&words[0].as_str()) && words[1] == item;
    (!of_product(&file).windows(2).any(defines)).then(|| format!("{path} does not define {item}"))
}

/// Whether all words of a guess are in the path of a place.
fn says(path: &str, guess: &str) -> bool {
    let parts: Vec<&str> = path.split(['/', '.']).collect();
    guess.split(", ").all(|word| parts.contains(&word))
}

#[test]
fn places_that_the_map_names_are_there() {
    let (root, text) = architecture();
    let questions = rows(&text, "Where is what");
    assert!(questions.len() >= 14, "{} questions", questions.len());
    let mut found = Vec::new();
    for row in &questions {
        let [_, guess, place] = row.as_slice() else { panic!("{row:?}") };
        let [(path, Some(item))] = named(place)[..] else { panic!("{place}: one path and a name in it") };
        found.extend(wrong(&root, (path, Some(item))));
        found.extend((!says(path, guess)).then(|| format!("one would look for '{guess}', not for {path}")));
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn places_where_something_is_added_are_there() {
    let (root, text) = architecture();
    let extensions = rows(&text, "To add something");
    assert!(extensions.len() >= 7, "{} extensions", extensions.len());
    let mut found = Vec::new();
    for row in extensions {
        let places: Vec<_> = row.iter().flat_map(|cell| named(cell)).collect();
        assert!(places.iter().any(|(_, item)| item.is_some()), "{row:?}: no line is named");
        found.extend(places.into_iter().filter_map(|place| wrong(&root, place)));
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

fn architecture() -> (std::path::PathBuf, String) {
    let root = source::root();
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    (root, text)
}

#[test]
fn a_place_that_is_gone_is_found() {
    let root = source::root();
    assert_eq!(
        named("`a/NAME.rs`, in `b/c.rs` (`D`) by `baremark list x/y`"),
        [("a/NAME.rs", None), ("b/c.rs", Some("D"))]
    );
    assert_eq!(rows("\n## A\n| q | r |\n|---|---|\n| s | t |\n## B\n| u |", "A"), [["s", "t"]]);
    let here = "testing/structure/tests/structure/places.rs";
    assert_eq!(wrong(&root, (here, Some("says"))), None);
    assert_eq!(wrong(&root, (here, Some("nothing"))), Some(format!("{here} does not define nothing")));
    assert_eq!(wrong(&root, ("testing/structure/NAME.rs", None)), None);
    assert_eq!(
        wrong(&root, ("testing/nowhere/NAME.rs", None)),
        Some("testing/nowhere/NAME.rs is not there".to_owned())
    );
    assert!(
        says("crates/mmu/src/walk_cache.rs", "mmu, walk_cache") && !says("crates/mmu/src/sets.rs", "mmu, walk_cache")
    );
}
