//! A cause is named only for an environment that can have it.

use super::violation::{Found, place};
use crate::observed_at::is_a_vm;
use baremark_model::codes::Cause;
use baremark_model::document::Document;

/// Words of what only a place has whose processor is virtual.
const OF_VIRTUAL_PROCESSORS: [&str; 4] =
    ["VM exit", "exits from the microVM", "exits of virtual machines", "guest page fault"];
/// Causes that only such a place has, however they are worded.
const CAUSES: [Cause; 4] = [Cause::Hypervisor, Cause::VmExits, Cause::ProgramInMicrovm, Cause::ExitsOfProgram];

pub(super) fn check(document: &Document, found: &mut Found) {
    for row in &document.explanations {
        let text = [&row.what, &row.advice];
        let word = OF_VIRTUAL_PROCESSORS.iter().find(|word| text.iter().any(|text| text.contains(**word)));
        let cause = row.cause.filter(|cause| CAUSES.contains(cause));
        let holds = (word.is_none() && cause.is_none()) || is_a_vm(document, &row.treatment);
        let at = || place(document, "explanation", &row.what, &row.treatment);
        let what = || match (word, cause) {
            (Some(word), _) => format!("names {word}"),
            (None, cause) => cause.map_or_else(String::new, |cause| format!("is of {cause:?}")),
        };
        found.unless(holds, at, what, "a cause is one that the environment can have");
    }
}
