//! The study file, as typed: read from TOML without any effect, every key checked against its table.
//!
//! Nothing here knows the machine. What the machine and the workload make of a study is the [`plan`](crate::plan).

mod observe;

use crate::command;
use crate::config::{self, Entry, Layer};
use crate::descriptor::Descriptor;
use crate::environments;
use crate::former;
use crate::knob::{InvalidValue, Kind, Knob};
use crate::observer::ObserveSpec;
use crate::problem::{Problem, Problems, nearest, with_article};
use crate::published;
use crate::tables;
use crate::units::{Nanos, Share};
use crate::value::{Program, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

mod command_section;
mod design;
mod keys;
mod layout;
mod own_section;

use keys::{beside, line_in, place_of};

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// Quads in a trial, each ABBA or BAAB.
    pub quads: u64,
    /// Blocks before the first look.
    pub least_blocks: u64,
    /// Blocks at which the study ends.
    pub most_blocks: u64,
    /// Seed of every random order; 0 in a study that leaves it to the run.
    pub seed: u64,
}

/// How the result shall be laid out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// The factor down the side; `None` means all that vary but the columns'.
    pub rows: Option<String>,
    /// The factor along the top.
    pub columns: String,
    /// The levels that make a treatment a denominator, by factor; empty means that no ratio is requested.
    pub ratio_to: BTreeMap<String, Value>,
    /// The metric against which the slope of the headline's metric is estimated.
    pub against: Option<String>,
}

/// A workload of a study and what the study says of it alone.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Its kind.
    pub descriptor: &'static Descriptor,
    /// Its parameters that do not vary, as typed; defaults are the plan's business.
    pub parameters: BTreeMap<String, Value>,
    /// Shared factors that are held at one level for it, whatever the study varies.
    pub held: BTreeMap<String, Value>,
    /// The metric of its headline; `None` means its first.
    pub metric: Option<String>,
    /// Other metrics that get a ratio.
    pub also: Vec<String>,
    /// The published table to print alongside it.
    pub published: Option<String>,
}

impl Chosen {
    /// The key of its headline's metric.
    #[must_use]
    pub fn metric(&self) -> &str {
        self.metric.as_deref().unwrap_or(self.descriptor.metrics[0].key)
    }
}

/// A study file, parsed.
#[derive(Clone, Debug)]
pub struct Study {
    /// What it asks, in one line.
    pub title: String,
    /// What is run; at least one, no two of a kind.
    pub workloads: Vec<Chosen>,
    /// What is varied; where several workloads run, they are the first factor.
    pub factors: Vec<Factor>,
    /// What is set about the places where it runs, by environment.
    pub environments: BTreeMap<String, BTreeMap<String, Value>>,
    /// System activity.
    pub observe: ObserveSpec,
    /// How it is measured.
    pub design: Design,
    /// Whether both arms of a pair run at the same time.
    pub duet: bool,
    /// How it is shown.
    pub layout: Layout,
    /// Where each key was typed, as `section.key`.
    pub lines: BTreeMap<String, usize>,
    /// Keys that were typed as earlier versions called them, a sentence for each.
    pub renamed: Vec<String>,
}

impl Study {
    /// The line of a key, typed as `section.key`; 0 where the study does not have it.
    #[must_use]
    pub fn line(&self, key: &str) -> usize {
        self.lines.get(key).copied().unwrap_or(0)
    }

    /// What the treatment with these levels runs.
    #[must_use]
    pub fn chosen(&self, levels: &BTreeMap<String, Value>) -> &Chosen {
        let named = levels.get(tables::WORKLOAD).map(ToString::to_string);
        let found = named.and_then(|kind| self.workloads.iter().find(|chosen| chosen.descriptor.kind == kind));
        found.unwrap_or(&self.workloads[0])
    }
}

/// The longest study file that is read, in bytes; a longer one is some other file.
pub const LONGEST_STUDY: usize = 1 << 20;
/// Of the name of an environment of the study's own: it heads columns.
const LONGEST_NAME: usize = 32;
/// The most levels that one factor may have.
pub const MOST_LEVELS: usize = 256;

