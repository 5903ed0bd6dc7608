//! What a plan executes and compares: arms, and pairs of them.

use crate::arm::ResolvedArm;
use crate::command;
use crate::environments;
use crate::study::Design;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One combination of levels: factor by factor, as labels. Factors that do not apply are left out.
pub type Treatment = BTreeMap<String, String>;

/// A treatment and the arm that executes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedArm {
    /// The levels.
    pub treatment: Treatment,
    /// Where it runs.
    pub environment: String,
    /// The place that this is like, where the name is the study's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// What the agent gets.
    pub arm: ResolvedArm,
    /// Whether the place is emulated: no ratio with it has a verdict.
    #[serde(default)]
    pub emulated: bool,
}

impl PlannedArm {
    /// Which place it is.
    #[must_use]
    pub fn place(&self) -> &str {
        self.like.as_ref().unwrap_or(&self.environment)
    }

    /// How long one of its phases lasts at least: its workload's own time, else that of the design.
    #[must_use]
    pub fn phase(&self, design: &Design) -> Nanos {
        command::phase_time(&self.arm).unwrap_or(design.phase)
    }

    /// The environment of whose sites one runs it: an agent on this machine runs all arms of this machine.
    #[must_use]
    pub fn site(&self) -> &str {
        if self.on_this_machine() { environments::NATIVE } else { &self.environment }
    }

    /// Whether the arm runs in an agent on this machine itself.
    #[must_use]
    pub fn on_this_machine(&self) -> bool {
        environments::find(self.place()).is_none_or(|kind| kind.can.interleaves)
    }
}

/// What a ratio means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Contrast {
    /// The same work and the same application page size in two environments.
    Environment,
    /// The arms differ in the application's page size; printed as such and never as a cost of virtualization.
    PageSize,
    /// The arms differ in how the frames of their small pages lie in physical memory; printed as such, as page sizes are.
    Frames,
    /// The arms differ in some other factor.
    Factor,
    /// One treatment against itself.
    SelfCheck,
}

impl Contrast {
    /// Whether a ratio explains others and is no answer of its own.
    #[must_use]
    pub fn explains(self) -> bool {
        matches!(self, Contrast::PageSize | Contrast::Frames)
    }
}

/// Two arms whose ratio is requested, as indices into [`Plan::arms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The arm above the line.
    pub numerator: usize,
    /// The arm below the line.
    pub denominator: usize,
    /// What the ratio means.
    pub contrast: Contrast,
    /// Whether both arms take turns in one trial, in one process or at two sites; else each has its own trial in every block.
    #[serde(default = "yes")]
    pub interleaved: bool,
    /// Whether the study asks for it; else it explains, from trials that are run anyway, and does not hold up the end.
    #[serde(default = "yes")]
    pub asked: bool,
}

impl Pair {
    /// Whether the study asks for it, and it is of two different things.
    #[must_use]
    pub fn is_compared(&self) -> bool {
        self.asked && self.contrast != Contrast::SelfCheck
    }
}

/// Where both programs of a pair run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Duet {
    /// The CPU of each, which they swap from run to run.
    pub cpus: [usize; 2],
    /// Whether these are two threads of one core, which the programs share then.
    pub one_core: bool,
}

/// What was so in every plan that was stored before it could be otherwise.
fn yes() -> bool {
    true
}
