//! The latest results of studies as OpenMetrics text (version 1.0.0), for dashboards and alerts.
//!
//! Every metric is a gauge named after its key, in seconds, bytes and ratios where it is one of these, with the limits of its interval as gauges of
//! their own; ratios are `baremark_ratio`. Labels are the study, the machine and the levels of the treatment, which stay the same from run to run;
//! what changes with each run (its name, the version) is in `baremark_latest_run`.

use crate::summary::hardware;
use crate::text::clean;
use crate::treatment::Factors;
use baremark_model::document::Document;
use baremark_model::plan::Treatment;
use baremark_model::unit::{Dimension, Unit};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Endings that other types of metrics give to their samples: a gauge has none of them.
const TAKEN: [&str; 8] = ["_total", "_created", "_count", "_sum", "_bucket", "_gcount", "_gsum", "_info"];

/// A result.
#[derive(Clone, Copy, Debug)]
pub struct Latest<'d> {
    /// Its document.
    pub document: &'d Document,
    /// When its run began, in seconds since 1970.
    pub began_s: f64,
}

/// Metrics of one name.
struct Family {
    unit: &'static str,
    help: String,
    /// Labels with values; the same labels once.
    samples: BTreeMap<String, f64>,
}

/// The families by name, in the order in which they are printed.
#[derive(Default)]
struct Families(BTreeMap<String, Family>);

/// What a metric is called.
struct Name {
    stem: String,
    unit: &'static str,
    /// How many of that one of its own unit is.
    factor: f64,
}

