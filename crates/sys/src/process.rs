//! What a process is to those around it: its parent, its standard output, its memory.
//!
//! An agent speaks frames over the standard output that it was born with. [`take_stdout`] moves that stream out of every
//! library's reach, and [`die_with`] leaves no agent behind when its lab is killed.

use crate::calls::{checked, new_descriptor, was_interrupted};
use std::fs::{self, File};
use std::io;
use std::mem;
use std::ops::AddAssign;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where `program` is along the search path `path`, to be started; a name with a `/` is that path itself.
#[must_use]
pub fn find_program(program: &str, path: &str) -> Option<PathBuf> {
    let runs = |file: &PathBuf| fs::metadata(file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(runs);
    }
    path.split(':').filter(|part| !part.is_empty()).map(|part| Path::new(part).join(program)).find(runs)
}

/// Where `program` is along this process's own search path, and then in the folders `also`: administrators' programs lie where the paths of
/// ordinary users do not lead.
#[must_use]
pub fn installed(program: &str, also: &[&str]) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    find_program(program, &format!("{path}:{}", also.join(":")))
}

/// Asks the kernel for a signal when the thread that started this process ends; 0 asks for none. It is safe between `fork` and `exec`.
///
/// # Errors
/// What `prctl(2)` gives.
pub fn death_signal(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory of ours.
    checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) }).map(drop)
}

/// The same, and that the parent is still the process `parent`: it may have ended between our start and the request, and then the signal
/// never comes. It is safe between `fork` and `exec`.
///
/// # Errors
/// What `prctl(2)` gives; `ESRCH` when the parent has gone.
pub fn die_with(parent: u32, signal: libc::c_int) -> io::Result<()> {
    death_signal(signal)?;
    if std::os::unix::process::parent_id() == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}

/// Whether this process ignores a signal, as `nohup` has its program ignore SIGHUP. `false` where that cannot be read.
#[must_use]
pub fn ignores(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let bit = u32::try_from(signal - 1).ok().and_then(|bit| 1_u64.checked_shl(bit));
    mask.zip(bit).is_some_and(|(mask, bit)| mask & bit != 0)
}

/// Waits until whoever writes to this process's standard input is gone: the pipe has no writer any more, or the other end
/// of the socket has closed. What was written before may still be unread. A file or a terminal never ends this wait.
///
/// # Errors
/// What `poll(2)` gives.
pub fn wait_for_hang_up_of_stdin() -> io::Result<()> {
    let mut watched = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLRDHUP, revents: 0 };
    loop {
        // SAFETY: one pollfd, which lives through the call; -1 is "no time limit".
        let rc = unsafe { libc::poll(&raw mut watched, 1, -1) };
        match rc {
            1.. => return Ok(()),
            _ => was_interrupted()?,
        }
    }
}

/// Hands back the original standard output and lets descriptor 1 lead to standard error from here on, so that no print
/// can corrupt what is written to the original.
///
/// # Errors
/// What `fcntl(2)` or `dup2(2)` gives.
pub fn take_stdout() -> io::Result<File> {
    // SAFETY: F_DUPFD_CLOEXEC changes no descriptor, and the one that it makes is nobody else's.
    let original = unsafe { new_descriptor(libc::fcntl(libc::STDOUT_FILENO, libc::F_DUPFD_CLOEXEC, 3)) }?;
    // SAFETY: both are numbers of standard streams; dup2 closes descriptor 1, whose original is kept above.
    checked(unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) })?;
    Ok(File::from(original))
}

/// The largest resident set that this process has had, in bytes.
///
/// # Errors
/// What `getrusage(2)` gives.
pub fn peak_rss_bytes() -> io::Result<u64> {
    // SAFETY: a rusage is plain numbers; all zeros is a valid one.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `usage` is a rusage that lives through the call.
    checked(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) })?;
    Ok(u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024)
}

/// The memory that this process can still have without swapping, in bytes: the kernel's `MemAvailable`, or what the
/// control group leaves where that is less; pages of files that can be dropped are counted as free by both.
///
/// # Errors
/// What reading `/proc/meminfo` gives; `InvalidData` when it has no such line.
pub fn available_memory_bytes() -> io::Result<u64> {
    Ok(headroom_under(crate::machine::root())?.available())
}

/// That memory, and what of it one program may take, in bytes: of the machine's at least 256 MiB are left to everybody else, of a control group's, in which
/// there may be nobody else, a 32nd.
pub(crate) fn usable_memory_bytes() -> io::Result<(u64, u64)> {
    headroom_under(crate::machine::root()).map(|headroom| (headroom.available(), headroom.usable()))
}

/// The machine's memory, in bytes.
///
/// # Errors
/// What reading `/proc/meminfo` gives; `InvalidData` when it has no such line.
pub fn total_memory_bytes() -> io::Result<u64> {
    kib_field(&fs::read_to_string("/proc/meminfo")?, "MemTotal")
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/meminfo has no MemTotal"))
}

