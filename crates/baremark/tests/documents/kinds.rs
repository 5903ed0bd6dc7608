//! Reports of a stored document of every kind of run that this machine could make (`tests/golden/kinds`, made by `make-kinds`): nothing that was
//! found is cut, no value is without its unit, and no figure has a single dot.

use super::samples::recorded;
use baremark_model::document::{Document, Outcome, RatioRow};
use baremark_model::plan::Contrast;
use baremark_report::{Style, check_document, commands, html, summary, terminal};
use flate2::read::GzDecoder;
use std::fs;
use std::io::Read;
use std::path::Path;

/// Lines of a first screen, where its sentences are not long.
const LINES: usize = 25;

/// Documents in the folder, and those of samples.
const DOCUMENTS: usize = 23 + 3;

/// Every stored document by its name.
fn documents() -> Vec<(String, Document)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kinds");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let packed = files.filter(|path| path.extension().is_some_and(|end| end == "gz"));
    let read = |path: std::path::PathBuf| {
        let mut text = String::new();
        GzDecoder::new(fs::File::open(&path).unwrap()).read_to_string(&mut text).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().split('.').next().unwrap().to_owned();
        let document = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
        (name, document)
    };
    let mut all: Vec<(String, Document)> = packed.map(read).collect();
    // The runs that README and guide show.
    let sampled = |name: &str| {
        let document = recorded(name).json(&["report", "--json"]);
        (name.to_owned(), serde_json::from_value(document).unwrap_or_else(|why| panic!("{name}: {why}")))
    };
    all.extend(["standard", "ab", "environments"].map(sampled));
    all.sort_by(|one, two| one.0.cmp(&two.0));
    assert_eq!(all.len(), DOCUMENTS, "one was added or lost");
    all
}

/// The text of a page or a part of it: without tags, styles and what only a pointer shows.
fn text(page: &str) -> String {
    let body = page.rsplit_once("</style>").map_or(page, |(_, body)| body);
    let mut text = String::new();
    for piece in body.split('<').skip(1) {
        let (tag, words) = piece.split_once('>').expect("every tag is closed");
        if !["title", "desc"].iter().any(|hidden| tag.starts_with(hidden)) {
            text.push_str(words);
            text.push(' ');
        }
    }
    flat(
        &text
            .replace("&nbsp;", " ")
            .replace("&#39;", "'")
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&"),
    )
}

