use super::*;
use baremark_model::document::{EstimateRow, RunHead, Size, TrialArm, TrialRow, TrialStatus};
use baremark_model::machine::MachineFacts;
use baremark_model::plan::{Absent, Mode};
use baremark_model::study::Design;
use baremark_model::units::Nanos;
use baremark_stats::Rng;
use baremark_stats::multiplicity::{Claim, judge_study};
use baremark_stats::outcome::{Better as In, Subject};
use std::collections::BTreeMap;

fn at(place: &str) -> Treatment {
    Treatment::from([("environment".to_owned(), place.to_owned())])
}

fn head(id: &str) -> RunHead {
    RunHead {
        id: id.to_owned(),
        study: "databases".to_owned(),
        file: "a.toml".to_owned(),
        workload: "order-entry".to_owned(),
        metric: "tx_per_s".to_owned(),
        workloads: Vec::new(),
        published: None,
        native_means: "bare metal".to_owned(),
        rows: None,
        columns: "environment".to_owned(),
        factors: vec![("environment".to_owned(), vec!["native".to_owned(), "container".to_owned()])],
        parameters: BTreeMap::new(),
        capabilities: BTreeMap::new(),
        environments: Vec::new(),
        machine: MachineFacts::default(),
        version: "1".to_owned(),
        design: Design {
            precision: Share(0.01),
            delta: Share(0.02),
            budget: Nanos(1),
            phase: Nanos(1),
            quads: 1,
            least_blocks: 4,
            most_blocks: 100,
            seed: 1,
        },
        mode: Mode::default(),
        duet: None,
        extensions: Vec::new(),
        started: "2026-01-01T00:00:00Z".to_owned(),
        ended: None,
        stop_reason: None,
        blocks: None,
    }
}

fn estimate(place: &str) -> EstimateRow {
    EstimateRow {
        metric: "tx_per_s".to_owned(),
        unit: "tx/s".to_owned(),
        better: Better::Higher,
        treatment: at(place),
        n: 4,
        estimate: 1.0,
        lo: None,
        hi: None,
        over: None,
        samples: None,
        median: None,
        mean: None,
        sd: None,
    }
}

/// The ratio of a container to native from these log ratios, judged as a run's own report does.
fn ratio(place: &str, logs: &[f64]) -> RatioRow {
    let judged = judge_study(&[Claim::of(logs, 4, 0.02, In::Higher)], RATE).remove(0);
    RatioRow {
        metric: "tx_per_s".to_owned(),
        treatment: at(place),
        relative_to: at("native"),
        contrast: Contrast::Environment,
        blocks: logs.len(),
        ratio: mean(logs).map(f64::exp),
        lo: judged.interval.map(|interval| interval.lo.exp()),
        hi: judged.interval.map(|interval| interval.hi.exp()),
        confidence: judged.interval.map_or(1.0 - RATE, |interval| interval.confidence),
        outcome: in_document(&judged.outcome),
        words: Verdict::of(&judged.outcome, judged.interval.as_ref(), 0.02, In::Higher, Subject::Speed).words,
        size: Size::Unknown,
        short: String::new(),
        more_blocks: None,
        emulated: false,
        independence_assumed: true,
        correlated: false,
        sensitivity: Vec::new(),
    }
}

fn run(id: &str, ratios: Vec<RatioRow>) -> Document {
    Document { estimates: vec![estimate("native"), estimate("container")], ratios, ..Document::new(head(id)) }
}

fn one(document: Document) -> Chosen {
    Chosen { documents: vec![document], levels: Treatment::new() }
}

/// The other side joined to the base.
fn pair(base: &Chosen, other: &Chosen) -> Result<Joined, Unjoinable> {
    join(&[base.clone(), other.clone()])
}

/// Log ratios of so many blocks about `centre`.
fn blocks(rng: &mut Rng, centre: f64, noise: f64, count: usize) -> Vec<f64> {
    (0..count).map(|_| centre + noise * rng.normal()).collect()
}

