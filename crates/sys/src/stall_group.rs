//! How long the processes of a program stall for lack of CPU, memory and I/O: pressure (PSI) of a control group of its own.
//!
//! The kernel counts stalls for every group of version 2, whichever controllers it has, also where these are in groups of
//! version 1. A program that is in a group of ours already, because of a limit on its memory, is counted by that.

use crate::control_group::{self, Own, group_of};
use std::fs;
use std::path::PathBuf;

/// How names of groups begin.
pub const PREFIX: &str = "baremark-stalls-";

/// Time in which at least one thread stalled, in us, since the group was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// For lack of a CPU.
    pub cpu_us: u64,
    /// For lack of memory.
    pub memory_us: u64,
    /// For I/O.
    pub io_us: u64,
}

/// A control group that counts the stalls of a process and of all that it starts.
#[derive(Debug)]
pub struct StallGroup {
    path: PathBuf,
    /// It goes when this is dropped, which must be after its processes.
    _own: Option<Own>,
}

impl StallGroup {
    /// Counts the stalls of a process that has started nothing yet; `None` where the kernel counts none, or the group cannot be made.
    #[must_use]
    pub fn of(pid: u32) -> Option<StallGroup> {
        let mount = control_group::unified()?;
        let (is_in, ours) = (group_of(pid)?, group_of(std::process::id())?);
        if is_in != ours && is_in.rsplit('/').next().is_some_and(|name| name.starts_with("baremark-")) {
            let path = mount.join(is_in.trim_start_matches('/'));
            return path.join("io.pressure").is_file().then_some(StallGroup { path, _own: None });
        }
        let parent = mount.join(ours.trim_start_matches('/'));
        // Removed again where it counts nothing or takes no process.
        let own = Own::new(&parent, PREFIX, false).ok()?;
        let path = own.path().to_owned();
        let counts = path.join("io.pressure").is_file();
        let joined = counts && fs::write(path.join("cgroup.procs"), pid.to_string()).is_ok();
        joined.then_some(StallGroup { path, _own: Some(own) })
    }

    /// What was counted so far; `None` where it cannot be read.
    #[must_use]
    pub fn stalls(&self) -> Option<Stalls> {
        let total = |name: &str| some_total(&fs::read_to_string(self.path.join(name)).ok()?);
        Some(Stalls {
            cpu_us: total("cpu.pressure")?,
            memory_us: total("memory.pressure")?,
            io_us: total("io.pressure")?,
        })
    }
}

/// `total` of the line `some`.
fn some_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_whitespace().find_map(|field| field.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_those_of_some_threads() {
        let text = "some avg10=93.60 avg60=91.33 avg300=90.35 total=23188037014\nfull avg10=0.00 total=7\n";
        assert_eq!(some_total(text), Some(23_188_037_014));
        assert_eq!(some_total("full avg10=0.00 total=7\n"), None);
    }
}
