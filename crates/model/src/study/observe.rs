//! `[observe]`: system activity.

use super::{Entry, Reader, default_of};
use crate::observer::{OBSERVE, ObserveSpec, SOCKETS};
use crate::units::Nanos;
use crate::value::Value;
use toml::Spanned;
use toml::de::DeValue;

const WHICH: &str = "which";

impl Reader<'_> {
    /// Reads `[observe]`; `which` may be one observer or a list. Kernels (`short`) have no connections: by default none are listed for them.
    pub(super) fn observe(&mut self, entries: &[Entry<'_>], short: bool) -> ObserveSpec {
        let (lists, flat): (Vec<Entry<'_>>, Vec<Entry<'_>>) = entries.iter().partition(|(key, ..)| *key == WHICH);
        let typed = self.known("observe", OBSERVE, &flat);
        let value = |key: &str| typed.get(key).cloned().or_else(|| default_of(OBSERVE, key));
        let mut spec = ObserveSpec::default();
        spec.which.retain(|name| !(short && name == SOCKETS));
        if let Some(Value::TimeNs(interval)) = value("interval") {
            spec.interval = Nanos(interval.0);
        }
        spec.per_cpu = value("per_cpu") == Some(Value::Switch(true));
        if let Some(&(_, line, which)) = lists.first() {
            spec.which = self.observers(line, which.get_ref());
        }
        spec
    }

    fn observers(&mut self, line: usize, value: &DeValue<'_>) -> Vec<String> {
        let typed: Vec<&DeValue<'_>> = match value.as_array() {
            Some(array) => array.iter().map(Spanned::get_ref).collect(),
            None => vec![value],
        };
        if typed.is_empty() {
            let remedy = "name observers, or write \"null\" to observe nothing";
            self.report(line, "'which' names no observer".to_owned(), remedy);
        }
        let mut names: Vec<String> = Vec::new();
        for name in typed {
            let Some(knob) = OBSERVE.iter().find(|knob| knob.key == WHICH) else { continue };
            match knob.read(name).map(|value| value.to_string()) {
                Ok(name) if names.contains(&name) => {
                    self.report(line, format!("'which' names the observer '{name}' twice"), "name each once");
                }
                Ok(name) => names.push(name),
                Err(misfit) => self.report(line, misfit.what, misfit.remedy),
            }
        }
        names
    }
}
