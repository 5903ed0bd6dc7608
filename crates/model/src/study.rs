//! The study file, as typed: read from TOML without any effect, every key checked against its table.
//!
//! Nothing here knows the machine. What the machine and the workload make of a study is the [`plan`](crate::plan).

use crate::descriptor::{Descriptor, Kind, Knob, Value};
use crate::problem::{Problem, Problems, nearest};
use crate::tables;
use crate::units::{Nanos, Share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A factor and the levels that the study gives it, in the order typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Factor {
    /// Its key: one of [`tables::FACTORS`] or a parameter of the workload.
    pub key: String,
    /// Its levels; at least one, no two alike.
    pub levels: Vec<Value>,
    /// Where it was typed.
    pub line: usize,
}

/// The design as typed, defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Design {
    /// Half-width that every ratio's interval shall reach.
    pub precision: Share,
    /// The difference that matters.
    pub delta: Share,
    /// The longest that the study may run.
    #[serde(rename = "budget_ns")]
    pub budget: Nanos,
    /// The least duration of a phase.
    #[serde(rename = "phase_ns")]
    pub phase: Nanos,
    /// Interleavings in a trial.
    pub quads: u64,
    /// Blocks before the first look.
    pub least_blocks: u64,
    /// Blocks at which the study ends.
    pub most_blocks: u64,
    /// Seed of every random order.
    pub seed: u64,
}

/// How the result shall be laid out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// The headline's metric; `None` means the workload's first.
    pub metric: Option<String>,
    /// The factor down the side; `None` means all that vary but the columns'.
    pub rows: Option<String>,
    /// The factor along the top.
    pub columns: String,
    /// The levels that make a treatment a denominator, by factor; empty means that no ratio is asked for.
    pub ratio_to: BTreeMap<String, Value>,
}

/// A study file, parsed.
#[derive(Clone, Debug)]
pub struct Study {
    /// What it asks, in one line.
    pub title: String,
    /// The published table to print beside it.
    pub published: Option<String>,
    /// The workload's kind.
    pub workload: &'static Descriptor,
    /// The workload's parameters that do not vary, as typed; defaults are the plan's business.
    pub parameters: BTreeMap<String, Value>,
    /// What is varied.
    pub factors: Vec<Factor>,
    /// How it is measured.
    pub design: Design,
    /// How it is shown.
    pub layout: Layout,
}

/// Parses a study file. `file` is its name in messages, `workloads` are those that this program has.
///
/// # Errors
/// Every problem found, with its line and what would be right.
pub fn parse(file: &str, bytes: &[u8], workloads: &[&'static Descriptor]) -> Result<Study, Problems> {
    let whole = |what: String, remedy: &str| Problems {
        file: file.to_owned(),
        list: vec![Problem { line: 0, what, remedy: remedy.to_owned() }],
    };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(why) => return Err(whole(format!("not UTF-8 text ({why})"), "a study is a TOML file in UTF-8")),
    };
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(why) => {
            let line = why.span().map_or(0, |span| line_of(text, span.start));
            let problem = Problem { line, what: why.message().to_owned(), remedy: "a study is a TOML file".to_owned() };
            return Err(Problems { file: file.to_owned(), list: vec![problem] });
        }
    };
    let mut reader = Reader { text, problems: Vec::new() };
    let study = reader.study(document.get_ref(), workloads);
    reader.problems.sort_by_key(|problem| problem.line);
    match study {
        Some(study) if reader.problems.is_empty() => Ok(study),
        _ => Err(Problems { file: file.to_owned(), list: reader.problems }),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count() + 1
}

type Entry<'t> = (&'t str, usize, &'t Spanned<DeValue<'t>>);

/// Walks the document and collects problems instead of stopping at the first.
struct Reader<'t> {
    text: &'t str,
    problems: Vec<Problem>,
}

impl<'t> Reader<'t> {
    fn report(&mut self, line: usize, what: String, remedy: String) {
        self.problems.push(Problem { line, what, remedy });
    }

    fn study(&mut self, document: &'t DeTable<'t>, workloads: &[&'static Descriptor]) -> Option<Study> {
        const SECTIONS: &[&str] = &["study", "workload", "factors", "design", "report"];
        let mut sections: BTreeMap<&str, Vec<Entry<'t>>> = BTreeMap::new();
        for (name, line, value) in self.entries(document) {
            if !SECTIONS.contains(&name) {
                self.report(line, format!("unknown section [{name}]"), nearest(name, SECTIONS));
                continue;
            }
            match value.get_ref().as_table() {
                Some(table) => drop(sections.insert(name, self.entries(table))),
                None => {
                    self.report(line, format!("'{name}' is no section"), format!("write [{name}] and keys below it"))
                }
            }
        }
        let mut take = |name: &str| sections.remove(name).unwrap_or_default();
        let (head, workload, factors, design, report) =
            (take("study"), take("workload"), take("factors"), take("design"), take("report"));

        let mut head = self.known("study", tables::STUDY, &head);
        let descriptor = self.workload(&workload, workloads);
        let design = self.known("design", tables::DESIGN, &design);
        let design = self.design(&design);
        let title = text_of(head.remove("title"));
        if title.is_none() {
            let remedy = "write [study] and title = \"what the study asks\"".to_owned();
            self.report(0, "the study has no title".to_owned(), remedy);
        }
        let descriptor = descriptor?;
        let parameters = self.parameters(descriptor, &workload);
        let factors = self.factors(descriptor, &factors, &parameters);
        let layout = self.layout(descriptor, &factors, &report);
        let published = text_of(head.remove("published"));
        Some(Study { title: title?, published, workload: descriptor, parameters, factors, design, layout })
    }

    fn entries(&self, table: &'t DeTable<'t>) -> Vec<Entry<'t>> {
        table.iter().map(|(key, value)| (key.get_ref().as_ref(), line_of(self.text, key.span().start), value)).collect()
    }

