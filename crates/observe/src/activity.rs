//! Who uses this machine: guests, containers and processes, each with CPU time, time ready without a CPU, memory, disk and network.
//!
//! `/proc` is read once a lap: one file for each process, and the run-queue delay of every thread of those that ran. I/Os are traced
//! (`baremark_trace`), with the time in the queue and at the device apart; where that is not possible they are absent with the reason.
//! Networks are those of containers with a network namespace of their own; the kernel does not count packets by process.

use baremark_trace::disk::{Direction, DiskTrace, Snapshot};
use baremark_trace::netdev;
use baremark_trace::owner::{Kind, Owner, container};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Nanoseconds of a tick (`USER_HZ` is 100 on every Linux of this architecture).
const TICK_NS: u64 = 10_000_000;
const PAGE_BYTES: u64 = 4096;

/// Who.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    /// Guest, container or process.
    pub kind: Kind,
    /// The container's number, else the process's.
    pub id: String,
}

/// I/Os of a lap.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disk {
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Nanoseconds in queues, summed over both.
    pub queue_ns: u64,
    /// Nanoseconds at devices, summed over both.
    pub device_ns: u64,
}

impl Disk {
    /// I/Os.
    #[must_use]
    pub fn ios(&self) -> u64 {
        self.reads + self.writes
    }

    /// Mean milliseconds of an I/O in the queue and at the device; `None` without any I/O.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    pub fn latency_ms(&self) -> Option<(f64, f64)> {
        let mean = |ns: u64| ns as f64 / self.ios() as f64 / 1e6;
        (self.ios() > 0).then(|| (mean(self.queue_ns), mean(self.device_ns)))
    }
}

/// What one of them did in a lap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Used {
    /// The process's name, or that of the container's first.
    pub name: String,
    /// Processes.
    pub processes: u32,
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Nanoseconds in which threads were ready and had no CPU, summed over threads.
    pub ready_ns: u64,
    /// Resident memory in bytes; pages that processes share count for each.
    pub rss_bytes: u64,
    /// Page faults that read from a disk.
    pub major_faults: u64,
    /// I/Os; `None` where they are not traced.
    pub disk: Option<Disk>,
    /// Bytes received and sent; `None` but for containers with a network namespace of their own.
    pub network: Option<(u64, u64)>,
}

/// What happened in a lap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lap {
    /// How long it lasted.
    pub seconds: f64,
    /// Everybody who exists.
    pub used: BTreeMap<Who, Used>,
}

/// A process as it was at the last lap.
#[derive(Debug)]
struct Process {
    owner: Owner,
    /// Whether its network namespace is another than ours.
    own_network: bool,
    cpu_ticks: u64,
    major_faults: u64,
    /// Run-queue delay by thread.
    delays: HashMap<u32, u64>,
}

/// Looks at everybody.
#[derive(Debug)]
pub struct Activity {
    proc: PathBuf,
    /// By number and start time, so that a number used again is another process.
    processes: HashMap<(u32, u64), Process>,
    networks: HashMap<String, (u64, u64)>,
    own_network: Option<PathBuf>,
    trace: Result<DiskTrace, String>,
    disk: Snapshot,
    last: Instant,
}

/// The fields of `/proc/PID/stat` that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stat {
    comm: String,
    /// Whether it runs or could: it may have waited for a CPU all along.
    runnable: bool,
    cpu_ticks: u64,
    major_faults: u64,
    threads: u64,
    started: u64,
    rss_pages: u64,
}

fn stat(text: &str) -> Option<Stat> {
    // A name may hold spaces and brackets; the last one ends it.
    let (head, rest) = text.rsplit_once(')')?;
    let comm = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Field 3, the state, is the first here (proc(5)).
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        comm,
        runnable: fields.first() == Some(&"R"),
        cpu_ticks: field(14)? + field(15)?,
        major_faults: field(12)?,
        threads: field(20)?,
        started: field(22)?,
        rss_pages: field(24)?,
    })
}

impl Activity {
    /// Begins, on this machine.
    #[must_use]
    pub fn start() -> Self {
        Activity::of(Path::new("/proc"), DiskTrace::start().map_err(|why| why.to_string()))
    }

    fn of(proc: &Path, trace: Result<DiskTrace, String>) -> Self {
        let mut activity = Activity {
            proc: proc.to_owned(),
            processes: HashMap::new(),
            networks: HashMap::new(),
            own_network: fs::read_link(proc.join("self/ns/net")).ok(),
            trace,
            disk: Snapshot::default(),
            last: Instant::now(),
        };
        activity.lap();
        activity
    }

    /// Why I/Os are not traced; `None` where they are.
    #[must_use]
    pub fn no_disk(&self) -> Option<&str> {
        self.trace.as_ref().err().map(String::as_str)
    }

