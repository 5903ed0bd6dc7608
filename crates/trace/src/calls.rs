//! System calls by number, of one process's descendants.
//!
//! Whose calls are counted cannot be named from outside: the process has another number inside its namespace, and a container's is a child of its engine. So it
//! identifies itself, by making more calls of `getppid` than anybody else does: [`CallTrace::choose`] takes the process that made them, and from then on what it
//! starts is counted, and what that starts. Its own calls are not.

mod maps;
mod programs;

pub use maps::NUMBERS;

use crate::btf::Btf;
use crate::error::{TraceError, attach, load, map_error};
use baremark_sys::bpf::{Link, Program};
use maps::Maps;
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

    /// Chooses the process that made most calls of `getppid`; `None` where none has made `least`. What it starts from now on is counted.
    ///
    /// # Errors
    /// Where a map cannot be read or written.
    pub fn choose(&self, least: u64) -> Result<Option<u32>, TraceError> {
        let mut most: Option<(u64, u32)> = None;
        let mut count = [0; 8];
        for key in self.maps.marks.keys().map_err(map_error("marks"))? {
            let there = self.maps.marks.lookup(&key, &mut count).map_err(map_error("marks"))?;
            let process = key.as_slice().try_into().map_or(0, u32::from_ne_bytes);
            let made = u64::from_ne_bytes(count);
            if there && made >= least && most.is_none_or(|(of, _)| made > of) {
                most = Some((made, process));
            }
        }
        let Some((_, process)) = most else { return Ok(None) };
        self.maps.members.update(&process.to_ne_bytes(), &[0; 8]).map_err(map_error("members"))?;
        Ok(Some(process))
    }

    /// What was counted until now, by number; those without a call are left out.
    ///
    /// # Errors
    /// Where a map cannot be read.
    pub fn counts(&self) -> Result<BTreeMap<u32, u64>, TraceError> {
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
