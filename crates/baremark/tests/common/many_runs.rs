//! A site of many runs, made from one stored document: each with a name, a time and a value of its own.

use baremark_model::document::Document;
use baremark_report::site::{About, Entry, FEED, INDEX, Site, feed::ChangePoint, render};
use flate2::read::GzDecoder;
use std::fs;
use std::io::Read as _;
use std::path::Path;

/// A stored document of `tests/golden/kinds`, as it was written.
pub fn golden(kind: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/kinds/{kind}.json.gz"));
    let mut text = String::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// The same, read.
pub fn document(kind: &str) -> Document {
    serde_json::from_str(&golden(kind)).unwrap()
}

/// The name of run `number`.
pub fn id(number: usize) -> String {
    format!("20261101-{:04}-{number:08x}", number % 2400)
}

/// Runs of so many studies in turn, the last run the latest; in the second half each ratio is a tenth larger.
pub fn entries(runs: usize, studies: usize) -> Vec<Entry> {
    let mut document = document("places");
    let (ratio, value) = (document.ratios[0].clone(), document.estimates[0].clone());
    let made = |number: usize| {
        let run = &mut document.run;
        run.id = id(number);
        run.study = format!("study {} of a long row of studies whose titles are sentences", number % studies);
        run.started = format!(
            "2026-{:02}-{:02}T{:02}:00:{:02}Z",
            1 + number / 2400 % 12,
            1 + number / 100 % 24,
            number / 60 % 24,
            number % 60
        );
        let factor = if number * 2 < runs { 1.0 } else { 1.1 };
        for row in &mut document.ratios {
            row.ratio = ratio.ratio.map(|of| of * factor);
            (row.lo, row.hi) = (ratio.lo.map(|of| of * factor), ratio.hi.map(|of| of * factor));
        }
        document.estimates[0].estimate = value.estimate * (1.0 + number as f64 * 1e-6);
        Entry::of(&document, &format!("{}.html", id(number)), "finished", false)
    };
    (0..runs).map(made).collect()
}

/// The site of these runs.
pub fn site(runs: usize, studies: usize) -> Site {
    let change = |number: usize| ChangePoint {
        uuid: format!("00000000-0000-8000-a000-{number:012}"),
        study: format!("study {number} <b>&\u{1}"),
        says: "microvm / native (gups): 1.10 times (1.08 to 1.12)".to_owned(),
        page: Some(format!("{}.html", id(number))),
        started: "2026-11-02T10:00:00Z".to_owned(),
    };
    let about = About { uuid: "x".to_owned(), changes: (0..300).map(change).collect(), ..About::default() };
    render(&entries(runs, studies), &about)
}

/// Writes a site but for its reports.
pub fn write(site: &Site, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(INDEX), &site.index).unwrap();
    fs::write(folder.join(FEED), &site.feed).unwrap();
    site.shards.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
}
