//! Details of several treatments next to each other.

use crate::text::clean;
use baremark_model::distinct::grouped;
use baremark_model::document::DetailRow;

/// The detail of a treatment.
pub(super) struct Reported<'d> {
    pub(super) name: String,
    pub(super) row: &'d DetailRow,
}

/// Lines of treatments, those that are alike with all their names.
pub(super) fn alike<'t>(lines: impl Iterator<Item = (&'t str, &'t str)>) -> Vec<String> {
    let said = lines.filter(|(_, says)| !says.is_empty()).map(|(name, says)| (says, name));
    grouped(said)
        .into_iter()
        .map(|(says, names)| format!("{}: {}.", names.join("; "), clean(says.trim_end_matches('.'))))
        .collect()
}
