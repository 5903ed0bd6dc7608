//! What README.md and docs/guide.md show of the program is what it prints: each sample of docs/samples is rendered again, from its stored run in
//! `tests/golden/samples` or by its command where nothing is measured, and compared character by character.
//!
//! `scripts/docs-samples` records samples; `UPDATE_PAGES=1` writes what the program prints today into docs/samples and the documents.

use crate::common::bench::{Bench, text};
use crate::common::stored;
use baremark_model::document::Document;
use baremark_model::scale::ScaleDocument;
use baremark_report::{Style, commands};
use flate2::read::GzDecoder;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The documents with samples.
const PAGES: [&str; 2] = ["README.md", "docs/guide.md"];

/// The stores of the samples' runs, each packed.
const GOLDEN: &str = "crates/baremark/tests/golden/samples";

/// How a sample is printed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Again {
    /// By the command itself, which measures nothing.
    Exact,
    /// By `baremark report`.
    Report,
    /// As `baremark ab` and `baremark run --in` do at their end.
    Ab,
    /// By `baremark report`, below its title.
    Load,
    /// By `baremark verify-scale --run`.
    VerifyScale,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    command: String,
    again: Again,
    exit: i32,
    program: String,
    date: String,
    commit: String,
    run: Option<String>,
    machine: Option<String>,
    kernel: Option<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

fn samples() -> BTreeMap<String, Sample> {
    toml::from_str(&read("docs/samples/samples.toml")).expect("docs/samples/samples.toml")
}

/// The words of a command line in single quotation marks or without.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in command.chars() {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().unwrap().push(other),
        }
    }
    words
}

/// The commands that `ab` compares, by name; the one of `run --in` has no name.
fn compared(command: &str) -> Vec<(String, String)> {
    match command.split_once(" -- ") {
        Some((_, program)) => vec![(String::new(), program.to_owned())],
        None => ["A", "B"].map(str::to_owned).into_iter().zip(words(command).split_off(2)).collect(),
    }
}

/// A bench with the store of a sample's run.
pub fn recorded(name: &str) -> Bench {
    let bench = Bench::new();
    let packed = fs::File::open(root().join(GOLDEN).join(format!("{name}.db.gz"))).unwrap();
    fs::create_dir(bench.path("store")).unwrap();
    let mut store = fs::File::create(bench.store()).unwrap();
    std::io::copy(&mut GzDecoder::new(packed), &mut store).unwrap();
    bench
}

/// What today's program prints of a sample, after the command line.
fn printed(name: &str, sample: &Sample) -> String {
    let shown = match (sample.again, &sample.run) {
        (Again::Exact, _) => {
            let bench = Bench::new();
            sample.files.iter().for_each(|(file, text)| drop(bench.write(file, text)));
            let arguments = words(&sample.command).split_off(1);
            let mut command = bench.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            // Help is as wide as the terminal.
            let output = command.env("COLUMNS", "80").output().unwrap();
            assert_eq!(output.status.code(), Some(sample.exit), "{name}: {}", text(&output.stderr));
            text(&output.stdout) + &text(&output.stderr)
        }
        (again, Some(run)) => {
            let bench = recorded(name);
            match again {
                Again::VerifyScale => text(&bench.run(&["verify-scale", "--run", run]).stdout),
                Again::Report => stored::shown(&bench, &["report", run]),
                Again::Load => {
                    let report = stored::shown(&bench, &["report", run]);
                    report.split_once('\n').expect("a title").1.to_owned()
                }
                _ => {
                    let document: Document = serde_json::from_value(bench.json(&["report", run, "--json"])).unwrap();
                    commands::render(&document, &compared(&sample.command), &Style::default())
                }
            }
        }
        (_, None) => panic!("{name}: samples.toml names no run"),
    };
    let lines: Vec<&str> = shown.trim_end().lines().map(str::trim_end).collect();
    format!("$ {}\n{}\n", sample.command, lines.join("\n"))
}

