//! Settings in layers: what a topology says, over what the shipped defaults say, read with the line of every mistake.

use baremark_model::descriptor::{Knob, Value};
use baremark_model::problem::{Problem, Problems, nearest};
use baremark_model::units::{Bytes, Nanos, Share};
use baremark_services::service::Service;
use baremark_services::settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The name of the shipped defaults in messages.
pub(crate) const DEFAULTS_FILE: &str = "the defaults";

/// One text of settings.
pub struct Layer<'t> {
    /// Its name in messages.
    file: String,
    table: Spanned<DeTable<'t>>,
    /// Where its lines end; one of a single line has none that messages could name.
    breaks: Option<Vec<usize>>,
}

impl<'t> Layer<'t> {
    /// Parses a text; `file` is its name in messages.
    ///
    /// # Errors
    /// The place where it is no TOML.
    pub fn parse(file: &str, text: &'t str) -> Result<Layer<'t>, Problems> {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
        Layer::read(file.to_owned(), text, Some(breaks))
    }

    /// Parses what lies over a file: a single setting, which is its own name in messages, or several.
    ///
    /// # Errors
    /// As [`Layer::parse`].
    pub fn level(text: &'t str) -> Result<Layer<'t>, Problems> {
        if text.trim_end().contains('\n') {
            return Layer::parse("the settings over the file", text);
        }
        Layer::read(format!("'{}'", text.trim_end()), text, None)
    }

    fn read(file: String, text: &'t str, breaks: Option<Vec<usize>>) -> Result<Layer<'t>, Problems> {
        match DeTable::parse(text) {
            Ok(table) => Ok(Layer { file, table, breaks }),
            Err(why) => {
                let line = line(breaks.as_deref(), why.span().map_or(0, |span| span.start));
                let list =
                    vec![Problem::new(line, why.message().to_owned(), "write key = value, text in quotation marks")];
                Err(Problems { file, list })
            }
        }
    }

    fn line(&self, at: usize) -> usize {
        line(self.breaks.as_deref(), at)
    }
}

/// The number of a line, from 1; 0 where there is a single one.
fn line(breaks: Option<&[usize]>, at: usize) -> usize {
    breaks.map_or(0, |breaks| breaks.partition_point(|&end| end < at) + 1)
}

/// A table as the layers have it, the first that says something counting.
#[derive(Clone)]
pub struct Section<'l> {
    name: String,
    parts: Vec<(&'l Layer<'l>, &'l DeTable<'l>)>,
}

/// Reads sections and gathers what is wrong.
#[derive(Default)]
pub struct Reader {
    problems: Vec<(String, Problem)>,
}

impl<'l> Section<'l> {
    /// The whole of these layers, the first counting most.
    #[must_use]
    pub fn root(layers: &[&'l Layer<'l>]) -> Section<'l> {
        Section {
            name: "the file".to_owned(),
            parts: layers.iter().map(|layer| (*layer, layer.table.get_ref())).collect(),
        }
    }

    /// This section over another: what it does not say, the other does.
    #[must_use]
    pub fn over(mut self, other: &Section<'l>) -> Section<'l> {
        self.parts.extend(other.parts.iter().copied());
        self
    }

    /// Whether a layer says something of the key.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.parts.iter().any(|(_, table)| table.contains_key(key))
    }

    /// Whether a layer over the defaults says something of the key.
    #[must_use]
    pub fn has_own(&self, key: &str) -> bool {
        let above = self.parts.iter().filter(|(layer, _)| layer.file != DEFAULTS_FILE);
        above.map(|(_, table)| table).any(|table| table.contains_key(key))
    }

    /// Keys that any layer has.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<String> {
        self.parts.iter().flat_map(|(_, table)| table.keys()).map(|key| key.get_ref().to_string()).collect()
    }

    fn value(&self, key: &str) -> Option<(&'l Layer<'l>, &'l Spanned<DeValue<'l>>)> {
        self.parts.iter().find_map(|(layer, table)| Some((*layer, table.get(key)?)))
    }
}

