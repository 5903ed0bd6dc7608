//! The latest results as OpenMetrics text, read by a parser that permits what the specification does (version 1.0.0) and nothing else.

use crate::common::many_runs::document;
use crate::common::stored;
use baremark_model::document::Document;
use baremark_report::open_metrics::{Latest, render};
use std::collections::{BTreeMap, BTreeSet};

/// A family of metrics, as a scraper has it.
#[derive(Debug, Default)]
struct Family {
    kind: Option<String>,
    unit: Option<String>,
    help: Option<String>,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

fn is_name(text: &str, more: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || more.contains(c));
    begins && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || more.contains(c))
}

/// A text in which a backslash stands before `"`, `\` and `n` alone.
fn unescaped(text: &str) -> Result<String, String> {
    let (mut plain, mut rest) = (String::new(), text.chars());
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('n') => plain.push('\n'),
                Some(c @ ('"' | '\\')) => plain.push(c),
                other => return Err(format!("escape {other:?} in {text}")),
            },
            '"' | '\n' => return Err(format!("a bare {c:?} in {text}")),
            c => plain.push(c),
        }
    }
    Ok(plain)
}

/// `{a="b",c="d"}` and what follows.
fn labels(text: &str) -> Result<(BTreeMap<String, String>, &str), String> {
    let mut found = BTreeMap::new();
    let Some(mut rest) = text.strip_prefix('{') else { return Ok((found, text)) };
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((found, after));
        }
        let (name, after) = rest.split_once("=\"").ok_or(format!("no label in {rest}"))?;
        let mut escaped = false;
        let end = after.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let end = end.ok_or(format!("a label without an end in {rest}"))?;
        if !is_name(name, "")
            || name.starts_with("__")
            || found.insert(name.to_owned(), unescaped(&after[..end])?).is_some()
        {
            return Err(format!("label {name}, or twice"));
        }
        rest = &after[end + 1..];
        rest = match rest.strip_prefix(',') {
            Some(next) if !next.starts_with('}') => next,
            Some(_) => return Err("a comma before the end".to_owned()),
            None if rest.starts_with('}') => rest,
            None => return Err(format!("no comma in {rest}")),
        };
    }
}

fn parsed(text: &str) -> Result<BTreeMap<String, Family>, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("the end is not # EOF and a line feed")?;
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut last = String::new();
    for line in body.split_inclusive('\n') {
        let line = line.strip_suffix('\n').ok_or(format!("no line feed after {line}"))?;
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (Some(what), Some(name), Some(value)) = (words.next(), words.next(), words.next()) else {
                return Err(format!("metadata: {line}"));
            };
            if !is_name(name, ":") || name != last && families.contains_key(name) {
                return Err(format!("{name} is not a name, or is there twice"));
            }
            name.clone_into(&mut last);
            let family = families.entry(last.clone()).or_default();
            let place = match what {
                // The others, such as info, are unknown to the text parser of node_exporter, or not used here.
                "TYPE" if value == "gauge" => &mut family.kind,
                "UNIT" if name.ends_with(&format!("_{value}")) && is_name(value, "") => &mut family.unit,
                "HELP" => &mut family.help,
                _ => return Err(format!("metadata: {line}")),
            };
            if place.replace(unescaped(value)?).is_some() || !family.samples.is_empty() {
                return Err(format!("{what} of {name} comes twice, or after its samples"));
            }
            continue;
        }
        let end = line.find(['{', ' ']).ok_or(format!("sample: {line}"))?;
        let (labels, rest) = labels(&line[end..])?;
        let value = rest.strip_prefix(' ').ok_or(format!("no space before the value: {line}"))?;
        let number: f64 = value.parse().map_err(|why| format!("{value}: {why}"))?;
        let family = families.get_mut(&last).ok_or(format!("a sample before its family: {line}"))?;
        if family.kind.is_none() || line[..end] != last || !number.is_finite() {
            return Err(format!("sample of {last}: {line}"));
        }
        if family.samples.iter().any(|(_, known, _)| *known == labels) {
            return Err(format!("the same labels twice: {line}"));
        }
        family.samples.push((line[..end].to_owned(), labels, number));
    }
    let taken = ["_total", "_created", "_count", "_sum", "_bucket", "_gcount", "_gsum", "_info"];
    match families.iter().find(|(name, of)| of.samples.is_empty() || taken.iter().any(|end| name.ends_with(end))) {
        Some((name, _)) => Err(format!("{name} has no sample, or a name that is another's")),
        None => Ok(families),
    }
}

fn kinds() -> Vec<Document> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kinds");
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.iter().map(|name| document(name.strip_suffix(".json.gz").unwrap())).collect()
}

