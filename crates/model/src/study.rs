//! The study file, as typed: read from TOML without any effect, every key checked against its table.
//!
//! Nothing here knows the machine. What the machine and the workload make of a study is the [`plan`](crate::plan).

use crate::command;
use crate::descriptor::{Descriptor, Kind, Knob, Value};
use crate::problem::{Problem, Problems, nearest, with_article};
use crate::published;
use crate::tables;
use crate::units::{Nanos, Share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

mod command_section;

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
    /// What is set about the places where it runs, by environment.
    pub environments: BTreeMap<String, BTreeMap<String, Value>>,
    /// How it is measured.
    pub design: Design,
    /// How it is shown.
    pub layout: Layout,
    /// Where each key was typed, as `section.key`.
    pub lines: BTreeMap<String, usize>,
}

impl Study {
    /// The line of a key, typed as `section.key`; 0 where the study does not have it.
    #[must_use]
    pub fn line(&self, key: &str) -> usize {
        self.lines.get(key).copied().unwrap_or(0)
    }
}

/// The longest study file that is read, in bytes; a longer one is some other file.
pub const LONGEST_STUDY: usize = 1 << 20;
/// The most levels that one factor may have.
pub const MOST_LEVELS: usize = 256;
/// Mistakes that are listed; the others are counted.
const MOST_PROBLEMS: usize = 100;

const SECTIONS: &[&str] = &["study", "workload", "command", "factors", "environments", "design", "report"];

/// Parses a study file. `file` is its name in messages, `workloads` are those that this program has.
///
/// # Errors
/// Every problem found, with its line and what would be right.
pub fn parse(file: &str, bytes: &[u8], workloads: &[&'static Descriptor]) -> Result<Study, Problems> {
    let refuse = |list| Err(Problems { file: file.to_owned(), list });
    let breaks = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(offset, _)| offset).collect();
    let mut reader = Reader { breaks, problems: Vec::new() };
    let text = match readable(bytes) {
        Ok(text) => text,
        Err((offset, what, remedy)) => {
            return refuse(vec![Problem::new(offset.map_or(0, |offset| reader.line_of(offset)), what, remedy)]);
        }
    };
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(why) => return refuse(vec![reader.no_toml(text, &why)]),
    };
    let study = reader.study(document.get_ref(), workloads);
    match study {
        Some(study) if reader.problems.is_empty() => Ok(study),
        _ => refuse(listed(reader.problems)),
    }
}

/// The bytes as text, or where and why they are none.
fn readable(bytes: &[u8]) -> Result<&str, (Option<usize>, String, &'static str)> {
    if bytes.len() > LONGEST_STUDY {
        let what = format!("the file has {} bytes, more than the {LONGEST_STUDY} of any study", bytes.len());
        return Err((None, what, "name a study file"));
    }
    std::str::from_utf8(bytes).map_err(|why| {
        let what = format!("not UTF-8 text: {why}");
        (Some(why.valid_up_to()), what, "save the file as UTF-8, or name a study file")
    })
}

/// In the order of their lines; what is too much is counted.
fn listed(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| problem.line);
    if problems.len() > MOST_PROBLEMS {
        let more = problems.split_off(MOST_PROBLEMS);
        problems.push(Problem::new(
            more[0].line,
            format!("{} more mistakes from here on", more.len()),
            "mend those above first",
        ));
    }
    problems
}

type Entry<'t> = (&'t str, usize, &'t Spanned<DeValue<'t>>);

/// Walks the document and collects problems instead of stopping at the first.
struct Reader {
    /// Where the lines end, as offsets in order.
    breaks: Vec<usize>,
    problems: Vec<Problem>,
}

impl Reader {
    fn report(&mut self, line: usize, what: String, remedy: impl Into<String>) {
        self.problems.push(Problem::new(line, what, remedy));
    }

    fn line_of(&self, offset: usize) -> usize {
        self.breaks.partition_point(|&end| end < offset) + 1
    }

