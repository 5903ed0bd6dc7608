//! The study `gpu`: rendering and training by programs of a workspace of their own, which `make gpu-programs` builds.

use crate::bench::{Bench, text};
use crate::gpu::small;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let bench = Bench::new();
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
