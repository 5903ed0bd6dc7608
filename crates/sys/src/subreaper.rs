//! Programs that this process starts, with everything that they start in turn, and their end.
//!
//! A process that has called [`adopt_orphans`] becomes the parent of whatever its descendants leave behind, daemons
//! included: nothing that a program forks can get away from it, without control groups and without being root. Whoever
//! uses this lets no other part of the process have children.

use crate::calls::{checked, new_descriptor, was_interrupted};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// How often processes that were killed are looked for again, and a busy program is tried again.
const GLANCE: Duration = Duration::from_millis(1);

/// How long a program may be open for writing in others' hands.
pub(crate) const BUSY_LIMIT: Duration = Duration::from_secs(1);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code or signal.
    pub status: ExitStatus,
    /// When, as seen by whoever waited.
    pub at: Instant,
    /// What it and all that it waited for have used.
    pub used: Used,
}

/// What a process and all that it waited for have used, as the kernel counts it (`getrusage(2)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// The largest resident set that one of them had; at least that of the process that started them.
    pub peak_rss_bytes: u64,
    /// Context switches because they waited.
    pub voluntary_switches: u64,
    /// Context switches because others were to run.
    pub involuntary_switches: u64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that read from a disk.
    pub major_faults: u64,
}

/// Makes this process the parent of its descendants' orphans.
///
/// # Errors
/// What `prctl(2)` gives.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes a number and touches no memory.
    checked(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1_u64) }).map(drop)
}

/// Starts `command`, whose program may just have been written by this process or one alongside it.
///
/// A file that is open for writing cannot be executed, and whatever another thread forks while it is written keeps it open
/// until it executes something else in its turn. So a program that is busy is tried again, at most a second.
///
/// # Errors
/// What starting it gives.
pub fn start(command: &mut Command) -> io::Result<Child> {
    unless_busy(BUSY_LIMIT, || command.spawn())
}

/// Starts a program, again and again within `limit` where it is open for writing.
pub(crate) fn unless_busy<T>(limit: Duration, mut start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let first = Instant::now();
    loop {
        match start() {
            Err(why) if why.kind() == io::ErrorKind::ExecutableFileBusy && first.elapsed() < limit => {
                thread::sleep(GLANCE);
            }
            started => return started,
        }
    }
}

/// Waits for the end of a child that nobody else waits for; `None` when it has not come by `deadline`.
///
/// # Errors
/// What `pidfd_open(2)`, `poll(2)` and `wait4(2)` give.
pub fn wait(pid: u32, deadline: Instant) -> io::Result<Option<Ended>> {
    let pidfd = descriptor(pid)?;
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left_ms = i32::try_from(left.as_millis()).unwrap_or(i32::MAX).saturating_add(1);
        let mut watched = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, which lives through the call.
        match unsafe { libc::poll(&raw mut watched, 1, left_ms) } {
            0 if Instant::now() >= deadline => return Ok(None),
            0 => {}
            1.. => return reap(pid, Instant::now()).map(Some),
            _ => was_interrupted()?,
        }
    }
}

/// A descriptor of the process that has this number now.
///
/// # Errors
/// What `pidfd_open(2)` gives.
pub(crate) fn descriptor(pid: u32) -> io::Result<OwnedFd> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: takes two numbers; the descriptor that it makes is nobody else's.
    unsafe { new_descriptor(libc::syscall(libc::SYS_pidfd_open, pid, 0)) }
}

fn reap(pid: libc::pid_t, at: Instant) -> io::Result<Ended> {
    let mut status = 0;
    // SAFETY: a rusage is plain numbers; all zeros is a valid one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both places live through the call.
        if unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } == pid {
            return Ok(Ended { status: ExitStatus::from_raw(status), at, used: used(&usage) });
        }
        was_interrupted()?;
    }
}

fn used(usage: &libc::rusage) -> Used {
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
    Used {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        peak_rss_bytes: count(usage.ru_maxrss) * 1024,
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
    }
}

fn duration(time: libc::timeval) -> Duration {
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0)) + Duration::from_micros(micros)
}

