//! Which trials a block has, in which order, and the order of the phases inside each.
//!
//! Every choice follows from the plan's seed and the trial's place, never from what happened before: a resumed run goes
//! on with just the trials that an undisturbed one would have had.

use baremark_model::arm::ResolvedArm;
use baremark_model::command::{self, TIMEOUT};
use baremark_model::descriptor::Value;
use baremark_model::plan::{Cell, Plan};
use baremark_model::wire::{ArmSpec, Member, TrialSpec};
use baremark_stats::Rng;

/// The cells of `block` in the random order in which their trials run.
#[must_use]
pub fn order(plan: &Plan, block: u64) -> Vec<usize> {
    let mut cells: Vec<usize> = (0..plan.cells.len()).collect();
    Rng::stream(plan.design.seed, 2 * block).shuffle(&mut cells);
    cells
}

/// The trial of `cell` in `block`.
///
/// A pair is interleaved as ABBA or BAAB, drawn for each quad: within four phases both orders balance a linear drift. An
/// arm alone runs as many phases as it would have in a pair.
#[must_use]
pub fn trial(plan: &Plan, block: u64, cell: usize) -> TrialSpec {
    let place = block.wrapping_mul(plan.cells.len() as u64).wrapping_add(cell as u64);
    let mut rng = Rng::stream(plan.design.seed, 2 * place + 1);
    let arms = plan.arms_of(plan.cells[cell]);
    let mut schedule = Vec::new();
    for _ in 0..plan.design.quads {
        match plan.cells[cell] {
            Cell::Pair(_) if rng.below(2) == 0 => schedule.extend([0, 1, 1, 0]),
            Cell::Pair(_) => schedule.extend([1, 0, 0, 1]),
            Cell::Single(_) => schedule.extend([0, 0]),
        }
    }
    let mut allocation_order: Vec<usize> = (0..arms.len()).collect();
    rng.shuffle(&mut allocation_order);
    TrialSpec {
        workload: plan.workload_of(arms[0]).to_owned(),
        arms: arms
            .iter()
            .map(|&arm| {
                let arm = warmed_up(plan, arm, block);
                ArmSpec { members: vec![Member { count: u32::try_from(arm.parts).unwrap_or(u32::MAX), arm }] }
            })
            .collect(),
        schedule,
        allocation_order,
        phase_ns: plan.design.phase.0,
        watchdog_ns: arms.iter().map(|&arm| watchdog_ns(plan.design.phase.0, &plan.arms[arm].arm)).max().unwrap_or(0),
        // Elsewhere the agent takes the CPUs that it finds.
        cpus: if plan.environment_of(plan.cells[cell]) == "native" { plan.cpus.clone() } else { Vec::new() },
        seed: rng.next_u64(),
        observe: (!plan.observe.which.is_empty()).then(|| plan.observe.clone()),
    }
}

/// The arm as it runs in `block`. A program that has run on this machine is warm in every later block; other places may be new in
/// each.
fn warmed_up(plan: &Plan, arm: usize, block: u64) -> ResolvedArm {
    let mut resolved = plan.arms[arm].arm.clone();
    if block > 0
        && plan.arms[arm].on_this_machine()
        && let Some(Value::Program(program)) = resolved.parameters.get_mut(command::KIND)
    {
        program.warmup = 0;
    }
    resolved
}

/// A run that takes this much longer than a phase is not slow, it hangs. A program has its own time-out, at which the agent
/// ends it, and may have been prepared for as long before.
fn watchdog_ns(phase_ns: u64, arm: &ResolvedArm) -> u64 {
    const LEAST: u64 = 10_000_000_000;
    let phase = phase_ns.saturating_mul(20).saturating_add(LEAST);
    match arm.parameters.get(TIMEOUT.key) {
        Some(Value::TimeNs(timeout)) => {
            let runs = 2 + command::of_arm(arm).map_or(0, |program| program.warmup);
            timeout.0.saturating_mul(runs).saturating_add(phase)
        }
        _ => phase,
    }
}
