//! `baremark plan`: what a study comes to on this machine, before anything runs.

use crate::context::{Context, descriptors, limits};
use crate::exit::{Exit, Refusal};
use crate::places;
use crate::record;
use crate::source::Source;
use crate::watch::style;
use baremark_lab::analysis::Run;
use baremark_lab::price::{Price, Source as NoiseOf, price};
use baremark_model::arm::ResolvedArm;
use baremark_model::command;
use baremark_model::plan::{Cell, Mode, Plan, PlannedArm, Treatment, resolve};
use baremark_model::problem::Problems;
use baremark_model::study;
use baremark_model::tables::WORKLOAD;
use baremark_model::units::{Nanos, Share};
use std::fmt::Write;
use std::sync::atomic::AtomicBool;

/// How many of the latest runs are looked at for the noise of this machine, and how many of a kind are read.
const MOST_PRIORS: usize = 100;
const PRIORS_OF_A_KIND: usize = 4;

/// Resolves a study on this machine.
pub fn of(source: &Source, mode: Mode, interrupt: &AtomicBool) -> Result<Plan, Refusal> {
    let wrong = |problems: Problems| Refusal::bad_input(problems);
    let study = study::parse(&source.name, &source.bytes, &descriptors()).map_err(wrong)?;
    let mut limits = limits()?;
    places::limit(&study, &mut limits, interrupt)?;
    let mut plan = resolve(&source.name, &study, &limits, mode);
    let mut limited = |plan: &Plan| {
        let tiers = places::limit_tiers(plan, &mut limits, interrupt);
        places::limit_programs(plan, &mut limits) || tiers
    };
    if plan.as_ref().is_ok_and(&mut limited) {
        plan = resolve(&source.name, &study, &limits, mode);
    }
    let plan = plan.map_err(|problems| match limits.absent.is_empty() {
        true => wrong(problems),
        false => Refusal { exit: exit_of(&problems, &limits.absent), message: problems.to_string() },
    })?;
    places::brought_files_are_there(&plan)?;
    Ok(plan)
}

/// A study of which nothing can run lacks an environment; any other problem is the study's own.
fn exit_of(problems: &Problems, absent: &std::collections::BTreeMap<String, String>) -> Exit {
    // Of a long list of reasons only the beginning is in the message.
    let beginning = |reason: &str| reason[..reason.floor_char_boundary(100)].to_owned();
    let lacks = |remedy: &str| absent.values().any(|reason| remedy.contains(&beginning(reason)));
    if problems.list.iter().all(|problem| lacks(&problem.remedy)) { Exit::Missing } else { Exit::BadInput }
}

/// The plan as text or JSON, with what its precision will cost as far as the store tells.
pub fn run(context: &Context, source: &Source, mode: Mode) -> Result<(String, Exit), Refusal> {
    let plan = of(source, mode, &context.interrupt)?;
    let price = price(&plan, &priors(context, &plan)?);
    if context.json {
        let mut document = serde_json::to_value(&plan).map_err(Refusal::failure)?;
        document["price"] = serde_json::to_value(&price).map_err(Refusal::failure)?;
        return Ok((format!("{document:#}\n"), Exit::Success));
    }
    let mut text = describe(&plan);
    if plan.pairs.iter().any(|pair| pair.asked) {
        text.push_str(&price.map_or_else(|| unpriced(source, &plan), |price| priced(&source.name, &price, &plan)));
    }
    if let Some(notice) = baremark_disks::workload::notice(super::run::block_arms(&plan)) {
        text.push_str(&format!("\n{notice}\n"));
    }
    Ok((style().plain(&text), Exit::Success))
}

/// The latest runs of the plan's workload on this machine, from which its noise is estimated.
fn priors(context: &Context, plan: &Plan) -> Result<Vec<Run>, Refusal> {
    if !context.store_path()?.exists() {
        return Ok(Vec::new());
    }
    let here = baremark_sys::machine::this().fingerprint();
    let store = record::open_existing(context)?;
    let (mut checks, mut others) = (Vec::new(), Vec::new());
    for run in store.runs().map_err(Refusal::failure)?.into_iter().take(MOST_PRIORS) {
        // A run of an older version may not be readable any more; then it reports nothing.
        let Ok(head) = store.load_head(&run.id) else { continue };
        if head.plan.workload != plan.workload || head.machine.fingerprint() != here {
            continue;
        }
        let kind = if head.plan.mode.self_check { &mut checks } else { &mut others };
        if kind.len() < PRIORS_OF_A_KIND {
            kind.push(record::load(&store, &run.id)?);
        }
    }
    checks.extend(others);
    Ok(checks)
}

