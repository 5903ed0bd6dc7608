//! System calls by number, of one process's descendants.
//!
//! Whose calls are counted cannot be named from outside: the process has another number inside its namespace, and a container's is a child of its engine. So it
//! identifies itself, by calls of `getppid`, which takes no argument, with an argument that was drawn for it ([`identify`](baremark_sys::paging::identify)):
//! [`CallTrace::choose`] takes the process that made them, and from then on what it starts is counted, and what that starts. Its own calls are not.

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
    /// Attaches the programs; processes that identify themselves by this argument are noted from now on.
    ///
    /// # Errors
    /// Where this kernel or user cannot, with the reason; nothing is attached then.
    pub fn start(argument: u32) -> Result<Self, TraceError> {
        let kernel = Btf::of_kernel()?;
        let (group, register) = (kernel.place("task_struct", "tgid")?, kernel.place("pt_regs", "di")?);
        let maps = Maps::new()?;
        let loaded = [
            ("call_fork", "sched_process_fork", programs::fork(&maps, group)),
            ("call_enter", "sys_enter", programs::enter(&maps, register, argument)),
        ];
        let loaded = loaded.into_iter().map(|(name, event, code)| Ok((load(name, code)?, event)));
        let loaded = loaded.collect::<Result<Vec<_>, TraceError>>()?;
        let links = loaded.iter().map(|(program, event)| attach(program, event)).collect::<Result<_, _>>()?;
        let programs = loaded.into_iter().map(|(program, _)| program).collect();
        Ok(CallTrace { maps, _programs: programs, _links: links })
    }

    /// Chooses the process that has identified itself; `None` where none has. What it starts from now on is counted.
    ///
    /// # Errors
    /// Where several have, and where a map cannot be read or written.
    pub fn choose(&self) -> Result<Option<u32>, TraceError> {
        let Some(process) = the_only(&self.maps.marks.keys().map_err(map_error("marks"))?)? else { return Ok(None) };
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

/// The process that has identified itself; `None` where none has.
fn the_only(marked: &[Vec<u8>]) -> Result<Option<u32>, TraceError> {
    match marked {
        [] => Ok(None),
        [one] => Ok(one.as_slice().try_into().ok().map(u32::from_ne_bytes)),
        _ => Err(TraceError::Several),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two agents that identified themselves alike the calls of one would have been counted as those of the other.
    #[test]
    fn of_two_processes_that_identify_themselves_alike_none_is_chosen() {
        let key = |process: u32| process.to_ne_bytes().to_vec();
        assert_eq!(the_only(&[]).ok(), Some(None));
        assert_eq!(the_only(&[key(8)]).ok(), Some(Some(8)));
        let two = the_only(&[key(7), key(8)]);
        assert!(matches!(two, Err(TraceError::Several)), "{two:?}");
    }
}
