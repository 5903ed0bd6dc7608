//! Recorded machines: every shipped study and publication is planned for each of them, or refused for what the machine lacks. What is planned fits
//! its budget, as far as that is known beforehand.

use crate::common::bench::{Bench, text};
use crate::common::outcome::rows;
use baremark_model::plan::{Cell, Plan};
use baremark_model::units::Bytes;
use baremark_model::value;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

/// The names of all studies that are shipped. `list studies` looks in addition which places there are here, and starts a container for it.
fn studies(bench: &Bench) -> BTreeSet<String> {
    let list = bench.json(&["list", "--json"]);
    let names: BTreeSet<String> = rows(&list, "studies").iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    assert!(names.len() > 5, "{list:#}");
    names
}

/// The names of publications without their tables.
fn published(bench: &Bench) -> BTreeSet<String> {
    let list = bench.json(&["list", "published", "--json"]);
    let name = |row: &Value| row["name"].as_str().unwrap().split('/').next().unwrap().to_owned();
    let names: BTreeSet<String> = rows(&list, "published").iter().map(name).collect();
    assert!(names.len() > 5, "{list:#}");
    names
}

/// What a machine may lack, in the words of a refusal that ends with 2.
const LACKS: &[&str] = &[
    " of memory in one trial, and ",
    " of memory, and ",
    " ranks need a CPU each, and ",
    "cache sizes are unknown on this machine",
    " cannot be had here: ",
];
/// Sums of sizes and counts of a plan stay below this: a machine of 4 TiB and 1,024 CPUs has no more of anything.
const MOST: u64 = 1 << 53;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines")
}

/// A machine's files as a folder, which is faster for many plans than its text.
pub fn unpacked(bench: &Bench, machine: &str) -> PathBuf {
    let record = fs::read_to_string(folder().join(format!("{machine}.txt"))).unwrap();
    let root = bench.path("machine");
    baremark_sys::machine::unpack(&record, &root).unwrap();
    root
}

/// Plans every study, and judges each plan or refusal.
fn plans_of(machine: &str, caches: Option<u64>) {
    let bench = Bench::new();
    let root = unpacked(&bench, machine);
    let facts = baremark_sys::machine::read(&root);
    let memory = facts.memory.available_bytes.unwrap();
    assert_eq!(baremark_sys::machine::last_level_caches(&root), caches, "{machine}");
    let (mut planned, mut arrays) = (0, 0);
    for study in studies(&bench).union(&published(&bench)) {
        let output = bench.run(&["plan", study, "--machine", root.to_str().unwrap(), "--json"]);
        if is_refused(&output) {
            assert_ne!(study, "standard", "{machine} has no answer: {}", text(&output.stderr));
            continue;
        }
        let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
        planned += 1;
        assert!(!rows(&plan, "arms").is_empty(), "{machine}, {study}: {plan:#}");
        assert_eq!(overflowed(&plan), None, "{machine}, {study}: no size of this machine: {plan:#}");
        let plan: Plan = serde_json::from_value(plan).unwrap();
        arrays += arrays_are_right(&plan, caches, memory).unwrap_or_else(|why| panic!("{machine}, {study}: {why}"));
        let (budget, needed_s) = (plan.design.budget, smallest_s(&plan, |cell| trial_s(&plan, cell)));
        assert!(needed_s <= budget.seconds(), "{machine}, {study}: {needed_s} s for its smallest study in {budget}");
    }
    assert!(planned > 5 && arrays > 0, "{machine}: {planned} studies and {arrays} arrays were planned");
}

