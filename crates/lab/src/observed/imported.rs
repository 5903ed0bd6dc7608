//! What another program observed during a run: its rows and series alongside our own.

use crate::run::Run;
use baremark_model::imported::Imported;
use baremark_model::observation::{ObservedRow, ObservedSeries};
use baremark_model::plan::Treatment;

fn place(imported: &Imported) -> String {
    format!("{} {}", imported.program, imported.host)
}

/// When a file's first row was written, in seconds since the run began.
#[expect(clippy::cast_precision_loss, reason = "to a microsecond over centuries")]
fn began(run: &Run, imported: &Imported) -> f64 {
    (imported.began_unix_ns as f64 - run.started.0 as f64) / 1e9
}

/// Means over the rows that fall into the run. Neighbouring rows are not independent, so that they have no interval.
pub(super) fn rows(run: &Run) -> Vec<ObservedRow> {
    let mut rows = Vec::new();
    for imported in &run.imported {
        let from = began(run, imported);
        #[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
        let lasted = run.ended.map(|ended| ended.0.saturating_sub(run.started.0) as f64 / 1e9);
        let inside = |at: f64| at >= 0.0 && lasted.is_none_or(|lasted| at <= lasted);
        for series in &imported.series {
            let points = series.points.iter().filter(|[at, _]| inside(from + at));
            let values: Vec<f64> = points.map(|[_, value]| *value).collect();
            let Some(value) = baremark_stats::estimate::mean(&values) else { continue };
            rows.push(ObservedRow {
                treatment: Treatment::new(),
                place: place(imported),
                quantity: series.quantity.clone(),
                instance: series.instance.clone(),
                unit: series.unit.clone(),
                n: values.len(),
                value,
                lo: None,
                hi: None,
            });
        }
    }
    rows
}

pub(super) fn series(run: &Run) -> Vec<ObservedSeries> {
    let mut all = Vec::new();
    for imported in &run.imported {
        let from = began(run, imported);
        all.extend(imported.series.iter().map(|series| ObservedSeries {
            place: place(imported),
            quantity: series.quantity.clone(),
            instance: series.instance.clone(),
            unit: series.unit.clone(),
            points: series.points.iter().map(|[at, value]| [from + at, *value]).collect(),
        }));
    }
    all
}

pub(super) fn notes(run: &Run) -> Vec<String> {
    let mut notes = Vec::new();
    for imported in &run.imported {
        let (place, file) = (place(imported), &imported.file);
        notes.push(format!("{place}: imported from {file}, {} rows; its words and units are its own", imported.rows));
        notes.extend(imported.notes.iter().map(|note| format!("{place}: {note}")));
    }
    notes
}
