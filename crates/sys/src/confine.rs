//! How a child process is held: whom it dies with, who it is, which CPUs, how much memory and how many files it may have.
//!
//! Everything is settled between fork and exec, so that not one instruction of the child's program runs outside its limits.
//! Memory is held by a control group where one can be made (version 2, else 1), which counts what is resident; elsewhere by
//! the limit on the address space, which is cruder. [`Held`] says which.

use crate::affinity;
use crate::calls::checked;
use crate::control_group::{self, Controller, Own, Parent, Version};
use crate::process;
/// Signals by their names, for [`hold`] and [`send`].
pub use libc::{SIGKILL, SIGTERM};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// What a child may have. The default is what its parent has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The CPUs on which it may run; empty leaves it all of its parent's.
    pub cpus: Vec<usize>,
    /// The most memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// The most open files.
    pub open_files: Option<u64>,
}

/// What holds a child's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// Nothing.
    None,
    /// A control group: resident memory and page cache of the child and all that it starts.
    ControlGroup,
    /// `RLIMIT_AS`: the address space of each process by itself.
    AddressSpace,
    /// The memory of the machine that it runs in, a guest's.
    Machine,
}

impl MemoryLimit {
    /// In words.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            MemoryLimit::None => "none",
            MemoryLimit::ControlGroup => "control group",
            MemoryLimit::AddressSpace => "address space",
            MemoryLimit::Machine => "guest",
        }
    }

    /// The limit of that label.
    #[must_use]
    pub fn of_label(label: &str) -> Option<MemoryLimit> {
        let all = [MemoryLimit::None, MemoryLimit::ControlGroup, MemoryLimit::AddressSpace, MemoryLimit::Machine];
        all.into_iter().find(|limit| limit.label() == label)
    }
}

/// What was made for a child. Its control group goes when this is dropped, and what the child has left in it.
#[derive(Debug)]
pub struct Held {
    /// What holds its memory.
    pub memory: MemoryLimit,
    _group: Option<MemoryGroup>,
    _procs: Option<File>,
}

/// How names of groups with a limit begin.
pub const PREFIX: &str = "baremark-memory-";
/// Whether this process has made the kernel offer memory to groups. Whoever makes a group or takes the offer back has the lock: a group that is
/// not limited yet would not be seen to need it.
static OFFERED: Mutex<bool> = Mutex::new(false);

/// A control group with a limit on memory.
#[derive(Debug)]
struct MemoryGroup {
    parent: Parent,
    own: Option<Own>,
}

impl MemoryGroup {
    /// The first that can be made; `None` where this process has the right to none. Whatever else prevents one is an error: a limit of another
    /// kind in its place would be a different experiment.
    fn new(bytes: u64) -> io::Result<Option<MemoryGroup>> {
        let parents = control_group::parents(Controller::Memory).into_iter();
        MemoryGroup::first(parents.filter(|parent| parent.takes(Controller::Memory)), bytes)
    }

    fn first(parents: impl Iterator<Item = Parent>, bytes: u64) -> io::Result<Option<MemoryGroup>> {
        for parent in parents {
            let path = parent.path.clone();
            match MemoryGroup::below(parent, bytes) {
                Ok(group) => return Ok(Some(group)),
                Err(why) if is_not_allowed(&why) => {}
                Err(why) => {
                    let what = format!("limiting memory by a control group in {}: {why}", path.display());
                    return Err(io::Error::new(why.kind(), what));
                }
            }
        }
        Ok(None)
    }

    fn below(parent: Parent, bytes: u64) -> io::Result<MemoryGroup> {
        let mut offered = OFFERED.lock().unwrap_or_else(PoisonError::into_inner);
        let own = Own::new(&parent.path, PREFIX, !parent.offers(Controller::Memory))?;
        *offered |= parent.offer(Controller::Memory)?;
        limit_memory(own.path(), parent.version, bytes)?;
        Ok(MemoryGroup { parent, own: Some(own) })
    }

