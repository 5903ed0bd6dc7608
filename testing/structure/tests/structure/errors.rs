//! Errors are types: functions whose error is a text may only become fewer.
//!
//! A text can be printed and nothing else; whoever has to decide by it compares sentences. What is left parses a word of a command line, which clap prints,
//! or has a type as soon as it is more than one reason.

use crate::source;
use crate::tokens::{close, of_product, of_text};

/// Functions that still give a text.
const TEXTS: usize = 57;

/// The names of functions that return `Result<_, String>`.
fn texts(words: &[String]) -> Vec<String> {
    let begins = (0..words.len()).filter(|at| words[*at] == "fn");
    begins.filter(|at| gives_text(&words[*at..])).filter_map(|at| words.get(at + 1).cloned()).collect()
}

/// Whether the function that begins here returns a text as its error.
fn gives_text(words: &[String]) -> bool {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    // Behind its name; a type `fn(...)` has none.
    let mut at = if word(1) == "(" { return false } else { 2 };
    if word(at) == "<" {
        at = end_of_generics(words, at) + 1;
    }
    if word(at) != "(" {
        return false;
    }
    at = close(words, at) + 1;
    if [word(at), word(at + 1)] != ["-", ">"] {
        return false;
    }
    let mut returned = Vec::new();
    at += 2;
    while !matches!(word(at), "{" | ";" | "where" | "") {
        returned.push(word(at));
        // Of what is in parentheses and brackets the kind is enough.
        at = if matches!(word(at), "(" | "[") { close(words, at) + 1 } else { at + 1 };
    }
    matches!(returned.as_slice(), ["Result", "<", .., ",", "String", ">"])
}

/// Where the parameters of a type that begin at `at` end.
fn end_of_generics(words: &[String], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, word) in words.iter().enumerate().skip(at) {
        match word.as_str() {
            "<" => depth += 1,
            // Not that of an arrow.
            ">" if words[index - 1] != "-" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    words.len()
}

#[test]
fn an_error_is_a_type_and_not_a_text() {
    let folders = source::crates().into_iter().chain(source::apps()).filter(|(name, _)| name != "gpu");
    let files = folders.flat_map(|(_, folder)| source::files(&folder));
    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(source::root()).unwrap().display().to_string();
        found.extend(texts(&of_product(&file)).into_iter().map(|function| format!("{name}: {function}")));
    }
    let count = found.len();
    assert!(
        count <= TEXTS,
        "{count} functions give a text as their error; give the new one a type:\n{}",
        found.join("\n")
    );
    assert!(count >= TEXTS, "{count} functions are left that give a text as their error; write that number in TEXTS");
}

#[test]
fn a_text_is_found_where_it_is_the_error_of_what_is_returned() {
    let source = "fn a() -> Result<(), String> {} trait T { fn b<T: Fn() -> u8>(&self) -> Result<Vec<(u8, u8)>, String> where T: X; }
                  fn c(f: impl Fn() -> Result<(), String>) -> Result<String, E> {} fn d() -> BTreeMap<u8, String> {}
                  fn e() -> Result<Vec<String>, E> { let f: Result<u8, String> = g(); } fn h(k: fn(u8) -> Result<u8, String>) {}
                  fn l() -> Result<[u8; 2], String> {}
                  #[cfg(test)] mod tests { fn i() -> Result<(), String> {} }";
    assert_eq!(texts(&of_text(source).unwrap()), ["a", "b", "l"]);
}
