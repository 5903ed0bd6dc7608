//! The index of a site, and what it loads: small however many runs there are, and text whatever a run says.

use crate::common::many_runs::{document, entries, id, site};
use baremark_report::html;
use baremark_report::site::{About, Entry, render};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of an index of ten thousand runs.
const INDEX_BYTES: usize = 300 << 10;
/// Bytes of a file that it loads.
const FILE_BYTES: usize = 512 << 10;

/// The calls of a file's script: what is called, and its arguments.
fn calls(text: &str) -> Vec<(String, Vec<Value>)> {
    text.lines()
        .map(|line| {
            let (name, rest) = line.strip_prefix("baremark.").unwrap().split_once('(').unwrap();
            let arguments = rest.strip_suffix(");").unwrap();
            (name.to_owned(), serde_json::from_str(&format!("[{arguments}]")).unwrap())
        })
        .collect()
}

/// The rows in an index.
fn first(index: &str) -> Value {
    let (_, rest) = index.split_once("<script type=\"application/json\" id=\"first\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn ten_thousand_runs_have_a_small_index_that_leads_to_each() {
    for (runs, studies) in [(10_000, 5_000), (10_000, 1), (10_000, 10_000), (3, 2)] {
        let site = site(runs, studies);
        assert!(site.index.len() < INDEX_BYTES, "{} bytes of {studies} studies", site.index.len());
        let first = first(&site.index);
        let mut rows = first["rows"].as_array().unwrap().clone();
        let (mut known, mut of_study) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
        let files: BTreeMap<&str, &str> =
            site.shards.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        for (name, text) in &files {
            assert!(text.len() < FILE_BYTES, "{name}: {} bytes", text.len());
            for (call, arguments) in calls(text) {
                match call.as_str() {
                    "rows" => rows.extend(arguments[1].as_array().unwrap().iter().cloned()),
                    "runs" => {
                        let all = arguments[1].as_array().unwrap();
                        known.extend(all.iter().map(|run| run["i"].as_str().unwrap().to_owned()));
                        *of_study.entry(arguments[0].as_str().unwrap().to_owned()).or_default() += all.len();
                    }
                    "read" => assert_eq!(arguments[0].as_str().unwrap(), *name),
                    other => panic!("{other}"),
                }
            }
        }
        assert_eq!((rows.len(), known.len()), (studies, runs));
        assert_eq!(
            files.keys().filter(|name| name.starts_with("studies-")).count(),
            usize::try_from(first["files"].as_u64().unwrap()).unwrap()
        );
        for row in &rows {
            assert_eq!(row["n"].as_u64().unwrap() as usize, of_study[row["g"].as_str().unwrap()]);
            let [from, to] = [0, 1].map(|at| row["f"][at].as_u64().unwrap());
            for file in from..=to {
                let text = files[format!("runs-{file}.js").as_str()];
                assert!(text.contains(&format!("baremark.runs(\"{}\",", row["g"].as_str().unwrap())));
            }
        }
        assert_eq!(rows[0]["i"], id(runs - 1), "the latest is first");
    }
}

#[test]
fn a_row_has_value_unit_ratio_verdict_history_and_machine() {
    let about = About::default();
    let index = render(&entries(12, 1), &about).index;
    let row = &first(&index)["rows"][0];
    let text = |key: &str| row[key].as_str().unwrap();
    assert!(text("v").contains(" GUP/s") && text("r").contains(" to "), "{row:#}");
    assert!(!text("o").is_empty() && text("m").contains("CPU") && !text("w").is_empty(), "{row:#}");
    let history: Vec<f64> = row["h"].as_array().unwrap().iter().map(|of| of.as_f64().unwrap()).collect();
    assert_eq!(history.len(), 12);
    assert!((history[11] / history[0] - 1.1).abs() < 1e-5 && history[11] == row["x"].as_f64().unwrap(), "{history:?}");
}

/// Every kind of run that is stored has a row, none without a verdict or a value.
#[test]
fn each_kind_of_run_has_a_row() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kinds");
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let document = document(name.strip_suffix(".json.gz").unwrap());
        let index = render(&[Entry::of(&document, "x.html", "finished", false)], &About::default()).index;
        let row = &first(&index)["rows"][0];
        let [title, value, verdict] = ["t", "v", "o"].map(|key| row[key].as_str().unwrap());
        // A line may be broken after a hyphen: `(-` stood alone at its end.
        assert_eq!(title.ends_with(" (quick)"), document.run.mode.quick, "{name}: {title}");
        assert!(!title.contains("(-"), "{name}: {title}");
        assert!(!value.is_empty() || !verdict.is_empty(), "{name}: {row:#}");
        assert!(row["r"] == "" || row["x"].is_number(), "the ratio is among the quantities: {name}: {row:#}");
        let drawn = row["h"].as_array().unwrap().len();
        assert!((value.is_empty() && row["r"] == "") || drawn == 1, "{name}: {row:#}");
    }
}

#[test]
fn what_a_run_says_is_text() {
    let mut document = document("places");
    let markup = "</script><img src=x onerror=alert(1)><!--\u{2028}\"'";
    document.run.study = markup.to_owned();
    document.run.version = markup.to_owned();
    document.estimates[0].unit = markup.to_owned();
    let site = render(&[Entry::of(&document, "x.html", "finished", false)], &About::default());
    assert!(!site.index.contains("<img") && !site.index.contains("<!--"), "{}", site.index);
    assert_eq!(site.index.matches("</script>").count(), 2);
    assert!(first(&site.index)["rows"][0]["t"].as_str().unwrap().starts_with("</script><img"));
    for (name, text) in &site.shards {
        assert!(!calls(text).is_empty(), "{name}");
    }
    let report = html::render_in_site(&document);
    assert!(report.contains("<nav><a href=\"index.html\">") && !html::render(&document).contains("<nav>"));
    assert!(!report.contains("<img"));
}

/// RFC 4287: what a feed and an entry must have, in XML.
#[test]
fn changes_are_an_atom_feed() {
    let feed = site(20, 2).feed;
    let tree = roxmltree::Document::parse(&feed).unwrap_or_else(|why| panic!("{why}: {feed}"));
    let atom = "http://www.w3.org/2005/Atom";
    let root = tree.root_element();
    assert_eq!((root.tag_name().name(), root.tag_name().namespace()), ("feed", Some(atom)));
    let text = |of: roxmltree::Node<'_, '_>, name: &str| {
        let found: Vec<_> = of.children().filter(|child| child.has_tag_name((atom, name))).collect();
        assert_eq!(found.len(), 1, "{name}");
        found[0].text().unwrap().to_owned()
    };
    let is_time = |text: &str| text.len() == 20 && text.as_bytes()[10] == b'T' && text.ends_with('Z');
    assert!(
        text(root, "id").starts_with("urn:uuid:") && is_time(&text(root, "updated")) && !text(root, "title").is_empty()
    );
    let entries: Vec<_> = root.children().filter(|child| child.has_tag_name((atom, "entry"))).collect();
    assert_eq!(entries.len(), 100, "the latest");
    let ids: BTreeSet<String> = entries.iter().map(|entry| text(*entry, "id")).collect();
    assert_eq!(ids.len(), entries.len());
    for entry in entries {
        assert!(text(entry, "title").contains("<b>&: microvm") && is_time(&text(entry, "updated")));
        let link = entry.children().find(|child| child.has_tag_name((atom, "link"))).unwrap();
        assert!(link.attribute("href").unwrap().ends_with(".html"));
    }
}
