//! Comparisons and comma-separated values, as golden files.

use crate::documents;
use baremark_model::comparison::{
    Answer, Comparison, ComparisonRow, Difference, FORMAT, Gate, GateRow, Method, ObservedComparison, Side,
};
use baremark_model::document::Outcome;
use baremark_model::metric::Better;
use baremark_model::plan::Treatment;
use baremark_model::seam::Sample;
use baremark_model::units::Share;
use baremark_report::comparison::{Names, gate, render};
use baremark_report::{Style, csv};

fn side(runs: &[&str]) -> Side {
    Side {
        runs: runs.iter().map(|&run| run.to_owned()).collect(),
        levels: Treatment::new(),
        machines: vec!["AMD EPYC, vm, 2 CPUs, Linux 6.1.0".to_owned()],
    }
}

fn row(place: &str, below: Option<&str>, found: Option<[f64; 3]>) -> ComparisonRow {
    let [ratio, lo, hi] = found.map_or([None; 3], |found| found.map(Some));
    let (outcome, words) = match found {
        None => (Outcome::NotEnough, "not enough data: 3 runs a side are needed (1 more run of the base)"),
        Some([_, lo, hi]) if lo > 1.0 / 1.02 && hi < 1.02 => (Outcome::Equivalent, "equivalent within 2 %"),
        Some([_, lo, hi]) if lo < 1.0 && hi > 1.0 => {
            (Outcome::NoLarger, "inconclusive: from 20 % slower to 22 % faster")
        }
        Some([ratio, ..]) if ratio < 1.0 => (Outcome::SlowerByMore, "slower by 3 to 7 %"),
        Some(_) => (Outcome::FasterByMore, "faster by 5 to 15 %"),
    };
    let base = if below.is_some() { 0.985 } else { 0.018_42 };
    ComparisonRow {
        metric: "gups".to_owned(),
        unit: "GUP/s".to_owned(),
        better: Better::Higher,
        treatment: documents::arm(place, "4k"),
        relative_to: below.map(|below| documents::arm(below, "4k")),
        base_units: 3,
        other_units: 4,
        base_value: Some(base),
        other_value: Some(base * ratio.unwrap_or(0.85)),
        ratio,
        lo,
        hi,
        outcome,
        words: words.to_owned(),
    }
}

fn comparison(rows: Vec<ComparisonRow>) -> Comparison {
    let differs = |fact: &str, base: &str, other: &str| Difference {
        fact: fact.to_owned(),
        base: base.to_owned(),
        other: other.to_owned(),
    };
    Comparison {
        format: FORMAT.to_owned(),
        study: "StarRandomAccess \u{1b}[2J".to_owned(),
        workload: "random-access".to_owned(),
        base: side(&["20251121-0335-3fa9", "20251121-0351-0b5e", "20251121-0420-77c1"]),
        other: side(&["20251122-0335-aaaa", "20251122-0351-bbbb", "20251122-0420-cccc", "20251122-0420-dddd"]),
        method: Method::Unpaired,
        delta: Share(0.02),
        confidence: 0.975,
        rows,
        gate: None,
        observed: Vec::new(),
        declared: vec![differs("machine.kernel.release", "6.1.0", "6.2.0")],
        confounded: vec![differs("baremark", "0.1.0", "0.2.0"), differs("machine.cpu.microcode", "0x1", "0x2")],
        mixed: vec![differs("machine.memory.thp_enabled", "always | madvise", "always | madvise")],
    }
}

#[test]
fn every_kind_of_row() {
    let all = comparison(vec![
        row("native", None, Some([0.95, 0.93, 0.97])),
        row("microvm", None, Some([1.10, 1.05, 1.15])),
        row("qemu", None, None),
        row("ssh", None, Some([0.99, 0.80, 1.22])),
        row("microvm", Some("native"), Some([1.001, 0.989, 1.012])),
    ]);
    insta::assert_snapshot!(render(&all, &Names::new(), &Style::default()));
}

