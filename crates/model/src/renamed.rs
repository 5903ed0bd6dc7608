//! What was stored with former names of parameters, in those of today ([`former`](crate::former)): plans, requests of trials and result documents. So runs of
//! any version are compared by the same names.

use crate::document::Document;
use crate::former;
use crate::plan::{Plan, Treatment};
use crate::wire::TrialSpec;
use std::collections::BTreeMap;

/// The kinds of workloads by their names in a plan or document: of several all, with commas between.
fn kinds(workload: &str) -> Vec<&str> {
    workload.split(", ").collect()
}

/// The same key by its name of today; of several workloads a parameter is `KIND.key`.
fn key_now(kinds: &[&str], key: &str) -> Option<String> {
    match key.split_once('.').filter(|(kind, _)| kinds.contains(kind)) {
        Some((kind, own)) => former::key_now_of(&[kind], own).map(|now| format!("{kind}.{now}")),
        None => former::key_now_of(kinds, key),
    }
}

fn name(kinds: &[&str], name: &mut String) {
    if let Some(now) = key_now(kinds, name) {
        *name = now;
    }
}

fn names<V>(kinds: &[&str], values: &mut BTreeMap<String, V>) {
    let renamed: Vec<(String, String)> =
        values.keys().filter_map(|key| Some((key.clone(), key_now(kinds, key)?))).collect();
    for (former, now) in renamed {
        if let Some(value) = values.remove(&former) {
            values.entry(now).or_insert(value);
        }
    }
}

/// Gives the factors and parameters of a plan their names of today.
pub fn plan(plan: &mut Plan) {
    let workload = plan.workload.clone();
    let kinds = &kinds(&workload);
    plan.factors.iter_mut().for_each(|(factor, _)| name(kinds, factor));
    plan.rows.iter_mut().chain([&mut plan.columns]).for_each(|factor| name(kinds, factor));
    for arm in &mut plan.arms {
        names(kinds, &mut arm.treatment);
        names(kinds, &mut arm.arm.parameters);
    }
    plan.absent.iter_mut().for_each(|absent| names(kinds, &mut absent.treatment));
}

/// Gives the parameters of a trial's request their names of today.
pub fn request(spec: &mut TrialSpec) {
    let kinds = &kinds(&spec.workload);
    for member in spec.arms.iter_mut().flat_map(|arm| &mut arm.members) {
        names(kinds, &mut member.arm.parameters);
    }
}

/// Gives the factors and parameters of a document their names of today.
pub fn document(document: &mut Document) {
    let workload = document.run.workload.clone();
    let kinds = &kinds(&workload);
    let run = &mut document.run;
    run.factors.iter_mut().for_each(|(factor, _)| name(kinds, factor));
    run.rows.iter_mut().chain([&mut run.columns]).for_each(|factor| name(kinds, factor));
    names(kinds, &mut run.parameters);
    treatments(document, &mut |treatment| names(kinds, treatment));
}

/// Gives the factors that pick levels of a document their names of today; what they were called, where it was otherwise, and what they are called.
pub fn levels(document: &Document, levels: &mut Treatment) -> Vec<(String, String)> {
    let kinds = &kinds(&document.run.workload);
    let found = levels.keys().filter_map(|key| Some((key.clone(), key_now(kinds, key)?))).collect();
    names(kinds, levels);
    found
}

/// Calls `each` with every treatment of a document.
fn treatments(document: &mut Document, each: &mut dyn FnMut(&mut Treatment)) {
    document.trials.iter_mut().flat_map(|trial| &mut trial.arms).for_each(|arm| each(&mut arm.treatment));
    document.estimates.iter_mut().for_each(|row| each(&mut row.treatment));
    document.slopes.iter_mut().for_each(|row| each(&mut row.treatment));
    document.members.iter_mut().for_each(|row| each(&mut row.treatment));
    document.fairness.iter_mut().for_each(|row| each(&mut row.treatment));
    for row in &mut document.ratios {
        each(&mut row.treatment);
        each(&mut row.relative_to);
    }
    for row in &mut document.references {
        each(&mut row.treatment);
        each(&mut row.partner);
        each(&mut row.first_partner);
    }
    document.absent.iter_mut().for_each(|row| each(&mut row.treatment));
    document.flags.iter_mut().for_each(|row| each(&mut row.treatment));
    document.explanations.iter_mut().for_each(|row| each(&mut row.treatment));
    for row in &mut document.predictions {
        each(&mut row.treatment);
        each(&mut row.relative_to);
    }
    document.observed.iter_mut().flat_map(|found| &mut found.rows).for_each(|row| each(&mut row.treatment));
    document.details.iter_mut().for_each(|row| each(&mut row.treatment));
    document.timelines.iter_mut().for_each(|row| each(&mut row.treatment));
}
