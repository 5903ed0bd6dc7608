//! What follows from a study's text and from a plan, compared with what a bundle says.
//!
//! A plan is made for a machine: environments that it lacks and sizes that follow its caches differ elsewhere. Compared is what a study
//! alone says: its question, design, factors and programs.

use crate::bundled::{Head, Trial};
use crate::commands::plan::{pilot_of, pilot_title};
use crate::context::descriptors;
use baremark_lab::{scale, schedule};
use baremark_model::codes::Origin;
use baremark_model::command;
use baremark_model::plan::{Limits, Mode, Plan, PlannedArm, resolve};
use baremark_model::problem::Problems;
use baremark_model::study::{self, Study};
use baremark_model::units::Bytes;
use baremark_model::verify::Verify;
use baremark_model::wire::TrialSpec;
use std::collections::BTreeSet;

/// Whether something follows from something else.
pub(super) enum Derived {
    Follows,
    Differs(Vec<String>),
    /// That could not be found out, and why.
    Unknown(String),
}

impl Derived {
    fn of(differences: Vec<String>) -> Derived {
        if differences.is_empty() { Derived::Follows } else { Derived::Differs(differences) }
    }
}

/// What another version measured need not follow from this one's rules.
fn other_version(head: &Head) -> Option<Derived> {
    let own = env!("CARGO_PKG_VERSION");
    (head.version != own)
        .then(|| Derived::Unknown(format!("it was measured by version {}, this is {own}", head.version)))
}

/// Whether each trial requested what the plan says for its block and cell.
pub(super) fn requests(head: &Head, trials: &[Trial]) -> Derived {
    if let Some(unknown) = other_version(head) {
        return unknown;
    }
    let plan = &head.plan;
    let follows = |trial: &Trial| {
        // How often a body runs in a phase was found by measuring; which devices may be overwritten was said on the command line.
        let (reps, reps_near, overwritable) = (trial.spec.reps, trial.spec.reps_near, trial.spec.overwritable.clone());
        let with = |quads: Option<u64>| {
            let overwritable = overwritable.clone();
            let asked = schedule::trial_of(plan, trial.block, trial.cell, quads);
            // More may have been checked than is asked now: the last block that a study could have, before it was extended, was checked as a whole.
            let verify = if trial.spec.verify.is_whole() { Verify::Whole } else { asked.verify };
            TrialSpec { reps, reps_near, overwritable, verify, ..asked }
        };
        // So was how many quads a trial has, in the first block: all later ones have the same.
        let quads = schedule::quads_of(&trial.spec);
        let measured = plan.quads_by_variance && trial.block > 0;
        let alike = !measured || as_first_later(trials, trial, quads);
        alike && (trial.spec == with(None) || measured && trial.spec == with(Some(quads)))
    };
    let wrong = trials.iter().position(|trial| !follows(trial));
    Derived::of(
        wrong
            .map(|at| format!("trials.json: trial {at}: its request does not follow from the plan"))
            .into_iter()
            .collect(),
    )
}

/// Whether a trial has as many quads as the first of its cell after the first block.
fn as_first_later(trials: &[Trial], trial: &Trial, quads: u64) -> bool {
    let first = trials.iter().find(|of| of.cell == trial.cell && of.block > 0);
    first.is_some_and(|first| schedule::quads_of(&first.spec) == quads)
}

/// Whether the plan is one of the study.
pub(super) fn study(head: &Head) -> Derived {
    if let Some(unknown) = other_version(head) {
        return unknown;
    }
    let plan = &head.plan;
    let special = [
        (Origin::of(&head.study_file).import().is_some(), "results of another program have no study"),
        (Origin::of(&head.study_file) == Origin::Load, "a load has no study"),
        (plan.factors.iter().any(|(key, _)| key == scale::FACTOR), "its arms are blinded"),
    ];
    if let Some((_, why)) = special.into_iter().find(|(is, _)| *is) {
        return Derived::Unknown(why.to_owned());
    }
    let found = match planned(head, plan.mode) {
        Ok(expected) if plan.title == pilot_title(&expected) => {
            let differences = |of: &Plan| compared(&pilot_of(of, plan.design.budget), plan);
            // A pilot is not conducted as a run of --quick, so it does not say whether its plan was one.
            let quick = planned(head, Mode { quick: true, ..plan.mode });
            let is_of_quick = quick.is_ok_and(|quick| differences(&quick).is_empty());
            if is_of_quick { Derived::Follows } else { Derived::of(differences(&expected)) }
        }
        Ok(expected) => Derived::of(compared(&expected, plan)),
        Err(why) => Derived::Unknown(format!("the study's text cannot be planned here: {why}")),
    };
    // The plan of a former version may have the keys of that time.
    let renamed = || parsed(head).ok()?.renamed.into_iter().next();
    match found {
        Derived::Follows => Derived::Follows,
        other => {
            let why = "the study has keys of an earlier version, and its plan differs or cannot be made here";
            renamed().map_or(other, |key| Derived::Unknown(format!("{why}: {key}")))
        }
    }
}

