//! `baremark ab` finds a program that takes longer.

use crate::common::bench::{Bench, text, unbroken};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A static program that counts to a number of millions.
fn counting(bench: &Bench) -> PathBuf {
    let source = "#include <stdlib.h>\nint main(int n, char **w) { volatile long i = 0; long m = 1000000 * atol(w[1]);\n\
                  while (i < m) i++; return 0; }\n";
    let (from, to) = (bench.write("count.c", source), bench.path("count"));
    let built = Command::new("cc").args(["-O1", "-static", "-o"]).arg(&to).arg(from).status().unwrap();
    assert!(built.success());
    to
}

#[test]
fn a_program_that_takes_several_times_as_long_is_found_and_fails_the_gate() {
    let bench = Bench::new();
    counting(&bench);
    let arguments =
        ["ab", "-n", "one=./count 5", "two=./count 20", "--budget", "20s", "--precision", "20", "--fail-above", "25%"];
    let ran = bench.run(&arguments);
    let out = unbroken(&ran.stdout);
    assert_eq!(ran.status.code(), Some(4), "{out}{}", text(&ran.stderr));
    assert!(out.contains("two / one = ") && out.contains("two takes ") && out.contains("FAIL: worse by more"), "{out}");
    let document = bench.json(&["--json", "report"]);
    let row = &document["ratios"][0];
    // Four, and less where starting a program takes its time.
    assert!((1.5..5.0).contains(&row["ratio"].as_f64().unwrap()), "{row:#}");
    let user = document["ratios"].as_array().unwrap().iter().find(|row| row["metric"] == "user_s").unwrap();
    assert!(user["lo"].as_f64().unwrap() > 1.2, "CPU time in user mode is why: {user:#}");
    assert!(document["run"]["file"].as_str().unwrap().starts_with("baremark "), "what runs it again");
}

/// One round of a kind of `scripts/soak-ab` with these options: the ends of its interval (0 without one), and whether its goal was reached.
fn round(kind: &str, options: &[&str]) -> Option<([f64; 2], bool)> {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: no python3");
        return None;
    }
    let bench = Bench::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/soak-ab");
    let mut command = Command::new("python3");
    command
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_baremark"))
        .arg(bench.path("rounds"))
        .args(["--rounds", "1"])
        .args(options);
    let ran = command.arg(kind).output().unwrap();
    let out = text(&ran.stdout);
    let line = out.lines().find(|line| line.starts_with(&format!("{kind} ")));
    let line = line.unwrap_or_else(|| panic!("no line of {kind}: {out}{}", text(&ran.stderr)));
    let words: Vec<&str> = line.split_whitespace().skip(2).collect();
    println!("measured: blocks, time, half-width: {}", words.join(" "));
    let rounds = std::fs::read_to_string(bench.path("rounds").join("rounds.jsonl")).unwrap();
    let found: Value = serde_json::from_str(rounds.lines().last().unwrap()).unwrap();
    Some(([1, 2].map(|at| found[2][at].as_f64().unwrap()), ran.status.success()))
}

#[test]
fn a_program_beside_itself_does_not_differ_in_20_s() {
    println!("bound: 0.95");
    let Some(([lo, hi], _)) = round("count", &["--budget", "20"]) else { return };
    assert!(0.0 < lo && lo <= 1.0 && 1.0 <= hi, "{lo} to {hi}");
}

#[test]
fn one_percent_more_work_is_found_in_30_s() {
    let Some((interval, good)) = round("plus-1-found", &[]) else { return };
    assert!(good, "{interval:?}");
}

#[test]
fn a_program_at_the_same_time_as_itself_does_not_differ_by_cpu_time_in_20_s() {
    println!("bound: 0.95");
    let Some(([lo, hi], _)) = round("count-duet", &["--budget", "20"]) else { return };
    assert!(0.0 < lo && lo <= 1.0 && 1.0 <= hi, "{lo} to {hi}");
}

#[test]
fn one_percent_more_work_is_found_in_10_s_by_cpu_time_of_both_at_once() {
    let Some((interval, good)) = round("duet-1", &[]) else { return };
    assert!(good, "{interval:?}");
}

#[test]
fn three_percent_more_work_is_found_in_60_s_beside_busy_loops_by_cpu_time() {
    let Some((interval, good)) = round("busy-3", &[]) else { return };
    assert!(good, "{interval:?}");
}
