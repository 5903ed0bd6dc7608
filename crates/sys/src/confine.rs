//! How a child process is held: whom it dies with, who it is, which CPUs, how much memory and how many files it may have.
//!
//! Everything is settled between fork and exec, so that not one instruction of the child's program runs outside its limits.
//! Memory is held by a control group where one can be made (version 1 or 2), which counts what is resident; elsewhere by
//! the limit on the address space, which is cruder. [`Held`] says which.

use crate::affinity;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// What was made for a child; its control group goes when this is dropped, after the child.
#[derive(Debug)]
pub struct Held {
    /// What holds its memory.
    pub memory: MemoryLimit,
    group: Option<PathBuf>,
    _procs: Option<File>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(group) = &self.group {
            drop(fs::remove_dir(group));
        }
    }
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Prepares `command`: the child gets `death_signal` (0 is none) when the thread that starts it ends, the limits, and a process group
/// of its own, so that an interrupt typed at a terminal does not reach it.
///
/// # Errors
/// `InvalidInput` for a CPU that cannot be; else what opening a control group gave.
pub fn hold(command: &mut Command, limits: &Limits, death_signal: i32) -> io::Result<Held> {
    let cpus = (!limits.cpus.is_empty()).then(|| affinity::set_of(&limits.cpus)).transpose()?;
    let (group, procs) = limits.memory_bytes.and_then(memory_group).unzip();
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
        // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory.
        checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, death_signal) })?;
        if std::os::unix::process::parent_id() == parent {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    };
    // SAFETY: between fork and exec only async-signal-safe functions may run; `settle` makes system calls and errors from
    // numbers, which allocate nothing.
    unsafe { command.pre_exec(settle) };
    Ok(Held { memory, group, _procs: procs })
}

fn checked(rc: i32) -> io::Result<()> {
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn limit(what: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: an rlimit that lives through the call.
    checked(unsafe { libc::setrlimit(what, &raw const limit) })
}

fn join_group(procs: RawFd) -> io::Result<()> {
    // SAFETY: one byte of a constant; the descriptor is kept open by `Held` in the parent until the child has started.
    if unsafe { libc::write(procs, c"0".as_ptr().cast(), 1) } == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A new control group with this limit on memory, and the file by which a process joins it; `None` where none can be made.
fn memory_group(bytes: u64) -> Option<(PathBuf, File)> {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("baremark-{}-{number}", std::process::id());
    [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")].into_iter().find_map(
        |(root, key)| {
            let group = Path::new(root).join(&name);
            fs::create_dir(&group).ok()?;
            // Not created: where the folder is not a control group there is no such file.
            let existing = |name: &str| File::options().write(true).open(group.join(name));
            let made = existing(key)
                .and_then(|mut file| file.write_all(bytes.to_string().as_bytes()))
                .and_then(|()| existing("cgroup.procs"));
            if made.is_err() {
                drop(fs::remove_dir(&group));
            }
            Some((group, made.ok()?))
        },
    )
}

/// Sends `signal` to a process, or to a process group when `pid` is negative. One that is gone is not an error.
///
/// # Errors
/// What `kill(2)` gives.
pub fn send(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers and touches no memory.
    match checked(unsafe { libc::kill(pid, signal) }) {
        Err(why) if why.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other,
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

    #[test]
    fn too_much_memory_is_refused_and_its_group_goes() {
        let limits = Limits { memory_bytes: Some(64 << 20), ..Limits::default() };
        let mut command = Command::new("sh");
        // tail keeps a line that never ends.
        command.args(["-c", "head -c 400000000 /dev/zero | tail -c 399999999 > /dev/null"]);
        let held = hold(&mut command, &limits, libc::SIGKILL).expect("limits that can be");
        assert_ne!(held.memory, MemoryLimit::None);
        let output = command.output().expect("sh runs");
        assert!(!output.status.success(), "{output:?}");
        let group = held.group.clone();
        drop(held);
        assert!(group.is_none_or(|group| !group.exists()));
    }

    #[test]
    fn the_superuser_has_number_zero() {
        assert_eq!(user("root"), Some((0, 0)));
        assert_eq!(user("nobody-by-that-name"), None);
    }
}
