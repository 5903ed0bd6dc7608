//! What a study comes to on a machine: arms, pairs, cells, and what is refused.

use crate::specimen::WORKLOADS;
use baremark_model::arm::{ExecutorKind, Frames, GuestTables};
use baremark_model::descriptor::{Descriptor, Footprint, HeldBy};
use baremark_model::environments::{ALL, LIKE, NAMES};
use baremark_model::knob::Kind;
use baremark_model::page_size::PageSize;
use baremark_model::plan::{Cell, Contrast, Limits, Mode, Pair, Plan, QUICK_BLOCKS, level_of, resolve};
use baremark_model::study::parse;
use baremark_model::units::{Bytes, Nanos};
use baremark_model::value::Value;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A study of random-access with these factors and this `ratio_to`.
fn study(factors: &str, ratio_to: &str) -> String {
    let report = if ratio_to.is_empty() { String::new() } else { format!("[report]\nratio_to = {ratio_to}\n") };
    format!(
        "[study]\ntitle = \"t\"\n[workload]\nkind = \"random-access\"\ntable = \"1 GiB\"\n[factors]\n{factors}\n{report}"
    )
}

/// The study of the design page.
const SKETCH: &str = "environment = [\"native\", \"microvm\"]\npage = [\"4k\", \"2m\"]\nhost_backing = [\"2m\"]";
const TO_NATIVE: &str = "{ environment = \"native\" }";

fn machine() -> Limits {
    Limits {
        cpus: vec![0, 1, 2, 3],
        quota_millicpus: None,
        topology: None,
        memory_available: Bytes(8 << 30),
        absent: BTreeMap::new(),
        emulated: BTreeSet::new(),
        found: BTreeMap::new(),
    }
}

fn without(environment: &str) -> Limits {
    let reason = "no /dev/kvm; load the module kvm_intel".to_owned();
    Limits { absent: BTreeMap::from([(environment.to_owned(), reason)]), ..machine() }
}

fn outcome(text: &str, limits: &Limits, mode: Mode) -> Result<Plan, String> {
    let study = parse("a.toml", text.as_bytes(), WORKLOADS).expect("the study is sound");
    resolve("a.toml", &study, limits, mode).map_err(|problems| problems.to_string())
}

fn planned(text: &str) -> Plan {
    outcome(text, &machine(), Mode::default()).expect("a plan")
}

fn refused(text: &str) -> String {
    outcome(text, &machine(), Mode::default()).expect_err("a refusal")
}

/// An arm in one line: "microvm page=4k".
fn name(plan: &Plan, arm: usize) -> String {
    let treatment = &plan.arms[arm].treatment;
    treatment.iter().map(|(key, level)| format!("{key}={level}")).collect::<Vec<_>>().join(" ")
}

/// Every ratio in one line.
fn ratios(plan: &Plan) -> Vec<String> {
    let line = |pair: &Pair| {
        format!("{} : {} ({:?})", name(plan, pair.numerator), name(plan, pair.denominator), pair.contrast)
    };
    asked(plan).map(line).collect()
}

/// The ratios that the study asks for.
fn asked(plan: &Plan) -> impl Iterator<Item = &Pair> {
    plan.pairs.iter().filter(|pair| pair.asked)
}

#[test]
fn where_small_and_large_pages_are_measured_their_contrast_explains() {
    let plan = planned(&study(SKETCH, TO_NATIVE));
    let contrasts: Vec<&Pair> = plan.pairs.iter().filter(|pair| !pair.asked).collect();
    assert_eq!(contrasts.len(), 2, "native and microvm, each large against small");
    for pair in contrasts {
        assert_eq!((pair.contrast, pair.interleaved), (Contrast::PageSize, false));
        let (large, small) = (&plan.arms[pair.numerator], &plan.arms[pair.denominator]);
        assert_eq!((large.arm.page, small.arm.page), (PageSize::Large, PageSize::Small));
        assert_eq!(large.environment, small.environment);
    }
    assert_eq!(plan.cells.len(), 2, "they need no trial of their own");
}

#[test]
fn the_sketch_gives_four_arms_and_two_ratios_at_equal_page_size() {
    let plan = planned(&study(SKETCH, TO_NATIVE));
    let arms: Vec<_> = (0..plan.arms.len()).map(|arm| name(&plan, arm)).collect();
    assert_eq!(
        arms,
        [
            "environment=native page=4k",
            "environment=native page=2m",
            "environment=microvm host_backing=2m page=4k",
            "environment=microvm host_backing=2m page=2m",
        ],
        "native knows no host_backing"
    );
    assert_eq!(
        ratios(&plan),
        [
            "environment=microvm host_backing=2m page=4k : environment=native page=4k (Environment)",
            "environment=microvm host_backing=2m page=2m : environment=native page=2m (Environment)",
        ],
        "never guest 4k over native 2m, which once gave 2.6 where 1.3 is right"
    );
    assert_eq!(plan.cells, [Cell::Pair(0), Cell::Pair(1)]);
    assert_eq!(plan.arms_of(plan.cells[0]), [0, 2], "denominator first");
    assert_eq!(plan.metric, "gups", "the workload's first metric");
    assert_eq!(plan.columns, "environment");
}

