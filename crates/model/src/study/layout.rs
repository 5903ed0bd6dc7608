//! `[report]` of a study: which factors its tables have, and what is divided by what.

use super::keys::{self, factor_like, line_in};
use super::{Chosen, Factor, Layout, Reader, kinds_of, knobs_of, own_knob, text_of};
use crate::config::Entry;
use crate::environments;
use crate::former;
use crate::tables;
use crate::value::Value;
use std::collections::BTreeMap;
use toml::de::DeValue;

impl Reader<'_> {
    /// `factors` are those of the study, or `None` where they are not all known. The metric is that of a single workload.
    pub(super) fn layout(
        &mut self,
        workloads: &[Chosen],
        factors: Option<&[Factor]>,
        entries: &[Entry<'_>],
    ) -> (Layout, Option<String>, Vec<String>) {
        let flat: Vec<Entry<'_>> = entries.iter().filter(|(key, ..)| *key != "ratio_to").copied().collect();
        let mut typed = self.known("report", tables::REPORT, &flat);
        let (metric, also) = (text_of(typed.remove("metric")), typed.remove("also"));
        let against = text_of(typed.remove("against"));
        let also = if let [only] = workloads {
            self.metric(only.descriptor, metric.as_deref(), line_in(entries, "metric"));
            self.metric(only.descriptor, against.as_deref(), line_in(entries, "against"));
            self.also(only.descriptor, also, line_in(entries, "also"))
        } else {
            let typed = [("metric", metric.is_some()), ("also", also.is_some()), ("against", against.is_some())];
            for (key, _) in typed.iter().filter(|(_, typed)| *typed) {
                let what = format!("'{key}' is ambiguous");
                self.report(line_in(entries, key), what, "write it in the [workload.KIND] whose metric it is");
            }
            Vec::new()
        };
        let mut named = |key: &str| {
            let name = text_of(typed.remove(key))?;
            Some(self.factor_now(workloads, factors, (line_in(entries, key), name)))
        };
        let (rows, columns) = (named("rows"), named("columns"));
        let columns = columns.unwrap_or_else(|| "environment".to_owned());
        let mut ratio_to = BTreeMap::new();
        if let Some(factors) = factors {
            for (key, name) in [("rows", rows.as_deref()), ("columns", Some(columns.as_str()))] {
                let Some(name) = name.filter(|name| *name != "environment") else { continue };
                if !factors.iter().any(|factor| factor.key == name) {
                    let what = format!("{key} = '{name}' is not a factor of this study");
                    self.report(line_in(entries, key), what, factor_like(name, &keys_of(factors)));
                }
            }
            if let Some(&(_, line, value)) = entries.iter().find(|(key, ..)| *key == "ratio_to") {
                ratio_to = self.ratio_to(workloads, factors, line, value.get_ref());
            } else {
                ratio_to = native_of(factors);
            }
        }
        (Layout { rows, columns, ratio_to, against }, metric, also)
    }

    fn ratio_to(
        &mut self,
        workloads: &[Chosen],
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
        for (key, line, value) in self.layer.entries(table) {
            let key = self.factor_now(workloads, Some(factors), (line, key.to_owned()));
            let key = key.as_str();
            let knob = knobs_of(workloads).into_iter().find(|knob| knob.key == key);
            let knob = knob.or_else(|| own_knob(workloads, key));
            let (Some(knob), Some(factor)) = (knob, factors.iter().find(|factor| factor.key == key)) else {
                let what = format!("ratio_to names '{key}', which is not a factor of this study");
                self.report(line, what, factor_like(key, &keys_of(factors)));
                continue;
            };
            match self.level(knob, value.get_ref()) {
                Err(misfit) => self.report(line, misfit.what, misfit.remedy),
                Ok(level) if key == environments::FACTOR && !environments::can(&level.to_string()).runs_work() => {
                    let what = format!("ratio_to names the environment '{level}', which runs nothing");
                    self.report(line, what, "name one that runs the work, such as \"native\"");
                }
                Ok(level) if factor.levels.contains(&level) => drop(wanted.insert(key.to_owned(), level)),
                Ok(level) => {
                    let labels: Vec<String> = factor.levels.iter().map(ToString::to_string).collect();
                    let what = format!("ratio_to names {key} = {level}, which is not a level of that factor");
                    self.report(line, what, format!("its levels are {}", labels.join(", ")));
                }
            }
        }
        wanted
    }

    /// The factor that `typed` names, where it does so by a former name.
    fn factor_now(
        &mut self,
        workloads: &[Chosen],
        factors: Option<&[Factor]>,
        (line, typed): (usize, String),
    ) -> String {
        let is_factor = |name: &str| factors.is_some_and(|all| all.iter().any(|factor| factor.key == name));
        let renamed =
            former::key_now_of(&kinds_of(workloads), &typed).filter(|now| !is_factor(&typed) && is_factor(now));
        let Some(now) = renamed else { return typed };
        self.renamed.extend(keys::renamed(&self.layer.file, "report", line, &typed, &now));
        now
    }
}

fn keys_of(factors: &[Factor]) -> Vec<&str> {
    factors.iter().map(|factor| factor.key.as_str()).collect()
}

/// What several environments are compared with where the study does not say: native, if it is one of them.
fn native_of(factors: &[Factor]) -> BTreeMap<String, Value> {
    let varied = factors.iter().find(|factor| factor.key == environments::FACTOR && factor.levels.len() > 1);
    let native = varied.and_then(|of| of.levels.iter().find(|level| level.to_string() == environments::NATIVE));
    native.map(|level| BTreeMap::from([(environments::FACTOR.to_owned(), level.clone())])).unwrap_or_default()
}
