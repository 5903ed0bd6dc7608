//! What was stored with former names of parameters, in those of today ([`former`](crate::former)): plans, requests of trials and result documents. So runs of
//! any version are compared by the same names.

use crate::command;
use crate::document::Document;
use crate::former;
use crate::plan::{Plan, Treatment};
use crate::tables;
use crate::wire::TrialSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The kinds of workloads by their names in a plan or document: of several all, with commas between.
fn kinds(workload: &str) -> Vec<&str> {
    workload.split(", ").collect()
}

/// What a parameter of the workload `kind` is called today, where that is another name. What a command declares is its own.
fn now_of(kind: &str, key: &str) -> Option<String> {
    if kind == command::KIND { None } else { former::key_now_of(&[kind], key) }
}

/// Gives keys the names that `now` has for them.
fn names<V>(values: &mut BTreeMap<String, V>, now: impl Fn(&str) -> Option<String>) {
    let renamed: Vec<(String, String)> = values.keys().filter_map(|key| Some((key.clone(), now(key)?))).collect();
    for (former, now) in renamed {
        if let Some(value) = values.remove(&former) {
            values.entry(now).or_insert(value);
        }
    }
}

/// The factors of a plan or document with what they are called today. A factor of several workloads has another name only where it has the same one in each
/// workload that has the factor.
struct Factors<'r> {
    /// The workload, where there is one.
    only: Option<&'r str>,
    found: BTreeMap<String, BTreeSet<Option<String>>>,
}

impl<'r> Factors<'r> {
    fn new(workload: &'r str, factors: &[(String, Vec<String>)]) -> Self {
        let only = if let [only] = kinds(workload)[..] { Some(only) } else { None };
        let mut of = Factors { only, found: BTreeMap::new() };
        // Of one workload a factor is its own, also where nothing has run.
        if let Some(only) = only {
            factors.iter().for_each(|(factor, _)| of.add_key(only, factor));
        }
        of
    }

    fn add_key(&mut self, kind: &str, key: &str) {
        self.found.entry(key.to_owned()).or_default().insert(now_of(kind, key));
    }

    /// Takes the factors that a treatment has, of its own workload.
    fn add(&mut self, treatment: &Treatment) {
        let Some(kind) = treatment.get(tables::WORKLOAD).map(String::as_str).or(self.only) else { return };
        treatment.keys().for_each(|key| self.add_key(kind, key));
    }

    fn now(&self, factor: &str) -> Option<String> {
        let names = self.found.get(factor).filter(|names| names.len() == 1)?;
        names.first().cloned().flatten()
    }

    fn name(&self, factor: &mut String) {
        if let Some(now) = self.now(factor) {
            *factor = now;
        }
    }
}

/// Gives the factors and parameters of a plan their names of today.
pub fn plan(plan: &mut Plan) {
    let workload = plan.workload.clone();
    let mut of = Factors::new(&workload, &plan.factors);
    plan.arms.iter().for_each(|arm| of.add(&arm.treatment));
    plan.absent.iter().for_each(|absent| of.add(&absent.treatment));
    plan.factors.iter_mut().for_each(|(factor, _)| of.name(factor));
    plan.rows.iter_mut().chain([&mut plan.columns]).for_each(|factor| of.name(factor));
    for index in 0..plan.arms.len() {
        let kind = plan.workload_of(index).to_owned();
        let arm = &mut plan.arms[index];
        names(&mut arm.treatment, |key| of.now(key));
        names(&mut arm.arm.parameters, |key| now_of(&kind, key));
    }
    plan.absent.iter_mut().for_each(|absent| names(&mut absent.treatment, |key| of.now(key)));
}

/// Gives the parameters of a trial's request their names of today. A trial runs one workload.
pub fn request(spec: &mut TrialSpec) {
    for member in Arc::make_mut(&mut spec.arms).iter_mut().flat_map(|arm| &mut arm.members) {
        names(&mut member.arm.parameters, |key| now_of(&spec.workload, key));
    }
}

/// Gives the factors and parameters of a document their names of today.
pub fn document(document: &mut Document) {
    let workload = document.run.workload.clone();
    let mut of = Factors::new(&workload, &document.run.factors);
    treatments(document, &mut |treatment| of.add(treatment));
    let run = &mut document.run;
    run.factors.iter_mut().for_each(|(factor, _)| of.name(factor));
    run.rows.iter_mut().chain([&mut run.columns]).for_each(|factor| of.name(factor));
    names(&mut run.parameters, |key| parameter_now(&workload, key));
    treatments(document, &mut |treatment| names(treatment, |key| of.now(key)));
}

/// A parameter that all arms of a document have in common: of several workloads as `KIND.key`.
fn parameter_now(workload: &str, key: &str) -> Option<String> {
    let kinds = kinds(workload);
    if let [only] = kinds[..] {
        return now_of(only, key);
    }
    let (kind, own) = key.split_once('.').filter(|(kind, _)| kinds.contains(kind))?;
    now_of(kind, own).map(|now| format!("{kind}.{now}"))
}

/// Gives the factors that pick levels of a document their names of today; what they were called, where it was otherwise, and what they are called.
pub fn levels(document: &Document, levels: &mut Treatment) -> Vec<(String, String)> {
    let run = &document.run;
    let is_factor = |key: &str| run.factors.iter().any(|(factor, _)| factor == key);
    let now = |key: &str| {
        // A command may declare a parameter by a name that one of another workload had.
        let mut of = kinds(&run.workload).into_iter().filter_map(|kind| now_of(kind, key));
        if is_factor(key) { None } else { of.next() }
    };
    let found = levels.keys().filter_map(|key| Some((key.clone(), now(key)?))).collect();
    names(levels, now);
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