/// STREAM's arrays follow the caches: of 384 MiB for 1.9 GiB of memory, and of a size that is not shown.
#[test]
fn a_workload_whose_own_size_a_machine_cannot_have_is_left_out_and_a_size_that_is_written_is_refused() {
    for (machine, why) in [
        ("container-with-quota", "array needs 4608 MiB of memory in one trial, and 1.9 GiB are available"),
        ("hidden-caches", "array: cache sizes are unknown on this machine; write a size and small = true"),
    ] {
        let bench = Bench::new();
        let root = unpacked(&bench, machine);
        let plan = |study: &str, more: &[&str]| {
            bench.run(&[&["plan", study, "--machine", root.to_str().unwrap(), "--json"][..], more].concat())
        };
        let standard: Plan = serde_json::from_slice(&plan("standard", &[]).stdout).unwrap();
        let kinds: BTreeSet<&str> = (0..standard.arms.len()).map(|arm| standard.workload_of(arm)).collect();
        assert_eq!(kinds, BTreeSet::from(["fma", "hpl", "page-table", "random-access"]), "{machine}");
        let of_stream = standard.absent.iter().filter(|absent| absent.treatment["workload"] == "stream");
        let at = |place: &str| of_stream.clone().find(|absent| absent.treatment["environment"] == place).unwrap();
        assert_eq!(at("native").reason, why, "{machine}");
        // Alone it is all that the user wants; a size that does not fit is a mistake in the study.
        for (study, more, code) in [("stream", &[][..], 3), ("standard", &["--set", "stream.array=1 TiB"], 2)] {
            let refused = plan(study, more);
            let said = text(&refused.stderr);
            let named = if more.is_empty() { why } else { "array" };
            assert!(refused.status.code() == Some(code) && said.contains(named), "{machine}, {study}: {said}");
        }
    }
}

/// Seconds that the smallest study takes, by those of each trial.
fn smallest_s(plan: &Plan, trial_s: impl Fn(Cell) -> f64) -> f64 {
    plan.design.least_blocks as f64 * plan.cells.iter().map(|cell| trial_s(*cell)).sum::<f64>()
}

/// A parameter of an arm.
fn parameter<'p>(plan: &'p Plan, arm: usize, key: &str) -> Option<&'p value::Value> {
    plan.arms[arm].arm.parameters.get(key)
}

/// Seconds that the phases of a trial take: those that a workload says of itself, of searches the longest, else those of the design.
fn phases_s(plan: &Plan, cell: Cell) -> f64 {
    let phase_s = |arm: usize| match (parameter(plan, arm, "search_time"), parameter(plan, arm, "servers")) {
        // One for each of the two limits.
        (Some(value::Value::TimeNs(longest)), None) => 2.0 * longest.seconds(),
        _ => plan.arms[arm].phase(&plan.design).seconds(),
    };
    let arms = plan.arms_of(cell);
    let each = plan.phases_of(cell) / arms.len() as u64;
    arms.iter().map(|arm| each as f64 * phase_s(*arm)).sum()
}

/// How long a trial of all of STREAM's kernels took, whose phases say little of it: a block of three on two CPUs took 23 to 48 s.
const STREAM_S: f64 = 16.0;

/// Seconds that a trial takes, as far as it is known.
fn trial_s(plan: &Plan, cell: Cell) -> f64 {
    let arm = plan.arms_of(cell)[0];
    let whole = matches!(parameter(plan, arm, "kernel"), Some(value::Value::Choice(kernel)) if kernel == "all");
    let least = if whole && plan.workload_of(arm) == "stream" { STREAM_S } else { 0.0 };
    phases_s(plan, cell).max(least)
}

/// A look at a study is over in minutes: two searches for each of four arms in each of four blocks took 19.
#[test]
fn the_phases_of_a_quick_run_take_ten_minutes_at_most() {
    let bench = Bench::new();
    let root = unpacked(&bench, "laptop-hybrid-cores");
    let mut searched = 0;
    for study in studies(&bench) {
        let output = bench.run(&["plan", &study, "--quick", "--machine", root.to_str().unwrap(), "--json"]);
        if is_refused(&output) {
            continue;
        }
        let plan: Plan = serde_json::from_slice(&output.stdout).unwrap();
        searched += usize::from(parameter(&plan, 0, "search_time").is_some());
        let needed_s = smallest_s(&plan, |cell| phases_s(&plan, cell));
        assert!(needed_s <= 600.0, "{study}: {needed_s} s");
    }
    assert!(searched >= 2, "the studies of web farms are planned");
}

/// Whether a plan was refused, which must be for what the machine lacks.
fn is_refused(output: &Output) -> bool {
    let said = text(&output.stderr);
    match output.status.code() {
        Some(0) => false,
        Some(3) => true,
        Some(2) if LACKS.iter().any(|lacks| said.contains(lacks)) => true,
        code => panic!("{code:?}: {said}"),
    }
}

