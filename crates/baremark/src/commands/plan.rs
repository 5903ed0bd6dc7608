//! `baremark plan`: what a study comes to on this machine, before anything runs.

use crate::commands::run as run_command;
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::json;
use crate::planning;
use crate::record;
use crate::source::Source;
use crate::watch::style;
use baremark_lab::analysis::Run;
use baremark_lab::price::{Level, Price, Source as NoiseOf, by_pilot, price};
use baremark_model::arm::ResolvedArm;
use baremark_model::command;
use baremark_model::environments;
use baremark_model::plan::{Cell, Mode, Plan, PlannedArm, Treatment};
use baremark_model::tables::WORKLOAD;
use baremark_model::units::{Nanos, Share};
use baremark_report::{at_once, beside};
use baremark_sys::machine;
use std::fmt::Write;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark plan order-entry             # what would run, what is missing here
  baremark plan study.toml --pilot      # how long each precision takes
  baremark plan standard --budget 5min";

/// How many of the latest runs are looked at for the noise of this machine, and how many of a kind are read.
const MOST_PRIORS: usize = 100;
const PRIORS_OF_A_KIND: usize = 4;
/// The least that is proposed for a pilot that was too short.
const MINUTE: Nanos = Nanos(60_000_000_000);
/// Blocks after which a pilot knows enough of the noise.
const PILOT_BLOCKS: u64 = 40;

/// The plan as text or JSON, with what its precision will cost as far as the store tells.
pub fn run(context: &Context, source: &Source, mode: Mode, pilot: Option<Nanos>) -> Result<(String, Exit), Refusal> {
    let plan = planning::of(source, mode, &context.interrupt)?;
    let price = match pilot {
        Some(budget) => Some(piloted(context, source, &plan, budget)?),
        None => price(&plan, &priors(context, &plan)?),
    };
    if context.json {
        let mut document = serde_json::to_value(&plan).map_err(Refusal::failure)?;
        document["price"] = serde_json::to_value(&price).map_err(Refusal::failure)?;
        return Ok((json::document("baremark-plan/1", document), Exit::Success));
    }
    let mut text = String::new();
    if machine::is_recorded() {
        text.push_str("For a recorded machine; programs are taken as installed there.\n\n");
    }
    text.push_str(&describe(&plan));
    if plan.pairs.iter().any(|pair| pair.asked) {
        text.push_str(&price.map_or_else(|| unpriced(source, &plan), |price| priced(&source.name, &price, &plan)));
    }
    for notice in planning::notices(&plan).into_iter().chain(planning::silent_servers(&plan)) {
        text.push_str(&paragraph(&notice));
    }
    Ok((style().plain(&text), Exit::Success))
}

/// What a pilot of the plan is called.
pub(super) fn pilot_title(plan: &Plan) -> String {
    format!("pilot of {}", plan.title)
}

/// The plan of its pilot.
pub(super) fn pilot_of(plan: &Plan, budget: Nanos) -> Plan {
    let mut short = plan.clone();
    short.title = pilot_title(plan);
    // A width that no pilot reaches: it ends by its budget.
    short.design.precision = Share(1e-6);
    short.mode.quick = false;
    // Its blocks are those of the design: how long each lasts, and how much they vary.
    short.quads_by_variance = false;
    (short.design.budget, short.design.most_blocks) = (budget, PILOT_BLOCKS);
    short.design.least_blocks = short.design.least_blocks.min(PILOT_BLOCKS);
    short
}

/// Runs the plan for `budget`, or [`PILOT_BLOCKS`], as a run of its own, and prices the plan by what that found.
fn piloted(context: &Context, source: &Source, plan: &Plan, budget: Nanos) -> Result<Price, Refusal> {
    if !plan.pairs.iter().any(|pair| pair.asked) {
        return Err(Refusal::bad_input("--pilot: the study requests no ratio; write ratio_to in [report]"));
    }
    let short = pilot_of(plan, budget);
    // Before there is a run of it: this command has no option by which it could be permitted.
    run_command::may_begin(context, &short).map_err(|why| {
        let why = why.message;
        Refusal::bad_input(format!("--pilot: the study may not be run unasked ({why}); run it in place of a pilot"))
    })?;
    let (run, exit) = run_command::of_plan(context, source, &short)?;
    if exit == Exit::Interrupted {
        return Err(Refusal { exit, message: "interrupted: the pilot was not completed".to_owned() });
    }
    let few = || {
        let more = Nanos(budget.0.saturating_mul(4)).max(MINUTE);
        format!(
            "--pilot: a comparison has fewer than 4 blocks after {budget}; give it more time, such as --pilot '{more}'"
        )
    };
    by_pilot(plan, &run).ok_or_else(|| Refusal::failure(few()))
}

