//! Values of a scenario file as a reader wants them: text, numbers, tables and names, and what is wrong with them.

use super::keys::Section;
use crate::template::Template;
use crate::url;
use baremark_model::problem::{Problem, nearest};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The longest part of a request's body, in MiB.
pub(super) const LONGEST_BODY_MIB: u64 = 64;

#[derive(Default)]
pub(super) struct Names {
    pub(super) operations: Vec<String>,
    pub(super) choices: Vec<String>,
    pub(super) follows: Vec<String>,
    pub(super) variables: Vec<String>,
    pub(super) origins: Vec<(String, url::Origin)>,
}

#[derive(Clone, Copy)]
pub(super) struct Table<'t> {
    pub(super) entries: &'t DeTable<'t>,
    pub(super) line: usize,
    pub(super) what: &'t str,
}

pub(super) struct Reader<'f> {
    pub(super) breaks: Vec<usize>,
    pub(super) problems: Vec<Problem>,
    pub(super) names: Names,
    pub(super) folder: &'f Path,
}

pub(super) type Value<'t> = &'t Spanned<DeValue<'t>>;

impl Reader<'_> {
    pub(super) fn line(&self, value: Value<'_>) -> usize {
        self.breaks.partition_point(|&end| end < value.span().start) + 1
    }

    pub(super) fn wrong(&mut self, line: usize, what: impl Into<String>, remedy: impl Into<String>) {
        self.problems.push(Problem::new(line, what, remedy));
    }

    /// Refuses keys that the table of this section has not.
    pub(super) fn known(&mut self, table: Table<'_>, section: &Section) {
        let names: Vec<&str> = section.keys.iter().map(|key| key.name).collect();
        self.known_names(table, &names);
    }

    pub(super) fn known_names(&mut self, table: Table<'_>, keys: &[&str]) {
        for (key, value) in table.entries {
            let key = key.get_ref();
            if !keys.contains(&key.as_ref()) {
                let line = self.line(value);
                self.wrong(line, format!("{} has no '{key}'", table.what), nearest(key, keys));
            }
        }
    }

    pub(super) fn text<'t>(&mut self, table: Table<'t>, key: &str) -> Option<(&'t str, usize)> {
        let value = table.entries.get(key)?;
        let line = self.line(value);
        if let DeValue::String(text) = value.get_ref() {
            return Some((text.as_ref(), line));
        }
        self.wrong(line, format!("'{key}' must be a string"), "write text in quotation marks");
        None
    }

    pub(super) fn read<T: std::str::FromStr<Err: std::fmt::Display>>(
        &mut self,
        table: Table<'_>,
        key: &str,
    ) -> Option<T> {
        let (text, line) = self.text(table, key)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(why) => {
                self.wrong(line, format!("{key}: {why}"), "write such as \"5 s\", \"10 %\" or \"4 KiB\"");
                None
            }
        }
    }

    pub(super) fn number(&mut self, table: Table<'_>, key: &str) -> Option<f64> {
        let value = table.entries.get(key)?;
        let line = self.line(value);
        let number = match value.get_ref() {
            DeValue::Integer(number) => number.as_str().parse::<f64>().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| number.is_finite());
        if number.is_none() {
            self.wrong(line, format!("'{key}' must be a number"), "write a number without quotation marks");
        }
        number
    }

    pub(super) fn count(&mut self, table: Table<'_>, key: &str, most: u32) -> Option<u32> {
        let number = self.number(table, key)?;
        if (1.0..=f64::from(most)).contains(&number) && number.fract() == 0.0 {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
            return Some(number as u32);
        }
        let line = table.entries.get(key).map_or(table.line, |value| self.line(value));
        self.wrong(line, format!("{key} = {number} is out of range"), format!("write a whole number from 1 to {most}"));
        None
    }

    pub(super) fn switch(&mut self, table: Table<'_>, key: &str) -> Option<bool> {
        let value = table.entries.get(key)?;
        if let DeValue::Boolean(on) = value.get_ref() {
            return Some(*on);
        }
        let line = self.line(value);
        self.wrong(line, format!("'{key}' must be true or false"), "write true or false");
        None
    }

    pub(super) fn table<'t>(&mut self, parent: Table<'t>, key: &str, what: &'t str) -> Option<Table<'t>> {
        let value = parent.entries.get(key)?;
        self.as_table(value, what)
    }

    pub(super) fn as_table<'t>(&mut self, value: Value<'t>, what: &'t str) -> Option<Table<'t>> {
        let line = self.line(value);
        if let DeValue::Table(entries) = value.get_ref() {
            return Some(Table { entries, line, what });
        }
        self.wrong(line, format!("{what} must be a table"), "write { key = value }");
        None
    }

    /// The tables in a list; a single table is a list of one.
    pub(super) fn tables<'t>(&mut self, parent: Table<'t>, key: &str, what: &'t str) -> Vec<Table<'t>> {
        match parent.entries.get(key).map(|value| (value, value.get_ref())) {
            None => Vec::new(),
            Some((_, DeValue::Array(list))) => list.iter().filter_map(|value| self.as_table(value, what)).collect(),
            Some((value, _)) => self.as_table(value, what).into_iter().collect(),
        }
    }

    /// The texts in a list; a single text is a list of one.
    pub(super) fn texts<'t>(&mut self, parent: Table<'t>, key: &str) -> Vec<(&'t str, usize)> {
        let Some(value) = parent.entries.get(key) else { return Vec::new() };
        let single = std::slice::from_ref(value);
        let list: &[Spanned<DeValue<'t>>] = if let DeValue::Array(list) = value.get_ref() { list } else { single };
        let mut texts = Vec::new();
        for value in list {
            let line = self.line(value);
            match value.get_ref() {
                DeValue::String(text) => texts.push((text.as_ref(), line)),
                _ => self.wrong(
                    line,
                    format!("'{key}' must be a string or a list of strings"),
                    "write text in quotation marks",
                ),
            }
        }
        texts
    }

    pub(super) fn template(&mut self, text: &str, line: usize) -> Template {
        let names = &self.names.variables;
        let find = |name: &str| -> Result<usize, String> {
            let known: Vec<&str> = names.iter().map(String::as_str).collect();
            names
                .iter()
                .position(|known| known == name)
                .ok_or_else(|| format!("no variable is '{name}': {}", nearest(name, &known)))
        };
        match Template::parse::<String>(text, find) {
            Ok(template) => template,
            Err(why) => {
                self.wrong(line, why, "extract or set the variable somewhere; write {{ and }} for braces");
                Template::default()
            }
        }
    }

    pub(super) fn variable(&mut self, text: &str, line: usize) -> usize {
        if let Some(index) = self.names.variables.iter().position(|name| name == text) {
            return index;
        }
        let known: Vec<&str> = self.names.variables.iter().map(String::as_str).collect();
        let remedy = nearest(text, &known);
        self.wrong(line, format!("no variable is '{text}'"), remedy);
        0
    }

    pub(super) fn named_variable(&mut self, table: Table<'_>, key: &str) -> usize {
        match self.text(table, key) {
            Some((text, line)) => self.variable(text, line),
            None => {
                self.wrong(table.line, format!("{} has no '{key}'", table.what), format!("add {key} = \"VARIABLE\""));
                0
            }
        }
    }

    pub(super) fn index(&mut self, kind: &str, name: &str, line: usize) -> usize {
        let names = match kind {
            "operation" => &self.names.operations,
            "follow" => &self.names.follows,
            _ => &self.names.choices,
        };
        if let Some(index) = names.iter().position(|known| known == name) {
            return index;
        }
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let remedy = nearest(name, &known);
        self.wrong(line, format!("no {kind} is '{name}'"), remedy);
        0
    }

    pub(super) fn named<'t>(&mut self, root: Table<'t>, key: &str) -> Vec<(String, Value<'t>)> {
        let Some(table) = self.table(root, key, "the section") else { return Vec::new() };
        let mut all: Vec<(String, Value<'t>)> =
            table.entries.iter().map(|(name, value)| (name.get_ref().to_string(), value)).collect();
        // In the order of the file, so that the first operation is the first of the file.
        all.sort_by_key(|(_, value)| value.span().start);
        all
    }

    pub(super) fn settings(&mut self, parent: Table<'_>, key: &str) -> Vec<(usize, Template)> {
        let mut settings = Vec::new();
        for (name, value) in self.named(parent, key) {
            let line = self.line(value);
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.as_str().to_owned(),
                _ => {
                    self.wrong(line, format!("'{name}' must be a string"), "write text in quotation marks");
                    continue;
                }
            };
            let variable = self.variable(&name, line);
            settings.push((variable, self.template(&text, line)));
        }
        settings
    }
}

/// The values of a list; anything else is a list of one.
pub(super) fn list_in<'t>(value: &'t Spanned<DeValue<'t>>) -> &'t [Spanned<DeValue<'t>>] {
    if let DeValue::Array(list) = value.get_ref() { list } else { std::slice::from_ref(value) }
}
