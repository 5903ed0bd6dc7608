//! What observers saw that differs between the two arms of a ratio: what may explain it.
//!
//! Block by block, like the ratio itself, and all quantities of a study as one family: an interval is adjusted to how many
//! there are and to how often the run was extended, and one that holds 0 has no row. A difference below delta of the larger value has none either.
//! Emulated machines have no rows, whose ratios have no verdict to explain.

use crate::trials::{self, Finished, Side, Sides};
use baremark_model::codes::Cause;
use baremark_model::document::ExplanationRow;
use baremark_model::environments::{self, Capabilities};
use baremark_model::observation::{Observation, THIS_MACHINE};
use baremark_model::plan::{Pair, Plan};
use baremark_model::view;
use baremark_stats::Interval;
use baremark_stats::estimate::mean;
use baremark_stats::interim::rate;
use baremark_stats::location;
use baremark_stats::multiplicity::{Claim, judge_study};
use baremark_stats::outcome::Better;

/// The views that can explain a number, with what follows where there is more of it.
pub(crate) const CAUSES: &[(&str, &str)] = &[
    ("cpu.utilization", ""),
    ("cpu.steal_share", "the hypervisor ran other virtual machines meanwhile: run fewer on the host, or dedicate CPUs"),
    ("cpu.interrupt_share", ""),
    ("kernel.interrupts", ""),
    ("kernel.context_switches", ""),
    ("tlb.shootdowns", "threads of one process unmap or move pages: fewer of these, or larger pages"),
    ("disk.iops", ""),
    ("disk.mb_per_s", ""),
    ("disk.latency", ""),
    ("net.receive_packets", ""),
    ("net.transmit_packets", ""),
    ("net.receive_mb_per_s", ""),
    ("net.transmit_mb_per_s", ""),
    ("net.receive_packet_bytes", ""),
    ("vm.faults", ""),
    ("vm.major_faults", "pages come from disk: more memory, or less in it"),
    ("vm.swapped", "it swaps: more memory, or less in it"),
    ("numa.local_share", ""),
    ("pressure.cpu", "there are more tasks than CPUs for them"),
    ("pressure.io", "tasks wait for disks"),
    ("pressure.memory", "tasks wait for memory: more of it, or less in it"),
    ("counters.ipc", ""),
    ("counters.dtlb_per_1000", "larger pages lower it"),
    ("counters.walk_share", "larger pages shorten page walks"),
    ("kvm.exits", ""),
];

/// Those that are shares of the time of all CPUs: of a machine and of a guest with fewer CPUs they are shares of different times.
const OF_ALL_CPUS: &[&str] = &["cpu.utilization", "cpu.steal_share", "cpu.interrupt_share"];

/// The place at which an environment's work sees itself: that of an agent on this machine is this machine's.
pub(crate) fn own_place(environment: &str, can: Capabilities) -> &str {
    if can.interleaves { THIS_MACHINE } else { environment }
}

/// A place at which both arms of a pair were observed alike.
struct Ground<'p> {
    above: &'p str,
    below: &'p str,
    /// Over whole trials, preparation and verification included, or over the arm's own phases.
    whole: bool,
    /// What is said of it after the quantity.
    words: &'static str,
}

fn grounds<'p>(plan: &'p Plan, pair: &Pair) -> Vec<Ground<'p>> {
    let [above, below] = [pair.numerator, pair.denominator].map(|arm| &plan.arms[arm]);
    let [above, below] = [above, below].map(|arm| own_place(&arm.environment, environments::can(arm.place())));
    let elsewhere = [above, below].iter().any(|place| *place != THIS_MACHINE);
    let words = if elsewhere { ", as seen inside," } else { "" };
    let mut all = vec![Ground { above, below, whole: false, words }];
    if elsewhere {
        // This machine alongside an arm elsewhere is observed over whole trials alone; where that takes turns with an arm here, over the phases of both.
        let whole = !pair.interleaved;
        let words = if whole { " of this machine over whole trials" } else { " of this machine" };
        all.push(Ground { above: THIS_MACHINE, below: THIS_MACHINE, whole, words });
    }
    all
}

/// A difference that may be shown.
struct Candidate {
    arm: usize,
    what: String,
    unit: &'static str,
    advice: &'static str,
    /// The larger of both mean values.
    larger: f64,
    /// Numerator less denominator, block by block.
    blocks: Claim,
}