impl Reader {
    /// Everything that was wrong, by file and line.
    ///
    /// # Errors
    /// When something was.
    pub fn finish(mut self) -> Result<(), Problems> {
        let Some(file) = self.problems.iter().map(|(file, _)| file.clone()).next() else { return Ok(()) };
        self.problems.retain(|(other, _)| *other == file);
        let mut list: Vec<Problem> = self.problems.into_iter().map(|(_, problem)| problem).collect();
        list.sort_by_key(|problem| problem.line);
        list.dedup();
        Err(Problems { file, list })
    }

    /// Everything that was wrong, each mistake with its file.
    #[must_use]
    pub fn into_problems(self) -> Vec<(String, Problem)> {
        let mut all = Vec::new();
        for problem in self.problems {
            if !all.contains(&problem) {
                all.push(problem);
            }
        }
        all
    }

    /// Notes a mistake at a key, or at the section where the key is not there.
    pub fn wrong(&mut self, section: &Section<'_>, key: &str, what: impl Into<String>, remedy: impl Into<String>) {
        let place = section.value(key).map(|(layer, value)| (layer, layer.line(value.span().start)));
        let (file, line) = place.map_or_else(
            || (section.parts.first().map_or("", |(layer, _)| layer.file.as_str()), 0),
            |(layer, line)| (layer.file.as_str(), line),
        );
        self.problems.push((file.to_owned(), Problem::new(line, what, remedy)));
    }

