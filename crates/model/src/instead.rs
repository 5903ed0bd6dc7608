//! Environments that are used only where another one cannot run.
//!
//! A study compares native with what this machine lets it start: with a virtual machine where there is KVM, else with a sandbox. It names
//! both, and `instead_of` in `[environments.NAME]` says of the second that the first replaces it.

use crate::environments;
use crate::problem::Problem;
use crate::study::Study;
use crate::value::Value;
use std::collections::BTreeMap;

/// The study on a machine that lacks `absent`: without the environments in whose place another one runs.
#[must_use]
pub fn on_machine(study: &Study, absent: &BTreeMap<String, String>) -> Study {
    let mut study = study.clone();
    let taken = taken(&study, absent);
    for factor in study.factors.iter_mut().filter(|factor| factor.key == environments::FACTOR) {
        factor.levels.retain(|level| taken.contains(&level.to_string()));
    }
    study
}

/// The environments that a study takes on a machine that lacks `absent`, in the study's order. Those that it takes and the machine
/// lacks stay in the plan as absent, with their reason.
#[must_use]
pub fn taken(study: &Study, absent: &BTreeMap<String, String>) -> Vec<String> {
    let levels = levels(study);
    let replaced = |name: &String| {
        replaces(study, name).is_some_and(|first| levels.contains(&first) && !absent.contains_key(&first))
    };
    levels.iter().filter(|name| !replaced(name)).cloned().collect()
}

/// The environment without which alone `name` is used; `None` where it is always used.
#[must_use]
pub fn replaces(study: &Study, name: &str) -> Option<String> {
    match study.environments.get(name)?.get(environments::INSTEAD_OF.key)? {
        Value::Text(first) => Some(first.clone()),
        _ => None,
    }
}

/// Environments that are used instead of one that the study does not have.
#[must_use]
pub fn problems(study: &Study) -> Vec<Problem> {
    let levels = levels(study);
    let wrong = |name: &String| {
        let first = replaces(study, name).filter(|first| !levels.contains(first) || first == name)?;
        let what = format!("instead_of = '{first}' in [environments.{name}] names no other environment of this study");
        let line = study.line(&format!("environments.{name}"));
        Some(Problem::new(line, what, "name one of the levels of environment, such as microvm"))
    };
    levels.iter().filter_map(wrong).collect()
}

fn levels(study: &Study) -> Vec<String> {
    let of = study.factors.iter().filter(|factor| factor.key == environments::FACTOR).flat_map(|factor| &factor.levels);
    of.map(ToString::to_string).collect()
}