/// Its sections, without those that are a workload's own.
pub const SECTIONS: &[&str] =
    &["study", "workload", command::KIND, command::NAMED, "factors", "environments", "observe", "design", "report"];

/// Parses a study file. `file` is its name in messages, `workloads` are those that this program has.
///
/// # Errors
/// Every problem found, with its line and what would be right.
pub fn parse(file: &str, bytes: &[u8], workloads: &[&'static Descriptor]) -> Result<Study, Problems> {
    let text = config::text(file, bytes, LONGEST_STUDY, "study")?;
    let layer = Layer::parse(file, text)?;
    let mut reader = Reader {
        layer: &layer,
        mistakes: config::Reader::default(),
        named: Vec::new(),
        programs: Vec::new(),
        renamed: Vec::new(),
    };
    let study = reader.study(&layer.table, workloads);
    reader.mistakes.finish()?;
    study.ok_or_else(|| Problems { file: file.to_owned(), list: Vec::new() })
}

/// Walks the document and collects problems instead of stopping at the first.
struct Reader<'t> {
    layer: &'t Layer<'t>,
    mistakes: config::Reader,
    /// Environments of the study's own, by name.
    named: Vec<String>,
    /// Programs that have a name.
    programs: Vec<Program>,
    /// Keys that have another name today, a sentence for each.
    renamed: Vec<String>,
}

