//! The seam of observers: system activity.
//!
//! An observer reads counters and levels; growth, rates and series are made of its readings by whoever asks for them. It
//! never fails a trial: what cannot be read is absent, with its reason.

use crate::knob::{Default, Kind, Knob};
use crate::quantity::Quantity;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// Something that cannot be observed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[error("{observer} is absent: {reason}")]
pub struct Absence {
    /// Which observer, or part of one.
    pub observer: String,
    /// Why, with the remedy where there is one.
    pub reason: String,
}

impl Absence {
    /// Of that observer, for that reason.
    pub fn new(observer: &str, reason: impl Into<String>) -> Self {
        Absence { observer: observer.to_owned(), reason: reason.into() }
    }
}

/// One value, as read.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Of what.
    pub quantity: &'static Quantity,
    /// Of which of many; empty where there is one.
    pub instance: String,
    /// The count, in the kernel's unit.
    pub count: u64,
    /// Whether the whole machine's value is the sum over such instances. A disk that lies on others, or an interface whose
    /// packets another one carries, would count twice.
    pub part: bool,
}

/// What one reading of an observer gave.
#[derive(Debug, std::default::Default)]
pub struct Readings {
    /// In the order read.
    pub values: Vec<Reading>,
}

impl Readings {
    /// Adds a value of the whole machine.
    pub fn whole(&mut self, quantity: &'static Quantity, count: u64) {
        self.values.push(Reading { quantity, instance: String::new(), count, part: false });
    }

    /// Adds an instance's value that is part of the machine's.
    pub fn part(&mut self, quantity: &'static Quantity, instance: &str, count: u64) {
        self.values.push(Reading { quantity, instance: instance.to_owned(), count, part: true });
    }

    /// Adds an instance's value that is not a part of the machine's.
    pub fn beside(&mut self, quantity: &'static Quantity, instance: &str, count: u64) {
        self.values.push(Reading { quantity, instance: instance.to_owned(), count, part: false });
    }
}

/// How dear a reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// A few short files: may be read between two phases.
    Low,
    /// Grows with CPUs times sources: read at the ends of a trial and for series.
    High,
}

/// Something that reads counters and levels.
pub trait Observer: Send {
    /// How dear a reading is.
    fn price(&self) -> Price {
        Price::Low
    }

    /// Makes it ready to read.
    ///
    /// # Errors
    /// What it cannot read here, and why; it is not read then.
    fn start(&mut self) -> Result<(), Absence>;

    /// Reads. What was read before an error counts.
    ///
    /// # Errors
    /// What cannot be read any more, and why; it is not read again.
    fn read(&mut self, into: &mut Readings) -> Result<(), Absence>;

    /// What of it is absent while the rest is read.
    fn lacks(&self) -> Vec<Absence> {
        Vec::new()
    }

    /// Gives back what it holds; it may be started again.
    fn stop(&mut self) {}
}

/// The observer that lists every connection of the machine at each reading.
pub const SOCKETS: &str = "sockets";

/// Every observer, by its name in studies.
pub const OBSERVERS: &[&str] = &[
    "cpu",
    "kernel",
    "interrupts",
    "disk",
    "network",
    SOCKETS,
    "memory",
    "paging",
    "numa",
    "pressure",
    "kvm",
    "counters",
    "io-histograms",
    "net-stats",
    "lost",
    "null",
];

/// What is observed where the study does not say it: what costs little and disturbs nothing.
pub const USUAL: &[&str] =
    &["cpu", "kernel", "interrupts", "disk", "network", SOCKETS, "memory", "paging", "numa", "pressure", "kvm"];

const MILLISECOND: u64 = 1_000_000;

/// Keys of `[observe]`; each may also be a list where it says so.
pub const OBSERVE: &[Knob] = &[
    Knob::new("interval", Kind::Time { min: 100 * MILLISECOND, max: 3_600_000 * MILLISECOND }, Default::Typed("1 s"))
        .help("the time between two points of a series; readings between phases are made besides"),
    Knob::new(
        "which",
        Kind::Choice(OBSERVERS),
        Default::Derived("all but counters, io-histograms, net-stats, lost and null; of kernels without sockets"),
    )
    .help("one observer or a list of them; null reads nothing and shows the cost of observing"),
    Knob::new("per_cpu", Kind::Switch, Default::Typed("false"))
        .help("whether series hold every CPU's states in addition to the machine's"),
];

/// What is to be observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ObserveSpec {
    /// The time between two points of a series.
    #[serde(rename = "interval_ns")]
    pub interval: Nanos,
    /// The observers, by name.
    pub which: Vec<String>,
    /// Whether series hold every CPU's states.
    #[serde(default)]
    pub per_cpu: bool,
}

impl std::default::Default for ObserveSpec {
    fn default() -> Self {
        let which = USUAL.iter().map(|&name| name.to_owned()).collect();
        ObserveSpec { interval: Nanos(1000 * MILLISECOND), which, per_cpu: false }
    }
}
