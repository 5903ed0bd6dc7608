//! How much more of the CPUs other programs used in the phases of one arm of a ratio than in those of the other, counted alike for both.
//!
//! An agent that sees all programs of its machine counts them, and leaves out the kernel's work and the lab. One in a PID namespace of its own sees none of them: it has what neither
//! the work nor idle CPUs took. Where one side of a ratio is such, both are compared by what each agent and its work did not use, in which kernel and lab are on both sides.

use crate::activity::own_place;
use crate::trials::{self, Finished, Side, Sides};
use baremark_model::environments;
use baremark_model::observation::THIS_MACHINE;
use baremark_model::plan::Plan;
use baremark_model::wire::{Disturbance, PhaseDisturbance, TrialResult};
use std::collections::BTreeSet;

/// The quantity, in words.
pub(crate) const WHAT: &str = "CPU use by other programs in timed phases";
/// The same where one side does not see them.
pub(crate) const WHAT_BEYOND: &str = "CPU use by other programs, kernel and lab in timed phases";

/// Why the sides of a ratio are not compared: they were not counted in one way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unlike {
    /// One side's kernel has no account, such as gVisor's.
    #[error("the two sides were not counted in one way: the kernel of {0} does not report CPU time")]
    NotReported(String),
    /// One side has the account of a container alone.
    #[error(
        "the two sides were not counted in one way: /proc/stat is not the kernel's in {0} but a container's (lxcfs)"
    )]
    OfContainer(String),
    /// It is not known which programs an agent saw.
    #[error("the two sides were not counted in one way: trials of an earlier version have no such count")]
    EarlierVersion,
}

/// The numerator's share less the denominator's of a pair, in percent of all CPUs' time, block by block, and what it is in words.
///
/// # Errors
/// Why there is none: both were not counted in one way.
pub(crate) fn differences(plan: &Plan, trials: &[Finished], pair: usize) -> Result<(&'static str, Vec<f64>), Unlike> {
    let arms = [plan.pairs[pair].denominator, plan.pairs[pair].numerator].map(|arm| &plan.arms[arm]);
    let names = arms.map(|arm| arm.environment.as_str());
    let has_one_agent =
        arms.iter().all(|arm| own_place(&arm.environment, environments::can(arm.place())) == THIS_MACHINE);
    let sides = trials::sides(plan, trials, pair);
    let [below, above] = [0, 1].map(|which| Counted::of(&sides, which));
    let is_beyond_agent = below.hidden || above.hidden;
    if !has_one_agent {
        if below.is_unknown != above.is_unknown {
            return Err(Unlike::NotReported(names[usize::from(above.is_unknown)].to_owned()));
        }
        if below.of_container.union(&above.of_container).count() > 1 {
            let is_inside = [&below, &above].map(|side| side.of_container.contains(&true));
            let inside = names.iter().zip(is_inside).filter(|(_, is_so)| *is_so).map(|(name, _)| *name);
            return Err(Unlike::OfContainer(inside.collect::<Vec<_>>().join(" and ")));
        }
    }
    if (!has_one_agent || is_beyond_agent) && (below.is_of_earlier_version || above.is_of_earlier_version) {
        return Err(Unlike::EarlierVersion);
    }
    let share = |side: Side<'_>| {
        let (result, found) = disturbance(side)?;
        let arms = result.series.iter().map(|phase| phase.arm);
        let share = match is_beyond_agent {
            true => found.beyond_agent_of(side.arm, arms),
            false => found.others_of(side.arm, arms),
        };
        Some(100.0 * share?)
    };
    let what = if is_beyond_agent { WHAT_BEYOND } else { WHAT };
    Ok((what, sides.iter().filter_map(|sides| sides.means(share)).map(|[below, above]| above - below).collect()))
}

/// How an arm's trials counted what others used.
#[derive(Default)]
struct Counted {
    /// Programs that the agent did not see are among them.
    hidden: bool,
    /// In phases, whether `/proc/stat` was a container's.
    of_container: BTreeSet<bool>,
    /// There are trials, and the kernel counted in none of them.
    is_unknown: bool,
    /// It is not known which programs the agent saw.
    is_of_earlier_version: bool,
}

impl Counted {
    fn of(sides: &[Sides<'_>], which: usize) -> Self {
        let mut counted = Counted::default();
        let (mut trials, mut known) = (0, 0);
        for &side in sides.iter().flat_map(|sides| sides.of(which)) {
            let Some((result, found)) = disturbance(side) else { continue };
            if found.phases.is_empty() {
                // Of several sites that work at once neither is known.
                counted.is_of_earlier_version |= found.others.is_some();
                continue;
            }
            let arms = result.series.iter().map(|phase| phase.arm);
            let phases = arms.zip(&found.phases).filter(|(arm, _)| *arm == side.arm).map(|(_, phase)| phase);
            let phases: Vec<&PhaseDisturbance> = phases.filter(|phase| phase.others.is_some()).collect();
            trials += 1;
            known += usize::from(!phases.is_empty());
            counted.hidden |= found.hidden_programs;
            counted.is_of_earlier_version |= phases.iter().any(|phase| phase.beyond_agent.is_none());
            counted.of_container.extend(phases.iter().map(|phase| phase.of_container));
        }
        counted.is_unknown = trials > 0 && known == 0;
        counted
    }
}

/// The trial of a side, where it counts, and what others took of the CPUs in it.
fn disturbance(side: Side<'_>) -> Option<(&TrialResult, &Disturbance)> {
    let result = side.trial.counted()?;
    Some((result, result.disturbance.as_ref()?))
}