/// A side of so many runs, whose true log ratios wander by `between`.
fn simulated(
    rng: &mut Rng,
    name: &str,
    runs: usize,
    (centre, between, within): (f64, f64, f64),
    count: usize,
) -> Chosen {
    let of_run = |run: usize| {
        let wander = between * rng.normal();
        self::run(&format!("{name}{run}"), vec![ratio("container", &blocks(rng, centre + wander, within, count))])
    };
    Chosen { documents: (0..runs).map(of_run).collect(), levels: Treatment::new() }
}

#[test]
fn intervals_of_joined_runs_cover_the_ratio_of_ratios() {
    for (runs, between, within, count) in
        [(1, 0.0, 0.02, 4), (1, 0.0, 0.02, 10), (1, 0.0, 0.02, 40), (3, 0.02, 0.01, 10), (4, 0.0, 0.02, 6)]
    {
        let (mut rng, studies, truth) = (Rng::new(11), 1_000, 0.05);
        let mut covered = 0;
        for _ in 0..studies {
            let base = simulated(&mut rng, "a", runs, (-0.1, between, within), count);
            let other = simulated(&mut rng, "b", runs, (-0.1 + truth, between, within), count);
            let row = pair(&base, &other).expect("joined").rows.remove(0);
            let (lo, hi) = row.lo.zip(row.hi).expect("an interval");
            covered += u32::from(lo.ln() <= truth && truth <= hi.ln());
        }
        let share = f64::from(covered) / f64::from(studies);
        // Four standard errors below 95 % in a thousand studies.
        assert!(
            share >= 0.95 - 4.0 * (0.95_f64 * 0.05 / f64::from(studies)).sqrt(),
            "{runs} runs of {count} blocks: {share}"
        );
    }
}

#[test]
fn the_ratio_of_ratios_is_judged_and_names_its_spread() {
    let mut rng = Rng::new(3);
    let mut side = |name: &str, centre: f64, runs: usize| simulated(&mut rng, name, runs, (centre, 0.0, 0.004), 12);
    let (base, other) = (side("a", -0.1, 1), side("b", -0.2, 1));
    let joined = pair(&base, &other).expect("joined");
    assert_eq!((joined.spread, joined.rows.len(), joined.unmatched.len()), (Spread::WithinRuns, 1, 0));
    let row = &joined.rows[0];
    assert_eq!((row.outcome, row.words.as_str()), (Outcome::SlowerByMore, "slower by 9.32 to 9.93 %"));
    let (found, expected) = (row.ratio.expect("a ratio"), (-0.1_f64).exp());
    assert!((found / expected - 1.0).abs() < 0.01 && row.lo < Some(found) && row.hi > Some(found), "{row:?}");
    assert_eq!((row.unit.as_str(), row.better, row.between), ("tx/s", Some(Better::Higher), None));
    assert_eq!((row.base.blocks, row.other.runs), (12, 1));
    let alike = pair(&side("a", -0.1, 1), &side("b", -0.1, 1)).expect("joined");
    assert_eq!(alike.rows[0].outcome, Outcome::Equivalent, "{alike:?}");
    let several = pair(&side("a", -0.1, 3), &side("b", -0.2, 3)).expect("joined");
    assert_eq!((several.spread, several.rows[0].outcome), (Spread::BetweenRuns, Outcome::SlowerByMore));
    assert!(several.rows[0].between.is_some() && several.rows[0].base.lo.is_none(), "{several:?}");
}

/// A run of too few blocks was in the ratio that is shown of its side, and not in the ratio of ratios next to it.
#[test]
fn a_run_without_an_interval_is_not_in_the_ratio_of_its_side() {
    let mut rng = Rng::new(3);
    let base = simulated(&mut rng, "a", 3, (-0.1, 0.0, 0.004), 12);
    let mut other = simulated(&mut rng, "b", 3, (-0.2, 0.0, 0.004), 12);
    other.documents.push(run("b3", vec![ratio("container", &[0.5; 3])]));
    let row = pair(&base, &other).expect("joined").rows.remove(0);
    assert_eq!((row.other.runs, row.other.blocks), (3, 36));
    let shown = row.other.ratio.zip(row.base.ratio).map(|(other, base)| other / base).expect("both");
    assert!((shown / row.ratio.expect("a ratio") - 1.0).abs() < 1e-9, "{row:?}");
}

