//! A file can be read at once, and a type's name means one thing: counts that may only shrink.

use crate::source;
use crate::tokens::{of_product, of_text};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Lines that a file may have, tests in it included.
const LINES: usize = 800;

/// Files that are longer, each with the lines it has at most: it becomes shorter, not longer.
const LONGER: &[(&str, usize)] = &[
    ("crates/harness/src/cluster.rs", 908),
    ("crates/harness/src/topology.rs", 1009),
    ("crates/load/src/http2.rs", 1094),
    ("crates/model/src/command.rs", 1031),
    ("crates/model/src/plan.rs", 990),
    ("crates/model/src/study.rs", 869),
    ("apps/gpu/src/vulkan.rs", 836),
];

/// Words that a user has to know.
const WORDS: usize = 20;

/// Crates in which a type of one name may be defined.
const CRATES: usize = 4;

/// Names that more crates have, with how many.
const SHARED: &[(&str, usize)] = &[
    ("Answer", 6),
    ("Asked", 6),
    ("Cell", 5),
    ("Change", 9),
    ("Command", 5),
    ("Counts", 6),
    ("Details", 5),
    ("Direction", 5),
    ("End", 6),
    ("Ended", 5),
    ("Event", 6),
    ("Folder", 5),
    ("Found", 12),
    ("Gate", 5),
    ("Head", 5),
    ("Heard", 5),
    ("Held", 5),
    ("Kept", 7),
    ("Key", 5),
    ("Kind", 10),
    ("Layout", 5),
    ("Limits", 5),
    ("Line", 7),
    ("Link", 5),
    ("Member", 5),
    ("Operation", 6),
    ("Order", 11),
    ("Outcome", 10),
    ("Page", 5),
    ("Part", 6),
    ("Place", 12),
    ("Plan", 5),
    ("Pool", 6),
    ("Program", 5),
    ("Progress", 6),
    ("Ready", 13),
    ("Record", 5),
    ("Report", 5),
    ("Request", 6),
    ("Row", 7),
    ("Rows", 7),
    ("Running", 5),
    ("Sample", 5),
    ("Seen", 5),
    ("Server", 5),
    ("Settings", 11),
    ("Shared", 9),
    ("Size", 6),
    ("Source", 8),
    ("State", 8),
    ("Step", 8),
    ("Stream", 6),
    ("Table", 5),
    ("Tally", 5),
    ("Told", 5),
    ("Wanted", 5),
];

/// The files of all crates and applications, tests in files of their own apart.
fn files() -> Vec<(String, std::path::PathBuf)> {
    let folders = source::crates().into_iter().chain(source::apps());
    folders
        .flat_map(|(name, folder)| source::files(&folder).into_iter().map(move |file| (name.clone(), file)))
        .collect()
}

/// The names of the types that a source defines.
fn types(words: &[String]) -> BTreeSet<String> {
    let defined = words.windows(2).filter(|two| ["struct", "enum", "union", "trait"].contains(&two[0].as_str()));
    defined.map(|two| two[1].clone()).collect()
}

#[test]
fn a_file_has_at_most_800_lines() {
    let root = source::root();
    let (mut wrong, mut longer) = (String::new(), BTreeSet::new());
    for (_, path) in files() {
        let file = path.strip_prefix(&root).unwrap().display().to_string();
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        let listed = LONGER.iter().find(|(listed, _)| *listed == file);
        let limit = listed.map_or(LINES, |(_, limit)| *limit);
        if lines > limit {
            wrong += &format!(
                "{file} has {lines} lines where {limit} may be; move a part that stands alone into a file of its own\n"
            );
        }
        longer.extend((lines > LINES).then_some(file));
    }
    for (file, _) in LONGER.iter().filter(|(file, _)| !longer.contains(*file)) {
        wrong += &format!("{file} has at most {LINES} lines; take it off the list\n");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn a_user_has_to_know_at_most_20_words() {
    let text = fs::read_to_string(source::root().join("docs/words.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| word |")).count();
    assert!((1..=WORDS).contains(&rows), "{rows} rows; explain a term of the code where it is defined");
}

#[test]
fn a_name_of_types_is_in_at_most_four_crates() {
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
    let source =
        "pub struct A { b: B } enum C {} impl A { fn f(d: D) {} } trait E {}\n#[cfg(test)]\nmod tests { struct F; }";
    assert_eq!(types(&of_text(source).unwrap()), ["A", "C", "E"].map(str::to_owned).into());
}