    /// What the TOML parser found, with the line's text because its messages name no operand.
    fn no_toml(&self, text: &str, why: &toml::de::Error) -> Problem {
        let line = why.span().map_or(1, |span| self.line_of(span.start));
        let at = text.lines().nth(line - 1).unwrap_or_default().trim();
        let remedy = match why.message() {
            "duplicate key" => "name each key and each section once",
            _ => "write key = value, with words and quantities in quotation marks, such as table = \"1 GiB\"",
        };
        let at = if at.is_empty() { "at the end of the file".to_owned() } else { format!("in '{at}'") };
        Problem::new(line, format!("{} {at}", why.message()), remedy)
    }

    fn study<'t>(&mut self, document: &'t DeTable<'t>, workloads: &[&'static Descriptor]) -> Option<Study> {
        let sections = self.sections(document);
        let take = |name: &str| sections.get(name).map_or(&[][..], |(_, entries)| entries.as_slice());
        let line_of_section = |name: &str| sections.get(name).map_or(0, |(line, _)| *line);

        let mut head = self.known("study", tables::STUDY, take("study"));
        if !take("study").iter().any(|(key, ..)| *key == "title") {
            let remedy = "write title = \"what the study asks\" in [study]";
            self.report(line_of_section("study"), "the study has no title".to_owned(), remedy);
        }
        self.published(head.get("published"), take("study"));
        let design = self.known("design", tables::DESIGN, take("design"));
        let design = self.design(&design, take("design"));
        let environments = self.environments(take("environments"));
        let named = self.workload(take("workload"), line_of_section("workload"), workloads)?;
        let program = self.program(named, sections.get("command"))?;
        let descriptor = program.as_ref().map_or(named, command::descriptor);
        let mut parameters = self.parameters(descriptor, take("workload"));
        self.required(descriptor, &[take("workload"), take("factors")].concat(), line_of_section("workload"));
        let before = self.problems.len();
        let factors = self.factors(descriptor, take("factors"), &parameters);
        parameters.extend(program.map(|program| (command::KIND.to_owned(), Value::Program(Box::new(program)))));
        // After a mistake among the factors, what else names one is not judged: it may be right.
        let judged = self.problems.len() == before && document.len() == sections.len();
        let layout = self.layout(descriptor, judged.then_some(&factors), take("report"));
        let lines = sections.iter().flat_map(|(section, (_, entries))| {
            entries.iter().map(move |(key, line, _)| (format!("{section}.{key}"), *line))
        });
        Some(Study {
            title: text_of(head.remove("title"))?,
            published: text_of(head.remove("published")),
            workload: descriptor,
            parameters,
            factors,
            environments,
            design,
            layout,
            lines: lines.collect(),
        })
    }

    /// Refuses a published table that is not among those of `reference/`.
    fn published(&mut self, named: Option<&Value>, entries: &[Entry<'_>]) {
        let Some(Value::Text(name)) = named else { return };
        if published::find(name).is_none() {
            let line = entries.iter().find(|(key, ..)| *key == "published").map_or(0, |(_, line, _)| *line);
            self.report(line, format!("there is no published table '{name}'"), published::like(name));
        }
    }

    /// The sections with their lines and entries; what is no section becomes a problem.
    fn sections<'t>(&mut self, document: &'t DeTable<'t>) -> BTreeMap<&'t str, (usize, Vec<Entry<'t>>)> {
        let mut sections = BTreeMap::new();
        for (name, line, value) in self.entries(document) {
            if !SECTIONS.contains(&name) {
                self.report(line, format!("unknown section [{name}]"), nearest(name, SECTIONS));
                continue;
            }
            match value.get_ref().as_table() {
                Some(table) => drop(sections.insert(name, (line, self.entries(table)))),
                None => {
                    let what = format!("'{name}' is {}, no section", with_article(value.get_ref().type_str()));
                    self.report(line, what, format!("write [{name}] and keys below it"));
                }
            }
        }
        sections
    }

    /// The entries of a table in the order in which they were typed.
    fn entries<'t>(&self, table: &'t DeTable<'t>) -> Vec<Entry<'t>> {
        let mut typed: Vec<_> = table.iter().collect();
        typed.sort_by_key(|(key, _)| key.span().start);
        typed.into_iter().map(|(key, value)| (key.get_ref().as_ref(), self.line_of(key.span().start), value)).collect()
    }

    /// Reads the entries of a section against its table; unknown keys and misfits become problems.
    fn known(&mut self, section: &str, knobs: &[Knob], entries: &[Entry<'_>]) -> BTreeMap<String, Value> {
        let keys: Vec<&str> = knobs.iter().map(|knob| knob.key).chain(beside(section)).collect();
        let mut values = BTreeMap::new();
        for &(key, line, value) in entries {
            match knobs.iter().find(|knob| knob.key == key) {
                None => self.report(line, format!("unknown key '{key}' in [{section}]"), place_of(key, &keys)),
                Some(knob) => match knob.read(value.get_ref()) {
                    Ok(value) => drop(values.insert(key.to_owned(), value)),
                    Err(misfit) => self.report(line, misfit.what, misfit.remedy),
                },
            }
        }
        values
    }

    /// Reads `[environments.NAME]`: the settings of each place, with the defaults of those that it names.
    fn environments(&mut self, entries: &[Entry<'_>]) -> BTreeMap<String, BTreeMap<String, Value>> {
        let mut all = BTreeMap::new();
        for &(name, line, value) in entries {
            let Some(place) = tables::place(name) else {
                self.report(
                    line,
                    format!("unknown environment [environments.{name}]"),
                    nearest(name, tables::ENVIRONMENTS),
                );
                continue;
            };
            let Some(table) = value.get_ref().as_table() else {
                let what = format!("'{name}' is {}, no section", with_article(value.get_ref().type_str()));
                self.report(line, what, format!("write [environments.{name}] and keys below it"));
                continue;
            };
            let settings = self.known(&format!("environments.{name}"), place.settings, &self.entries(table));
            all.insert(name.to_owned(), settings);
        }
        all
    }

    fn workload(
        &mut self,
        entries: &[Entry<'_>],
        section: usize,
        workloads: &[&'static Descriptor],
    ) -> Option<&'static Descriptor> {
        let kinds: Vec<&str> = workloads.iter().map(|workload| workload.kind).collect();
        let Some(&(_, line, value)) = entries.iter().find(|(key, ..)| *key == "kind") else {
            let remedy = format!("write kind in [workload], one of {}", kinds.join(", "));
            self.report(section, "the study names no workload".to_owned(), remedy);
            return None;
        };
        let Some(kind) = value.get_ref().as_str() else {
            let what = format!("'kind' is {}", with_article(value.get_ref().type_str()));
            self.report(line, what, format!("write one of {} in quotation marks", kinds.join(", ")));
            return None;
        };
        let found = workloads.iter().find(|workload| workload.kind == kind).copied();
        if found.is_none() {
            self.report(line, format!("unknown workload kind '{kind}'"), nearest(kind, &kinds));
        }
        found
    }

    /// The program of a study whose workload is one: `Some(None)` for every other workload, `None` after a mistake.
    fn program(
        &mut self,
        workload: &Descriptor,
        section: Option<&(usize, Vec<Entry<'_>>)>,
    ) -> Option<Option<command::Program>> {
        match (std::ptr::eq(workload, &command::BARE), section) {
            (true, Some((line, entries))) => self.command(*line, entries).map(Some),
            (false, None) => Some(None),
            (true, None) => {
                let remedy = "write a section [command] with argv = [\"program\", \"argument\"]";
                self.report(0, "the study's workload is a command, and no section says which".to_owned(), remedy);
                None
            }
            (false, Some((line, _))) => {
                let what = format!("[command] stands in a study whose workload is '{}'", workload.kind);
                self.report(*line, what, "write kind = \"command\" in [workload], or drop the section");
                None
            }
        }
    }

    /// Refuses a study that leaves out what has no default.
    fn required(&mut self, workload: &Descriptor, entries: &[Entry<'_>], section: usize) {
        for knob in workload.parameters.iter().filter(|knob| knob.default == crate::descriptor::Default::Required) {
            if !entries.iter().any(|(key, ..)| *key == knob.key) {
                let what = format!("workload '{}' needs '{}', which has no default", workload.kind, knob.key);
                self.report(section, what, format!("write {} in [workload]: {}", knob.key, knob.takes()));
            }
        }
    }

    fn parameters(&mut self, workload: &Descriptor, entries: &[Entry<'_>]) -> BTreeMap<String, Value> {
        let own: Vec<Entry<'_>> = entries.iter().filter(|(key, ..)| *key != "kind").copied().collect();
        self.known("workload", workload.parameters, &own)
    }

    fn factors(
        &mut self,
        workload: &'static Descriptor,
        entries: &[Entry<'_>],
        parameters: &BTreeMap<String, Value>,
    ) -> Vec<Factor> {
        let keys: Vec<&str> = tables::FACTORS.iter().chain(workload.parameters).map(|knob| knob.key).collect();
        let mut factors = Vec::new();
        for &(key, line, value) in entries {
            let Some(knob) = tables::FACTORS.iter().chain(workload.parameters).find(|knob| knob.key == key) else {
                self.report(line, format!("unknown factor '{key}'"), place_of(key, &keys));
                continue;
            };
            if parameters.contains_key(key) {
                let what = format!("'{key}' is set in [workload] and varied in [factors]");
                self.report(line, what, "keep one of the two");
            }
            if let Some(levels) = self.levels(knob, line, value.get_ref()) {
                factors.push(Factor { key: key.to_owned(), levels, line });
            }
        }
        factors
    }

    fn levels(&mut self, knob: &Knob, line: usize, value: &DeValue<'_>) -> Option<Vec<Value>> {
        let typed: Vec<&DeValue<'_>> = match value.as_array() {
            Some(array) => array.iter().map(Spanned::get_ref).collect(),
            None => vec![value],
        };
        if typed.is_empty() {
            self.report(line, format!("factor '{}' has no level", knob.key), format!("write {}", knob.takes()));
            return None;
        }
        if typed.len() > MOST_LEVELS {
            let what = format!("factor '{}' has {} levels", knob.key, typed.len());
            self.report(line, what, format!("write {MOST_LEVELS} or fewer"));
            return None;
        }
        let mut levels: Vec<Value> = Vec::new();
        for level in typed {
            match knob.read(level) {
                Ok(value) if levels.contains(&value) => {
                    let what = format!("factor '{}' has the level {value} twice", knob.key);
                    self.report(line, what, "name each level once");
                }
                Ok(value) => levels.push(value),
                Err(misfit) => self.report(line, misfit.what, misfit.remedy),
            }
        }
        (!levels.is_empty()).then_some(levels)
    }

    fn design(&mut self, typed: &BTreeMap<String, Value>, entries: &[Entry<'_>]) -> Design {
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
        let design = Design {
            precision,
            delta: share("delta").unwrap_or(Share(2.0 * precision.0)),
            budget: time("budget"),
            phase: time("phase"),
            quads: count("quads"),
            least_blocks: count("least_blocks"),
            most_blocks: count("most_blocks"),
            seed: count("seed"),
        };
        // A pair of which one was misread is not judged.
        let line_of_last = |keys: [&str; 2]| {
            let lines = entries.iter().filter(|(key, ..)| keys.contains(key));
            let read = keys.iter().filter(|key| typed.contains_key(**key)).count();
            (lines.clone().count() == read).then(|| lines.map(|(_, line, _)| *line).max().unwrap_or(0))
        };
        if let Some(line) = line_of_last(["precision", "delta"]) {
            self.can_decide(&design, line);
        }
        if let Some(line) = line_of_last(["least_blocks", "most_blocks"])
            && design.least_blocks > design.most_blocks
        {
            let (least, most) = (design.least_blocks, design.most_blocks);
            let what = format!("least_blocks = {least} is more than most_blocks = {most}");
            self.report(line, what, format!("write least_blocks = {most} or fewer, or most_blocks = {least} or more"));
        }
        design
    }

    fn can_decide(&mut self, design: &Design, line: usize) {
        let Design { precision, delta, .. } = *design;
        if precision.0 > delta.0 / 2.0 * (1.0 + 1e-9) {
            let what = format!(
                "precision = {precision} is coarser than half of delta = {delta}, so no verdict could be reached"
            );
            let finer = Share(delta.0 / 2.0);
            self.report(line, what, format!("write precision = \"{finer}\" or finer, or a larger delta"));
        }
    }

    /// `factors` are those of the study, or `None` where they are not all known.
    fn layout(&mut self, workload: &Descriptor, factors: Option<&Vec<Factor>>, entries: &[Entry<'_>]) -> Layout {
        let flat: Vec<Entry<'_>> = entries.iter().filter(|(key, ..)| *key != "ratio_to").copied().collect();
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
        let mut ratio_to = BTreeMap::new();
        if let Some(factors) = factors {
            for (key, name) in [("rows", rows.as_deref()), ("columns", Some(columns.as_str()))] {
                let Some(name) = name.filter(|name| *name != "environment") else { continue };
                if !factors.iter().any(|factor| factor.key == name) {
                    let what = format!("{key} = '{name}' is no factor of this study");
                    self.report(line_for(key), what, factor_like(name, factors));
                }
            }
            if let Some(&(_, line, value)) = entries.iter().find(|(key, ..)| *key == "ratio_to") {
                ratio_to = self.ratio_to(workload, factors, line, value.get_ref());
            }
        }
        Layout { metric, rows, columns, ratio_to }
    }

    fn ratio_to(
        &mut self,
        workload: &Descriptor,
        factors: &[Factor],
        line: usize,
        value: &DeValue<'_>,
    ) -> BTreeMap<String, Value> {
        let Some(table) = value.as_table().filter(|table| !table.is_empty()) else {
            let remedy = "write a table of levels, such as { environment = \"native\" }";
            self.report(line, "ratio_to names no treatment".to_owned(), remedy);
            return BTreeMap::new();
        };
        let mut wanted = BTreeMap::new();
        for (key, line, value) in self.entries(table) {
            let knob = tables::FACTORS.iter().chain(workload.parameters).find(|knob| knob.key == key);
            let (Some(knob), Some(factor)) = (knob, factors.iter().find(|factor| factor.key == key)) else {
                let what = format!("ratio_to names '{key}', which is no factor of this study");
                self.report(line, what, factor_like(key, factors));
                continue;
            };
            match knob.read(value.get_ref()) {
                Err(misfit) => self.report(line, misfit.what, misfit.remedy),
                Ok(level) if key == "environment" && level == Value::Choice("null".to_owned()) => {
                    let what = "ratio_to names the environment 'null', which runs nothing".to_owned();
                    self.report(line, what, "name one that runs the work, such as \"native\"");
                }
                Ok(level) if factor.levels.contains(&level) => drop(wanted.insert(key.to_owned(), level)),
                Ok(level) => {
                    let labels: Vec<String> = factor.levels.iter().map(ToString::to_string).collect();
                    let what = format!("ratio_to names {key} = {level}, which is no level of that factor");
                    self.report(line, what, format!("its levels are {}", labels.join(", ")));
                }
            }
        }
        wanted
    }
}

/// Keys that stand in a section and in no table, because they are no single values.
fn beside(section: &str) -> Option<&'static str> {
    match section {
        "workload" => Some("kind"),
        "report" => Some("ratio_to"),
        _ => None,
    }
}

/// The section in which `key` would be right, else the nearest of `keys`.
fn place_of(key: &str, keys: &[&str]) -> String {
    let tables = [
        ("study", tables::STUDY),
        ("workload", &[]),
        ("factors", tables::FACTORS),
        ("design", tables::DESIGN),
        ("report", tables::REPORT),
    ];
    let has = |section: &str, knobs: &[Knob]| knobs.iter().any(|knob| knob.key == key) || beside(section) == Some(key);
    match tables.iter().find(|(section, knobs)| has(section, knobs)) {
        Some((section, _)) => format!("it belongs in [{section}]"),
        None => nearest(key, keys),
    }
}

fn factor_like(name: &str, factors: &[Factor]) -> String {
    if factors.is_empty() {
        return format!("the study varies nothing; write {name} in [factors]");
    }
    nearest(name, &factors.iter().map(|factor| factor.key.as_str()).collect::<Vec<_>>())
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
