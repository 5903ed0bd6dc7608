//! The tables that everything else is generated from.

use crate::specimen::WORKLOADS;
use baremark_model::environments;
use baremark_model::knob::{Default, Knob};
use baremark_model::study::{default_of, defaults_are_sound};
use baremark_model::tables;
use std::collections::BTreeSet;

fn every_table() -> Vec<(&'static str, &'static [Knob])> {
    let shared = [
        ("study", tables::STUDY),
        ("factors", tables::FACTORS),
        ("design", tables::DESIGN),
        ("report", tables::REPORT),
    ];
    shared.into_iter().chain(WORKLOADS.iter().map(|workload| (workload.kind, workload.parameters))).collect()
}

#[test]
fn every_typed_default_is_a_value_of_its_own_row() {
    for (table, knobs) in every_table() {
        assert!(defaults_are_sound(knobs), "[{table}]");
        for knob in knobs {
            if let Default::Typed(text) = knob.default {
                let value =
                    default_of(knobs, knob.key).unwrap_or_else(|| panic!("{} = {text} cannot be read", knob.key));
                assert_eq!(value.to_string(), text, "a default is typed as it is shown");
            }
        }
    }
}

#[test]
fn no_key_stands_twice_where_one_study_could_mean_either() {
    for (table, knobs) in every_table() {
        let keys: BTreeSet<_> = knobs.iter().map(|knob| knob.key).collect();
        assert_eq!(keys.len(), knobs.len(), "[{table}]");
    }
    for workload in WORKLOADS {
        let clash = workload.parameters.iter().find(|own| tables::FACTORS.iter().any(|factor| factor.key == own.key));
        assert_eq!(clash, None, "{}: a parameter hides a factor", workload.kind);
    }
}

#[test]
fn every_help_is_one_fragment_that_starts_small_and_ends_without_a_stop() {
    let mut helps: Vec<(&str, &str)> = Vec::new();
    for (_, knobs) in every_table() {
        helps.extend(knobs.iter().map(|knob| (knob.key, knob.help)));
        helps.extend(knobs.iter().filter_map(|knob| match knob.default {
            Default::Derived(text) => Some((knob.key, text)),
            _ => None,
        }));
    }
    for workload in WORKLOADS {
        helps.push((workload.kind, workload.help));
        helps.extend(workload.metrics.iter().map(|metric| (metric.key, metric.help)));
    }
    for kind in environments::ALL {
        assert!(kind.settings.iter().all(|setting| !setting.help.is_empty()), "{}", kind.name);
    }
    for (key, help) in helps {
        assert!(help.starts_with(|c: char| c.is_lowercase() || c.is_ascii_digit()), "{key}: {help:?} starts large");
        assert!(!help.ends_with(['.', ' ']) && !help.contains('\n') && !help.contains(". "), "{key}: {help:?}");
    }
}

#[test]
fn what_a_knob_takes_names_its_own_range() {
    let takes: Vec<String> =
        WORKLOADS[0].parameters.iter().map(|knob| format!("{}: {}", knob.key, knob.takes())).collect();
    insta::assert_snapshot!(takes.join("\n"));
}

#[test]
fn the_example_of_what_a_knob_takes_is_in_its_range() {
    for (table, knobs) in every_table() {
        for knob in knobs {
            let takes = knob.takes();
            let Some((_, example)) = takes.split_once("such as ") else { continue };
            assert!(knob.read_text(example.trim_matches('"')).is_ok(), "[{table}] {}: {takes}", knob.key);
        }
    }
}
