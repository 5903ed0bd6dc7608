//! Shipped studies: printed, listed with what they use, and changed from the command line.

use crate::common::bench::{Bench, text, unbroken};
use std::net::TcpListener;

#[test]
fn a_printed_study_is_the_study_and_each_can_be_printed() {
    let bench = Bench::new();
    let listed = bench.json(&["list", "studies", "--json"]);
    for row in listed["studies"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let shown = bench.run(&["show", name]);
        assert!(shown.status.success() && text(&shown.stdout).contains("[study]\n"), "{name}: {}", text(&shown.stderr));
        let json = bench.json(&["show", name, "--json"]);
        assert_eq!((json["name"].as_str(), json["text"].as_str()), (Some(name), Some(text(&shown.stdout).as_str())));
    }
    bench.write("mine.toml", bench.run(&["show", "standard"]).stdout);
    let [shipped, mine] = ["standard", "mine.toml"].map(|study| bench.json(&["plan", study, "--json"]));
    assert_eq!(shipped["cells"], mine["cells"]);
    let unknown = bench.run(&["show", "standart"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("did you mean 'standard'"), "{}", text(&unknown.stderr));
}

/// What is written where is a line for each environment.
#[test]
fn a_plan_names_what_it_writes_by_line() {
    let plan = Bench::new().run(&["plan", "block"]);
    let planned = text(&plan.stdout);
    assert!(plan.status.success(), "{}", text(&plan.stderr));
    assert!(planned.lines().any(|line| line.starts_with("  native: writes a file without a name in")), "{planned}");
    assert!(planned.lines().all(|line| line.chars().count() <= 80), "{planned}");
}

#[test]
fn a_shipped_study_and_a_file_are_changed_from_the_command_line() {
    let bench = Bench::new();
    bench.write("mine.toml", bench.run(&["show", "mitigations"]).stdout);
    for study in ["mitigations", "mine.toml"] {
        let changes = ["--budget", "5min", "--precision", "3", "--set", "quads=7", "--vary", "environment=native"];
        let printed = bench.run(&[&["run", study, "--print-study"][..], &changes].concat());
        let changed = text(&printed.stdout);
        assert!(printed.status.success(), "{}", text(&printed.stderr));
        for line in ["budget = \"5 min\"", "precision = \"3 %\"", "quads = 7", "environment = [\"native\"]"] {
            assert!(changed.contains(&format!("{line}\n")), "{line}: {changed}");
        }
        let planned = bench.json(&[&["plan", study, "--json"][..], &changes].concat());
        assert_eq!(planned["design"]["budget_ns"], 300_000_000_000_u64, "{planned:#}");
        assert_eq!(planned["design"]["quads"], 7, "{planned:#}");
        let same = bench.run(&[&["show", "mitigations"][..], &["--set", "quads=7"]].concat());
        assert!(text(&same.stdout).contains("quads = 7\n"), "{}", text(&same.stderr));
    }
}

/// `host_backing` of the standard study says what the memory of its virtual machine is made of.
#[test]
fn factors_of_machines_go_where_no_machine_is_named() {
    let bench = Bench::new();
    let printed = bench.run(&["run", "standard", "--print-study", "--vary", "environment=native,container"]);
    let changed = text(&printed.stdout);
    assert!(printed.status.success(), "{}", text(&printed.stderr));
    assert!(changed.contains("environment = [\"native\", \"container\"]\n"), "{changed}");
    assert!(!changed.contains("\nhost_backing = "), "{changed}");
    let said = text(&printed.stderr);
    let notice = "notice: taken out of [factors], for it applies to none of native, container: ";
    assert_eq!(
        said.lines().filter(|line| line.starts_with(notice) && line.contains("host_backing")).count(),
        1,
        "{said}"
    );
    let typed = ["--set", "report.columns=environment", "--vary", "count=1,2"];
    for more in [&[][..], &typed[..]] {
        let arguments = [&["plan", "consolidation", "--vary", "environment=native"][..], more].concat();
        let refused = bench.run(&arguments);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("'count' applies to no environment of this study"), "{said}");
    }
    let planned = bench.run(&["plan", "standard", "--vary", "environment=native"]);
    assert!(planned.status.success(), "{}", text(&planned.stderr));
    let kept = bench.run(&["run", "standard", "--print-study", "--vary", "environment=native,microvm"]);
    assert!(text(&kept.stdout).contains("\nhost_backing = \"2m\"\n"), "{}", text(&kept.stderr));
}

