//! Who made a change, and whether that process still lives.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;

/// A process, so that no later one with its number is taken for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// Identity of the boot, from /proc/sys/kernel/random/boot_id.
    pub boot: String,
    /// The process's number.
    pub pid: u32,
    /// Its start, in clock ticks since the boot (field 22 of /proc/PID/stat).
    pub start: u64,
    /// The PID namespace in which `pid` counts, as /proc/self/ns/pid names it.
    pub pid_namespace: String,
}

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs, or cannot be seen from this PID namespace and is taken to run.
    Alive,
    /// It has ended since this boot.
    Dead,
    /// The machine has booted since.
    OtherBoot,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// What reading /proc gives.
    pub fn this() -> io::Result<Owner> {
        let pid = std::process::id();
        let start = start_of(pid)?.ok_or_else(|| io::Error::other("/proc/self/stat has no start time"))?;
        Ok(Owner { boot: boot()?, pid, start, pid_namespace: pid_namespace()? })
    }

    /// Whether it lives, seen from `this`. A process that has ended and was not waited for counts as dead: it undoes nothing.
    #[must_use]
    pub fn life(&self, this: &Owner) -> Life {
        if self.boot != this.boot {
            return Life::OtherBoot;
        }
        if self.pid_namespace != this.pid_namespace {
            return Life::Alive;
        }
        match start_of(self.pid) {
            Ok(Some(start)) if start == self.start => Life::Alive,
            Ok(_) => Life::Dead,
            // Not readable is not dead.
            Err(why) if why.kind() != io::ErrorKind::NotFound => Life::Alive,
            Err(_) => Life::Dead,
        }
    }
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn pid_namespace() -> io::Result<String> {
    Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

/// The start of a process that runs; `None` when it has ended and waits to be waited for.
fn start_of(pid: u32) -> io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // Between opening and reading the process may end: ESRCH.
        Err(why) if why.raw_os_error() == Some(3) => return Ok(None),
        read => read?,
    };
    Ok(parse(&stat))
}

fn parse(stat: &str) -> Option<u64> {
    // The name may hold blanks and brackets itself.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_lives_until_it_ends_even_before_it_is_waited_for() {
        let this = Owner::this().expect("/proc");
        assert_eq!(this.life(&this), Life::Alive);
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep runs");
        let start = start_of(child.id()).expect("/proc").expect("it runs");
        let owner = Owner { pid: child.id(), start, ..this.clone() };
        assert_eq!(owner.life(&this), Life::Alive);
        assert_eq!(Owner { start: start + 1, ..owner.clone() }.life(&this), Life::Dead, "a later one with its number");
        assert_eq!(Owner { boot: "another".to_owned(), ..owner.clone() }.life(&this), Life::OtherBoot);
        child.kill().expect("it is ours");
        while start_of(child.id()).expect("not waited for").is_some() {
            std::thread::yield_now();
        }
        assert_eq!(owner.life(&this), Life::Dead, "ended, not waited for");
        child.wait().expect("it has ended");
        assert_eq!(owner.life(&this), Life::Dead);
    }

    #[test]
    fn a_name_with_brackets_is_read() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 10 0 0 0 3 4 5 6 20 0 1 0 100 1000 25";
        assert_eq!((parse(stat), parse(&stat.replace(") S", ") Z")), parse("")), (Some(100), None, None));
    }
}