/// How many of STREAM's arrays a plan gives, or the one that does not follow the caches or fit the memory.
fn arrays_are_right(plan: &Plan, caches: Option<u64>, memory: u64) -> Result<usize, String> {
    let mut judged = 0;
    for arm in (0..plan.arms.len()).filter(|arm| plan.workload_of(*arm) == "stream") {
        let Some(&value::Value::SizeBytes(Bytes(array))) = parameter(plan, arm, "array") else { continue };
        let is_small = parameter(plan, arm, "small") == Some(&value::Value::Switch(true));
        if let Some(caches) = caches.filter(|caches| !is_small && array < 4 * caches) {
            return Err(format!("an array of {array} bytes for caches of {caches}"));
        }
        if array > memory {
            return Err(format!("an array of {array} bytes in {memory} of memory"));
        }
        judged += 1;
    }
    Ok(judged)
}

/// The first number of a document that is beyond all sizes.
fn overflowed(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().filter(|number| *number > MOST),
        Value::Array(values) => values.iter().find_map(overflowed),
        Value::Object(values) => values.values().find_map(overflowed),
        _ => None,
    }
}

/// A test for each machine, with the size of all its last-level caches by its maker's data sheet, in MiB.
macro_rules! machines {
    ($($name:ident $caches:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let caches: Option<u64> = $caches;
                plans_of(&stringify!($name).replace('_', "-"), caches.map(|mib| mib << 20));
            }
        )*
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

machines! {
    one_cpu_1_gib Some(45);
    laptop_hybrid_cores Some(18);
    guest_2_cpus_300_mib_cache Some(300);
    epyc_9684x_genoa_x Some(1152);
    epyc_9755_turin Some(512);
    epyc_9755_two_sockets_512_cpus Some(1024);
    epyc_7601_four_nodes Some(64);
    xeon_e7_eight_sockets Some(480);
    xeon_5570_two_sockets Some(16);
    no_huge_pages Some(4);
    no_kvm Some(32);
    guest_without_pmu Some(64);
    guest_control_groups_1 Some(32);
    guest_nested_kvm Some(48);
    guest_zen_hybrid_control_groups Some(32);
    container_read_only_sys Some(32);
    offline_cpus Some(55);
    container_with_quota Some(384);
    hidden_caches None;
}

#[test]
fn every_recorded_machine_has_its_test() {
    let files = fs::read_dir(folder()).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
    let machines: BTreeSet<String> =
        files.filter_map(|name| Some(name.strip_suffix(".txt")?.replace('-', "_"))).collect();
    assert_eq!(machines, NAMES.iter().map(|name| (*name).to_owned()).collect());
    assert!(machines.len() >= 16);
}

#[test]
fn a_recorded_machine_is_judged_by_its_files() {
    let bench = Bench::new();
    let doctor = |machine: &str| {
        let file = folder().join(format!("{machine}.txt"));
        bench.json(&["doctor", "--json", "--machine", file.to_str().unwrap()])
    };
    let found = |document: &Value, subject: &str| {
        let finding = rows(document, "findings").iter().find(|finding| finding["subject"] == subject).cloned();
        finding.map(|finding| finding["grade"].as_str().unwrap().to_owned())
    };
    // A folder's name has the number of its process; commands of other tests may still run.
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let process = name.strip_prefix("baremark-machine-").and_then(|rest| rest.split('-').next());
        process.is_some_and(|process| !Path::new("/proc").join(process).exists() && path.exists())
    };
    let left = || {
        let places = [std::env::temp_dir(), PathBuf::from("/dev/shm")].into_iter();
        let all = places.flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten());
        all.map(|entry| entry.path()).filter(is_left).collect::<BTreeSet<_>>()
    };
    let before = left();
    let (bare, guest) = (doctor("epyc-9755-turin"), doctor("guest-without-pmu"));
    assert_eq!(found(&bare, "microVM").as_deref(), Some("good"), "{bare:#}");
    assert_eq!(found(&guest, "microVM").as_deref(), Some("missing"), "{guest:#}");
    assert_eq!(bare["machine"]["cpu"]["logical_cpus"], 256);
    assert_eq!(bare["machine"]["cpu"]["cores"], 128);
    assert!(left().is_subset(&before), "{before:?}, then {:?}", left());
}

#[test]
fn a_machine_that_is_none_is_refused() {
    let bench = Bench::new();
    let odd = bench.write("odd.txt", "no record");
    for path in [odd.as_path(), &bench.path("missing"), bench.folder.path()] {
        let output = bench.run(&["plan", "standard", "--machine", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains("--machine "), "{output:?}");
    }
}