#[test]
fn an_arm_is_told_everything() {
    let plan = planned(&study(SKETCH, TO_NATIVE));
    let (native, guest) = (&plan.arms[0].arm, &plan.arms[2].arm);
    assert_eq!((native.executor, guest.executor), (ExecutorKind::Direct, ExecutorKind::Microvm));
    assert_eq!((native.host_backing, guest.host_backing), (None, Some(PageSize::Large)));
    assert_eq!((native.guest_tables, guest.guest_tables), (None, Some(GuestTables::Contiguous)));
    assert_eq!((native.buffer_page(), guest.buffer_page()), (PageSize::Small, PageSize::Large));
    assert_eq!((native.ranks, guest.ranks), (4, 4), "one per CPU");
    assert_eq!(native.parameters["table"], Value::SizeBytes(Bytes(1 << 30)));
    assert_eq!(native.parameters["lookahead"], Value::Count(128), "a default");
    assert!(!native.parameters.contains_key("stream"), "derived defaults are the workload's business");
}

#[test]
fn each_host_backing_is_compared_with_the_one_native() {
    let plan = planned(&study(&SKETCH.replace("[\"2m\"]", "[\"4k\", \"2m\"]"), TO_NATIVE));
    assert_eq!(plan.arms.len(), 6);
    assert_eq!(
        ratios(&plan),
        [
            "environment=microvm host_backing=4k page=4k : environment=native page=4k (Environment)",
            "environment=microvm host_backing=2m page=4k : environment=native page=4k (Environment)",
            "environment=microvm host_backing=4k page=2m : environment=native page=2m (Environment)",
            "environment=microvm host_backing=2m page=2m : environment=native page=2m (Environment)",
        ]
    );
}

/// Small pages of a virtual machine over large ones lie over contiguous frames, and so does the native memory that they are compared with.
#[test]
fn a_virtual_machine_is_compared_with_native_memory_that_lies_like_its_own() {
    let with_frames = |levels: &str| {
        SKETCH.replace("host_backing = [\"2m\"]", &format!("host_backing = [\"4k\", \"2m\"]\npage_frames = {levels}"))
    };
    let plan = planned(&study(&with_frames("[\"default\", \"contiguous\"]"), TO_NATIVE));
    assert_eq!(
        ratios(&plan),
        [
            "environment=microvm host_backing=4k page=4k page_frames=default : environment=native page=4k page_frames=default (Environment)",
            "environment=microvm host_backing=4k page=4k page_frames=contiguous : environment=native page=4k page_frames=contiguous (Environment)",
            "environment=microvm host_backing=2m page=4k : environment=native page=4k page_frames=contiguous (Environment)",
            "environment=microvm host_backing=4k page=2m page_frames=default : environment=native page=2m (Environment)",
            "environment=microvm host_backing=4k page=2m page_frames=contiguous : environment=native page=2m (Environment)",
            "environment=microvm host_backing=2m page=2m : environment=native page=2m (Environment)",
        ],
        "memory in large pages has no level of frames"
    );
    let frames: Vec<&Pair> = plan.pairs.iter().filter(|pair| pair.contrast == Contrast::Frames).collect();
    let [frames] = frames.as_slice() else { panic!("one contrast of frames, natively: {frames:?}") };
    assert_eq!(name(&plan, frames.numerator), "environment=native page=4k page_frames=contiguous");
    assert_eq!(name(&plan, frames.denominator), "environment=native page=4k page_frames=default");
    assert!(frames.interleaved && !frames.asked);
    assert_eq!(plan.cells.len(), 7, "its arms take turns in a trial");
    let arm =
        |named: &str| plan.arms.iter().find(|arm| arm.treatment.get("page_frames").is_some_and(|level| level == named));
    assert_eq!(arm("contiguous").map(|arm| arm.arm.frames), Some(Frames::Contiguous));

    let native = study(&with_frames("[\"default\", \"contiguous\"]").replace("microvm", "container"), TO_NATIVE)
        .replace("host_backing = [\"4k\", \"2m\"]\n", "");
    let native = planned(&native);
    assert_eq!(native.arms.len(), 4, "beside containers alone nothing lies so");
    let reason = native.absent.iter().map(|absent| absent.reason.as_str()).collect::<Vec<_>>();
    assert_eq!(reason, ["no virtual machine of this study can be measured here whose memory lies so"]);

    let plain = planned(&study(&with_frames("\"default\""), TO_NATIVE));
    assert!(plain.pairs.iter().all(|pair| pair.contrast != Contrast::Frames));
    assert!(
        ratios(&plain).contains(
            &"environment=microvm host_backing=2m page=4k : environment=native page=4k page_frames=default (Environment)"
                .to_owned()
        )
    );
}

#[test]
fn a_ratio_across_page_sizes_is_named_as_one() {
    let plan = planned(&study(SKETCH, "{ page = \"4k\" }"));
    assert_eq!(
        ratios(&plan),
        [
            "environment=native page=2m : environment=native page=4k (PageSize)",
            "environment=microvm host_backing=2m page=2m : environment=microvm host_backing=2m page=4k (PageSize)",
        ]
    );
    let plan = planned(&study(SKETCH, "{ environment = \"native\", page = \"4k\" }"));
    let contrasts: Vec<_> = asked(&plan).map(|pair| pair.contrast).collect();
    assert_eq!(contrasts, [Contrast::PageSize, Contrast::Environment, Contrast::PageSize]);
}

#[test]
fn a_ratio_whose_arms_differ_in_more_than_the_environment_is_no_cost_of_virtualization() {
    let plan = planned(&study(
        "environment = [\"native\", \"microvm\"]\nranks = [1, 2]",
        "{ environment = \"native\", ranks = 1 }",
    ));
    assert_eq!(
        ratios(&plan),
        [
            "environment=native ranks=2 : environment=native ranks=1 (Factor)",
            "environment=microvm ranks=1 : environment=native ranks=1 (Environment)",
            "environment=microvm ranks=2 : environment=native ranks=1 (Factor)",
        ]
    );
}