/// The differences that are shown, by the numerator's arm.
pub(crate) fn explain(plan: &Plan, trials: &[Finished]) -> Vec<(usize, ExplanationRow)> {
    let mut all = Vec::new();
    for (index, pair) in plan.pairs.iter().enumerate() {
        let emulated = [pair.numerator, pair.denominator].iter().any(|&arm| plan.arms[arm].emulated);
        if pair.is_compared() && !emulated {
            let sides = trials::sides(plan, trials, index);
            all.extend(grounds(plan, pair).iter().flat_map(|ground| candidates(plan, pair, ground, &sides)));
        }
    }
    let claims: Vec<Claim> = all.iter().map(|one| one.blocks).collect();
    let shown = all.iter().zip(judge_study(&claims, rate(plan.extensions.len()))).filter_map(|(one, judged)| {
        let interval = judged.interval.filter(|interval| !interval.contains(0.0))?;
        let matters = interval.centre.abs() > plan.design.delta.0 * one.larger;
        let advice = if interval.centre > 0.0 { one.advice } else { "" };
        matters.then(|| (one.arm, row(plan, one.arm, (Cause::Observed, &one.what), one.unit, interval, advice)))
    });
    shown.collect()
}

/// A row of an arm.
pub(crate) fn row(
    plan: &Plan,
    arm: usize,
    (cause, what): (Cause, &str),
    unit: &str,
    interval: Interval,
    advice: &str,
) -> ExplanationRow {
    ExplanationRow {
        treatment: plan.arms[arm].treatment.clone(),
        cause: Some(cause),
        what: what.to_owned(),
        unit: unit.to_owned(),
        value: interval.centre,
        lo: interval.lo,
        hi: interval.hi,
        advice: advice.to_owned(),
    }
}

fn candidates(plan: &Plan, pair: &Pair, ground: &Ground<'_>, sides: &[Sides<'_>]) -> Vec<Candidate> {
    let base = base_words(plan, pair);
    let of = |&(key, advice): &(&str, &'static str)| {
        let view = view::find(key)?;
        let value = |side: Side<'_>, place: &str| seen(side, place, ground.whole, key);
        let pairs: Vec<(f64, f64)> = sides
            .iter()
            .filter(|sides| !OF_ALL_CPUS.contains(&key) || has_as_many_cpus(sides, ground))
            .filter_map(|sides| {
                let below = sides.mean(0, |side| value(side, ground.below))?;
                Some((below, sides.mean(1, |side| value(side, ground.above))?))
            })
            .collect();
        let differences: Vec<f64> = pairs.iter().map(|(below, above)| above - below).collect();
        let (below, above): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        Some(Candidate {
            arm: pair.numerator,
            what: format!("{}{} beyond {base}", view.label, ground.words),
            unit: view.unit,
            advice,
            larger: mean(&below)?.abs().max(mean(&above)?.abs()),
            // Of its outcome nothing is asked but whether the interval leaves out 0.
            blocks: Claim::of(&differences, location::SMALLEST, plan.design.delta.0, Better::Higher),
        })
    };
    CAUSES.iter().filter_map(of).collect()
}

/// Whether both sides of a block saw as many CPUs; also where that is not known.
fn has_as_many_cpus(sides: &Sides<'_>, ground: &Ground<'_>) -> bool {
    let cpus = |which: usize, place: &str| sides.mean(which, |side| seen(side, place, ground.whole, "cpu.online"));
    let both = cpus(0, ground.below).zip(cpus(1, ground.above));
    both.is_none_or(|(below, above)| (above - below).abs() < 0.5)
}

/// The levels by which the denominator is another than the numerator.
fn base_words(plan: &Plan, pair: &Pair) -> String {
    let (above, below) = (&plan.arms[pair.numerator].treatment, &plan.arms[pair.denominator].treatment);
    let own = below.iter().filter(|(key, label)| above.get(*key) != Some(label));
    let words: Vec<String> =
        own.map(|(key, label)| if key == "environment" { label.clone() } else { format!("{key} {label}") }).collect();
    if words.is_empty() { plan.arms[pair.denominator].environment.clone() } else { words.join(", ") }
}

/// A view of what was seen at a place while an arm ran; of several members' places the mean.
fn seen(side: Side<'_>, place: &str, whole: bool, key: &str) -> Option<f64> {
    let result = side.trial.counted()?;
    let here = |observation: &&Observation| {
        observation.place.strip_prefix(place).is_some_and(|member| member.is_empty() || member.starts_with(", "))
    };
    let of = |observation: &Observation| {
        let whole_trial = || view::of_machine(key, &observation.whole, observation.seconds);
        if whole {
            return whole_trial();
        }
        let own = observation.arms.iter().find(|arm| arm.arm == side.arm);
        let own = own.and_then(|arm| view::of_machine(key, &arm.values, arm.seconds));
        // What is too dear to be read between phases was read at the ends of the trial.
        own.or_else(|| (side.trial.spec.arms.len() == 1).then(whole_trial).flatten())
    };
    let values: Option<Vec<f64>> = result.observations.iter().filter(here).map(of).collect();
    mean(&values?)
}
