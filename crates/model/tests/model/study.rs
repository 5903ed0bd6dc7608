//! What a study file with a mistake is told. Each golden is read as its author would read it.

use crate::specimen::{RANDOM_ACCESS, WORKLOADS};
use baremark_model::descriptor::Descriptor;
use baremark_model::knob::{Default, Kind, Knob};
use baremark_model::study::{Study, parse};
use baremark_model::units::{Bytes, Nanos, Share};
use baremark_model::value::Value;
use std::fmt::Write;

/// A study that is right; the cases below are this with one mistake.
pub const SOUND: &str = "\
[study]
title = \"native against virtual\"

[workload]
kind = \"random-access\"
table = \"1 GiB\"

[factors]
environment = [\"native\", \"microvm\"]
page = [\"4k\", \"2m\"]
host_backing = [\"2m\"]

[design]
precision = \"1 %\"
budget = \"3 min\"

[report]
metric = \"gups\"
rows = \"page\"
columns = \"environment\"
ratio_to = { environment = \"native\" }
";

fn parsed(text: &str) -> Result<Study, String> {
    parse("a.toml", text.as_bytes(), WORKLOADS).map_err(|problems| problems.to_string())
}

fn refusal(bytes: &[u8]) -> String {
    parse("a.toml", bytes, WORKLOADS).expect_err("a mistake").to_string()
}

/// `SOUND` with each `from` replaced by its `to`.
fn with(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(SOUND.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the sound study has no {from:?}");
        text.replacen(from, to, 1)
    })
}

/// On one line.
fn shown(text: &str) -> String {
    text.replace('\n', " \u{23ce} ")
}

/// One golden for a list of mistakes: the change, then what is said.
fn told(cases: &[(&str, &str)]) -> String {
    cases.iter().fold(String::new(), |mut golden, (from, to)| {
        let told = refusal(with(&[(from, to)]).as_bytes());
        writeln!(golden, "{}  ->  {}\n{told}\n", shown(from), shown(to)).expect("a string grows");
        golden
    })
}

#[test]
fn a_published_table_must_be_one() {
    let named = |table: &str| with(&[("\n\n[workload]", &format!("\npublished = \"{table}\"\n\n[workload]"))]);
    assert!(parsed(&named("hpc-memory-2010/stream-virtual")).is_ok());
    assert_eq!(
        refusal(named("hpc-memory-2010/star-random-acess").as_bytes()),
        "a.toml:3: there is no published table 'hpc-memory-2010/star-random-acess'; \
         did you mean 'hpc-memory-2010/star-random-access'?"
    );
}

#[test]
fn a_sound_study_is_read_as_written() {
    let study = parsed(SOUND).expect("sound");
    assert_eq!(study.title, "native against virtual");
    assert_eq!(study.workloads[0].descriptor.kind, "random-access");
    assert_eq!(study.workloads[0].parameters["table"], Value::SizeBytes(Bytes(1 << 30)));
    assert_eq!(study.workloads[0].parameters.len(), 1, "defaults are the plan's business");
    let keys: Vec<_> = study.factors.iter().map(|factor| (factor.key.as_str(), factor.line)).collect();
    assert_eq!(keys, [("environment", 9), ("page", 10), ("host_backing", 11)]);
    assert_eq!(study.design.precision, Share(0.01));
    assert_eq!(study.design.delta, Share(0.02), "twice the precision");
    assert_eq!(study.design.budget, Nanos(180_000_000_000));
    assert_eq!((study.design.least_blocks, study.design.most_blocks, study.design.quads), (6, 200, 20));
    assert_eq!(study.layout.ratio_to["environment"], Value::Choice("native".to_owned()));
}

#[test]
fn line_ends_byte_order_mark_and_comments_change_nothing() {
    let plain = parsed(SOUND).expect("sound");
    for other in [SOUND.replace('\n', "\r\n"), format!("\u{feff}{SOUND}"), format!("# why\n{SOUND}")] {
        let study = parsed(&other).expect("sound");
        assert_eq!(
            study.factors.iter().map(|f| &f.levels).collect::<Vec<_>>(),
            plain.factors.iter().map(|f| &f.levels).collect::<Vec<_>>()
        );
    }
    let windows = with(&[("page = [", "pgae = [")]).replace('\n', "\r\n");
    assert!(refusal(windows.as_bytes()).starts_with("a.toml:10: "), "lines are counted alike");
}

#[test]
fn a_level_alone_needs_no_brackets_and_numbers_may_be_written_as_toml_allows() {
    let study =
        parsed(&with(&[("[\"4k\", \"2m\"]", "\"4k\""), ("table = \"1 GiB\"", "lookahead = 0x1_0")])).expect("sound");
    assert_eq!(study.factors[1].levels.len(), 1);
    assert_eq!(study.workloads[0].parameters["lookahead"], Value::Count(16));
    let study = parsed(&with(&[("budget", "seed = 18446744073709551615\nbudget")])).expect("beyond i64");
    assert_eq!(study.design.seed, u64::MAX);
}

#[test]
fn a_level_of_ratio_to_may_be_written_another_way() {
    let study = parsed(&with(&[
        ("table = \"1 GiB\"\n", ""),
        ("page = [", "table = [\"1 GiB\", \"2 GiB\"]\nprefetch = [true, false]\npage = ["),
        ("{ environment = \"native\" }", "{ table = \"1024 MiB\", prefetch = false }"),
    ]))
    .expect("1024 MiB is 1 GiB");
    assert_eq!(study.layout.ratio_to["table"], Value::SizeBytes(Bytes(1 << 30)));
    assert_eq!(study.layout.ratio_to["prefetch"], Value::Switch(false));
}

#[test]
fn unknown_names() {
    let golden = told(&[
        ("[factors]", "[factor]"),
        ("[design]", "[weather]"),
        ("precision =", "precison ="),
        ("precision =", "weather ="),
        ("budget =", "metric ="),
        ("table =", "tabel ="),
        ("table = \"1 GiB\"", "page = \"4k\""),
        ("kind = \"random-access\"", "kind = \"randomaccess\""),
        ("kind = \"random-access\"", "kind = \"sort\""),
        ("kind = \"random-access\"", "kind = 3"),
        ("kind = \"random-access\"\n", ""),
        ("page = [", "pgae = ["),
        ("page = [", "weather = ["),
        ("metric = \"gups\"", "metric = \"gup\""),
        ("rows = \"page\"", "rows = \"pages\""),
        ("columns = \"environment\"", "columns = \"threads\""),
    ]);
    insta::assert_snapshot!(golden);
}

#[test]
fn values_that_do_not_fit() {
    let golden = told(&[
        ("table = \"1 GiB\"", "table = 1"),
        ("table = \"1 GiB\"", "table = \"1\""),
        ("table = \"1 GiB\"", "table = \"3 min\""),
        ("table = \"1 GiB\"", "table = \"1 gb\""),
        ("table = \"1 GiB\"", "table = \"large\""),
        ("table = \"1 GiB\"", "table = \"-1 GiB\""),
        ("table = \"1 GiB\"", "table = \"1 KiB\""),
        ("table = \"1 GiB\"", "table = \"99999999999 TiB\""),
        ("table = \"1 GiB\"", "table = [\"1 GiB\", \"2 GiB\"]"),
        ("table = \"1 GiB\"", "lookahead = 0"),
        ("table = \"1 GiB\"", "lookahead = -1"),
        ("table = \"1 GiB\"", "lookahead = 99999999999999999999"),
        ("table = \"1 GiB\"", "lookahead = 1.5"),
        ("table = \"1 GiB\"", "lookahead = \"16\""),
        ("table = \"1 GiB\"", "prefetch = \"yes\""),
        ("table = \"1 GiB\"", "variant = \"chaise\""),
        ("table = \"1 GiB\"", "pause = \"2 s\""),
        ("table = \"1 GiB\"", "skew = \"1\""),
        ("table = \"1 GiB\"", "skew = \"200 %\""),
        ("budget = \"3 min\"", "budget = \"3 m\""),
        ("budget = \"3 min\"", "budget = 2026-01-01"),
        ("page = [\"4k\", \"2m\"]", "page = [\"4k\", \"1g\"]"),
        ("page = [\"4k\", \"2m\"]", "page = [\"4k\", \"2M\"]"),
        ("[\"native\", \"microvm\"]", "[\"native\", \"micro-vm\"]"),
        ("title = \"native against virtual\"", "title = 7"),
        ("[design]", "[[design]]"),
    ]);
    insta::assert_snapshot!(golden);
}

#[test]
fn factors_and_reports_that_say_nothing() {
    let golden = told(&[
        ("page = [\"4k\", \"2m\"]", "page = []"),
        ("page = [\"4k\", \"2m\"]", "page = [\"4k\", \"4k\"]"),
        ("page = [", "table = [\"2 GiB\"]\npage = ["),
        ("page = [\"4k\", \"2m\"]", "table = [\"1 GiB\", \"1024 MiB\"]"),
        ("{ environment = \"native\" }", "\"native\""),
        ("{ environment = \"native\" }", "{ }"),
        ("{ environment = \"native\" }", "{ enviroment = \"native\" }"),
        ("{ environment = \"native\" }", "{ ranks = 1 }"),
        ("{ environment = \"native\" }", "{ environment = \"null\" }"),
        ("{ environment = \"native\" }", "{ page = \"3k\" }"),
        ("{ environment = \"native\" }", "{ page = 4 }"),
        ("environment = [\"native\", \"microvm\"]\npage = [\"4k\", \"2m\"]\nhost_backing = [\"2m\"]\n", ""),
    ]);
    insta::assert_snapshot!(golden);
}

#[test]
fn designs_that_cannot_end_well() {
    let golden = told(&[
        ("budget =", "delta = \"1.5 %\"\nbudget ="),
        ("budget =", "least_blocks = 20\nmost_blocks = 12\nbudget ="),
        ("budget =", "most_blocks = 5\nbudget ="),
        ("precision = \"1 %\"", "precision = \"often\"\ndelta = \"0.5 %\""),
        ("title = \"native against virtual\"\n", ""),
        ("[study]\ntitle = \"native against virtual\"\n", ""),
    ]);
    insta::assert_snapshot!(golden);
}

#[test]
fn a_workload_whose_parameter_would_be_lost_is_refused() {
    const COUNT: Knob = Knob::new("count", Kind::Count { min: 1, max: 9 }, Default::Typed("3")).help("operations");
    const OWN: Knob = Knob::new("operations", Kind::Count { min: 1, max: 9 }, Default::Typed("3")).help("operations");
    static COUNTS: Descriptor = Descriptor { parameters: &[COUNT], ..RANDOM_ACCESS };
    static TWICE: Descriptor = Descriptor { parameters: &[OWN, OWN], ..RANDOM_ACCESS };
    let text = with(&[("table = \"1 GiB\"\n", "")]);
    let refused =
        |known: &[&'static Descriptor]| parse("a.toml", text.as_bytes(), known).expect_err("lost").to_string();
    let expected = |key| {
        format!(
            "a.toml:5: workload 'random-access': its parameter '{key}' means something else in every study; \
             give the parameter another name in the workload's table"
        )
    };
    assert_eq!(refused(&[&COUNTS]), expected("count"));
    assert_eq!(refused(&[&TWICE]), expected("operations"));
}

#[test]
fn a_parameter_without_default_must_be_said() {
    let command = "[study]\ntitle = \"t\"\n[workload]\nkind = \"command\"\n";
    insta::assert_snapshot!(refusal(command.as_bytes()), @r#"a.toml:3: workload 'command' needs 'program', which has no default; write program in [workload]: text in quotation marks"#);
    assert!(parsed(&format!("{command}program = \"true\"\n")).is_ok());
    assert!(parsed(&format!("{command}[factors]\nprogram = [\"true\", \"false\"]\n")).is_ok());
}

#[test]
fn files_that_are_no_toml() {
    let golden = told(&[
        ("\"1 GiB\"", "1 GiB"),
        ("\"1 GiB\"", "\"1 GiB"),
        ("[factors]", "[factors"),
        ("page = [\"4k\", \"2m\"]", "page = [\"4k\", \"2m\""),
        ("budget = \"3 min\"", "budget = \"3 min\"\nbudget = \"4 min\""),
        ("[design]", "[workload]"),
        ("[design]", "design"),
    ]);
    insta::assert_snapshot!(golden);
}

#[test]
fn bytes_that_are_no_text() {
    let mut bytes = SOUND.as_bytes().to_vec();
    bytes[30] = 0xff;
    insta::assert_snapshot!(refusal(&bytes), @r#"a.toml:2: not UTF-8 text: invalid utf-8 sequence of 1 bytes from index 30; save the file as UTF-8, or name a study file"#);
    insta::assert_snapshot!(refusal(b""), @r#"
    a.toml: the study has no title; write title = "the study's question" in [study]
    a.toml: the study names no workload; write kind in [workload], one of random-access, command
    "#);
    insta::assert_snapshot!(refusal(b"\xff\xfe["), @r#"a.toml:1: not UTF-8 text: invalid utf-8 sequence of 1 bytes from index 0; save the file as UTF-8, or name a study file"#);
}

#[test]
fn several_mistakes_are_told_at_once_in_the_order_of_their_lines() {
    let text = with(&[
        ("ratio_to = {", "colour = 1\nratio_to = {"),
        ("precision", "precison"),
        ("\"1 GiB\"", "\"1\""),
        ("title", "titel"),
        ("\"2m\"]\nhost", "\"2x\"]\nhost"),
    ]);
    insta::assert_snapshot!(refusal(text.as_bytes()));
}

#[test]
fn a_name_of_a_mile_is_not_repeated_in_full() {
    let text = with(&[("table", &"t".repeat(100_000))]);
    let told = refusal(text.as_bytes());
    assert!(told.len() < 1000, "{} bytes", told.len());
    let text = with(&[("1 GiB", &"9".repeat(100_000))]);
    let told = refusal(text.as_bytes());
    assert!(told.len() < 1000, "{} bytes", told.len());
}

#[test]
fn a_file_beyond_any_study_is_refused_before_it_is_read() {
    let mut large = SOUND.to_owned();
    while large.len() <= 1 << 20 {
        large.push_str("# and so on, and so on, and so on, and so on\n");
    }
    insta::assert_snapshot!(refusal(large.as_bytes()), @r#"a.toml: the file has 1048603 bytes, more than the 1048576 of any study; name a study file"#);
    let many = SOUND.to_owned() + &(0..20_000).fold(String::new(), |text, n| text + &format!("key{n} = 1\n"));
    assert!(refusal(many.as_bytes()).lines().count() <= 101, "the rest is counted, not listed");
}

#[test]
fn a_factor_with_more_levels_than_a_table_can_hold_is_refused() {
    let levels: Vec<String> = (1..=1024).map(|n| n.to_string()).collect();
    let text =
        with(&[("page = [\"4k\", \"2m\"]", &format!("lookahead = [{}]\npage = [\"4k\", \"2m\"]", levels.join(", ")))]);
    insta::assert_snapshot!(refusal(text.as_bytes()), @r#"a.toml:10: factor 'lookahead' has 1024 levels; write 256 or fewer"#);
}

/// `SOUND` with environments of these names, and these sections below it.
fn places(levels: &str, sections: &str) -> String {
    with(&[("[\"native\", \"microvm\"]", levels), ("host_backing = [\"2m\"]\n", "")]) + sections
}

#[test]
fn a_place_under_another_name_has_what_is_set_for_it_and_what_its_like_has() {
    let own = "[environments.tuned]\nlike = \"qemu\"\nbacking = \"2m\"\n";
    let base = "[environments.qemu]\nvcpus = 2\nbacking = \"4k\"\n";
    for sections in [format!("{own}{base}"), format!("{base}{own}")] {
        let study = parsed(&places("[\"native\", \"qemu\", \"tuned\"]", &sections)).expect("sound");
        let word = |word: &str| Value::Choice(word.to_owned());
        let tuned = &study.environments["tuned"];
        assert_eq!(
            (&tuned["like"], &tuned["vcpus"], &tuned["backing"]),
            (&word("qemu"), &Value::Count(2), &word("2m"))
        );
        assert_eq!(study.environments["qemu"]["backing"], word("4k"), "the other keeps its own");
        let environment = study.factors.iter().find(|factor| factor.key == "environment").expect("a factor");
        assert_eq!(environment.levels, ["native", "qemu", "tuned"].map(word));
    }
}

#[test]
fn a_name_that_is_no_place_says_what_it_is_like() {
    let tuned = "[environments.tuned]\nlike = \"qemu\"\n";
    let cases = [
        ("[\"native\"]", "[environments.quemu]\nvcpus = 2\n".to_owned()),
        ("[\"native\"]", "[environments.tuned]\nvcpus = 2\n".to_owned()),
        ("[\"native\"]", "[environments.tuned]\nlike = \"qmu\"\nvcpus = 0\n".to_owned()),
        ("[\"native\"]", "[environments.tuned]\nlike = \"native\"\n".to_owned()),
        ("[\"native\"]", format!("{tuned}seccomp = \"off\"\n")),
        ("[\"native\"]", "[environments.\"a b\"]\nlike = \"qemu\"\n".to_owned()),
        ("[\"native\"]", "[environments.qemu]\nlike = \"container\"\n".to_owned()),
        ("[\"native\"]", "[environments]\ntuned = \"qemu\"\n".to_owned()),
        ("[\"native\", \"tunned\"]", tuned.to_owned()),
        ("[\"native\", \"tuned\", \"tuned\"]", tuned.to_owned()),
    ];
    let told = cases.iter().fold(String::new(), |mut golden, (levels, sections)| {
        let told = refusal(places(levels, sections).as_bytes());
        writeln!(golden, "environment = {levels}  {}\n{told}\n", shown(sections)).expect("a string grows");
        golden
    });
    insta::assert_snapshot!(told);
}
