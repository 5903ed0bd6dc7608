//! Guests and containers that work at the same time.

use crate::bench::Bench;
use crate::guests::{compiled, left, metric, study, usable_study};
use crate::trials::{self, accounted};
use serde_json::Value;
use tempfile::TempDir;

/// Checks what two sites of `place` did together: members, their sums, and what they did at the same time.
fn two_sites(document: &Value, place: &str) {
    let all = trials::of(document, place);
    let two = |trial: &&&Value| trial["status"] == "ok" && trial["arms"][0]["treatment"]["count"] == "2";
    let together: Vec<_> = all.iter().filter(two).collect();
    assert!(!together.is_empty(), "{place}: {all:#?}");
    let of = |row: &&Value| row["treatment"]["environment"] == place && row["treatment"]["count"] == "2";
    let fair = document["fairness"].as_array().unwrap().iter().find(of).unwrap_or_else(|| panic!("{document:#}"));
    assert!(
        fair["members"] == 2 && fair["estimate"].as_f64().is_some_and(|index| 0.5 < index && index <= 1.0),
        "{fair}"
    );
    for trial in together {
        let arm = &trial["arms"][0];
        let members = arm["members"].as_array().unwrap();
        assert_eq!(members.len(), 2, "{trial:#}");
        let value = |samples: &Value| {
            let found = samples.as_array().unwrap().iter().find(|sample| sample["metric"] == "simultaneous_mb_per_s");
            found.and_then(|sample| sample["value"].as_f64()).unwrap_or_else(|| panic!("{trial:#}"))
        };
        let sum: f64 = members.iter().map(value).sum();
        let window = value(&arm["medians"]);
        // Medians over phases of what is smaller in each phase.
        assert!(window > 0.0 && window <= 1.5 * sum, "what all did in one window is no more: {window} of {sum}");
        assert!(arm["counters"]["clock_uncertainty_ns"].as_u64() > Some(0), "{trial:#}");
    }
}

/// The same machine as two guests or two containers, then as two guests that together have more vCPUs than it has CPUs.
#[test]
fn guests_and_containers_share_the_work_behind_one_gate() {
    let bench = Bench::new();
    let work = "[workload]\nkind = \"stream\"\narray = \"2 MiB\"\nsmall = true";
    let design = "phase = \"1 s\"\nquads = 1\nleast_blocks = 2\nmost_blocks = 2";
    let factors =
        |places: &str, ranks: usize| format!("environment = {places}\nranks = {ranks}\ncount = [2, 3]\npage = \"4k\"");
    let guest = "memory = \"1 GiB\"\nfresh = \"run\"";
    let both = factors("[\"qemu\", \"container\"]", 2);
    let Some(written) = usable_study(&bench, work, &both, guest, design) else { return };
    let document = bench.json(&["run", &written, "--json"]);
    two_sites(&document, "qemu");
    if !trials::of(&document, "container").is_empty() {
        two_sites(&document, "container");
    }
    let absent = document["absent"].as_array().unwrap();
    let odd = absent.iter().find(|row| row["treatment"]["count"] == "3" && row["treatment"]["environment"] == "qemu");
    assert_eq!(odd.unwrap()["reason"], "a team of 2 cannot be divided over 3 machines");
    let cpus = std::thread::available_parallelism().unwrap().get();
    let many = 2 * cpus.min(4);
    let text = study(&bench, work, &factors("\"qemu\"", many), guest, design);
    let written = bench.write("study.toml", text);
    two_sites(&bench.json(&["run", written.to_str().unwrap(), "--json"]), "qemu");
    assert_eq!(left(&bench), [""; 0]);
}

/// Counts up for a second and says how far it came and when it began, in seconds since 1970.
const COUNTER: &str = r#"
#include <stdio.h>
#include <time.h>
static double now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(void) {
    double begun = now(CLOCK_REALTIME), start = now(CLOCK_MONOTONIC);
    unsigned long count = 0;
    while (now(CLOCK_MONOTONIC) < start + 1.0) count++;
    printf("counted %lu\nbegun %.6f\nalone 1\n", count, begun);
    return 0;
}
"#;

/// Programs as members of an ensemble: each in a place of its own, begun together, their figures joined by the rule of each.
#[test]
fn programs_run_as_members_of_an_ensemble_in_guests_and_containers() {
    let bench = Bench::new();
    let folder = TempDir::new_in("/var/tmp").unwrap();
    let program = compiled(&folder, COUNTER);
    let lower = metric(&"begun").replace("\"higher\"", "\"lower\"");
    let work = format!(
        "[workload]\nkind = \"command\"\ntimeout = \"2 min\"\n[command]\nargv = [\"{{folder}}/count\"]\n\
         [command.bring]\ncount = {program:?}\n{}{lower}{}",
        metric(&"counted"),
        metric(&"alone")
    );
    let factors = "environment = [\"qemu\", \"container\"]\nranks = 2\ncount = [1, 2]";
    let guest = "memory = \"512 MiB\"\nfresh = \"run\"";
    let design = "least_blocks = 2\nmost_blocks = 2";
    let Some(written) = usable_study(&bench, &work, factors, guest, design) else { return };
    let document = bench.json(&["run", &written, "--json"]);
    for place in ["qemu", "container"] {
        let all = trials::of(&document, place);
        if all.is_empty() {
            continue;
        }
        assert!(accounted(&all, 4) > 0, "{all:#?}");
        for trial in all.iter().filter(|trial| trial["arms"][0]["treatment"]["count"] == "2") {
            let arm = &trial["arms"][0];
            let value = |samples: &Value, metric: &str| {
                let found = samples.as_array().unwrap().iter().find(|sample| sample["metric"] == metric);
                found.and_then(|sample| sample["value"].as_f64()).unwrap_or_else(|| panic!("{metric}: {trial:#}"))
            };
            let members = arm["members"].as_array().unwrap();
            assert_eq!(members.len(), 2, "{trial:#}");
            assert_eq!(value(&arm["medians"], "alone"), 2.0, "higher-is-better metrics are summed");
            let begun: Vec<f64> = members.iter().map(|member| value(member, "begun")).collect();
            let mean = (begun[0] + begun[1]) / 2.0;
            assert!((value(&arm["medians"], "begun") - mean).abs() < 0.001, "what is lower is averaged: {trial:#}");
            // Containers share a clock: medians over two phases that both had begun together. Guests have their own.
            assert!(place == "qemu" || (begun[0] - begun[1]).abs() < 5.0, "{begun:?}");
        }
    }
    assert_eq!(left(&bench), [""; 0]);
}