/// Ends every descendant but the trees of `spared`, and waits until all are gone: the names of those that there were.
///
/// # Errors
/// `TimedOut` with the names of those that were still there after `limit`; what reading /proc gives.
pub fn end_all_but(spared: &[u32], limit: Duration) -> io::Result<Vec<String>> {
    let deadline = Instant::now() + limit;
    let mut ended: Vec<(u32, String)> = Vec::new();
    loop {
        let mut living = Vec::new();
        let mut children = children_of(std::process::id())?;
        children.retain(|child| !spared.contains(child));
        for &child in &children {
            collect(child, &mut living);
        }
        for pid in &living {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned();
            if !ended.iter().any(|(known, _)| known == pid) && state(*pid) != Some('Z') {
                ended.push((*pid, name));
            }
            kill(*pid);
        }
        // What a killed process leaves comes to us, and is looked for again.
        children.into_iter().for_each(reap_if_ended);
        let names = || ended.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>();
        if living.is_empty() {
            return Ok(names());
        }
        if Instant::now() >= deadline {
            let what = format!("processes do not end: {}", names().join(", "));
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
        thread::sleep(GLANCE);
    }
}

/// Kills every descendant but the trees of `spared` once, without waiting.
pub fn kill_all_but(spared: &[u32]) {
    let mut living = Vec::new();
    for child in children_of(std::process::id()).unwrap_or_default() {
        if !spared.contains(&child) {
            collect(child, &mut living);
        }
    }
    living.into_iter().for_each(kill);
}

fn kill(pid: u32) {
    if let Ok(pid) = libc::pid_t::try_from(pid) {
        // SAFETY: a signal to a descendant, whose number is not free as long as its parent, who is ours too or we, has
        // not waited for it; the worst of a lost race is that it is gone already.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

fn reap_if_ended(pid: u32) {
    if let Ok(pid) = libc::pid_t::try_from(pid) {
        // SAFETY: asks for one child without waiting, and wants no status.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
    }
}

/// A process and all that it has started, in an order in which whoever has started others comes before those; those that are gone may be among them.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let mut tree = Vec::new();
    collect(root, &mut tree);
    tree
}

/// `pid` and all below it.
fn collect(pid: u32, tree: &mut Vec<u32>) {
    if tree.contains(&pid) {
        return;
    }
    tree.push(pid);
    for child in children_of(pid).unwrap_or_default() {
        collect(child, tree);
    }
}

/// The children of all threads of `pid`.
fn children_of(pid: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    let mut told = false;
    for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        if let Ok(list) = fs::read_to_string(task.path().join("children")) {
            told = true;
            children.extend(list.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    if told { Ok(children) } else { children_by_parent(pid) }
}

/// The same on kernels that keep no lists of children.
fn children_by_parent(parent: u32) -> io::Result<Vec<u32>> {
    let pids = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    Ok(pids.filter(|&pid| stat(pid).is_some_and(|(_, of)| of == parent)).collect())
}

fn state(pid: u32) -> Option<char> {
    stat(pid).map(|(state, _)| state)
}

/// State and parent of a process.
fn stat(pid: u32) -> Option<(char, u32)> {
    read_stat(Path::new(&format!("/proc/{pid}/stat")))
}

/// The same by the file `stat` of a process, or of a thread; `None` of one that is gone.
pub(crate) fn read_stat(path: &Path) -> Option<(char, u32)> {
    let line = fs::read_to_string(path).ok()?;
    let mut fields = line.get(line.rfind(')')? + 1..)?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Whether this kernel executes a program that is open for writing, as Linux 6.11 to 6.11.10, 6.12 and 6.12.1 do.
#[cfg(test)]
pub(crate) fn executes_what_is_written() -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("program");
    let mut held = fs::File::options().write(true).create_new(true).mode(0o700).open(&path).expect("it is new");
    io::Write::write_all(&mut held, b"#!/bin/sh\n").expect("it is ours");
    match Command::new(&path).status() {
        Ok(_) => true,
        Err(why) => {
            assert_eq!(why.kind(), io::ErrorKind::ExecutableFileBusy, "{why}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    #[expect(clippy::zombie_processes, reason = "`wait` of this module reaps them by number")]
    fn a_childs_end_is_told_with_its_time_and_a_slow_one_is_not_waited_for() {
        let soon = || Instant::now() + Duration::from_secs(60);
        // It fills 32 MiB on one CPU, of which the kernel may not have added up a part (process_tree.rs).
        let cpu = crate::affinity::allowed_cpus().expect("this thread has CPUs")[0].to_string();
        let script = "x=$(head -c 33554432 /dev/zero | tr '\\0' x); exit 3";
        let child = start(Command::new("taskset").args(["-c", &cpu, "sh", "-c", script])).expect("taskset starts");
        let ended = wait(child.id(), soon()).expect("a child").expect("ends");
        assert_eq!(ended.status.code(), Some(3));
        assert!(ended.used.peak_rss_bytes >= 16 << 20 && ended.used.minor_faults > 0);
        let slow = start(Command::new("sleep").arg("600")).expect("sleep starts");
        assert_eq!(wait(slow.id(), Instant::now() + Duration::from_millis(20)).expect("a child"), None);
        assert!(children_of(std::process::id()).expect("/proc").contains(&slow.id()));
        assert!(children_by_parent(std::process::id()).expect("/proc").contains(&slow.id()));
        kill(slow.id());
        let ended = wait(slow.id(), soon()).expect("a child").expect("was killed");
        assert_eq!(ended.status.signal(), Some(libc::SIGKILL));
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "a skip is counted")]
    fn a_program_that_is_still_open_for_writing_is_started_once_it_is_closed() {
        if executes_what_is_written() {
            return println!("skipped: this kernel executes a program that is open for writing");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        fs::write(&path, "#!/bin/sh\nexit 3\n").expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("it is ours");
        let open = || fs::File::options().append(true).open(&path).expect("it is ours");
        let mut command = Command::new(&path);
        let held = open();
        let why = command.spawn().expect_err("it is open for writing");
        assert_eq!(why.kind(), io::ErrorKind::ExecutableFileBusy);
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(held);
        });
        let mut child = unless_busy(Duration::from_secs(60), || command.spawn()).expect("it is closed soon");
        assert_eq!(child.wait().expect("a child").code(), Some(3));

        let _held = open();
        let why = start(&mut command).expect_err("it stays open");
        assert_eq!(why.kind(), io::ErrorKind::ExecutableFileBusy);
    }
}
