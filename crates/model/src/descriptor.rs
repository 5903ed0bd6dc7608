//! Descriptor tables: one row defines a knob or a metric.
//!
//! Parser, `plan`, `list`, error messages with the nearest valid key, and the reference page all read the same row, so
//! that none of them can disagree with another.

use crate::arm::{ExecutorKind, ResolvedArm};
use crate::codes::Hindrance;
use crate::knob::{InvalidValue, Knob};
use crate::metric::Metric;
use crate::problem::Problem;
use crate::value::Value;

/// One table of several parts, one after the other. The length must be that of all parts together, which is found out while compiling.
#[must_use]
pub const fn joined<T: Copy, const N: usize>(parts: &[&[T]]) -> [T; N] {
    let mut table = [parts[0][0]; N];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut row = 0;
        while row < parts[part].len() {
            table[at] = parts[part][row];
            (row, at) = (row + 1, at + 1);
        }
        part += 1;
    }
    assert!(at == N, "the table is longer than its parts");
    table
}

/// Who has the memory that a workload takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// An agent maps it for each arm of a trial, so that the study decides how its frames lie.
    Agent,
    /// The workload, for each arm of a trial.
    Workload,
    /// A server, from one phase of its arm to the next where arms at two sites take turns: both are there at once then. Otherwise each has it in its own phases
    /// alone, as far as it uses it.
    ServerInTurns,
}

/// How much memory a workload takes, so that a plan can refuse what does not fit.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    /// The parameter that decides it, for the message.
    pub key: &'static str,
    /// The bytes of one arm with all its parts; `None` where the parameters do not say.
    pub bytes: fn(&ResolvedArm) -> Option<u64>,
    /// Who has it, and when.
    pub held: HeldBy,
}

/// The size that the parameter `key` gives, which is of all ranks and parts together.
#[must_use]
pub fn size_of(arm: &ResolvedArm, key: &str) -> Option<u64> {
    match arm.parameters.get(key) {
        Some(Value::SizeBytes(size)) => Some(size.0),
        _ => None,
    }
}

/// A section of a study file that a workload reads itself, such as the topology of an application.
///
/// Every key below it becomes a parameter of the workload under its dotted path (`topology.database.service`). It can be
/// varied in `[factors]` under the path inside the section (`database.service`), which then is the parameter's name.
#[derive(Clone, Copy, Debug)]
pub struct OwnSection {
    /// The section's name.
    pub name: &'static str,
    /// Whether a path inside it, such as `database.service`, can be a factor.
    pub has: fn(&str) -> bool,
    /// Checks the section of a study: the file's name, its text. Returns every mistake with its line.
    pub check: fn(&str, &str) -> Vec<Problem>,
    /// Checks an arm: the section with the levels of factors over it, and the workload's own parameters. Returns every mistake
    /// with the parameter at fault.
    pub check_arm: fn(&ResolvedArm) -> Vec<(String, InvalidValue)>,
    /// What an arm needs of this machine alongside its own environment, such as the places of an application's tiers. An arm is absent
    /// where [`Limits::absent`](crate::plan::Limits::absent) has one of these names, and emulated likewise.
    pub needs: fn(&ResolvedArm) -> Vec<String>,
    /// One sentence for people: what the section describes and where its keys are listed.
    pub help: &'static str,
}

/// A metric that lowers the reliability of a run.
#[derive(Clone, Copy, Debug)]
pub struct HinderedBy {
    /// Its key. It is a share in percent: most of something was not as the workload's name says. Phases that nothing hinders need not have it.
    pub metric: &'static str,
    /// The code.
    pub hindrance: Hindrance,
    /// What more than 50 % means, as a part of a sentence.
    pub means: &'static str,
}

/// What a workload is, to everybody who never runs it.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// The kind as typed in a study.
    pub kind: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// Where it is defined: paper, standard, program.
    pub source: &'static str,
    /// Its parameters.
    pub parameters: &'static [Knob],
    /// Its metrics; the first is the headline's.
    pub metrics: &'static [Metric],
    /// How much memory it works on; `None` where that is of no matter.
    pub footprint: Option<Footprint>,
    /// The executors that can run it.
    pub executors: &'static [ExecutorKind],
    /// The section of the study file that it reads itself; `None` for most.
    pub section: Option<OwnSection>,
    /// Whether the work can be cut into phases of a few milliseconds: loops that an executor enters, not whole programs.
    pub short_phases: bool,
    /// Whether nothing of an arm runs between two of its phases (no load, no server that cannot be stopped where it is, nothing that the kernel still has to write), and nothing that
    /// it writes is another's.
    /// Arms at sites that share no process can then take turns phase by phase.
    pub alternates: fn(&ResolvedArm) -> bool,
    /// Whether a job's preparation and its runs end soon after [`JobContext::interrupt`](crate::job::JobContext::interrupt) is set, with
    /// [`JobError::Interrupted`](crate::job::JobError::Interrupted). Such a job is given time to remove what it has made; any other ends with its agent's process.
    pub stops_on_interrupt: bool,
    /// What lowers the reliability of a run whatever else happens on the machine.
    pub hindered_by: &'static [HinderedBy],
    /// Parameters that `--quick` sets smaller, as typed: key and value.
    pub quick: &'static [(&'static str, &'static str)],
    /// Refuses a combination of parameters and ranks that each alone would pass.
    pub check: fn(&ResolvedArm) -> Result<(), InvalidValue>,
}

impl Descriptor {
    /// What tables of jobs say where they say nothing of their own.
    pub const JOB: Descriptor = Descriptor {
        kind: "",
        help: "",
        source: "",
        parameters: &[],
        metrics: &[],
        footprint: None,
        executors: &[ExecutorKind::Direct],
        section: None,
        short_phases: false,
        alternates: |_| false,
        stops_on_interrupt: false,
        hindered_by: &[],
        quick: &[],
        check: |_| Ok(()),
    };

    /// The parameter named `key`.
    #[must_use]
    pub fn parameter(&self, key: &str) -> Option<&'static Knob> {
        self.parameters.iter().find(|knob| knob.key == key)
    }

    /// How much memory each arm takes, whether or not it takes turns.
    #[must_use]
    pub fn footprint_of_each_arm(&self) -> Option<Footprint> {
        self.footprint.filter(|of| of.held != HeldBy::ServerInTurns)
    }

    /// The metric named `key`.
    #[must_use]
    pub fn metric(&self, key: &str) -> Option<&'static Metric> {
        self.metrics.iter().find(|metric| metric.key == key)
    }
}
