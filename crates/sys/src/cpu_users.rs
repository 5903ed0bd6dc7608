//! Who uses the CPUs: the processor time of every program on this machine, by the kernel's account of processes.
//!
//! Time of processes that ended is their parent's once it has waited for them (`proc_pid_stat(5)`: `cutime`, `cstime`), and counts as the parent's
//! program: of a build that is `make` or `cargo`. What nobody waits for is lost. Kernel threads are no programs.

use crate::cpu_time::TICK_S;
use crate::process_tree::{Entry, entries, members, parse};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

/// The parent of all kernel threads.
const KTHREADD: u32 = 2;

/// The processor time of every process up to one moment.
#[derive(Clone, Debug, Default)]
pub struct CpuUsers(BTreeMap<u32, Entry>);

impl CpuUsers {
    /// Up to now. Reads a file for each process: some 10 us each.
    ///
    /// # Errors
    /// What reading the folder `/proc` gives.
    pub fn now() -> io::Result<Self> {
        entries().map(CpuUsers)
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
            let name = self.0.get(&pid).map_or("", |process| &process.name);
            *by_name.entry(name).or_default() += ticks;
        }
        let mut all: Vec<(String, f64)> =
            by_name.into_iter().map(|(name, ticks)| (name.to_owned(), seconds(ticks))).collect();
        all.retain(|(_, seconds)| *seconds > 0.0);
        all.sort_by(|one, two| two.1.total_cmp(&one.1));
        all
    }

    /// What each process used from `earlier` to this, in seconds of processor time by its number: all but the process `root` and its descendants.
    #[must_use]
    pub fn processes_since(&self, earlier: &Self, root: u32) -> BTreeMap<u32, f64> {
        let used = self.used_since(earlier, &BTreeSet::from([root]));
        used.into_iter().map(|(pid, ticks)| (pid, seconds(ticks))).collect()
    }

    /// Ticks of each process, but those of `roots` and their descendants and of the kernel's threads.
    fn used_since(&self, earlier: &Self, roots: &BTreeSet<u32>) -> Vec<(u32, u64)> {
        let tree = |users: &CpuUsers| roots.iter().flat_map(|root| members(&users.0, *root)).collect::<Vec<_>>();
        let own: BTreeSet<u32> = [self, earlier].into_iter().flat_map(tree).collect();
        let same = |pid: &u32, process: &Entry| earlier.0.get(pid).filter(|before| before.started == process.started);
        // What a child had used before `earlier` is no use of its parent's since.
        let mut had: BTreeMap<u32, u64> = BTreeMap::new();
        for (pid, before) in &earlier.0 {
            if self.0.get(pid).is_none_or(|now| now.started != before.started) {
                *had.entry(before.parent).or_default() += before.ticks;
            }
        }
        let of = |(pid, process): (&u32, &Entry)| {
            let before = same(pid, process).map_or(0, |before| before.ticks + had.get(pid).copied().unwrap_or(0));
            (*pid, process.ticks.saturating_sub(before))
        };
        let counts =
            |(pid, process): &(&u32, &Entry)| !own.contains(*pid) && **pid != KTHREADD && process.parent != KTHREADD;
        self.0.iter().filter(counts).map(of).collect()
    }
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
    outermost_of(std::process::id())
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

    /// Processes: number, name, parent, start and ticks.
    fn users(all: &[(u32, &str, u32, u64, u64)]) -> CpuUsers {
        let one = |&(pid, name, parent, started, ticks): &(u32, &str, u32, u64, u64)| {
            let fields = format!("{parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {started} 0 0");
            (pid, parse(&format!("{pid} ({name}) S {fields}")).expect("a line of stat"))
        };
        CpuUsers(all.iter().map(one).collect())
    }

    #[test]
    fn a_line_of_stat_is_read_whatever_the_name() {
        let line = "77 (a) b (c)) S 5 77 77 0 -1 4194560 10 20 30 40 100 20 7 3 20 0 1 0 9000 1 1";
        let found = parse(line).expect("a process");
        assert_eq!((found.name.as_str(), found.parent, found.started, found.ticks), ("a) b (c)", 5, 9000, 130));
        assert_eq!(parse("77 (a S 5"), None);
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
        let after = users(&[
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
        ]);
        let found = after.others_since(&before, 10);
        let expected = [("make", 0.7), ("cc", 0.4), ("new", 0.1)];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((name, seconds), (as_expected, of)) in found.iter().zip(expected) {
            assert!(name == as_expected && (seconds - of).abs() < 1e-9, "{found:?}");
        }
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
        let tree = members(&users.0, outermost_of_this_program());
        assert!(tree.contains(&std::process::id()) && tree.contains(&child.id()), "{tree:?}");
        drop(child.stdin.take());
        assert!(child.wait().expect("ended").success());
    }
}
