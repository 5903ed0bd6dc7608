//! A process and all that it has started: processor time and memory together.
//!
//! Services keep worker processes; what the service costs is what all of them cost. Time of those that ended counts once
//! their parent has waited for them, as proc(5) says of `cutime` and `cstime`.

use crate::calls::checked;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

/// What a tree of processes has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of user and system, in ns.
    pub cpu_ns: u64,
    /// Resident memory, in bytes; what processes share counts in each.
    pub resident_bytes: u64,
    /// Processes that live.
    pub processes: usize,
}

/// What the threads of a tree of processes have waited for, and what its processes moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Time that threads were ready to run and waited for a CPU, in ns, summed over them (`/proc/PID/task/TID/schedstat`).
    pub cpu_wait_ns: u64,
    /// Bytes read from and written to disks (`/proc/PID/io`); 0 where the kernel does not account for them.
    pub disk_bytes: u64,
}

/// What the kernel did for a tree of processes, or for this process, since they began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelWork {
    /// Page faults that read nothing from a disk.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Switches of a thread's context, voluntary and not.
    pub context_switches: u64,
}

/// The same of this process alone with all its threads, those that have ended too.
///
/// # Errors
/// What `getrusage(2)` gives.
pub fn own_kernel_work() -> io::Result<KernelWork> {
    // SAFETY: all fields of a rusage are numbers, of which 0 is one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a rusage that lives through the call.
    checked(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) })?;
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
    Ok(KernelWork {
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        context_switches: count(usage.ru_nvcsw) + count(usage.ru_nivcsw),
    })
}

/// What the kernel did for the process `root` and its descendants. Page faults of those that ended count once they were
/// waited for; their context switches, and those of threads that ended, are lost.
///
/// # Errors
/// What reading `/proc` gives, and that of `root` where it is gone.
pub fn kernel_work(root: u32) -> io::Result<KernelWork> {
    let mut sum = KernelWork::default();
    // Whether there is a process at all, and its counts can be read.
    fs::read_to_string(format!("/proc/{root}/stat"))?;
    for pid in pids(root)? {
        let folder = format!("/proc/{pid}");
        // Threads and processes may end while they are looked at.
        let stat = fs::read_to_string(format!("{folder}/stat")).unwrap_or_default();
        let (minor, major) = faults(&stat).unwrap_or_default();
        (sum.minor_faults, sum.major_faults) = (sum.minor_faults + minor, sum.major_faults + major);
        for task in fs::read_dir(format!("{folder}/task")).into_iter().flatten().flatten() {
            sum.context_switches += switches(&fs::read_to_string(task.path().join("status")).unwrap_or_default());
        }
    }
    Ok(sum)
}

/// Minor and major faults of a line of `stat`, with those of children that were waited for.
fn faults(stat: &str) -> Option<(u64, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at - 3).and_then(|text| text.parse::<u64>().ok());
    Some((number(10)? + number(11)?, number(12)? + number(13)?))
}

/// Context switches of a thread's `status`, of both kinds.
fn switches(status: &str) -> u64 {
    let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
    of("voluntary_ctxt_switches:").unwrap_or(0) + of("nonvoluntary_ctxt_switches:").unwrap_or(0)
}

/// Processor time of a process with all threads that it has had, user and system, in ns; what it started does not count. `None` where it
/// is gone.
#[must_use]
pub fn cpu_ns(pid: u32) -> Option<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: a clock's number that lives through the call.
    let rc = unsafe { libc::clock_getcpuclockid(pid.cast_signed(), &raw mut clock) };
    (rc == 0).then(|| clock_ns(clock))?
}

fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec that lives through the call.
    let rc = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let count = |part: i64| u64::try_from(part).unwrap_or(0);
    (rc == 0).then(|| count(time.tv_sec) * 1_000_000_000 + count(time.tv_nsec))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// It has ended and was not waited for.
    pub(crate) ended: bool,
    /// When it started, in ticks since the machine did: no later process of its number did then.
    pub(crate) started: u64,
    /// Its own ticks, and those of children that it has waited for.
    pub(crate) ticks: u64,
    /// Those of them that are of these children.
    pub(crate) waited_for: u64,
    pages: u64,
}

/// A process, by its number and when it was started: no later one has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// In ticks since the machine's start.
    pub started: u64,
}

impl Process {
    /// The process that has this number now; `None` where there is none that lives.
    pub(crate) fn of(pid: u32) -> Option<Process> {
        Process::with_parent(pid).map(|(process, _)| process)
    }

    /// The same, and the number of its parent.
    pub(crate) fn with_parent(pid: u32) -> Option<(Process, u32)> {
        let entry = parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        (!entry.ended).then_some((Process { pid, started: entry.started }, entry.parent))
    }