    /// Reads the entries of a section against its table; unknown keys and misfits become problems.
    fn known(&mut self, section: &str, knobs: &[Knob], entries: &[Entry<'t>]) -> BTreeMap<String, Value> {
        let keys: Vec<&str> = knobs.iter().map(|knob| knob.key).collect();
        let mut values = BTreeMap::new();
        for &(key, line, value) in entries {
            match knobs.iter().find(|knob| knob.key == key) {
                None => self.report(line, format!("unknown key '{key}' in [{section}]"), nearest(key, &keys)),
                Some(knob) => match knob.read(value.get_ref()) {
                    Ok(value) => drop(values.insert(key.to_owned(), value)),
                    Err(misfit) => self.report(line, misfit.what, misfit.remedy),
                },
            }
        }
        values
    }

    fn workload(&mut self, entries: &[Entry<'t>], workloads: &[&'static Descriptor]) -> Option<&'static Descriptor> {
        let kinds: Vec<&str> = workloads.iter().map(|workload| workload.kind).collect();
        let Some(&(_, line, value)) = entries.iter().find(|(key, ..)| *key == "kind") else {
            let remedy = format!("write [workload] and kind = one of {}", kinds.join(", "));
            self.report(0, "the study names no workload".to_owned(), remedy);
            return None;
        };
        let kind = value.get_ref().as_str().unwrap_or_default();
        let found = workloads.iter().find(|workload| workload.kind == kind).copied();
        if found.is_none() {
            self.report(line, format!("unknown workload kind '{kind}'"), nearest(kind, &kinds));
        }
        found
    }

