//! `baremark ab`: commands compared from a command line, and what is done with those that are wrong.

use crate::bench::{Bench, children, signal, text};
use std::io::{BufRead, BufReader};
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
    let bench = Bench::busy();
    counting(&bench);
    let arguments =
        ["ab", "-n", "one=./count 5", "two=./count 20", "--budget", "20s", "--precision", "20", "--fail-above", "25%"];
    let ran = bench.run(&arguments);
    let out = text(&ran.stdout);
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

#[test]
fn the_same_program_does_not_fail_the_gate_and_its_printed_study_is_the_same() {
    let bench = Bench::new();
    counting(&bench);
    let arguments = ["ab", "./count 3", "./count 3", "--budget", "4s", "--fail-above", "50"];
    let ran = bench.run(&arguments);
    assert_ne!(ran.status.code(), Some(4), "{}{}", text(&ran.stdout), text(&ran.stderr));
    let printed = bench.run(&[&arguments[..], &["--print-study"]].concat());
    bench.write("printed.toml", &printed.stdout);
    let ours = bench.json(&["--json", "plan", "printed.toml"]);
    let mut ran = bench.json(&["--json", "report"]);
    let mut ours = ours;
    // The study leaves the seed to each run.
    for design in [&mut ran["run"]["design"], &mut ours["design"]] {
        design["seed"].take();
    }
    assert_eq!(ran["run"]["design"], ours["design"]);
    let texts = |factors: &serde_json::Value| factors.to_string();
    assert_eq!(texts(&ran["run"]["factors"]), texts(&ours["factors"]));
}

#[test]
fn a_command_that_fails_is_told_and_one_that_floods_is_measured() {
    let bench = Bench::new();
    let failing = bench.run(&["ab", "sh -c 'echo no room >&2; exit 3'", "true", "--budget", "3s"]);
    let told = text(&failing.stderr);
    assert_eq!(failing.status.code(), Some(1), "{told}");
    assert!(told.contains("exit code 3") && told.contains("no room") && told.contains("--ignore-exit"), "{told}");
    let piped = bench.run(&["ab", "echo a | cat", "true"]);
    assert_eq!(piped.status.code(), Some(2));
    assert!(text(&piped.stderr).contains("'|' is for a shell; add --shell"), "{}", text(&piped.stderr));
    let flood =
        ["head -c 20000000 /dev/zero", "head -c 20000000 /dev/zero", "--output", "keep", "-i", "--budget", "2s"];
    let flood = bench.run(&[&["--json", "ab"], &flood[..]].concat());
    assert_eq!(flood.status.code(), Some(0), "{}", text(&flood.stderr));
}