/// The text of a page with the samples between their marks put anew, and the names of those that it shows.
///
/// A mark is `<!-- sample NAME: begin -->`, or `<!-- sample NAME 1 3-6, OTHER: begin -->` for the lines 1 and 3 to 6 of what was printed below the command
/// line of the one, and all of the other.
fn filled(page: &str, texts: &BTreeMap<String, String>) -> (String, BTreeSet<String>) {
    let (mut filled, mut shown, mut rest) = (String::new(), BTreeSet::new(), page);
    while let Some(at) = rest.find("<!-- sample ") {
        let (before, marked) = rest.split_at(at);
        let (what, after) =
            marked["<!-- sample ".len()..].split_once(": begin -->\n").expect("': begin -->' on its line");
        let end = format!("<!-- sample {what}: end -->");
        let (_, following) = after.split_once(&end).unwrap_or_else(|| panic!("no {end}"));
        let parts = what.split(", ").map(|part| {
            let (name, lines) = part.split_once(' ').map_or((part, None), |(name, lines)| (name, Some(lines)));
            let whole = texts.get(name).unwrap_or_else(|| panic!("docs/samples has no sample '{name}'"));
            shown.insert(name.to_owned());
            lines.map_or_else(|| whole.clone(), |lines| excerpt(whole, lines))
        });
        let text = parts.collect::<Vec<_>>().join("\n");
        filled += &format!("{before}<!-- sample {what}: begin -->\n```text\n{text}```\n{end}");
        rest = following;
    }
    (filled + rest, shown)
}

/// The command line of a sample and some of the lines below it, such as `1-3 5`.
fn excerpt(whole: &str, chosen: &str) -> String {
    let lines: Vec<&str> = whole.lines().collect();
    let number = |word: &str| word.parse::<usize>().unwrap_or_else(|why| panic!("'{chosen}': {why}"));
    let mut text = format!("{}\n", lines[0]);
    for range in chosen.split(' ') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (number(first), number(last));
        assert!(first > 0 && first <= last && last < lines.len(), "{chosen}: {} lines in {whole}", lines.len() - 1);
        lines[first..=last].iter().for_each(|line| text += &format!("{line}\n"));
    }
    text
}

#[test]
fn samples_are_what_this_program_prints_and_documents_show_them() {
    let (samples, update) = (samples(), std::env::var_os("UPDATE_PAGES").is_some());
    assert!(samples.len() >= 5, "{samples:?}");
    let is = |path: &str, wanted: &str| {
        if update {
            fs::write(root().join(path), wanted).unwrap();
        }
        let found = fs::read_to_string(root().join(path)).unwrap_or_default();
        let differing =
            wanted.lines().zip(found.lines().chain(std::iter::repeat(""))).find(|(wanted, found)| wanted != found);
        assert!(
            found == wanted,
            "{path} is not what this program prints; UPDATE_PAGES=1 cargo test writes it, scripts/docs-samples measures anew: {differing:#?}"
        );
    };
    let mut texts = BTreeMap::new();
    for (name, sample) in &samples {
        let text = printed(name, sample);
        is(&format!("docs/samples/{name}.txt"), &text);
        texts.insert(name.clone(), text);
    }
    let mut shown = BTreeSet::new();
    for page in PAGES {
        let (wanted, names) = filled(&read(page), &texts);
        is(page, &wanted);
        shown.extend(names);
    }
    let pictured = ["injected".to_owned()];
    let unused: Vec<&String> =
        samples.keys().filter(|name| !shown.contains(*name) && !pictured.contains(name)).collect();
    assert!(unused.is_empty(), "no document shows {unused:?}");
}

#[test]
fn every_sample_has_its_origin_and_no_file_is_left_over() {
    let samples = samples();
    for (name, sample) in &samples {
        assert!(sample.date.len() == 10 && sample.commit.len() >= 8, "{name}: {sample:?}");
        assert!(sample.program.starts_with("baremark "), "{name}: {sample:?}");
        let measured = sample.again != Again::Exact;
        let origin = [&sample.run, &sample.machine, &sample.kernel];
        assert!(origin.iter().all(|of| of.is_some() == measured), "{name}: {sample:?}");
    }
    let names = |folder: &str, end: &str| -> BTreeSet<String> {
        let files =
            fs::read_dir(root().join(folder)).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        files.filter_map(|file| file.strip_suffix(end).map(str::to_owned)).collect()
    };
    assert_eq!(names("docs/samples", ".txt"), samples.keys().cloned().collect());
    let measured = samples.iter().filter(|(_, sample)| sample.again != Again::Exact).map(|(name, _)| name.clone());
    assert_eq!(names(GOLDEN, ".db.gz"), measured.collect());
}

/// The text of what an SVG has in these elements.
fn drawn(picture: &str, begin: &str, end: &str) -> Vec<String> {
    let parts = picture.split(begin).skip(1).map(|part| part.split(end).next().unwrap());
    let inner = parts.map(|part| part.split_once('>').map_or(part, |(_, inner)| inner));
    let text = inner.map(|inner| {
        let mut plain = String::new();
        let mut tag = false;
        for character in inner.chars() {
            match character {
                '<' => tag = true,
                '>' if tag => tag = false,
                other if !tag => plain.push(other),
                _ => {}
            }
        }
        plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    });
    text.collect()
}

