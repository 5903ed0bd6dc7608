//! The text of a study, rewritten string by string: as much of TOML as that takes.

use crate::keys::VARIABLES;

/// `text` without comments and without the variables of programs, each string as `rewrite` gives it for its key. What is not TOML becomes
/// something else that is not.
pub(crate) fn rewritten(text: &str, rewrite: &mut dyn FnMut(&str, &str) -> String) -> String {
    let mut written = String::new();
    let mut rest = text;
    // Whether this is a table of variables.
    let mut variables = false;
    while !rest.is_empty() {
        let begun = rest.trim_start_matches([' ', '\t']);
        if begun.starts_with('[') {
            variables = begun.starts_with(&format!("[command.{VARIABLES}"));
        }
        let header = begun.starts_with('[');
        let value = begun.strip_prefix(VARIABLES).and_then(|rest| rest.trim_start().strip_prefix('='));
        let inline = value.is_some_and(|value| value.trim_start().starts_with('{'));
        let mut line = String::new();
        rest = one(rest, &mut line, rewrite);
        if header || !(variables || inline) {
            written.push_str(&line);
        }
    }
    written
}

/// Rewrites a line, with the further lines of a string that begins in it; what follows.
fn one<'t>(text: &'t str, line: &mut String, rewrite: &mut dyn FnMut(&str, &str) -> String) -> &'t str {
    let (mut rest, mut key, mut word) = (text, String::new(), String::new());
    while let Some(c) = rest.chars().next() {
        let quotes = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quotes| rest.starts_with(quotes));
        if let Some(quotes) = quotes {
            let (string, after) = string(&rest[quotes.len()..], quotes);
            rest = after;
            // A key in quotation marks is a name, and stays.
            match rest.trim_start().starts_with('=') || line.trim_start().starts_with('[') && !line.contains('=') {
                true => line.push_str(&quoted(&string)),
                false => line.push_str(&quoted(&rewrite(&key, &string))),
            }
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '\n' => {
                line.push(c);
                return rest;
            }
            '#' => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            '=' => key = std::mem::take(&mut word),
            c if c.is_ascii_alphanumeric() || c == '_' || c == '-' => word.push(c),
            ' ' | '\t' => {}
            _ => word.clear(),
        }
        line.push(c);
    }
    rest
}

/// The string that ends at `quotes`, and what follows.
fn string<'t>(text: &'t str, quotes: &str) -> (String, &'t str) {
    let literal = quotes.starts_with('\'');
    let mut at = 0;
    while at < text.len() && !text[at..].starts_with(quotes) {
        let skipped = if !literal && text[at..].starts_with('\\') { 1 } else { 0 };
        at += skipped;
        at += text[at..].chars().next().map_or(0, char::len_utf8);
    }
    let (inner, after) = (&text[..at], text[at..].strip_prefix(quotes).unwrap_or_default());
    let inner = if quotes.len() == 3 { inner.strip_prefix('\n').unwrap_or(inner) } else { inner };
    match literal || !inner.contains('\\') {
        true => (inner.to_owned(), after),
        false => (unescaped(inner), after),
    }
}

/// A string without its escapes; one that has others than JSON stays as it is.
fn unescaped(text: &str) -> String {
    let line = text.replace('\n', "\\n");
    serde_json::from_str(&format!("\"{line}\"")).unwrap_or_else(|_| text.to_owned())
}

/// A text as a string of one line.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
