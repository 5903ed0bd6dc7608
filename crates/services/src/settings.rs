//! The settings of a service: typed values for every knob, and lines that are passed through as they are.

use baremark_model::descriptor::{Default as Unsaid, Kind, Knob, Value};
use baremark_model::problem::{Problem, nearest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A setting of a service; its default is in the caller's file.
pub(crate) const fn knob(key: &'static str, kind: Kind, help: &'static str) -> Knob {
    Knob { key, kind, default: Unsaid::Required, help }
}

/// Values by key, and what is passed through.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    values: BTreeMap<String, Value>,
    /// Lines of the service's own language, after ours.
    pub extra: Vec<String>,
}

impl Settings {
    /// Takes what a table says over what was there. `line` tells the line of a place in the file.
    pub fn read(
        &mut self,
        table: &DeTable<'_>,
        knobs: &[Knob],
        what: &str,
        line: &dyn Fn(usize) -> usize,
    ) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (key, value) in table {
            let (name, at) = (key.get_ref().as_ref(), line(value.span().start));
            if name == "extra" {
                problems.extend(self.read_extra(value, what, at));
                continue;
            }
            let Some(knob) = knobs.iter().find(|knob| knob.key == name) else {
                let mut known: Vec<&str> = knobs.iter().map(|knob| knob.key).collect();
                known.push("extra");
                problems.push(Problem::new(at, format!("{what} has no '{name}'"), nearest(name, &known)));
                continue;
            };
            match knob.read(value.get_ref()) {
                Ok(value) => drop(self.values.insert(name.to_owned(), value)),
                Err(misfit) => problems.push(Problem::new(at, format!("{what}: {}", misfit.what), misfit.remedy)),
            }
        }
        problems
    }

    fn read_extra(&mut self, value: &Spanned<DeValue<'_>>, what: &str, line: usize) -> Option<Problem> {
        let wrong = || {
            Some(Problem::new(line, format!("{what}: 'extra' must be lines of text"), "write extra = [\"LINE\", ...]"))
        };
        let DeValue::Array(list) = value.get_ref() else { return wrong() };
        let mut extra = Vec::new();
        for item in list {
            match item.get_ref() {
                DeValue::String(text) if !text.contains(['\n', '\r', '\0']) => extra.push(text.to_string()),
                _ => return wrong(),
            }
        }
        self.extra = extra;
        None
    }

    /// Writes the lines that are passed through, each after `indent`.
    pub(crate) fn pass_through(&self, text: &mut String, indent: &str) {
        for line in &self.extra {
            text.extend([indent, line, "\n"]);
        }
    }

    /// Sets a value, as a factor does.
    pub fn set(&mut self, key: &str, value: Value) {
        self.values.insert(key.to_owned(), value);
    }

    /// Whether a value is there.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// All values, for the record.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// A whole number; 0 without one.
    #[must_use]
    pub fn count(&self, key: &str) -> u64 {
        if let Some(Value::Count(count)) = self.values.get(key) { *count } else { 0 }
    }

    /// A size in bytes; 0 without one.
    #[must_use]
    pub fn bytes(&self, key: &str) -> u64 {
        if let Some(Value::SizeBytes(size)) = self.values.get(key) { size.0 } else { 0 }
    }

    /// A duration in ms; 0 without one.
    #[must_use]
    pub fn ms(&self, key: &str) -> u64 {
        if let Some(Value::TimeNs(time)) = self.values.get(key) { time.0 / 1_000_000 } else { 0 }
    }

    /// A switch; off without one.
    #[must_use]
    pub fn on(&self, key: &str) -> bool {
        matches!(self.values.get(key), Some(Value::Switch(true)))
    }

    /// A word or text; empty without one.
    #[must_use]
    pub fn word(&self, key: &str) -> &str {
        match self.values.get(key) {
            Some(Value::Choice(word) | Value::Text(word)) => word,
            _ => "",
        }
    }
}