#[test]
fn a_parameter_of_the_workload_may_be_a_factor() {
    let factors = "variant = [\"update\", \"chase\"]\nlookahead = [1, 64]";
    let plan = planned(&study(factors, "{ variant = \"update\" }"));
    assert_eq!(
        ratios(&plan),
        [
            "lookahead=1 variant=chase : lookahead=1 variant=update (Factor)",
            "lookahead=64 variant=chase : lookahead=64 variant=update (Factor)",
        ]
    );
    assert_eq!(plan.arms[1].arm.parameters["lookahead"], Value::Count(64));
    assert!(plan.arms.iter().all(|arm| arm.environment == "native"), "where nothing is said");
}

#[test]
fn levels_that_differ_are_different_treatments_however_little() {
    let plan = planned(&study("pause = [\"101.234567 ms\", \"101.234568 ms\"]\nskew = [\"1 %\", \"1.00001 %\"]", ""));
    let mut names: Vec<_> = (0..4).map(|arm| name(&plan, arm)).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn several_environments_are_compared_with_native_where_nothing_else_is_asked_for() {
    let (unsaid, said) = (planned(&study(SKETCH, "")), planned(&study(SKETCH, TO_NATIVE)));
    assert!(!said.pairs.is_empty());
    assert_eq!((unsaid.pairs, unsaid.cells), (said.pairs, said.cells));
}

#[test]
fn without_ratios_every_arm_is_measured_alone() {
    let without_native = SKETCH.replace("[\"native\", \"microvm\"]", "[\"container\", \"microvm\"]");
    let plan = planned(&study(&without_native, ""));
    assert!(plan.pairs.is_empty());
    assert_eq!(plan.cells, [Cell::Single(0), Cell::Single(1), Cell::Single(2), Cell::Single(3)]);
    assert_eq!(plan.least_block(), Nanos(4 * 2 * 100_000_000), "four cells of two phases of 100 ms");
}

#[test]
fn what_the_machine_lacks_stays_in_the_plan_with_its_reason() {
    let plan = outcome(&study(SKETCH, TO_NATIVE), &without("microvm"), Mode::default()).expect("native still runs");
    assert_eq!(plan.arms.len(), 2);
    assert!(plan.pairs.is_empty());
    assert_eq!(plan.cells, [Cell::Single(0), Cell::Single(1)], "native is still worth its time");
    assert_eq!(plan.absent.len(), 2);
    assert!(plan.absent.iter().all(|absent| absent.reason == "no /dev/kvm; load the module kvm_intel"));
    assert_eq!(plan.absent[0].treatment["host_backing"], "2m");

    let plan = outcome(&study(SKETCH, "{ environment = \"microvm\" }"), &without("microvm"), Mode::default());
    assert!(plan.expect("the denominator is what lacks").pairs.is_empty());
}

#[test]
fn features_of_this_host_are_refused_for_work_on_other_machines() {
    let settings = "[environments.ssh]\nhost = \"machine\"\n[environments.slurm]\npartition = \"p\"\n\
                    [environments.kubernetes]\nimage = \"busybox\"\n[environments.hosts]\nlike = \"mpi\"\nhostfile = \"/hosts\"\n\
                    [environments.far]\nlike = \"ssh\"\nhost = \"other\"\n";
    let of = |environments: &str, factor: &str| {
        let text = study(&format!("environment = {environments}\npage = \"4k\"\n{factor}"), "");
        outcome(&format!("{text}\n{settings}"), &machine(), Mode::default())
    };
    let hosted_here = ["native", "microvm", "null", "container", "qemu", "mpi"];
    let elsewhere = ["ssh", "slurm", "kubernetes", "hosts", "far"];
    let listed =
        |names: &[&str]| format!("[{}]", names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", "));
    let feature = "\"host.swappiness\" = [10, 60]";
    let plan = of(&listed(&[&hosted_here[..], &elsewhere[..]].concat()), feature).expect("a plan");
    // No arm has both: nothing is set here that is reported of another machine.
    let with: BTreeSet<&str> = plan.arms.iter().map(|arm| arm.environment.as_str()).collect();
    assert_eq!(with, BTreeSet::from(hosted_here));
    assert_eq!(plan.absent.len(), 2 * elsewhere.len(), "{:?}", plan.absent);
    for absent in &plan.absent {
        let environment = &absent.treatment["environment"];
        let expected = format!(
            "host.swappiness is set on this machine, and '{environment}' runs on another; run the study on that machine"
        );
        assert!(elsewhere.contains(&environment.as_str()) && absent.reason.starts_with(&expected), "{absent:?}");
    }
    // Alone there is nothing to run, and a study without such a factor is as it was.
    let why = of("\"ssh\"", feature).expect_err("nothing can run");
    assert!(why.contains("nothing in this study can run here") && why.contains("'ssh' runs on another"), "{why}");
    assert!(of(&listed(&elsewhere), "").expect("a plan").absent.is_empty());
}

