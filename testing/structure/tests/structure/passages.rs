//! No two equal passages of more than 20 lines in the sources of all crates.
//!
//! Compared are lines of code without their indentation: comments, empty lines, imports and tests do not count. What says
//! the same in other words is not found.

use crate::source;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The longest passage that may stand twice, in lines.
const MOST: usize = 20;

/// A line of code with its number in the file, from 1.
pub(crate) type Line = (usize, String);

/// How a line that begins an item goes on: to the end of a block, or to a semicolon.
#[derive(Clone, Copy, PartialEq)]
enum Skip {
    Attributes,
    Block(usize),
    Statement,
}

/// The lines of a formatted source that count.
pub(crate) fn code(source: &str) -> Vec<Line> {
    let mut kept = Vec::new();
    let mut skip: Option<Skip> = None;
    for (index, raw) in source.lines().enumerate() {
        let line = raw.trim();
        let depth = raw.len() - raw.trim_start().len();
        skip = match skip {
            Some(Skip::Attributes) if line.starts_with("#[") => skip,
            Some(Skip::Attributes) if line.ends_with('{') => Some(Skip::Block(depth)),
            Some(Skip::Attributes) => ends_not(line).then_some(Skip::Statement),
            Some(Skip::Block(opened)) => (depth != opened || !line.starts_with('}')).then_some(Skip::Block(opened)),
            Some(Skip::Statement) => ends_not(line).then_some(Skip::Statement),
            None if line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test") => Some(Skip::Attributes),
            None if is_import(line) => ends_not(line).then_some(Skip::Statement),
            None => {
                if !line.is_empty() && !line.starts_with("//") {
                    kept.push((index + 1, line.split_whitespace().collect::<Vec<_>>().join(" ")));
                }
                None
            }
        };
    }
    kept
}

fn is_import(line: &str) -> bool {
    let visible = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or(rest, |(_, rest)| rest),
        None => rest,
    });
    visible.trim_start().starts_with("use ")
}

fn ends_not(line: &str) -> bool {
    !line.ends_with(';')
}

/// Passages longer than `most` lines that stand twice, in words, each as long as it is.
fn passages(files: &[(String, Vec<Line>)], most: usize) -> Vec<String> {
    let mut seen: HashMap<Vec<&str>, (usize, usize)> = HashMap::new();
    let mut found = Vec::new();
    // Where the passage ends that is reported already: its later windows are no further ones.
    let mut reported = None;
    for (file, (name, lines)) in files.iter().enumerate() {
        let texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
        for (at, window) in texts.windows(most + 1).enumerate() {
            let Some(&(first, from)) = seen.get(window) else {
                seen.insert(window.to_vec(), (file, at));
                continue;
            };
            let continues = reported == Some((file, at, first, from));
            reported = Some((file, at + 1, first, from + 1));
            if !continues {
                let [(other, before), (_, here)] = [(&files[first].0, files[first].1[from].0), (name, lines[at].0)];
                found.push(format!("{other}:{before} and {name}:{here} have more than {most} lines in common"));
            }
        }
    }
    found
}

fn named(root: &Path, path: &Path) -> (String, Vec<Line>) {
    let name = path.strip_prefix(root).unwrap().display().to_string();
    (name, code(&fs::read_to_string(path).unwrap()))
}

#[test]
fn no_passage_of_more_than_20_lines_stands_twice() {
    let root = source::root();
    let paths = source::crates().into_iter().flat_map(|(_, folder)| source::files(&folder));
    let files: Vec<_> = paths.map(|path| named(&root, &path)).collect();
    let lines: usize = files.iter().map(|(_, lines)| lines.len()).sum();
    assert!(lines > 50_000, "{lines} lines of code were read");
    let found = passages(&files, MOST);
    assert!(found.is_empty(), "write it once:\n{}", found.join("\n"));
}

#[test]
fn a_passage_that_stands_twice_is_found_whatever_stands_between_its_lines() {
    let passage = |indent: &str, noise: &str| -> String {
        (0..MOST + 3).map(|line| format!("{indent}let x{line} = {line};\n{noise}")).collect()
    };
    let [one, two] =
        [passage("", ""), format!("fn f() {{\n{}}}\n", passage("    ", "\n    // a comment\n    use a::b;\n"))];
    let files = [("one", one.as_str()), ("two", two.as_str())].map(|(name, text)| (name.to_owned(), code(text)));
    assert_eq!(passages(&files, MOST), ["one:1 and two:2 have more than 20 lines in common"]);
    assert_eq!(passages(&files, MOST + 3), Vec::<String>::new());
    let test = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", passage("    ", ""));
    let files = [("one", one.as_str()), ("two", test.as_str())].map(|(name, text)| (name.to_owned(), code(text)));
    assert_eq!((passages(&files, MOST), files[1].1.len()), (Vec::new(), 0));
}