/// "±1 % needs about 34 blocks, 4 min; in 60 s you get ±2.1 %."
fn priced(study: &str, price: &Price, plan: &Plan) -> String {
    let percent = |share: f64| Share(share);
    let mut text = match (price.blocks_with_confirmation, price.seconds) {
        (Some(blocks), Some(seconds)) => {
            format!("\n±{} needs about {blocks} blocks, {}", percent(price.precision), lasts(seconds))
        }
        _ => format!("\n±{} is out of reach", percent(price.precision)),
    };
    let minute = price.in_a_minute.filter(|_| plan.design.budget != Nanos(60_000_000_000));
    if let Some(minute) = minute {
        let _ = write!(text, "; in 60 s you get ±{:.1}", percent(minute));
    }
    if let (Some(reached), true) =
        (price.in_the_budget, price.seconds.is_none_or(|seconds| seconds > plan.design.budget.seconds()))
    {
        let _ = write!(text, ";\nthe budget of {} ends at ±{:.1}", plan.design.budget, percent(reached));
    }
    let from = match price.source {
        NoiseOf::SelfCheck => "the self-check",
        NoiseOf::SamePairs => "the ordinary run",
        NoiseOf::OtherSelfCheck => "other treatments in the self-check",
        NoiseOf::OtherPairs => "other treatments in the ordinary run",
    };
    let _ = writeln!(
        text,
        ".\nThat is from {from} {} on this machine:\n{:.1} of noise a block over {} blocks.",
        price.run,
        percent(price.noise),
        price.of_blocks
    );
    if price.source != NoiseOf::SelfCheck {
        let _ = writeln!(text, "A self-check of this study would tell better: `baremark run {study} --aa`.");
    }
    text
}

fn unpriced(source: &Source, plan: &Plan) -> String {
    format!(
        "\nWhat ±{} costs on this machine is not known: no run of this workload on it is stored.\n\
         `baremark run {} --aa` measures the noise, and then this says it.\n",
        plan.design.precision, source.name
    )
}

/// A time that is only about right.
fn lasts(seconds: f64) -> String {
    match seconds {
        ..100.0 => format!("{seconds:.0} s"),
        ..6000.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

/// A treatment as people read it: what runs, then its levels in the order of their factors' names.
pub fn label(treatment: &Treatment) -> String {
    let workload = treatment.get(WORKLOAD).cloned();
    let others = treatment.iter().filter(|(factor, _)| *factor != WORKLOAD);
    let levels: Vec<String> =
        workload.into_iter().chain(others.map(|(factor, level)| format!("{factor} {level}"))).collect();
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
    text.push_str(&not_here(plan));
    text.push_str(&lasting(plan));
    let design = &plan.design;
    let _ = match plan.pairs.iter().any(|pair| pair.asked) {
        true => writeln!(
            text,
            "The first interim analysis is at block {}; the run ends when every ratio is known to ±{}, confirmed by a\nthird more blocks, and after {} or {} blocks at the latest. Differences from {} on matter.",
            design.least_blocks, design.precision, design.budget, design.most_blocks, design.delta
        ),
        false => writeln!(
            text,
            "No ratio is requested: it ends after {} blocks, or {} at the latest.",
            design.least_blocks, design.budget
        ),
    };
    text
}

/// What cannot run here, each reason once.
fn not_here(plan: &Plan) -> String {
    let mut text = String::new();
    let mut told: Vec<&str> = Vec::new();
    for absent in &plan.absent {
        if told.contains(&absent.reason.as_str()) {
            continue;
        }
        told.push(&absent.reason);
        let alike: Vec<String> = plan
            .absent
            .iter()
            .filter(|other| other.reason == absent.reason)
            .map(|other| label(&other.treatment))
            .collect();
        let _ = match alike.as_slice() {
            [one] => writeln!(text, "  not here: {one}: {}", absent.reason),
            several => writeln!(text, "  not here: {}\n    {}", absent.reason, several.join("\n    ")),
        };
    }
    text
}

/// How long a block lasts, as far as the plan tells: a program takes as long as it takes.
fn lasting(plan: &Plan) -> String {
    let own = |planned: &PlannedArm| command::phase_time(&planned.arm).is_some();
    if plan.arms.iter().all(own) {
        let mut phases: Vec<Nanos> = plan.arms.iter().map(|planned| planned.phase(&plan.design)).collect();
        phases.sort();
        let phases = match (phases.first(), phases.last()) {
            (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
            (first, _) => first.map(ToString::to_string).unwrap_or_default(),
        };
        let block = plan.least_block();
        return format!(
            "\nPhases of {phases}, warm-up included, make a block last at least {block};\nstarts and resets come on top.\n"
        );
    }
    let limit_of = |arm: &ResolvedArm| arm.parameters.get(command::TIMEOUT.key).map(ToString::to_string);
    let mut limits: Vec<Option<String>> = plan.arms.iter().map(|planned| limit_of(&planned.arm)).collect();
    limits.sort();
    limits.dedup();
    if let [Some(limit)] = limits.as_slice() {
        return format!(
            "\nA phase is one run of the program, which may take {limit}, its preparation\napart. How long a block lasts is known after the first.\n"
        );
    }
    let besides =
        if limits.iter().any(Option::is_some) { ",\nand phases of programs take as long as those do" } else { "" };
    format!(
        "\nPhases of {} make a block last at least {}; start and\nverification come on top{besides}.\n",
        plan.design.phase,
        plan.least_block()
    )
}
