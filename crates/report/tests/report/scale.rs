//! Known costs and what was found of them, as golden files.

use baremark_model::scale::{FORMAT, ScaleDocument, ScaleRow};
use baremark_report::Style;
use baremark_report::scale::{Outcome, outcome, render};

fn row(label: &str, asked: f64, found: Option<[f64; 3]>) -> ScaleRow {
    let covers = found.map(|[_, lo, hi]| (lo..=hi).contains(&asked));
    ScaleRow {
        label: label.to_owned(),
        asked,
        injected: asked,
        blocks: 10,
        recovered: found.map(|[recovered, ..]| recovered),
        lo: found.map(|[_, lo, _]| lo),
        hi: found.map(|[.., hi]| hi),
        covers,
        told_from_none: found.map(|[_, lo, _]| lo > 0.0),
    }
}

fn document(rows: Vec<ScaleRow>, chance: f64) -> ScaleDocument {
    ScaleDocument {
        format: FORMAT.to_owned(),
        run: "20251121-0335-3fa9".to_owned(),
        workload: "random-access".to_owned(),
        native_means: "bare metal".to_owned(),
        blocks: 10,
        confidence: 0.95,
        covered: rows.iter().filter(|row| row.covers == Some(true)).count(),
        intervals: rows.iter().filter(|row| row.covers.is_some()).count(),
        rows,
        chance,
    }
}

#[test]
fn a_true_scale() {
    let rows = vec![
        row("9c1e", 0.0, Some([0.001, -0.004, 0.006])),
        row("04ab", 0.01, Some([0.0112, 0.0061, 0.0163])),
        row("77f0", 0.02, None),
        row("e0d3", 0.05, Some([0.0441, 0.0391, 0.0491])),
    ];
    let document = document(rows, 0.142);
    assert_eq!(outcome(&document), Outcome::Calibrated);
    insta::assert_snapshot!(render(&document, &Style::default()));
}

#[test]
fn a_scale_that_is_off_says_so_first() {
    let rows = (0..8).map(|arm| row(&format!("000{arm}"), 0.05, Some([0.02, 0.01, 0.03]))).collect();
    let off = document(rows, 0.000_04);
    assert_eq!(outcome(&off), Outcome::Off);
    let text = render(&off, &Style::default());
    assert!(text.contains("0 of 8 intervals of 95 % cover") && text.contains("this one is off"), "{text}");
    let none = document(vec![row("aaaa", 0.01, None)], 1.0);
    assert_eq!(outcome(&none), Outcome::Undecided);
    assert!(render(&none, &Style::default()).contains("no arm has an interval"));
}
