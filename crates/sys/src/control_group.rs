//! Control groups of this program's own: where they can be made, and how they end.
//!
//! Version 2 comes first, version 1 where the kernel has the controller there. Version 2 offers a controller to the groups below one only where
//! `cgroup.subtree_control` names it. Where it does not yet, naming it is a change to the machine, which is taken back as soon as no group that
//! is left depends on it. Names of groups have a random word: no process finds the name of a new one taken. Each is recorded before it is made
//! ([`crate::registry`]), so that those of a process that was killed are removed by the next start. Names have the process too: where nothing is
//! recorded, the next group that is made has those of processes that are gone removed.

use crate::point;
use crate::registry::{self, Made, Record};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Which interface a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller.
    One,
    /// One hierarchy for all controllers.
    Two,
}

/// What a group limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// CPU time.
    Cpu,
    /// Memory.
    Memory,
}

/// A group below which others can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its folder.
    pub path: PathBuf,
    /// Its interface.
    pub version: Version,
}

/// Where version 2 is mounted: alone, or next to version 1.
const UNIFIED: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const OFFERED: &str = "cgroup.subtree_control";
const PROCESSES: &str = "cgroup.procs";
/// How long processes that were killed may take to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts to remove a group: version 1 reports no event for its last process.
const GLANCE: Duration = Duration::from_millis(2);

impl Controller {
    fn name(self) -> &'static str {
        match self {
            Controller::Cpu => "cpu",
            Controller::Memory => "memory",
        }
    }

    /// Where version 1 has it.
    fn first_version(self) -> &'static [&'static str] {
        match self {
            Controller::Cpu => &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"],
            Controller::Memory => &["/sys/fs/cgroup/memory"],
        }
    }

    /// Files of a group of version 2 that does not use it, and how their values begin.
    fn unused(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Controller::Cpu => &[("cpu.max", "max "), ("cpu.weight", "100\n"), ("cpu.idle", "0\n")],
            Controller::Memory => {
                &[("memory.min", "0\n"), ("memory.low", "0\n"), ("memory.high", "max\n"), ("memory.max", "max\n")]
            }
        }
    }
}

impl Parent {
    /// Whether groups below it have the controller already.
    #[must_use]
    pub fn offers(&self, controller: Controller) -> bool {
        self.version == Version::One || lists(&self.path.join(OFFERED), controller)
    }

    /// Whether this process has the right to make groups with the controller below it.
    #[must_use]
    pub fn takes(&self, controller: Controller) -> bool {
        let file = if self.offers(controller) { "" } else { OFFERED };
        let path = std::ffi::CString::new(self.path.join(file).into_os_string().into_encoded_bytes()).ok();
        // SAFETY: access(2) reads the text, which ends in zero and lives through the call.
        path.is_some_and(|path| unsafe { libc::access(path.as_ptr(), libc::W_OK) } == 0)
    }

    /// Offers the controller to groups below it; whether that is a change.
    ///
    /// # Errors
    /// What the kernel gives, such as `EBUSY` where processes are in a group that is not the first.
    pub fn offer(&self, controller: Controller) -> io::Result<bool> {
        if self.offers(controller) {
            return Ok(false);
        }
        set(&self.path.join(OFFERED), &format!("+{}", controller.name())).map(|()| true)
    }

    /// Takes back such an offer, unless a group below it uses the controller; whether it was taken back.
    ///
    /// # Errors
    /// What reading the groups and the kernel give.
    pub fn withdraw(&self, controller: Controller) -> io::Result<bool> {
        if self.version == Version::One || !self.offers(controller) {
            return Ok(false);
        }
        let mut folders =
            fs::read_dir(&self.path)?.flatten().filter(|entry| entry.file_type().is_ok_and(|of| of.is_dir()));
        let differs = |group: &Path, (file, beginning): &(&str, &str)| {
            fs::read_to_string(group.join(file)).is_ok_and(|value| !value.starts_with(beginning))
        };
        let uses = |entry: fs::DirEntry| controller.unused().iter().any(|of| differs(&entry.path(), of));
        if folders.any(uses) {
            return Ok(false);
        }
        match set(&self.path.join(OFFERED), &format!("-{}", controller.name())) {
            // A group below it offers it to others.
            Err(why) if why.kind() == io::ErrorKind::ResourceBusy => Ok(false),
            withdrawn => withdrawn.map(|()| true),
        }
    }
}