/// Whoever extended a run until its ratio of ratios left out 1 had an interval at 95 % of it.
#[test]
fn runs_that_were_extended_have_wider_intervals_here_too() {
    let mut rng = Rng::new(7);
    let mut side = |name: &str| simulated(&mut rng, name, 1, (-0.1, 0.0, 0.02), 12);
    let (base, other) = (side("a"), side("b"));
    let mut extended = other.clone();
    extended.documents[0].run.extensions = vec![2];
    let [once, again] = [&other, &extended].map(|other| pair(&base, other).expect("joined"));
    let width = |joined: &Joined| joined.rows[0].hi.zip(joined.rows[0].lo).map_or(0.0, |(hi, lo)| (hi / lo).ln());
    assert!((again.confidence - (1.0 - RATE / 3.0)).abs() < 1e-12 && once.confidence <= 1.0 - RATE, "{again:?}");
    assert!(width(&again) > 1.2 * width(&once), "{again:?} {once:?}");
}

#[test]
fn the_between_run_component_makes_the_interval_longer() {
    let mut rng = Rng::new(5);
    let wandering = |rng: &mut Rng, name| simulated(rng, name, 3, (0.0, 0.05, 0.001), 12);
    let row = pair(&wandering(&mut rng, "a"), &wandering(&mut rng, "b")).expect("joined").rows.remove(0);
    let within =
        pair(&simulated(&mut rng, "c", 1, (0.0, 0.0, 0.001), 12), &simulated(&mut rng, "d", 1, (0.0, 0.0, 0.001), 12));
    let within = within.expect("joined").rows.remove(0);
    let width = |row: &JoinedRow| row.hi.zip(row.lo).map_or(0.0, |(hi, lo)| (hi / lo).ln());
    assert!(width(&row) > 10.0 * width(&within), "{row:?} {within:?}");
    assert!(row.between > Some(0.005) && row.within < Some(0.005), "{row:?}");
}

#[test]
fn rows_that_one_run_has_are_named_with_the_reason() {
    let mut rng = Rng::new(1);
    let mut logs = || blocks(&mut rng, -0.1, 0.01, 10);
    let also = |logs: &[f64]| RatioRow { metric: "latency_p95_ms".to_owned(), ..ratio("container", logs) };
    let base =
        run("a", vec![ratio("container", &logs()), ratio("qemu", &logs()), also(&logs()), ratio("ssh", &logs())]);
    let mut other = run("b", vec![ratio("container", &logs()), ratio("container", &logs()[..2])]);
    other.absent.push(Absent {
        treatment: at("qemu"),
        reason: "no qemu-system-x86_64; install it".to_owned(),
        code: None,
    });
    let joined = pair(&one(base.clone()), &one(other.clone())).expect("joined");
    let told: Vec<(Which, &str)> = joined.unmatched.iter().map(|row| (row.only_in, row.reason.as_str())).collect();
    assert_eq!(
        told,
        [
            (Which::Base, "not available there: no qemu-system-x86_64; install it"),
            (Which::Base, "its study requests no ratio of the metric latency_p95_ms"),
            (Which::Base, "its study has no level ssh of environment"),
        ]
    );
    let back = pair(&one(other), &one(base)).expect("joined");
    assert!(back.unmatched.iter().all(|row| row.only_in == Which::Other) && back.unmatched.len() == 3);
}