    fn parameters(&mut self, workload: &Descriptor, entries: &[Entry<'t>]) -> BTreeMap<String, Value> {
        let own: Vec<Entry<'t>> = entries.iter().filter(|(key, ..)| *key != "kind").copied().collect();
        self.known("workload", workload.parameters, &own)
    }

    fn factors(
        &mut self,
        workload: &'static Descriptor,
        entries: &[Entry<'t>],
        parameters: &BTreeMap<String, Value>,
    ) -> Vec<Factor> {
        let keys: Vec<&str> = tables::FACTORS.iter().chain(workload.parameters).map(|knob| knob.key).collect();
        let mut factors = Vec::new();
        for &(key, line, value) in entries {
            let Some(knob) = tables::FACTORS.iter().chain(workload.parameters).find(|knob| knob.key == key) else {
                self.report(line, format!("unknown factor '{key}'"), nearest(key, &keys));
                continue;
            };
            if parameters.contains_key(key) {
                let what = format!("'{key}' is set in [workload] and varied in [factors]");
                self.report(line, what, "keep one of the two".to_owned());
            }
            if let Some(levels) = self.levels(knob, line, value.get_ref()) {
                factors.push(Factor { key: key.to_owned(), levels, line });
            }
        }
        factors
    }

    fn levels(&mut self, knob: &Knob, line: usize, value: &'t DeValue<'t>) -> Option<Vec<Value>> {
        let typed: Vec<&DeValue<'t>> = match value.as_array() {
            Some(array) => array.iter().map(Spanned::get_ref).collect(),
            None => vec![value],
        };
        if typed.is_empty() {
            self.report(line, format!("factor '{}' has no level", knob.key), "give it at least one".to_owned());
            return None;
        }
        let mut levels: Vec<Value> = Vec::new();
        for level in typed {
            match knob.read(level) {
                Ok(value) if levels.contains(&value) => {
                    let what = format!("factor '{}' has the level {value} twice", knob.key);
                    self.report(line, what, "name each level once".to_owned());
                }
                Ok(value) => levels.push(value),
                Err(misfit) => self.report(line, misfit.what, misfit.remedy),
            }
        }
        (!levels.is_empty()).then_some(levels)
    }

    fn design(&mut self, typed: &BTreeMap<String, Value>) -> Design {
        let value = |key: &str| typed.get(key).cloned().or_else(|| default_of(tables::DESIGN, key));
        let share = |key: &str| match value(key) {
            Some(Value::Share(share)) => Some(share),
            _ => None,
        };
        let time = |key: &str| match value(key) {
            Some(Value::TimeNs(time)) => time,
            _ => Nanos(0),
        };
        let count = |key: &str| match value(key) {
            Some(Value::Count(count)) => count,
            _ => 0,
        };
        let precision = share("precision").unwrap_or(Share(0.01));
        let delta = share("delta").unwrap_or(Share(2.0 * precision.0));
        if precision.0 > delta.0 / 2.0 * (1.0 + 1e-9) {
            let what = format!("precision {precision} is coarser than half of delta {delta}");
            let remedy =
                format!("no verdict could be reached; write precision = \"{}\" or finer", Share(delta.0 / 2.0));
            self.report(0, what, remedy);
        }
        let design = Design {
            precision,
            delta,
            budget: time("budget"),
            phase: time("phase"),
            quads: count("quads"),
            least_blocks: count("least_blocks"),
            most_blocks: count("most_blocks"),
            seed: count("seed"),
        };
        if design.least_blocks > design.most_blocks {
            let what = format!("least_blocks {} is more than most_blocks {}", design.least_blocks, design.most_blocks);
            self.report(0, what, "let most_blocks be the larger".to_owned());
        }
        design
    }

    fn layout(&mut self, workload: &Descriptor, factors: &[Factor], entries: &[Entry<'t>]) -> Layout {
        let flat: Vec<Entry<'t>> = entries.iter().filter(|(key, ..)| *key != "ratio_to").copied().collect();
        let line_for = |key: &str| entries.iter().find(|(name, ..)| *name == key).map_or(0, |(_, line, _)| *line);
        let mut typed = self.known("report", tables::REPORT, &flat);
        let metric = text_of(typed.remove("metric"));
        if let Some(metric) = metric.as_deref().filter(|metric| workload.metric(metric).is_none()) {
            let keys: Vec<&str> = workload.metrics.iter().map(|metric| metric.key).collect();
            let what = format!("workload '{}' has no metric '{metric}'", workload.kind);
            self.report(line_for("metric"), what, nearest(metric, &keys));
        }
        let rows = text_of(typed.remove("rows"));
        let columns = text_of(typed.remove("columns")).unwrap_or_else(|| "environment".to_owned());
        for (key, name) in [("rows", rows.as_deref()), ("columns", Some(columns.as_str()))] {
            let Some(name) = name.filter(|name| *name != "environment") else { continue };
            if !factors.iter().any(|factor| factor.key == name) {
                let keys: Vec<&str> = factors.iter().map(|factor| factor.key.as_str()).collect();
                self.report(
                    line_for(key),
                    format!("{key} = '{name}' is no factor of this study"),
                    nearest(name, &keys),
                );
            }
        }
        let ratio_to = match entries.iter().find(|(key, ..)| *key == "ratio_to") {
            Some(&(_, line, value)) => self.ratio_to(factors, line, value.get_ref()),
            None => BTreeMap::new(),
        };
        Layout { metric, rows, columns, ratio_to }
    }

    fn ratio_to(&mut self, factors: &[Factor], line: usize, value: &'t DeValue<'t>) -> BTreeMap<String, Value> {
        let Some(table) = value.as_table() else {
            let remedy = "write a table, such as { environment = \"native\" }".to_owned();
            self.report(line, "ratio_to names no treatment".to_owned(), remedy);
            return BTreeMap::new();
        };
        let keys: Vec<&str> = factors.iter().map(|factor| factor.key.as_str()).collect();
        let mut wanted = BTreeMap::new();
        for (key, line, value) in self.entries(table) {
            let Some(factor) = factors.iter().find(|factor| factor.key == key) else {
                self.report(
                    line,
                    format!("ratio_to names '{key}', which is no factor of this study"),
                    nearest(key, &keys),
                );
                continue;
            };
            let typed = value.get_ref();
            let label = typed.as_str().map(str::to_owned).or_else(|| typed.as_integer().map(ToString::to_string));
            let labels: Vec<String> = factor.levels.iter().map(ToString::to_string).collect();
            match factor.levels.iter().find(|level| Some(level.to_string()) == label) {
                Some(level) => drop(wanted.insert(key.to_owned(), level.clone())),
                None => {
                    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
                    let given = label.unwrap_or_else(|| typed.type_str().to_owned());
                    self.report(line, format!("'{given}' is no level of factor '{key}'"), nearest(&given, &labels));
                }
            }
        }
        wanted
    }
}

/// The default of the knob `key` where its row types one.
#[must_use]
pub fn default_of(knobs: &[Knob], key: &str) -> Option<Value> {
    let knob = knobs.iter().find(|knob| knob.key == key)?;
    match knob.default {
        crate::descriptor::Default::Typed(text) => knob.read_text(text).ok(),
        _ => None,
    }
}

fn text_of(value: Option<Value>) -> Option<String> {
    match value? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// Whether every typed default in `knobs` is readable by its own row; the tables' own test.
#[must_use]
pub fn defaults_are_sound(knobs: &[Knob]) -> bool {
    knobs.iter().all(|knob| match knob.default {
        crate::descriptor::Default::Typed(text) => match knob.kind {
            Kind::Text => true,
            _ => knob.read_text(text).is_ok(),
        },
        _ => true,
    })
}
