//! `baremark ab` finds a program that takes longer.

use crate::common::bench::{Bench, text, unbroken};
use std::path::PathBuf;
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
