//! Each package has a README that begins with its line in ARCHITECTURE.md. Those of the leaves show an example, which is a file that compiles.

use crate::source;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Levels of crates with an example: they depend on no more than each other.
const LEAVES: u32 = 1;

/// The first sentence after the title, on one line and without its full stop.
fn first_sentence(readme: &str) -> Option<String> {
    let (title, rest) = readme.split_once("\n\n")?;
    let paragraph = rest.split("\n\n").next()?.lines().collect::<Vec<_>>().join(" ");
    let sentence = paragraph.split_once(". ").map_or(paragraph.trim_end(), |(first, _)| first);
    title.starts_with("# ").then(|| sentence.trim_end_matches('.').to_owned())
}

/// Whether a sentence is these words; it begins with a capital letter.
fn is_the_line(sentence: &str, line: &str) -> bool {
    let lower =
        |text: &str| text.chars().take(1).flat_map(char::to_lowercase).chain(text.chars().skip(1)).collect::<String>();
    sentence.starts_with(|first: char| !first.is_lowercase()) && lower(sentence) == lower(line)
}

/// The Rust code that a README shows.
fn shown(readme: &str) -> Vec<&str> {
    readme.split("```rust\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect()
}

/// The files that a text links to.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target).filter(|target| !target.contains("://")).collect()
}

/// The texts of a package's examples, by file name.
fn examples(folder: &Path) -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir(folder.join("examples")) else { return BTreeMap::new() };
    let files = entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|of| of == "rs"));
    files.map(|path| (path.file_name().unwrap().display().to_string(), fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn a_readme_begins_with_the_line_of_its_crate() {
    let rows = source::table();
    let mut wrong = Vec::new();
    for (name, folder) in source::packages() {
        let line = &rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name} has no line")).what;
        let Ok(readme) = fs::read_to_string(folder.join("README.md")) else {
            wrong.push(format!("{}: has no README.md", folder.display()));
            continue;
        };
        let sentence = first_sentence(&readme).unwrap_or_default();
        if !is_the_line(&sentence, line) {
            wrong.push(format!("{name}: '{sentence}', in ARCHITECTURE.md '{line}'"));
        }
        let dead = links(&readme).into_iter().filter(|link| !folder.join(link).exists());
        wrong.extend(dead.map(|link| format!("{name}: {link} is not there")));
    }
    assert!(
        wrong.is_empty(),
        "first sentences are the lines of ARCHITECTURE.md, and links lead to files:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn readmes_of_leaves_show_an_example_and_none_shows_other_code() {
    let rows = source::table();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for (name, folder) in source::packages() {
        let readme = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        let (shown, examples) = (shown(&readme), examples(&folder));
        let is_leaf = rows.iter().any(|row| row.name == name && row.level <= LEAVES)
            && folder.ends_with(format!("crates/{name}"));
        if is_leaf && shown.is_empty() {
            wrong.push(format!("{name}: its README shows no example"));
        }
        for code in shown {
            compared += 1;
            if !examples.values().any(|text| text == code) {
                let head = code.lines().next().unwrap_or_default();
                wrong.push(format!("{name}: '{head}' is in no file of examples/ with this text; copy the file"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(compared > 10, "{compared} examples");
}

#[test]
fn examples_have_names_of_their_own() {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, target) in source::examples() {
        owners.entry(target).or_default().push(name);
    }
    let twice: Vec<_> = owners.into_iter().filter(|(_, owners)| owners.len() > 1).collect();
    assert!(twice.is_empty(), "they overwrite each other in target/: {twice:?}");
}

#[test]
fn a_readme_is_read_as_it_is_shown() {
    let readme = "# name\n\nThe mathematics of\ncomparison; no I/O. More.\n\n```rust\nfn main() {}\n```\n[a](b.md) [c](https://d)";
    let sentence = first_sentence(readme).unwrap();
    assert_eq!(sentence, "The mathematics of comparison; no I/O");
    assert!(is_the_line(&sentence, "the mathematics of comparison; no I/O"));
    assert!(!is_the_line(&sentence, "the mathematics of comparison"));
    assert!(!is_the_line("the mathematics", "the mathematics"), "a sentence begins with a capital letter");
    assert_eq!(first_sentence("No title\n\nThe mathematics."), None);
    assert_eq!(shown(readme), ["fn main() {}\n"]);
    assert_eq!(links(readme), ["b.md"]);
}