/// Where version 2 is mounted; `None` where it is not.
#[must_use]
pub fn unified() -> Option<&'static Path> {
    UNIFIED.iter().map(Path::new).find(|mount| mount.join("cgroup.controllers").is_file())
}

/// The group of version 2 that a process is in, such as `/user.slice`.
#[must_use]
pub fn group_of(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

/// The first groups of the hierarchies that have a controller, version 2 before version 1.
#[must_use]
pub fn roots(controller: Controller) -> Vec<Parent> {
    let second = unified().filter(|mount| lists(&mount.join("cgroup.controllers"), controller));
    let second = second.map(|mount| Parent { path: mount.to_owned(), version: Version::Two });
    let first = controller.first_version().iter().map(Path::new).filter(|root| root.join(PROCESSES).is_file());
    let first = first.map(|root| Parent { path: root.to_owned(), version: Version::One });
    second.into_iter().chain(first).collect()
}

/// Where groups of this process with a controller can be made, best first: the roots, and, for users to whom a part of version 2 is delegated, the
/// group around their own.
#[must_use]
pub fn parents(controller: Controller) -> Vec<Parent> {
    let mut parents = roots(controller);
    let around = || {
        let own = group_of(std::process::id())?;
        let above = Path::new(&own).parent().filter(|above| above.parent().is_some())?;
        let path = unified()?.join(above.strip_prefix("/").ok()?);
        lists(&path.join("cgroup.controllers"), controller).then_some(Parent { path, version: Version::Two })
    };
    let second = parents.iter().filter(|parent| parent.version == Version::Two).count();
    if let Some(around) = around() {
        parents.insert(second, around);
    }
    parents
}

/// Whether a folder is one of those that [`roots`] gives on some machine.
#[must_use]
pub fn can_be_root(controller: Controller, path: &Path) -> bool {
    UNIFIED.iter().chain(controller.first_version()).any(|root| Path::new(root) == path)
}

/// The interface by which this process would limit memory or CPU time; `None` where it can make no such group.
#[must_use]
pub fn interface(controller: Controller) -> Option<Version> {
    parents(controller).into_iter().find(|parent| parent.takes(controller)).map(|parent| parent.version)
}

fn lists(file: &Path, controller: Controller) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|name| name == controller.name()))
}

/// Writes a file of a control group. It is not created: where the folder is not a control group there is no such file.
///
/// # Errors
/// What opening and writing it give.
pub fn set(file: &Path, value: &str) -> io::Result<()> {
    File::options().write(true).open(file)?.write_all(value.as_bytes())
}

/// A control group of this process, recorded; it ends with what is in it when this is dropped.
#[derive(Debug)]
pub struct Own {
    path: PathBuf,
    record: Option<Box<dyn Record>>,
}

impl Own {
    /// A new one below `parent`: its name is `prefix`, the PID namespace, this process and a random word. `offers_memory` says whether the
    /// controller for memory is offered for its sake.
    ///
    /// # Errors
    /// What `mkdir(2)` gives, and when it cannot be recorded.
    pub fn new(parent: &Path, prefix: &str, offers_memory: bool) -> io::Result<Own> {
        let word = registry::random_word()?;
        let path = parent.join(format!("{prefix}{}-{}-{word}", namespace()?, std::process::id()));
        let record = registry::record(Made::Group { path: &path, offers_memory })?;
        if record.is_none() {
            end_left(parent, prefix);
        }
        point::reached("group-recorded");
        match fs::create_dir(&path) {
            Ok(()) => Ok(Own { path, record }),
            Err(why) => {
                record.into_iter().for_each(Record::gone);
                Err(why)
            }
        }
    }

    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // One that stays keeps its record, and is ended by the next start.
        if end(&self.path).is_ok() {
            self.record.take().into_iter().for_each(Record::gone);
        }
    }
}

/// The number of the PID namespace of this process, in which alone its number means this process.
pub(crate) fn namespace() -> io::Result<String> {
    let link = fs::read_link("/proc/self/ns/pid")?;
    Ok(link.to_string_lossy().chars().filter(char::is_ascii_digit).collect())
}

