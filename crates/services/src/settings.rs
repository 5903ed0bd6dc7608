//! The settings of a service: typed values for every knob, and lines that are passed through as they are.

use baremark_model::config::{Reader, Section, all_of};
use baremark_model::knob::{Default as Unsaid, Kind, Knob};
use baremark_model::value::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::de::DeValue;

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
    /// What sections say of the service `kind` with these knobs, later ones over earlier ones.
    pub fn read(reader: &mut Reader, kind: &str, knobs: &[Knob], sections: &[&Section<'_>]) -> Settings {
        let mut settings = Settings::default();
        let known: Vec<&str> = knobs.iter().map(|knob| knob.key).chain(["extra"]).collect();
        let line =
            |text: &'_ DeValue<'_>| text.as_str().filter(|text| !text.contains(['\n', '\r', '\0'])).map(str::to_owned);
        for section in sections {
            reader.known(section, &known);
            settings.values.extend(reader.values(knobs, section));
            let extra =
                reader.typed(section, "extra", "lines of text, such as [\"LINE\"]", |value| all_of(value, line));
            settings.extra = extra.unwrap_or(settings.extra);
        }
        if let Some(section) = sections.first() {
            for knob in knobs.iter().filter(|knob| !settings.has(knob.key)) {
                reader.wrong(section, "", format!("{kind} has no '{}'", knob.key), format!("write {}", knob.takes()));
            }
        }
        settings
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
