//! Details of several treatments next to each other.

use crate::text::clean;
use baremark_model::document::DetailRow;

/// The detail of a treatment.
pub(super) struct Reported<'d> {
    pub(super) name: String,
    pub(super) row: &'d DetailRow,
}

/// Lines of treatments, those that are alike with all their names.
pub(super) fn alike<'t>(lines: impl Iterator<Item = (&'t str, &'t str)>) -> Vec<String> {
    let mut known: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, says) in lines.filter(|(_, says)| !says.is_empty()) {
        match known.iter_mut().find(|(same, _)| *same == says) {
            Some((_, names)) => names.push(name),
            None => known.push((says, vec![name])),
        }
    }
    known
        .into_iter()
        .map(|(says, names)| format!("{}: {}.", names.join("; "), clean(says.trim_end_matches('.'))))
        .collect()
}