    /// What happened since the last lap. Of a process that ended nothing is known but its I/Os.
    pub fn lap(&mut self) -> Lap {
        let first = self.processes.is_empty();
        let mut used: BTreeMap<Who, Used> = BTreeMap::new();
        let mut before = std::mem::take(&mut self.processes);
        let mut namespaces: BTreeMap<Who, u32> = BTreeMap::new();
        for number in numbers(&self.proc) {
            let folder = self.proc.join(number.to_string());
            let Some(stat) = fs::read_to_string(folder.join("stat")).ok().and_then(|text| stat(&text)) else {
                continue;
            };
            let known = before.remove(&(number, stat.started));
            let is_new = known.is_none();
            let mut process = known.unwrap_or_else(|| self.meet(&folder, &stat));
            let ready_ns = match first || is_new || stat.runnable || process.cpu_ticks != stat.cpu_ticks {
                true => process.wait(&folder, number, stat.threads, first),
                false => 0,
            };
            let who = who(&process.owner, number);
            let of = used.entry(who.clone()).or_insert_with(|| Used { name: stat.comm.clone(), ..Used::default() });
            of.processes += 1;
            of.rss_bytes += stat.rss_pages * PAGE_BYTES;
            if !first {
                of.ready_ns += ready_ns;
                of.cpu_ns += stat.cpu_ticks.saturating_sub(process.cpu_ticks) * TICK_NS;
                of.major_faults += stat.major_faults.saturating_sub(process.major_faults);
            }
            if process.own_network && who.kind == Kind::Container {
                namespaces.entry(who).or_insert(number);
            }
            (process.cpu_ticks, process.major_faults) = (stat.cpu_ticks, stat.major_faults);
            self.processes.insert((number, stat.started), process);
        }
        self.networks(&namespaces, &mut used);
        self.disks(&mut used);
        let seconds = self.last.elapsed().as_secs_f64();
        self.last = Instant::now();
        Lap { seconds, used }
    }

    /// A process that was not there at the last lap: all that it has done was since then.
    fn meet(&self, folder: &Path, stat: &Stat) -> Process {
        let group = fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
        let network = fs::read_link(folder.join("ns/net")).ok();
        let own_network = network.is_some() && network != self.own_network;
        let owner = Owner { comm: stat.comm.clone(), group };
        Process { owner, own_network, cpu_ticks: 0, major_faults: 0, delays: HashMap::new() }
    }

    /// Adds what the containers' interfaces have carried. The first reading of a container is where it begins.
    fn networks(&mut self, namespaces: &BTreeMap<Who, u32>, used: &mut BTreeMap<Who, Used>) {
        let mut now = HashMap::new();
        for (who, number) in namespaces {
            let text = fs::read_to_string(self.proc.join(format!("{number}/net/dev"))).unwrap_or_default();
            let interfaces = netdev::parse(&text).into_iter().filter(|(name, _)| name != "lo");
            let sum = interfaces
                .fold((0, 0), |(to, from), (_, counts)| (to + counts.received_bytes, from + counts.sent_bytes));
            if let (Some((to, from)), Some(of)) = (self.networks.get(&who.id), used.get_mut(who)) {
                of.network = Some((sum.0.saturating_sub(*to), sum.1.saturating_sub(*from)));
            }
            now.insert(who.id.clone(), sum);
        }
        self.networks = now;
    }

    /// Adds the I/Os.
    fn disks(&mut self, used: &mut BTreeMap<Who, Used>) {
        let Ok(trace) = &self.trace else { return };
        let now = match trace.snapshot() {
            Ok(now) => now,
            Err(why) => {
                self.trace = Err(why.to_string());
                return;
            }
        };
        let grown = now.since(&self.disk);
        let none = Owner::default();
        for (key, ios) in &grown.ios {
            let owner = grown.owners.get(&key.process).unwrap_or(&none);
            let of = used
                .entry(who(owner, key.process))
                .or_insert_with(|| Used { name: owner.comm.clone(), ..Used::default() });
            let disk = of.disk.get_or_insert_default();
            match key.direction {
                Direction::Read => {
                    (disk.reads, disk.read_bytes) = (disk.reads + ios.count, disk.read_bytes + ios.bytes)
                }
                Direction::Write => {
                    (disk.writes, disk.write_bytes) = (disk.writes + ios.count, disk.write_bytes + ios.bytes)
                }
                Direction::Discard => continue,
            }
            disk.queue_ns += ios.queue_ns;
            disk.device_ns += ios.device_ns;
        }
        for of in used.values_mut() {
            of.disk.get_or_insert_default();
        }
        self.disk = now;
    }
}

fn numbers(proc: &Path) -> Vec<u32> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn who(owner: &Owner, number: u32) -> Who {
    match (owner.kind(), container(&owner.group)) {
        (Kind::Container, Some(id)) => Who { kind: Kind::Container, id: id.to_owned() },
        (kind, _) => Who { kind, id: number.to_string() },
    }
}