#[test]
fn a_killed_comparison_leaves_nothing_and_is_resumed() {
    let bench = Bench::new();
    let mut lab = bench.spawn(&["ab", "sleep 0.05", "sleep 0.06", "--budget", "30s", "--precision", "40"]);
    let lines = BufReader::new(lab.stderr.take().unwrap()).lines();
    let stored = lines.map_while(Result::ok).find(|line| line.starts_with("block 1 is stored"));
    assert!(stored.is_some());
    let before = children(lab.id());
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while before.iter().any(|&child| crate::bench::lives(child)) {
        assert!(std::time::Instant::now() < end, "its agent is still there");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let resumed = bench.json(&["--json", "--quiet", "resume"]);
    assert!(resumed["ratios"][0]["blocks"].as_u64().unwrap() >= 2);
}

#[test]
fn the_example_of_init_runs_as_it_is_printed_and_list_alone_lists() {
    let bench = Bench::new();
    let example = bench.run(&["init"]);
    bench.write("mine.toml", text(&example.stdout).replace("budget = \"60 s\"", "budget = \"2 s\""));
    let ran = bench.run(&["--json", "--quiet", "run", "mine.toml"]);
    assert_eq!((ran.status.code(), text(&ran.stderr)), (Some(0), String::new()));
    let document: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(document["estimates"].as_array().unwrap().iter().any(|row| row["metric"] == "saved_percent"));
    let listed = bench.run(&["list"]);
    assert!(listed.status.success() && text(&listed.stdout).contains("standard"), "{}", text(&listed.stderr));
}

#[test]
fn list_has_what_each_study_answers_and_how_long_it_takes() {
    let bench = Bench::new();
    let titles = bench.json(&["list", "studies", "--json"]);
    let of = |name: &str| titles["studies"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone();
    let title = of("star-random-access").get("title").unwrap().as_str().unwrap().to_owned();
    // Lines are wrapped.
    let list = |arguments: &[&str]| {
        let words = text(&bench.run(arguments).stdout);
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let listed = list(&["list"]);
    assert_eq!(listed.matches("(at most ").count(), titles["studies"].as_array().unwrap().len(), "{listed}");
    assert!(listed.contains(" star-random-access ") && !listed.contains(", took"), "{listed}");
    // A quick run says nothing about the study's time; a complete one does. A file of that name is found first.
    bench.write("star-random-access", crate::bench::SMALL.replace("a small study", &title));
    for (arguments, took) in
        [(&["run", "star-random-access", "--quick"][..], false), (&["run", "star-random-access"], true)]
    {
        let ran = bench.run(arguments);
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        let listed = list(&["list", "studies"]);
        assert_eq!(listed.matches(", took ").count(), usize::from(took), "{listed}");
    }
}

fn soak() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/soak-ab")
}

#[test]
fn rounds_of_the_soak_are_kept_and_only_missing_ones_are_made() {
    let bench = Bench::sole();
    let round = |rounds: &str| {
        let ran = Command::new("python3")
            .arg(soak())
            .arg(env!("CARGO_BIN_EXE_baremark"))
            .arg(bench.path("soak"))
            .args(["--rounds", rounds, "--budget", "3", "gzip"])
            .output()
            .unwrap();
        // One round of a busy machine may have no interval, which is a goal that is missed; nothing else is.
        assert!(matches!(ran.status.code(), Some(0 | 1)), "{}", text(&ran.stderr));
        text(&ran.stdout)
    };
    let first = round("1");
    let counted = |out: &str, kind: &str| {
        let line = out.lines().find(|line| line.starts_with(kind)).unwrap_or_else(|| panic!("no {kind}: {out}"));
        line[kind.len()..].split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!((counted(&first, "gzip"), counted(&first, "all A/A")), ("1".to_owned(), "1".to_owned()), "{first}");
    assert!(!first.contains("rounds.jsonl"), "{first}");
    let stored = std::fs::read(bench.path("soak/rounds.jsonl")).unwrap();
    let again = round("1");
    assert!(again.contains("rounds.jsonl has gzip 1 of this program, 0 of others"), "{again}");
    assert_eq!(std::fs::read(bench.path("soak/rounds.jsonl")).unwrap(), stored, "nothing was missing");
    assert_eq!(counted(&again, "gzip"), "1");
}

/// Judges rounds that nobody ran: as many differ as may, and one more; as many injections are found as must be, and one fewer.
const JUDGED: &str = r#"
import importlib.machinery, importlib.util, sys
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("soak", sys.argv[1])
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("soak", loader))
loader.exec_module(script)
alike, differs, silent = [1.0, 0.99, 1.01, 9, 12.0], [1.1, 1.05, 1.15, 9, 12.0], [1.0, 0, 0, 3, 12.0]
found, bounded, late = [1.03, 1.01, 1.05, 9, 40.0], [1.01, 0.99, 1.02, 9, 40.0], [1.03, 1.01, 1.05, 9, 90.0]
def goals(**rows):
    print("missed", script.table({kind.replace("_", "-"): of for kind, of in rows.items()}))
for count in (16, 17):
    goals(gzip=[alike] * 100, awk=[alike] * (100 - count) + [differs] * count)
goals(gzip=[alike] * 18 + [silent] * 2)
goals(gzip=[alike] * 17 + [silent] * 3)
goals(plus_3=[found] * 9 + [alike])
goals(plus_3=[found] * 8 + [alike] * 2)
goals(plus_3=[found] * 8 + [late] * 2)
goals(plus_1=[bounded] * 9 + [differs])
goals(plus_1=[bounded] * 8 + [differs] * 2)
"#;

#[test]
fn the_soak_fails_where_a_method_that_is_right_would_not_come() {
    let ran = Command::new("python3").args(["-c", JUDGED]).arg(soak()).output().unwrap();
    let out = text(&ran.stdout);
    assert!(ran.status.success(), "{out}{}", text(&ran.stderr));
    let missed: Vec<_> = out.lines().filter_map(|line| line.strip_prefix("missed ")).collect();
    assert_eq!(missed, ["0", "1", "0", "1", "0", "1", "1", "0", "1"], "{out}");
}