#[test]
fn a_ratio_without_an_interval_says_which_run_lacks_what() {
    let mut rng = Rng::new(2);
    let base = run("a", vec![ratio("container", &blocks(&mut rng, -0.1, 0.01, 10))]);
    let mut other = run("b", vec![ratio("container", &blocks(&mut rng, -0.1, 0.01, 2))]);
    let arm = TrialArm {
        treatment: at("container"),
        medians: Vec::new(),
        phases: Vec::new(),
        counters: BTreeMap::new(),
        mmu: None,
        translation: None,
        placed: None,
        members: Vec::new(),
    };
    other.trials.push(TrialRow {
        block: 3,
        cell: 0,
        status: TrialStatus::Failed { reason: "the disk is full; make room".to_owned() },
        arms: vec![arm],
        schedule: Vec::new(),
        discarded: Vec::new(),
        verified: None,
        flags: Vec::new(),
        elapsed_ns: 1,
        observed_s: None,
    });
    let row = pair(&one(base.clone()), &one(other.clone())).expect("joined").rows.remove(0);
    assert_eq!(row.words, "not enough data: 2 of 4 blocks in b; last failed trial: the disk is full; make room");
    assert!(row.outcome == Outcome::NotEnough && row.ratio.is_some() && row.lo.is_none(), "{row:?}");
    other = run("b", vec![RatioRow { emulated: true, ..ratio("container", &blocks(&mut rng, -0.5, 0.01, 10)) }]);
    let row = pair(&one(base), &one(other)).expect("joined").rows.remove(0);
    assert_eq!((row.outcome, row.words.as_str()), (Outcome::Emulated, EMULATED));
}

#[test]
fn what_differs_between_the_runs_is_listed() {
    let mut rng = Rng::new(4);
    let mut of = |id: &str, kernel: &str, mitigation: &str, ept: &str, server: &str| {
        let mut document = run(id, vec![ratio("container", &blocks(&mut rng, 0.0, 0.01, 10))]);
        let machine = &mut document.run.machine;
        machine.kernel.release = Some(kernel.to_owned());
        machine.kernel.mitigations.insert("spectre_v2".to_owned(), mitigation.to_owned());
        let parameters = BTreeMap::from([("ept".to_owned(), ept.to_owned())]);
        machine.virtualization.kvm_modules.insert("kvm_intel".to_owned(), parameters);
        document.run.parameters.insert("buffers".to_owned(), "256 MiB".to_owned());
        document.details.push(baremark_model::document::DetailRow {
            treatment: at("container"),
            block: 0,
            format: "baremark-databases/1".to_owned(),
            document: serde_json::json!({ "database": "postgres", "version": server }),
        });
        document
    };
    let joined =
        pair(&one(of("a", "6.1", "off", "Y", "15.3")), &one(of("b", "6.2", "on", "N", "16.1"))).expect("joined");
    let told: Vec<String> =
        joined.factors.iter().map(|of| format!("{}: {}", of.fact, of.values.join(" -> "))).collect();
    assert_eq!(
        told,
        [
            "machine.kernel.mitigations.spectre_v2: off -> on",
            "machine.kernel.release: 6.1 -> 6.2",
            "machine.virtualization.kvm_modules.kvm_intel.ept: Y -> N",
            "server.postgres: 15.3 -> 16.1",
        ]
    );
}

#[test]
fn levels_are_picked_from_runs_of_two_modes() {
    let mut rng = Rng::new(8);
    let mut of = |id: &str, mode: &str| {
        let mut row = ratio("container", &blocks(&mut rng, 0.0, 0.01, 10));
        row.treatment.insert("mode".to_owned(), mode.to_owned());
        row.relative_to.insert("mode".to_owned(), mode.to_owned());
        let levels = Treatment::from([("mode".to_owned(), mode.to_owned())]);
        Chosen { documents: vec![run(id, vec![row])], levels }
    };
    let joined = pair(&of("a", "nested"), &of("b", "shadow")).expect("joined");
    assert_eq!((joined.rows.len(), &joined.rows[0].treatment), (1, &at("container")));
}