impl Process {
    /// What its threads have waited since the last lap in which they were read. At the `first` lap there is none before.
    fn wait(&mut self, folder: &Path, number: u32, threads: u64, first: bool) -> u64 {
        let single = || vec![(number, folder.join("schedstat"))];
        let each = || {
            let tasks = folder.join("task");
            numbers(&tasks).into_iter().map(|thread| (thread, tasks.join(format!("{thread}/schedstat")))).collect()
        };
        let files: Vec<(u32, PathBuf)> = if threads > 1 { each() } else { single() };
        let delay = |text: String| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok();
        let read = |(thread, path): (u32, PathBuf)| Some((thread, fs::read_to_string(path).ok().and_then(delay)?));
        let delays: HashMap<u32, u64> = files.into_iter().filter_map(read).collect();
        let grown =
            delays.iter().map(|(thread, now)| now.saturating_sub(self.delays.get(thread).copied().unwrap_or(0)));
        let ready = if first { 0 } else { grown.sum() };
        self.delays = delays;
        ready
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    struct Recorded(tempfile::TempDir);

    impl Recorded {
        fn write(&self, name: &str, text: &str) {
            let path = self.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// A process with this CPU time in ticks and run-queue delays of its threads.
        fn process(&self, number: u32, comm: &str, ticks: u64, delays: &[u64]) {
            self.process_in("S", number, comm, ticks, delays);
        }

        fn process_in(&self, state: &str, number: u32, comm: &str, ticks: u64, delays: &[u64]) {
            let zeroes = |count: usize| vec!["0"; count].join(" ");
            let threads = delays.len();
            let line =
                format!("{number} ({comm}) {state} {} 3 0 {ticks} 0 {} {threads} 0 77 0 10 0", zeroes(8), zeroes(4));
            self.write(&format!("{number}/stat"), &line);
            self.write(&format!("{number}/schedstat"), &format!("1 {} 1\n", delays[0]));
            for (thread, delay) in delays.iter().enumerate() {
                self.write(&format!("{number}/task/{}/schedstat", number as usize + thread), &format!("1 {delay} 1\n"));
            }
        }
    }

    fn of(kind: Kind, id: &str) -> Who {
        Who { kind, id: id.to_owned() }
    }

    #[test]
    fn processes_of_a_container_are_one_and_all_threads_wait() {
        let proc = Recorded(tempfile::tempdir().unwrap());
        let id = "0123456789abcdef".repeat(4);
        proc.process(10, "a (b) c", 100, &[1_000, 2_000]);
        proc.process(20, "postgres", 50, &[500]);
        proc.process(21, "postgres", 60, &[700]);
        proc.process(30, "qemu-system-x86", 5, &[0]);
        for number in [20, 21] {
            proc.write(&format!("{number}/cgroup"), &format!("3:pids:/libpod_parent/libpod-{id}\n0::/\n"));
        }
        let mut activity = Activity::of(proc.0.path(), Err("no root".to_owned()));
        proc.process(10, "a (b) c", 130, &[1_500, 2_900]);
        proc.process(20, "postgres", 51, &[800]);
        proc.process(21, "postgres", 61, &[900]);
        proc.process(40, "new", 2, &[40]);
        let lap = activity.lap();
        let process = &lap.used[&of(Kind::Process, "10")];
        assert_eq!((process.name.as_str(), process.cpu_ns, process.ready_ns), ("a (b) c", 300_000_000, 1_400));
        assert_eq!((process.rss_bytes, process.disk, process.network), (40_960, None, None));
        let container = &lap.used[&of(Kind::Container, "0123456789ab")];
        assert_eq!((container.processes, container.cpu_ns, container.ready_ns), (2, 20_000_000, 500));
        assert_eq!(lap.used[&of(Kind::Guest, "30")].cpu_ns, 0);
        let new = &lap.used[&of(Kind::Process, "40")];
        assert_eq!((new.cpu_ns, new.ready_ns), (20_000_000, 40), "all of it was since the last lap");
        assert_eq!(activity.no_disk(), Some("no root"));
        assert_eq!(activity.lap().used[&of(Kind::Process, "10")].cpu_ns, 0);
    }

    /// It used no tick of CPU time since the last lap, because others had the CPU all along.
    #[test]
    fn a_process_that_only_waits_for_a_cpu_is_seen_to_wait() {
        let proc = Recorded(tempfile::tempdir().unwrap());
        proc.process_in("R", 10, "starved", 100, &[1_000]);
        proc.process(20, "asleep", 100, &[1_000]);
        let mut activity = Activity::of(proc.0.path(), Err("no root".to_owned()));
        proc.process_in("R", 10, "starved", 100, &[4_000_000]);
        let lap = activity.lap();
        let ready = |id: &str| lap.used[&of(Kind::Process, id)].ready_ns;
        assert_eq!([ready("10"), ready("20")], [3_999_000, 0]);
    }

    #[test]
    fn a_line_that_is_cut_is_no_process() {
        assert_eq!(stat("12 (x) S 1 2"), None);
        assert_eq!(stat(""), None);
    }
}
