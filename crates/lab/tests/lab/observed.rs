//! What a document says of what was observed.

use crate::conduct::WORKLOAD;
use crate::played::{Answer, Memory, Played, conduct, plan, run};
use baremark_lab::analysis::document;
use baremark_model::document::{Document, ExplanationRow};
use baremark_model::imported::{Imported, ImportedSeries};
use baremark_model::observation::{ArmValues, Cost, Observation, ObservedRow, Series, THIS_MACHINE, Values};
use baremark_model::observer::Absence;
use baremark_model::plan::Plan;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

fn values(switches: f64) -> Values {
    [("kernel.context_switches", switches), ("disk.reads", 10.0), ("disk.reads:vda", 10.0), ("disk.writes", 0.0)]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
}

fn observation(place: &str, began: u64, arms: Vec<ArmValues>) -> Observation {
    Observation {
        place: place.to_owned(),
        began_unix_ns: began,
        seconds: 4.0,
        whole: values(400.0),
        arms,
        cost: Cost { readings: 10, cpu_ns: 2_000_000 },
        absent: vec![Absence::new("kvm", "there is no KVM here")],
        ..Observation::default()
    }
}

fn arm(arm: usize, seconds: f64, switches: f64) -> ArmValues {
    ArmValues { arm, seconds, phases: 2, values: values(switches) }
}

/// A run of `plan`, every trial of which was observed as `seen` says of its number.
fn observed(plan: &Plan, seen: impl Fn(u64, &mut Vec<Observation>)) -> (Memory, Document) {
    let mut memory = Memory::default();
    let played = || Played::new(|spec| Answer::Values(vec![1.0; spec.arms.len()]));
    let places = plan.cells.iter().map(|&cell| (plan.environments_of(cell)[0], played())).collect();
    conduct(plan, places, &mut memory, &NEVER).0.unwrap();
    for trial in &mut memory.trials {
        let observations = &mut trial.result.as_mut().unwrap().observations;
        observations.clear();
        seen(trial.place, observations);
    }
    let document = document(&run(plan, &memory), &[&WORKLOAD]);
    (memory, document)
}

fn rows<'d>(document: &'d Document, environment: Option<&str>, quantity: &str) -> Vec<&'d ObservedRow> {
    let all = &document.observed.as_ref().unwrap().rows;
    let wanted = |row: &&ObservedRow| {
        row.treatment.get("environment").map(String::as_str) == environment && row.quantity == quantity
    };
    all.iter().filter(wanted).collect()
}

#[test]
fn arms_that_share_a_process_have_totals_of_their_own() {
    let seen = |place: u64, all: &mut Vec<Observation>| {
        let arms = vec![arm(0, 1.0, 100.0), arm(1, 0.5, 200.0 + place as f64)];
        all.push(observation(THIS_MACHINE, place * 5_000_000_000, arms));
    };
    let (memory, document) = observed(&plan("microvm"), seen);
    let [native] = rows(&document, Some("native"), "kernel.context_switches")[..] else { panic!("one row") };
    assert_eq!((native.value, native.unit.as_str(), native.n), (100.0, "1/s", memory.trials.len()));
    let [machine] = rows(&document, Some("microvm"), "kernel.context_switches")[..] else { panic!("one row") };
    assert!(machine.value > 400.0 && machine.lo.unwrap() < machine.value && machine.value < machine.hi.unwrap());
    let [whole] = rows(&document, None, "kernel.context_switches")[..] else { panic!("one row") };
    assert_eq!(whole.value, 100.0, "400 in 4 s, both arms together");
    let disks: Vec<&str> =
        rows(&document, Some("native"), "disk.iops").iter().map(|row| row.instance.as_str()).collect();
    assert_eq!(disks, ["", "vda"]);
    let observed = document.observed.as_ref().unwrap();
    assert!(observed.notes.iter().any(|note| note.contains("take turns in one process")), "{:?}", observed.notes);
    let absent: Vec<&str> = observed.absent.iter().map(|absent| absent.place.as_str()).collect();
    assert_eq!(absent, ["microvm", THIS_MACHINE], "each once, a microVM without a guest OS among them");
    assert_eq!(observed.cost[0].share, 0.0005);
    let line = observed.series.iter().find(|series| series.quantity == "kernel.context_switches").unwrap();
    assert_eq!(line.points.len(), memory.trials.len(), "a trial shorter than an interval is one point");
}

#[test]
fn a_place_elsewhere_and_this_machine_stand_side_by_side() {
    let seen = |_: u64, all: &mut Vec<Observation>| {
        all.push(observation("qemu", 0, vec![arm(0, 2.0, 50.0)]));
        all.push(observation(THIS_MACHINE, 0, Vec::new()));
    };
    let (_, document) = observed(&plan("qemu"), seen);
    let found = rows(&document, Some("qemu"), "kernel.context_switches");
    let found: Vec<(&str, f64)> = found.iter().map(|row| (row.place.as_str(), row.value)).collect();
    assert_eq!(found, [("qemu", 25.0), (THIS_MACHINE, 100.0)]);
}

