//! What must hold of every result document, whatever was measured: each violation is a defect of this program.
//!
//! A rule knows of a document what the document says, and works it out anew: it shares no code with what made the document.
//! Documents of earlier versions may break rules that came later.

mod amounts;
mod causes;
mod details;
mod intervals;
mod levels;
mod parts;
mod percentiles;
mod phases;
mod ratios;
mod sums;
mod units;
mod verdicts;
mod violation;

pub use violation::Violation;

use baremark_model::document::Document;
use baremark_model::wire::Series;
use violation::Found;

/// A rule: a function that reports what breaks it.
type Rule = fn(&Document, &mut Found);

/// Rules that follow from the code alone.
const EXACT: &[Rule] =
    &[intervals::check, percentiles::check, units::check, verdicts::check, causes::check, details::check];
/// Rules with a tolerance: of counters that are read one after the other, and of intervals that may miss.
const TOLERANT: &[Rule] = &[amounts::check, parts::check, phases::check, ratios::check];

/// Every violation of what must hold of a document, each once.
#[must_use]
pub fn check(document: &Document) -> Vec<Violation> {
    broken(document, EXACT.iter().chain(TOLERANT))
}

/// The same of those rules alone that no disturbance of the machine can break.
#[must_use]
pub fn check_exact(document: &Document) -> Vec<Violation> {
    broken(document, EXACT.iter())
}

fn broken<'r>(document: &Document, rules: impl Iterator<Item = &'r Rule>) -> Vec<Violation> {
    let mut found = Found::default();
    rules.for_each(|rule| rule(document, &mut found));
    found.0.dedup();
    found.0
}

/// Every violation in one phase of a trial of a workload of this kind, and in what only that kind reports.
#[must_use]
pub fn check_phase(place: &str, kind: &str, phase: &Series) -> Vec<Violation> {
    let mut found = Found::default();
    phases::one(place, kind, phase, &mut found);
    if let Some(detail) = &phase.detail {
        details::of(&format!("{place}: {}", detail.format), &detail.document, &mut found);
    }
    found.0
}

/// Every violation in what one kind of workload reports, such as the levels of a search.
#[must_use]
pub fn check_detail(place: &str, detail: &serde_json::Value) -> Vec<Violation> {
    let mut found = Found::default();
    details::of(place, detail, &mut found);
    found.0
}
