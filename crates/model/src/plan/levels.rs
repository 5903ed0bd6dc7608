//! What the levels of one treatment say, by their keys.

use crate::arm::{ExecutorKind, Frames};
use crate::command;
use crate::descriptor::Descriptor;
use crate::environments;
use crate::knob::Knob;
use crate::page_size::PageSize;
use crate::placement::{MemoryPolicy, Placement};
use crate::study::Chosen;
use crate::tables;
use crate::value::Value;
use std::collections::BTreeMap;

/// Why a feature of the host is refused for an environment whose host is another machine.
#[must_use]
pub fn set_elsewhere(key: &str, environment: &str) -> String {
    format!(
        "{key} is set on this machine, and '{environment}' runs on another; run the study on that machine with environment = \"native\", or \
         leave {key} out"
    )
}

/// The environment.
pub(super) fn environment_of(levels: &BTreeMap<String, Value>) -> &str {
    match levels.get(environments::FACTOR) {
        Some(Value::Choice(environment)) => environment,
        _ => environments::NATIVE,
    }
}

/// The levels of a treatment, and under them what is held for its workload.
pub(super) fn with_held(chosen: &Chosen, levels: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    chosen.held.iter().chain(levels).map(|(key, level)| (key.clone(), level.clone())).collect()
}

/// The application's pages.
pub(super) fn page_of(levels: &BTreeMap<String, Value>) -> PageSize {
    match levels.get("page").cloned().or_else(|| crate::study::default_of(tables::FACTORS, "page")) {
        Some(Value::Page(page)) => page,
        _ => PageSize::Small,
    }
}

/// The pages of a virtual machine's memory on this machine; `None` where there is none. A program in the microVM has memory of its own, whose
/// backing is its own choice where the study makes none.
pub(super) fn host_backing(chosen: &Chosen, levels: &BTreeMap<String, Value>) -> Option<PageSize> {
    let is_inside = environments::executor_of(environment_of(levels)) == ExecutorKind::Microvm;
    match levels.get("host_backing") {
        Some(Value::Page(backing)) => is_inside.then_some(*backing),
        _ => (is_inside && chosen.descriptor.kind != command::KIND).then(|| page_of(levels)),
    }
}

pub(super) fn frames_of(levels: &BTreeMap<String, Value>) -> Frames {
    match levels.get("page_frames") {
        Some(Value::Choice(word)) => Frames::from_word(word).unwrap_or_default(),
        _ => Frames::AsGiven,
    }
}

/// Where a treatment's ranks and memory are put.
pub(super) fn placed(levels: &BTreeMap<String, Value>) -> (Placement, MemoryPolicy) {
    let word = |key: &str| match levels.get(key) {
        Some(Value::Choice(word)) => word.as_str(),
        _ => "",
    };
    let placement = Placement::from_word(word("placement")).unwrap_or_default();
    (placement, MemoryPolicy::from_word(word("memory")).unwrap_or_default())
}

/// Machines among which a treatment is divided.
pub(super) fn count_of(levels: &BTreeMap<String, Value>) -> usize {
    match levels.get("count") {
        Some(Value::Count(count)) => usize::try_from(*count).unwrap_or(usize::MAX).max(1),
        _ => 1,
    }
}

pub(super) fn quick_value(workload: &Descriptor, knob: &Knob) -> Option<Value> {
    let (_, typed) = workload.quick.iter().find(|(key, _)| *key == knob.key)?;
    knob.read_text(typed).ok()
}

/// Whether what the study says is already less than what `--quick` would take.
pub(super) fn is_smaller(said: &Value, quick: &Value) -> bool {
    match (said, quick) {
        (Value::Count(said), Value::Count(quick)) => said < quick,
        (Value::SizeBytes(said), Value::SizeBytes(quick)) => said < quick,
        (Value::TimeNs(said), Value::TimeNs(quick)) => said < quick,
        _ => false,
    }
}