#[test]
fn several_runs_are_one_table_whose_rows_are_those_of_each_with_the_base() {
    let mut rng = Rng::new(6);
    let mut side = |name: &str, centre: f64| simulated(&mut rng, name, 1, (centre, 0.0, 0.004), 12);
    let mut sides = vec![side("a", -0.1), side("b", -0.2), side("c", -0.1), side("d", -0.05)];
    let also = RatioRow { metric: "latency_p95_ms".to_owned(), ..sides[0].documents[0].ratios[0].clone() };
    for at in [0, 2] {
        sides[at].documents[0].ratios.push(also.clone());
    }
    for (side, kernel) in sides.iter_mut().zip(["6.1", "6.2", "6.1", "6.8"]) {
        side.documents[0].run.machine.kernel.release = Some(kernel.to_owned());
    }
    let joined = join(&sides).expect("joined");
    let rows: Vec<(&str, usize, Outcome)> =
        joined.rows.iter().map(|row| (row.metric.as_str(), row.side, row.outcome)).collect();
    assert_eq!(
        rows,
        [
            ("tx_per_s", 0, Outcome::SlowerByMore),
            ("tx_per_s", 1, Outcome::Equivalent),
            ("tx_per_s", 2, Outcome::FasterByMore),
            ("latency_p95_ms", 1, Outcome::NotEnough),
        ]
    );
    let names: Vec<&str> = joined.others.iter().flat_map(|side| &side.runs).map(String::as_str).collect();
    assert_eq!((joined.base.runs[0].as_str(), names), ("a0", vec!["b0", "c0", "d0"]));
    let lone: Vec<(usize, Which)> = joined.unmatched.iter().map(|row| (row.side, row.only_in)).collect();
    assert_eq!(lone, [(0, Which::Base), (2, Which::Base)]);
    let facts: Vec<String> =
        joined.factors.iter().map(|of| format!("{}: {}", of.fact, of.values.join(" -> "))).collect();
    assert_eq!(facts, ["machine.kernel.release: 6.1 -> 6.2 -> 6.1 -> 6.8"]);
    // The same estimate and spread as alone; judged together an interval is at least as long.
    let alone = pair(&sides[0], &sides[1]).expect("joined").rows.remove(0);
    let width = |row: &JoinedRow| row.hi.zip(row.lo).map_or(0.0, |(hi, lo)| (hi / lo).ln());
    assert_eq!((alone.ratio, alone.within), (joined.rows[0].ratio, joined.rows[0].within));
    assert!(width(&joined.rows[0]) > width(&alone), "{joined:?}");
    assert_eq!(join(&sides[..1]).err(), Some(Unjoinable::Sides(1)));
    let many: Vec<Chosen> = (0..9).map(|_| sides[0].clone()).collect();
    assert_eq!(join(&many).err(), Some(Unjoinable::Sides(9)));
}

#[test]
fn what_cannot_be_joined_is_refused() {
    let mut rng = Rng::new(9);
    let mut of = |name: &str, runs| simulated(&mut rng, name, runs, (0.0, 0.0, 0.01), 10);
    let base = of("a", 1);
    assert_eq!(pair(&base, &base).err(), Some(Unjoinable::Twice("a0".to_owned())));
    assert_eq!(pair(&base, &of("b", 2)).err(), Some(Unjoinable::Runs(vec![1, 2])));
    let mut other = of("b", 1);
    other.documents[0].run.workload = "dvd-store".to_owned();
    let why = pair(&base, &other).expect_err("another workload").to_string();
    assert!(
        why.starts_with(
            "the runs have no ratio in common: a0 ('databases') has tx_per_s of order-entry, environment container to environment \
             native and b0 ('databases') has tx_per_s of dvd-store"
        ),
        "{why}"
    );
    other.documents[0].ratios.clear();
    let why = pair(&base, &other).expect_err("no ratio").to_string();
    assert!(why.contains("b0 ('databases') has no ratio;"), "{why}");
}
