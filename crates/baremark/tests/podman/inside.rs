//! This program as a user in a container has it: with podman's default rights, which are no KVM, a filter of system calls and control groups that
//! cannot be written.

use crate::common::bench::{Bench, program, text, unbroken};
use crate::common::containers::{Image, containers};
use crate::common::outcome::{rows, sound};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const PODMAN: &str = "podman";
/// Options without which podman starts nothing on a machine, tried in turn: limits that it may hand on, and a runtime that there is. None of them
/// adds a right.
const WAYS: [&[&str]; 4] = [
    &[],
    &["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"],
    &["--runtime", "runc"],
    &["--runtime", "runc", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"],
];

/// What podman prints of this program in a container that has nothing else.
fn in_container(image: &Image, way: &[&str], arguments: &[&str]) -> Output {
    let mut command = Command::new(PODMAN);
    command.args(["run", "--rm", "--log-driver=none", "--network=none"]).args(way).arg(&image.name);
    command.args(["/baremark", "--store", "/tmp/baremark.db"]).args(arguments).output().unwrap()
}

#[test]
fn the_standard_study_answers_in_a_container_of_default_rights() {
    if containers().is_none() {
        return;
    }
    let bench = Bench::new();
    let root = bench.path("root");
    for folder in ["proc", "sys", "dev", "tmp", "run", "etc"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::copy(program(), root.join("baremark")).unwrap();
    let image = Image::of(&root, Path::new(PODMAN));
    let starts = |way: &&[&str]| in_container(&image, way, &["--version"]).status.success();
    let Some(way) = WAYS.into_iter().find(|way| starts(way)) else {
        panic!("podman starts no container of an image: {}", text(&in_container(&image, &[], &["--version"]).stderr));
    };

    let ran = in_container(&image, way, &["run", "standard", "--quick", "--json"]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{said}");
    let document: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    sound(&document);
    let is_of = |treatment: &Value, environment: &str| treatment["environment"] == environment;
    let answered = rows(&document, "ratios").iter().filter(|row| {
        let pair = is_of(&row["treatment"], "sandbox") && is_of(&row["relative_to"], "native");
        pair && row["ratio"].is_number()
    });
    // On a machine that other programs disturb, no trial of one side may count: then each is void, since that side was not idle in the other's turns.
    let was_not_idle = |reason: &Value| {
        reason.as_str().is_some_and(|why| why.contains(" % of a CPU while the other side had its turns"))
    };
    let is_disturbed = |environment: &str| {
        let is_in = |trial: &&Value| rows(trial, "arms").iter().any(|arm| is_of(&arm["treatment"], environment));
        let mut trials = rows(&document, "trials").iter().filter(is_in).peekable();
        let is_so = |trial: &Value| trial["status"] == "void" && rows(trial, "reasons").iter().all(was_not_idle);
        trials.peek().is_some() && trials.all(is_so)
    };
    assert!(answered.count() > 0 || is_disturbed("sandbox") || is_disturbed("native"), "{document:#}");
    let failed = rows(&document, "trials").iter().find(|trial| trial["status"] == "failed");
    assert_eq!(failed, None, "{said}");
    let machines: Vec<&Value> =
        rows(&document, "absent").iter().filter(|row| is_of(&row["treatment"], "microvm")).collect();
    let without_kvm = |row: &&Value| row["reason"].as_str().is_some_and(|why| why.contains("/dev/kvm"));
    assert!(!machines.is_empty() && machines.iter().all(without_kvm), "{machines:#?}");

    let doctor = unbroken(&in_container(&image, way, &["doctor"]).stdout);
    assert!(doctor.contains("native is this container"), "{doctor}");
    assert!(doctor.contains("pass the device in with --device /dev/kvm"), "{doctor}");
}
