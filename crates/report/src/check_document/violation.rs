//! What rules report, and what they have in common.

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
pub(super) struct Found(pub(super) Vec<Violation>);

impl Found {
    /// A violation, unless something holds.
    pub(super) fn unless(
        &mut self,
        holds: bool,
        place: impl FnOnce() -> String,
        what: impl FnOnce() -> String,
        expected: &str,
    ) {
        if !holds {
            self.0.push(Violation { place: place(), what: what(), expected: expected.to_owned() });
        }
    }
}

/// "estimate of gups, native with 4k pages"
pub(super) fn place(document: &Document, kind: &str, what: &str, treatment: &Treatment) -> String {
    format!("{kind} of {what}, {}", Factors::of(&document.run).name(treatment))
}

/// What is lost in the last digits of sums and quotients.
pub(super) const ROUNDING: f64 = 1e-9;

/// Whether two values are one but for rounding.
pub(super) fn equal(one: f64, two: f64) -> bool {
    (one - two).abs() <= ROUNDING * one.abs().max(two.abs())
}
