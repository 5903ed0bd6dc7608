//! What is known of a thing stands with the thing: others ask for a property or a code, never for a name or a sentence.
//!
//! Three counts, by crate. Each is what stands today and may only shrink: write the lower number where a place is gone. Tests do not count.

use crate::source;
use crate::tokens::{close, of_product, of_text, text_of};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Where the rows of environments are, a file each, whose names are asked for nowhere else.
const TABLE: &str = "crates/model/src/environments";
/// The crate that starts environments: each of its files knows which one it is.
const ENVIRONMENTS: &str = "environments";

/// String literals that equal the name of an environment. Some mean another thing of the same name (a JSON null, a QEMU program).
const NAMED: &[(&str, usize)] = &[
    ("agent", 4),
    ("baremark", 23),
    ("consolidation", 2),
    ("databases", 1),
    ("harness", 18),
    ("lab", 4),
    ("load", 1),
    ("microvm", 1),
    ("model", 3),
    ("observe", 2),
    ("programs", 6),
    ("sys", 1),
];

/// Decisions by a sentence: a search in a text for two or more words.
const SENTENCES: &[(&str, usize)] = &[];

/// Files that look for sentences which this program did not make, or are tests, and whose words these are.
const OF_OTHERS: &[(&str, &str)] = &[
    ("crates/environments/src/conformance.rs", "a test of environments"),
    ("crates/environments/src/container/leftovers.rs", "podman's and docker's message of a container that is gone"),
    ("crates/environments/src/qemu.rs", "virtiofsd's message that it listens"),
    ("crates/import/src/formats/fio.rs", "a key of fio's JSON"),
    ("crates/import/src/formats/hpcc.rs", "the heading of HPC Challenge's report"),
    ("crates/import/src/formats/pgbench.rs", "pgbench's report"),
    ("crates/programs/src/executable.rs", "what ldd prints of a library that it does not find"),
    ("crates/programs/src/warehouse.rs", "the Java machine's warning that large pages cannot be had"),
    ("crates/report/src/provenance.rs", "the kernel's word for a vulnerability that the processor has not"),
    ("crates/report/src/sections/toy.rs", "a test of sections"),
    ("crates/services/src/haproxy.rs", "HAProxy's answer to `add server`"),
];

/// The names in the rows of the table: `name: "native"`.
fn names(table: &[String]) -> Vec<String> {
    let of = |words: &[String]| match words {
        [name, colon, text] if name == "name" && colon == ":" => text_of(text).map(str::to_owned),
        _ => None,
    };
    table.windows(3).filter_map(of).filter(|name| !name.is_empty()).collect()
}

/// The literals of a source that equal one of the names.
fn named(words: &[String], names: &[String]) -> Vec<String> {
    let texts = words.iter().filter_map(|word| text_of(word));
    texts.filter(|text| names.iter().any(|name| name == text)).map(str::to_owned).collect()
}

/// What looks for a text in another.
const SEARCHES: [&str; 8] =
    ["starts_with", "ends_with", "contains", "find", "rfind", "strip_prefix", "strip_suffix", "split_once"];

/// The text that such a call looks for.
fn searched(call: &[String]) -> Option<&str> {
    match call {
        [dot, search, open, text] if dot == "." && SEARCHES.contains(&search.as_str()) && open == "(" => text_of(text),
        _ => None,
    }
}

/// The texts of two or more words that a source looks for in others.
fn sentences(words: &[String]) -> Vec<String> {
    let is_word = |word: &&str| word.chars().any(char::is_alphabetic);
    let found = words.windows(4).filter_map(searched);
    found.filter(|text| text.split_whitespace().filter(is_word).count() > 1).map(str::to_owned).collect()
}

/// The look-ups by text in a source that handles JSON: `row["users"]`, `row.get("users")`, `row.pointer("/users")`.
fn indexed(words: &[String]) -> Vec<String> {
    if !words.iter().any(|word| word == "serde_json") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate().skip(1) {
        let opens = match (words[at - 1].as_str(), word.as_str()) {
            ("get" | "pointer", "(") => at > 1 && words[at - 2] == ".",
            (")" | "]", "[") => true,
            (before, "[") => before.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_'),
            _ => false,
        };
        if opens && close(words, at) == at + 2 {
            found.extend(text_of(&words[at + 1]).map(str::to_owned));
        }
    }
    found
}

