//! Texts avoid the terms of docs/language.toml: string literals and help in the program, documents, studies, README; of some terms
//! comments too.

use regex_lite::{Regex, RegexBuilder};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Terms {
    term: Vec<Term>,
}

/// One expression to avoid.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Term {
    refuse: String,
    write: String,
    bad: String,
    good: String,
    /// Whether comments of sources avoid it too.
    #[serde(default)]
    comments: bool,
}

impl Term {
    fn pattern(&self) -> Regex {
        RegexBuilder::new(&self.refuse).case_insensitive(true).build().expect("a regular expression")
    }
}

/// Sources outside of the folder `commands` whose comments are the help of commands and options.
const HELP: [&str; 4] =
    ["baremark/src/main.rs", "baremark/src/part_of_run.rs", "baremark/src/overrides.rs", "auction/src/command.rs"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn terms() -> Vec<Term> {
    let text = fs::read_to_string(root().join("docs/language.toml")).expect("the terms");
    toml::from_str::<Terms>(&text).expect("terms").term
}

#[test]
fn every_term_refuses_its_bad_text_and_leaves_its_good_one() {
    for term in terms() {
        assert!(term.pattern().is_match(&term.bad), "'{}' does not find '{}'", term.refuse, term.bad);
        assert!(!term.pattern().is_match(&term.good), "'{}' finds '{}'", term.refuse, term.good);
    }
}

#[test]
fn texts_avoid_the_terms() {
    let terms: Vec<(Regex, Term)> = terms().into_iter().map(|term| (term.pattern(), term)).collect();
    let comments = comments().into_iter().map(|text| (text, true));
    let mut found = Vec::new();
    for ((path, line, text), comment) in texts().into_iter().map(|text| (text, false)).chain(comments) {
        for (pattern, term) in terms.iter().filter(|(_, term)| term.comments || !comment) {
            if let Some(hit) = pattern.find(&text) {
                let path = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
                found.push(format!("{path}:{line}: '{}' in '{}'; write {}", hit.as_str(), text.trim(), term.write));
            }
        }
    }
    assert!(found.is_empty(), "{} texts use terms that docs/language.toml refuses:\n{}", found.len(), found.join("\n"));
}

/// All texts with their file and line: literals of sources without their tests, help of commands, lines of documents.
fn texts() -> Vec<(PathBuf, usize, String)> {
    let mut texts = Vec::new();
    for path in sources() {
        let of_users = path.components().any(|part| part.as_os_str() == "src");
        if !of_users || path.file_name().is_some_and(|name| name == "tests.rs") {
            continue;
        }
        let source = fs::read_to_string(&path).expect("a source");
        let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
        let help =
            path.components().any(|part| part.as_os_str() == "commands") || HELP.iter().any(|of| path.ends_with(of));
        // A literal of one word is a key or a name.
        let sentences = literals(&source).into_iter().filter(|(_, text)| text.trim().contains(' '));
        texts.extend(sentences.map(|(line, text)| (path.clone(), line, text)));
        let comments = source.lines().enumerate().filter(|(_, line)| help && line.trim_start().starts_with("/// "));
        texts.extend(comments.map(|(index, line)| (path.clone(), index + 1, line.trim().to_owned())));
    }
    let documents = files(&root().join("docs"), "md").into_iter();
    let examples = files(&root().join("docs"), "toml").into_iter().filter(|path| !path.ends_with("language.toml"));
    let documents = documents.chain(files(&root().join("studies"), "toml")).chain(examples);
    for path in documents.chain(["README.md", "ARCHITECTURE.md"].map(|name| root().join(name))) {
        let text = fs::read_to_string(&path).expect("a document");
        texts.extend(text.lines().enumerate().map(|(index, line)| (path.clone(), index + 1, line.to_owned())));
    }
    texts
}

/// The comments of all sources with their file and line. Code in backticks is left out.
fn comments() -> Vec<(PathBuf, usize, String)> {
    let code = Regex::new("`[^`]*`").expect("a regular expression");
    let mut comments = Vec::new();
    for path in sources() {
        let source = fs::read_to_string(&path).expect("a source");
        let lines = source.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//"));
        comments
            .extend(lines.map(|(index, line)| (path.clone(), index + 1, code.replace_all(line, "``").into_owned())));
    }
    comments
}

/// The sources of all crates and applications.
fn sources() -> Vec<PathBuf> {
    ["crates", "apps"].iter().flat_map(|folder| files(&root().join(folder), "rs")).collect()
}

#[test]
fn applications_help_and_the_architecture_are_read() {
    let texts = texts();
    let read = |end: &str| texts.iter().any(|(path, ..)| path.ends_with(end));
    for end in ["apps/auction/src/command.rs", "baremark/src/main.rs", "ARCHITECTURE.md", "README.md"] {
        assert!(read(end), "{end}");
    }
    let help = |end: &str, words: &str| texts.iter().any(|(path, _, text)| path.ends_with(end) && text.contains(words));
    assert!(
        help("baremark/src/main.rs", "/// Show a stored run again")
            && help("auction/src/command.rs", "/// Serve the site")
    );
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|of| of == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The string literals of a source with the lines on which they begin. Comments, characters and lifetimes are passed over.
fn literals(source: &str) -> Vec<(usize, String)> {
    let bytes = source.as_bytes();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        let rest = &source[at..];
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some((text, length)) = literal(rest).filter(|_| begins(source, at)) {
            found.push((line, text));
            length
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest[1..].find("'").map_or(1, |end| end + 2).max(3)
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        line += rest[..skipped].matches('\n').count();
        at += skipped;
    }
    found
}

/// Whether a literal can begin at `at`: an `r` there is not the end of a name.
fn begins(source: &str, at: usize) -> bool {
    let before = source[..at].trim_end_matches('b').bytes().next_back();
    !source[at..].starts_with('r') || !before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The literal at the beginning of `rest`, plain or raw, and its length in bytes with its quotation marks.
fn literal(rest: &str) -> Option<(String, usize)> {
    if let Some(raw) = rest.strip_prefix('r') {
        let hashes = raw.bytes().take_while(|byte| *byte == b'#').count();
        let body = raw[hashes..].strip_prefix('"')?;
        let end = body.find(&format!("\"{}", "#".repeat(hashes)))?;
        return Some((body[..end].to_owned(), 1 + hashes + 1 + end + 1 + hashes));
    }
    let body = rest.strip_prefix('"')?;
    let (mut escaped, mut text) = (false, String::new());
    for (index, character) in body.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some((joined(&text), index + 2)),
            _ => {}
        }
        text.push(character);
    }
    None
}

/// A literal that goes on over lines (`\` at their ends) as one line.
fn joined(text: &str) -> String {
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |all, line| all + line.trim_start())
}

#[test]
fn literals_are_found_and_comments_are_not() {
    let source = "// \"no\"\nlet a = \"yes \\\"quoted\\\"\"; let b = r#\"raw\"#; let c = '\"'; let e = b\"bytes\"; let d = \"two \\\n    lines\";";
    let texts: Vec<String> = literals(source).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["yes \\\"quoted\\\"", "raw", "bytes", "two lines"]);
}
