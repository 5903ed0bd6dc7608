//! Where a study writes what a problem is about, and what becomes of a workload whose problem it does not write.
//!
//! Sizes that a study leaves open follow the machine: STREAM's arrays, its caches. Where such a size cannot be had, a study of several workloads is measured without
//! that one, which is listed with the reason, so that a small machine has an answer too. A study of one workload is refused, and so is a size that a study writes.

use super::{Absent, Resolver};
use crate::codes::ReasonCode;
use crate::knob::InvalidValue;
use crate::value::Value;
use std::collections::BTreeMap;

impl Resolver<'_> {
    /// Notes that a workload cannot have an arm of these levels.
    pub(super) fn misfit(&mut self, kind: &str, levels: &BTreeMap<String, Value>, misfit: InvalidValue) {
        if misfit.key.as_ref().is_some_and(|key| self.goes_on_without(kind, key)) {
            let treatment = levels.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
            self.absent.push(Absent::new(treatment, (ReasonCode::NotAvailable, misfit.to_string())));
        } else {
            self.report(self.line_of_misfit(kind, &misfit.what), misfit.what, misfit.remedy);
        }
    }

    /// Whether the study goes on without a workload of this kind whose `key` does not fit the machine.
    pub(super) fn goes_on_without(&self, kind: &str, key: &str) -> bool {
        self.study.workloads.len() > 1 && self.line_of_parameter(kind, key) == 0
    }

    /// The line of the first parameter that a workload's own refusal names; where it names none, the workload's.
    fn line_of_misfit(&self, kind: &str, what: &str) -> usize {
        let words = what.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'));
        let lines = words.map(|word| self.line_of_parameter(kind, word));
        lines.into_iter().find(|line| *line > 0).unwrap_or_else(|| self.study.line("workload.kind"))
    }

    /// Where a parameter of the workload `kind` is varied or set; 0 where it is not. Of a key of the workload's own section it is
    /// the line of the nearest table or key that holds it.
    pub(super) fn line_of_parameter(&self, kind: &str, key: &str) -> usize {
        let mut places = vec![format!("factors.{key}"), format!("workload.{kind}.{key}"), format!("workload.{key}")];
        places.extend(key.match_indices('.').map(|(at, _)| key[..at].to_owned()).chain([key.to_owned()]).rev());
        places.iter().map(|place| self.study.line(place)).find(|line| *line > 0).unwrap_or(0)
    }
}
