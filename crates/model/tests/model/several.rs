//! Studies of several workloads: each with its own parameters, metric and published values, all in the same blocks.

use crate::specimen::WORKLOADS;
use baremark_model::plan::{Contrast, Limits, Mode, Plan, resolve};
use baremark_model::renamed;
use baremark_model::study::{Study, parse};
use baremark_model::units::Bytes;
use baremark_model::value::Value;
use std::fmt::Write;

const SOUND: &str = "\
[study]
title = \"two in the same blocks\"

[workload]
kind = [\"random-access\", \"command\"]

[workload.random-access]
table = \"64 MiB\"
metric = \"gups\"
published = \"hpc-memory-2010/star-random-access\"

[workload.command]
program = \"true\"
page = \"4k\"

[factors]
environment = [\"native\", \"microvm\"]
page = [\"4k\", \"2m\"]
lookahead = [1, 64]

[report]
ratio_to = { environment = \"native\" }
";

fn parsed(text: &str) -> Result<Study, String> {
    parse("a.toml", text.as_bytes(), WORKLOADS).map_err(|problems| problems.to_string())
}

fn planned(text: &str) -> Plan {
    let limits = Limits { cpus: vec![0, 1], memory_available: Bytes(8 << 30), ..Limits::default() };
    resolve("a.toml", &parsed(text).expect("sound"), &limits, Mode::default()).expect("a plan")
}

#[test]
fn each_has_what_its_own_section_says() {
    let study = parsed(SOUND).expect("sound");
    let [one, two] = study.workloads.as_slice() else { panic!("two workloads") };
    assert_eq!(one.parameters["table"], Value::SizeBytes(Bytes(64 << 20)));
    assert_eq!((one.metric(), one.published.is_some()), ("gups", true));
    assert_eq!(two.held.keys().collect::<Vec<_>>(), ["page"]);
    assert!(two.published.is_none() && two.parameters.contains_key("program"));
    assert_eq!(study.factors[0].key, "workload");
    assert_eq!(study.line("workload.random-access.table"), 8);
}

#[test]
fn a_factor_is_varied_only_where_it_says_something() {
    let plan = planned(SOUND);
    assert_eq!(plan.workload, "random-access, command");
    let of = |kind: &str| plan.arms.iter().filter(|arm| arm.treatment["workload"] == kind).collect::<Vec<_>>();
    assert_eq!(of("random-access").len(), 8, "two places, two pages, two lookaheads");
    let commands = of("command");
    assert_eq!(commands.len(), 1, "one place, and neither pages nor a lookahead");
    assert_eq!(commands[0].treatment["page"], "4k");
    assert_eq!(plan.absent.len(), 1, "a command needs an operating system: the row stays, with the reason");
    assert!(plan.absent[0].reason.contains("'command'"), "{}", plan.absent[0].reason);
    for arm in 0..plan.arms.len() {
        let (kind, metric) = (plan.workload_of(arm), plan.metric_of(arm));
        assert_eq!(metric, if kind == "command" { "elapsed_s" } else { "gups" });
        assert_eq!(plan.arms[arm].arm.parameters.contains_key("table"), kind == "random-access");
    }
}

#[test]
fn no_ratio_is_of_unlike_work() {
    let plan = planned(SOUND);
    assert_eq!(plan.pairs.iter().filter(|pair| pair.contrast == Contrast::Environment).count(), 4);
    for pair in &plan.pairs {
        assert_eq!(plan.workload_of(pair.numerator), plan.workload_of(pair.denominator));
    }
    for &cell in &plan.cells {
        let mut kinds: Vec<&str> = plan.arms_of(cell).iter().map(|&arm| plan.workload_of(arm)).collect();
        kinds.dedup();
        assert_eq!(kinds.len(), 1, "one trial runs one workload");
    }
}

/// The same work by other names: that which varies its lookahead is `sessions` and varies `time`, which is called `duration` today.
fn of_earlier() -> Plan {
    let mut plan = planned(SOUND);
    "sessions, command".clone_into(&mut plan.workload);
    for (factor, _) in &mut plan.factors {
        if factor == "lookahead" {
            "time".clone_into(factor);
        }
    }
    for arm in &mut plan.arms {
        arm.arm.parameters.insert("time".to_owned(), Value::Count(10));
        if let Some(level) = arm.treatment.remove("lookahead") {
            arm.treatment.insert("time".to_owned(), level);
            arm.treatment.insert("workload".to_owned(), "sessions".to_owned());
        }
    }
    plan
}

/// What a command calls `time` is its own, also next to a workload whose `time` has another name today.
#[test]
fn former_names_are_those_of_the_workload_of_each_arm() {
    let mut plan = of_earlier();
    renamed::plan(&mut plan);
    let kinds: Vec<&str> = (0..plan.arms.len()).map(|arm| plan.workload_of(arm)).collect();
    assert!(kinds.contains(&"command") && kinds.contains(&"sessions"), "{kinds:?}");
    for (planned, kind) in plan.arms.iter().zip(kinds) {
        let has = ["time", "duration"].map(|key| planned.arm.parameters.contains_key(key));
        assert_eq!(has, [kind == "command", kind == "sessions"], "{kind}");
        assert_eq!(planned.treatment.contains_key("duration"), kind == "sessions", "{kind}");
        assert!(!planned.treatment.contains_key("time"), "{kind}");
    }
    let keys: Vec<&str> = plan.factors.iter().map(|(factor, _)| factor.as_str()).collect();
    assert!(keys.contains(&"duration") && !keys.contains(&"time"), "{keys:?}");
}

#[test]
fn a_factor_that_a_command_has_too_keeps_its_name() {
    let mut plan = of_earlier();
    for arm in plan.arms.iter_mut().filter(|arm| arm.treatment["workload"] == "command") {
        arm.treatment.insert("time".to_owned(), "10".to_owned());
    }
    let before = plan.factors.clone();
    renamed::plan(&mut plan);
    assert_eq!(plan.factors, before);
    assert!(plan.arms.iter().all(|arm| arm.treatment.contains_key("time")));
}

#[test]
fn mistakes_are_told_where_they_are() {
    let cases = [
        ("kind = [\"random-access\", \"command\"]", "kind = []"),
        ("kind = [\"random-access\", \"command\"]", "kind = [\"random-access\", \"random-access\"]"),
        ("kind = [\"random-access\", \"command\"]", "kind = [\"random-access\", \"comand\"]"),
        ("kind = [\"random-access\", \"command\"]", "kind = [\"random-access\", 3]"),
        ("kind = [\"random-access\", \"command\"]\n", "kind = [\"random-access\", \"command\"]\ntable = \"1 GiB\"\n"),
        ("[workload.command]", "[workload.comand]"),
        ("[workload.command]\n", "[workload.stream]\n[workload.command]\n"),
        ("table = \"64 MiB\"", "tabel = \"64 MiB\""),
        ("metric = \"gups\"", "metric = \"gup\""),
        ("star-random-access\"", "star-random\""),
        ("page = \"4k\"\n", "environment = \"native\"\n"),
        ("lookahead = [1, 64]", "table = [\"1 MiB\", \"2 MiB\"]"),
        ("lookahead = [1, 64]", "workload = [\"command\"]"),
        ("program = \"true\"\n", ""),
        ("ratio_to =", "metric = \"gups\"\nratio_to ="),
        ("blocks\"\n", "blocks\"\npublished = \"hpc-memory-2010/hpl\"\n"),
    ];
    let golden = cases.iter().fold(String::new(), |mut golden, (from, to)| {
        assert!(SOUND.contains(from), "the sound study has no {from:?}");
        let told = parsed(&SOUND.replacen(from, to, 1)).expect_err(to);
        writeln!(golden, "{}  ->  {}\n{told}\n", from.trim(), to.trim()).expect("a string grows");
        golden
    });
    insta::assert_snapshot!(golden);
}
