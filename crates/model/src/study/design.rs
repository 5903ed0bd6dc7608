//! `[design]` of a study, with what follows from other keys filled in.

use super::{Design, Reader, default_of};
use crate::config::Entry;
use crate::tables;
use crate::units::{Nanos, Share};
use crate::value::Value;
use std::collections::BTreeMap;

/// Duration of a phase and quads of a trial where the study does not set them: many short phases, or few long ones.
fn usual_phases(short: bool) -> (Nanos, u64) {
    if short { (Nanos(5_000_000), 20) } else { (Nanos(100_000_000), 1) }
}

impl Reader<'_> {
    /// The design as typed; `short` says that every workload can be cut into short phases.
    pub(super) fn design(&mut self, typed: &BTreeMap<String, Value>, entries: &[Entry<'_>], short: bool) -> Design {
        let value = |key: &str| typed.get(key).cloned().or_else(|| default_of(tables::DESIGN, key));
        let share = |key: &str| match value(key) {
            Some(Value::Share(share)) => Some(share),
            _ => None,
        };
        let time = |key: &str| match value(key) {
            Some(Value::TimeNs(time)) => time,
            _ => Nanos(0),
        };
        let count = |key: &str| match value(key) {
            Some(Value::Count(count)) => count,
            _ => 0,
        };
        let precision = share("precision").unwrap_or(Share(0.01));
        let design = Design {
            precision,
            delta: share("delta").unwrap_or(Share(2.0 * precision.0)),
            budget: time("budget"),
            phase: if typed.contains_key("phase") { time("phase") } else { usual_phases(short).0 },
            quads: if typed.contains_key("quads") { count("quads") } else { usual_phases(short).1 },
            least_blocks: count("least_blocks"),
            most_blocks: count("most_blocks"),
            seed: count("seed"),
        };
        // A pair of which one was misread is not judged.
        let line_of_last = |keys: [&str; 2]| {
            let lines = entries.iter().filter(|(key, ..)| keys.contains(key));
            let read = keys.iter().filter(|key| typed.contains_key(**key)).count();
            (lines.clone().count() == read).then(|| lines.map(|(_, line, _)| *line).max().unwrap_or(0))
        };
        if let Some(line) = line_of_last(["precision", "delta"]) {
            self.can_decide(&design, line);
        }
        if let Some(line) = line_of_last(["least_blocks", "most_blocks"])
            && design.least_blocks > design.most_blocks
        {
            let (least, most) = (design.least_blocks, design.most_blocks);
            let what = format!("least_blocks = {least} is more than most_blocks = {most}");
            self.report(line, what, format!("write least_blocks = {most} or fewer, or most_blocks = {least} or more"));
        }
        design
    }

    fn can_decide(&mut self, design: &Design, line: usize) {
        let Design { precision, delta, .. } = *design;
        if precision.0 > delta.0 / 2.0 * (1.0 + 1e-9) {
            let what = format!(
                "precision = {precision} is coarser than half of delta = {delta}, so no verdict could be reached"
            );
            let finer = Share(delta.0 / 2.0);
            self.report(line, what, format!("write precision = \"{finer}\" or finer, or a larger delta"));
        }
    }
}
