//! Where a treatment was observed: on the machine that carries the work, and inside.

use crate::treatment::ENVIRONMENT;
use baremark_model::document::Document;
use baremark_model::environments;
use baremark_model::observation::{ObservedRow, THIS_MACHINE};
use baremark_model::plan::Treatment;

/// The environment of a treatment, by its name in the study.
pub(crate) fn environment(treatment: &Treatment) -> &str {
    treatment.get(ENVIRONMENT).map_or("native", String::as_str)
}

/// Which place it is that a study may have a name of its own for.
pub(crate) fn kind<'d>(document: &'d Document, treatment: &'d Treatment) -> &'d str {
    document.run.place_of(environment(treatment))
}

/// Where the machine that carries the work was observed.
pub(crate) fn host_of<'d>(document: &'d Document, treatment: &'d Treatment) -> &'d str {
    let is_here = environments::can(kind(document, treatment)).on_these_processors();
    if is_here { THIS_MACHINE } else { environment(treatment) }
}

/// Whether a treatment's environment is a virtual machine.
pub(crate) fn is_a_vm(document: &Document, treatment: &Treatment) -> bool {
    environments::can(kind(document, treatment)).virtual_machine
}

/// Whether a row is of a place, or of one of several members' places there.
pub(crate) fn is_at(row: &ObservedRow, place: &str) -> bool {
    row.place.strip_prefix(place).is_some_and(|member| member.is_empty() || member.starts_with(", "))
}
