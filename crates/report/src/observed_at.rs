//! Where a treatment was observed: on the machine that carries the work, and inside.

use baremark_model::document::Document;
use baremark_model::environments;
use baremark_model::observation::{ObservedRow, THIS_MACHINE};
use baremark_model::plan::Treatment;

/// Where the machine that carries the work was observed.
pub(crate) fn host_of<'d>(document: &Document, treatment: &'d Treatment) -> &'d str {
    let is_here = document.run.can_of(treatment).on_these_processors();
    if is_here { THIS_MACHINE } else { environments::of(treatment) }
}

/// Whether a treatment's environment is a virtual machine.
pub(crate) fn is_a_vm(document: &Document, treatment: &Treatment) -> bool {
    document.run.can_of(treatment).virtual_machine
}

/// Whether a row is of a place, or of one of several members' places there.
pub(crate) fn is_at(row: &ObservedRow, place: &str) -> bool {
    row.place.strip_prefix(place).is_some_and(|member| member.is_empty() || member.starts_with(", "))
}