    pub(crate) fn is_there(self) -> bool {
        Process::of(self.pid) == Some(self)
    }
}

/// Usage of the process `root` and its descendants; zeros when it is gone.
///
/// # Errors
/// What reading `/proc` gives.
pub fn usage(root: u32) -> io::Result<Usage> {
    Ok(usage_with(&entries()?, root, |_| true))
}

/// The same of programs under a supervisor `root`: memory and number without the processes of its own group. The time of
/// programs that have ended is the supervisor's, so that its own counts as well.
///
/// # Errors
/// What reading `/proc` gives.
pub fn usage_of_tended(root: u32) -> io::Result<Usage> {
    let all = entries()?;
    let own = all.get(&root).map(|entry| entry.group);
    Ok(usage_with(&all, root, |entry| Some(entry.group) != own))
}

/// The program under a supervisor `root`, which has a group of its own; `None` when it is gone.
#[must_use]
pub fn tended(root: u32) -> Option<u32> {
    let all = entries().ok()?;
    let own = all.get(&root)?.group;
    let of_supervisor = |pid: u32| all.get(&pid).is_some_and(|entry| entry.group == own);
    let is_program = |pid: &u32| all.get(pid).is_some_and(|it| it.group != own && of_supervisor(it.parent));
    members(&all, root).into_iter().find(is_program)
}

fn usage_with(all: &BTreeMap<u32, Entry>, root: u32, held: impl Fn(&Entry) -> bool) -> Usage {
    let members = members(all, root);
    let (tick_ns, page) = (tick_ns(), page_bytes());
    members.iter().filter_map(|pid| all.get(pid)).fold(Usage::default(), |sum, entry| {
        let (pages, one) = if held(entry) { (entry.pages, 1) } else { (0, 0) };
        Usage {
            cpu_ns: sum.cpu_ns + entry.ticks * tick_ns,
            resident_bytes: sum.resident_bytes + pages * page,
            processes: sum.processes + one,
        }
    })
}

/// What the process `root` and its descendants have waited for; those that have ended take their part with them.
///
/// # Errors
/// What reading `/proc` gives.
pub fn waits(root: u32) -> io::Result<Waits> {
    let mut sum = Waits::default();
    for pid in pids(root)? {
        let folder = format!("/proc/{pid}");
        // Threads and processes may end while they are looked at.
        for task in fs::read_dir(format!("{folder}/task")).into_iter().flatten().flatten() {
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            sum.cpu_wait_ns += text.split_whitespace().nth(1).and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        }
        let io = fs::read_to_string(format!("{folder}/io")).unwrap_or_default();
        let bytes = |key: &str| io.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
        sum.disk_bytes += bytes("read_bytes:").unwrap_or(0) + bytes("write_bytes:").unwrap_or(0);
    }
    Ok(sum)
}

/// The process `root` and its descendants, those that live.
///
/// # Errors
/// What reading `/proc` gives.
pub fn pids(root: u32) -> io::Result<Vec<u32>> {
    let all = entries()?;
    Ok(members(&all, root).into_iter().filter(|pid| all.contains_key(pid)).collect())
}

/// Processes whose command line, word by word, is one that is looked for; each with those words.
///
/// # Errors
/// What reading `/proc` gives.
pub fn with_command(is: impl Fn(&[String]) -> bool) -> io::Result<Vec<(u32, Vec<String>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process may end while it is looked at; one that has ended has no words.
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<String> =
            line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into()).collect();
        if is(&words) {
            found.push((pid, words));
        }
    }
    Ok(found)
}

/// `root` and its descendants.
pub(crate) fn members(all: &BTreeMap<u32, Entry>, root: u32) -> BTreeSet<u32> {
    let mut members = BTreeSet::from([root]);
    loop {
        let before = members.len();
        let children: Vec<u32> =
            all.iter().filter(|(_, entry)| members.contains(&entry.parent)).map(|(pid, _)| *pid).collect();
        members.extend(children);
        if members.len() == before {
            return members;
        }
    }
}

/// All processes.
pub(crate) fn entries() -> io::Result<BTreeMap<u32, Entry>> {
    entries_below(Path::new("/"))
}

/// The same of a machine whose files are below `root`.
pub(crate) fn entries_below(root: &Path) -> io::Result<BTreeMap<u32, Entry>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(root.join("proc"))?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process may end while it is looked at.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        all.extend(parse(&stat).map(|entry| (pid, entry)));
    }
    Ok(all)
}