/// Ends groups with this prefix that processes of this PID namespace made which are gone.
fn end_left(parent: &Path, prefix: &str) {
    let Ok(here) = namespace() else { return };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((of, rest)) = name.strip_prefix(prefix).and_then(|rest| rest.split_once('-')) else { continue };
        let made_by = rest.split('-').next().filter(|pid| pid.parse::<u32>().is_ok());
        if of == here && made_by.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // One that does not end stays, and is tried again by the next.
            drop(end(&entry.path()));
        }
    }
}

/// Ends what is in a group and removes it; one that is gone is not an error.
///
/// # Errors
/// What `rmdir(2)` gives, `EBUSY` where processes do not end within 5 s.
pub fn end(group: &Path) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match fs::remove_dir(group) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(why) if why.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                kill_all(group);
                thread::sleep(GLANCE);
            }
            removed => return removed,
        }
    }
}

/// Kills every process of a group: at once where the kernel does that (version 2, Linux 5.14), else one by one.
fn kill_all(group: &Path) {
    if set(&group.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let listed = fs::read_to_string(group.join(PROCESSES)).unwrap_or_default();
    for pid in listed.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 1) {
        // SAFETY: takes numbers and touches no memory.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(folder: &Path, name: &str, files: &[(&str, &str)]) {
        fs::create_dir_all(folder.join(name)).expect("a folder");
        files.iter().for_each(|(file, text)| fs::write(folder.join(name).join(file), text).expect("a file"));
    }

    fn offered(parent: &Parent) -> String {
        fs::read_to_string(parent.path.join(OFFERED)).expect("a file")
    }

    #[test]
    fn a_controller_is_offered_once_and_withdrawn_when_no_group_uses_it() {
        let folder = tempfile::tempdir().expect("a folder");
        group(folder.path(), "", &[(OFFERED, "pids\n")]);
        let parent = Parent { path: folder.path().to_owned(), version: Version::Two };
        assert!(!parent.offers(Controller::Memory));
        assert!(parent.offer(Controller::Memory).expect("written"), "a change");
        assert!(offered(&parent).starts_with("+memory"));
        // As the kernel has it then.
        group(folder.path(), "", &[(OFFERED, "memory pids\n")]);
        assert!(!parent.offer(Controller::Memory).expect("read"), "no change");
        group(folder.path(), "unlimited.slice", &[("memory.max", "max\n"), ("memory.low", "0\n")]);
        group(folder.path(), "limited.slice", &[("memory.max", "4096\n")]);
        assert!(!parent.withdraw(Controller::Memory).expect("read"), "a group is limited by it");
        assert_eq!(offered(&parent), "memory pids\n");
        group(folder.path(), "limited.slice", &[("memory.max", "max\n")]);
        assert!(parent.withdraw(Controller::Memory).expect("written"));
        assert!(offered(&parent).starts_with("-memory"));
    }

    #[test]
    fn a_group_has_a_name_of_its_own_and_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let both = [(), ()].map(|()| Own::new(folder.path(), "baremark-test-", false).expect("made"));
        assert!(both.iter().all(|own| own.path().is_dir()) && both[0].path() != both[1].path());
        drop(both);
        assert_eq!(fs::read_dir(folder.path()).expect("it is ours").count(), 0);
    }

    #[test]
    fn where_nothing_is_recorded_groups_of_ended_processes_go_with_the_next_and_others_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut ended = std::process::Command::new("true").spawn().expect("true");
        ended.wait().expect("it ends");
        let here = namespace().expect("a namespace");
        let own = Own::new(folder.path(), "baremark-test-", false).expect("made");
        let left = format!("baremark-test-{here}-{}-0", ended.id());
        let kept = [format!("baremark-test-1{here}-{}-0", ended.id()), format!("other-{here}-{}-0", ended.id())];
        [&left, &kept[0], &kept[1]].iter().for_each(|name| group(folder.path(), name, &[]));
        drop(Own::new(folder.path(), "baremark-test-", false).expect("made"));
        assert!(!folder.path().join(left).exists());
        assert!(own.path().exists() && kept.iter().all(|name| folder.path().join(name).exists()));
    }
}
