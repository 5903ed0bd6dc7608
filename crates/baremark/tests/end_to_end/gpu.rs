//! The study `gpu`: rendering and training by programs of a workspace of their own, which `make gpu-programs` builds.

use crate::bench::{Bench, program, text};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The shipped study with little work: one member that draws and one that trains.
fn small() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/gpu.toml");
    let changes = [
        ("gpu_memory = 24            # scaled = 8 unless cpus >= 8", "gpu_memory = 2"),
        ("profile = [8, 4, 2, 1]", "profile = 2"),
        ("profile = 8 ", "profile = 2 "),
        ("frames = 20", "frames = 2"),
        ("detail = 4 ", "detail = 1 "),
        ("digits = 2048", "digits = 384"),
        ("least_blocks = 4", "least_blocks = 4\nmost_blocks = 4"),
    ];
    changes.iter().fold(fs::read_to_string(path).unwrap(), |text, (from, to)| {
        assert!(text.contains(from), "the study has no {from}");
        text.replacen(from, to, 1)
    })
}

/// The program whose folder has `baremark-gpu`; counted as skipped where that was not built.
fn with_members() -> Option<PathBuf> {
    let built = PathBuf::from(env!("CARGO_BIN_EXE_baremark"));
    if built.with_file_name("baremark-gpu").exists() {
        return Some(built);
    }
    println!("skipped: study gpu: baremark-gpu is not built; `make gpu-programs` builds it");
    None
}

/// Whether there is a Vulkan driver, be it of software.
fn has_driver(built: &Path) -> bool {
    let ran = Command::new(built.with_file_name("baremark-gpu")).arg("device").output().unwrap();
    if !ran.status.success() {
        println!("skipped: study gpu with Vulkan: {}", text(&ran.stderr).trim_end());
    }
    ran.status.success()
}

#[test]
fn both_kinds_are_timed_together_and_in_turn() {
    let Some(built) = with_members().filter(|built| has_driver(built)) else { return };
    let bench = Bench::busy();
    bench.write("study.toml", small());
    let ran = bench.command_of(&built, &["--json", "run", "study.toml"]).output().unwrap();
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let document: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let rows = |key: &str| document[key].as_array().unwrap().clone();
    for device in ["vulkan", "none"] {
        for metric in ["total_s", "render_s", "train_s"] {
            let of = |row: &&Value| row["metric"] == metric && row["treatment"]["device"] == device;
            let values = rows("estimates");
            let values: Vec<&Value> = values.iter().filter(of).collect();
            assert_eq!(values.len(), 2, "{device} {metric}: {values:?}");
            assert!(values.iter().all(|row| row["estimate"].as_f64().unwrap() > 0.0), "{values:?}");
            let ratios = rows("ratios");
            let ratio = ratios.iter().find(|row| of(row) && row["contrast"] == "factor").unwrap();
            assert_eq!(
                (&ratio["treatment"]["mode"], &ratio["relative_to"]["mode"]),
                (&"together".into(), &"sequential".into())
            );
            assert!(ratio["lo"].as_f64() > Some(0.0) && ratio["hi"].as_f64() >= ratio["lo"].as_f64(), "{ratio}");
        }
    }
    let report = bench.command_of(&built, &["report", "--details"]).env("COLUMNS", "200").output().unwrap();
    let report = text(&report.stdout);
    for part in ["M60-2Q", "machine learning", "Members are processes", "published < 1.150", "published < 1.000"] {
        assert!(report.contains(part), "{part} is missing: {report}");
    }
}

/// Without the programs the study says how to build them; one that stands in the folder of baremark is found there.
#[test]
fn members_are_found_next_to_baremark_or_their_build_is_named() {
    let bench = Bench::new();
    let own = bench.path("baremark");
    fs::copy(program(), &own).unwrap();
    bench.write("study.toml", small());
    let ran = bench.command_of(&own, &["run", "study.toml"]).output().unwrap();
    let said = text(&ran.stderr) + &text(&ran.stdout);
    assert!(!ran.status.success(), "{said}");
    assert!(
        said.contains("program baremark-gpu not found at site; build it") && said.contains("make gpu-programs"),
        "{said}"
    );

    let members = bench.write(
        "baremark-gpu",
        "#!/bin/sh\necho '{\"total_s\": 2, \"render_s\": 1, \"train_s\": 1, \"overlap_percent\": 0, \"gpus\": 0}'\n",
    );
    fs::set_permissions(&members, fs::Permissions::from_mode(0o755)).unwrap();
    let ran = bench.command_of(&own, &["--json", "run", "study.toml"]).output().unwrap();
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let document: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let totals = document["estimates"].as_array().unwrap().iter().filter(|row| row["metric"] == "total_s");
    assert!(totals.clone().count() == 4 && totals.clone().all(|row| row["estimate"] == 2.0), "{document:#}");
    // What is not there, such as the utilization of a GPU, is not a metric of the run.
    assert!(document["estimates"].as_array().unwrap().iter().all(|row| row["metric"] != "gpu_percent"));
}
