//! Members of the study `gpu`, which a script plays.

use crate::bench::{Bench, program, text};
use crate::gpu::small;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

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