/// Memory that the kernel accounts to a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Proportional set size: resident memory, of which pages that n processes share count one n-th in each.
    pub pss_bytes: u64,
    /// Its page tables.
    pub page_table_bytes: u64,
}

impl AddAssign for MemoryUse {
    fn add_assign(&mut self, other: MemoryUse) {
        self.pss_bytes += other.pss_bytes;
        self.page_table_bytes += other.page_table_bytes;
    }
}

/// The memory of process `pid`, from its `smaps_rollup` (Linux 4.14) and its `status`; `None` when it has ended.
///
/// # Errors
/// What reading them gives, such as that of a process of another user.
pub fn memory_use(pid: u32) -> io::Result<Option<MemoryUse>> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let read = |name: &str| match fs::read_to_string(folder.join(name)) {
        Ok(text) => Ok(Some(text)),
        // ESRCH of one that has ended and was not waited for.
        Err(why) if why.kind() == io::ErrorKind::NotFound || why.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(why) => Err(why),
    };
    let (Some(rollup), Some(status)) = (read("smaps_rollup")?, read("status")?) else { return Ok(None) };
    Ok(kib_field(&rollup, "Pss")
        .map(|pss_bytes| MemoryUse { pss_bytes, page_table_bytes: kib_field(&status, "VmPTE").unwrap_or(0) }))
}

/// The proportional set size of the mappings of process `pid` that have exactly `size` bytes, from its `smaps`: those of a guest's memory in the
/// process that runs it. `None` when it has none, or has ended.
///
/// # Errors
/// What reading gives, such as that of a process of another user.
pub fn pss_of_mappings(pid: u32, size: u64) -> io::Result<Option<u64>> {
    match fs::read_to_string(format!("/proc/{pid}/smaps")) {
        Ok(text) => Ok(pss_of_mappings_in(&text, size)),
        Err(why) if why.kind() == io::ErrorKind::NotFound || why.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(why) => Err(why),
    }
}

fn pss_of_mappings_in(smaps: &str, size: u64) -> Option<u64> {
    // Each mapping's fields begin with its size.
    let mappings = smaps.split("\nSize:").skip(1).map(|rest| format!("Size:{rest}"));
    mappings
        .filter(|mapping| kib_field(mapping, "Size") == Some(size))
        .filter_map(|mapping| kib_field(&mapping, "Pss"))
        .reduce(|sum, pss| sum + pss)
}

/// Makes process `pid` the first that the kernel ends when memory runs out, as far as it lets us.
pub fn end_first(pid: u32) {
    drop(fs::write(format!("/proc/{pid}/oom_score_adj"), "1000"));
}

/// What of the machine's memory is left to everybody else, at least.
const RESERVE_BYTES: u64 = 256 << 20;
/// The part that is left of whatever there is.
const RESERVE_PART: u64 = 32;

/// Bytes that can still be had of the machine, and of the control group, which has a limit then.
#[derive(Clone, Copy, Debug)]
struct Headroom {
    machine: u64,
    group: Option<u64>,
}

impl Headroom {
    fn available(self) -> u64 {
        self.group.map_or(self.machine, |group| group.min(self.machine))
    }

    fn usable(self) -> u64 {
        let of_machine = self.machine.saturating_sub(RESERVE_BYTES.max(self.machine / RESERVE_PART));
        self.group.map_or(of_machine, |group| of_machine.min(group - group / RESERVE_PART))
    }
}

fn headroom_under(root: &Path) -> io::Result<Headroom> {
    let meminfo = fs::read_to_string(root.join("proc/meminfo"))?;
    let machine = kib_field(&meminfo, "MemAvailable").ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "/proc/meminfo has no MemAvailable; Linux 3.14 or later is needed")
    })?;
    Ok(Headroom { machine, group: group_headroom_bytes(root) })
}

