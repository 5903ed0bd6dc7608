//! Changes over a history: from which run on a quantity of a study is different.
//!
//! A series is one headline value or one ratio of a study, a number a run, in the order of the runs. Quick runs and self-checks
//! form series of their own.

use baremark_model::document::Document;
use baremark_model::plan::{Contrast, Treatment};
use baremark_stats::changes;
use serde::Serialize;

/// The share of histories without a change in which one is shown.
const LEVEL: f64 = 0.01;
/// Reorderings of the permutation test are the same every time.
const SEED: u64 = 1;

/// One quantity over the runs of a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The study's question.
    pub study: String,
    /// Whether its runs are those of `--quick`.
    pub quick: bool,
    /// The metric's key.
    pub metric: String,
    /// The treatment.
    pub treatment: Treatment,
    /// Of a ratio: what is below the line.
    pub relative_to: Option<Treatment>,
    /// Runs that have it.
    pub runs: usize,
    /// The changes, in order; `null` below [`baremark_stats::changes::FEWEST`] runs.
    pub changes: Option<Vec<Change>>,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The first run after it.
    pub run: String,
    /// When that began.
    pub started: String,
    /// Values from here to the next change over those since the last one.
    pub ratio: f64,
    /// Lower limit of its 95 % interval. The place was looked for, so that the interval is too short.
    pub lo: f64,
    /// Upper limit.
    pub hi: f64,
    /// By the permutation test.
    pub p_value: f64,
}

/// The series of `documents`, which may be of several studies and in any order.
#[must_use]
pub fn series(documents: &[Document]) -> Vec<Series> {
    let mut ordered: Vec<&Document> = documents.iter().filter(|document| !document.run.mode.self_check).collect();
    ordered.sort_by(|one, two| one.run.started.cmp(&two.run.started));
    let mut found: Vec<(Series, Vec<(&Document, f64)>)> = Vec::new();
    for document in ordered {
        for (metric, treatment, relative_to, value) in quantities(document) {
            let same = |(series, _): &&mut (Series, Vec<(&Document, f64)>)| {
                series.study == document.run.study
                    && series.quick == document.run.mode.quick
                    && series.metric == metric
                    && series.treatment == *treatment
                    && series.relative_to.as_ref() == relative_to
            };
            match found.iter_mut().find(same) {
                Some((_, values)) => values.push((document, value)),
                None => found.push((of(document, metric, treatment, relative_to), vec![(document, value)])),
            }
        }
    }
    found.into_iter().map(|(series, values)| judged(series, &values)).collect()
}

fn of(document: &Document, metric: &str, treatment: &Treatment, relative_to: Option<&Treatment>) -> Series {
    Series {
        study: document.run.study.clone(),
        quick: document.run.mode.quick,
        metric: metric.to_owned(),
        treatment: treatment.clone(),
        relative_to: relative_to.cloned(),
        runs: 0,
        changes: None,
    }
}

/// The headline's values and ratios of a run, as natural logarithms.
fn quantities(document: &Document) -> Vec<(&str, &Treatment, Option<&Treatment>, f64)> {
    let headline = |metric: &str, treatment: &Treatment| metric == document.run.metric_of(treatment);
    let values = document.estimates.iter().filter(|row| headline(&row.metric, &row.treatment) && row.estimate > 0.0);
    let values = values.map(|row| (row.metric.as_str(), &row.treatment, None, row.estimate.ln()));
    let ratios = document.ratios.iter().filter(|row| headline(&row.metric, &row.treatment));
    let ratios = ratios.filter(|row| row.contrast != Contrast::PageSize).filter_map(|row| {
        let ratio = row.ratio.filter(|ratio| *ratio > 0.0)?;
        Some((row.metric.as_str(), &row.treatment, Some(&row.relative_to), ratio.ln()))
    });
    values.chain(ratios).collect()
}

fn judged(series: Series, values: &[(&Document, f64)]) -> Series {
    let logs: Vec<f64> = values.iter().map(|(_, log)| *log).collect();
    let change = |found: &changes::Change| {
        let interval = found.shift.interval(0.95);
        let run = &values[found.at].0.run;
        Change {
            run: run.id.clone(),
            started: run.started.clone(),
            ratio: interval.centre.exp(),
            lo: interval.lo.exp(),
            hi: interval.hi.exp(),
            p_value: found.p_value,
        }
    };
    let changes = changes::changes(&logs, LEVEL, SEED).map(|found| found.iter().map(change).collect());
    Series { runs: values.len(), changes, ..series }
}