/// The values of a second in which no disk did anything.
fn without_disks(switches: f64) -> Values {
    let mut values = values(switches);
    values.remove("disk.reads:vda");
    values.insert("disk.reads".to_owned(), 0.0);
    values
}

/// A disk that was used in every other trial had the rate of these trials alone, twice the machine's.
#[test]
fn a_device_is_at_0_in_trials_in_which_it_did_nothing() {
    let seen = |place: u64, all: &mut Vec<Observation>| {
        let mut native = arm(0, 1.0, 100.0);
        if place.is_multiple_of(2) {
            native.values = without_disks(100.0);
        }
        all.push(observation(THIS_MACHINE, 0, vec![native, arm(1, 1.0, 100.0)]));
    };
    let (memory, document) = observed(&plan("microvm"), seen);
    let [machine, disk] = rows(&document, Some("native"), "disk.iops")[..] else { panic!("two rows") };
    assert_eq!((machine.instance.as_str(), disk.instance.as_str()), ("", "vda"));
    assert!(machine.value < 10.0 && machine.n == memory.trials.len(), "{machine:?}");
    assert_eq!((disk.value, disk.n), (machine.value, machine.n), "{disk:?}");
}

/// What a disk did before the phases of a trial was shown as its rate in them, next to none of the machine's.
#[test]
fn a_device_that_was_idle_in_the_phases_does_not_have_what_it_did_before_them() {
    let seen = |_: u64, all: &mut Vec<Observation>| {
        let own = ArmValues { values: without_disks(50.0), ..arm(0, 2.0, 50.0) };
        all.push(observation("qemu", 0, vec![own]));
    };
    let (_, document) = observed(&plan("qemu"), seen);
    let found = rows(&document, Some("qemu"), "disk.iops");
    let found: Vec<(&str, f64)> = found.iter().map(|row| (row.instance.as_str(), row.value)).collect();
    assert_eq!(found, [("", 0.0)]);
}

/// What is told of a quantity beyond native, with its interval.
fn told<'d>(document: &'d Document, what: &str) -> Vec<&'d ExplanationRow> {
    document.explanations.iter().filter(|row| row.what == what).collect()
}

#[test]
fn what_differs_around_two_arms_explains_them_and_what_does_not_is_left_out() {
    let seen = |place: u64, all: &mut Vec<Observation>| {
        let jitter = (place % 5) as f64;
        all.push(observation(THIS_MACHINE, 0, vec![arm(0, 1.0, 100.0 + jitter), arm(1, 0.5, 200.0 - jitter)]));
    };
    let (_, document) = observed(&plan("microvm"), seen);
    let [row] = told(&document, "context switches beyond native")[..] else { panic!("{:#?}", document.explanations) };
    assert_eq!((row.treatment["environment"].as_str(), row.unit.as_str()), ("microvm", "1/s"));
    assert!((row.value - 294.0).abs() < 1.0 && row.lo > 280.0 && row.hi < 310.0, "{row:?}");
    // 10 reads in half the time.
    assert_eq!(told(&document, "disk IOPS beyond native").len(), 1);
    assert_eq!(document.explanations.len(), 2, "{:#?}", document.explanations);
    let alike = |_: u64, all: &mut Vec<Observation>| {
        all.push(observation(THIS_MACHINE, 0, vec![arm(0, 1.0, 100.0), arm(1, 1.0, 101.0)]));
    };
    let (_, document) = observed(&plan("microvm"), alike);
    assert!(document.explanations.is_empty(), "1 % is below delta: {:#?}", document.explanations);
    let mut few = plan("microvm");
    (few.design.least_blocks, few.design.most_blocks) = (4, 4);
    assert_eq!(observed(&few, seen).1.explanations.len(), 2, "four blocks show a difference as large as this");
}

/// Whoever extends a run has seen these rows as well.
#[test]
fn what_differs_around_the_arms_of_an_extended_run_has_the_interval_of_its_ratios() {
    let seen = |place: u64, all: &mut Vec<Observation>| {
        let jitter = (place % 5) as f64;
        all.push(observation(THIS_MACHINE, 0, vec![arm(0, 1.0, 100.0 + jitter), arm(1, 0.5, 200.0 - jitter)]));
    };
    let mut plan = plan("microvm");
    let (memory, once) = observed(&plan, seen);
    let width = |document: &Document| {
        let [row] = told(document, "context switches beyond native")[..] else { panic!("one row") };
        row.hi - row.lo
    };
    plan.extensions = vec![1];
    let extended = document(&run(&plan, &memory), &[&WORKLOAD]);
    assert!(width(&extended) > 1.1 * width(&once), "{} against {}", width(&extended), width(&once));
}