#[test]
fn every_kind_of_run_is_valid_open_metrics() {
    let mut documents = kinds();
    // Several kinds are of one study.
    (0..)
        .zip(&mut documents)
        .for_each(|(at, document): (usize, _)| document.run.study = format!("{at} {}", document.run.study));
    documents[0].run.study = "a \"study\"\nof \\ two lines".to_owned();
    let latest: Vec<Latest<'_>> =
        documents.iter().map(|document| Latest { document, began_s: 1_795_867_200.5 }).collect();
    let text = render(&latest);
    let families = parsed(&text).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(families["baremark_latest_run"].samples.len(), documents.len());
    assert_eq!(families["baremark_run_start_time_seconds"].samples[0].2, 1_795_867_200.5);
    assert!(families["baremark_latest_run"].samples.iter().any(|(_, labels, _)| labels["study"]
        == "a \"study\" of \\ two lines"
        || labels["study"].contains("\"study\"")));
    // Each estimate and ratio is there once, in base units.
    let estimates: usize =
        documents.iter().map(|document| document.estimates.iter().filter(|row| row.estimate.is_finite()).count()).sum();
    let is_limit = |name: &str| {
        let stem = ["_seconds", "_bytes", "_ratio"].iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name);
        stem.ends_with("_lower") || stem.ends_with("_upper")
    };
    let others = ["baremark_latest_run", "baremark_run_start_time_seconds", "baremark_run_blocks", "baremark_ratio"];
    let own = |name: &&String| !is_limit(name) && !others.contains(&name.as_str());
    let values: usize = families.iter().filter(|(name, _)| own(name)).map(|(_, family)| family.samples.len()).sum();
    assert_eq!(values, estimates);
    let ratios: usize =
        documents.iter().map(|document| document.ratios.iter().filter(|row| row.ratio.is_some()).count()).sum();
    assert_eq!(families["baremark_ratio"].samples.len(), ratios);
    assert!(families.iter().all(|(_, of)| of.help.is_some() && of.kind.is_some()));
}

#[test]
fn times_are_seconds_and_intervals_are_about_their_values() {
    let documents = kinds();
    let block = documents.iter().find(|document| document.run.workload == "block").unwrap();
    let families = parsed(&render(&[Latest { document: block, began_s: 0.0 }])).unwrap();
    let row = block.estimates.iter().find(|row| row.metric.ends_with("_p99_us") && row.lo.is_some()).unwrap();
    let stem = format!("baremark_{}", row.metric.strip_suffix("_us").unwrap());
    let find = |name: &str| -> f64 {
        let family = &families[name];
        assert_eq!(family.unit.as_deref(), Some("seconds"));
        let same =
            |labels: &BTreeMap<String, String>| row.treatment.iter().all(|(key, level)| labels.get(key) == Some(level));
        family.samples.iter().find(|(_, labels, _)| same(labels)).unwrap().2
    };
    let [lower, value, upper] = ["_lower", "", "_upper"].map(|which| find(&format!("{stem}{which}_seconds")));
    assert!((value / (row.estimate * 1e-6) - 1.0).abs() < 1e-12, "{value}");
    assert!(lower <= value && value <= upper);
}

/// What a scraper would refuse, so that the tests above can fail.
#[test]
fn the_parser_refuses_what_is_not_open_metrics() {
    let family = "# TYPE a gauge\n# HELP a x\n";
    for bad in [
        format!("{family}a 1\n"),
        format!("{family}a 1\n# EOF"),
        format!("{family}a 1\na 2\n# EOF\n"),
        format!("{family}a{{x=\"1\",x=\"2\"}} 1\n# EOF\n"),
        format!("{family}a{{x=\"\\t\"}} 1\n# EOF\n"),
        format!("{family}b 1\n# EOF\n"),
        format!("{family}a one\n# EOF\n"),
        format!("{family}a NaN\n# EOF\n"),
        format!("{family}a 1\n# UNIT a seconds\n# EOF\n"),
        "# TYPE a gauge\n# UNIT a seconds\na 1\n# EOF\n".to_owned(),
        format!("{family}a 1\n# TYPE b gauge\nb 1\n# HELP a y\n# EOF\n"),
        "a 1\n# EOF\n".to_owned(),
        "# TYPE a info\na_info 1\n# EOF\n".to_owned(),
        "# TYPE a_total gauge\na_total 1\n# EOF\n".to_owned(),
    ] {
        assert!(parsed(&bad).is_err(), "{bad}");
    }
    assert_eq!(parsed("# EOF\n").unwrap().len(), 0);
}

/// Of each study the latest finished run, by the program.
#[test]
fn the_program_prints_the_latest_run_of_each_study() {
    let bench = stored::bench("schema-4.db");
    let text = stored::shown(&bench, &["site", "--metrics"]);
    let families = parsed(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
    let history = bench.json(&["history", "--json"]);
    let finished = history["runs"].as_array().unwrap().iter().filter(|run| run["state"] == "finished");
    let studies: BTreeSet<&str> = finished.map(|run| run["study"].as_str().unwrap()).collect();
    let shown: BTreeSet<&str> = families["baremark_latest_run"]
        .samples
        .iter()
        .map(|(_, labels, _)| labels["study"].trim_end_matches(" (quick)"))
        .collect();
    assert_eq!(shown, studies);
}