fn flat(text: &str) -> String {
    text.replace('\u{a0}', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn no_verdict_is_cut_in_any_form() {
    for (name, document) in documents() {
        assert_eq!(check_document::check_exact(&document), [], "{name}");
        let (first, details) =
            (summary::render(&document, &Style::default()), terminal::render(&document, &Style::default()));
        let of_commands = ["ab", "environments"].contains(&name.as_str());
        let compared = if of_commands { commands::render(&document, &[], &Style::default()) } else { String::new() };
        for (form, shown) in [("first screen", &first), ("details", &details), ("ab", &compared)] {
            for line in shown.lines() {
                let columns = line.chars().count();
                let title = line.contains("http://") || line.contains('/') || line.contains('_');
                // A command that is longer is not broken.
                let command = line.trim_start().trim_start_matches("reproduce").trim_start().starts_with("baremark ");
                assert!(columns <= 80 || title || command, "{name}, {form}: {columns} columns: {line}");
                assert!(!line.contains('…') && !line.ends_with(" ..."), "{name}, {form}, cut: {line}");
            }
        }
        let (page, words) = (text(&html::render(&document)), flat(&details));
        for row in document.ratios.iter().filter(|row| row.metric == document.run.metric_of(&row.treatment)) {
            let says = flat(row.words.trim_end_matches('.'));
            if row.contrast.explains() || row.contrast == Contrast::SelfCheck {
                continue;
            }
            assert!(!says.is_empty() && page.contains(&says), "{name}: the page lacks: {says}");
            let in_short = !row.short.is_empty() && words.contains(&row.short);
            assert!(words.contains(&says) || in_short, "{name}: the details lack: {says}");
        }
    }
}

/// As many lines as fit on a screen, unless what is to be said is longer; and whatever is not shown is counted.
#[test]
fn a_first_screen_has_every_row_or_counts_the_others() {
    for (name, document) in documents() {
        let first = summary::render(&document, &Style::default());
        let counted = first.contains("; --details has each") || first.contains(" more: --details");
        assert!(counted || first.lines().count() <= LINES + 5, "{name}:\n{first}");
        let asked = |row: &&RatioRow| row.metric == document.run.metric_of(&row.treatment) && !row.contrast.explains();
        let open = document
            .ratios
            .iter()
            .filter(asked)
            .any(|row| row.outcome == Outcome::NoLarger && row.more_blocks.is_some());
        assert!(!open || first.contains("\nNext"), "{name}, no next step:\n{first}");
    }
}

#[test]
fn no_value_is_without_its_unit() {
    for (name, document) in documents() {
        let page = html::render(&document);
        for row in page.split("<td class=\"number\" data-head=").skip(1) {
            let (cell, _) = row.split_once("</td>").unwrap();
            assert!(cell.contains("<small>"), "{name}: a value without a unit: {cell}");
        }
        let (page, details) = (text(&page), flat(&terminal::render(&document, &Style::default())));
        for row in document.estimates.iter().filter(|row| !row.unit.is_empty()) {
            // Long times are in longer units.
            let units = if row.unit == "ns" { vec!["ns", "us", "ms"] } else { vec![row.unit.as_str()] };
            for (form, shown) in [("page", &page), ("details", &details)] {
                let has = units.iter().any(|unit| shown.contains(unit));
                assert!(has, "{name}: the {form} has no {units:?} for {}", row.metric);
            }
        }
    }
}

#[test]
fn no_figure_has_a_single_dot_and_each_has_its_axes() {
    for (name, document) in documents() {
        let page = html::render(&document);
        for figure in page.split("<figure>").skip(1) {
            let (figure, _) = figure.split_once("</figure>").unwrap();
            let dots = figure.matches("<circle").count() + figure.matches("class=\"void\"").count();
            let lines = figure.matches("<polyline").count();
            let cells = figure.matches("<rect class=\"heat").count();
            // A single cross at a heat map is a second in which operations failed.
            assert!((dots != 1 || cells > 1) && (dots > 1 || lines > 0 || cells > 1), "{name}: {figure}");
            assert!(figure.matches("class=\"tick\"").count() >= 2, "{name}: an axis without ticks: {figure}");
            assert!(figure.contains("<figcaption>"), "{name}: {figure}");
        }
    }
}

/// The standard study measures bandwidth, arithmetic and a solver: its page says which bounds what.
#[test]
fn kernels_have_a_roofline() {
    let has_one = |document: &Document| html::render(document).contains("id=\"roofline-title\"");
    let drawn: Vec<String> =
        documents().into_iter().filter(|(_, document)| has_one(document)).map(|(name, _)| name).collect();
    assert_eq!(drawn, ["standard"]);
}

/// What a workload reports alongside its metrics is on its page, by the words of its kind; and published ratios are marks next to ours.
#[test]
fn details_of_workloads_are_shown() {
    let said = [
        ("baremark-databases/", "Databases"),
        ("baremark-block/", "Block I/O"),
        ("baremark-load/", "HTTP load"),
        ("baremark-provision/", "LUNs"),
        ("baremark-tile/", "Tiles"),
        ("baremark-web-farm/", "Web farm"),
        ("baremark-auction/", "Application"),
    ];
    let (mut seen, mut published) = (0, 0);
    for (name, document) in documents() {
        let drawn = html::render(&document);
        published += drawn.matches("<path class=\"published\"").count();
        let (page, details) = (text(&drawn), terminal::render(&document, &Style::default()));
        for (_, head) in
            said.iter().filter(|(format, _)| document.details.iter().any(|of| of.format.starts_with(format)))
        {
            assert!(page.contains(head) && details.contains(head), "{name}: {head}");
            seen += 1;
        }
    }
    assert!(seen >= 9, "{seen} documents with details");
    assert!(published > 0, "no published ratio is next to one of ours");
}