/// The latest runs of the plan's workload on this machine, from which its noise is estimated. One that is damaged is not among them.
fn priors(context: &Context, plan: &Plan) -> Result<Vec<Run>, Refusal> {
    if machine::is_recorded() || !context.store_path()?.exists() {
        return Ok(Vec::new());
    }
    let here = machine::at_once().fingerprint();
    let store = record::open_existing(context)?;
    let (mut checks, mut others) = (Vec::new(), Vec::new());
    for run in store.list().map_err(Refusal::failure)?.runs.into_iter().take(MOST_PRIORS) {
        // A run of an older version may not be readable any more; then it reports nothing.
        let Ok(head) = store.load_head(&run.id) else { continue };
        if head.plan.workload != plan.workload || head.machine.fingerprint() != here {
            continue;
        }
        // Programs that run at the same time vary by something else than programs that take turns.
        if head.plan.duet.is_some() != plan.duet.is_some() {
            continue;
        }
        let kind = if head.plan.mode.self_check { &mut checks } else { &mut others };
        if kind.len() < PRIORS_OF_A_KIND {
            kind.extend(record::load(&store, &run.id));
        }
    }
    checks.extend(others);
    Ok(checks)
}

/// A line for each precision: blocks, time, and the range of four studies in five.
fn priced(study: &str, price: &Price, plan: &Plan) -> String {
    let from = match price.source {
        NoiseOf::Pilot => "the pilot",
        NoiseOf::SelfCheck => "the self-check",
        NoiseOf::SamePairs => "the run",
        NoiseOf::OtherSelfCheck => "other treatments in the self-check",
        NoiseOf::OtherPairs => "other treatments in the run",
    };
    let mut text = paragraph(&format!(
        "Time to each precision on this machine (median, and range of 80 % of runs), by {from} {} with {} blocks:",
        price.run, price.of_blocks
    ));
    for level in &price.levels {
        let requested = if level.requested { "   requested" } else { "" };
        let _ = writeln!(text, "  ±{:<7} {}{requested}", Share(level.precision).to_string(), takes(level));
    }
    let budget = plan.design.budget;
    let late = price.requested().is_some_and(|level| level.seconds.is_none_or(|seconds| seconds > budget.seconds()));
    if let (Some(reached), true) = (price.in_the_budget, late) {
        let _ = writeln!(text, "The budget of {budget} ends at about ±{:.1}.", Share(reached));
    }
    if price.source != NoiseOf::Pilot {
        text.push_str(&line("", &format!("`baremark plan {study} --pilot` measures for 15 s and is more exact.")));
    }
    text
}

/// "  34 blocks    41 s (29 s to 70 s)".
fn takes(level: &Level) -> String {
    match (level.blocks, level.seconds, level.seconds_low.zip(level.seconds_high)) {
        (Some(blocks), Some(seconds), Some((low, high))) => {
            format!("{blocks:>6} blocks  {:>7} ({} to {})", lasts(seconds), lasts(low), lasts(high))
        }
        _ => "   out of reach".to_owned(),
    }
}

fn unpriced(source: &Source, plan: &Plan) -> String {
    paragraph(&format!(
        "Time to ±{}: unknown, because no run of this workload with four blocks of each comparison is stored of this machine. \
         `baremark plan {} --pilot` measures for 15 s and prints it.",
        plan.design.precision, source.name
    ))
}

/// What is said after `head`, in lines that fit the terminal.
fn line(head: &str, says: &str) -> String {
    beside(head, says, &style())
}

/// A blank line, then what is said; each of its lines begins where it is indented to.
fn paragraph(says: &str) -> String {
    let lines = says.lines().map(|said| {
        let own = said.trim_start();
        line(&" ".repeat(said.len() - own.len()), own)
    });
    format!("\n{}", lines.collect::<String>())
}