/// What was found in the files of every crate, but for some: by crate, and by file in words.
fn all(
    find: impl Fn(&[String]) -> Vec<String>,
    skipped: impl Fn(&str, &str) -> bool,
) -> BTreeMap<String, (usize, String)> {
    let root = source::root();
    let mut by_crate = BTreeMap::new();
    let apps = source::apps().into_iter();
    for (name, folder) in source::crates().into_iter().chain(apps) {
        for path in source::files(&folder) {
            let file = path.strip_prefix(&root).unwrap().display().to_string();
            let found = if skipped(&name, &file) { Vec::new() } else { find(&of_product(&path)) };
            if !found.is_empty() {
                let (count, listed): &mut (usize, String) = by_crate.entry(name.clone()).or_default();
                *count += found.len();
                let _ = writeln!(listed, "  {file}: {}", found.join(" | "));
            }
        }
    }
    by_crate
}

/// Compares what was found with what may be.
fn only_so_many(found: &BTreeMap<String, (usize, String)>, limits: &[(&str, usize)], instead: &str) {
    let limit = |name: &str| limits.iter().find(|(of, _)| *of == name).map_or(0, |(_, limit)| *limit);
    let mut wrong = String::new();
    for (name, (count, listed)) in found {
        match count.cmp(&limit(name)) {
            std::cmp::Ordering::Less => wrong += &format!("{name}: {count} are left; write that in the list\n"),
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => {
                wrong += &format!("{name}: {count} where {} may be; {instead}:\n{listed}", limit(name));
            }
        }
    }
    for (name, _) in limits.iter().filter(|(name, _)| !found.contains_key(*name)) {
        wrong += &format!("{name}: none is left; take it off the list\n");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn an_environment_is_asked_for_by_a_property_and_not_by_its_name() {
    let rows = source::files(&source::root().join(TABLE));
    let names: Vec<String> = rows.iter().flat_map(|file| names(&of_product(file))).collect();
    assert!(names.len() >= 10, "{names:?}");
    let own = |name: &str, file: &str| name == ENVIRONMENTS || file.starts_with(TABLE);
    only_so_many(&all(|words| named(words, &names), own), NAMED, "ask for a property of its row");
}

#[test]
fn nothing_is_decided_by_a_sentence() {
    let of_others = |_: &str, file: &str| OF_OTHERS.iter().any(|(listed, _)| *listed == file);
    only_so_many(&all(sentences, of_others), SENTENCES, "decide by a code, from which the sentence is made");
    for (file, _) in OF_OTHERS {
        let found = sentences(&of_product(&source::root().join(file)));
        assert!(!found.is_empty(), "{file} looks for no words any more; take it off the list");
    }
}

#[test]
fn a_report_looks_up_no_json_by_text() {
    let found = all(indexed, |name, _| name != "report");
    only_so_many(&found, &[], "read it into a struct with serde");
}

#[test]
fn each_form_is_found_and_tests_are_not_looked_at() {
    let words = |text: &str| of_text(text).unwrap();
    let table = words("const ROWS: &[Row] = &[Row { name: \"native\", peer: true }, Row { name: \"qemu\" }];");
    assert_eq!(names(&table), ["native", "qemu"]);
    let source = "/// \"qemu\"\nfn f(a: &str) -> bool { a == \"qemu\" || matches!(a, \"native\" | r\"qemu\") || a == \"a qemu\" }\n\
                  #[cfg(test)]\nmod tests { fn g() { f(\"qemu\"); } }";
    assert_eq!(named(&words(source), &names(&table)), ["qemu", "native", "qemu"]);
    let source = "fn f(a: &str) { a.starts_with(\"did you\"); a.find(\"; \"); a.contains(\"one\"); a.contains(\"12 x\"); b(\"two words\"); }\n\
                  #[cfg(test)]\nmod tests { fn g() { x.contains(\"two words\"); } }";
    assert_eq!(sentences(&words(source)), ["did you"]);
    let source = "use serde_json::Value; fn f(v: &Value) { v[\"a\"][\"b\"]; v.get(\"c\"); v.pointer(\"/d\"); [\"e\"]; m(&[\"f\"]); v[0]; v.get(key); }";
    assert_eq!(indexed(&words(source)), ["a", "b", "c", "/d"]);
    assert_eq!(indexed(&words("fn f(v: &Map) { v[\"a\"]; }")), Vec::<String>::new());
}

#[test]
#[should_panic(
    expected = "lab: 1 are left; write that in the list\nmodel: 2 where 1 may be; ask:\nreport: none is left"
)]
fn a_count_that_is_not_the_one_in_the_list_fails() {
    let found = [("lab", 1), ("model", 2)].map(|(name, count)| (name.to_owned(), (count, String::new())));
    only_so_many(&found.into(), &[("lab", 2), ("model", 1), ("report", 1)], "ask");
}
