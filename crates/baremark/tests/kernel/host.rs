//! Features of the host as factors: refused unless allowed, set for each trial, undone at the end and after a kill.

use crate::common::bench::{Bench, root, text};
use crate::common::host::{STUDY, SWAPPINESS, command, value};
use crate::common::points::{kill, stopped_at};
use crate::common::schemas::assert_fits;
use crate::common::verify_host::rows_of;
use serde_json::Value;
use std::fs;
use std::process::Stdio;

#[test]
fn a_study_varies_a_feature_of_the_host() {
    if !root() {
        return;
    }
    let (bench, before) = (Bench::new(), value());
    bench.write("swapping.toml", STUDY);
    let refused = command(&bench, &["run", "swapping.toml"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("host.swappiness: this changes the host"), "{}", text(&refused.stderr));
    // What the host does not take is refused before there is a run.
    let beyond = STUDY.replace("host.swappiness", "host.irq_affinity").replace("[11, 12]", "[\"0\", \"99999\"]");
    bench.write("beyond.toml", beyond.replace("= 11", "= \"0\""));
    let refused = command(&bench, &["run", "beyond.toml", "--allow-host-changes"]).output().unwrap();
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("'99999' is not among its values: CPUs "), "{said}");
    let stored = command(&bench, &["history", "--json"]).output().unwrap();
    assert!(!text(&stored.stdout).contains("beyond"), "{}", text(&stored.stdout));

    let lab = |arguments: &[&str], point: &str| {
        let mut lab = command(&bench, arguments);
        stopped_at(lab.stdout(Stdio::null()).stderr(Stdio::null()), point)
    };
    let recovers = |expected: &[&str]| {
        let doctor = command(&bench, &["doctor"]).output().unwrap();
        let said = text(&doctor.stdout);
        let undone = said.contains(&format!("undone: {SWAPPINESS}"));
        assert!(expected.contains(if undone { &"undone" } else { &"as it was" }), "{said}");
        assert_eq!(value(), before);
    };
    // Killed where the first level has been set: it is left, until the next start.
    let mut killed = lab(&["run", "swapping.toml", "--allow-host-changes"], "host-set:1");
    kill(&mut killed);
    assert!(["11", "12"].contains(&value().as_str()), "{}", value());
    recovers(&["undone"]);
    // Killed as it goes from one level to the other, where the first has been undone: the value is the one before the run, and nothing is to be
    // done for it.
    let mut killed = lab(&["resume", "--allow-host-changes"], "host-undone:1");
    assert_eq!(value(), before);
    kill(&mut killed);
    recovers(&["as it was"]);
    // Killed where the other level has been set.
    let mut killed = lab(&["resume", "--allow-host-changes"], "host-set:2");
    kill(&mut killed);
    assert!(["11", "12"].contains(&value().as_str()), "{}", value());
    recovers(&["undone"]);

    let resumed = command(&bench, &["resume", "--allow-host-changes", "--json"]).output().unwrap();
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    assert_eq!(value(), before, "undone at the end");
    let document: Value = serde_json::from_slice(&resumed.stdout).unwrap();
    let ratios = document["ratios"].as_array().unwrap();
    assert_eq!(ratios.len(), 1, "{document:#}");
    assert_eq!(ratios[0]["treatment"]["host.swappiness"], "12");
    // A feature is set for a whole trial: no trial has arms of both levels.
    let trials = document["trials"].as_array().unwrap();
    assert!(trials.iter().all(|trial| trial["arms"].as_array().unwrap().len() == 1), "{document:#}");
}

/// Each feature of the host has a row; what this machine has of them is tried only where that is allowed, and is then as it was.
#[test]
fn features_of_the_host_are_tried_where_that_is_allowed() {
    if fs::write(SWAPPINESS, fs::read(SWAPPINESS).unwrap()).is_err() {
        println!("skipped: verify-host of features: the host cannot be changed");
        return;
    }
    let bench = Bench::new();
    let before = value();
    let arguments = ["verify-host", "--quiet", "--json", "--only", "ssh", "--allow-host-changes"];
    let output = bench.command(&arguments).env("XDG_STATE_HOME", bench.path("state")).output().unwrap();
    let document = assert_fits(&output.stdout, "baremark-verify-host/1");
    assert_eq!(output.status.code(), Some(0), "{document:#}\n{}", text(&output.stderr));
    let rows = rows_of(&document, "host");
    let of = |what: &str| *rows.iter().find(|row| row["what"] == what).expect(what);
    assert_eq!(of("swappiness")["outcome"], "works");
    assert!(of("swappiness")["detail"].as_str().unwrap().ends_with("read back and undone"), "{rows:?}");
    assert!(rows.len() > 15 && rows.iter().all(|row| row["outcome"] != "failed"), "{rows:?}");
    assert!(rows.iter().all(|row| !row["detail"].as_str().unwrap().is_empty()), "{rows:?}");
    assert_eq!(value(), before);
}
