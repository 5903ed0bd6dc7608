//! A search for a maximum as people read it: the table of levels fits every width, and its columns never touch.

use baremark_model::maximum::{Basis, Document, Ended, FORMAT, KneeRow, Limiting, Maximum, Plan};
use baremark_model::qos::Qos;
use baremark_report::{Style, maximum};

fn row(level: f64, verdict: &str, done: f64, failed: f64, percentiles: [Option<u64>; 3]) -> KneeRow {
    let [p50_ns, p95_ns, p99_ns] = percentiles;
    KneeRow {
        level,
        windows: 3,
        verdict: verdict.to_owned(),
        achieved_per_s: done,
        failed_share: failed,
        p50_ns,
        p95_ns,
        p99_ns,
        utilization: [("cpu".to_owned(), 0.999)].into(),
        generator_cpu_share: None,
    }
}

fn searched() -> Document {
    Document {
        format: FORMAT.to_owned(),
        title: "http://127.0.0.1:8080/".to_owned(),
        factor: "operations/s".to_owned(),
        qos: Qos { limits: vec!["p99<50ms".parse().expect("a limit")], mix: Default::default() },
        plan: Plan::between(50.0, 40_000.0),
        ended: Ended::Found,
        maximum: Some(Maximum {
            level: 35_584.0,
            low: Some(34_900.0),
            high: Some(36_100.0),
            confidence: 0.95,
            basis: Basis::FreshTrials,
            isotonic_level: None,
        }),
        shown_level: Some(34_000.0),
        at_answer: None,
        limited_by: vec![Limiting { what: "p99<50 ms".to_owned(), share: 1.0 }],
        generator_was_the_limit: false,
        hysteresis: None,
        knee: vec![
            row(50.0, "insufficient", 49.89, 0.0, [Some(1_200_000), None, None]),
            row(676.3, "pass", 676.0, 0.001, [Some(504_320), Some(6_300_000), Some(10_440_000)]),
            row(35_584.0, "fail", 35_072.0, 0.032, [Some(706_560), Some(163_070_000), Some(2_550_000_000)]),
        ],
        trials: Vec::new(),
    }
}

#[test]
fn a_maximum_fits_its_width() {
    for width in [40, 50, 60, 70, 80, 120] {
        let text = maximum::render(&searched(), &Style { width, ..Style::default() });
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{} columns of {width}: {line}", line.chars().count());
        }
        let table: Vec<&str> = text.lines().skip_while(|line| *line != "Levels").skip(1).take(4).collect();
        let cells = |line: &str| line.split("  ").filter(|cell| !cell.trim().is_empty()).count();
        let heads = cells(table[0]);
        assert!(heads >= 3 && table.iter().all(|line| cells(line) == heads), "{width}: {table:#?}");
    }
    insta::assert_snapshot!(maximum::render(&searched(), &Style { width: 80, ..Style::default() }));
}

#[test]
fn what_was_measured_at_the_answer_is_next_to_it() {
    let at_answer = row(35_584.0, "undecided", 35_580.0, 0.001, [Some(706_560), None, Some(48_100_000)]);
    let document = Document { at_answer: Some(at_answer), ..searched() };
    let text = maximum::render(&document, &Style { width: 200, ..Style::default() });
    let said = text.lines().find(|line| line.trim_start().starts_with("Measured there: ")).expect("a line");
    assert!(said.contains("/s done, 0.1 % failed, p50 707 us, p99 48.1 ms"), "{said}");
}

/// "No maximum was found yet." was all that was said of a search that was stopped.
#[test]
fn a_search_that_is_stopped_says_between_which_levels_its_limit_is() {
    let said = |levels: &[usize]| {
        let all = searched();
        let knee = levels.iter().map(|at| all.knee[*at].clone()).collect();
        maximum::answer(&Document { ended: Ended::Interrupted, maximum: None, knee, ..all })
    };
    let begin = "Interrupted; partial result. ";
    assert_eq!(
        said(&[0, 1, 2]),
        format!("{begin}Between 676.3 and 35584 operations/s: the first met every limit, the second exceeded one.")
    );
    assert_eq!(said(&[0, 1]), format!("{begin}At least 676.3 operations/s: so many met every limit."));
    assert_eq!(said(&[2]), format!("{begin}Fewer than 35584 operations/s: so many exceeded a limit."));
    assert_eq!(said(&[0]), format!("{begin}No level of operations/s was decided."));
    let all = searched();
    let knee = vec![
        KneeRow { verdict: "fail".to_owned(), ..all.knee[1].clone() },
        KneeRow { verdict: "pass".to_owned(), ..all.knee[2].clone() },
    ];
    let crossed = maximum::answer(&Document { ended: Ended::TimeOver, maximum: None, knee, ..all });
    assert_eq!(
        crossed,
        "The time limit was reached. No maximum yet: 35584 operations/s met every limit, and 676.3 exceeded one."
    );
}
