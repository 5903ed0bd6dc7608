//! A finished run is given more: its blocks go on, its intervals become honest about it, and what cannot be extended says why.

use crate::common::bench::{Bench, text};
use crate::common::outcome::{rows, sound};
use serde_json::Value;

/// Two programs whose figures differ from run to run, in a study that its number of blocks ends: no precision is reached before.
fn study(bench: &Bench, design: &str) -> String {
    // Called again and again, it gives 100, 101, 102, 100 ...
    let count = bench.path("count");
    let script = format!(
        "n=$(cat {0} 2>/dev/null || echo 0); echo $((n + 1)) > {0}; echo rate $((100 + n % 3))",
        count.display()
    );
    let arguments = [
        "ab",
        "--shell",
        "--by",
        "rate",
        "-m",
        "rate=rate ([0-9]+)",
        &script,
        &format!("{script}; true"),
        "--print-study",
    ];
    let written = bench.run(&arguments);
    assert!(written.status.success(), "{}", text(&written.stderr));
    let written = text(&written.stdout);
    let (head, rest) = written.split_once("[design]\n").unwrap();
    let (_, report) = rest.split_once("[report]\n").unwrap();
    format!("{head}[design]\n{design}\n[report]\n{report}")
}

const FOUR: &str = "precision = \"0.02 %\"\ndelta = \"40 %\"\nbudget = \"24 h\"\nphase = \"1 ms\"\nquads = 1\nleast_blocks = 4\nmost_blocks = 4";

fn refused(bench: &Bench, arguments: &[&str]) -> String {
    let output = bench.run(&[&["resume"], arguments].concat());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    said
}

fn blocks(document: &Value) -> u64 {
    rows(document, "ratios")[0]["blocks"].as_u64().unwrap()
}

#[test]
fn a_finished_run_is_extended_to_a_precision_and_says_what_that_costs() {
    let bench = Bench::new();
    bench.write("study.toml", study(&bench, FOUR));
    let first = bench.json(&["run", "study.toml", "--json"]);
    sound(&first);
    let confidence = |document: &Value| rows(document, "ratios")[0]["confidence"].as_f64().unwrap();
    assert_eq!((blocks(&first), confidence(&first)), (4, 0.95), "{first:#}");
    assert!(text(&bench.run(&["resume"]).stderr).contains("finished"), "without more there is nothing to resume");

    // Four blocks are within 20 %, and two more confirm it.
    let extended = bench.json(&["resume", "--precision", "20", "--json"]);
    sound(&extended);
    assert_eq!(extended["run"]["id"], first["run"]["id"]);
    assert_eq!(blocks(&extended), 6, "{extended:#}");
    assert!((confidence(&extended) - (1.0 - 0.05 / 3.0)).abs() < 1e-9, "{extended:#}");
    assert_eq!(extended["run"]["extensions"], serde_json::json!([1]), "after one analysis");
    assert!(first["run"]["extensions"].is_null(), "{first:#}");
    let looks = rows(&extended, "looks");
    assert_eq!(
        looks.iter().map(|look| look["blocks"].as_u64().unwrap()).collect::<Vec<_>>(),
        [4, 4, 6],
        "all are recorded, and the first at the new confidence is made at once"
    );

    assert!(refused(&bench, &["--budget", "1ms"]).contains("add time, such as --budget +2min"));

    // Levels of the run are judged as its report does, and its first screen says what it has.
    let id = first["run"]["id"].as_str().unwrap();
    let [base, other] = ["A", "B"].map(|level| format!("{id}:command={level}"));
    let compared = bench.json(&["compare", &base, &other, "--json"]);
    assert!((compared["confidence"].as_f64().unwrap() - confidence(&extended)).abs() < 1e-9, "{compared:#}");
    let screen = text(&bench.run(&["report"]).stdout);
    let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        screen.contains("98.3 % intervals") && screen.contains("extended once after a result could be seen"),
        "{screen}"
    );

    // The bundle's study is the one that ran.
    assert!(bench.run(&["bundle", id, "-o", "extended.tar"]).status.success());
    let verified = bench.run(&["verify", "extended.tar"]);
    assert!(verified.status.success(), "{}{}", text(&verified.stdout), text(&verified.stderr));
}

#[test]
fn what_cannot_be_extended_says_why() {
    let bench = Bench::new();
    bench.write("study.toml", study(&bench, FOUR));
    assert!(bench.run(&["run", "study.toml", "--quick"]).status.success());
    assert!(refused(&bench, &["--budget", "+1min"]).contains("it is one of --quick"));
    let text = study(&bench, FOUR);
    bench.write("study.toml", text.split_once("[report.ratio_to]").unwrap().0);
    assert!(bench.run(&["run", "study.toml"]).status.success());
    assert!(refused(&bench, &["--budget", "+1min"]).contains("it compares nothing"));
    assert!(refused(&bench, &["--budget", "soon"]).contains("--budget"));
}
