//! `baremark run --in`: one program in several environments.

use crate::common::bench::{Bench, kvm, text, unbroken};
use crate::common::outcome::{counts, measured, rows, sound};
use crate::common::run_in::{built, by_place, fold_in};
use serde_json::Value;

#[test]
fn a_static_and_a_dynamic_program_print_the_same_natively_and_in_the_microvm() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    for out in fold_in(&bench, "native,microvm") {
        assert!(out.contains("microvm / native = 1.00 "), "{out}");
        let said = ["system calls forwarded", "exits explain", "a lower bound for a VM"];
        assert!(said.iter().all(|words| out.contains(words)), "{out}");
        let document = bench.json(&["--json", "report"]);
        // The four reads of the file are natively as many calls as inside; what proves itself is not void.
        let calls = by_place(&document, "forwarded_calls");
        assert!(calls.len() == 1 && calls[0].0 == "microvm" && calls[0].1 > 8.0, "{calls:?}");
        let share =
            document["explanations"].as_array().unwrap().iter().find(|row| {
                row["unit"] == "%" && row["what"].as_str().unwrap().contains("exits from the microVM explain")
            });
        let share = share.unwrap_or_else(|| panic!("{document:#}"));
        assert!(share["advice"].as_str().unwrap().contains("lower bound"), "{share:#}");
        let is_void = |trial: &Value| trial["status"].as_str().unwrap() == "void";
        assert!(!document["trials"].as_array().unwrap().iter().any(is_void), "{document:#}");
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
        eprintln!("skipped: the compiler has no AddressSanitizer");
        return;
    };
    let arguments = ["run", "--in", "native,microvm", "--budget", "2s", "--", "./leaky"];
    let ran = bench.run(&arguments);
    let out = unbroken(&ran.stdout);
    assert_eq!(ran.status.code(), Some(0), "{out}{}", text(&ran.stderr));
    assert!(out.contains("microvm: not available here: ") && out.contains("ASAN_OPTIONS=detect_leaks=0"), "{out}");
    let document = bench.json(&["--json", "report"]);
    assert_eq!(by_place(&document, "wall_s").len(), 1, "native alone has a figure");
    let none = bench.run(&["run", "--in", "microvm", "--", "./leaky"]);
    assert_eq!(none.status.code(), Some(3), "{}", text(&none.stderr));
    assert!(text(&none.stderr).contains("LeakSanitizer"), "{}", text(&none.stderr));
}

#[test]
fn commands_are_compared_inside_the_microvm_and_guest_pages_are_a_factor() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    let compared =
        bench.run(&["ab", "--in", "microvm", "true", "sh -c 'kill -USR1 $$ 2>/dev/null; :'", "-i", "--budget", "1s"]);
    let out = unbroken(&compared.stdout);
    assert_eq!(compared.status.code(), Some(0), "{out}{}", text(&compared.stderr));
    assert!(out.contains("B / A") && out.matches("system calls forwarded").count() == 2, "{out}");
    let study = "[study]\ntitle = \"pages\"\n[workload]\nkind = \"command\"\n[command]\nargv = [\"true\"]\nrepeat = true\n\
        [factors]\nenvironment = [\"native\", \"microvm\"]\nguest_page = [\"4k\", \"2m\"]\n\
        [design]\nbudget = \"1 h\"\nphase = \"1 ms\"\nquads = 1\nleast_blocks = 4\nmost_blocks = 4\n\
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

/// Writes to 64 MiB that the program has asked to be small pages, and gives nothing back. The number of pages is printed.
const SMALL_PAGES: &str = "#include <stdio.h>\n#include <sys/mman.h>\n\
    int main(void) { long n = 64L << 20, pages = 0; char *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n\
    if (p == MAP_FAILED) return 1; madvise(p, n, MADV_NOHUGEPAGE); for (long at = 0; at < n; at += 4096) { p[at] = 1; pages++; }\n\
    printf(\"%ld pages\\n\", pages); return 0; }\n";

/// Two factors that apply to the microVM alone.
const FACTORS_INSIDE: &str = r#"
[study]
title = "calls and pages"
[workload]
kind = "command"
[command]
argv = ["PROGRAM"]
[factors]
environment = ["native", "microvm"]
exitless = ["off", "on"]
host_backing = ["4k", "2m"]
[design]
quads = 0
least_blocks = 1
most_blocks = 1
budget = "1 h"
[report]
ratio_to = { environment = "native" }
"#;