/// The study of the run's text.
fn parsed(head: &Head) -> Result<Study, Problems> {
    study::parse(&head.study_file, head.study_text.as_bytes(), &descriptors())
}

/// The first of several problems, in short.
fn first(problems: Problems) -> String {
    problems.list.first().map_or_else(String::new, |problem| problem.what.chars().take(120).collect())
}

/// The plan of the study's text on a machine that has what the run's machine had.
fn planned(head: &Head, mode: Mode) -> Result<Plan, String> {
    let plan = &head.plan;
    let study = parsed(head).map_err(first)?;
    let runs: BTreeSet<&str> = plan.arms.iter().map(|arm| arm.environment.as_str()).collect();
    let place = |absent: &baremark_model::plan::Absent| absent.treatment.get("environment").cloned();
    let lacks = plan.absent.iter().filter_map(|absent| Some((place(absent)?, absent.reason.clone())));
    let limits = Limits {
        cpus: plan.cpus.clone(),
        memory_available: Bytes(u64::MAX),
        absent: lacks.filter(|(place, _)| !runs.contains(place.as_str())).collect(),
        emulated: plan.arms.iter().filter(|arm| arm.emulated).map(|arm| arm.environment.clone()).collect(),
        ..Limits::default()
    };
    resolve(&head.study_file, &study, &limits, mode).map_err(first)
}

/// Where what a study alone says is otherwise in its plan.
fn compared(expected: &Plan, plan: &Plan) -> Vec<String> {
    let mut design = expected.design.clone();
    if design.seed == 0 {
        // Drawn when the run began.
        design.seed = plan.design.seed;
    }
    let same = [
        ("title", expected.title == plan.title),
        ("workload", (&expected.workload, &expected.workloads) == (&plan.workload, &plan.workloads)),
        ("metric", (&expected.metric, &expected.also) == (&plan.metric, &plan.also)),
        ("factors", expected.factors == plan.factors),
        (
            "rows and columns",
            (&expected.rows, &expected.columns, &expected.against) == (&plan.rows, &plan.columns, &plan.against),
        ),
        ("design", design == plan.design),
        // Which CPUs follows from the machine's cores.
        ("duet", expected.duet.is_some() == plan.duet.is_some()),
        ("observe", expected.observe == plan.observe),
    ];
    let same = same.into_iter().filter(|(_, same)| !same).map(|(what, _)| what.to_owned());
    let arms = plan.arms.iter().enumerate().filter(|(_, arm)| !of_study(expected, arm));
    let wrong = same.chain(arms.map(|(index, _)| format!("arms[{index}]")));
    wrong
        .map(|what| format!("run.json: plan.{what}: does not follow from the study's text"))
        .take(baremark_bundle::MOST_NAMED)
        .collect()
}

/// Whether an arm has a treatment of the study, and the program that the study gives it.
fn of_study(expected: &Plan, arm: &PlannedArm) -> bool {
    let program = |arm: &PlannedArm| arm.arm.parameters.get(command::KIND).cloned();
    let same = |of: &&PlannedArm| {
        (&of.treatment, &of.environment, &of.like) == (&arm.treatment, &arm.environment, &arm.like)
            && program(of) == program(arm)
    };
    // A treatment that runs here may be one that this machine would not have; its name is then that of no arm.
    expected.arms.iter().any(|of| same(&of)) || expected.absent.iter().any(|absent| absent.treatment == arm.treatment)
}
