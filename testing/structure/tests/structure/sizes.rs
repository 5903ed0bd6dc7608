//! A file can be read at once, and a type's name means one thing: of names a count that may only shrink.

use crate::source;
use crate::tokens::{of_product, of_text};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Lines that a file may have, tests in it included.
const LINES: usize = 800;

/// Entries of the page of words that a user has to know.
const WORDS: usize = 20;

/// Crates in which a public type of one name may be defined. One that others do not see is read where it is defined.
const CRATES: usize = 4;

/// Names that more crates have, with how many.
const SHARED: &[(&str, usize)] = &[
    ("Answer", 5),
    ("Change", 5),
    ("Ended", 5),
    ("Kind", 5),
    ("Order", 6),
    ("Outcome", 7),
    ("Place", 6),
    ("Settings", 5),
    ("Step", 5),
];

/// The files of all crates and applications, tests in files of their own apart.
fn files() -> Vec<(String, std::path::PathBuf)> {
    let folders = source::crates().into_iter().chain(source::apps());
    folders
        .flat_map(|(name, folder)| source::files(&folder).into_iter().map(move |file| (name.clone(), file)))
        .collect()
}

/// The names of the public types that a source defines.
fn types(words: &[String]) -> BTreeSet<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "unsafe").collect();
    let defined = words.windows(3).filter(|of| of[0] == "pub" && ["struct", "enum", "union", "trait"].contains(&of[1]));
    defined.map(|of| of[2].to_owned()).collect()
}

#[test]
fn a_file_has_at_most_800_lines() {
    let root = source::root();
    let lines = |path: &std::path::Path| fs::read_to_string(path).unwrap().lines().count();
    let counted =
        files().into_iter().map(|(_, path)| (path.strip_prefix(&root).unwrap().display().to_string(), lines(&path)));
    let wrong: Vec<String> =
        counted.filter(|(_, lines)| *lines > LINES).map(|(file, lines)| format!("{file} has {lines}")).collect();
    assert!(wrong.is_empty(), "move a part that stands alone into a file of its own:\n{}", wrong.join("\n"));
}

#[test]
fn the_page_of_words_has_at_most_20_entries() {
    let text = fs::read_to_string(source::root().join("docs/words.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| word |")).count();
    assert!((1..=WORDS).contains(&rows), "{rows} rows; explain a term of the code where it is defined");
}

#[test]
fn a_name_of_public_types_is_in_at_most_four_crates() {
    let mut crates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, path) in files() {
        for defined in types(&of_product(&path)) {
            crates.entry(defined).or_default().insert(name.clone());
        }
    }
    let mut wrong = String::new();
    for (name, found) in &crates {
        let limit = SHARED.iter().find(|(of, _)| of == name).map_or(CRATES, |(_, limit)| *limit);
        if found.len() > limit {
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            wrong +=
                &format!("{name} is {} types where {limit} may be; say which one: {}\n", found.len(), found.join(" "));
        }
    }
    for (name, limit) in SHARED {
        let now = crates.get(*name).map_or(0, BTreeSet::len);
        if now < *limit {
            wrong += &format!("{name}: {now} are left; write that in the list, or take it off at {CRATES}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn types_are_found_by_their_definition() {
    let source = "pub struct A { pub b: B } pub enum C {} impl A { fn f(d: D) {} } pub unsafe trait E {} struct F; \
                  pub(crate) struct G; pub use h::H;\n#[cfg(test)]\nmod tests { pub struct I; }";
    assert_eq!(types(&of_text(source).unwrap()), ["A", "C", "E"].map(str::to_owned).into());
}