/// How many: `1 phase`, `4 phases`.
fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
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
    let mut text = line("", &plan.title) + "\nEach block runs, in random order:\n";
    for &cell in &plan.cells {
        let phases = counted(plan.phases_of(cell), "phase");
        let arms: Vec<String> = plan.arms_of(cell).iter().map(|&arm| label(&plan.arms[arm].treatment)).collect();
        let said = match cell {
            Cell::Pair(_) => {
                let how = match plan.duet {
                    Some(duet) => format!("programs {}", at_once(duet)),
                    None if plan.environments_of(cell).len() > 1 => "interleaved, at a site each".to_owned(),
                    None => "interleaved".to_owned(),
                };
                let other = format!("{}: {phases}, {how}", arms[0]);
                line("  ", &arms[1]) + &line("    against ", &other)
            }
            Cell::Single(_) => line("  ", &format!("{}: {phases}", arms[0])),
        };
        text.push_str(&said);
    }
    text.push_str(&not_here(plan));
    text.push_str(&isolation(plan));
    text.push_str(&lasting(plan));
    let design = &plan.design;
    let ends = match plan.pairs.iter().any(|pair| pair.asked) {
        true => format!(
            "The first interim analysis is at block {}; the run ends when every ratio is known to ±{}, confirmed by a third more blocks, and \
             after {} or {} at the latest. Smallest difference of interest: {}.",
            design.least_blocks,
            design.precision,
            design.budget,
            counted(design.most_blocks, "block"),
            design.delta
        ),
        false => format!(
            "No ratio is requested: it ends after {}, or {} at the latest.",
            counted(design.least_blocks, "block"),
            design.budget
        ),
    };
    text.push_str(&line("", &ends));
    text.push_str(&short(plan));
    text
}

/// That the budget ends before the smallest study, as far as the plan shows how long that takes.
fn short(plan: &Plan) -> String {
    let design = &plan.design;
    let needed = Nanos(plan.least_block().0.saturating_mul(design.least_blocks));
    if plan.mode.quick || needed <= design.budget {
        return String::new();
    }
    let minutes = needed.0.div_ceil(60_000_000_000);
    let says = format!(
        "The budget is too short: the smallest study, {}, takes {needed} or more; write --budget {minutes}min or a longer one.",
        counted(design.least_blocks, "block")
    );
    line("", &says)
}

/// What cannot run here, each reason once.
fn not_here(plan: &Plan) -> String {
    const HEAD: &str = "  not here: ";
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
        match alike.as_slice() {
            [one] => text.push_str(&line(HEAD, &format!("{one}: {}", absent.reason))),
            several => {
                text.push_str(&line(HEAD, &absent.reason));
                several.iter().for_each(|label| text.push_str(&line("    ", label)));
            }
        }
    }
    text
}

/// What the environments that are made of layers have and lack on this machine.
fn isolation(plan: &Plan) -> String {
    let mut text = String::new();
    for (name, settings) in &plan.environments {
        let Some(layers) = settings.get(environments::LAYERS) else { continue };
        let lacks =
            settings.get(environments::LACKS).map(|lacks| format!("; refused here: {lacks}")).unwrap_or_default();
        text.push_str(&line("  ", &format!("{name} has the layers {layers}{lacks}")));
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
        return paragraph(&format!(
            "Phases of {phases}, warm-up included, make a block last at least {block}; starts and resets come on top."
        ));
    }
    let limit_of = |arm: &ResolvedArm| arm.parameters.get(command::TIMEOUT.key).map(ToString::to_string);
    let mut limits: Vec<Option<String>> = plan.arms.iter().map(|planned| limit_of(&planned.arm)).collect();
    limits.sort();
    limits.dedup();
    if let [Some(limit)] = limits.as_slice() {
        return paragraph(&format!(
            "A phase is one run of the program, which may take {limit}, its preparation apart. How long a block lasts is known after the first."
        ));
    }
    let besides =
        if limits.iter().any(Option::is_some) { ", and phases of programs take as long as those do" } else { "" };
    paragraph(&format!(
        "Phases of {} make a block last at least {}; start and verification come on top{besides}.",
        plan.design.phase,
        plan.least_block()
    ))
}
