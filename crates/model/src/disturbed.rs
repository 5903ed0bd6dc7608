//! Which quads of phases do not count for what others took of the CPUs, and what of that a reader should know.
//!
//! One rule for all trials: of arms that take turns in one process, which the agent applies, and of arms that take turns at two
//! sites, which the lab does, for neither site has all phases. Of programs that run at the same time all quads count: what disturbs one disturbs the other.

use crate::command::{CPU, WALL};
use crate::seam::TickRate;
use crate::wire::{DiscardedQuad, Disturbance, PhaseDisturbance, Series};

/// Phases of a quad: ABBA or BAAB.
pub const QUAD: usize = 4;
/// A quad in which ranks waited for this share of their time does not count. One time slice of another program takes a
/// sixth of a quad of two ranks and phases of 5 ms; interrupts and the kernel's own threads take a thousandth.
const TOO_LONG: f64 = 0.02;
/// A quad in which others certainly used more than this share of all CPUs does not count: certainly, because a tick of resolution is
/// taken off first.
const TOO_MUCH: f64 = 0.10;
/// A program that has a CPU for less than this part of the share of its run time that it has one in other runs waits for most of the run.
const WAITED: f64 = 0.25;
/// Two programs whose phases overlap for less than so many percent of the longer ones are not next to each other throughout.
const TOGETHER_PERCENT: u64 = 80;
/// From here on a reader should know of it.
const TOLD_QUEUED: f64 = 0.01;
const TOLD_OTHERS: f64 = 0.10;

/// The share of the ranks' time in which they waited for their CPUs; `None` where that was not counted or there is no time. The delay is read
/// on both sides of the region: what ranks waited beyond their time in it they waited outside.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a trial")]
#[must_use]
pub fn queued_share<'s>(phases: impl Iterator<Item = &'s Series>, rate: TickRate) -> Option<f64> {
    let (mut queued, mut seconds) = (0.0, 0.0);
    for run in phases.flat_map(|phase| &phase.runs) {
        let inside = run.times.iter().map(|time| rate.own(time)).sum::<f64>();
        queued += (run.audit.queued_ns? as f64 / 1e9).min(inside);
        seconds += inside;
    }
    (seconds > 0.0).then(|| queued / seconds)
}

/// The quads that do not count: those in which ranks waited for their CPUs for more than [`TOO_LONG`] of their time, or others used more than
/// [`TOO_MUCH`] of all CPUs, over all four phases of both arms together, so that neither arm is looked at. Where that is more
/// than half of the trial's quads all of them count: what is left would be a choice among disturbed ones.
#[must_use]
pub fn discarded(series: &[Series], found: &Disturbance, rate: TickRate) -> Vec<DiscardedQuad> {
    let all = series.len() / QUAD;
    let judge = |quad: usize| {
        let phases = &series[QUAD * quad..QUAD * (quad + 1)];
        let waited = queued_share(phases.iter(), rate).filter(|share| *share > TOO_LONG);
        let waited =
            waited.map(|share| format!("its ranks waited for their CPUs for {:.1} % of their time", 100.0 * share));
        let used = found.phases.get(QUAD * quad..QUAD * (quad + 1)).and_then(others_share);
        let used = used.map(|share| format!("other programs used {:.0} % of the CPUs", 100.0 * share));
        Some(DiscardedQuad { quad, why: waited.or(used)? })
    };
    let discarded: Vec<DiscardedQuad> = (0..all).filter_map(judge).collect();
    if 2 * discarded.len() > all { Vec::new() } else { discarded }
}

/// What a reader should know of a trial whose phases ran two at a time. None of its quads is left out: how long a program had its CPU shows in the metric that is compared,
/// and a choice of quads by that would be one by their outcome.
#[must_use]
pub fn duet_flags(series: &[Series]) -> Vec<String> {
    let mut flags = Vec::new();
    if waited(series) {
        let text = "in some runs a program used CPU time for less than a quarter of the share of its run time that it did in others: it waited, for a CPU or for something else";
        flags.push(text.to_owned());
    }
    if ran_apart(series) {
        let text =
            "the two programs overlapped for less than 80 % of the time of the longer one, which ran its rest alone";
        flags.push(text.to_owned());
    }
    flags
}

/// Whether a phase has a program that used its CPU for less than [`WAITED`] of the share of its run time that it did at most in the trial.
fn waited(series: &[Series]) -> bool {
    let had = |phase: &Series| {
        let of = |metric: &str| phase.samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value);
        of(CPU.key).zip(of(WALL.key)).map(|(cpu, wall)| cpu / wall).filter(|share| share.is_finite())
    };
    let most = |arm: usize| series.iter().filter(|phase| phase.arm == arm).filter_map(had).fold(0.0, f64::max);
    series.iter().any(|phase| had(phase).is_some_and(|share| share < WAITED * most(phase.arm)))
}

/// Whether phases that began together overlap, over the trial, for less than [`TOGETHER_PERCENT`] of the longer ones.
fn ran_apart(series: &[Series]) -> bool {
    let (mut overlap_ns, mut longer_ns) = (0_u64, 0_u64);
    for two in series.chunks_exact(2) {
        let [first, second] = two else { continue };
        let (begin_ns, end_ns) = (first.begin_ns.max(second.begin_ns), first.end_ns.min(second.end_ns));
        overlap_ns += end_ns.saturating_sub(begin_ns);
        let lasts_ns = |phase: &Series| phase.end_ns.saturating_sub(phase.begin_ns);
        longer_ns += lasts_ns(first).max(lasts_ns(second));
    }
    overlap_ns.saturating_mul(100) < longer_ns.saturating_mul(TOGETHER_PERCENT)
}

/// The share of all CPUs that others used over the phases of a quad, where it is certainly more than [`TOO_MUCH`].
fn others_share(phases: &[PhaseDisturbance]) -> Option<f64> {
    let shares: Option<Vec<f64>> = phases.iter().map(|phase| phase.others).collect();
    let share = 0.25 * shares?.iter().sum::<f64>();
    // The mean of the readings' resolutions, as the share is: two sites have different ones.
    let resolution = 0.25 * phases.iter().map(|phase| phase.resolution).sum::<f64>();
    (share - resolution > TOO_MUCH).then_some(share)
}

/// What a reader should know.
#[must_use]
pub fn flags(found: &Disturbance, discarded: &[DiscardedQuad]) -> Vec<String> {
    let queued = found.queued.iter().flatten().any(|share| *share > TOLD_QUEUED);
    let others = !found.work_of_others && found.others.is_some_and(|share| share > TOLD_OTHERS);
    let mut flags = Vec::new();
    if queued {
        flags.push(
            "measured threads were runnable but not running for more than 1 % of the time of their phases".to_owned(),
        );
    }
    if others {
        let who = if found.hidden_programs { "other programs and the kernel" } else { "other programs" };
        flags.push(format!("{who} used more than 10 % of the CPUs during the phases"));
    }
    if !discarded.is_empty() {
        let text = "some quads of phases were discarded: others used more than 10 % of the CPUs, or ranks waited for more than 2 %";
        flags.push(text.to_owned());
    }
    flags
}