#[test]
fn a_level_of_a_parameter_that_the_machine_lacks_is_absent_natively_alone() {
    let absent = BTreeMap::from([(level_of("random-access", "table", "2 GiB"), "no room; free some".to_owned())]);
    let text = study("environment = [\"native\", \"microvm\"]\ntable = [\"1 GiB\", \"2 GiB\"]", "");
    let text = text.replace("table = \"1 GiB\"\n[factors]", "[factors]");
    let plan = outcome(&text, &Limits { absent, ..machine() }, Mode::default()).expect("the rest runs");
    let found: Vec<_> =
        plan.absent.iter().map(|of| (of.treatment["environment"].as_str(), of.reason.as_str())).collect();
    assert_eq!(found, [("native", "table = 2 GiB: no room; free some")]);
    assert_eq!(plan.arms.len(), 3);
}

#[test]
fn null_measures_our_floor_and_is_in_no_ratio() {
    let factors = "environment = [\"native\", \"microvm\", \"null\"]";
    let plan = planned(&study(factors, TO_NATIVE));
    assert_eq!(ratios(&plan), ["environment=microvm : environment=native (Environment)"]);
    assert_eq!(plan.cells, [Cell::Pair(0), Cell::Single(2)]);
    assert_eq!(plan.arms[2].arm.executor, ExecutorKind::Null);
}

#[test]
fn a_self_check_puts_each_arm_against_itself() {
    let mode = Mode { self_check: true, ..Mode::default() };
    let plan = outcome(&study(SKETCH, TO_NATIVE), &machine(), mode).expect("a plan");
    let same =
        |arm| Pair { numerator: arm, denominator: arm, contrast: Contrast::SelfCheck, interleaved: true, asked: true };
    assert_eq!(plan.pairs, [same(0), same(1), same(2), same(3)]);
    assert_eq!(plan.cells, (0..4).map(Cell::Pair).collect::<Vec<_>>());
}

#[test]
fn quick_takes_the_fewest_blocks_and_the_smaller_size() {
    let mode = Mode { quick: true, ..Mode::default() };
    let text = study(SKETCH, TO_NATIVE);
    let plan = outcome(&text, &machine(), mode).expect("a plan");
    assert_eq!((plan.design.least_blocks, plan.design.most_blocks), (QUICK_BLOCKS, QUICK_BLOCKS));
    let content = format!("{}\n[design]\nleast_blocks = 4\n", study(SKETCH, TO_NATIVE));
    let few = outcome(&content, &machine(), mode).expect("a plan");
    assert_eq!((few.design.least_blocks, few.design.most_blocks), (4, 4), "never more than without --quick");
    assert_eq!(plan.design.quads, 10);
    assert_eq!(plan.least_block(), Nanos(2 * 40 * 5_000_000));
    assert!(plan.arms.iter().all(|arm| arm.arm.parameters["table"] == Value::SizeBytes(Bytes(64 << 20))));

    let small = outcome(&text.replace("1 GiB", "2 MiB"), &machine(), mode).expect("a plan");
    assert_eq!(small.arms[0].arm.parameters["table"], Value::SizeBytes(Bytes(2 << 20)), "not made larger by quick");

    let varied = text.replace("table = \"1 GiB\"\n", "").replace("[factors]", "[factors]\ntable = [\"1 GiB\"]");
    let plan = outcome(&varied, &machine(), mode).expect("a plan");
    assert_eq!(plan.arms[0].arm.parameters["table"], Value::SizeBytes(Bytes(1 << 30)), "a level is a level");
}