    /// The file by which a process joins it.
    fn processes(&self) -> io::Result<File> {
        let group = self.own.as_ref().ok_or(io::ErrorKind::NotFound)?;
        File::options().write(true).open(group.path().join("cgroup.procs"))
    }
}

/// Whether a machine or its administrator does not let this process limit memory so.
fn is_not_allowed(why: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem, ResourceBusy, Unsupported};
    matches!(why.kind(), NotFound | PermissionDenied | ReadOnlyFilesystem | ResourceBusy | Unsupported)
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        drop(self.own.take());
        let mut offered = OFFERED.lock().unwrap_or_else(PoisonError::into_inner);
        if *offered && self.parent.withdraw(Controller::Memory).is_ok_and(|withdrawn| withdrawn) {
            *offered = false;
        }
    }
}

fn limit_memory(group: &Path, version: Version, bytes: u64) -> io::Result<()> {
    let bytes = bytes.to_string();
    if version == Version::One {
        return control_group::set(&group.join("memory.limit_in_bytes"), &bytes);
    }
    control_group::set(&group.join("memory.max"), &bytes)?;
    // Pages that are swapped out would not count; without swap there is no such file.
    match control_group::set(&group.join("memory.swap.max"), "0") {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}

/// Prepares `command`: the child gets `death_signal` (0 is none) when the thread that starts it ends, the limits, and a process group
/// of its own, so that an interrupt typed at a terminal does not reach it.
///
/// # Errors
/// `InvalidInput` for a CPU that cannot be; else what making, recording and opening a control group gave.
pub fn hold(command: &mut Command, limits: &Limits, death_signal: i32) -> io::Result<Held> {
    let group = limits.memory_bytes.map(MemoryGroup::new).transpose()?.flatten();
    hold_in(command, limits, death_signal, group)
}

/// The same in a group that holds the memory; without one the address space is limited.
fn hold_in(command: &mut Command, limits: &Limits, death_signal: i32, group: Option<MemoryGroup>) -> io::Result<Held> {
    let cpus = (!limits.cpus.is_empty()).then(|| affinity::set_of(&limits.cpus)).transpose()?;
    let procs = group.as_ref().map(MemoryGroup::processes).transpose()?;
    let memory = match (&group, limits.memory_bytes) {
        (Some(_), _) => MemoryLimit::ControlGroup,
        (None, Some(_)) => MemoryLimit::AddressSpace,
        (None, None) => MemoryLimit::None,
    };
    let address_space = limits.memory_bytes.filter(|_| memory == MemoryLimit::AddressSpace);
    let open_files = limits.open_files;
    let group_file: Option<RawFd> = procs.as_ref().map(AsRawFd::as_raw_fd);
    let parent = std::process::id();
    command.process_group(0);
    let settle = move || {
        if let Some(procs) = group_file {
            join_group(procs)?;
        }
        if let Some(set) = &cpus {
            affinity::restrict(affinity::THIS_THREAD, set)?;
        }
        if let Some(bytes) = address_space {
            limit(libc::RLIMIT_AS, bytes)?;
        }
        if let Some(files) = open_files {
            limit(libc::RLIMIT_NOFILE, files)?;
        }
        process::die_with(parent, death_signal)
    };
    // SAFETY: between fork and exec only async-signal-safe functions may run; `settle` makes system calls and errors from
    // numbers, which allocate nothing.
    unsafe { command.pre_exec(settle) };
    Ok(Held { memory, _group: group, _procs: procs })
}

fn limit(what: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: an rlimit that lives through the call.
    checked(unsafe { libc::setrlimit(what, &raw const limit) }).map(drop)
}

fn join_group(procs: RawFd) -> io::Result<()> {
    // SAFETY: one byte of a constant; the descriptor is kept open by `Held` in the parent until the child has started.
    if unsafe { libc::write(procs, c"0".as_ptr().cast(), 1) } == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends `signal` to a process, or to a process group when `pid` is negative. One that is gone is not an error.
///
/// # Errors
/// What `kill(2)` gives.
pub fn send(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers and touches no memory.
    match checked(unsafe { libc::kill(pid, signal) }) {
        Err(why) if why.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other.map(drop),
    }
}

/// Makes `path` the user's and the group's.
///
/// # Errors
/// What `chown(2)` gives.
pub fn give_to(path: &Path, (user, group): (u32, u32)) -> io::Result<()> {
    std::os::unix::fs::chown(path, Some(user), Some(group))
}

/// Numbers of a user and its first group in `/etc/passwd`; `None` without such a user.
#[must_use]
pub fn user(name: &str) -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next()? == name;
        let (user, group) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        found.then_some((user, group))
    })
}