#[test]
fn the_terminal_of_the_readme_ends_with_the_sample() {
    let picture = read("docs/samples/standard.svg");
    let lines = drawn(&picture, "<text class=\"l\"", "</text>");
    let sample = read("docs/samples/standard.txt");
    let wanted: Vec<&str> = sample.lines().filter(|line| !line.is_empty()).collect();
    let warned: Vec<&String> = lines.iter().filter(|line| !wanted.contains(&line.as_str())).collect();
    assert!(warned.iter().all(|line| line.starts_with("warning: ")), "scripts/docs-samples --redraw: {warned:?}");
    let lines: Vec<&str> = lines.iter().map(String::as_str).filter(|line| wanted.contains(line)).collect();
    assert_eq!(lines, wanted, "scripts/docs-samples --redraw draws it anew");
    let moving = drawn(&picture, "<text class=\"m\"", "</text>");
    assert!(moving.iter().filter(|line| line.contains("block ")).count() > 5, "no progress is drawn: {moving:?}");
}

#[test]
fn the_plot_of_injected_costs_has_what_the_run_found() {
    let sample = &samples()["injected"];
    let bench = recorded("injected");
    let output = bench.run(&["verify-scale", "--run", sample.run.as_ref().unwrap(), "--json"]);
    let document: ScaleDocument = serde_json::from_slice(&output.stdout).unwrap();
    let percent = |share: f64| format!("{:.2}", 100.0 * share);
    let rows = document.rows.iter().filter_map(|row| {
        let (found, lo, hi) = (percent(row.recovered?), percent(row.lo?), percent(row.hi?));
        Some(format!("{} % injected: {found} % ({lo} to {hi})", percent(row.injected)))
    });
    let mut wanted: Vec<String> = rows.collect();
    let picture = read("docs/samples/injected.svg");
    let mut found = drawn(&picture, "<g><title", "</title>");
    wanted.sort();
    found.sort();
    assert!(!found.is_empty() && found == wanted, "{found:#?} are drawn, {wanted:#?} were found");
    // Arms without an interval are not left out in silence.
    let lacking = document.rows.len() - wanted.len();
    let said = format!("{lacking} of {} arms had too few blocks", document.rows.len());
    assert!(lacking == 0 || picture.contains(&said), "not in the picture: {said}");
    assert!(picture.contains(&document.run), "the picture does not name its run");
}

/// The targets of a document's links, without what is elsewhere.
fn links(document: &str) -> Vec<String> {
    let targets = document.split("](").skip(1).filter_map(|part| part.split([')', ' ']).next());
    targets.filter(|target| !target.contains("://") && !target.starts_with('#')).map(str::to_owned).collect()
}

/// The file of a link in a page of this folder.
fn target(folder: &Path, link: &str) -> PathBuf {
    let path = link.split('#').next().unwrap();
    fs::canonicalize(folder.join(path)).unwrap_or_else(|why| panic!("{}: {link}: {why}", folder.display()))
}

#[test]
fn every_document_is_linked_from_the_readme_or_the_guide() {
    let (root, docs) = (root().canonicalize().unwrap(), root().canonicalize().unwrap().join("docs"));
    let of = |page: &str, folder: &Path| links(&read(page)).iter().map(|link| target(folder, link)).collect::<Vec<_>>();
    let linked: BTreeSet<PathBuf> = [of("README.md", &root), of("docs/guide.md", &docs)].concat().into_iter().collect();
    let all = fs::read_dir(&docs).unwrap().map(|entry| entry.unwrap().path());
    let alone: Vec<PathBuf> = all.filter(|path| !path.ends_with("guide.md") && !linked.contains(path)).collect();
    assert!(alone.is_empty(), "linked from neither README.md nor docs/guide.md: {alone:?}");
    assert!(linked.contains(&docs.join("guide.md")));
}

#[test]
fn links_between_documents_lead_to_files() {
    let docs = root().join("docs");
    let pages = fs::read_dir(&docs).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|of| of == "md"));
    let mut checked = 0;
    for page in pages.chain(["README.md", "ARCHITECTURE.md"].map(|page| root().join(page))) {
        for link in links(&fs::read_to_string(&page).unwrap()) {
            target(page.parent().unwrap(), &link);
            checked += 1;
        }
    }
    assert!(checked > 60, "{checked} links");
}

#[test]
fn the_readme_fits_two_screens_and_has_its_two_commands() {
    let readme = read("README.md");
    assert!(readme.lines().count() <= 90, "{} lines", readme.lines().count());
    // Rows of a table are on one line whatever their length.
    let wide = readme.lines().find(|line| !line.starts_with('|') && line.chars().count() > 120);
    assert_eq!(wide, None, "longer than 120 columns");
    assert!(readme.contains("make run") && readme.contains("make test"), "{readme}");
}