#[test]
fn exitless_calls_and_host_pages_are_factors_of_a_program_in_the_microvm() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("skipped: one CPU, and a polling thread needs another");
        return;
    }
    let program = built(&bench, "small", SMALL_PAGES, &[]).unwrap();
    bench.write("inside.toml", FACTORS_INSIDE.replace("PROGRAM", program.to_str().unwrap()));
    let document = bench.json(&["--json", "--quiet", "run", "inside.toml"]);
    let levels =
        |row: &Value| ["exitless", "host_backing"].map(|key| row["treatment"][key].as_str().map(str::to_owned));
    let of = |metric: &str| {
        let rows = document["estimates"].as_array().unwrap().iter().filter(|row| row["metric"] == metric);
        let mut found: Vec<[Option<String>; 2]> = rows.map(levels).collect();
        found.sort();
        found
    };
    let inside = |exitless: &str, page: &str| [Some(exitless.to_owned()), Some(page.to_owned())];
    let with = [inside("on", "2m"), inside("on", "4k")];
    let without = [inside("off", "2m"), inside("off", "4k")];
    let microvm = [&without[..], &with].concat();
    // Natively neither says anything.
    assert_eq!(of("wall_s"), [&[[None, None]][..], &microvm[..]].concat(), "{document:#}");
    assert_eq!(of("forwarded_calls"), microvm, "{document:#}");
    for metric in ["exitless_calls", "exitless_fallbacks", "polling_cpu_s"] {
        assert_eq!(of(metric), with, "{metric}: {document:#}");
    }
    let ratios = document["ratios"].as_array().unwrap();
    let mut compared: Vec<_> = ratios.iter().filter(|row| row["metric"] == "wall_s").map(levels).collect();
    compared.sort();
    assert_eq!(compared, microvm, "each is compared with native: {document:#}");
    sound(&document);
    for trial in rows(&document, "trials") {
        assert!(counts(trial), "a program is not void: {trial:#}");
        let arm = trial["arms"].as_array().unwrap().iter().find(|arm| arm["treatment"]["environment"] == "microvm");
        let [exitless, page] = levels(arm.unwrap());
        let flags: Vec<&str> = trial["flags"].as_array().unwrap().iter().map(|flag| flag.as_str().unwrap()).collect();
        let is_said = |of: &str| flags.iter().any(|flag| flag.starts_with(of));
        assert_eq!(is_said("exitless = on"), exitless.as_deref() == Some("on"), "{flags:?}");
        // What the program requests for its own memory holds: it is not in large pages, and where those are demanded that is said.
        assert_eq!(is_said("host_backing = 2m: "), page.as_deref() == Some("2m"), "{flags:?}");
    }
}

#[test]
fn stored_runs_of_a_program_in_the_microvm_are_checked_against_each_other() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    for _ in 0..2 {
        let ran = bench.run(&["run", "--in", "native,microvm", "--budget", "2s", "--precision", "20", "--", "true"]);
        assert_eq!(ran.status.code(), Some(0), "{}{}", text(&ran.stdout), text(&ran.stderr));
    }
    let history = bench.json(&["history", "--json"]);
    let runs = history["runs"].as_array().unwrap();
    let ids: Vec<&str> = runs.iter().map(|run| run["id"].as_str().unwrap()).collect();
    let [after, before] = ids[..] else { panic!("{history:#}") };
    // By name, and as what was measured since. The spread between runs takes three a side.
    for named in [&[after][..], &[]] {
        let checked = bench.run(&[&["check", "--against", before][..], named].concat());
        let said = text(&checked.stdout) + &text(&checked.stderr);
        assert_eq!(checked.status.code(), Some(5), "{said}");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("not enough data: 3 runs a side are needed"), "{said}");
    }
    let checked = bench.run(&["check", "--against", before, after, "--json"]);
    let comparison: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(
        (checked.status.code(), &comparison["gate"]["answer"]),
        (Some(5), &"undecided".into()),
        "{comparison:#}"
    );
    let rows = comparison["rows"].as_array().unwrap();
    let inside: Vec<&Value> = rows.iter().filter(|row| row["treatment"]["environment"] == "microvm").collect();
    assert_eq!(inside.len(), 2, "its run time, and the ratio to native: {comparison:#}");
    assert!(inside.iter().all(|row| row["metric"] == "wall_s" && row["base_units"] == 1), "{comparison:#}");
}