/// How a version of control groups says what memory a group may use, and uses.
struct MemoryFiles {
    /// Where the groups are.
    mount: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Fields of `memory.stat`, of a group with all below it: pages of files.
    cached: [&'static str; 2],
    /// Those of them that must be written before they can be dropped.
    unwritten: [&'static str; 2],
}

const SECOND: MemoryFiles = MemoryFiles {
    mount: "sys/fs/cgroup",
    limit: "memory.max",
    used: "memory.current",
    cached: ["inactive_file", "active_file"],
    unwritten: ["file_dirty", "file_writeback"],
};
const FIRST: MemoryFiles = MemoryFiles {
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cached: ["total_inactive_file", "total_active_file"],
    unwritten: ["total_dirty", "total_writeback"],
};

impl MemoryFiles {
    /// What the group at `own` and those around it leave; `None` without one or without a limit.
    fn headroom_bytes(&self, root: &Path, own: &str) -> Option<u64> {
        let folder = |group: &Path| Some(root.join(self.mount).join(group.strip_prefix("/").ok()?));
        let folders = Path::new(own).ancestors().filter_map(folder).filter(|folder| folder.join(self.limit).is_file());
        // In version 1 a group may leave out those below it.
        let is_around = |folder: &Path| {
            fs::read_to_string(folder.join("memory.use_hierarchy")).map_or(true, |value| value.trim() != "0")
        };
        let counts = folders.enumerate().filter(|(distance, folder)| *distance == 0 || is_around(folder));
        counts.filter_map(|(_, folder)| self.left_by(&folder)).min()
    }

    /// What one group leaves. Its use includes pages of files, which the kernel drops where the group needs memory.
    fn left_by(&self, folder: &Path) -> Option<u64> {
        let number = |name: &str| -> Option<u64> { fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok() };
        let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let field =
            |name: &&str| stat.lines().find_map(|line| line.strip_prefix(*name)?.strip_prefix(' ')?.parse().ok());
        let sum = |names: &[&str]| names.iter().filter_map(field).fold(0, u64::saturating_add);
        let dropped = sum(&self.cached).saturating_sub(sum(&self.unwritten));
        Some(number(self.limit)?.saturating_sub(number(self.used)?.saturating_sub(dropped)))
    }
}

/// What our control group and those around it leave to us, at the usual places; `None` without one or without a limit.
fn group_headroom_bytes(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let second = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let first = groups.lines().find_map(|line| {
        let (controllers, own) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "memory").then_some(own)
    });
    let of = |(files, own): (MemoryFiles, Option<&str>)| files.headroom_bytes(root, own.unwrap_or("/"));
    [(SECOND, second), (FIRST, first)].into_iter().filter_map(of).min()
}

/// The field `name` of a file such as `/proc/meminfo`, in bytes.
pub(crate) fn kib_field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn available(root: &Path) -> io::Result<u64> {
        headroom_under(root).map(Headroom::available)
    }