impl Reader<'_> {
    fn report(&mut self, line: usize, what: String, remedy: impl Into<String>) {
        self.mistakes.add(&self.layer.file, Problem::new(line, what, remedy));
    }

    fn study<'t>(&mut self, document: &'t DeTable<'t>, workloads: &[&'static Descriptor]) -> Option<Study> {
        let sections = self.sections(document, workloads);
        let take = |name: &str| sections.get(name).map_or(&[][..], |(_, entries)| entries.as_slice());
        let line_of_section = |name: &str| sections.get(name).map_or(0, |(line, _)| *line);

        let mut head = self.known("study", tables::STUDY, take("study"));
        if !take("study").iter().any(|(key, ..)| *key == "title") {
            let remedy = "write title = \"the study's question\" in [study]";
            self.report(line_of_section("study"), "the study has no title".to_owned(), remedy);
        }
        self.published(head.get("published"), take("study"));
        let typed_design = self.known("design", tables::DESIGN, take("design"));
        let environments = self.environments(take("environments"));
        let program = self.program(&sections)?;
        let known = with_program(workloads, program.as_ref());
        let mut workloads = self.workloads(take("workload"), line_of_section("workload"), &known)?;
        self.sections_of_others(&workloads, &known, &sections);
        self.own_section(&mut workloads, &sections);
        let line = line_of_section(command::KIND).max(line_of_section(command::NAMED));
        self.place_program(program, line, take("factors"), &mut workloads)?;
        let short = workloads.iter().all(|chosen| chosen.descriptor.short_phases);
        let design = self.design(&typed_design, take("design"), short);
        let observe = self.observe(take("observe"), short);
        let given = [take("workload"), take("factors")].concat();
        let several = workloads.len() > 1;
        workloads.iter().for_each(|chosen| self.required(chosen, &given, line_of_section("workload"), several));
        let before = self.mistakes.mistakes();
        let factors = self.factors(&workloads, take("factors"), take("workload"));
        // After a mistake among the factors, what else names one is not judged: it may be right.
        let judged = self.mistakes.mistakes() == before && document.len() == sections.len();
        let (layout, metric, also) = self.layout(&workloads, judged.then_some(&factors[..]), take("report"));
        let published = text_of(head.remove("published"));
        match workloads.as_mut_slice() {
            [only] => (only.metric, only.also, only.published) = (metric, also, published),
            _ if published.is_some() => {
                let line = line_in(take("study"), "published");
                let remedy = "write it in the [workload.KIND] of the table";
                self.report(line, "'published' is ambiguous".to_owned(), remedy);
            }
            _ => {}
        }
        let lines = sections.iter().flat_map(|(section, (_, entries))| {
            entries.iter().map(move |(key, line, _)| (format!("{section}.{key}"), *line))
        });
        let mut lines: BTreeMap<String, usize> = lines.collect();
        if workloads.len() > 1 {
            lines.extend(self.lines_of_workloads(take("workload")));
        }
        Some(Study {
            title: text_of(head.remove("title"))?,
            workloads,
            factors,
            environments,
            observe,
            design,
            duet: typed_design.get("duet") == Some(&Value::Switch(true)),
            layout,
            lines,
            renamed: std::mem::take(&mut self.renamed),
        })
    }

    /// The program of `[command]`: `Some(None)` where there is none, `None` after a mistake in it. Those of `[commands]` are kept.
    fn program(&mut self, sections: &BTreeMap<&str, (usize, Vec<Entry<'_>>)>) -> Option<Option<Program>> {
        let (one, named) = (sections.get(command::KIND), sections.get(command::NAMED));
        if one.is_none() && named.is_none() {
            return Some(None);
        }
        let (line, entries) = one.map_or((0, &[][..]), |(line, entries)| (*line, entries.as_slice()));
        let (program, programs) = self.commands((line, entries), named)?;
        self.programs = programs;
        Some(Some(program))
    }

    /// Hands the program to the workload that it is. Programs that have a name are levels of a factor.
    fn place_program(
        &mut self,
        program: Option<Program>,
        line: usize,
        factors: &[Entry<'_>],
        chosen: &mut [Chosen],
    ) -> Option<()> {
        let commands = chosen.iter_mut().find(|chosen| chosen.descriptor.kind == command::KIND);
        match (commands, program) {
            (None, None) => Some(()),
            (Some(_), Some(_)) if !self.programs.is_empty() => {
                let varied = factors.iter().any(|(key, ..)| *key == command::KIND);
                if !varied {
                    let names: Vec<String> = self.programs.iter().map(|of| format!("\"{}\"", of.name)).collect();
                    let remedy = format!("write command = [{}] in [factors]", names.join(", "));
                    self.report(line, "the study does not say which of its [commands] it runs".to_owned(), remedy);
                }
                varied.then_some(())
            }
            (Some(chosen), Some(program)) => {
                chosen.parameters.insert(command::KIND.to_owned(), Value::Program(Box::new(program)));
                Some(())
            }
            (Some(chosen), None) if std::ptr::eq(chosen.descriptor, &raw const command::BARE) => {
                let remedy = "write a section [command] with argv = [\"program\", \"argument\"]";
                self.report(0, "the study's workload is a command, and no section says which".to_owned(), remedy);
                None
            }
            (Some(_), None) => Some(()),
            (None, Some(_)) => {
                let section = if self.programs.is_empty() { command::KIND } else { command::NAMED };
                let what = format!("[{section}] in a study without that workload");
                self.report(line, what, "write kind = \"command\" in [workload], or drop the section");
                None
            }
        }
    }

    /// Refuses a published table that is not among those of `reference/`.
    fn published(&mut self, named: Option<&Value>, entries: &[Entry<'_>]) {
        let Some(Value::Text(name)) = named else { return };
        if published::find(name).is_none() {
            let line = line_in(entries, "published");
            self.report(line, format!("there is no published table '{name}'"), published::like(name));
        }
    }

    /// The sections with their lines and entries; what is not a section becomes a problem.
    fn sections<'t>(
        &mut self,
        document: &'t DeTable<'t>,
        workloads: &[&'static Descriptor],
    ) -> BTreeMap<&'t str, (usize, Vec<Entry<'t>>)> {
        let own = workloads.iter().filter_map(|workload| Some(workload.section?.name));
        let names: Vec<&str> = SECTIONS.iter().copied().chain(own).collect();
        let mut sections = BTreeMap::new();
        for (name, line, value) in self.layer.entries(document) {
            if !names.contains(&name) {
                self.report(line, format!("unknown section [{name}]"), nearest(name, &names));
                continue;
            }
            match value.get_ref().as_table() {
                Some(table) => drop(sections.insert(name, (line, self.layer.entries(table)))),
                None => {
                    let what = format!("'{name}' is {}, no section", with_article(value.get_ref().type_str()));
                    self.report(line, what, format!("write [{name}] and keys below it"));
                }
            }
        }
        sections
    }

    /// Reads the entries of a section against its table; unknown keys and misfits become problems.
    fn known(&mut self, section: &str, knobs: &[Knob], entries: &[Entry<'_>]) -> BTreeMap<String, Value> {
        self.known_of(&[], section, knobs, entries)
    }

    /// The same of a section of workloads of these kinds.
    fn known_of(
        &mut self,
        kinds: &[&str],
        section: &str,
        knobs: &[Knob],
        entries: &[Entry<'_>],
    ) -> BTreeMap<String, Value> {
        let keys: Vec<&str> = knobs.iter().map(|knob| knob.key).chain(beside(section)).collect();
        let mut values = BTreeMap::new();
        for &(key, line, value) in entries {
            match keys::find(knobs, kinds, key) {
                None => self.report(line, format!("unknown key '{key}' in [{section}]"), place_of(key, &keys)),
                Some(knob) => match knob.read(value.get_ref()) {
                    Ok(_) if values.contains_key(knob.key) => {
                        self.report(
                            line,
                            format!("'{}' is set twice, also as '{key}'", knob.key),
                            "keep one of the two",
                        );
                    }
                    Ok(value) => {
                        self.renamed.extend(keys::renamed(&self.layer.file, section, line, key, knob.key));
                        values.insert(knob.key.to_owned(), value);
                    }
                    Err(misfit) => self.report(line, misfit.what, misfit.remedy),
                },
            }
        }
        values
    }

    /// Reads `[environments.NAME]`: the settings of each place, and of those that are like one under a name of their own.
    fn environments(&mut self, entries: &[Entry<'_>]) -> BTreeMap<String, BTreeMap<String, Value>> {
        let mut all: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
        let (places, own): (Vec<Entry<'_>>, Vec<Entry<'_>>) =
            entries.iter().partition(|(name, ..)| environments::find(name).is_some());
        for (name, line, value) in places.into_iter().chain(own) {
            let Some(table) = value.get_ref().as_table() else {
                let what = format!("'{name}' is {}, no section", with_article(value.get_ref().type_str()));
                self.report(line, what, format!("write [environments.{name}] and keys below it"));
                continue;
            };
            let mut typed = self.layer.entries(table);
            let section = format!("environments.{name}");
            if let Some(kind) = environments::find(name) {
                if let Some(at) = typed.iter().position(|(key, ..)| *key == environments::LIKE.key) {
                    let what = format!("'like' in [environments.{name}], which is a place itself");
                    self.report(typed.remove(at).1, what, "give the section a name of your own, or take 'like' out");
                }
                let settings = self.known(&section, &kind.knobs(), &typed);
                all.insert(name.to_owned(), settings);
                continue;
            }
            // Whatever else is wrong with it, a factor that names it is right.
            self.named.push(name.to_owned());
            let Some(like) = self.like(name, line, &mut typed) else { continue };
            let own = self.known(&section, &environments::knobs_of(&like), &typed);
            let mut settings = all.get(&like).cloned().unwrap_or_default();
            settings.extend(own);
            settings.insert(environments::LIKE.key.to_owned(), Value::Choice(like));
            all.insert(name.to_owned(), settings);
        }
        all
    }

    /// Takes out which place the environment `name` says that it is like.
    fn like(&mut self, name: &str, line: usize, typed: &mut Vec<Entry<'_>>) -> Option<String> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.len() > LONGEST_NAME
            || !name.starts_with(|c: char| c.is_ascii_alphabetic())
            || !name.chars().all(is_word)
        {
            let what = format!("invalid environment name: [environments.{name}]");
            let remedy = format!("begin with a letter, and write letters, digits, - and _, at most {LONGEST_NAME}");
            self.report(line, what, remedy);
            return None;
        }
        let Some(at) = typed.iter().position(|(key, ..)| *key == environments::LIKE.key) else {
            let what = format!("unknown environment [environments.{name}]");
            let near = nearest(name, environments::NAMES);
            self.report(
                line,
                what,
                format!("{near} (a name of your own needs the environment that it extends, such as like = \"qemu\")"),
            );
            return None;
        };
        let (_, line, value) = typed.remove(at);
        match environments::LIKE.read(value.get_ref()) {
            Ok(like) => Some(like.to_string()),
            Err(misfit) => {
                self.report(line, misfit.what, misfit.remedy);
                None
            }
        }
    }

    /// One level of a factor; of the environment also a name of the study's own, of the command the program of that name.
    fn level(&self, knob: &Knob, typed: &DeValue<'_>) -> Result<Value, InvalidValue> {
        if knob.key == command::KIND {
            return self.named_program(knob, typed);
        }
        match typed.as_str().filter(|_| knob.key == environments::FACTOR) {
            Some(name) if self.named.iter().any(|own| own == name) => Ok(Value::Choice(name.to_owned())),
            Some(name) => knob.read(typed).map_err(|misfit| {
                let all: Vec<&str> =
                    self.named.iter().map(String::as_str).chain(environments::NAMES.iter().copied()).collect();
                InvalidValue { remedy: nearest(name, &all), ..misfit }
            }),
            None => knob.read(typed),
        }
    }

    fn named_program(&self, knob: &Knob, typed: &DeValue<'_>) -> Result<Value, InvalidValue> {
        let name = knob.read(typed)?.to_string();
        if let Some(program) = self.programs.iter().find(|program| program.name == name) {
            return Ok(Value::Program(Box::new(program.clone())));
        }
        let names: Vec<&str> = self.programs.iter().map(|program| program.name.as_str()).collect();
        let remedy = match names.as_slice() {
            [] => format!("describe it in a section [commands.{name}] with argv = [\"program\", \"argument\"]"),
            _ => nearest(&name, &names),
        };
        Err(InvalidValue::new(format!("command = '{name}' is not known"), remedy))
    }

    /// What `[workload]` names: one kind with its parameters alongside it, or several kinds with a section each.
    fn workloads(
        &mut self,
        entries: &[Entry<'_>],
        section: usize,
        known: &[&'static Descriptor],
    ) -> Option<Vec<Chosen>> {
        let kinds: Vec<&str> = known.iter().map(|workload| workload.kind).collect();
        let Some(&(_, line, value)) = entries.iter().find(|(key, ..)| *key == "kind") else {
            let remedy = format!("write kind in [workload], one of {}", kinds.join(", "));
            self.report(section, "the study names no workload".to_owned(), remedy);
            return None;
        };
        let own: Vec<Entry<'_>> = entries.iter().filter(|(key, ..)| *key != "kind").copied().collect();
        let Some(several) = value.get_ref().as_array() else {
            let descriptor = self.descriptor(line, value.get_ref(), known)?;
            let parameters = self.known_of(&[descriptor.kind], "workload", descriptor.parameters, &own);
            let (held, metric, also, published) = (BTreeMap::new(), None, Vec::new(), None);
            return Some(vec![Chosen { descriptor, parameters, held, metric, also, published }]);
        };
        let mut found: Vec<&'static Descriptor> = Vec::new();
        for kind in several.iter() {
            let descriptor = self.descriptor(line, kind.get_ref(), known)?;
            if found.iter().any(|other| other.kind == descriptor.kind) {
                let what = format!("'kind' names '{}' twice", descriptor.kind);
                self.report(line, what, "name each workload once");
            } else {
                found.push(descriptor);
            }
        }
        if found.is_empty() {
            self.report(line, "'kind' names no workload".to_owned(), format!("write one of {}", kinds.join(", ")));
            return None;
        }
        Some(self.sections_of_workloads(&found, &own))
    }

    fn descriptor(
        &mut self,
        line: usize,
        kind: &DeValue<'_>,
        known: &[&'static Descriptor],
    ) -> Option<&'static Descriptor> {
        let kinds: Vec<&str> = known.iter().map(|workload| workload.kind).collect();
        let Some(kind) = kind.as_str() else {
            let what = format!("'kind' is {}", with_article(kind.type_str()));
            self.report(line, what, format!("write one of {} in quotation marks", kinds.join(", ")));
            return None;
        };
        let found = known.iter().find(|workload| workload.kind == kind).copied();
        if found.is_none() {
            self.report(line, format!("unknown workload kind '{kind}'"), nearest(kind, &kinds));
        }
        if let Some(lost) = found.and_then(Descriptor::reserved_parameter) {
            let remedy = "give the parameter another name in the workload's table";
            self.report(
                line,
                format!("workload '{kind}': its parameter '{lost}' means something else in every study"),
                remedy,
            );
            return None;
        }
        found
    }

    /// Reads `[workload.KIND]` of each of several workloads: its parameters, what its report shows, and shared factors
    /// that are held at one level for it.
    fn sections_of_workloads(&mut self, found: &[&'static Descriptor], own: &[Entry<'_>]) -> Vec<Chosen> {
        let kinds: Vec<&str> = found.iter().map(|descriptor| descriptor.kind).collect();
        for &(key, line, value) in own {
            if !kinds.contains(&key) {
                let of = found.iter().find(|descriptor| descriptor.parameter(key).is_some());
                let remedy =
                    of.map_or_else(|| nearest(key, &kinds), |of| format!("write it in [workload.{}]", of.kind));
                self.report(line, format!("'{key}' in [workload] is not one of its kinds"), remedy);
            } else if value.get_ref().as_table().is_none() {
                let what = format!("'{key}' is {}, no section", with_article(value.get_ref().type_str()));
                self.report(line, what, format!("write [workload.{key}] and keys below it"));
            }
        }
        let chosen = |reader: &mut Self, descriptor: &'static Descriptor| {
            let table = own.iter().find(|(key, ..)| *key == descriptor.kind).and_then(|(.., v)| v.get_ref().as_table());
            let entries = table.map(|table| reader.layer.entries(table)).unwrap_or_default();
            let shared = tables::FACTORS.iter().filter(|knob| knob.key != "environment");
            let knobs: Vec<Knob> =
                descriptor.parameters.iter().chain(tables::OF_ONE_WORKLOAD).chain(shared).copied().collect();
            let section = format!("workload.{}", descriptor.kind);
            let mut typed = reader.known_of(&[descriptor.kind], &section, &knobs, &entries);
            let metric = text_of(typed.remove("metric"));
            reader.metric(descriptor, metric.as_deref(), line_in(&entries, "metric"));
            let also = reader.also(descriptor, typed.remove("also"), line_in(&entries, "also"));
            reader.published(typed.get("published"), &entries);
            let published = text_of(typed.remove("published"));
            let (parameters, held) = typed.into_iter().partition(|(key, _)| descriptor.parameter(key).is_some());
            Chosen { descriptor, parameters, held, metric, also, published }
        };
        found.iter().map(|descriptor| chosen(self, descriptor)).collect()
    }

    /// Where the keys of `[workload.KIND]` were typed, as `workload.KIND.key`.
    fn lines_of_workloads(&self, entries: &[Entry<'_>]) -> Vec<(String, usize)> {
        let tables = entries.iter().filter_map(|(kind, _, value)| Some((kind, value.get_ref().as_table()?)));
        tables
            .flat_map(|(kind, table)| {
                self.layer
                    .entries(table)
                    .into_iter()
                    .map(move |(key, line, _)| (format!("workload.{kind}.{key}"), line))
            })
            .collect()
    }

    /// Refuses a study that leaves out what has no default.
    fn required(&mut self, chosen: &Chosen, given: &[Entry<'_>], section: usize, several: bool) {
        let workload = chosen.descriptor;
        let place = if several { format!("workload.{}", workload.kind) } else { "workload".to_owned() };
        for knob in workload.parameters.iter().filter(|knob| knob.default == crate::knob::Default::Required) {
            if !chosen.parameters.contains_key(knob.key)
                && !given
                    .iter()
                    .any(|(key, ..)| *key == knob.key || former::now(&[workload.kind], key) == Some(knob.key))
            {
                let what = format!("workload '{}' needs '{}', which has no default", workload.kind, knob.key);
                self.report(section, what, format!("write {} in [{place}]: {}", knob.key, knob.takes()));
            }
        }
    }

    fn metric(&mut self, workload: &Descriptor, metric: Option<&str>, line: usize) {
        if let Some(metric) = metric.filter(|metric| workload.metric(metric).is_none()) {
            let keys: Vec<&str> = workload.metrics.iter().map(|metric| metric.key).collect();
            let what = format!("workload '{}' has no metric '{metric}'", workload.kind);
            self.report(line, what, nearest(metric, &keys));
        }
    }

    /// The other metrics that get a ratio.
    fn also(&mut self, workload: &Descriptor, typed: Option<Value>, line: usize) -> Vec<String> {
        let Some(Value::Words(named)) = typed else { return Vec::new() };
        named.iter().for_each(|name| self.metric(workload, Some(name), line));
        named
    }

    fn factors(&mut self, workloads: &[Chosen], entries: &[Entry<'_>], section: &[Entry<'_>]) -> Vec<Factor> {
        let knobs: Vec<&'static Knob> = knobs_of(workloads);
        let keys: Vec<&str> = knobs.iter().map(|knob| knob.key).collect();
        let kinds = kinds_of(workloads);
        let mut factors = Vec::new();
        if workloads.len() > 1 {
            let levels = workloads.iter().map(|chosen| Value::Choice(chosen.descriptor.kind.to_owned())).collect();
            factors.push(Factor { key: tables::WORKLOAD.to_owned(), levels, line: line_in(section, "kind") });
        }
        for &(key, line, value) in entries {
            let Some(knob) = keys::find(knobs.iter().copied(), &kinds, key).or_else(|| own_knob(workloads, key)) else {
                self.report(line, format!("unknown factor '{key}'"), place_of(key, &keys));
                continue;
            };
            self.renamed.extend(keys::renamed(&self.layer.file, "factors", line, key, knob.key));
            let key = knob.key;
            if factors.iter().any(|factor: &Factor| factor.key == key) {
                self.report(line, format!("'{key}' is varied twice, once by its former name"), "keep one of the two");
            }
            if knobs.iter().any(|other| other.key == key && other.kind != knob.kind) {
                let what = format!("'{key}' is not the same thing in all of these workloads");
                self.report(line, what, "set it in each [workload.KIND], or make a study of each workload");
                continue;
            }
            if let Some(section) = workloads.iter().find_map(|chosen| chosen.sets_in_section(key)) {
                let what = format!("'{key}' is set in [{section}] and varied in [factors]");
                self.report(line, what, "keep one of the two");
            }
            if let Some(chosen) = workloads.iter().find(|chosen| chosen.parameters.contains_key(key)) {
                let what = match workloads.len() {
                    1 => format!("'{key}' is set in [workload] and varied in [factors]"),
                    _ => format!("'{key}' is set in [workload.{}] and varied in [factors]", chosen.descriptor.kind),
                };
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
            match self.level(knob, level) {
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
}

fn kinds_of(workloads: &[Chosen]) -> Vec<&'static str> {
    workloads.iter().map(|chosen| chosen.descriptor.kind).collect()
}

/// What a study of these workloads can vary.
fn knobs_of(workloads: &[Chosen]) -> Vec<&'static Knob> {
    let own = workloads.iter().flat_map(|chosen| chosen.descriptor.parameters);
    tables::FACTORS.iter().chain(own).collect()
}

/// The knob of `key` in the own section of one of these workloads.
fn own_knob(workloads: &[Chosen], key: &str) -> Option<&'static Knob> {
    workloads.iter().find_map(|chosen| chosen.descriptor.section?.knob(&former::path_now(key)))
}

/// The workloads that a study can name, with its own program in place of the unknown one.
fn with_program(workloads: &[&'static Descriptor], program: Option<&Program>) -> Vec<&'static Descriptor> {
    let own = program.map(command::descriptor);
    let of_kind = |known: &&'static Descriptor| own.filter(|own| own.kind == known.kind).unwrap_or(known);
    workloads.iter().map(of_kind).collect()
}

/// The default of the knob `key` where its row types one.
#[must_use]
pub fn default_of(knobs: &[Knob], key: &str) -> Option<Value> {
    let knob = knobs.iter().find(|knob| knob.key == key)?;
    match knob.default {
        crate::knob::Default::Typed(text) => knob.read_text(text).ok(),
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
        crate::knob::Default::Typed(text) => match knob.kind {
            Kind::Text => true,
            _ => knob.read_text(text).is_ok(),
        },
        _ => true,
    })
}
