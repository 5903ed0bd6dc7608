//! What a run examines when its comparison is over: programs in containers and sandboxes against native, in runs of their own that are part of no ratio.
//!
//! A container's program runs on the same kernel as natively, and no hypervisor counts what it does. So the system calls of a run are counted by number at the
//! kernel's tracepoint, where that is permitted, and a call and a page fault are timed at each site; what withheld CPU time is known of each side alone.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The runs of all pairs that were examined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SecondLook {
    /// By pair.
    pub pairs: Vec<ExaminedPair>,
}

/// The runs of one pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExaminedPair {
    /// Its place among the plan's pairs.
    pub pair: usize,
    /// The denominator and the numerator of each block, in the order measured; none where they would have taken too long, or failed.
    pub blocks: Vec<[ExaminedSide; 2]>,
    /// What was not examined, and why.
    pub absent: Vec<Unexamined>,
}

/// What was not examined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unexamined {
    /// What.
    pub what: String,
    /// Why, with the remedy where there is one.
    pub reason: String,
}

/// Runs of a program at one site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExaminedSide {
    /// Nanoseconds of the system call that does least, at this site.
    pub call_ns: f64,
    /// Nanoseconds of a page fault without a disk at this site; `None` where none could be timed.
    pub fault_ns: Option<f64>,
    /// Runs of the program.
    pub runs: u64,
    /// System calls of all runs, by number, those of the supervisor that starts the program included; `None` where they were not counted.
    pub calls: Option<BTreeMap<u32, u64>>,
    /// Page faults of a run.
    pub page_faults: Option<f64>,
    /// CPU time of a run in seconds.
    pub cpu_s: Option<f64>,
    /// The share of its CPU time that a quota withheld, of what was used and what was withheld; `None` where the kernel does not count it.
    pub throttled: Option<f64>,
}

impl ExaminedSide {
    /// System calls of a run.
    #[must_use]
    pub fn calls_of_a_run(&self) -> Option<f64> {
        // Of a stranger's document the sum may be above what a u64 holds.
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
        let (all, runs) =
            (self.calls.as_ref()?.values().map(|&count| count as f64).sum::<f64>(), self.runs.max(1) as f64);
        Some(all / runs)
    }

    /// Seconds of a run that its calls would take if each took what the least takes.
    #[must_use]
    pub fn in_calls_s(&self) -> Option<f64> {
        Some(1e-9 * self.call_ns * self.calls_of_a_run()?)
    }

    /// Seconds of a run in page faults.
    #[must_use]
    pub fn in_faults_s(&self) -> Option<f64> {
        Some(1e-9 * self.fault_ns? * self.page_faults?)
    }

    /// Seconds by which a quota lengthened a run.
    #[must_use]
    pub fn throttled_s(&self) -> Option<f64> {
        let share = self.throttled.filter(|share| (0.0..1.0).contains(share))?;
        Some(self.cpu_s? * share / (1.0 - share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_stranger_do_not_overflow() {
        let calls = Some(BTreeMap::from([(0, u64::MAX), (1, u64::MAX)]));
        let side = ExaminedSide {
            call_ns: 100.0,
            fault_ns: None,
            runs: 0,
            calls,
            page_faults: None,
            cpu_s: None,
            throttled: None,
        };
        assert_eq!(side.calls_of_a_run(), Some(2.0_f64.powi(65)));
    }
}
