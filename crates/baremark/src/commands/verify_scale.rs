//! `baremark verify-scale`: known costs on blinded arms, and whether they are found.

use crate::commands::run;
use crate::context::{Context, descriptors_of};
use crate::exit::{Exit, Refusal};
use crate::planning;
use crate::record;
use crate::source::{self, Source};
use baremark_lab::analysis::{self, Run};
use baremark_lab::scale::{COSTS, blind, open, recover};
use baremark_model::arm::ExecutorKind;
use baremark_model::environments;
use baremark_model::plan::{Mode, Plan};
use baremark_model::scale::InjectedCosts;
use baremark_model::units::Nanos;
use baremark_report::scale::{Outcome, outcome, render};
use baremark_store::{RunId, Store};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark verify-scale --quick
  baremark verify-scale stream";

/// What carries the costs when no study is named: work in registers alone, so that it is the scale that is tested and not
/// the memory.
const STUDY: &str = r#"[study]
title = "Known costs on multiplications and additions"
[workload]
kind = "fma"
[factors]
environment = "native"
ranks = 1
[design]
phase = "50 ms"
"#;

/// How much is measured.
struct Size {
    arms_of_a_cost: usize,
    blocks: u64,
    budget: Nanos,
}

const QUICK: Size = Size { arms_of_a_cost: 2, blocks: 10, budget: Nanos(60_000_000_000) };
const FULL: Size = Size { arms_of_a_cost: 3, blocks: 30, budget: Nanos(300_000_000_000) };

/// Measures and opens.
pub fn run(context: &Context, study: Option<&str>, quick: bool) -> Result<(String, Exit), Refusal> {
    let source = match study {
        Some(named) => source::find(named)?,
        None => Source::new("verify-scale".to_owned(), STUDY.as_bytes().to_vec()),
    };
    let size = if quick { QUICK } else { FULL };
    let mut resolved = planning::of(&source, Mode { quick: false, self_check: false }, &context.interrupt)?;
    let native = |arm: &baremark_model::plan::PlannedArm| {
        arm.arm.executor == ExecutorKind::Direct && arm.environment == environments::NATIVE
    };
    let index = resolved.arms.iter().position(native).ok_or_else(|| {
        Refusal::bad_input(format!("study '{}' has no native treatment to put costs on", source.name))
    })?;
    resolved.design.budget = size.budget;
    let injected = draw(size.arms_of_a_cost);
    let labels: Vec<String> = injected.0.keys().cloned().collect();
    let plan = Plan { injected: Some(injected), ..blind(resolved, index, &labels, size.blocks) };
    let (run, exit) = run::of_plan(context, &source, &plan)?;
    if exit == Exit::Success { again(context, &run.id) } else { Ok((String::new(), exit)) }
}

/// Opens a stored run again.
pub fn again(context: &Context, named: &str) -> Result<(String, Exit), Refusal> {
    let store = record::open_existing(context)?;
    let id = record::find(&store, Some(named))?;
    let run = record::load(&store, &id)?;
    show(context, &store, &id, &run)
}

/// Everything is found before the labels are read.
fn show(context: &Context, store: &Store, id: &RunId, run: &Run) -> Result<(String, Exit), Refusal> {
    let descriptors = descriptors_of(run)?;
    let (kind, metric) = (run.plan.workload_of(0), run.plan.metric_of(0));
    let metric = descriptors.iter().find(|of| of.kind == kind).and_then(|of| of.metric(metric));
    let metric =
        metric.ok_or_else(|| Refusal::failure(format!("run {id} has a metric that this version does not support")))?;
    let found = recover(run, metric.better);
    let native_means = analysis::document(run, &descriptors).run.native_means;
    let Some(injected) = record::injected_costs_of(store, id)? else {
        return Err(Refusal::bad_input(format!(
            "run {id} has no blinded arms; `baremark verify-scale` makes such a run"
        )));
    };
    let document = open(run, &native_means, found, &injected);
    let exit = match outcome(&document) {
        Outcome::Calibrated => Exit::Success,
        Outcome::Off => Exit::Failure,
        Outcome::Undecided => Exit::Undecided,
    };
    if context.json {
        return Ok((serde_json::to_string_pretty(&document).map_err(Refusal::failure)? + "\n", exit));
    }
    Ok((render(&document, &crate::watch::style()), exit))
}

/// Random labels for so many arms of each cost. They come from the system's randomness and not from the study's seed, so
/// that nothing in the plan says which is which.
fn draw(arms_of_a_cost: usize) -> InjectedCosts {
    let mut injected = InjectedCosts::default();
    for cost in COSTS {
        let before = injected.0.len();
        while injected.0.len() < before + arms_of_a_cost {
            let drawn = RandomState::new().build_hasher().finish() & 0xffff;
            injected.0.entry(format!("{drawn:04x}")).or_insert(cost);
        }
    }
    injected
}
