//! Values of a scenario file as a reader wants them: text, numbers, tables and names, and what is wrong with them.

use super::keys::Section as Keys;
use crate::template::Template;
use crate::url;
use baremark_model::config::{self, Layer, Section, list_of};
use baremark_model::problem::{Problem, nearest};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeInteger, DeValue};

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

pub(super) struct Reader<'f> {
    pub(super) layer: &'f Layer<'f>,
    pub(super) typed: config::Reader,
    pub(super) names: Names,
    pub(super) folder: &'f Path,
}

pub(super) type Value<'t> = &'t Spanned<DeValue<'t>>;

impl Reader<'_> {
    pub(super) fn line(&self, value: Value<'_>) -> usize {
        self.layer.line(value.span().start)
    }

    pub(super) fn wrong(&mut self, line: usize, what: impl Into<String>, remedy: impl Into<String>) {
        self.typed.add(&self.layer.file, Problem::new(line, what, remedy));
    }

    /// Refuses keys that the table of this section has not.
    pub(super) fn known(&mut self, table: &Section<'_>, keys: &Keys) {
        self.typed.known(table, &keys.keys.iter().map(|key| key.name).collect::<Vec<_>>());
    }

    /// A text with its line.
    pub(super) fn text<'t>(&mut self, table: &Section<'t>, key: &str) -> Option<(&'t str, usize)> {
        Some((self.typed.text(table, key)?, table.line_of(key)))
    }

    /// A text, or several, each with its line.
    pub(super) fn texts<'t>(&mut self, table: &Section<'t>, key: &str) -> Vec<(&'t str, usize)> {
        let lines = table.get(key).map_or(&[][..], list_of).iter().map(|item| self.layer.line(item.span().start));
        self.typed.texts(table, key).into_iter().zip(lines.collect::<Vec<_>>()).collect()
    }

    pub(super) fn count(&mut self, table: &Section<'_>, key: &str, most: u32) -> Option<u32> {
        self.typed.count(table, key, (1, u64::from(most))).and_then(|count| u32::try_from(count).ok())
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

    pub(super) fn named_variable(&mut self, table: &Section<'_>, key: &str) -> usize {
        match self.text(table, key) {
            Some((text, line)) => self.variable(text, line),
            None => {
                let what = format!("'{key}' is missing{}", table.inside());
                self.wrong(table.line(), what, format!("add {key} = \"VARIABLE\""));
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

    pub(super) fn settings(&mut self, parent: &Section<'_>, key: &str) -> Vec<(usize, Template)> {
        let table = self.typed.section(parent, key);
        let mut settings = Vec::new();
        for (name, line, _) in table.entries() {
            let text = self.typed.typed(&table, name, "text in quotation marks, or a whole number", |value| {
                value.as_str().or(value.as_integer().map(DeInteger::as_str))
            });
            if let Some(text) = text {
                let variable = self.variable(name, line);
                settings.push((variable, self.template(text, line)));
            }
        }
        settings
    }
}
