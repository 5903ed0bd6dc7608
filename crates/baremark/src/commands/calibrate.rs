//! Calibrating: a shipped study measures this machine, and what predictions need of it is kept next to the store.

use crate::calibrate::path;
use crate::commands::run;
use crate::context::{Context, descriptors_of};
use crate::exit::{Exit, Refusal};
use crate::planning;
use crate::source;
use crate::watch::say;
use baremark_lab::analysis;
use baremark_mmu::calibration::Calibration;
use baremark_mmu::machine::{Machine, Range};
use baremark_model::document::{Document, EstimateRow};
use baremark_model::plan::{Mode, Plan};
use std::fs;
use std::path::PathBuf;

/// The shipped study that is run.
const STUDY: &str = "calibrate";
/// The working sets that L1, L2, L3 and memory answer, as the study has them.
const SETS: [&str; 4] = ["16 KiB", "256 KiB", "4 MiB", "512 MiB"];
const CHASED: u64 = 512 << 20;
/// An interval needs so many blocks.
const LEAST: usize = 3;

/// Measures this machine and keeps what was found.
pub fn run(context: &Context, machine: &Machine, processor: &str) -> Result<(Calibration, PathBuf), Refusal> {
    let source = source::find(STUDY)?;
    let plan = planning::of(&source, Mode::default(), &context.interrupt)?;
    say(announced(&plan));
    let (run, exit) = run::of_plan(context, &source, &plan)?;
    if exit != Exit::Success {
        return Err(Refusal { exit, message: format!("run {} did not end; nothing is calibrated", run.id) });
    }
    let document = analysis::document(&run, &descriptors_of(&run)?);
    let calibration = of_document(&document, machine, processor)?;
    let path = path(context)?;
    // What noise made of it must be known before an earlier calibration is given up for it.
    Calibration::parse(&format!("run {}", run.id), &calibration.to_string()).map_err(|why| {
        Refusal::failure(format!("{why}\nnothing is changed; calibrate when less else runs on this machine"))
    })?;
    // Written whole or not at all: a torn file would be refused for ever after.
    let new = path.with_extension("toml.new");
    fs::write(&new, calibration.to_string())
        .and_then(|()| fs::rename(&new, &path))
        .map_err(|why| Refusal::failure(format!("writing {}: {why}", path.display())))?;
    Ok((calibration, path))
}

/// What will happen, before it does.
fn announced(plan: &Plan) -> String {
    let design = &plan.design;
    format!(
        "Measuring this machine natively: {} blocks of {} trials, or as many as fit {}. With fewer than {LEAST} blocks nothing is kept.",
        design.least_blocks,
        plan.cells.len(),
        design.budget
    )
}

fn of_document(document: &Document, machine: &Machine, processor: &str) -> Result<Calibration, Refusal> {
    let chase = |set: &str, page: &str| {
        let wanted = |row: &&EstimateRow| {
            let is = |key: &str, label: &str| row.treatment.get(key).is_some_and(|found| found == label);
            row.metric == "access_ns" && is("working_set", set) && is("page", page)
        };
        interval(document.estimates.iter().find(wanted))
    };
    let lacks = |set: &str| {
        Refusal::failure(format!(
            "run {}: the chase through {set} has no interval, since too few trials count; calibrate when less else runs on this machine",
            document.run.id
        ))
    };
    let mut places = [Range::exactly(0.0); 4];
    for (place, set) in places.iter_mut().zip(SETS) {
        *place = chase(set, "2m").ok_or_else(|| lacks(set))?;
    }
    let is_fault =
        |row: &&EstimateRow| row.metric == "fault_ns" && row.treatment.get("page").is_some_and(|page| page == "4k");
    Ok(Calibration {
        machine: machine.key.clone(),
        processor: processor.to_owned(),
        date: document.run.started.clone(),
        run: document.run.id.clone(),
        places,
        walked: chase(SETS[3], "4k").map(|ns| (CHASED, ns)),
        fault: interval(document.estimates.iter().find(is_fault)),
    })
}

fn interval(row: Option<&EstimateRow>) -> Option<Range> {
    let row = row?;
    let (low, high) = (row.lo?, row.hi?);
    (0.0 < low && low < high).then_some(Range { low, high })
}