    /// In a container with 256 MiB no memory could be had, since as much was left to others.
    #[test]
    fn a_group_of_the_size_of_the_reserve_can_be_used() {
        const MIB: u64 = 1 << 20;
        let usable = |machine: u64, group: Option<u64>| {
            Headroom { machine: machine * MIB, group: group.map(|of| of * MIB) }.usable() / MIB
        };
        assert_eq!([usable(1024, None), usable(64 << 10, None), usable(100, None)], [768, 62 << 10, 0]);
        assert_eq!([usable(64 << 10, Some(192)), usable(300, Some(192)), usable(1024, Some(0))], [186, 44, 0]);
    }

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            fs::write(path, text).expect("a file");
        }
        dir
    }

    #[test]
    fn mappings_of_a_size_are_found_with_what_is_resident_of_them() {
        let mapping = |size: u64, pss: u64| {
            format!(
                "7f00-7f10 rw-p 00000000 00:00 0 \nSize: {size} kB\nKernelPageSize: 4 kB\nRss: 900 kB\nPss: {pss} kB\nPss_Dirty: 1 kB\n"
            )
        };
        let text = [mapping(8, 3), mapping(64, 20), mapping(640, 40), mapping(64, 5)].concat();
        assert_eq!(pss_of_mappings_in(&text, 64 << 10), Some(25 << 10));
        assert_eq!(pss_of_mappings_in(&text, 32 << 10), None, "none has that size");
        assert_eq!(pss_of_mappings(u32::MAX, 4096).expect("no such process"), None);
    }

    #[test]
    fn a_control_groups_limit_counts_where_it_is_tighter() {
        let meminfo = ("proc/meminfo", "MemTotal: 64 kB\nMemAvailable:       32 kB\n");
        let free = tree(&[meminfo, ("sys/fs/cgroup/memory.max", "max\n"), ("sys/fs/cgroup/memory.current", "1\n")]);
        assert_eq!(available(free.path()).expect("readable"), 32 << 10);
        let tight =
            tree(&[meminfo, ("sys/fs/cgroup/memory.max", "9000\n"), ("sys/fs/cgroup/memory.current", "1000\n")]);
        assert_eq!(available(tight.path()).expect("readable"), 8000);
        let around = tree(&[
            meminfo,
            ("proc/self/cgroup", "4:memory:/elsewhere\n0::/user.slice/job.scope\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "7000\n"),
            ("sys/fs/cgroup/user.slice/memory.current", "1000\n"),
            ("sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/job.scope/memory.current", "500\n"),
        ]);
        assert_eq!(available(around.path()).expect("readable"), 6000, "of the slice around it");
    }

    #[test]
    fn pages_of_files_that_can_be_dropped_are_left_by_a_control_group() {
        const MIB: u64 = 1 << 20;
        let meminfo = ("proc/meminfo", "MemAvailable: 8388608 kB\n");
        // In the form of Linux 6.12: pages of files fill a group of 512 MiB, and most of them are written.
        let stat = "anon 20971520\nfile 503316480\nkernel 9437184\nfile_mapped 4096\nfile_dirty 33554432\n\
                    file_writeback 8388608\ninactive_anon 20971520\nactive_anon 0\ninactive_file 471859200\n\
                    active_file 31457280\nworkingset_refault_file 12\n";
        let second = |name: &'static str, text: &'static str| {
            let own = "sys/fs/cgroup/job";
            let (max, current) = (format!("{own}/memory.max"), format!("{own}/memory.current"));
            let files = [
                meminfo,
                ("proc/self/cgroup", "0::/job\n"),
                (max.as_str(), "536870912\n"),
                (current.as_str(), "535822336\n"),
            ];
            let stat = format!("{own}/{name}");
            available(tree(&[&files[..], &[(stat.as_str(), text)]].concat()).path()).expect("readable")
        };
        assert_eq!(second("memory.pressure", ""), MIB, "what a group uses, where it does not say of what");
        assert_eq!(second("memory.stat", stat), MIB + 450 * MIB + 30 * MIB - 32 * MIB - 8 * MIB);
        assert_eq!(second("memory.stat", "inactive_file 900000000\n"), 512 * MIB, "never more than its limit");
        assert_eq!(second("memory.stat", "inactive_file 1048576\nfile_dirty 2097152\n"), MIB, "nor less than is free");
    }

    #[test]
    fn control_groups_of_version_1_count_too() {
        const MIB: u64 = 1 << 20;
        let of = |own: &'static str, hierarchy: &'static str, around: &'static str| {
            let own_folder = "sys/fs/cgroup/memory/docker/4f";
            let name = |file: &str| format!("{own_folder}/{file}");
            let (limit, used, stat) =
                (name("memory.limit_in_bytes"), name("memory.usage_in_bytes"), name("memory.stat"));
            let files = tree(&[
                ("proc/meminfo", "MemAvailable: 8388608 kB\n"),
                ("proc/self/cgroup", "12:cpu,cpuacct:/elsewhere\n4:hugetlb,memory:/docker/4f\n0::/\n"),
                (&limit, own),
                (&used, "268435456\n"),
                (
                    &stat,
                    "cache 209715200\nrss 4096\ninactive_file 1\nactive_file 1\ndirty 1\ntotal_cache 209715200\n\
                     total_dirty 1048576\ntotal_writeback 1048576\ntotal_inactive_file 104857600\n\
                     total_active_file 94371840\n",
                ),
                ("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", around),
                ("sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "4096\n"),
                ("sys/fs/cgroup/memory/docker/memory.use_hierarchy", hierarchy),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "4294967296\n"),
            ]);
            available(files.path()).expect("readable")
        };
        let free = 44 * MIB + 100 * MIB + 90 * MIB - 2 * MIB;
        assert_eq!(of("314572800\n", "1\n", "9223372036854771712\n"), free);
        assert_eq!(of("314572800\n", "1\n", "1052672\n"), MIB, "of the group around it");
        assert_eq!(of("314572800\n", "0\n", "1052672\n"), free, "one that does not count what is below it");
        assert_eq!(of("9223372036854771712\n", "1\n", "9223372036854771712\n"), 8192 * MIB, "no limit");
    }

    #[test]
    fn a_process_has_memory_of_its_own_until_it_has_ended() {
        let of = memory_use(std::process::id()).expect("our own").expect("we live");
        let resident = total_memory_bytes().expect("a machine has memory");
        assert!(of.pss_bytes > 4096 && of.pss_bytes < resident && of.page_table_bytes > 4096, "{of:?}");
        let mut child = std::process::Command::new("true").spawn().expect("true");
        child.wait().expect("it ends");
        assert_eq!(memory_use(child.id()).expect("no error"), None);
    }

    #[test]
    fn a_meminfo_without_the_field_is_an_error_and_not_zero() {
        let dir = tree(&[("proc/meminfo", "MemTotal: 64 kB\nMemAvailableX: 1 kB\n")]);
        let error = headroom_under(dir.path()).expect_err("no field");
        assert!(error.to_string().contains("no MemAvailable"), "{error}");
    }

    #[test]
    fn this_process_has_memory_and_its_parent_is_checked() {
        assert!(peak_rss_bytes().expect("getrusage") > 1 << 16);
        assert!(available_memory_bytes().expect("meminfo") > 1 << 20);
        let error = die_with(u32::MAX, libc::SIGKILL).expect_err("not our parent");
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
        // SAFETY: takes back the request that the line before made; 0 is "no signal".
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0, 0, 0, 0) }, 0);
    }
}
