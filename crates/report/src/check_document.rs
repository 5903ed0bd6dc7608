//! What must hold of every result document, whatever was measured: each violation is a defect of this program.
//!
//! A rule knows of a document what the document says, and works it out anew: it shares no code with what made the document.
//! Documents of earlier versions may break rules that came later.

mod amounts;
mod causes;
mod details;
mod intervals;
mod parts;
mod percentiles;
mod ratios;
mod units;
mod verdicts;

use crate::text::clean;
use crate::treatment::Factors;
use baremark_model::document::Document;
use baremark_model::plan::Treatment;
use std::fmt;

/// Something that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Where in the document.
    pub place: String,
    /// What is there.
    pub what: String,
    /// What must hold of it.
    pub expected: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", clean(&self.place), clean(&self.what), clean(&self.expected))
    }
}

/// Violations as rules find them.
#[derive(Default)]
struct Found(Vec<Violation>);

impl Found {
    /// A violation, unless something holds.
    fn unless(&mut self, holds: bool, place: impl FnOnce() -> String, what: impl FnOnce() -> String, expected: &str) {
        if !holds {
            self.0.push(Violation { place: place(), what: what(), expected: expected.to_owned() });
        }
    }
}

/// A rule: a function that reports what breaks it.
type Rule = fn(&Document, &mut Found);

/// Rules that follow from the code alone.
const EXACT: &[Rule] =
    &[intervals::check, percentiles::check, units::check, verdicts::check, causes::check, details::check];
/// Rules with a tolerance: of counters that are read one after the other, and of intervals that may miss.
const TOLERANT: &[Rule] = &[amounts::check, parts::check, ratios::check];

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

/// Every violation in what one kind of workload reports, such as the levels of a search.
#[must_use]
pub fn check_detail(place: &str, detail: &serde_json::Value) -> Vec<Violation> {
    let mut found = Found::default();
    details::of(place, detail, &mut found);
    found.0
}

/// "estimate of gups, native with 4k pages"
fn place(document: &Document, kind: &str, what: &str, treatment: &Treatment) -> String {
    format!("{kind} of {what}, {}", Factors::of(&document.run).name(treatment))
}

/// What is lost in the last digits of sums and quotients.
const ROUNDING: f64 = 1e-9;

/// Whether two values are one but for rounding.
fn equal(one: f64, two: f64) -> bool {
    (one - two).abs() <= ROUNDING * one.abs().max(two.abs())
}