    /// The table of that name in each layer.
    pub fn section<'l>(&mut self, parent: &Section<'l>, key: &str) -> Section<'l> {
        let mut parts = Vec::new();
        for (layer, table) in &parent.parts {
            match table.get(key).map(|value| (value, value.get_ref())) {
                Some((_, DeValue::Table(inner))) => parts.push((*layer, inner)),
                Some((value, _)) => {
                    let problem = Problem::new(
                        layer.line(value.span().start),
                        format!("'{key}' must be a section"),
                        format!("write [{key}]"),
                    );
                    self.problems.push((layer.file.clone(), problem));
                }
                None => {}
            }
        }
        let name = if parent.name == "the file" {
            format!("[{key}]")
        } else {
            format!("{}.{key}]", parent.name.trim_end_matches(']'))
        };
        Section { name, parts }
    }

    /// Refuses keys that nobody knows.
    pub fn known(&mut self, section: &Section<'_>, keys: &[&str]) {
        for (layer, table) in &section.parts {
            for (key, value) in *table {
                if !keys.contains(&key.get_ref().as_ref()) {
                    let problem = Problem::new(
                        layer.line(value.span().start),
                        format!("{} has no '{}'", section.name, key.get_ref()),
                        nearest(key.get_ref(), keys),
                    );
                    self.problems.push((layer.file.clone(), problem));
                }
            }
        }
    }

    /// Text.
    pub fn text(&mut self, section: &Section<'_>, key: &str) -> Option<String> {
        let (_, value) = section.value(key)?;
        if let DeValue::String(text) = value.get_ref() {
            return Some(text.to_string());
        }
        self.wrong(section, key, format!("'{key}' must be a string"), "write text in quotation marks");
        None
    }

    /// A quantity with its unit.
    pub fn quantity<T: FromStr<Err: std::fmt::Display>>(&mut self, section: &Section<'_>, key: &str) -> Option<T> {
        let text = self.text(section, key)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(why) => {
                self.wrong(section, key, format!("{key}: {why}"), "write such as \"5 s\", \"10 %\" or \"4 KiB\"");
                None
            }
        }
    }

    /// A duration in seconds.
    pub fn seconds(&mut self, section: &Section<'_>, key: &str) -> f64 {
        self.quantity::<Nanos>(section, key).map_or(0.0, Nanos::seconds)
    }

    /// A share of one.
    pub fn share(&mut self, section: &Section<'_>, key: &str) -> f64 {
        self.quantity::<Share>(section, key).map_or(0.0, |share| share.0)
    }

    /// A size.
    pub fn bytes(&mut self, section: &Section<'_>, key: &str) -> Option<u64> {
        self.quantity::<Bytes>(section, key).map(|bytes| bytes.0)
    }

    /// A whole number in a range.
    pub fn count(&mut self, section: &Section<'_>, key: &str, (least, most): (u64, u64)) -> Option<u64> {
        let (_, value) = section.value(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let found = number.filter(|number| (least..=most).contains(number));
        if found.is_none() {
            let what = format!("{} has an invalid '{key}'", section.name);
            self.wrong(section, key, what, format!("write a whole number from {least} to {most}"));
        }
        found
    }

    /// `true` or `false`.
    pub fn switch(&mut self, section: &Section<'_>, key: &str) -> bool {
        match section.value(key).map(|(_, value)| value.get_ref()) {
            None => false,
            Some(DeValue::Boolean(on)) => *on,
            Some(_) => {
                self.wrong(section, key, format!("'{key}' must be true or false"), "write true or false");
                false
            }
        }
    }

    /// A list of texts.
    pub fn texts(&mut self, section: &Section<'_>, key: &str) -> Vec<String> {
        let Some((_, value)) = section.value(key) else { return Vec::new() };
        let text = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => None,
        };
        let texts = match value.get_ref() {
            DeValue::Array(list) => list.iter().map(text).collect::<Option<Vec<String>>>(),
            _ => None,
        };
        texts.unwrap_or_else(|| {
            self.wrong(
                section,
                key,
                format!("'{key}' must be a list of strings"),
                format!("write such as {key} = [\"native\"]"),
            );
            Vec::new()
        })
    }

    /// A list of whole numbers.
    pub fn counts(&mut self, section: &Section<'_>, key: &str) -> Vec<usize> {
        let Some((_, value)) = section.value(key) else { return Vec::new() };
        let numbers = match value.get_ref() {
            DeValue::Array(list) => list
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::Integer(number) => usize::from_str_radix(number.as_str(), number.radix()).ok(),
                    _ => None,
                })
                .collect::<Option<Vec<usize>>>(),
            _ => None,
        };
        numbers.unwrap_or_else(|| {
            self.wrong(
                section,
                key,
                format!("'{key}' must be a list of whole numbers"),
                format!("write such as {key} = [0, 1]"),
            );
            Vec::new()
        })
    }

    /// The tables in a list.
    pub fn tables<'l>(&mut self, section: &Section<'l>, key: &str) -> Vec<Section<'l>> {
        let Some((layer, value)) = section.value(key) else { return Vec::new() };
        let DeValue::Array(list) = value.get_ref() else {
            self.wrong(section, key, format!("'{key}' must be a list of tables"), format!("write {key} = [{{ ... }}]"));
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in list {
            match item.get_ref() {
                DeValue::Table(table) => {
                    tables.push(Section { name: format!("an entry of {key}"), parts: vec![(layer, table)] });
                }
                _ => self.wrong(section, key, format!("'{key}' must be a list of tables"), "write { key = value }"),
            }
        }
        tables
    }

    /// Values of knobs, each from the first layer that has it.
    pub fn values(&mut self, knobs: &[Knob], section: &Section<'_>) -> BTreeMap<String, Value> {
        self.known(section, &knobs.iter().map(|knob| knob.key).collect::<Vec<_>>());
        let mut values = BTreeMap::new();
        for knob in knobs {
            let Some((_, typed)) = section.value(knob.key) else { continue };
            match knob.read(typed.get_ref()) {
                Ok(value) => drop(values.insert(knob.key.to_owned(), value)),
                Err(misfit) => self.wrong(section, knob.key, misfit.what, misfit.remedy),
            }
        }
        values
    }

    /// A service's settings: those of the tier over those of the service.
    pub fn settings(&mut self, service: &dyn Service, sections: &[&Section<'_>]) -> Settings {
        let mut settings = Settings::default();
        for section in sections {
            // The last layer first, so that the first has the last word.
            for (layer, table) in section.parts.iter().rev() {
                let line = |at: usize| layer.line(at);
                let problems = settings.read(table, service.knobs(), &section.name, &line);
                self.problems.extend(problems.into_iter().map(|problem| (layer.file.clone(), problem)));
            }
        }
        for knob in service.knobs().iter().filter(|knob| !settings.has(knob.key)) {
            let problem =
                Problem::new(0, format!("{} has no '{}'", service.kind(), knob.key), format!("write {}", knob.takes()));
            self.problems.push(("the defaults".to_owned(), problem));
        }
        settings
    }
}
