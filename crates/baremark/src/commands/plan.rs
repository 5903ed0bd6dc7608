//! `baremark plan`: what a study comes to on this machine, before anything runs.

use crate::context::{descriptors, limits};
use crate::exit::{Exit, Refusal};
use crate::source::Source;
use baremark_model::plan::{Cell, Mode, Plan, Treatment, resolve};
use baremark_model::problem::Problems;
use baremark_model::study;
use std::fmt::Write;

/// Resolves a study on this machine.
pub fn of(source: &Source, mode: Mode) -> Result<Plan, Refusal> {
    let wrong = |problems: Problems| Refusal::bad_input(problems);
    let study = study::parse(&source.name, &source.bytes, &descriptors()).map_err(wrong)?;
    let limits = limits()?;
    let plan = resolve(&source.name, &study, &limits, mode);
    plan.map_err(|problems| match limits.absent.is_empty() {
        true => wrong(problems),
        false => Refusal { exit: exit_of(&problems, &limits.absent), message: problems.to_string() },
    })
}

/// A study of which nothing can run lacks an environment; any other problem is the study's own.
fn exit_of(problems: &Problems, absent: &std::collections::BTreeMap<String, String>) -> Exit {
    let lacks = |remedy: &str| absent.values().any(|reason| remedy.contains(reason.as_str()));
    if problems.list.iter().all(|problem| lacks(&problem.remedy)) { Exit::Missing } else { Exit::BadInput }
}

/// The plan as text or JSON.
pub fn run(source: &Source, mode: Mode, json: bool) -> Result<(String, Exit), Refusal> {
    let plan = of(source, mode)?;
    if json {
        let text = serde_json::to_string_pretty(&plan).map_err(Refusal::failure)?;
        return Ok((text + "\n", Exit::Success));
    }
    Ok((describe(&plan), Exit::Success))
}

/// A treatment as people read it: its levels, in the order of their factors' names.
pub fn label(treatment: &Treatment) -> String {
    let levels: Vec<String> = treatment.iter().map(|(factor, level)| format!("{factor} {level}")).collect();
    if levels.is_empty() { "the only treatment".to_owned() } else { levels.join(", ") }
}

fn describe(plan: &Plan) -> String {
    let mut text = format!("{}\n\nEach block runs, in random order:\n", plan.title);
    for &cell in &plan.cells {
        let phases = plan.phases_of(cell);
        let arms: Vec<String> = plan.arms_of(cell).iter().map(|&arm| label(&plan.arms[arm].treatment)).collect();
        let _ = match cell {
            Cell::Pair(_) => writeln!(text, "  {}\n    against {}: {phases} phases, interleaved", arms[1], arms[0]),
            Cell::Single(_) => writeln!(text, "  {}: {phases} phases", arms[0]),
        };
    }
    for absent in &plan.absent {
        let _ = writeln!(text, "  not here: {}: {}", label(&absent.treatment), absent.reason);
    }
    let design = &plan.design;
    let _ = writeln!(
        text,
        "\nPhases of {} make a block last at least {}; start, warm-in and verification come on top.",
        design.phase,
        plan.least_block()
    );
    let _ = writeln!(
        text,
        "It looks at {} blocks and on, until every ratio is known to +-{} and that is confirmed;\nit ends after {} or {} blocks at the latest. Differences from {} on matter.",
        design.least_blocks, design.precision, design.budget, design.most_blocks, design.delta
    );
    text
}
