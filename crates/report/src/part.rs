//! A document of several workloads as one document of each: their metrics, tables and published values differ.

use baremark_model::document::Document;
use baremark_model::plan::{PlannedWorkload, Treatment};
use baremark_model::tables::WORKLOAD;
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

fn of(document: &Document, workload: &PlannedWorkload) -> Document {
    let belongs = |treatment: &Treatment| treatment.get(WORKLOAD) == Some(&workload.kind);
    let mut part = document.clone();
    part.estimates.retain(|row| belongs(&row.treatment));
    part.members.retain(|row| belongs(&row.treatment));
    part.ratios.retain(|row| belongs(&row.treatment));
    part.absent.retain(|absent| belongs(&absent.treatment));
    part.explanations.retain(|row| belongs(&row.treatment));
    part.predictions.retain(|row| belongs(&row.treatment));
    part.trials.retain(|trial| trial.arms.iter().any(|arm| belongs(&arm.treatment)));
    let own = part.estimates.iter_mut().map(|row| &mut row.treatment);
    let of_ratios = part.ratios.iter_mut().flat_map(|row| [&mut row.treatment, &mut row.relative_to]);
    let of_absent = part.absent.iter_mut().map(|absent| &mut absent.treatment);
    let of_predicted = part.predictions.iter_mut().flat_map(|row| [&mut row.treatment, &mut row.relative_to]);
    let of_why = part.explanations.iter_mut().map(|row| &mut row.treatment);
    let of_trials = part.trials.iter_mut().flat_map(|trial| trial.arms.iter_mut().map(|arm| &mut arm.treatment));
    let of_members = part.members.iter_mut().map(|row| &mut row.treatment);
    let own = own.chain(of_members);
    for treatment in own.chain(of_ratios).chain(of_absent).chain(of_why).chain(of_predicted).chain(of_trials) {
        treatment.remove(WORKLOAD);
    }
    let planned = part.trials.iter().flat_map(|trial| trial.arms.iter().map(|arm| &arm.treatment));
    let treatments: Vec<&Treatment> = planned.chain(part.absent.iter().map(|absent| &absent.treatment)).collect();
    let run = &mut part.run;
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
