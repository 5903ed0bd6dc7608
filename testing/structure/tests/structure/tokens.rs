//! The words of a source as the compiler reads them, tests apart.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// The words of a file without its tests.
pub(crate) fn of_product(file: &Path) -> Vec<String> {
    of_text(&fs::read_to_string(file).unwrap()).unwrap_or_else(|why| panic!("{}: {why}", file.display()))
}

/// The words of a source without its tests.
pub(crate) fn of_text(text: &str) -> Result<Vec<String>, proc_macro2::LexError> {
    let mut all = Vec::new();
    words(TokenStream::from_str(text)?, &mut all);
    Ok(without_tests(&all))
}

/// The text of a literal that is a string, without quotation marks; escapes stay as they are written.
pub(crate) fn text_of(word: &str) -> Option<&str> {
    word.strip_prefix('r').unwrap_or(word).trim_matches('#').strip_prefix('"')?.strip_suffix('"')
}

/// Source as words: identifiers, `::`, and every other sign by itself. Comments are gone, and a literal is one word as it is written.
fn words(stream: TokenStream, into: &mut Vec<String>) {
    for tree in stream {
        match tree {
            TokenTree::Ident(ident) => into.push(ident.to_string()),
            TokenTree::Literal(literal) => into.push(literal.to_string()),
            TokenTree::Punct(punct) => match into.last_mut() {
                // Of three colons in a row, as in `a: ::b`, none is written here.
                Some(last) if punct.as_char() == ':' && last == ":" => last.push(':'),
                _ => into.push(punct.as_char().to_string()),
            },
            TokenTree::Group(group) => {
                let [open, close] = match group.delimiter() {
                    Delimiter::Brace => ["{", "}"],
                    Delimiter::Bracket => ["[", "]"],
                    Delimiter::Parenthesis | Delimiter::None => ["(", ")"],
                };
                into.push(open.to_owned());
                words(group.stream(), into);
                into.push(close.to_owned());
            }
        }
    }
}

/// Where what opens at `at` closes.
pub(crate) fn close(words: &[String], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, word) in words.iter().enumerate().skip(at) {
        match word.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 1 => return index,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    words.len()
}

/// Without attributes, and without items of tests.
fn without_tests(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if words[at] != "#" || words.get(at + 1).is_none_or(|next| next != "[") {
            kept.push(words[at].clone());
            at += 1;
            continue;
        }
        let end = close(words, at + 1);
        let attribute = words[at + 2..end].concat();
        at = end + 1;
        if attribute.starts_with("cfg(test") || attribute.starts_with("cfg(all(test") {
            while words.get(at).is_some_and(|word| word == "#") {
                at = close(words, at + 1) + 1;
            }
            while at < words.len() && words[at] != ";" && words[at] != "{" {
                at = if matches!(words[at].as_str(), "(" | "[") { close(words, at) + 1 } else { at + 1 };
            }
            at = if words.get(at).is_some_and(|word| word == "{") { close(words, at) + 1 } else { at + 1 };
        }
    }
    kept
}
