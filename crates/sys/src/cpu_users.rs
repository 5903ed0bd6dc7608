//! Who uses the CPUs: the processor time of every program on this machine, by the kernel's account of processes.
//!
//! Time of processes that ended is their parent's once it has waited for them (`proc_pid_stat(5)`: `cutime`, `cstime`), and counts as the parent's
//! program: of a build that is `make` or `cargo`. What nobody waits for is lost. Kernel threads are no programs.
//!
//! A process in a PID namespace of its own sees the programs of that namespace alone, and with `hidepid` its user's alone ([`Sight`]). `/proc/stat` has the CPU time of the
//! whole machine there, too, unless a container has another file in its place.

use crate::cpu_time::TICK_S;
use crate::namespace::FIRST_PROCESSES;
use crate::process_tree::{Entry, entries_below, members, parse};
use baremark_model::order;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The parent of all kernel threads.
const KTHREADD: u32 = 2;

/// The first process: the parent of children whose parent has ended, unless a process above them is a subreaper (`PR_SET_CHILD_SUBREAPER`).
const INIT: u32 = 1;

/// The processor time of every process up to one moment.
#[derive(Clone, Debug, Default)]
pub struct CpuUsers {
    processes: BTreeMap<u32, Entry>,
}

impl CpuUsers {
    /// Up to now. Reads a file for each process: some 10 us each.
    ///
    /// # Errors
    /// What reading the folder `/proc` gives.
    pub fn now() -> io::Result<Self> {
        CpuUsers::below(Path::new("/"))
    }

    /// The same of a machine whose files are below `root`.
    ///
    /// # Errors
    /// What reading the folder `proc` there gives.
    pub fn below(root: &Path) -> io::Result<Self> {
        entries_below(root).map(|processes| CpuUsers { processes })
    }

    /// What programs used from `earlier` to this, in seconds of processor time by name, the most first: all but the process `root` and its
    /// descendants.
    #[must_use]
    pub fn others_since(&self, earlier: &Self, root: u32) -> Vec<(String, f64)> {
        self.apart_from(earlier, &BTreeSet::from([root]))
    }

    /// The same without any of the processes `roots` and their descendants.
    #[must_use]
    pub fn apart_from(&self, earlier: &Self, roots: &BTreeSet<u32>) -> Vec<(String, f64)> {
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for (pid, ticks) in self.used_since(earlier, roots) {
            let name = self.processes.get(&pid).map_or("", |process| &process.name);
            *by_name.entry(name).or_default() += ticks;
        }
        let mut all: Vec<(String, f64)> =
            by_name.into_iter().map(|(name, ticks)| (name.to_owned(), seconds(ticks))).collect();
        all.retain(|(_, seconds)| *seconds > 0.0);
        order::by(&mut all, |one, two| two.1.total_cmp(&one.1));
        all
    }

    /// What each process used from `earlier` to this, in seconds of processor time by its number: all but the process `root` and its descendants.
    #[must_use]
    pub fn processes_since(&self, earlier: &Self, root: u32) -> BTreeMap<u32, f64> {
        let used = self.used_since(earlier, &BTreeSet::from([root]));
        used.into_iter().map(|(pid, ticks)| (pid, seconds(ticks))).collect()
    }

    /// What the process `root` and its descendants used from `earlier` to this, those that have ended among them, in seconds of processor time.
    #[must_use]
    pub fn tree_since(&self, earlier: &Self, root: u32) -> f64 {
        let tree = self.trees(earlier, &BTreeSet::from([root]));
        let own = self.all_since(earlier).into_iter().filter(|(pid, _)| tree.contains(pid));
        seconds(own.map(|(_, ticks)| ticks).sum())
    }

    /// Ticks of each process, but those of `roots` and their descendants and of the kernel's threads.
    fn used_since(&self, earlier: &Self, roots: &BTreeSet<u32>) -> Vec<(u32, u64)> {
        let own = self.trees(earlier, roots);
        let is_kernels =
            |pid: u32| pid == KTHREADD || self.processes.get(&pid).is_some_and(|found| found.parent == KTHREADD);
        let mut used = self.all_since(earlier);
        used.retain(|(pid, _)| !own.contains(pid) && !is_kernels(*pid));
        used
    }

