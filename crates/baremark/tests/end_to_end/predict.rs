//! Predictions on the command line: of studies, of programs, from shared distances; and what is refused.

use crate::bench::{Bench, SMALL, text};
use std::process::Command;

fn refused(bench: &Bench, arguments: &[&str], code: i32) -> String {
    let output = bench.run(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed {}", text(&output.stdout));
    message
}

#[test]
fn a_study_is_predicted_for_a_named_machine() {
    let bench = Bench::new();
    bench.write("small.toml", SMALL);
    let output = bench.run(&["--json", "predict", "small.toml", "--machine", "nehalem-x5570"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells = document["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 10, "native, nested and shadow by page sizes");
    for cell in cells {
        let ratio = &cell["relative_run_time"];
        let [low, median, high] = ["low", "median", "high"].map(|key| ratio[key].as_f64().unwrap());
        assert!(0.5 < low && low <= median && median <= high && high < 10.0, "{cell}");
    }
    assert!(!bench.store().exists(), "a prediction is no run");
}

#[test]
fn what_cannot_be_predicted_is_refused_with_a_remedy() {
    let bench = Bench::new();
    bench.write("small.toml", SMALL);
    bench.write("fma.toml", SMALL.replace("random-access", "fma").replace("table = \"8 MiB\"", ""));
    bench.write("odd.txt", "once upon a time\n");
    let unknown = refused(&bench, &["predict", "small.toml", "--machine", "zen-44"], 2);
    assert!(unknown.contains("'zen-44' is not known; did you mean 'zen-4'?"), "{unknown}");
    let fma = refused(&bench, &["predict", "fma.toml", "--machine", "zen-4"], 2);
    assert!(fma.contains("no addresses are known of the workload 'fma'"), "{fma}");
    let odd = refused(&bench, &["predict", "--distances", "odd.txt", "--machine", "zen-4"], 2);
    assert!(odd.contains("odd.txt: line 1: 'once upon a time'"), "{odd}");
    refused(&bench, &["predict"], 2);
    refused(&bench, &["predict", "small.toml", "--validate"], 2);
}

#[test]
fn a_program_is_traced_and_its_distances_say_the_same() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: tracing a program: valgrind is not installed");
        return;
    }
    let bench = Bench::new();
    let traced =
        ["predict", "--machine", "nehalem-x5570", "--save-distances", "d.txt", "--", "/bin/echo", "its own words"];
    let output = bench.run(&traced);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("its own words"), "the program's output is not the prediction's");
    assert!(text(&output.stdout).contains("make no clear difference"), "{}", text(&output.stdout));
    let shared = bench.run(&["predict", "--machine", "nehalem-x5570", "--distances", "d.txt"]);
    assert_eq!(shared.status.code(), Some(0), "{}", text(&shared.stderr));
    let failed = refused(&bench, &["predict", "--machine", "zen-4", "--", "/bin/false"], 2);
    assert!(failed.contains("/bin/false ended with exit status 1 under the tracer"), "{failed}");
    let missing = refused(&bench, &["predict", "--machine", "zen-4", "--", "no-such-program"], 2);
    assert!(missing.contains("could not be run under valgrind"), "{missing}");
}
