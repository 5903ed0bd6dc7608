//! Descriptor tables: one row defines a knob or a metric.
//!
//! Parser, `plan`, `list`, error messages with the nearest valid key, and the reference page all read the same row, so
//! that none of them can disagree with another.

use crate::arm::{ExecutorKind, PageSize, ResolvedArm};
use crate::command::Program;
use crate::knob::InvalidValue;
use crate::problem::Problem;
use crate::units::{Bytes, Nanos, Share};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of value a knob takes, and its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number within `min..=max`.
    Count {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A size with its unit, within `min..=max` bytes.
    Size {
        /// The least, in bytes.
        min: u64,
        /// The most, in bytes.
        max: u64,
    },
    /// A duration with its unit, within `min..=max` nanoseconds.
    Time {
        /// The least, in nanoseconds.
        min: u64,
        /// The most, in nanoseconds.
        max: u64,
    },
    /// A percentage within `min..=max` (as fractions).
    Percent {
        /// The least, as a fraction.
        min: f64,
        /// The most, as a fraction.
        max: f64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A page size, `4k` or `2m`.
    Page,
    /// Free text.
    Text,
    /// `true` or `false`.
    Switch,
    /// A list of words, passed on unchanged.
    Words,
    /// A list of names; a text with commas between them is read, too.
    Names,
    /// Any value of TOML: that of a key of a workload's own section, which the workload checks.
    Literal,
}

/// A value as a study gives it, checked against its knob's kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// A size in bytes.
    SizeBytes(Bytes),
    /// A duration in nanoseconds.
    TimeNs(Nanos),
    /// A share of one.
    Share(Share),
    /// One of a knob's words.
    Choice(String),
    /// A page size.
    Page(PageSize),
    /// Free text.
    Text(String),
    /// `true` or `false`.
    Switch(bool),
    /// A list of words.
    Words(Vec<String>),
    /// An external program, as its study describes it.
    Program(Box<Program>),
    /// A value of a workload's own section, as TOML writes it.
    Literal(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count(n) => n.fmt(f),
            Value::SizeBytes(size) => size.fmt(f),
            Value::TimeNs(time) => time.fmt(f),
            Value::Share(share) => share.fmt(f),
            Value::Choice(word) | Value::Text(word) => word.fmt(f),
            Value::Page(page) => page.fmt(f),
            Value::Switch(on) => on.fmt(f),
            Value::Words(words) => words.join(" ").fmt(f),
            Value::Program(program) if program.name.is_empty() => f.write_str(&program.argv.join(" ")),
            Value::Program(program) => f.write_str(&program.name),
            Value::Literal(text) => match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
                Some(inner) if !inner.contains(['"', '\\']) => f.write_str(inner),
                _ => f.write_str(text),
            },
        }
    }
}

/// A default, as a person would type it in a study file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// The study must say it.
    Required,
    /// Taken when the study does not say it.
    Typed(&'static str),
    /// Found from the machine or from other keys when the study does not say it; the text says how.
    Derived(&'static str),
}

/// One row of a table: a key that a study may set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knob {
    /// The key as typed.
    pub key: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What is taken when it is absent.
    pub default: Default,
    /// One sentence for people.
    pub help: &'static str,
}

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Throughputs.
    Higher,
    /// Times and costs.
    Lower,
}

/// How the members of an ensemble join in a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregate {
    /// Their values are added: rates of separate work, each at its own best moment.
    Sum,
    /// The mean of their values: costs, and rates that are per process by definition.
    Mean,
    /// The largest of their values: worst cases.
    Most,
    /// What all did over the time from the first start to the last end. For rates of one member that are defined so
    /// too: an amount / the time from the member's first start to its last end.
    Window,
}

impl Aggregate {
    /// The rule in words, shown next to the members' own figures.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Aggregate::Sum => "sum",
            Aggregate::Mean => "mean",
            Aggregate::Most => "largest",
            Aggregate::Window => "at the same time",
        }
    }
}

/// One row of a workload's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The key in samples and studies.
    pub key: &'static str,
    /// The unit, as printed.
    pub unit: &'static str,
    /// Which way is better.
    pub better: Better,
    /// How the members of an ensemble join in it.
    pub together: Aggregate,
    /// One sentence for people: formula and source.
    pub help: &'static str,
}

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
