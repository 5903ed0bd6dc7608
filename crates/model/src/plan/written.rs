//! Where a study writes what a problem is about, and what becomes of a workload whose problem it does not write.
//!
//! Sizes that a study leaves open follow the machine: STREAM's arrays, its caches. Where such a size cannot be had, a study of several workloads is measured without
//! that one, which is listed with the reason, so that a small machine has an answer too. A study of one workload is refused, and so is a size that a study writes.

use super::{Absent, Chosen, Resolver};
use crate::codes::ReasonCode;
use crate::knob::InvalidValue;
use crate::value::Value;
use std::collections::BTreeMap;

impl Resolver<'_> {
    /// Notes that a workload cannot have an arm of these levels.
    pub(super) fn misfit(&mut self, chosen: &Chosen, levels: &BTreeMap<String, Value>, misfit: InvalidValue) {
        let line = self.line_of_misfit(chosen.descriptor.kind, &misfit.what);
        if let Some(line) = line.or_else(|| (self.study.workloads.len() == 1).then(|| self.study.line("workload.kind")))
        {
            return self.report(line, misfit.what, misfit.remedy);
        }
        let reason = format!("{}: {}", misfit.what, misfit.remedy);
        let treatment = levels.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
        self.absent.push(Absent::new(treatment, (ReasonCode::NotAvailable, reason)));
    }

    /// Whether the study goes on without a workload of this kind whose `key` does not fit the machine.
    pub(super) fn goes_on_without(&self, kind: &str, key: &str) -> bool {
        self.study.workloads.len() > 1 && self.line_of_parameter(kind, key) == 0
    }

    /// The line of the first parameter that a workload's own refusal names; `None` where the study writes none of them.
    fn line_of_misfit(&self, kind: &str, what: &str) -> Option<usize> {
        let words = what.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'));
        words.map(|word| self.line_of_parameter(kind, word)).find(|line| *line > 0)
    }

    /// Where a parameter of the workload `kind` is varied or set; 0 where it is not. Of a key of the workload's own section it is
    /// the line of the nearest table or key that holds it.
    pub(super) fn line_of_parameter(&self, kind: &str, key: &str) -> usize {
        let mut places = vec![format!("factors.{key}"), format!("workload.{kind}.{key}"), format!("workload.{key}")];
        places.extend(key.match_indices('.').map(|(at, _)| key[..at].to_owned()).chain([key.to_owned()]).rev());
        places.iter().map(|place| self.study.line(place)).find(|line| *line > 0).unwrap_or(0)
    }
}
