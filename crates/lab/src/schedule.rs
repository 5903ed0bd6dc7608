//! Which trials a block has, in which order, and the order of the phases inside each.
//!
//! Every choice follows from the plan's seed and the trial's place, never from what happened before: a resumed run goes
//! on with just the trials that an undisturbed one would have had.

use baremark_model::arm::ResolvedArm;
use baremark_model::command::{self, TIMEOUT};
use baremark_model::environments;
use baremark_model::plan::{Cell, Plan};
use baremark_model::value::Value;
use baremark_model::verify::Verify;
use baremark_model::wire::{ArmSpec, Member, TrialSpec};
use baremark_stats::Rng;

/// The cells of `block` in the random order in which their trials run.
#[must_use]
pub fn order(plan: &Plan, block: u64) -> Vec<usize> {
    let mut cells: Vec<usize> = (0..plan.cells.len()).collect();
    Rng::stream(plan.design.seed, 2 * block).shuffle(&mut cells);
    cells
}

/// The longest that quads of a trial are measured where their number follows from what the first block has shown.
pub(crate) const MOST_MEASURED_NS: u64 = 4_000_000_000;

/// The trial of `cell` in `block`, with the quads of the design.
#[must_use]
pub fn trial(plan: &Plan, block: u64, cell: usize) -> TrialSpec {
    trial_of(plan, block, cell, None)
}

/// The quads that a trial was to have.
#[must_use]
pub fn quads_of(spec: &TrialSpec) -> u64 {
    (spec.schedule.len() / (2 * spec.arms.len().max(1))) as u64
}

/// The trial of `cell` in `block`, with so many quads (`count`) where they are not those of the design.
///
/// A pair is interleaved as quads of ABBA or BAAB, as many of the one as of the other, in random order: within four phases
/// both orders balance a linear drift, and over a trial neither arm follows the other more often; that is so whether both run in one
/// process or at two sites. In a duet each two phases run at the same time, the first of them on the first CPU, so that a quad swaps the CPUs. An arm alone runs as many phases as it would have in a pair. With no quads each arm has one phase.
#[must_use]
pub fn trial_of(plan: &Plan, block: u64, cell: usize, count: Option<u64>) -> TrialSpec {
    let place = block.wrapping_mul(plan.cells.len() as u64).wrapping_add(cell as u64);
    let mut rng = Rng::stream(plan.design.seed, 2 * place + 1);
    let arms = plan.arms_of(plan.cells[cell]);
    let each = count.unwrap_or(plan.design.quads);
    let schedule = match plan.cells[cell] {
        Cell::Pair(_) if each == 0 => one_of_each(&mut rng),
        Cell::Pair(_) => quads(each, &mut rng),
        cell @ Cell::Single(_) => vec![0; usize::try_from(cell.phases(each)).unwrap_or(usize::MAX)],
    };
    let mut allocation_order: Vec<usize> = (0..arms.len()).collect();
    rng.shuffle(&mut allocation_order);
    let seed = rng.next_u64();
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
        reps: None,
        reps_near: None,
        most_ns: most_ns(plan, cell, count),
        watchdog_ns: arms.iter().map(|&arm| watchdog_ns(plan.design.phase.0, &plan.arms[arm].arm)).max().unwrap_or(0),
        // Elsewhere the agent takes the CPUs that it finds.
        cpus: if plan.environments_of(plan.cells[cell]).contains(&environments::NATIVE) {
            plan.cpus.clone()
        } else {
            Vec::new()
        },
        duet: plan.duet.filter(|_| arms.len() == 2).map(|duet| duet.cpus),
        seed,
        verify: verify(plan, block, seed),
        observe: (!plan.observe.which.is_empty()).then(|| plan.observe.clone()),
        overwritable: Vec::new(),
    }
}

/// Of as many blocks one checks results as a whole.
const WHOLE_EVERY: u64 = 8;

/// How much of their results the trials of `block` check: the whole in the first block, where a fault that every trial has is found, in every eighth and in the last that the
/// study can have; in others ranges, which take less time.
fn verify(plan: &Plan, block: u64, seed: u64) -> Verify {
    let design = &plan.design;
    // Without a ratio to be reached a study ends with its smallest number of blocks.
    let fixed = plan.mode.quick || !plan.pairs.iter().any(|pair| pair.asked);
    let most = if fixed { design.least_blocks.min(design.most_blocks) } else { design.most_blocks };
    if block.is_multiple_of(WHOLE_EVERY) || block.saturating_add(1) >= most {
        Verify::Whole
    } else {
        Verify::Ranges(seed)
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

/// One phase of each arm: which runs first is drawn for each block, so that over blocks neither has the better place.
fn one_of_each(rng: &mut Rng) -> Vec<usize> {
    if rng.below(2) == 0 { vec![0, 1] } else { vec![1, 0] }
}

/// The arms of so many quads, phase by phase. An odd quad is of either order.
fn quads(count: u64, rng: &mut Rng) -> Vec<usize> {
    let mut forward = false;
    let order = |quad: u64| {
        // Of two quads one is of either order, so that a schedule that is cut short is balanced too.
        forward = if quad.is_multiple_of(2) { rng.below(2) == 0 } else { !forward };
        if forward { [0, 1, 1, 0] } else { [1, 0, 0, 1] }
    };
    (0..count).flat_map(order).collect()
}

/// For how long a trial of short phases begins further quads: where one repetition takes longer than a phase should, the
/// trial has fewer of them. Sites of an ensemble, which must agree, and programs run the whole schedule. Of two sites that take turns the lab
/// counts the time.
fn most_ns(plan: &Plan, cell: usize, count: Option<u64>) -> Option<u64> {
    const LEAST: u64 = 1_000_000_000;
    let cell = plan.cells[cell];
    let arm = &plan.arms[plan.arms_of(cell)[0]];
    let shares_kernel = environments::can(arm.place()).on_this_kernel() && arm.arm.parts == 1;
    let in_turns = plan.environments_of(cell).len() > 1;
    let cut = plan.design.quads > 1 && (arm.on_this_machine() || shares_kernel || in_turns);
    // Where the number follows from what quads take, they take this at most: a trial that takes twice that was disturbed.
    let (phases, least) = match count {
        Some(count) => (cell.phases(count), 2 * MOST_MEASURED_NS),
        None => (plan.phases_of(cell), LEAST),
    };
    cut.then(|| plan.design.phase.0.saturating_mul(2 * phases).max(least))
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