#[test]
fn a_place_elsewhere_is_held_against_native_and_its_machine_over_whole_trials() {
    let seen = |place: u64, all: &mut Vec<Observation>| {
        // Trials of both arms, in an order drawn for each block, are distinguished by what comes of them below.
        all.push(observation(THIS_MACHINE, 0, vec![arm(0, 2.0, 100.0 + (place % 3) as f64)]));
    };
    let mut plan = plan("container");
    let (mut memory, _) = observed(&plan, seen);
    for trial in memory.trials.iter_mut().filter(|trial| trial.cell == 1) {
        let mut inside = observation("container", 0, vec![arm(0, 2.0, 400.0 + (trial.place % 3) as f64)]);
        inside.whole = values(900.0);
        let mut beside = observation(THIS_MACHINE, 0, Vec::new());
        beside.whole = values(1200.0 + (trial.place % 3) as f64);
        trial.result.as_mut().unwrap().observations = vec![inside, beside];
    }
    let documented = document(&run(&plan, &memory), &[&WORKLOAD]);
    // 200 against 50 a second inside, 300 against 100 on the machine, each give or take what the trials' places add.
    for (what, expected) in [
        ("context switches, as seen inside, beyond native", 150.0),
        ("context switches of this machine over whole trials beyond native", 200.0),
    ] {
        let [row] = told(&documented, what)[..] else { panic!("{what}: {:#?}", documented.explanations) };
        assert!((row.value - expected).abs() < 2.0 && row.lo > 0.0, "{row:?}");
    }
    plan.arms[1].emulated = true;
    assert!(
        document(&run(&plan, &memory), &[&WORKLOAD]).explanations.is_empty(),
        "an emulated machine explains nothing"
    );
}

/// A program that kept one CPU busy had 88 % more of a guest's CPUs than of eight natively, which was "the largest difference in system activity".
#[test]
fn shares_of_all_cpus_are_compared_where_there_are_as_many() {
    let told_of = |inside: f64| {
        let busy = |online: f64, busy: f64| -> Values {
            let idle = ["cpu.nice", "cpu.system", "cpu.irq", "cpu.softirq", "cpu.iowait", "cpu.steal"];
            let states = [("cpu.online", online), ("cpu.user", busy), ("cpu.idle", online - busy)];
            let all = states.into_iter().chain(idle.map(|key| (key, 0.0)));
            all.map(|(key, value)| (key.to_owned(), value)).collect()
        };
        let of = |place: u64, online: f64, cpus: f64| {
            let values = busy(online, cpus - 0.001 * (place % 3) as f64);
            vec![ArmValues { arm: 0, seconds: 1.0, phases: 2, values }]
        };
        let plan = plan("qemu");
        let (mut memory, _) = observed(&plan, |_, _| {});
        for trial in &mut memory.trials {
            let seen = match trial.cell {
                1 => observation("qemu", 0, of(trial.place, inside, 1.0)),
                _ => observation(THIS_MACHINE, 0, of(trial.place, 8.0, if inside < 8.0 { 1.0 } else { 4.0 })),
            };
            trial.result.as_mut().unwrap().observations = vec![seen];
        }
        let documented = document(&run(&plan, &memory), &[&WORKLOAD]);
        told(&documented, "CPU utilization, as seen inside, beyond native").len()
    };
    assert_eq!((told_of(1.0), told_of(8.0)), (0, 1));
}

#[test]
fn a_long_series_is_thinned_and_its_holes_stay() {
    let seen = |place: u64, all: &mut Vec<Observation>| {
        let mut long = observation(THIS_MACHINE, place * 2_000_000_000_000, Vec::new());
        let points = 1500_u32;
        let rate = |point: u32| (point != 3).then_some(7.0);
        long.series = Series {
            interval_ns: 2_000_000_000,
            at_s: (0..points).map(f64::from).collect(),
            values: [("kernel.context_switches".to_owned(), (0..points).map(rate).collect())].into(),
        };
        all.push(long);
    };
    let (_, document) = observed(&plan("microvm"), seen);
    let observed = document.observed.unwrap();
    let line = &observed.series[0];
    assert!(line.points.len() <= 1000 && line.points.iter().all(|[_, value]| (*value - 7.0).abs() < 1e-9));
    assert!(observed.notes.iter().any(|note| note.contains("neighbouring points")), "{:?}", observed.notes);
}

#[test]
fn a_run_that_was_not_observed_says_nothing_and_an_import_is_enough_to_say_something() {
    let plan = plan("microvm");
    let (memory, document_without) = observed(&plan, |_, _| {});
    assert_eq!(document_without.observed, None);
    let mut with = run(&plan, &memory);
    let started = with.started.0;
    let series = ImportedSeries {
        quantity: "cpu.utilization".to_owned(),
        unit: "%".to_owned(),
        n: 2,
        points: vec![[-10.0, 1.0], [1.0, 40.0], [2.0, 42.0]],
        ..ImportedSeries::default()
    };
    with.ended = Some(baremark_model::units::UnixTime(started + 60_000_000_000));
    with.imported.push(Imported {
        program: "esxtop".to_owned(),
        host: "esx1".to_owned(),
        began_unix_ns: started,
        series: vec![series],
        ..Imported::default()
    });
    let document = document(&with, &[&WORKLOAD]);
    let [row] = rows(&document, None, "cpu.utilization")[..] else { panic!("one row") };
    assert_eq!((row.place.as_str(), row.value, row.n, row.lo), ("esxtop esx1", 41.0, 2, None), "within the run alone");
}