/// Makes this process another user's for good, in no group but that one. It gets the signal of its parent's death as before.
///
/// # Errors
/// What the system gives: `InvalidInput` in a namespace that has no such user or group. The process is to end then: its group may be the other's already.
pub fn become_user((user, group): (u32, u32)) -> io::Result<()> {
    let (mut signal, parent) = (0, std::os::unix::process::parent_id());
    // SAFETY: the kernel writes one number, for which there is room.
    checked(unsafe { libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut signal) })?;
    // SAFETY: numbers alone; the C library does it in every thread of this process.
    checked(unsafe { libc::setresgid(group, group, group) })?;
    // SAFETY: of an empty list nothing is read.
    checked(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: numbers alone. It is the last: it takes the rights that the other two need.
    checked(unsafe { libc::setresuid(user, user, user) })?;
    // The kernel forgets the signal where the user changes (prctl(2)).
    process::die_with(parent, signal)
}

/// The user by whose rights this process acts.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: takes nothing, touches nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether this process is the superuser's.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_the_cpus_and_files_that_it_was_given() {
        let cpu = crate::affinity::allowed_cpus().expect("affinity")[0];
        let limits = Limits { cpus: vec![cpu], open_files: Some(77), ..Limits::default() };
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n; grep Cpus_allowed_list /proc/self/status"]);
        let _held = hold(&mut command, &limits, libc::SIGKILL).expect("limits that can be");
        let said = String::from_utf8(command.output().expect("sh runs").stdout).expect("text");
        assert_eq!(said, format!("77\nCpus_allowed_list:\t{cpu}\n"));
    }

    /// Where no control group can be made; those are tried in tests/kernel.
    #[test]
    fn too_much_memory_is_refused_by_the_limit_on_the_address_space() {
        let limits = Limits { memory_bytes: Some(64 << 20), ..Limits::default() };
        let mut command = Command::new("sh");
        // tail keeps a line that never ends.
        command.args(["-c", "head -c 400000000 /dev/zero | tail -c 399999999 > /dev/null"]);
        let held = hold_in(&mut command, &limits, libc::SIGKILL, None).expect("limits that can be");
        assert_eq!(held.memory, MemoryLimit::AddressSpace);
        let output = command.output().expect("sh runs");
        assert!(!output.status.success(), "{output:?}");
    }

    #[test]
    fn a_group_that_fails_for_another_reason_than_a_missing_right_is_an_error_and_no_other_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let parent = |path: &Path| Parent { path: path.to_owned(), version: Version::One };
        let file = folder.path().join("file");
        fs::write(&file, "x").expect("ours");
        // No group can be made in a file (ENOTDIR); one that has no limit to set is not allowed to have one (ENOENT), and is removed.
        let why = MemoryGroup::first([parent(&file)].into_iter(), 1 << 20).expect_err("not a folder").to_string();
        assert!(why.contains(&format!("limiting memory by a control group in {}", file.display())), "{why}");
        let none = MemoryGroup::first([parent(folder.path())].into_iter(), 1 << 20).expect("no error");
        assert!(none.is_none() && fs::read_dir(folder.path()).expect("ours").count() == 1);
    }

    #[test]
    fn the_superuser_has_number_zero() {
        assert_eq!(user("root"), Some((0, 0)));
        assert_eq!(user("nobody-by-that-name"), None);
    }
}