    /// The processes `roots` and their descendants, at both times.
    fn trees(&self, earlier: &Self, roots: &BTreeSet<u32>) -> BTreeSet<u32> {
        let tree =
            |users: &CpuUsers| roots.iter().flat_map(|root| members(&users.processes, *root)).collect::<Vec<_>>();
        [self, earlier].into_iter().flat_map(tree).collect()
    }

    /// Ticks of each process from `earlier` to this.
    fn all_since(&self, earlier: &Self) -> Vec<(u32, u64)> {
        let had = self.had_before(earlier);
        let of = |(pid, process): (&u32, &Entry)| {
            let same = earlier.processes.get(pid).filter(|before| before.started == process.started);
            let before = same.map_or(0, |before| before.ticks + had.get(pid).copied().unwrap_or(0));
            (*pid, process.ticks.saturating_sub(before))
        };
        self.processes.iter().map(of).collect()
    }

    /// Ticks that processes used before `earlier` and that were added to another process since, by the number of the one that waited for them.
    ///
    /// The process that waits for a child gets all of the child's ticks in its `cutime` and `cstime`. Where these have grown by less, it has not waited
    /// for the child: the first process has, where the child's parent has ended, or nobody, where the parent ignores SIGCHLD.
    fn had_before(&self, earlier: &Self) -> BTreeMap<u32, u64> {
        let is_there =
            |pid: u32, before: &Entry| self.processes.get(&pid).is_some_and(|now| now.started == before.started);
        // By how much the ticks of children have grown, less what is found below to be of before.
        let mut left: BTreeMap<u32, u64> = BTreeMap::new();
        for (pid, before) in &earlier.processes {
            if let Some(now) = self.processes.get(pid).filter(|now| now.started == before.started) {
                left.insert(*pid, now.waited_for.saturating_sub(before.waited_for));
            }
        }
        // Of each process that ended: how many of its ancestors did, who is above these, whether it may have become the first process's, its ticks.
        let mut ended: Vec<(usize, u32, bool, u64)> = Vec::new();
        for (pid, before) in &earlier.processes {
            if is_there(*pid, before) {
                continue;
            }
            let (mut above, mut links) = (before.parent, 0);
            // The processes were read one after the other: their parents may be no tree.
            while links < earlier.processes.len() {
                let Some(gone) = earlier.processes.get(&above).filter(|of| !is_there(above, of)) else { break };
                above = gone.parent;
                links += 1;
            }
            // A process that ended and was not waited for is there, but has no children any more.
            let parent_lives = links == 0 && self.processes.get(&above).is_some_and(|parent| !parent.ended);
            ended.push((links, above, !parent_lives, before.ticks));
        }
        // Those whose parent is there come first: no other process can have waited for them.
        order::by_key(&mut ended, |(links, ..)| *links);
        let mut had: BTreeMap<u32, u64> = BTreeMap::new();
        for (_, above, is_orphan, ticks) in ended {
            let may_have_waited = [Some(above), is_orphan.then_some(INIT)];
            let parent =
                may_have_waited.into_iter().flatten().find(|pid| left.get(pid).is_some_and(|most| *most >= ticks));
            let Some(parent) = parent else { continue };
            *left.entry(parent).or_default() -= ticks;
            *had.entry(parent).or_default() += ticks;
        }
        had
    }
}

/// What a process sees of who uses a machine's CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Whether every program of the machine is among those that `/proc` shows.
    pub all_programs: bool,
    /// Whether `/proc/stat` is another file than the kernel's: that of a container, which has the CPU time of the container alone (lxcfs).
    pub stat_of_container: bool,
}

impl Sight {
    /// What this process sees.
    #[must_use]
    pub fn now() -> Self {
        Sight::below(Path::new("/"))
    }

    /// The same of a machine whose files are below `root`.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        let folder = root.join("proc");
        // Kernels without PID namespaces have no such file; with `hidepid` the first process is another user's.
        let namespace = fs::read_link(folder.join("self/ns/pid"));
        let is_apart = namespace.is_ok_and(|namespace| namespace.as_os_str() != FIRST_PROCESSES);
        let all_programs = !is_apart && fs::read(folder.join("1/stat")).is_ok();
        let device = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
        let stat_of_container = is_on_another_file_system(device(&folder), device(&folder.join("stat")));
        Sight { all_programs, stat_of_container }
    }
}

