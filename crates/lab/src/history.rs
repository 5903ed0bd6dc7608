//! Changes over a history: from which run on a quantity of a study is different.
//!
//! A series is one headline value or one ratio of a study, a number a run, in the order of the runs. Quick runs and self-checks
//! form series of their own, and so do runs of other parameters and on other machines: what differs between them is no change.

use baremark_model::document::Document;
use baremark_model::order;
use baremark_model::plan::Treatment;
use baremark_stats::changes;
use serde::Serialize;
use std::borrow::Borrow;
use std::collections::BTreeMap;

/// The share of histories without a change in which one is shown.
const LEVEL: f64 = 0.01;
/// Runs in which changes are looked for: the latest. The time goes with their square.
pub const LATEST: usize = 200;
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
    /// The changes in the latest [`LATEST`] runs, in order; `null` below [`baremark_stats::changes::FEWEST`] runs.
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

/// What a history has of a run: its headline's values and ratios. The document itself is not needed any more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    run: String,
    started: String,
    study: String,
    quick: bool,
    self_check: bool,
    /// The machine's fingerprint, which an update of its kernel does not change.
    machine: String,
    parameters: BTreeMap<String, String>,
    quantities: Vec<Quantity>,
}

/// A value or a ratio, as a natural logarithm.
#[derive(Clone, Debug, PartialEq)]
struct Quantity {
    metric: String,
    treatment: Treatment,
    relative_to: Option<Treatment>,
    /// Whether it is a percentile of all samples, which is another quantity than the mean of percentiles that earlier versions had.
    of_all_samples: bool,
    log: f64,
}

impl Recorded {
    /// Of a run's document.
    #[must_use]
    pub fn of(document: &Document) -> Recorded {
        let run = &document.run;
        Recorded {
            run: run.id.clone(),
            started: run.started.clone(),
            study: run.study.clone(),
            quick: run.mode.quick,
            self_check: run.mode.self_check,
            machine: run.machine.fingerprint(),
            parameters: run.parameters.clone(),
            quantities: quantities(document),
        }
    }

    /// Whether another run did the same work: the parameters that both have are alike. A later version has more of them.
    fn is_like(&self, other: &Recorded) -> bool {
        self.parameters.iter().all(|(key, value)| other.parameters.get(key).is_none_or(|of| of == value))
    }
}

/// The series of these runs, which may be of several studies and in any order.
#[must_use]
pub fn series(runs: &[impl Borrow<Recorded>]) -> Vec<Series> {
    let mut ordered: Vec<&Recorded> = runs.iter().map(Borrow::borrow).filter(|run| !run.self_check).collect();
    order::by(&mut ordered, |one, two| one.started.cmp(&two.started));
    // Of each quantity the series, one for each set of parameters: those of its first run.
    let mut places = BTreeMap::<_, Vec<usize>>::new();
    let mut found: Vec<(Series, Vec<(&Recorded, f64)>)> = Vec::new();
    for run in ordered {
        for quantity in &run.quantities {
            let key = (
                &run.study,
                run.quick,
                &run.machine,
                &quantity.metric,
                &quantity.treatment,
                &quantity.relative_to,
                quantity.of_all_samples,
            );
            let known = places.entry(key).or_default();
            let like = |at: &usize| found[*at].1.first().is_some_and(|(first, _)| first.is_like(run));
            let at = known.iter().copied().find(like).unwrap_or_else(|| {
                found.push((of(run, quantity), Vec::new()));
                known.push(found.len() - 1);
                found.len() - 1
            });
            found[at].1.push((run, quantity.log));
        }
    }
    found.into_iter().map(|(series, values)| judged(series, &values)).collect()
}

fn of(run: &Recorded, quantity: &Quantity) -> Series {
    Series {
        study: run.study.clone(),
        quick: run.quick,
        metric: quantity.metric.clone(),
        treatment: quantity.treatment.clone(),
        relative_to: quantity.relative_to.clone(),
        runs: 0,
        changes: None,
    }
}

/// The headline's values and ratios of a run.
fn quantities(document: &Document) -> Vec<Quantity> {
    let headline = |metric: &str, treatment: &Treatment| metric == document.run.metric_of(treatment);
    let values = document.estimates.iter().filter(|row| headline(&row.metric, &row.treatment) && row.estimate > 0.0);
    let values = values.map(|row| Quantity {
        metric: row.metric.clone(),
        treatment: row.treatment.clone(),
        relative_to: None,
        of_all_samples: row.samples.is_some(),
        log: row.estimate.ln(),
    });
    let ratios = document.ratios.iter().filter(|row| headline(&row.metric, &row.treatment));
    let ratios = ratios.filter(|row| !row.contrast.explains()).filter_map(|row| {
        let ratio = row.ratio.filter(|ratio| *ratio > 0.0)?;
        Some(Quantity {
            metric: row.metric.clone(),
            treatment: row.treatment.clone(),
            relative_to: Some(row.relative_to.clone()),
            of_all_samples: false,
            log: ratio.ln(),
        })
    });
    values.chain(ratios).collect()
}

fn judged(series: Series, values: &[(&Recorded, f64)]) -> Series {
    let runs = values.len();
    let values = &values[runs.saturating_sub(LATEST)..];
    let logs: Vec<f64> = values.iter().map(|(_, log)| *log).collect();
    let change = |found: &changes::Change| {
        let interval = found.shift.interval(0.95);
        let run = values[found.at].0;
        Change {
            run: run.run.clone(),
            started: run.started.clone(),
            ratio: interval.centre.exp(),
            lo: interval.lo.exp(),
            hi: interval.hi.exp(),
            p_value: found.p_value,
        }
    };
    let changes = changes::changes(&logs, LEVEL, SEED).map(|found| found.iter().map(change).collect());
    Series { runs, changes, ..series }
}
