//! System calls by number, of one process's descendants.
//!
//! Whose calls are counted cannot be named from outside: the process has another number inside its namespace, and a container's is a child of its engine. So it
//! identifies itself, by many calls of `getppid`, which nobody else makes meanwhile: [`CallTrace::choose`] takes the process that made them, and from then on what it
//! starts is counted, and what that starts. Its own calls are not.

mod maps;
mod programs;

pub use maps::NUMBERS;

use crate::btf::Btf;
use crate::error::{TraceError, attach, load, map_error};
use baremark_sys::bpf::{Link, Program};
use maps::{MOST_PROCESSES, Maps};
use std::collections::BTreeMap;

/// Programs at work. Dropped, they are gone.
#[derive(Debug)]
pub struct CallTrace {
    maps: Maps,
    _programs: Vec<Program>,
    _links: Vec<Link>,
}

impl CallTrace {
    /// Attaches the programs; calls of `getppid` are counted from now on.
    ///
    /// # Errors
    /// Where this kernel or user cannot, with the reason; nothing is attached then.
    pub fn start() -> Result<Self, TraceError> {
        let group = Btf::of_kernel()?.place("task_struct", "tgid")?;
        let maps = Maps::new()?;
        let loaded = [
            ("call_fork", "sched_process_fork", programs::fork(&maps, group)),
            ("call_enter", "sys_enter", programs::enter(&maps)),
        ];
        let loaded = loaded.into_iter().map(|(name, event, code)| Ok((load(name, code)?, event)));
        let loaded = loaded.collect::<Result<Vec<_>, TraceError>>()?;
        let links = loaded.iter().map(|(program, event)| attach(program, event)).collect::<Result<_, _>>()?;
        let programs = loaded.into_iter().map(|(program, _)| program).collect();
        Ok(CallTrace { maps, _programs: programs, _links: links })
    }

    /// Chooses the process that made `least` calls of `getppid`; `None` where none has. What it starts from now on is counted.
    ///
    /// # Errors
    /// Where several have, and where a map cannot be read or written.
    pub fn choose(&self, least: u64) -> Result<Option<u32>, TraceError> {
        let mut made = Vec::new();
        let mut count = [0; 8];
        for key in self.maps.marks.keys().map_err(map_error("marks"))? {
            let there = self.maps.marks.lookup(&key, &mut count).map_err(map_error("marks"))?;
            let process = key.as_slice().try_into().map_or(0, u32::from_ne_bytes);
            if there {
                made.push((process, u64::from_ne_bytes(count)));
            }
        }
        let Some(process) = identified(&made, least)? else { return Ok(None) };
        self.maps.members.update(&process.to_ne_bytes(), &[0; 8]).map_err(map_error("members"))?;
        Ok(Some(process))
    }

    /// What was counted until now, by number; those without a call are left out.
    ///
    /// # Errors
    /// Where a map cannot be read, and where so many processes were started that some may be missing or have the number of one that ended.
    pub fn counts(&self) -> Result<BTreeMap<u32, u64>, TraceError> {
        let most = MOST_PROCESSES as usize / 2;
        if self.maps.members.keys().map_err(map_error("members"))?.len() > most {
            return Err(TraceError::TooManyProcesses(most));
        }
        let mut counts = BTreeMap::new();
        let mut count = [0; 8];
        for number in 0..NUMBERS {
            self.maps.calls.lookup(&number.to_ne_bytes(), &mut count).map_err(map_error("calls"))?;
            if count != [0; 8] {
                counts.insert(number, u64::from_ne_bytes(count));
            }
        }
        Ok(counts)
    }
}

/// The one of these processes that made at least so many calls; `None` where none did.
fn identified(made: &[(u32, u64)], least: u64) -> Result<Option<u32>, TraceError> {
    let mut those = made.iter().filter(|(_, calls)| *calls >= least).map(|(process, _)| *process);
    match (those.next(), those.next()) {
        (Some(_), Some(_)) => Err(TraceError::Several),
        (one, _) => Ok(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two agents that identified themselves at once the calls of the one with more would have been counted as those of both.
    #[test]
    fn of_two_processes_that_identify_themselves_none_is_chosen() {
        assert_eq!(identified(&[(7, 3), (8, 100), (9, 99)], 100).ok(), Some(Some(8)));
        assert_eq!(identified(&[(7, 3)], 100).ok(), Some(None));
        let two = identified(&[(7, 100), (8, 250)], 100);
        assert!(matches!(two, Err(TraceError::Several)), "{two:?}");
    }
}
