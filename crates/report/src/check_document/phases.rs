//! Values of one phase: the sums of their parts, and answers of searches next to their levels.
//!
//! A trial's values are means and medians of its phases, of which these rules do not hold: in a document they are looked for in trials of one
//! phase alone.

use super::levels;
use super::violation::{Found, ROUNDING, place};
use baremark_model::document::{Document, TrialArm, TrialRow};
use baremark_model::event::TrialStatus;
use baremark_model::identity;
use baremark_model::seam::Sample;
use baremark_model::tables::WORKLOAD;
use baremark_model::wire::Series;
use serde_json::Value;

/// Desktop users, the most of whom are searched.
const SESSIONS: &str = "sessions";
const USERS: &str = "users_within_limit";
/// The metric of actions that were slower than the limit, and how many may be, in percent.
const SLOW: (&str, f64) = ("slow", 5.0);

/// What only one phase can break, in trials that have no more.
pub(super) fn check(document: &Document, found: &mut Found) {
    for trial in document.trials.iter().filter(|trial| trial.status == TrialStatus::Ok) {
        for (arm, row) in trial.arms.iter().enumerate() {
            let phases = trial.schedule.iter().filter(|of| **of == arm).count();
            if phases != 1 || !row.members.is_empty() {
                continue;
            }
            let kind = row.treatment.get(WORKLOAD).unwrap_or(&document.run.workload);
            let value = format!("block {}, cell {}: value", trial.block, trial.cell);
            let at = |metric: &str| place(document, &value, metric, &row.treatment);
            of(&at, kind, &row.medians, detail_of(document, trial, row), found);
        }
    }
}

/// The detail of an arm's only phase: that of its treatment, where no other trial of the block has it.
fn detail_of<'d>(document: &'d Document, trial: &TrialRow, arm: &TrialArm) -> Option<&'d Value> {
    let in_block = document.trials.iter().filter(|other| other.block == trial.block);
    let alike = in_block.flat_map(|other| &other.arms).filter(|other| other.treatment == arm.treatment);
    let row = document.details.iter().find(|row| row.block == trial.block && row.treatment == arm.treatment);
    row.filter(|_| alike.count() == 1).map(|row| &row.document)
}

/// A phase of a trial; one of several members has values of each.
pub(super) fn one(place: &str, kind: &str, phase: &Series, found: &mut Found) {
    let detail = phase.detail.as_ref().map(|detail| &detail.document);
    if phase.members.is_empty() {
        of(&|metric| format!("{place}: value of {metric}"), kind, &phase.samples, detail, found);
    }
    for member in &phase.members {
        let at = |metric: &str| format!("{place}, member {}: value of {metric}", member.member + 1);
        of(&at, kind, &member.samples, None, found);
    }
}

fn of(place: &dyn Fn(&str) -> String, kind: &str, samples: &[Sample], detail: Option<&Value>, found: &mut Found) {
    let value = |metric: &str| samples.iter().find(|of| of.metric == metric).map(|of| of.value);
    // A program has no detail, and may have metrics of its own of any name.
    for sum in identity::SUMS.iter().chain(detail.map(|_| &identity::OF_TRANSACTIONS)) {
        let parts: Vec<f64> = sum.parts.iter().filter_map(|part| value(part)).collect();
        let Some(whole) = value(sum.whole).filter(|_| parts.len() == sum.parts.len()) else { continue };
        let all: f64 = parts.iter().sum();
        let holds = (all - whole).abs() <= sum.slack * whole.abs().max(all.abs());
        let what = || format!("{whole}, and {} are {all}", sum.parts.join(" + "));
        found.unless(holds, || place(sum.whole), what, "parts add up to the whole");
    }
    if let (SESSIONS, Some(users), Some(slow)) = (kind, value(USERS).filter(|users| *users > 0.0), value(SLOW.0)) {
        let what = || format!("{users}, of whose actions {slow} % are slow");
        let holds = slow <= SLOW.1 * (1.0 + ROUNDING);
        found.unless(holds, || place(USERS), what, "the users of an answer keep the limit");
    }
    if let Some(detail) = detail {
        levels::answers(place, samples, detail, found);
    }
}
