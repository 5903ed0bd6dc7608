//! Keys of sections by their names: where an unknown one would be right, and what one of an earlier version is called today.

use crate::config::Entry;
use crate::former;
use crate::knob::Knob;
use crate::problem::nearest;
use crate::tables;

/// The notice of a key that has another name today.
pub(super) fn renamed(file: &str, section: &str, line: usize, typed: &str, key: &str) -> Option<String> {
    (typed != key).then(|| former::notice(&format!("{file}:{line}"), section, typed, key))
}

/// The knob of `key` in a section of workloads of these kinds, or of none: by its name, or by the name that it had in an earlier version.
pub(super) fn find<'k>(knobs: impl IntoIterator<Item = &'k Knob>, kinds: &[&str], key: &str) -> Option<&'k Knob> {
    let now = former::now(kinds, key);
    let mut found = None;
    for knob in knobs {
        if knob.key == key {
            return Some(knob);
        }
        found = found.or(Some(knob).filter(|knob| Some(knob.key) == now));
    }
    found
}

/// Keys that are in a section and in no table, because they are not single values.
pub(super) fn beside(section: &str) -> Option<&'static str> {
    match section {
        "workload" => Some("kind"),
        "report" => Some("ratio_to"),
        _ => None,
    }
}

/// The section in which `key` would be right, else the nearest of `keys`.
pub(super) fn place_of(key: &str, keys: &[&str]) -> String {
    let tables = [
        ("study", tables::STUDY),
        ("workload", &[]),
        ("factors", tables::FACTORS),
        ("observe", crate::observer::OBSERVE),
        ("design", tables::DESIGN),
        ("report", tables::REPORT),
    ];
    let has = |section: &str, knobs: &[Knob]| knobs.iter().any(|knob| knob.key == key) || beside(section) == Some(key);
    match tables.iter().find(|(section, knobs)| has(section, knobs)) {
        Some((section, _)) => format!("it belongs in [{section}]"),
        None => nearest(key, keys),
    }
}

/// The factor that is meant by a name that is none of these.
pub(super) fn factor_like(name: &str, factors: &[&str]) -> String {
    match factors.is_empty() {
        true => format!("the study varies nothing; write {name} in [factors]"),
        false => nearest(name, factors),
    }
}

/// The line of `key` among `entries`; 0 where it is not.
pub(super) fn line_in(entries: &[Entry<'_>], key: &str) -> usize {
    entries.iter().find(|(name, ..)| *name == key).map_or(0, |(_, line, _)| *line)
}