/// Whether a file is on another file system than its folder, by the device numbers of both; not if one of them is unknown.
fn is_on_another_file_system(folder: Option<u64>, file: Option<u64>) -> bool {
    folder.zip(file).is_some_and(|(folder, file)| folder != file)
}

#[expect(clippy::cast_precision_loss, reason = "ticks of some minutes")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 * TICK_S
}

/// The name of this process, as the kernel has it.
///
/// # Errors
/// What reading `/proc/self/comm` gives.
pub fn own_name() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/self/comm")?.trim_end().to_owned())
}

/// The outermost of this process's ancestors that run the same program as it, without a gap: the one whose descendants are all that this program
/// has started. This process itself where its parent is another program, or cannot be looked at.
#[must_use]
pub fn outermost_of_this_program() -> u32 {
    outermost_of(own_number())
}

/// The number that this process has in `/proc`, which may be of another PID namespace than it.
#[must_use]
pub fn own_number() -> u32 {
    let number = fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
    number.unwrap_or_else(std::process::id)
}

/// The first process above `pid` that runs the same program without another between them: `pid` itself where its parent runs another.
#[must_use]
pub fn outermost_of(pid: u32) -> u32 {
    let program = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let parent = |pid: u32| Some(parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?.parent);
    let this = program(pid);
    let mut root = pid;
    while let Some(above) = parent(root).filter(|&above| above != 0 && this.is_some() && program(above) == this) {
        root = above;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes that have waited for no child: number, name, parent, start and ticks.
    fn users(all: &[(u32, &str, u32, u64, u64)]) -> CpuUsers {
        waiting(all, &[])
    }

    /// The same with those of their ticks that are of children they have waited for, by their numbers.
    fn waiting(all: &[(u32, &str, u32, u64, u64)], waited_for: &[(u32, u64)]) -> CpuUsers {
        let mut users = CpuUsers::default();
        for (pid, name, parent, started, ticks) in all {
            let children = waited_for.iter().find(|(of, _)| of == pid).map_or(0, |(_, children)| *children);
            let (own, user, system) = (ticks - children, children / 2, children - children / 2);
            let fields = format!("{parent} 1 1 0 -1 0 0 0 0 0 {own} 0 {user} {system} 20 0 1 0 {started} 0 0");
            let process = parse(&format!("{pid} ({name}) S {fields}")).expect("a line of stat");
            users.processes.insert(*pid, process);
        }
        assert_eq!(users.processes.len(), all.len(), "each is a line of stat");
        users
    }

    #[test]
    fn a_line_of_stat_is_read_whatever_the_name() {
        let line = "77 (a) b (c)) S 5 77 77 0 -1 4194560 10 20 30 40 100 20 7 3 20 0 1 0 9000 1 1";
        let found = parse(line).expect("a process");
        assert_eq!((found.name.as_str(), found.parent, found.started, found.ticks), ("a) b (c)", 5, 9000, 130));
        assert_eq!(found.waited_for, 10);
        assert_eq!((parse("77 (a S 5"), parse("77 (a) S 5")), (None, None));
    }

    #[test]
    fn programs_are_named_by_what_they_used_but_our_own_and_the_kernels() {
        let before = users(&[
            (1, "init", 0, 0, 50),
            (2, "kthreadd", 0, 0, 1),
            (3, "kworker", 2, 0, 100),
            (10, "baremark", 1, 5, 400),
            (11, "postgres", 10, 6, 40),
            (20, "make", 1, 5, 1000),
            (21, "cc", 20, 8, 30),
            (40, "old", 1, 9, 500),
        ]);
        let after = waiting(
            &[
                (1, "init", 0, 0, 50),
                (2, "kthreadd", 0, 0, 1),
                (3, "kworker", 2, 0, 300),
                (10, "baremark", 1, 5, 900),
                (11, "postgres", 10, 6, 240),
                // Waited for 21, which had used 30 before and 70 more.
                (20, "make", 1, 5, 1100),
                (22, "cc", 20, 30, 25),
                (23, "cc", 20, 31, 15),
                // Another process of the number of one that ended.
                (40, "new", 1, 77, 10),
            ],
            &[(20, 100)],
        );
        let found = after.others_since(&before, 10);
        let expected = [("make", 0.7), ("cc", 0.4), ("new", 0.1)];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((name, seconds), (as_expected, of)) in found.iter().zip(expected) {
            assert!(name == as_expected && (seconds - of).abs() < 1e-9, "{found:?}");
        }
    }

    /// A command that a shell of a build had started before, and that has ended with the shell: what it had used is no use of the build's since.
    #[test]
    fn what_a_childs_child_had_used_is_no_use_of_who_waited_for_both() {
        let before =
            users(&[(1, "init", 0, 0, 0), (20, "make", 1, 5, 100), (21, "sh", 20, 6, 2), (22, "cc", 21, 7, 500)]);
        let after = waiting(&[(1, "init", 0, 0, 0), (20, "make", 1, 5, 642)], &[(20, 542)]);
        assert_eq!(after.others_since(&before, 10), [("make".to_owned(), 0.4)]);
        assert!((after.tree_since(&before, 20) - 0.4).abs() < 1e-9);
        // Of one snapshot whose processes are each other's parents nothing is followed without an end.
        let round = users(&[(1, "init", 0, 0, 0), (30, "a", 31, 5, 1), (31, "b", 30, 5, 1)]);
        assert_eq!(after.others_since(&round, 10), [("make".to_owned(), 6.42)]);
    }

    /// A daemon that a shell of a build had started before, and that the first process waited for after the shell: the build has got no time of it.
    #[test]
    fn what_an_orphan_had_used_is_subtracted_from_who_waited_for_it() {
        let init = (1, "init", 0, 0, 0);
        let before = users(&[init, (20, "make", 1, 5, 100), (21, "sh", 20, 6, 2), (22, "daemon", 21, 7, 500)]);
        let since = |init: u64, make: u64, waited_for: &[(u32, u64)]| {
            waiting(&[(1, "init", 0, 0, init), (20, "make", 1, 5, make)], waited_for).others_since(&before, 10)
        };
        let make = || ("make".to_owned(), 0.4);
        assert_eq!(since(500, 142, &[(1, 500), (20, 2)]), [make()]);
        assert_eq!(since(500, 142, &[(1, 500), (20, 42)]), [make()], "40 of another command, which is less than 500");
        assert_eq!(since(530, 142, &[(1, 530), (20, 2)]), [make(), ("init".to_owned(), 0.3)], "30 since");
        // The shell has ended and was not waited for yet.
        let sh = (21, "sh", 20, 6, 2);
        let mut after = waiting(&[(1, "init", 0, 0, 500), (20, "make", 1, 5, 140), sh], &[(1, 500)]);
        after.processes.get_mut(&21).expect("the shell").ended = true;
        assert_eq!(after.others_since(&before, 10), [make()]);
    }

    /// The kernel drops the time of such children: neither their parent has it nor the first process, which waited for others.
    #[test]
    fn what_children_of_a_program_that_ignores_sigchld_had_used_is_subtracted_from_nobody() {
        let before = users(&[(1, "init", 0, 0, 0), (20, "server", 1, 5, 100), (21, "worker", 20, 6, 300)]);
        let after = waiting(&[(1, "init", 0, 0, 350), (20, "server", 1, 5, 140)], &[(1, 350)]);
        let expected = [("init".to_owned(), 3.5), ("server".to_owned(), 0.4)];
        assert_eq!(after.others_since(&before, 10), expected);
        assert!((after.tree_since(&before, 20) - 0.4).abs() < 1e-9);
    }

    #[test]
    fn a_tree_has_what_its_processes_used_and_what_ended_in_it() {
        let before = users(&[
            (1, "init", 0, 0, 50),
            (10, "baremark", 1, 5, 400),
            (11, "postgres", 10, 6, 40),
            (12, "sh", 10, 6, 30),
            (20, "make", 1, 5, 1000),
        ]);
        let after = waiting(
            &[
                (1, "init", 0, 0, 90),
                // Waited for 12, which had used 30 before and 20 more.
                (10, "baremark", 1, 5, 460),
                (11, "postgres", 10, 6, 240),
                (13, "postgres", 11, 9, 7),
                (20, "make", 1, 5, 1900),
            ],
            &[(10, 50)],
        );
        let used = after.tree_since(&before, 10);
        assert!((used - (0.3 + 2.0 + 0.07)).abs() < 1e-9, "{used}");
    }

    /// A `/proc` with these processes, in the PID namespace of that name.
    fn played(namespace: &str, pids: &[u32]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("proc/self/ns");
        fs::create_dir_all(&own).expect("a folder");
        std::os::unix::fs::symlink(namespace, own.join("pid")).expect("a link");
        fs::write(folder.path().join("proc/stat"), "cpu  1 0 1 9 0 0 0 0 0 0\ncpu0 1 0 1 9 0 0 0 0 0 0\n").expect("it");
        for pid in pids {
            let process = folder.path().join(format!("proc/{pid}"));
            fs::create_dir(&process).expect("a folder");
            let line = format!("{pid} (sh) S 1 1 1 0 -1 0 0 0 0 0 7 0 0 0 20 0 1 0 5 0 0");
            fs::write(process.join("stat"), line).expect("it is ours");
        }
        folder
    }

    #[test]
    fn programs_are_hidden_by_a_namespace_and_where_the_first_process_cannot_be_read() {
        let all = |namespace: &str, pids: &[u32]| Sight::below(played(namespace, pids).path()).all_programs;
        assert!(all(FIRST_PROCESSES, &[1, 20]));
        assert!(!all("pid:[4026532999]", &[1, 20]), "a sandbox has a first process, too");
        assert!(!all(FIRST_PROCESSES, &[20]), "hidepid");
        let machine = played(FIRST_PROCESSES, &[1, 20]);
        let users = CpuUsers::below(machine.path()).expect("a folder");
        assert_eq!(users.processes.keys().copied().collect::<Vec<_>>(), [1, 20]);
    }

    /// A container's file is one of another file system, as each in this machine's `/proc` is to a folder on a disk or in memory. A regular file on
    /// an overlay may have another device number than its folder: the folder itself is what has the same one everywhere.
    #[test]
    fn a_stat_of_another_file_system_is_not_the_kernels() {
        assert!(is_on_another_file_system(Some(22), Some(71)) && !is_on_another_file_system(Some(22), Some(22)));
        assert!(!is_on_another_file_system(None, Some(22)) && !is_on_another_file_system(Some(22), None));
        let machine = played(FIRST_PROCESSES, &[1]);
        let stat = machine.path().join("proc/stat");
        let seen = |target: &str| {
            fs::remove_file(&stat).expect("it is ours");
            std::os::unix::fs::symlink(target, &stat).expect("a link");
            Sight::below(machine.path()).stat_of_container
        };
        assert!(!seen("."));
        assert!(seen("/proc/self/stat"));
    }

    /// A server and what it starts for its requests are no other programs.
    #[test]
    fn several_trees_are_left_out_together() {
        let before =
            users(&[(1, "init", 0, 0, 0), (10, "baremark", 1, 5, 0), (20, "server", 1, 6, 100), (30, "cc", 1, 7, 0)]);
        let after = users(&[
            (1, "init", 0, 0, 0),
            (10, "baremark", 1, 5, 50),
            (20, "server", 1, 6, 300),
            (21, "cgi", 20, 9, 40),
            (30, "cc", 1, 7, 20),
        ]);
        assert_eq!(after.apart_from(&before, &BTreeSet::from([10, 20])), [("cc".to_owned(), 0.2)]);
        let each = after.processes_since(&before, 10);
        assert_eq!((each[&20], each[&21], each.contains_key(&10)), (2.0, 0.4, false));
    }

    #[test]
    fn what_this_program_starts_is_its_own() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("cat starts");
        let users = CpuUsers::now().expect("/proc");
        assert!(users.processes.contains_key(&own_number()), "what reads /proc is in it");
        let tree = members(&users.processes, outermost_of_this_program());
        assert!(tree.contains(&std::process::id()) && tree.contains(&child.id()), "{tree:?}");
        drop(child.stdin.take());
        assert!(child.wait().expect("ended").success());
    }
}