#[test]
fn a_gate_says_what_it_could_have_missed() {
    let all = comparison(vec![
        row("native", None, Some([0.95, 0.93, 0.97])),
        row("microvm", None, Some([1.001, 0.989, 1.012])),
        row("ssh", None, Some([0.99, 0.80, 1.22])),
        row("qemu", None, None),
    ]);
    let of = |answer, power, smallest_detectable, needed| GateRow {
        answer,
        at_least: None,
        power,
        smallest_detectable,
        needed,
        seconds: needed.map(|units| f64::from(units) * 21.0),
    };
    let rows = vec![
        of(Answer::Loss, Some(0.99), Some(0.021), None),
        of(Answer::Passed, Some(0.97), Some(0.031), None),
        of(Answer::Undecided, Some(0.12), Some(0.38), Some(17)),
        of(Answer::Undecided, None, None, None),
    ];
    let found = Gate { margin: Share(0.05), answer: Answer::Loss, rows };
    insta::assert_snapshot!(gate(&all, &found, &Style::default()));
}

fn seen(place: &str, quantity: &str, values: [f64; 2], half: Option<f64>) -> ObservedComparison {
    let difference = values[1] - values[0];
    ObservedComparison {
        treatment: documents::arm("qemu", "4k"),
        place: place.to_owned(),
        quantity: quantity.to_owned(),
        unit: "1/s".to_owned(),
        base_units: 3,
        other_units: 4,
        base_value: values[0],
        other_value: values[1],
        difference,
        lo: half.map(|half| difference - half),
        hi: half.map(|half| difference + half),
        differs: half.is_some_and(|half| difference.abs() > half),
    }
}

#[test]
fn what_observers_saw_is_told_where_it_differs() {
    let with = |observed: Vec<ObservedComparison>| Comparison {
        observed,
        confounded: Vec::new(),
        declared: Vec::new(),
        mixed: Vec::new(),
        ..comparison(vec![row("qemu", None, Some([0.95, 0.93, 0.97]))])
    };
    let some = with(vec![
        seen("qemu", "kernel.context_switches", [1234.0, 45_678.0], Some(512.0)),
        seen("this machine", "kernel.interrupts", [2000.0, 1000.0], Some(33.0)),
        seen("qemu", "disk.iops", [10.0, 11.0], Some(2.0)),
    ]);
    insta::assert_snapshot!(render(&some, &Names::new(), &Style::default()));
    let none =
        render(&with(vec![seen("qemu", "disk.iops", [10.0, 11.0], Some(2.0))]), &Names::new(), &Style::default());
    assert!(none.contains("0 of 1 observed values differ"), "{none}");
    let few = render(&with(vec![seen("qemu", "disk.iops", [10.0, 90.0], None)]), &Names::new(), &Style::default());
    assert!(few.contains("No interval: three runs a side are needed") && !few.contains("90"), "{few}");
}

#[test]
fn results_as_csv() {
    insta::assert_snapshot!(csv::results(&documents::typical()).replace("\r\n", "\n"));
}

#[test]
fn members_as_csv_stand_below_what_they_came_to_together() {
    let mut document = documents::ensemble();
    document.estimates.retain(|row| row.treatment.get("count").is_some_and(|count| count == "2"));
    document.ratios.clear();
    insta::assert_snapshot!("members_as_csv", csv::results(&document).replace("\r\n", "\n"));
    let sample = |value| Sample::new("triad", value);
    let mut trial = documents::typical().trials.remove(0);
    trial.arms.truncate(1);
    trial.arms[0].medians = vec![sample(30.0)];
    trial.arms[0].members = vec![vec![sample(10.0)], vec![sample(20.0)]];
    document.trials = vec![trial];
    let text = csv::trials(&document);
    let ends: Vec<(&str, &str)> = text
        .lines()
        .skip(1)
        .filter_map(|line| Some((line.split_once(",triad,")?.1.split_once(',')?.0, line.rsplit_once(',')?.1)))
        .collect();
    assert_eq!(ends, [("30", ""), ("10", "1"), ("20", "2")], "{text}");
}

#[test]
fn trials_as_csv_quote_what_others_wrote() {
    let mut document = documents::flagged();
    document.trials.retain(|trial| trial.block < 1 || trial.cell == 0 && trial.block == 15);
    document.trials[0].flags = vec!["a \"quoted\" flag, with a comma".to_owned(), "line\nbreak".to_owned()];
    let text = csv::trials(&document);
    assert!(text.contains("\"a \"\"quoted\"\" flag, with a comma; line\nbreak\",\r\n"), "{text}");
    let mut failed = documents::nothing();
    failed.trials[0].arms.clear();
    insta::assert_snapshot!(csv::trials(&failed).replace("\r\n", "\n"));
}