#[test]
fn a_change_that_is_wrong_is_refused_with_what_would_be_right() {
    let bench = Bench::new();
    let refused = |arguments: &[&str], expected: &str| {
        let ran = bench.run(arguments);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {}", text(&ran.stderr));
        assert!(text(&ran.stderr).contains(expected), "{arguments:?}: {}", text(&ran.stderr));
    };
    refused(
        &["run", "standard", "--set", "budgett=1s"],
        "--set budgett: this study takes no such key; did you mean 'budget'?",
    );
    refused(&["run", "standard", "--set", "budget"], "--set budget: expected KEY=VALUE");
    refused(
        &["run", "standard", "--by", "triad_mb_per_s"],
        "this study has several workloads; set workload.stream.metric or",
    );
    refused(&["run", "mitigations", "--vary", "quads=1..0"], "--vary quads=1..0: from 1 to 256 numbers");
    // It stands on no line that anybody has written.
    let of_option = "error: mitigations: --set quads=many: 'quads' is a string; write a whole number";
    refused(&["plan", "mitigations", "--set", "quads=many"], of_option);
    refused(&["plan", "standard", "--budget", "0s"], "error: standard: --budget: budget = 0 ns is out of range");
    let vary = ["--in", "native,microvm", "--vary", "page=4k,3k"];
    refused(&[&["plan", "standard"][..], &vary].concat(), "standard: --vary page=4k,3k: page = '3k' is not known");
    refused(&["plan", "standard", "--set", "stream.array=1 TiB"], "standard: --set stream.array=1 TiB: ");
    refused(&["run", "--set", "quads=3", "--", "true"], "cannot be used with");
    refused(&["run", "standard", "--timeout", "1s"], "'[STUDY]' cannot be used with '--timeout <TIME>'");
    refused(&["run", "standard", "--in", "nativ"], "--in nativ: unknown; did you mean 'native'?");
    let one = text(&bench.run(&["run", "standard", "--print-study", "--in", "sandbox"]).stdout);
    assert!(one.contains("\nenvironment = [\"native\", \"sandbox\"]\n"), "it is compared with native: {one}");
}

#[test]
fn a_command_that_is_not_there_is_named_before_anything_runs() {
    let bench = Bench::new();
    let ran = bench.run(&["ab", "true", "no-such-program-here 1"]);
    let expected = "error: command B (no-such-program-here 1): program no-such-program-here not found; install it, or name its path\n";
    assert_eq!((ran.status.code(), text(&ran.stderr)), (Some(3), expected.to_owned()));
    let ran = bench.run(&["run", "--in", "native,microvm", "--", "no-such-program-here"]);
    assert_eq!(ran.status.code(), Some(3));
    assert!(text(&ran.stderr).contains("program no-such-program-here not found"), "{}", text(&ran.stderr));
    assert!(!bench.store().exists(), "nothing was recorded");
}

