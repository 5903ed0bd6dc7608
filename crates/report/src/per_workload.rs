//! A document of several workloads as one document of each: their metrics, tables and published values differ.

use baremark_model::document::{
    DetailRow, Document, EstimateRow, ExplanationRow, FairnessRow, MemberEstimate, PredictionRow, RatioRow,
    ReferenceRow, TrialRow,
};
use baremark_model::plan::{Absent, PlannedWorkload, Treatment};
use baremark_model::tables::WORKLOAD;
use baremark_model::timeline::TimelineRow;
use std::borrow::Cow;

/// One workload's share of a document.
pub(crate) struct Part<'d> {
    /// The workload where there are several; else nothing needs to be said.
    pub name: Option<&'d str>,
    /// The document as if it were of this workload alone.
    pub document: Cow<'d, Document>,
}

/// The parts of a document, in the study's order; the whole where it is of one workload.
pub(crate) fn parts(document: &Document) -> Vec<Part<'_>> {
    if document.run.workloads.is_empty() {
        return vec![Part { name: None, document: Cow::Borrowed(document) }];
    }
    let part = |workload| Part { name: Some(workload_name(workload)), document: Cow::Owned(of(document, workload)) };
    document.run.workloads.iter().map(part).collect()
}

fn workload_name(workload: &PlannedWorkload) -> &str {
    &workload.kind
}

/// A row of a document that says which treatments it is of.
trait OfTreatments {
    fn treatments(&mut self) -> Vec<&mut Treatment>;
}

macro_rules! of_treatments {
    ($($row:ty: $($field:ident),+;)+) => {
        $(impl OfTreatments for $row {
            fn treatments(&mut self) -> Vec<&mut Treatment> {
                vec![$(&mut self.$field),+]
            }
        })+
    };
}

of_treatments! {
    EstimateRow: treatment;
    MemberEstimate: treatment;
    FairnessRow: treatment;
    RatioRow: treatment, relative_to;
    ReferenceRow: treatment, partner, first_partner;
    Absent: treatment;
    DetailRow: treatment;
    ExplanationRow: treatment;
    PredictionRow: treatment, relative_to;
    TimelineRow: treatment;
}

impl OfTreatments for TrialRow {
    fn treatments(&mut self) -> Vec<&mut Treatment> {
        self.arms.iter_mut().map(|arm| &mut arm.treatment).collect()
    }
}

/// The rows of one workload, which they need not name any more.
fn keep<R: OfTreatments>(rows: &mut Vec<R>, kind: &str) {
    rows.retain_mut(|row| row.treatments().iter().any(|of| of.get(WORKLOAD).is_some_and(|name| name == kind)));
    for treatment in rows.iter_mut().flat_map(OfTreatments::treatments) {
        treatment.remove(WORKLOAD);
    }
}

fn of(document: &Document, workload: &PlannedWorkload) -> Document {
    let mut part = document.clone();
    let kind = &workload.kind;
    // Every field is named: a new kind of row does not compile before it is said here whose it is.
    let Document {
        format: _,
        method: _,
        run: _,
        looks: _,
        flags: _,
        observed: _,
        time: _,
        // Of studies of one workload alone.
        slopes: _,
        estimates,
        members,
        fairness,
        ratios,
        references,
        absent,
        details,
        timelines,
        explanations,
        predictions,
        trials,
        reliability: _,
    } = &mut part;
    keep(estimates, kind);
    keep(members, kind);
    keep(fairness, kind);
    keep(ratios, kind);
    keep(references, kind);
    keep(absent, kind);
    keep(details, kind);
    keep(timelines, kind);
    keep(explanations, kind);
    keep(predictions, kind);
    keep(trials, kind);
    let planned = part.trials.iter().flat_map(|trial| trial.arms.iter().map(|arm| &arm.treatment));
    let treatments: Vec<&Treatment> = planned.chain(part.absent.iter().map(|absent| &absent.treatment)).collect();
    let run = &mut part.run;
    // Those of this workload without its name, none of another.
    let is_workload = |name: &str| document.run.workloads.iter().any(|of| of.kind == name);
    let own = |(key, value): (String, String)| match key.split_once('.') {
        Some((of, rest)) if of == kind => Some((rest.to_owned(), value)),
        Some((of, _)) if is_workload(of) => None,
        _ => Some((key, value)),
    };
    run.parameters = std::mem::take(&mut run.parameters).into_iter().filter_map(own).collect();
    for (key, levels) in &mut run.factors {
        levels.retain(|level| treatments.iter().any(|treatment| treatment.get(key) == Some(level)));
    }
    run.factors.retain(|(key, levels)| key != WORKLOAD && !levels.is_empty());
    let named = |name: &String| run.factors.iter().any(|(key, _)| key == name);
    run.rows = run.rows.take().filter(named);
    (run.workload, run.metric) = (workload.kind.clone(), workload.metric.clone());
    run.published.clone_from(&workload.published);
    run.workloads.clear();
    part
}
