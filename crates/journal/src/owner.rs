//! Who made a change, and whether that process still lives.
//!
//! An owner holds its file of records locked (`fcntl(2)`), and the kernel lets go of the lock when the owner ends, however it ends. So whether it
//! lives does not depend on process numbers, clocks or namespaces, nor on copies of it: one that fork(2) made lives on until it has executed
//! its program, and one that has a life of its own has changes of its own.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;

/// A process, as its records name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// Identity of the boot, from /proc/sys/kernel/random/boot_id.
    pub boot: String,
    /// Identity of the machine, from /etc/machine-id; `None` where it has none.
    pub machine: Option<String>,
    /// The process's number, for messages.
    pub pid: u32,
}

/// Where an owner ran whose lock is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Here, since this boot.
    ThisBoot,
    /// Here, before this boot.
    OtherBoot,
    /// On another machine that has the same folder: what it left is there.
    OtherMachine,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// What reading /proc gives.
    pub fn this() -> io::Result<Owner> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let machine = fs::read_to_string("/etc/machine-id").ok().map(|id| id.trim().to_owned());
        Ok(Owner { boot, machine: machine.filter(|id| !id.is_empty()), pid: std::process::id() })
    }

    /// Where it has ended, seen from `this`.
    #[must_use]
    pub fn ended(&self, this: &Owner) -> Ended {
        match (&self.machine, &this.machine) {
            _ if self.boot == this.boot => Ended::ThisBoot,
            (Some(there), Some(here)) if there != here => Ended::OtherMachine,
            _ => Ended::OtherBoot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_ended_here_before_a_boot_or_on_another_machine() {
        let of = |boot: &str, machine: Option<&str>| Owner {
            boot: boot.to_owned(),
            machine: machine.map(str::to_owned),
            pid: 7,
        };
        let this = of("now", Some("here"));
        for (owner, ended) in [
            (of("now", Some("here")), Ended::ThisBoot),
            // A container has the boot of its host and an identity of its own.
            (of("now", Some("there")), Ended::ThisBoot),
            (of("before", Some("here")), Ended::OtherBoot),
            (of("before", None), Ended::OtherBoot),
            (of("before", Some("there")), Ended::OtherMachine),
        ] {
            assert_eq!(owner.ended(&this), ended, "{owner:?}");
        }
        assert_eq!(Owner::this().expect("/proc").pid, std::process::id());
    }
}
