//! `baremark run --in`: one program in several environments.

use crate::bench::{Bench, kvm, text};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// A program that folds the bytes of a file and prints the sum, again and again for some milliseconds.
const FOLDING: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    int main(int n, char **w) { unsigned long sum = 7; for (int turn = 0; turn < 4000; turn++) { FILE *f = turn % 1000 ? 0 : fopen(w[1], \"r\");\n\
    int c; if (f) { while ((c = fgetc(f)) != EOF) sum = sum * 31 + c; fclose(f); } else for (int i = 0; i < 2000; i++) sum = sum * 31 + (sum >> 7); }\n\
    printf(\"sum %lu of %s\\n\", sum % 1000003, w[1]); return 0; }\n";

fn built(bench: &Bench, name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
    let (from, to) = (bench.write(&format!("{name}.c"), source), bench.path(name));
    let built = Command::new("cc").args(["-O1", "-o"]).arg(&to).arg(from).args(options).output().unwrap();
    built.status.success().then_some(to)
}

/// The estimates of one metric by environment.
fn by_place<'d>(document: &'d Value, metric: &str) -> Vec<(&'d str, f64)> {
    let rows = document["estimates"].as_array().unwrap().iter().filter(|row| row["metric"] == metric);
    rows.map(|row| (row["treatment"]["environment"].as_str().unwrap(), row["estimate"].as_f64().unwrap())).collect()
}

#[test]
fn a_static_and_a_dynamic_program_print_the_same_natively_in_the_microvm_and_in_a_container() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    bench.write("data", "some bytes\n".repeat(500));
    let listed = text(&bench.run(&["list", "environments"]).stdout);
    let has_containers = !listed.lines().any(|line| line.starts_with("container") && line.contains("not here"));
    let places = if has_containers { "native,microvm,container" } else { "native,microvm" };
    if !has_containers {
        eprintln!("skipped: no containers: {listed}");
    }
    for (name, options) in [("static", &["-static"][..]), ("dynamic", &[])] {
        built(&bench, name, FOLDING, options).unwrap();
        let program = format!("./{name}");
        let arguments = ["run", "--in", places, "--budget", "6s", "--precision", "20", "-m", "sum=sum ([0-9]+)"];
        let ran = bench.run(&[&arguments[..], &["--", &program, "data"]].concat());
        let (out, told) = (text(&ran.stdout), text(&ran.stderr));
        assert_eq!(ran.status.code(), Some(0), "{out}{told}");
        assert!(out.contains("microvm / native = "), "{out}");
        assert!(
            out.contains("system calls forwarded")
                && out.contains("exits explain")
                && out.contains("a lower bound for a VM"),
            "{out}"
        );
        assert_eq!(out.contains("container / native"), has_containers, "{out}{told}");
        let document = bench.json(&["--json", "report"]);
        let sums = by_place(&document, "sum");
        assert_eq!(sums.len(), places.split(',').count(), "{sums:?}");
        assert!(sums.iter().all(|(_, sum)| *sum == sums[0].1 && *sum > 0.0), "{name}: {sums:?}");
        // The four reads of the file are natively as many calls as inside; what proves itself is not void.
        let calls = by_place(&document, "forwarded_calls");
        assert!(calls.len() == 1 && calls[0].0 == "microvm" && calls[0].1 > 8.0, "{calls:?}");
        let share =
            document["explanations"].as_array().unwrap().iter().find(|row| {
                row["unit"] == "%" && row["what"].as_str().unwrap().contains("exits from the microVM explain")
            });
        // With fewer than four blocks, on a busy machine, there is no interval and no row.
        assert!(share.is_none_or(
            |row| row["value"].as_f64() > Some(0.0) && row["advice"].as_str().unwrap().contains("lower bound")
        ));
        assert!(
            document["trials"].as_array().unwrap().iter().all(|trial| trial["status"]["status"] != "void"),
            "{document:#}"
        );
    }
    let history = text(&bench.run(&["history"]).stdout);
    assert_eq!(history.matches("dynamic data").count() + history.matches("static data").count(), 2, "{history}");
}

#[test]
fn what_one_place_cannot_run_is_said_and_the_rest_goes_on() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    let Some(_) = built(&bench, "leaky", "int main(void) { return 0; }\n", &["-fsanitize=address"]) else {
        eprintln!("skipped: no AddressSanitizer");
        return;
    };
    let arguments = ["run", "--in", "native,microvm", "--budget", "2s", "--", "./leaky"];
    let ran = bench.run(&arguments);
    let out = text(&ran.stdout);
    assert_eq!(ran.status.code(), Some(0), "{out}{}", text(&ran.stderr));
    assert!(out.contains("microvm: not available here: ") && out.contains("ASAN_OPTIONS=detect_leaks=0"), "{out}");
    let document = bench.json(&["--json", "report"]);
    assert_eq!(by_place(&document, "wall_s").len(), 1, "native alone has a figure");
    let none = bench.run(&["run", "--in", "microvm", "--", "./leaky"]);
    assert_eq!(none.status.code(), Some(3), "{}", text(&none.stderr));
    assert!(text(&none.stderr).contains("LeakSanitizer"), "{}", text(&none.stderr));
    let wrong = bench.run(&["run", "standard", "--in", "native"]);
    assert_eq!(wrong.status.code(), Some(2), "a study says itself where it runs");
}

#[test]
fn commands_are_compared_inside_the_microvm_and_guest_pages_are_a_factor() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    let compared =
        bench.run(&["ab", "--in", "microvm", "true", "sh -c 'kill -USR1 $$ 2>/dev/null; :'", "-i", "--budget", "3s"]);
    let out = text(&compared.stdout);
    assert_eq!(compared.status.code(), Some(0), "{out}{}", text(&compared.stderr));
    assert!(out.contains("B / A") && out.matches("system calls forwarded").count() == 2, "{out}");
    let study = "[study]\ntitle = \"pages\"\n[workload]\nkind = \"command\"\n[command]\nargv = [\"true\"]\nrepeat = true\n\
        [factors]\nenvironment = [\"native\", \"microvm\"]\nguest_page = [\"4k\", \"2m\"]\n[design]\nbudget = \"3 s\"\nleast_blocks = 4\n\
        [report]\nratio_to = { environment = \"native\" }\n";
    bench.write("pages.toml", study);
    let document = bench.json(&["--json", "--quiet", "run", "pages.toml"]);
    let treatments: Vec<String> = document["estimates"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["metric"] == "wall_s")
        .map(|row| row["treatment"].to_string())
        .collect();
    assert_eq!(treatments.len(), 3, "native has no guest: {treatments:?}");
    bench.write("wrong.toml", study.replace("guest_page", "guest_tables").replace("\"4k\", \"2m\"", "\"scattered\""));
    let wrong = bench.run(&["plan", "wrong.toml"]);
    assert!(
        text(&wrong.stderr).contains("'guest_tables' applies to no workload of this study"),
        "{}",
        text(&wrong.stderr)
    );
}
