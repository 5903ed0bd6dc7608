use super::*;
use crate::gates::confirmed;
use baremark_model::comparison::{Answer, Gate, ObservedComparison};
use baremark_model::document::{EstimateRow, RatioRow, RunHead, Size, TrialArm, TrialRow, UsedEnvironment};
use baremark_model::machine::MachineFacts;
use baremark_model::observation::ObservedRow;
use baremark_model::plan::Mode;
use baremark_model::seam::Sample;
use baremark_model::study::Design;
use baremark_model::units::Nanos;
use baremark_stats::Rng;
use baremark_stats::gate::CONFIRMED;

fn treatment(place: &str) -> Treatment {
    Treatment::from([("environment".to_owned(), place.to_owned())])
}

fn head(id: &str) -> RunHead {
    RunHead {
        id: id.to_owned(),
        study: "a study".to_owned(),
        file: "a.toml".to_owned(),
        workload: "random-access".to_owned(),
        metric: "gups".to_owned(),
        workloads: Vec::new(),
        published: None,
        native_means: "bare metal".to_owned(),
        rows: None,
        columns: "environment".to_owned(),
        factors: Vec::new(),
        parameters: BTreeMap::from([("table".to_owned(), "1 GiB".to_owned()), ("ranks".to_owned(), "2".to_owned())]),
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
            least_blocks: 10,
            most_blocks: 20,
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

/// A run of 20 blocks, each a trial of native and microvm; `native` is its level, `ratio` what the microVM keeps.
fn run(id: &str, native: f64, ratio: f64, seed: u64) -> Document {
    let mut rng = Rng::new(seed);
    let estimate = |place: &str, value: f64| EstimateRow {
        metric: "gups".to_owned(),
        unit: "GUP/s".to_owned(),
        better: Better::Higher,
        treatment: treatment(place),
        n: 20,
        estimate: value,
        lo: None,
        hi: None,
        over: None,
        samples: None,
        median: None,
        mean: None,
        sd: None,
    };
    let mut arm = |place: &str, value: f64| TrialArm {
        treatment: treatment(place),
        medians: vec![Sample::new("gups", value * (0.002 * rng.normal()).exp())],
        phases: Vec::new(),
        counters: BTreeMap::new(),
        mmu: None,
        translation: None,
        placed: None,
        members: Vec::new(),
    };
    let trial = |block| TrialRow {
        block,
        cell: 0,
        status: TrialStatus::Ok,
        arms: vec![arm("native", native), arm("microvm", native * ratio)],
        schedule: vec![0, 1, 1, 0],
        discarded: Vec::new(),
        verified: None,
        flags: Vec::new(),
        elapsed_ns: 1,
        observed_s: None,
    };
    Document {
        trials: (0..20).map(trial).collect(),
        estimates: vec![estimate("native", native), estimate("microvm", native * ratio)],
        ratios: vec![RatioRow {
            metric: "gups".to_owned(),
            treatment: treatment("microvm"),
            relative_to: treatment("native"),
            contrast: Contrast::Environment,
            blocks: 20,
            ratio: Some(ratio),
            lo: None,
            hi: None,
            confidence: 0.95,
            outcome: Outcome::NotEnough,
            words: String::new(),
            size: Size::Unknown,
            short: String::new(),
            more_blocks: None,
            emulated: false,
            independence_assumed: false,
            correlated: false,
            sensitivity: Vec::new(),
        }],
        ..Document::new(head(id))
    }
}

/// Runs whose level wanders from one to the next by the shares given.
fn runs(name: &str, native: f64, ratio: f64, wander: &[f64]) -> Chosen {
    let of =
        |(index, share): (usize, &f64)| run(&format!("{name}{index}"), native * (1.0 + share), ratio, index as u64);
    Chosen { documents: wander.iter().enumerate().map(of).collect(), levels: Treatment::new() }
}

fn found(base: &Chosen, other: &Chosen) -> Comparison {
    compare(base, other, &Request::default()).expect("comparable")
}

#[test]
fn a_change_beyond_the_spread_of_runs_is_found_and_one_within_is_not() {
    let base = runs("a", 1.0, 0.9, &[0.002, -0.001, 0.000]);
    let slower = found(&base, &runs("b", 0.9, 0.9, &[0.001, -0.002, 0.001]));
    assert_eq!(slower.method, Method::Unpaired);
    let outcomes: Vec<Outcome> = slower.rows.iter().map(|row| row.outcome).collect();
    assert_eq!(outcomes, [Outcome::SlowerByMore, Outcome::SlowerByMore, Outcome::Equivalent], "{slower:#?}");
    assert!(slower.rows[2].relative_to.is_some(), "the ratio to native survives what slows both");
    let faster = found(&base, &runs("b", 1.1, 0.9, &[0.001, -0.002, 0.001]));
    assert_eq!(faster.rows[0].outcome, Outcome::FasterByMore);
    // Trials are as alike as before, but the runs of either side wander by more than the change.
    let wandering = found(&runs("a", 1.0, 0.9, &[0.1, -0.12, 0.0]), &runs("b", 0.95, 0.9, &[0.11, -0.09, 0.0]));
    assert_eq!(wandering.rows[0].outcome, Outcome::NoLarger, "{wandering:#?}");
    assert_eq!(wandering.rows[2].outcome, Outcome::Equivalent, "what wanders with the run leaves its ratios alone");
}

#[test]
fn fewer_than_three_runs_a_side_are_not_comparable() {
    let two = runs("a", 1.0, 0.9, &[0.0, 0.001]);
    let comparison = found(&two, &runs("b", 0.5, 0.9, &[0.0]));
    for row in &comparison.rows {
        assert_eq!((row.ratio, row.outcome), (None, Outcome::NotEnough));
        assert_eq!(
            row.words,
            "not enough data: 3 runs a side are needed (1 more run of the base and 2 more runs of the other side)"
        );
    }
}

/// Three times the same run had no spread between runs: whatever differed was shown beyond doubt.
#[test]
fn a_run_counts_once_on_a_side() {
    let thrice =
        |name: &str, native: f64| Chosen { documents: vec![run(name, native, 0.9, 7); 3], levels: Treatment::new() };
    let (same, three) = (thrice("a", 1.0), runs("c", 1.0, 0.9, &[0.002, -0.001, 0.0]));
    for (base, other) in [(&same, &three), (&three, &same), (&same, &thrice("b", 0.99))] {
        assert_eq!(compare(base, other, &Request::default()), Err(Incomparable::Twice("a".to_owned())));
    }
}

#[test]
fn levels_of_one_run_are_compared_block_by_block() {
    let one = |place: &str| Chosen { documents: vec![run("a", 1.0, 0.9, 7)], levels: treatment(place) };
    let comparison = found(&one("native"), &one("microvm"));
    assert_eq!((comparison.method, comparison.rows.len()), (Method::Paired, 1));
    let row = &comparison.rows[0];
    assert_eq!((row.base_units, row.outcome), (20, Outcome::SlowerByMore));
    let (lo, ratio, hi) = (row.lo.expect("lo"), row.ratio.expect("ratio"), row.hi.expect("hi"));
    assert!(lo < ratio && ratio < hi && (ratio - 0.9).abs() < 0.005, "{row:?}");
    let itself = compare(&one("native"), &one("native"), &Request::default());
    assert_eq!(itself, Err(Incomparable::Itself("a".to_owned())));
}

/// The levels of one run are compared by the quads of its trials, as the run's own ratio is: the values of trials hold the drift that quads
/// cancel, and a quad that does not count is left out.
#[test]
fn levels_that_took_turns_are_compared_by_their_quads() {
    let mut document = run("a", 1.0, 1.0, 7);
    for trial in &mut document.trials {
        // The machine becomes twice as fast within each trial; in each quad the microVM is 5 % slower, but in the third, which was disturbed.
        let drift = |phase: u32| 1.0 + f64::from(phase) / 12.0;
        trial.schedule = [[0, 1, 1, 0], [0, 0, 1, 1], [0, 1, 1, 0]].concat();
        trial.discarded = vec![2];
        for arm in 0..2 {
            let own = (0..).zip(&trial.schedule).filter(|(_, of)| **of == arm);
            let keeps = |phase: u32| {
                if arm == 0 {
                    1.0
                } else if phase < 8 {
                    0.95
                } else {
                    0.1
                }
            };
            trial.arms[arm].phases = own.map(|(phase, _)| drift(phase) * keeps(phase)).collect();
        }
    }
    let log_mean = |values: [f64; 2]| 0.5 * (values[0].ln() + values[1].ln());
    let at = |phase: u32| 1.0 + f64::from(phase) / 12.0;
    let quad = |above: [u32; 2], below: [u32; 2]| log_mean(above.map(at)) - log_mean(below.map(at)) + 0.95_f64.ln();
    let expected = (0.5 * (quad([1, 2], [0, 3]) + quad([6, 7], [4, 5]))).exp();
    let one = |place: &str| Chosen { documents: vec![document.clone()], levels: treatment(place) };
    let comparison = found(&one("native"), &one("microvm"));
    let ratio = comparison.rows[0].ratio.expect("a ratio");
    assert!((ratio - expected).abs() < 1e-12, "{ratio}, of quads {expected}");
}

/// 1.64 times (0.98 to 2.77) by a two-sided interval stood above FAIL by a one-sided test.
#[test]
fn a_gate_s_rows_have_the_limits_and_the_words_of_its_own_test() {
    let native = |name: &str, level: f64, wander: &[f64]| Chosen {
        levels: treatment("native"),
        ..runs(name, level, 0.9, wander)
    };
    let wander = [0.26, -0.25, 0.0];
    let (base, other) = (native("a", 1.0, &wander), native("b", 0.6, &wander));
    let plain = found(&base, &other);
    assert_eq!(plain.rows[0].outcome, Outcome::NoLarger, "the two-sided interval holds 1: {plain:#?}");
    let gate = |other: &Chosen| {
        let request = Request { margin: Some(Share(0.05)), ..Request::default() };
        let comparison = compare(&base, other, &request).expect("comparable");
        (comparison.rows[0].clone(), comparison.gate.expect("a gate").rows[0])
    };
    let (row, answer) = gate(&other);
    assert_eq!(answer.answer, Answer::Loss, "{row:?}");
    let least = answer.at_least.expect("a loss");
    assert!(least > 0.0 && row.hi.is_some_and(|hi| (1.0 / hi - 1.0 - least).abs() < 1e-9), "{row:?} {answer:?}");
    assert!(row.words.starts_with("slower by at least ") && row.outcome != Outcome::NoLarger, "{row:?}");
    let (row, answer) = gate(&native("b", 0.9, &wander));
    assert_eq!((answer.answer, answer.at_least), (Answer::Undecided, None));
    assert!(row.words.starts_with("no loss shown: at most ") && row.hi > Some(1.0), "{row:?}");
}

/// What was seen in a run: context switches, and interrupts at 1000 a second, each mean with its half-width over 20 trials.
fn watched(mut document: Document, place: &str, at: &str, switches: f64) -> Document {
    let row = |quantity: &str, value: f64, half: f64| ObservedRow {
        treatment: treatment(place),
        place: at.to_owned(),
        quantity: quantity.to_owned(),
        instance: String::new(),
        unit: "1/s".to_owned(),
        n: 20,
        value,
        lo: Some(value - half),
        hi: Some(value + half),
    };
    let observed = document.observed.get_or_insert_default();
    observed.rows.extend([row("kernel.context_switches", switches, 5.0), row("kernel.interrupts", 1000.0, 5.0)]);
    document
}

/// What was seen of context switches.
fn switches(comparison: &Comparison) -> &ObservedComparison {
    comparison.observed.iter().find(|row| row.quantity == "kernel.context_switches").expect("they were seen")
}

/// Quantity, place, and difference with its limits, of what differs.
fn differing(comparison: &Comparison) -> Vec<(&str, &str, f64)> {
    let rows = comparison.observed.iter().filter(|row| row.differs);
    rows.map(|row| (row.quantity.as_str(), row.place.as_str(), row.difference)).collect()
}

#[test]
fn what_observers_saw_in_runs_is_judged_by_the_spread_of_runs() {
    let side = |name: &str, switches: [f64; 3]| {
        let mut side = runs(name, 1.0, 0.9, &[0.0, 0.001, -0.001]);
        for (document, switches) in side.documents.iter_mut().zip(switches) {
            *document = watched(document.clone(), "native", "this machine", switches);
        }
        side
    };
    let base = side("a", [100.0, 101.0, 99.0]);
    let apart = found(&base, &side("b", [200.0, 202.0, 198.0]));
    assert_eq!(differing(&apart), [("kernel.context_switches", "this machine", 100.0)]);
    let row = switches(&apart);
    assert_eq!((row.base_units, row.other_units), (3, 3));
    assert!(row.lo.expect("lo") > 90.0 && row.hi.expect("hi") < 110.0, "{row:?}");
    let wandering = found(&base, &side("b", [20.0, 600.0, 130.0]));
    assert!(differing(&wandering).is_empty() && wandering.observed.len() == 2, "{wandering:#?}");
    // Shown beyond doubt, and of no importance: delta is 2 %.
    let little = found(&side("a", [100.0, 100.001, 99.999]), &side("b", [101.0, 101.001, 100.999]));
    assert!(differing(&little).is_empty() && switches(&little).lo > Some(0.9), "{little:#?}");
    let mut few = side("b", [900.0; 3]);
    few.documents.truncate(2);
    let few = found(&base, &few);
    assert!(differing(&few).is_empty() && few.observed.iter().all(|row| row.lo.is_none()), "{few:#?}");
}

#[test]
fn what_observers_saw_in_one_run_is_judged_by_its_trials_where_it_was_seen_alike() {
    let document = watched(run("a", 1.0, 0.9, 7), "native", "this machine", 100.0);
    let document = watched(watched(document, "microvm", "this machine", 150.0), "microvm", "elsewhere", 900.0);
    let one = |place: &str| Chosen { documents: vec![document.clone()], levels: treatment(place) };
    let comparison = found(&one("native"), &one("microvm"));
    assert_eq!(differing(&comparison), [("kernel.context_switches", "this machine", 50.0)]);
    assert_eq!(comparison.observed.len(), 2, "what one side alone saw is not compared: {comparison:#?}");
    let row = switches(&comparison);
    assert_eq!((row.base_units, row.other_units), (20, 20));
    // Two means of half-width 5 at 19 degrees of freedom each.
    let half = (row.hi.expect("hi") - row.lo.expect("lo")) / 2.0;
    assert!((half - 7.0).abs() < 1.0, "{half}");
}

/// 0.3 % that ends at 0 was taken to be known to half of 0.9 %, and differed from 1.08 ± 0.6 % for that reason.
#[test]
fn an_interval_that_ends_at_0_is_as_wide_below_as_above() {
    let mut document = run("a", 1.0, 0.9, 7);
    let row = |place: &str, [value, lo, hi]: [f64; 3]| ObservedRow {
        treatment: treatment(place),
        place: "this machine".to_owned(),
        quantity: "pressure.io".to_owned(),
        instance: String::new(),
        unit: "%".to_owned(),
        n: 20,
        value,
        lo: Some(lo),
        hi: Some(hi),
    };
    let rows = [row("native", [0.3, 0.0, 0.9]), row("microvm", [1.08, 0.48, 1.68])];
    document.observed.get_or_insert_default().rows.extend(rows);
    let one = |place: &str| Chosen { documents: vec![document.clone()], levels: treatment(place) };
    let comparison = found(&one("native"), &one("microvm"));
    assert_eq!(comparison.observed.len(), 1, "{comparison:#?}");
    assert!(differing(&comparison).is_empty(), "{:#?}", comparison.observed);
}

#[test]
fn whatever_differs_is_named_unless_it_was_declared() {
    let mut base = runs("a", 1.0, 0.9, &[0.0, 0.001, -0.001]);
    let mut other = runs("b", 1.0, 0.9, &[0.0, 0.001, -0.001]);
    for document in &mut other.documents {
        document.run.machine.kernel.release = Some("9.9".to_owned());
        document.run.machine.memory.available_bytes = Some(5);
        document.run.machine.load_average = Some([9.0; 3]);
        document.run.version = "2".to_owned();
    }
    for (side, memory) in [(&mut base, "1 GiB"), (&mut other, "2 GiB")] {
        for document in &mut side.documents {
            let settings =
                [("memory", memory), ("fresh", "run")].map(|(key, value)| (key.to_owned(), value.to_owned()));
            let (name, place) = ("tuned".to_owned(), "qemu".to_owned());
            document.run.environments.push(UsedEnvironment {
                name,
                place,
                settings: settings.into(),
                lacks: Vec::new(),
            });
        }
    }
    other.documents[1].run.machine.hostname = Some("elsewhere".to_owned());
    let declared = vec!["machine.kernel.release".to_owned()];
    let comparison = compare(&base, &other, &Request { declared, ..Request::default() }).expect("comparable");
    let facts = |list: &[baremark_model::comparison::Difference]| -> Vec<String> {
        list.iter().map(|of| format!("{}: {} -> {}", of.fact, of.base, of.other)).collect()
    };
    assert_eq!(
        facts(&comparison.confounded),
        ["baremark: 1 -> 2", "environments.tuned.memory: 1 GiB -> 2 GiB", "machine.hostname: none -> elsewhere | none"]
    );
    assert_eq!(facts(&comparison.declared), ["machine.kernel.release: none -> 9.9"]);
}

#[test]
fn other_work_is_refused() {
    let base = runs("a", 1.0, 0.9, &[0.0]);
    let mut other = runs("b", 1.0, 0.9, &[0.0]);
    other.documents[0].run.parameters.insert("table".to_owned(), "2 GiB".to_owned());
    let why = compare(&base, &other, &Request::default()).expect_err("other work").to_string();
    assert_eq!(why, "the sides did not do the same work: table is 1 GiB in a0 and 2 GiB in b0");
    let mut other = runs("b", 1.0, 0.9, &[0.0]);
    other.levels = treatment("native");
    assert!(matches!(compare(&base, &other, &Request::default()), Err(Incomparable::Factors { .. })));
    let nowhere = |name: &str, place: &str| Chosen { levels: treatment(place), ..runs(name, 1.0, 0.9, &[0.0]) };
    let nothing = compare(&nowhere("a", "moon"), &nowhere("b", "native"), &Request::default());
    assert!(matches!(nothing, Err(Incomparable::Nothing { .. })));
    let none = compare(&Chosen::default(), &base, &Request::default());
    assert_eq!(none, Err(Incomparable::Empty("base")));
}

/// 120 ms against 0.12 s was a thousandth of it, and a rate that a table calls a cost a gain.
#[test]
fn a_metric_of_another_unit_or_direction_is_refused() {
    let base = runs("a", 1.0, 0.9, &[0.002, -0.001, 0.0]);
    let with = |unit: &str, better: Better| {
        let mut other = runs("b", 1.0, 0.9, &[0.0, 0.001, -0.001]);
        for row in other.documents.iter_mut().flat_map(|document| &mut document.estimates) {
            (row.unit, row.better) = (unit.to_owned(), better);
        }
        compare(&base, &other, &Request::default())
    };
    assert!(with("GUP/s", Better::Higher).is_ok() && with("Gup/s", Better::Higher).is_ok(), "one unit in two ways");
    for (unit, better) in [("MUP/s", Better::Higher), ("s", Better::Higher), ("GUP/s", Better::Lower)] {
        let why = with(unit, better).expect_err("refused").to_string();
        assert!(why.starts_with("gups has the unit 'GUP/s' (higher is better) in run a0 and the unit "), "{why}");
    }
}

fn gated(base: &Chosen, other: &Chosen, margin: f64) -> Gate {
    let request = Request { margin: Some(Share(margin)), ..Request::default() };
    compare(base, other, &request).expect("comparable").gate.expect("it was asked for")
}

#[test]
fn a_gate_passes_only_where_a_loss_of_the_margin_would_have_been_found() {
    let base = runs("a", 1.0, 0.9, &[0.002, -0.001, 0.000]);
    let alike = gated(&base, &runs("b", 1.0, 0.9, &[0.001, -0.002, 0.001]), 0.05);
    assert_eq!(alike.answer, Answer::Passed, "{alike:#?}");
    assert!(alike.rows.iter().all(|row| row.power > Some(0.8) && row.smallest_detectable < Some(0.05)), "{alike:#?}");
    let slower = gated(&base, &runs("b", 0.9, 0.9, &[0.001, -0.002, 0.001]), 0.05);
    let answers: Vec<Answer> = slower.rows.iter().map(|row| row.answer).collect();
    assert_eq!((slower.answer, answers[..2].to_vec()), (Answer::Loss, vec![Answer::Loss, Answer::Loss]), "{slower:#?}");
    // Runs that wander by a tenth would have hidden a loss of 5 %.
    let blunt = gated(&runs("a", 1.0, 0.9, &[0.1, -0.12, 0.0]), &runs("b", 1.0, 0.9, &[0.11, -0.09, 0.0]), 0.05);
    assert_eq!(blunt.answer, Answer::Undecided, "{blunt:#?}");
    let row = blunt.rows[0];
    assert!(row.power < Some(0.5) && row.smallest_detectable > Some(0.1), "{row:?}");
    let needed = row.needed.expect("a number of runs");
    let expected = f64::from(needed - 3) * 2e-8;
    let close = row.seconds.is_some_and(|seconds| (seconds / expected - 1.0).abs() < 1e-9);
    assert!(needed > 10 && close, "20 trials of a nanosecond each: {row:?}");
    let few = gated(&base, &runs("b", 0.5, 0.9, &[0.0]), 0.05);
    assert!(few.answer == Answer::Undecided && few.rows.iter().all(|row| row.power.is_none()), "{few:#?}");
}

#[test]
fn an_alarm_is_confirmed_by_the_same_loss_alone() {
    let base = runs("a", 1.0, 0.9, &[0.002, -0.001, 0.000]);
    let gated = |other: &Chosen, level: Option<f64>| {
        let request = Request { margin: Some(Share(0.05)), level, ..Request::default() };
        compare(&base, other, &request).expect("comparable")
    };
    let wander = [0.001, -0.002, 0.001];
    // An alarm, the further runs, and all of them together.
    let measured = |[first, again]: [(f64, f64); 2]| {
        let sides = [("b", first), ("c", again)].map(|(name, (level, ratio))| runs(name, level, ratio, &wander));
        let both =
            Chosen { documents: sides.iter().flat_map(|side| side.documents.clone()).collect(), ..Chosen::default() };
        [gated(&sides[0], None), gated(&sides[1], None), gated(&both, Some(CONFIRMED))]
    };
    let answer = |[first, again, together]: &[Comparison; 3]| confirmed(first, again, together);
    assert_eq!(answer(&measured([(0.9, 0.9); 2])), Answer::Loss);
    assert_eq!(answer(&measured([(0.9, 0.9), (1.0, 0.9)])), Answer::Passed);
    // Only what the microVM keeps is less now: native, of which the alarm was, is as quick as before.
    let [alarm, other, together] = measured([(0.9, 0.9), (1.0, 0.8)]);
    let native = Comparison { rows: alarm.rows[..1].to_vec(), ..alarm };
    assert_eq!(other.gate.as_ref().map(|gate| gate.answer), Some(Answer::Loss));
    assert_eq!(confirmed(&native, &other, &together), Answer::Undecided, "{other:#?}");
    // Shown twice at 5 %, which is not enough: both have the same baseline.
    let slight = measured([(0.994, 0.9); 2]);
    let answers = [0, 1, 2].map(|of: usize| slight[of].gate.as_ref().expect("a gate").answer);
    assert!(answers[..2] == [Answer::Loss; 2] && answers[2] != Answer::Loss, "{answers:?}");
    assert_eq!(answer(&slight), Answer::Undecided);
}

#[test]
fn a_history_shows_from_which_run_on_it_is_different() {
    let mut documents: Vec<Document> = Vec::new();
    for index in 0..14_u64 {
        let level = if index < 7 { 1.0 } else { 0.95 };
        let mut rng = Rng::new(index);
        let mut document = run(&format!("r{index:02}"), level * (1.0 + 0.003 * rng.normal()), 0.9, index);
        document.run.started = format!("2026-01-{:02}T00:00:00Z", index + 1);
        documents.push(document);
    }
    documents.reverse();
    let recorded: Vec<_> = documents.iter().map(crate::history::Recorded::of).collect();
    let found = crate::history::series(&recorded);
    assert_eq!(found.iter().map(|series| series.runs).collect::<Vec<_>>(), [14, 14, 14]);
    for series in &found[..2] {
        let changes = series.changes.as_ref().expect("enough runs");
        assert_eq!(changes.iter().map(|change| change.run.as_str()).collect::<Vec<_>>(), ["r07"], "{series:?}");
        assert!((changes[0].ratio - 0.95).abs() < 0.01, "{series:?}");
    }
    assert_eq!(found[2].changes, Some(Vec::new()), "the ratio did not change");
    let few = crate::history::series(&recorded[..7]);
    assert!(few.iter().all(|series| series.changes.is_none()), "{few:?}");
}

/// Runs with a larger table, and those of another machine whose bundles are shown together, were a change of the study's values.
#[test]
fn runs_of_other_work_or_on_another_machine_are_no_change() {
    let history = |change: &dyn Fn(&mut RunHead)| {
        let of = |index: u64| {
            let level = if index < 8 { 1.0 } else { 0.5 };
            let mut document = run(&format!("r{index:02}"), level, 0.9, index);
            document.run.started = format!("2026-01-{:02}T00:00:00Z", index + 1);
            if index >= 8 {
                change(&mut document.run);
            }
            crate::history::Recorded::of(&document)
        };
        let recorded: Vec<_> = (0..16).map(of).collect();
        let found = crate::history::series(&recorded);
        let changes = found.iter().flat_map(|series| series.changes.iter().flatten());
        (found.len(), found[0].runs, changes.filter(|change| change.ratio < 0.6).count())
    };
    let table = |head: &mut RunHead| drop(head.parameters.insert("table".to_owned(), "2 GiB".to_owned()));
    assert_eq!(history(&table), (6, 8, 0));
    assert_eq!(history(&|head| head.machine.cpu.logical_cpus = Some(512)), (6, 8, 0));
    // A newer kernel, or a parameter that another version has in addition, is what a change may come from.
    let newer = |head: &mut RunHead| {
        head.machine.kernel.release = Some("9.9".to_owned());
        head.parameters.insert("new".to_owned(), "1".to_owned());
    };
    assert_eq!(history(&newer), (3, 16, 2));
}