/// The text of these results, one of each study and machine.
#[must_use]
pub fn render(results: &[Latest<'_>]) -> String {
    let mut families = Families::default();
    for result in results {
        families.add(result);
    }
    families.text()
}

impl Families {
    fn add(&mut self, result: &Latest<'_>) {
        let document = result.document;
        let run = &document.run;
        let quick = if run.mode.quick { " (quick)" } else { "" };
        let common = [("study", format!("{}{quick}", clean(&run.study))), ("machine", hardware(document))];
        let with =
            |more: &[(&str, String)]| labels(common.iter().chain(more).map(|(key, value)| (*key, value.as_str())));
        let of_run = [("run", clean(&run.id)), ("version", clean(&run.version)), ("workload", clean(&run.workload))];
        // A gauge: the text parser of node_exporter refuses a file that has the type `info`.
        self.gauge("baremark_latest_run", "", "The latest finished run of a study; always 1.", &with(&of_run), 1.0);
        let began = "When the latest finished run of a study began, in seconds since 1970.";
        self.gauge("baremark_run_start_time_seconds", "seconds", began, &with(&[]), result.began_s);
        if let Some(blocks) = run.blocks {
            #[expect(clippy::cast_precision_loss, reason = "a number of blocks")]
            self.gauge("baremark_run_blocks", "", "Complete blocks of the run.", &with(&[]), blocks as f64);
        }
        for row in &document.estimates {
            let name = Name::of(&row.metric, &row.unit);
            let unit = if row.unit.is_empty() { "a number" } else { &row.unit };
            let help =
                format!("{} (measured in {}): estimate over the trials of the latest run.", row.metric, clean(unit));
            let labels = with(&levels(&row.treatment, &[]));
            self.three(
                &name,
                &help,
                &labels,
                row.estimate * name.factor,
                [row.lo, row.hi].map(|limit| limit.map(|of| of * name.factor)),
            );
        }
        for row in &document.ratios {
            let Some(ratio) = row.ratio else { continue };
            let base = Factors::of(run).name(&row.relative_to);
            let of_row = [("metric", clean(&row.metric)), ("relative_to", base)];
            let name = Name { stem: "baremark".to_owned(), unit: "ratio", factor: 1.0 };
            let help = "Ratio of a metric of a treatment to that of another in the latest run.";
            self.three(&name, help, &with(&levels(&row.treatment, &of_row)), ratio, [row.lo, row.hi]);
        }
    }

    /// A value with the limits of its interval.
    fn three(&mut self, name: &Name, help: &str, labels: &str, value: f64, limits: [Option<f64>; 2]) {
        self.gauge(&name.with(""), name.unit, help, labels, value);
        for (which, limit, says) in [("_lower", limits[0], "Lower"), ("_upper", limits[1], "Upper")] {
            if let Some(limit) = limit {
                let help = format!("{says} limit of the interval of {}.", name.with(""));
                self.gauge(&name.with(which), name.unit, &help, labels, limit);
            }
        }
    }

    fn gauge(&mut self, name: &str, unit: &'static str, help: &str, labels: &str, value: f64) {
        // A dashboard cannot draw what is not finite.
        if value.is_finite() {
            let family = self.0.entry(name.to_owned());
            let family = family.or_insert_with(|| Family { unit, help: help.to_owned(), samples: BTreeMap::new() });
            family.samples.entry(format!("{name}{labels}")).or_insert(value);
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, family) in &self.0 {
            // A `String` takes whatever is written to it.
            let _ = writeln!(text, "# TYPE {name} gauge");
            if !family.unit.is_empty() {
                let _ = writeln!(text, "# UNIT {name} {}", family.unit);
            }
            let _ = writeln!(text, "# HELP {name} {}", escaped(&family.help));
            for (sample, value) in &family.samples {
                let _ = writeln!(text, "{sample} {value}");
            }
        }
        text + "# EOF\n"
    }
}

impl Name {
    /// `latency_p99_us` in us is `baremark_latency_p99` in seconds.
    fn of(key: &str, unit: &str) -> Name {
        let (unit, factor, endings): (_, _, &[&str]) = match Unit::of(unit) {
            Ok(Unit { dimension: Dimension::Time, factor }) => {
                ("seconds", factor, &["_s", "_ms", "_us", "_ns", "_min", "_h", "_seconds"])
            }
            Ok(Unit { dimension: Dimension::Size, factor }) => {
                ("bytes", factor, &["_bytes", "_kib", "_mib", "_gib", "_kb", "_mb", "_gb"])
            }
            Ok(Unit { dimension: Dimension::Share, factor }) => ("ratio", factor, &["_percent", "_ratio", "_share"]),
            _ => ("", 1.0, &[]),
        };
        let stem = endings.iter().find_map(|ending| key.strip_suffix(ending)).unwrap_or(key);
        Name { stem: format!("baremark_{}", word(stem)), unit, factor }
    }

    fn with(&self, which: &str) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!("_{}", self.unit) };
        let name = format!("{}{which}{unit}", self.stem);
        let is_taken = TAKEN.iter().any(|ending| name.ends_with(ending));
        if is_taken { format!("{name}_value") } else { name }
    }
}

/// The levels of a treatment as labels, besides others.
fn levels<'l>(treatment: &'l Treatment, others: &[(&'l str, String)]) -> Vec<(&'l str, String)> {
    others.iter().cloned().chain(treatment.iter().map(|(key, level)| (key.as_str(), clean(level)))).collect()
}

/// `{study="...",page="4k"}`; of two with one name, the second has another.
fn labels<'l>(pairs: impl Iterator<Item = (&'l str, &'l str)>) -> String {
    let mut named: Vec<(String, &str)> = Vec::new();
    for (key, value) in pairs {
        let mut name = word(key);
        while named.iter().any(|(known, _)| *known == name) {
            name.push_str("_level");
        }
        named.push((name, value));
    }
    let all: Vec<String> = named.into_iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", all.join(","))
}

/// A key as the name of a metric or label: letters, digits and underscores.
fn word(key: &str) -> String {
    let word: String = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if word.starts_with(|c: char| c.is_ascii_alphabetic()) { word } else { format!("of_{word}") }
}

/// A text in a line of the format.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