/// A process by its line of `stat`, whose second field, the name, may hold blanks and brackets itself.
pub(crate) fn parse(stat: &str) -> Option<Entry> {
    let (head, rest) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at - 3).and_then(|text| text.parse::<u64>().ok());
    let waited_for = number(16)? + number(17)?;
    let ticks = number(14)? + number(15)? + waited_for;
    let (parent, group) = (u32::try_from(number(4)?).ok()?, u32::try_from(number(5)?).ok()?);
    let ended = fields.first().is_some_and(|state| matches!(*state, "Z" | "X"));
    Some(Entry { name, parent, group, ended, started: number(22)?, ticks, waited_for, pages: number(24)? })
}

fn tick_ns() -> u64 {
    // SAFETY: asks for a constant and touches no memory.
    let per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / u64::try_from(per_s).unwrap_or(100).max(1)
}

fn page_bytes() -> u64 {
    // SAFETY: as above.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_and_its_child_count_together() {
        // It fills 32 MiB on one CPU. Since Linux 6.2 as many pages of one CPU as the machine has CPUs, twice, may be missing in the sum: 16 MiB on 2048.
        let cpu = crate::affinity::allowed_cpus().expect("this thread has CPUs")[0].to_string();
        let script = "x=$(head -c 33554432 /dev/zero | tr '\\0' x)
            sleep 600 & a=$!; sleep 600 & echo; read line; kill $a $!; wait";
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu, "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("taskset runs");
        let output = child.stdout.as_mut().expect("it is piped");
        output.read_exact(&mut [0]).expect("it says that both are there");
        let seen = usage(child.id()).expect("/proc");
        drop(child.stdin.take());
        drop(child.wait());
        assert_eq!(seen.processes, 3);
        assert!(seen.resident_bytes >= 16 << 20, "{seen:?}");
        assert_eq!(usage(child.id()).expect("/proc").processes, 0);
    }

    /// Two busy loops on one CPU wait for each other about as long as they run.
    #[test]
    fn threads_that_wait_for_a_cpu_are_seen_to_wait() {
        let cpu = crate::affinity::allowed_cpus().expect("this thread has CPUs").into_iter().next().expect("one");
        let mut command = Command::new("taskset");
        let busy = "(while :; do :; done) & a=$!; (while :; do :; done) & read line; kill $a $!; wait";
        command.args(["-c", &cpu.to_string(), "sh", "-c", busy]).stdin(Stdio::piped());
        let mut child = command.spawn().expect("taskset runs");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let mut seen = Waits::default();
        while seen.cpu_wait_ns < 50_000_000 && std::time::Instant::now() < deadline {
            seen = waits(child.id()).expect("/proc");
        }
        drop(child.stdin.take());
        drop(child.wait());
        assert!(seen.cpu_wait_ns >= 50_000_000, "{seen:?}");
        assert_eq!(waits(child.id()).expect("/proc"), Waits::default(), "it is gone");
    }

    /// A child that writes to memory it has not touched has faults, and each line that it reads is a switch.
    #[test]
    fn faults_and_switches_of_a_child_are_counted() {
        let mut command = Command::new("sh");
        // Every line makes the string longer, by what another process prints; the answer says that it is done.
        command.args(["-c", "text=; while read line; do text=$text$(printf %100000s); echo; done"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh runs");
        let (mut input, mut output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let mut line = || {
            input.write_all(b"\n").expect("it reads");
            output.read_exact(&mut [0]).expect("it answers");
        };
        line();
        let before = kernel_work(child.id()).expect("it lives");
        (0..50).for_each(|_| line());
        let after = kernel_work(child.id()).expect("it lives");
        drop(input);
        drop(child.wait());
        assert!(after.minor_faults >= before.minor_faults + 50, "{before:?} {after:?}");
        assert!(after.context_switches >= before.context_switches + 50, "{before:?} {after:?}");
        assert!(kernel_work(child.id()).is_err(), "it is gone");
        let own = own_kernel_work().expect("getrusage");
        assert!(own.minor_faults > 0 && own_kernel_work().expect("getrusage").minor_faults >= own.minor_faults);
    }

    #[test]
    fn kinds_of_faults_and_switches_are_added_up() {
        let stat = "7 (a) S 1 7 7 0 -1 4194560 10 20 3 4 3 4 5 6 20 0 1 0 100 1000 25 18446744073709551615";
        assert_eq!((faults(stat), faults("7 (a) S 1")), (Some((30, 7)), None));
        assert_eq!(switches("Name:\ta\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n"), 695);
    }

    #[test]
    fn a_name_with_brackets_is_read() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 10 0 0 0 3 4 5 6 20 0 1 0 100 1000 25 18446744073709551615";
        let entry = parse(stat).expect("a line of stat");
        assert_eq!((entry.parent, entry.group, entry.ended), (1, 7, false));
        assert_eq!((entry.ticks, entry.pages), (18, 25));
    }
}
