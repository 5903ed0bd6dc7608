//! Studies with guests in QEMU.

use super::bench::{Bench, unbroken};
use super::qemu::fetched;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A study of `work` whose emulated guests have the settings `guest`, with a kernel by which they are known.
pub fn study(bench: &Bench, work: &str, factors: &str, guest: &str, design: &str) -> String {
    let kernel = bench.path("kernel");
    if !kernel.exists() {
        std::os::unix::fs::symlink(fetched(), &kernel).unwrap();
    }
    format!(
        "[study]\ntitle = \"guests\"\n{work}\n[factors]\n{factors}\n[environments.qemu]\nkernel = {:?}\naccel = \"tcg\"\n\
         {guest}\n[design]\nbudget = \"8 min\"\nprecision = \"20 %\"\n{design}\n",
        kernel
    )
}

/// The same in a file, where its places can be used.
pub fn usable_study(bench: &Bench, work: &str, factors: &str, guest: &str, design: &str) -> Option<String> {
    let written = bench.write("study.toml", study(bench, work, factors, guest, design));
    let written = written.to_str().unwrap().to_owned();
    can_run(bench, &written).then_some(written)
}

/// A metric of a command that prints its key and a number.
pub fn metric(key: &&str) -> String {
    format!("[command.metrics.{key}]\nunit = \"1\"\nbetter = \"higher\"\nregex = '{key} (?<value>[0-9.]+)'\n")
}

pub const FOUR_BLOCKS: &str = "least_blocks = 4\nmost_blocks = 4";

/// Whether the places can be used; what is missing is reported.
pub fn can_run(bench: &Bench, study: &str) -> bool {
    let planned = bench.run(&["plan", study]);
    let absent = unbroken(&[planned.stdout, planned.stderr].concat());
    let missing = ["qemu-system-x86_64 does not run", "cannot be read", "needs virtiofsd", "needs the superuser"]
        .iter()
        .find(|what| absent.contains(**what));
    if let Some(what) = missing {
        assert!(std::env::var_os("BAREMARK_REQUIRE_ENVIRONMENTS").is_none(), "guests are demanded: {absent}");
        eprintln!("skipped: a study of guests: {what}");
    }
    missing.is_none()
}

pub fn estimate(document: &Value, metric: &str, treatment: &[(&str, &str)]) -> Option<f64> {
    let rows = document["estimates"].as_array().unwrap();
    let of =
        |row: &&Value| row["metric"] == metric && treatment.iter().all(|(key, level)| row["treatment"][key] == *level);
    rows.iter().find(of)?["estimate"].as_f64()
}

/// The processes whose command line names something in this bench's folder: its guests, by their kernel.
pub fn left(bench: &Bench) -> Vec<String> {
    let folder = bench.folder.path().to_str().unwrap();
    let listed = fs::read_dir("/proc").unwrap().flatten();
    let lines = listed.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(folder)).map(|line| line.replace('\0', " ")).collect()
}

/// A static program of this text.
pub fn compiled(folder: &TempDir, source: &str) -> PathBuf {
    let (text, program) = (folder.path().join("program.c"), folder.path().join("program"));
    fs::write(&text, source).unwrap();
    let made = Command::new("cc").args(["-static", "-w", "-o"]).arg(&program).arg(text).status().unwrap();
    assert!(made.success());
    program
}
