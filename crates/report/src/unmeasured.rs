//! What a model predicts of a virtual machine that could not be measured, and how it could be.

use crate::grid::predicted_ratio;
use crate::text::clean;
use crate::treatment::{ENVIRONMENT, Factors, list};
use baremark_model::distinct::grouped;
use baremark_model::document::{Document, PredictionRow};
use baremark_model::tables::WORKLOAD;

/// Factors of a virtual machine's memory, which all predictions of a run have in common.
const OF_MEMORY: [&str; 2] = ["host_backing", "guest_tables"];

/// The predictions with their intervals, and how to measure instead; `None` where every virtual machine was measured, or nothing is predicted.
pub(crate) fn said(document: &Document) -> Option<[(&'static str, String); 2]> {
    let reason = |row: &PredictionRow| {
        let absent = document.absent.iter().find(|absent| absent.treatment == row.treatment && !row.measured)?;
        Some(clean(&absent.reason))
    };
    let rows: Vec<&PredictionRow> = document.predictions.iter().filter(|row| reason(row).is_some()).collect();
    let first = rows.first()?;
    let place = first.treatment.get(ENVIRONMENT);
    // Of an environment that runs, what a single workload lacks is in the details.
    if document.estimates.iter().any(|row| row.treatment.get(ENVIRONMENT) == place) {
        return None;
    }
    let place = place.map_or_else(|| "a virtual machine".to_owned(), |label| clean(label));
    // What is predicted alike is said once, and a workload by its name where all of it is.
    let alike = grouped(rows.iter().map(|row| (predicted_ratio(row), *row)));
    let named = |same: &[&PredictionRow]| {
        let of = |row: &PredictionRow| row.treatment.get(WORKLOAD).cloned();
        let whole = |row: &PredictionRow| {
            of(row).is_some() && rows.iter().filter(|other| of(other) == of(row)).all(|other| same.contains(other))
        };
        let name = |row: &&PredictionRow| match of(row).filter(|_| whole(row)) {
            Some(workload) => clean(&workload),
            None => label(document, row),
        };
        let mut names: Vec<String> = same.iter().map(name).collect();
        names.dedup();
        names.join(", ")
    };
    let values: Vec<String> = alike.iter().map(|(ratio, same)| format!("{} {ratio}", named(same))).collect();
    let kind = clean(first.scheme.split([' ', ',']).next().unwrap_or("nested"));
    let model = format!(
        "Predicted for {place} / native, not measured ({kind} paging alone, 95 % interval of the model): {}.",
        values.join("; ")
    );
    let why = reason(first).unwrap_or_default();
    Some([("Model", model), ("Measure", format!("{place}: {}.", why.trim_end_matches('.')))])
}

/// "random-access, 4k pages"
fn label(document: &Document, row: &PredictionRow) -> String {
    let without = [[ENVIRONMENT, WORKLOAD], OF_MEMORY].concat();
    let levels = list(&Factors::of(&document.run).levels(&row.treatment, &without));
    match (row.treatment.get(WORKLOAD).map(|kind| clean(kind)), levels.is_empty()) {
        (Some(workload), true) => workload,
        (Some(workload), false) => format!("{workload}, {levels}"),
        (None, true) => clean(&row.metric),
        (None, false) => levels,
    }
}