#[test]
fn a_plan_names_the_programs_that_are_not_here() {
    let bench = Bench::new();
    let study = "\
[study]
title = \"two programs\"
[workload]
kind = \"command\"
[commands.here]
argv = [\"true\"]
[commands.there]
argv = [\"true\"]
needs = { \"no-such-program-here\" = \"no-such-package\" }
[factors]
command = [\"here\", \"there\"]
environment = \"native\"
";
    bench.write("two.toml", study);
    let plan = bench.run(&["plan", "two.toml"]);
    let said = unbroken(&plan.stdout);
    assert!(plan.status.success(), "{}", text(&plan.stderr));
    assert!(said.contains("program no-such-program-here not found at site; Debian package no-such-package"), "{said}");
}

#[test]
fn a_plan_says_what_will_fail_a_budget_that_is_too_short_and_a_server_that_does_not_answer() {
    let bench = Bench::new();
    let planned = |arguments: &[&str]| {
        let ran = bench.run(&[&["plan"], arguments].concat());
        assert!(ran.status.success(), "{arguments:?}: {}", text(&ran.stderr));
        unbroken(&ran.stdout)
    };
    let short = planned(&["order-entry", "--vary", "environment=native", "--budget", "20s"]);
    assert!(short.contains("The budget is too short: the smallest study, 5 blocks, takes 2 min or more;"), "{short}");
    assert!(short.contains("write --budget 2min or a longer one."), "{short}");
    assert!(!planned(&["order-entry", "--vary", "environment=native"]).contains("too short"));

    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listening.local_addr().unwrap());
    bench.write("load.toml", format!("[study]\ntitle = \"a load\"\n[workload]\nkind = \"load\"\nurl = \"{url}\"\n"));
    assert!(!planned(&["load.toml"]).contains("nothing answers"));
    drop(listening);
    let silent = planned(&["load.toml"]);
    assert!(
        silent.contains(&format!("load: nothing answers at {url} (")) && silent.contains("start the server"),
        "{silent}"
    );
}

/// A command stays on one line, however long that is.
#[test]
fn a_plan_fits_80_columns() {
    let bench = Bench::new();
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines/one-cpu-1-gib.txt");
    for study in ["standard", "mitigations", "order-entry", "redis", "web-farm", "calibrate"] {
        for arguments in [&["plan", study][..], &["plan", study, "--machine", machine]] {
            let ran = bench.run(arguments);
            let said = text(&ran.stdout);
            let fits = |line: &&str| line.chars().count() <= 80 || line.trim_start().starts_with('`');
            let wide: Vec<&str> = said.lines().filter(|line| !fits(line)).collect();
            assert!(wide.is_empty(), "{arguments:?}: {wide:#?}");
            // It answers on every machine.
            assert!(ran.status.success() || study != "standard", "{arguments:?}: {said}{}", text(&ran.stderr));
        }
    }
}

#[test]
fn the_list_says_what_a_study_uses() {
    let bench = Bench::new();
    let listed = bench.json(&["list", "studies", "--json"]);
    let uses = |name: &str| {
        let row = listed["studies"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        let needs = row["needs"].as_array().unwrap().iter();
        needs.map(|need| need["what"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(uses("standard"), ["microvm", "sandbox"]);
    assert_eq!(uses("runtimes"), ["container"]);
    assert_eq!(uses("mitigations"), ["sandbox", "container"]);
    assert_eq!(uses("hpcc"), ["hpcc", "mpirun"]);
    assert_eq!(uses("mmu-modes"), ["microvm", "--allow-host-changes"]);
    assert_eq!(uses("calibrate"), <[&str; 0]>::default());
}

#[test]
fn help_of_a_command_and_of_all_is_printed() {
    let bench = Bench::new();
    let printed = |arguments: &[&str]| text(&bench.run(arguments).stdout);
    assert_eq!(printed(&["--help"]), printed(&["help"]));
    assert_eq!(printed(&["-h"]), printed(&["help"]));
    assert_eq!(printed(&["ab", "-h"]), printed(&["ab", "--help"]));
    assert!(printed(&["help", "load"]).contains("poisson:"), "{}", printed(&["help", "load"]));
    assert!(printed(&["help", "auction", "run"]).contains("Usage: baremark auction run"));
    assert!(printed(&["help", "all"]).contains("Exit codes:\n  0 "));
    let unknown = bench.run(&["help", "loud"]);
    assert_eq!((unknown.status.code(), text(&unknown.stderr).lines().count()), (Some(2), 1));
}