#[test]
fn one_trial_must_fit_into_memory() {
    let fits = |factors: &str, ratio_to: &str, gib: u64| {
        let limits = Limits { memory_available: Bytes(gib << 30), ..machine() };
        outcome(&study(factors, ratio_to).replace("1 GiB", "4 GiB"), &limits, Mode::default())
    };
    let both = "environment = [\"native\", \"microvm\"]\npage = \"2m\"";
    assert!(fits(both, TO_NATIVE, 4).is_err(), "each arm has a buffer of its own, also where pages are alike");
    assert!(fits(both, TO_NATIVE, 8).is_ok());
    let apart = "environment = [\"native\", \"microvm\"]\npage = \"4k\"\nhost_backing = \"2m\"";
    assert!(fits(apart, TO_NATIVE, 8).is_ok());
    insta::assert_snapshot!(fits(apart, TO_NATIVE, 7).expect_err("two buffers"), @r#"a.toml:5: table needs 8 GiB of memory in one trial, and 7.0 GiB are available; write a smaller table"#);
    assert!(fits(&apart.replace("native", "container"), "", 4).is_ok(), "one after the other");
    let limits = Limits { memory_available: Bytes((4 << 30) + 1), ..machine() };
    let varied = study("table = [\"2 GiB\", \"8 GiB\"]", "").replacen("table = \"1 GiB\"\n", "", 1);
    let plan = outcome(&varied, &limits, Mode::default()).expect("the first fits");
    assert_eq!(plan.arms.len(), 1);
    assert_eq!(holes(&plan), ["table=8 GiB: table needs 8 GiB of memory, and 4.0 GiB are available"]);
    let limits = Limits { memory_available: Bytes(5 << 30), ..machine() };
    let paired = format!("table = [\"2 GiB\", \"4 GiB\"]\n{both}");
    let paired = study(&paired, TO_NATIVE).replacen("table = \"1 GiB\"\n", "", 1);
    let plan = outcome(&paired, &limits, Mode::default()).expect("the first size fits twice");
    assert_eq!(
        holes(&plan),
        [
            "environment=microvm page=2m table=4 GiB: table needs 8 GiB of memory in one trial, and 5.0 GiB are available"
        ]
    );
    assert_eq!((plan.arms.len(), plan.cells.len()), (3, 2), "the larger one natively, alone");
}

/// Every hole in one line.
fn holes(plan: &Plan) -> Vec<String> {
    let line = |absent: &baremark_model::plan::Absent| {
        let levels: Vec<String> = absent.treatment.iter().map(|(key, level)| format!("{key}={level}")).collect();
        format!("{}: {}", levels.join(" "), absent.reason)
    };
    plan.absent.iter().map(line).collect()
}

#[test]
fn a_share_of_the_host_is_given_to_machines_of_equal_size_or_is_absent() {
    let factors =
        "environment = [\"native\", \"microvm\"]\ncount = [1, 2]\nprovisioned = [\"100 %\", \"75 %\", \"50 %\"]";
    let plan = planned(&study(factors, TO_NATIVE));
    let arms: Vec<_> =
        plan.arms.iter().map(|arm| (arm.arm.parts, arm.arm.ranks, arm.treatment.get("provisioned"))).collect();
    let [whole, most, half] = ["100 %", "75 %", "50 %"].map(ToOwned::to_owned);
    assert_eq!(
        arms,
        [
            (1, 4, None),
            (1, 4, Some(&whole)),
            (1, 3, Some(&most)),
            (1, 2, Some(&half)),
            (2, 2, Some(&whole)),
            (2, 1, Some(&half))
        ],
        "native has the whole machine; parts, ranks of each, share"
    );
    assert_eq!(
        holes(&plan),
        ["count=2 environment=microvm provisioned=75 %: 75 % of 4 CPUs in 2 machines of equal size is 4 ranks (100 %)"]
    );
    let two = Limits { cpus: vec![0, 1], ..machine() };
    let text = study("environment = \"microvm\"\nprovisioned = [\"100 %\", \"95 %\"]", "");
    let plan = outcome(&text, &two, Mode::default()).expect("one of them can run");
    assert_eq!(
        holes(&plan),
        ["environment=microvm provisioned=95 %: 95 % of 2 CPUs in 1 machine of equal size is 2 ranks (100 %)"]
    );
    let said = refused(&study("environment = \"microvm\"\nranks = 2\nprovisioned = \"50 %\"", ""));
    assert!(said.contains("provisioned and ranks both say how many ranks there are; drop one of them"), "{said}");
}

#[test]
fn several_machines_divide_the_ranks_and_are_compared_with_the_one_native() {
    let plan = planned(&study("environment = [\"native\", \"microvm\"]\nranks = [1, 4]\ncount = [1, 2]", TO_NATIVE));
    assert_eq!(
        ratios(&plan),
        [
            "count=1 environment=microvm ranks=1 : environment=native ranks=1 (Environment)",
            "count=1 environment=microvm ranks=4 : environment=native ranks=4 (Environment)",
            "count=2 environment=microvm ranks=4 : environment=native ranks=4 (Environment)",
        ]
    );
    let shape = |arm: usize| (plan.arms[arm].arm.ranks, plan.arms[arm].arm.parts, plan.arms[arm].arm.all_ranks());
    assert_eq!(shape(plan.arms.len() - 1), (2, 2, 4), "each of two machines has half of the ranks");
    assert_eq!(plan.arms[4].arm.parameters["table"], Value::SizeBytes(Bytes(1 << 30)), "sizes are of all together");
    assert_eq!(holes(&plan), ["count=2 environment=microvm ranks=1: a team of 1 cannot be divided over 2 machines"]);
}

#[test]
fn more_ranks_than_cpus_leave_a_hole_in_the_table() {
    let plan = planned(&study("ranks = [1, 2, 4, 8, 16]", "{ ranks = 1 }"));
    assert_eq!(plan.arms.len(), 3);
    assert_eq!(
        holes(&plan),
        [
            "ranks=8: 8 ranks need a CPU each, and this process may use 4",
            "ranks=16: 16 ranks need a CPU each, and this process may use 4",
        ]
    );
}

#[test]
fn what_lies_in_the_study_is_refused() {
    let cases = [
        ("host_backing = [\"2m\"]\nguest_tables = \"scattered\"", ""),
        ("ranks = 5", ""),
        ("environment = \"native\"\ncount = 2", ""),
        (SKETCH, "{ environment = \"native\", host_backing = \"2m\" }"),
        ("table = [\"1 GiB\", \"3 GiB\"]", ""),
    ];
    let mut golden = String::new();
    for (factors, ratio_to) in cases {
        let text = study(factors, ratio_to);
        let text = if factors.starts_with("table") { text.replacen("table = \"1 GiB\"\n", "", 1) } else { text };
        golden += &format!("{}\n{}\n\n", factors.replace('\n', "; "), refused(&text));
    }
    golden += &format!("table = \"3 GiB\" in [workload]\n{}\n\n", refused(&study("", "").replace("1 GiB", "3 GiB")));
    let command = "[study]\ntitle = \"t\"\n[workload]\nkind = \"command\"\nprogram = \"true\"\n[factors]\nenvironment = \"microvm\"\n";
    golden += &format!("command in a microvm\n{}\n\n", refused(command));
    let wide = "page = [\"4k\", \"2m\"]\nlookahead = [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]\npause = [\"1 ns\",\"2 ns\",\"3 ns\",\"4 ns\",\"5 ns\",\"6 ns\",\"7 ns\",\"8 ns\"]\nstream = [1,2,3,4,5,6,7,8]\nskew = [\"1 %\",\"2 %\",\"3 %\",\"4 %\"]";
    golden += &format!("8192 treatments\n{}\n\n", refused(&study(wide, "")));
    insta::assert_snapshot!(golden);
}

#[test]
fn what_lies_in_the_machine_and_leaves_nothing_is_said_once() {
    let told =
        outcome(&study("environment = \"microvm\"\npage = [\"4k\", \"2m\"]", ""), &without("microvm"), Mode::default());
    insta::assert_snapshot!(told.expect_err("nothing"), @r#"a.toml:7: nothing in this study can run here; no /dev/kvm; load the module kvm_intel"#);
    let nowhere = Limits { cpus: Vec::new(), ..machine() };
    insta::assert_snapshot!(outcome(&study("", ""), &nowhere, Mode::default()).expect_err("no CPU"), @r#"a.toml: this process may use no CPU; start it with an affinity mask that has one"#);
}

/// Every factor with every level that is valid on `machine`, as typed.
const LEVELS: &[(&str, &[&str])] = &[
    ("environment", &["\"native\"", "\"microvm\"", "\"null\""]),
    ("page", &["\"4k\"", "\"2m\""]),
    ("host_backing", &["\"4k\"", "\"2m\""]),
    ("page_frames", &["\"default\"", "\"contiguous\"", "\"scattered\""]),
    ("guest_tables", &["\"contiguous\"", "\"scattered\""]),
    ("ranks", &["1", "2", "4"]),
    ("count", &["1", "2"]),
    ("table", &["\"1 MiB\"", "\"2 MiB\""]),
    ("pause", &["\"1.25 ms\"", "\"1.3 ms\"", "\"0.9 s\""]),
    ("skew", &["\"1 %\"", "\"1.00001 %\""]),
    ("prefetch", &["true", "false"]),
];

/// A factor and some of its levels, as indices into [`LEVELS`].
type Chosen = (usize, Vec<usize>);

/// Some of the factors with some of their levels, and one level of some of those as the denominator.
fn combinations() -> impl Strategy<Value = (Vec<Chosen>, Vec<(usize, usize)>)> {
    let factors = proptest::sample::subsequence((0..LEVELS.len()).collect::<Vec<_>>(), 0..=5).prop_flat_map(|keys| {
        keys.into_iter()
            .map(|key| {
                let all: Vec<usize> = (0..LEVELS[key].1.len()).collect();
                let many = all.len();
                (Just(key), proptest::sample::subsequence(all, 1..=many).prop_shuffle())
            })
            .collect::<Vec<_>>()
    });
    factors.prop_flat_map(|factors| {
        let many = factors.len();
        let named = proptest::sample::subsequence(factors.clone(), 0..=many.min(3));
        (Just(factors), named.prop_map(|named| named.into_iter().map(|(key, levels)| (key, levels[0])).collect()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_plan_is_consistent(
        (factors, base) in combinations(),
        quick: bool,
        self_check: bool,
        kvm: bool,
    ) {
        let typed = |&(key, ref levels): &Chosen| {
            let levels: Vec<_> = levels.iter().map(|&level| LEVELS[key].1[level]).collect();
            format!("{} = [{}]\n", LEVELS[key].0, levels.join(", "))
        };
        let wanted: Vec<_> = base.iter().map(|&(key, level)| format!("{} = {}", LEVELS[key].0, LEVELS[key].1[level])).collect();
        let ratio_to = if wanted.is_empty() { String::new() } else { format!("{{ {} }}", wanted.join(", ")) };
        let text = study(&factors.iter().map(typed).collect::<String>(), &ratio_to).replacen("table = \"1 GiB\"\n", "", 1);
        let limits = if kvm { machine() } else { without("microvm") };
        match parse("a.toml", text.as_bytes(), WORKLOADS) {
            Err(problems) => prop_assert!(problems.to_string().contains("null"), "{text}\n{problems}"),
            Ok(study) => match resolve("a.toml", &study, &limits, Mode { quick, self_check }) {
                Ok(plan) => consistent(&plan, &base)?,
                Err(problems) => refused_for_cause(&problems.to_string())?,
            }
        }
    }
}

/// The only reasons for which a combination of valid levels may be refused.
fn refused_for_cause(told: &str) -> Result<(), TestCaseError> {
    let causes = [
        "applies to no environment",
        "nothing in this study can run",
        "ratio_to matches no treatment",
        "ratio_to names",
    ];
    prop_assert!(told.lines().all(|line| causes.iter().any(|cause| line.contains(cause))), "{told}");
    Ok(())
}

fn consistent(plan: &Plan, base: &[(usize, usize)]) -> Result<(), TestCaseError> {
    let arms = plan.arms.len();
    for (index, arm) in plan.arms.iter().enumerate() {
        prop_assert!(
            plan.arms[..index].iter().all(|other| other.treatment != arm.treatment),
            "{} twice",
            name(plan, index)
        );
        prop_assert!(
            plan.cells.iter().any(|&cell| plan.arms_of(cell).contains(&index)),
            "{} in no cell",
            name(plan, index)
        );
        prop_assert_eq!(arm.arm.host_backing.is_some(), arm.arm.executor == ExecutorKind::Microvm);
        prop_assert!(arm.arm.ranks > 0 && arm.arm.all_ranks() <= plan.cpus.len());
    }
    for pair in &plan.pairs {
        prop_assert!(pair.numerator < arms && pair.denominator < arms);
        let (above, below) = (&plan.arms[pair.numerator], &plan.arms[pair.denominator]);
        if plan.mode.self_check {
            prop_assert_eq!(pair.numerator, pair.denominator);
            continue;
        }
        prop_assert_ne!(pair.numerator, pair.denominator);
        prop_assert!(above.arm.executor != ExecutorKind::Null && below.arm.executor != ExecutorKind::Null);
        for (key, label) in &above.treatment {
            let named = base.iter().any(|&(index, _)| LEVELS[index].0 == key)
                || (base.is_empty() && key == "environment")
                || (!pair.asked && ["page", "page_frames"].contains(&key.as_str()));
            let other = below.treatment.get(key);
            prop_assert!(
                named || other.is_none() || other == Some(label),
                "{key} differs and is not named in ratio_to"
            );
        }
        prop_assert_eq!(pair.contrast == Contrast::PageSize, above.arm.page != below.arm.page);
        let frames_differ = above.arm.lies() != below.arm.lies();
        prop_assert!(pair.contrast != Contrast::Frames || frames_differ && !pair.asked, "{pair:?}");
    }
    for &cell in &plan.cells {
        match cell {
            Cell::Pair(pair) => prop_assert!(plan.pairs[pair].interleaved),
            Cell::Single(arm) => prop_assert!(arm < arms),
        }
    }
    let together = plan.pairs.iter().filter(|pair| pair.interleaved).count();
    prop_assert_eq!(plan.cells.iter().filter(|cell| matches!(cell, Cell::Pair(_))).count(), together);
    prop_assert!(plan.design.least_blocks <= plan.design.most_blocks);
    Ok(())
}

#[test]
fn places_that_share_no_process_take_turns_at_two_sites() {
    let text = SKETCH.replace("[\"native\", \"microvm\"]", "[\"native\", \"container\", \"microvm\"]");
    let plan = planned(&study(&text, TO_NATIVE));
    let interleaved: Vec<bool> = asked(&plan).map(|pair| pair.interleaved).collect();
    assert_eq!(interleaved, [true; 4], "container and microvm against native, small and large");
    assert!(plan.cells.iter().all(|cell| matches!(cell, Cell::Pair(_))), "{:?}", plan.cells);
    let places: Vec<Vec<&str>> = plan.cells.iter().map(|&cell| plan.environments_of(cell)).collect();
    let of = |place: &[&str]| places.iter().filter(|sites| **sites == place).count();
    assert_eq!((of(&["native", "container"]), of(&["native"]), places.len()), (2, 2, 4), "{places:?}");
    assert_eq!(plan.environments["container"]["network"], Value::Choice("none".to_owned()), "defaults are filled in");
}

/// An A/A measures what the ratio does: two sites of a place that shares no process, one process where both arms share it.
#[test]
fn a_place_that_shares_no_process_is_compared_with_itself_at_two_sites() {
    let text =
        study("environment = [\"native\", \"container\", \"ssh\"]", TO_NATIVE) + "[environments.ssh]\nhost = \"h\"\n";
    let mode = Mode { self_check: true, ..Mode::default() };
    let sites = |text: &str, limits: &Limits| -> Vec<Vec<String>> {
        let plan = outcome(text, limits, mode).expect("a plan");
        let of = |&cell: &Cell| plan.environments_of(cell).into_iter().map(str::to_owned).collect();
        plan.cells.iter().map(of).collect()
    };
    assert_eq!(
        sites(&text, &machine()),
        [vec!["native"], vec!["container", "container"], vec!["ssh"]],
        "two jobs of another machine may wait for each other"
    );
    let narrow = Limits { memory_available: Bytes(2 << 30), ..machine() };
    assert_eq!(sites(&text, &narrow)[1].len(), 2, "a table of 1 GiB each fits");
    let usual = planned(&text);
    assert!(usual.apart.is_empty() && usual.cells.len() == 2, "{:?}", usual.apart);
}

/// What stays with whole trials: what does not fit into memory twice, ensembles, emulated places, and work that runs on between its phases.
#[test]
fn arms_that_cannot_alternate_between_two_sites_have_trials_of_their_own() {
    let text = study("environment = [\"native\", \"container\"]", TO_NATIVE);
    let cells = |text: &str, limits: &Limits| outcome(text, limits, Mode::default()).expect("a plan").cells;
    let alone = [Cell::Single(0), Cell::Single(1)];
    assert_eq!(cells(&text, &machine()), [Cell::Pair(0)]);
    let narrow = Limits { memory_available: Bytes(3 << 29), ..machine() };
    assert_eq!(cells(&text, &narrow), alone, "a table of 1 GiB each, and 1.5 GiB");
    let guests = study("environment = [\"qemu\", \"tuned\"]\ncount = [2]\nranks = [2]", "{ environment = \"qemu\" }")
        + "[environments.tuned]\nlike = \"qemu\"\n";
    assert_eq!(cells(&guests, &machine()), alone, "two guests each");
    let emulated = Limits { emulated: BTreeSet::from(["container".to_owned()]), ..machine() };
    assert_eq!(cells(&text, &emulated), alone);
    let served: &Descriptor = Box::leak(Box::new(Descriptor { alternates: |_| false, ..*WORKLOADS[0] }));
    let served = parse("a.toml", text.as_bytes(), &[served]).expect("the study is sound");
    let plan = resolve("a.toml", &served, &machine(), Mode::default()).expect("a plan");
    assert_eq!(plan.cells, alone);
}

/// Two servers that are there at once have to fit. One alone uses no more than it needs, and where arms share a process each is there in its own phases.
#[test]
fn servers_that_do_not_fit_into_memory_at_the_same_time_have_trials_of_their_own() {
    let footprint = WORKLOADS[0].footprint.map(|of| Footprint { held: HeldBy::ServerInTurns, ..of });
    assert!(footprint.is_some());
    let served: &Descriptor = Box::leak(Box::new(Descriptor { footprint, ..*WORKLOADS[0] }));
    let text = study("environment = [\"native\", \"container\"]", TO_NATIVE);
    let served = parse("a.toml", text.as_bytes(), &[served]).expect("the study is sound");
    let cells = |bytes| {
        let limits = Limits { memory_available: Bytes(bytes), ..machine() };
        resolve("a.toml", &served, &limits, Mode::default()).expect("a plan").cells
    };
    assert_eq!(cells(2 << 30), [Cell::Pair(0)], "a table of 1 GiB each");
    let alone = [Cell::Single(0), Cell::Single(1)];
    assert_eq!(cells((2 << 30) - 1), alone);
    assert_eq!(cells((1 << 30) - 1), alone);
}

#[test]
fn a_place_that_needs_a_setting_says_so() {
    let text = SKETCH.replace("[\"native\", \"microvm\"]", "[\"native\", \"ssh\"]");
    let text = text.lines().filter(|line| !line.contains("host_backing")).collect::<Vec<_>>().join("\n");
    let problems = refused(&study(&text, ""));
    assert!(problems.contains("environment ssh needs host; write host in [environments.ssh]"), "{problems}");
}

#[test]
fn the_names_of_places_are_the_levels_of_the_factor() {
    let names: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
    assert_eq!(names, NAMES);
    let settable: Vec<&str> = ALL.iter().filter(|kind| !kind.settings.is_empty()).map(|kind| kind.name).collect();
    let Kind::Choice(words) = LIKE.kind else { panic!("{LIKE:?}") };
    assert_eq!(words, settable, "whatever can be set about can be had twice");
}

#[test]
fn places_of_the_studys_own_names_are_planned_as_what_they_are_like() {
    let factors = "environment = [\"native\", \"microvm\", \"qemu\", \"tuned\"]\ncount = [1, 2]\nranks = 2";
    let own = "[environments.qemu]\nmemory = \"1 GiB\"\n[environments.tuned]\nlike = \"qemu\"\nbacking = \"2m\"\n";
    let text = study(factors, "{ environment = \"qemu\" }") + own;
    let plan = planned(&text);
    let tuned: Vec<usize> = (0..plan.arms.len()).filter(|&arm| plan.arms[arm].environment == "tuned").collect();
    assert_eq!(tuned.len(), 2, "a factor of machines applies to it, as to every guest");
    for &arm in &tuned {
        let arm = &plan.arms[arm];
        assert_eq!((arm.place(), arm.on_this_machine(), arm.arm.executor), ("qemu", false, ExecutorKind::Direct));
        assert_eq!(plan.environments_of(Cell::Single(tuned[0])), ["tuned"], "it has sites of its own");
    }
    let of = |name: &str, key: &str| plan.environments[name][key].to_string();
    assert_eq!((of("tuned", "memory"), of("tuned", "backing")), ("1 GiB".to_owned(), "2m".to_owned()));
    assert_eq!((of("qemu", "backing"), of("tuned", "net")), ("as-is".to_owned(), "none".to_owned()));
    let beside = |arm: usize, other: &str| {
        let pair = plan.pairs.iter().find(|pair| pair.numerator == arm).expect("a ratio");
        assert_eq!((plan.arms[pair.denominator].environment.as_str(), pair.contrast), (other, Contrast::Environment));
        assert_eq!(pair.interleaved, plan.arms[arm].arm.parts == 1, "ensembles have trials of their own");
    };
    tuned.iter().for_each(|&arm| beside(arm, "qemu"));

    let lost = outcome(&text, &without("tuned"), Mode::default()).expect("the other guest is there");
    assert!(lost.arms.iter().all(|arm| arm.environment != "tuned"));
    assert_eq!(lost.absent.len(), 2);
    let emulated = Limits { emulated: BTreeSet::from(["tuned".to_owned()]), ..machine() };
    let plan = outcome(&text, &emulated, Mode::default()).expect("a plan");
    assert!(plan.arms.iter().all(|arm| arm.emulated == (arm.environment == "tuned")));

    let remote = study("environment = [\"native\", \"far\"]", "") + "[environments.far]\nlike = \"ssh\"\n";
    let problems = refused(&remote);
    assert!(problems.contains("environment far needs host; write host in [environments.far]"), "{problems}");
}

#[test]
fn quads_follow_from_the_first_block_where_the_study_does_not_set_them_and_compares_something() {
    let text = study(SKETCH, TO_NATIVE);
    let set = format!("{text}[design]\nquads = 20\n");
    let quick = Mode { quick: true, ..Mode::default() };
    let of = |text: &str, mode| outcome(text, &machine(), mode).expect("a plan").quads_by_variance;
    assert_eq!([of(&text, Mode::default()), of(&set, Mode::default()), of(&text, quick)], [true, false, false]);
    let nothing_compared = study("environment = \"native\"", "");
    assert!(!of(&nothing_compared, Mode::default()));
    let stored = serde_json::to_value(planned(&set)).expect("JSON");
    assert_eq!(stored.get("quads_by_variance"), None, "as earlier versions wrote it");
}
