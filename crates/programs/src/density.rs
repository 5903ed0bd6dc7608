//! `density`: how many copies of a small server fit on this machine in a place, and what memory each takes.
//!
//! Copies of the server of [`crate::small_server`] are started one after another. Whenever their number has doubled all of them are
//! tested: idle copies must answer a request each, lightly loaded ones answer `rate` requests a second each, and the 99th percentile
//! of the latency, counted from the intended start of each request, must keep the limit. A number that fails is tested a second time.
//! Between the last number that passed and the first that failed the most is found by bisection.
//!
//! Memory by copy is what the kernel accounts to its processes: PSS, in which shared pages count in parts, and page tables. What the
//! kernel keeps for a copy elsewhere (sockets, control groups, shadow page tables) is only in the decrease of MemAvailable, which every
//! other program on the machine changes as well.
//!
//! It never brings the machine out of memory: a copy is started only if `reserve` of the memory would be left after a copy of twice the
//! largest size so far, and copies are the first that the kernel would end.

use crate::counts::counts;
use crate::server_failure::ServerFailure;
use crate::small_server::{ACCEL, Connection, GUEST_MEMORY, KERNEL, Launcher, PLACE, RUNTIME, Server};
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::Descriptor;
use baremark_model::hdr;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::knob::{Default, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::Sample;
use baremark_model::units::{Nanos, Share};
use baremark_model::wire::{Detail, Point};
use baremark_stats::percentile::sample_floor;
use baremark_sys::affinity;
use baremark_sys::clock::monotonic_ns;
use baremark_sys::held_back::quota_millicpus;
use baremark_sys::machine;
use baremark_sys::process::{self, MemoryUse};
use baremark_sys::process_tree;
use baremark_sys::wake::{no_slack, sleep_until};
use hdrhistogram::Histogram;
use serde_json::json;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Copies of the first test.
const FIRST: u64 = 4;
/// Copies that one thread loads.
const A_THREAD: usize = 8;
/// The shortest test under load, in nanoseconds.
const SHORTEST_NS: u64 = 1_000_000_000;
/// The percentile that has the limit.
const PERCENTILE: f64 = 0.99;
/// What the first copy is taken to need before anything is known of it, in addition to the memory of a guest.
pub(crate) const FIRST_BYTES: u64 = 256 << 20;

const LOAD: Knob = Knob::new("load", Kind::Choice(&["idle", "light"]), Default::Typed("idle"))
    .help("what the copies do: idle copies answer one request in each test, lightly loaded ones `rate` a second");

const RATE: Knob = Knob::new("rate", Kind::Count { min: 1, max: 10_000 }, Default::Typed("100"))
    .help("requests a second to each copy, under a light load");

const LATENCY: Knob = Knob::new("limit", Kind::Time { min: 10_000, max: 60_000_000_000 }, Default::Typed("10 ms"))
    .help("limit of the 99th percentile of the latency, under a light load");

const RESERVE: Knob = Knob::new("reserve", Kind::Percent { min: 0.02, max: 1.0 }, Default::Typed("10 %"))
    .help("share of the machine's memory that copies leave free");

const MOST: Knob =
    Knob::new("most", Kind::Count { min: 1, max: 4096 }, Default::Typed("64")).help("most copies that are started");

static METRICS: [Metric; 8] = [
    Metric::lower("memory_mib", "MiB", Aggregate::Mean).help("memory by copy: PSS and page tables of its processes"),
    Metric::higher("copies", "1", Aggregate::Mean)
        .help("most copies that kept every limit; absent where more were not started for `most` alone"),
    Metric::higher("fit", "1", Aggregate::Mean).help(
        "copies that memory and CPUs bound, extrapolated from memory_mib to the memory above the reserve and, \
         under a light load, from cpu to the CPUs: an upper bound, for what the kernel keeps and does for a \
         copy outside of its processes is not in it; the result says which bounds",
    ),
    Metric::lower("cpu", "%", Aggregate::Mean).help("share of one CPU that a copy's processes use, under a light load"),
    Metric::lower("overhead_mib", "MiB", Aggregate::Mean)
        .help("memory by copy that is not the guest's own: the emulator and its page tables; QEMU guests alone"),
    Metric::lower("page_tables_kib", "KiB", Aggregate::Mean).help("page tables by copy"),
    Metric::lower("available_mib", "MiB", Aggregate::Mean).help(
        "decrease of MemAvailable by copy, in which whatever else happened on the machine is; absent where it \
         increased",
    ),
    Metric::lower("latency_p99_ms", "ms", Aggregate::Mean)
        .help("latency of the most copies, 99th percentile, under a light load"),
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "density",
    help: "how many idle or lightly loaded copies of a small server fit, and the memory of each, as processes, in microVMs, in containers, \
           in gVisor or in QEMU guests",
    source: "this program",
    parameters: &[PLACE, RUNTIME, ACCEL, KERNEL, GUEST_MEMORY, LOAD, RATE, LATENCY, RESERVE, MOST],
    metrics: &METRICS,
    quick: &[("most", "4")],
    stops_on_interrupt: true,
    ..Descriptor::JOB
};

/// Copies by machine.
#[derive(Clone, Copy, Debug)]
pub struct Density;

impl Job for Density {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let (Nanos(limit_ns), Share(reserve)) = (LATENCY.get(arm)?, RESERVE.get(arm)?);
        Ok(Box::new(PreparedCopies {
            launcher: Launcher::of(arm, &around)?,
            rate: if LOAD.get::<String>(arm)? == "light" { Some(RATE.get(arm)?) } else { None },
            limit_ns,
            reserve,
            max: MOST.get(arm)?,
            interrupt: Arc::clone(around.interrupt),
        }))
    }
}

struct PreparedCopies {
    launcher: Launcher,
    /// Requests a second to each copy; `None` for idle ones.
    rate: Option<u64>,
    limit_ns: u64,
    reserve: f64,
    max: u64,
    interrupt: Arc<AtomicBool>,
}

/// Why no more copies were started.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Bound {
    Max,
    Reserve,
    Latency,
    Start(String),
}

/// The result of one test.
#[derive(Clone, Debug)]
struct Level {
    copies: u64,
    /// The 99th percentile of the latency in nanoseconds, of loaded copies.
    latency_ns: Option<u64>,
    /// All latencies of the test, as [`hdr::encoded`] writes them.
    latencies: Option<String>,
    /// How long the test lasted, in nanoseconds.
    lasted_ns: u64,
    /// CPUs that all copies together used, of loaded copies.
    cpus_used: Option<f64>,
    passed: bool,
}

/// The copies that run, and what memory the largest number of them took.
#[derive(std::default::Default)]
struct Copies {
    servers: Vec<Server>,
    memory: Option<Memory>,
    /// The most that one copy took, in bytes.
    largest_bytes: u64,
}

/// Memory of `copies` copies.
#[derive(Clone, Copy, Debug)]
struct Memory {
    copies: u64,
    of: MemoryUse,
    /// What of it is the guests' own memory; 0 where there are none, or where it is not known of all.
    guest_bytes: u64,
    available_bytes: u64,
}

impl Memory {
    /// That of one copy, in bytes.
    fn of_copy_bytes(&self) -> f64 {
        count(self.of.pss_bytes + self.of.page_table_bytes) / count(self.copies)
    }
}

impl ReadyJob for PreparedCopies {
    fn works_in_own_processes(&self) -> bool {
        self.launcher.starts_own_processes()
    }

    fn run(&mut self) -> Result<JobRun, JobError> {
        let before = available()?;
        let mut copies = Copies::default();
        let (levels, bound) = search(self.max, |target| self.at(&mut copies, target))?;
        let memory = copies.memory.ok_or_else(|| JobError::failed("the memory of no copy was read"))?;
        copies.shrink(0).map_err(JobError::failed)?;
        let most = levels.iter().filter(|level| level.passed).max_by_key(|level| level.copies);
        let most = most.ok_or_else(|| JobError::failed("one copy alone does not keep the limit; raise `limit`"))?;
        // Where the search found what bounds the copies, nothing is extrapolated.
        let room = if bound == Bound::Max { self.room(most, &memory, before)? } else { None };
        let told = match (&bound, &room) {
            (Bound::Max, Some(room)) => format!("at least {} copies keep every limit (most); {room}", most.copies),
            (Bound::Max, None) => format!(
                "at least {} copies keep every limit (most); the CPU time of a copy is unknown, and with it how many fit",
                most.copies
            ),
            (Bound::Reserve, _) => format!("{} copies fit above the reserve of memory", most.copies),
            (Bound::Latency, _) => format!("{} copies kept the limit of latency", most.copies),
            (Bound::Start(why), _) => format!("{} copies ran, and the next did not start: {why}", most.copies),
        };
        let mut flags = self.launcher.remarks();
        if bound == Bound::Max {
            flags.push(format!("{}: ceiling reached: {told}; raise most", self.launcher.place()));
        }
        let mut samples = self.samples(most, &memory, before);
        if bound != Bound::Max {
            samples.push(Sample::new("copies", count(most.copies)));
        }
        samples.extend(room.map(|room| Sample::new("fit", room.fit())));
        let rows: Vec<_> = levels.iter().map(row).collect();
        Ok(JobRun {
            samples,
            checked: told.clone(),
            flags,
            points: most.point().into_iter().collect(),
            detail: Some(Detail {
                format: "baremark-density/1".to_owned(),
                document: json!({ "place": self.launcher.place(), "levels": rows, "result": told }),
            }),
            ..JobRun::default()
        })
    }
}

impl Level {
    /// The latencies, of which the 99th percentile is a metric; `None` of idle copies.
    fn point(&self) -> Option<Point> {
        let latencies = self.latencies.clone()?;
        Some(Point::new("all", (0, self.lasted_ns), Vec::new(), Some(latencies)).of(&["latency_ms"]))
    }
}

fn row(level: &Level) -> serde_json::Value {
    json!({ "copies": level.copies, "latency_p99_ns": level.latency_ns, "cpus_used": level.cpus_used, "passed": level.passed })
}

impl PreparedCopies {
    fn interrupted(&self) -> Result<(), JobError> {
        if self.interrupt.load(Ordering::Acquire) { Err(JobError::Interrupted) } else { Ok(()) }
    }

    /// Brings the number of copies to `target` and tests them; why there are fewer, where that is so.
    fn at(&self, copies: &mut Copies, target: u64) -> Result<(Level, Option<Bound>), JobError> {
        copies.shrink(target).map_err(JobError::failed)?;
        let bound = self.grow(copies, target)?;
        copies.weigh(self.launcher.guest_memory_bytes()).map_err(failed)?;
        let mut level = self.test(&copies.servers)?;
        if !level.passed {
            level = self.test(&copies.servers)?;
        }
        Ok((level, bound))
    }

    /// Starts copies until there are `target`; why there are fewer, where that is so.
    fn grow(&self, copies: &mut Copies, target: u64) -> Result<Option<Bound>, JobError> {
        while copies.count() < target {
            self.interrupted()?;
            let guest = self.launcher.guest_memory_bytes().unwrap_or(0);
            let needed =
                if copies.largest_bytes == 0 { FIRST_BYTES + guest } else { guest.max(2 * copies.largest_bytes) };
            if !leaves_reserve(available()?, needed, process::total_memory_bytes().map_err(failed)?, self.reserve) {
                return match copies.count() {
                    0 => Err(JobError::Missing {
                        what: "less memory is available than the reserve and one copy".to_owned(),
                        remedy: "end other programs, or lower `reserve`".to_owned(),
                    }),
                    _ => Ok(Some(Bound::Reserve)),
                };
            }
            match self.launcher.launch() {
                Ok(server) => copies.add(server).map_err(failed)?,
                Err(why) if copies.count() > 0 => return Ok(Some(Bound::Start(why.to_string()))),
                Err(why) => return Err(JobError::failed(format!("{}: {why}", self.launcher.place()))),
            }
        }
        Ok(None)
    }

    fn test(&self, servers: &[Server]) -> Result<Level, JobError> {
        self.interrupted()?;
        let copies = servers.len() as u64;
        let Some(rate) = self.rate else {
            servers.iter().try_for_each(Server::request).map_err(JobError::failed)?;
            return Ok(Level {
                copies,
                latency_ns: None,
                latencies: None,
                lasted_ns: 0,
                cpus_used: None,
                passed: true,
            });
        };
        let least = sample_floor(PERCENTILE, 0.95).unwrap_or(0);
        let lasts_ns = SHORTEST_NS.max(least.saturating_mul(1_000_000_000) / (rate * copies));
        let (begun_ns, before_ns) = (monotonic_ns(), cpu_ns(servers));
        let parts = thread::scope(|scope| {
            let parts: Vec<_> =
                servers.chunks(A_THREAD).map(|part| scope.spawn(move || loaded(part, rate, lasts_ns))).collect();
            let joined = parts.into_iter().map(|part| part.join().unwrap_or(Err(ServerFailure::Panicked)));
            joined.collect::<Result<Vec<_>, _>>()
        });
        let lasted_ns = monotonic_ns() - begun_ns;
        let mut latencies = room();
        for part in parts.map_err(JobError::failed)? {
            latencies.add(part).map_err(JobError::failed)?;
        }
        let latency_ns = latencies.value_at_quantile(PERCENTILE);
        let used_ns = cpu_ns(servers).zip(before_ns).map(|(now, before)| now.saturating_sub(before));
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a test")]
        let cpus_used = used_ns.map(|ns| ns as f64 / lasted_ns.max(1) as f64);
        Ok(Level {
            copies,
            latency_ns: Some(latency_ns),
            latencies: hdr::encoded(&counts(&latencies)),
            lasted_ns,
            cpus_used,
            passed: latency_ns <= self.limit_ns,
        })
    }

    /// How many copies memory and CPUs bound, by what one took of each; `None` under a load whose CPU time is unknown.
    fn room(&self, most: &Level, memory: &Memory, before: u64) -> Result<Option<Room>, JobError> {
        let total = process::total_memory_bytes().map_err(failed)?;
        let above_reserve = count(before) - self.reserve * count(total);
        let by_memory = above_reserve / memory.of_copy_bytes();
        // Containers have control groups of their engine's, which the quota of this program's need not be around.
        let quota = quota_millicpus(machine::root()).filter(|_| self.works_in_own_processes());
        let cpus = usable_cpus(affinity::allowed_cpus().map_err(failed)?.len() as u64, quota);
        let by_cpus = most.cpus_used.map(|used| cpus * count(most.copies) / used.max(1e-9));
        Ok((self.rate.is_none() || by_cpus.is_some()).then_some(Room { by_memory, by_cpus, cpus }))
    }

    #[expect(clippy::cast_precision_loss, reason = "bytes and counts far below 2^53")]
    fn samples(&self, most: &Level, memory: &Memory, before: u64) -> Vec<Sample> {
        let each = |bytes: u64| bytes as f64 / memory.copies as f64;
        let mut samples = vec![
            Sample::new("memory_mib", memory.of_copy_bytes() / f64::from(1 << 20)),
            Sample::new("page_tables_kib", each(memory.of.page_table_bytes) / 1024.0),
        ];
        samples.extend(most.cpus_used.map(|used| Sample::new("cpu", 100.0 * used / most.copies as f64)));
        if memory.guest_bytes > 0 {
            let others = memory.of.pss_bytes.saturating_sub(memory.guest_bytes) + memory.of.page_table_bytes;
            samples.push(Sample::new("overhead_mib", each(others) / f64::from(1 << 20)));
        }
        let taken = before.saturating_sub(memory.available_bytes);
        if taken > 0 {
            samples.push(Sample::new("available_mib", each(taken) / f64::from(1 << 20)));
        }
        samples.extend(most.latency_ns.map(|ns| Sample::new("latency_p99_ms", ns as f64 / 1e6)));
        samples
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes and counts far below 2^53")]
fn count(of: u64) -> f64 {
    of as f64
}

/// CPUs whose time copies can use where this program may run on `allowed` of them, or the fewer that a quota permits, in thousandths of a CPU.
fn usable_cpus(allowed: u64, quota: Option<u32>) -> f64 {
    quota.map_or(count(allowed), |quota| count(allowed).min(f64::from(quota) / 1e3))
}

/// How many copies a resource bounds, extrapolated from what one took of it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Room {
    by_memory: f64,
    /// `None` of idle copies.
    by_cpus: Option<f64>,
    cpus: f64,
}

impl Room {
    /// By the resource that bounds first.
    fn fit(&self) -> f64 {
        self.by_cpus.map_or(self.by_memory, |by_cpus| by_cpus.min(self.by_memory)).floor().max(1.0)
    }
}

impl Display for Room {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let unit = if self.cpus.total_cmp(&1.0).is_eq() { "CPU" } else { "CPUs" };
        match self.by_cpus {
            None => write!(f, "by memory alone, of idle copies, {:.0} would fit", self.fit()),
            Some(by_cpus) if by_cpus < self.by_memory => write!(
                f,
                "{} {unit} bound first, at {by_cpus:.0} by what a copy used of them; memory would at {:.0}",
                self.cpus, self.by_memory
            ),
            Some(by_cpus) => write!(
                f,
                "memory bounds first, at {:.0} by what a copy took of it; {} {unit} would at {by_cpus:.0}",
                self.by_memory, self.cpus
            ),
        }
    }
}

/// Doubles the copies until a test fails or no more may be started, then bisects. `at` brings their number to what it is called with,
/// or to fewer with the reason, and tests them.
fn search<E>(max: u64, mut at: impl FnMut(u64) -> Result<(Level, Option<Bound>), E>) -> Result<(Vec<Level>, Bound), E> {
    let mut levels = Vec::new();
    let (mut passed, mut target) = (0, FIRST.min(max));
    let mut failed = loop {
        let (level, bound) = at(target)?;
        let (keeps, copies) = (level.passed, level.copies);
        levels.push(level);
        match (keeps, bound) {
            (false, _) => break copies,
            (true, Some(bound)) => return Ok((levels, bound)),
            (true, None) if target == max => return Ok((levels, Bound::Max)),
            (true, None) => (passed, target) = (copies, (2 * target).min(max)),
        }
    };
    while failed - passed > 1 {
        let middle = u64::midpoint(passed, failed);
        let (level, bound) = at(middle)?;
        let (keeps, copies) = (level.passed, level.copies);
        levels.push(level);
        match (keeps, bound) {
            (true, Some(bound)) => return Ok((levels, bound)),
            (true, None) => passed = middle,
            (false, _) => failed = copies,
        }
    }
    Ok((levels, Bound::Latency))
}

/// Whether `reserve` of the total is left when `needed` bytes of those available are taken.
#[expect(clippy::cast_precision_loss, reason = "bytes of memory")]
pub(crate) fn leaves_reserve(available: u64, needed: u64, total: u64, reserve: f64) -> bool {
    available.saturating_sub(needed) as f64 >= reserve * total as f64
}

/// Processor time of all processes of these copies, in ns; `None` where one's is unknown.
fn cpu_ns(servers: &[Server]) -> Option<u64> {
    let of = |server: &Server| server.processes().ok()?.into_iter().map(process_tree::cpu_ns).sum::<Option<u64>>();
    servers.iter().map(of).sum()
}

fn available() -> Result<u64, JobError> {
    process::available_memory_bytes().map_err(failed)
}

fn failed(why: std::io::Error) -> JobError {
    JobError::failed(why)
}

fn room() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("1 ns to 1 min at 3 digits are bounds")
}

/// Latencies of `rate` requests a second to each of these copies, from the intended start of each.
fn loaded(servers: &[Server], rate: u64, lasts_ns: u64) -> Result<Histogram<u64>, ServerFailure> {
    no_slack()?;
    let mut connections = servers.iter().map(Server::connect).collect::<Result<Vec<_>, _>>()?;
    let ask = |connection: &mut Connection| connection.request().map_err(ServerFailure::io("an answer"));
    // The first request of a connection makes a thread in its server.
    connections.iter_mut().try_for_each(ask)?;
    let gap_ns = (1_000_000_000 / (rate * connections.len() as u64)).max(1);
    let begin = monotonic_ns();
    let mut latencies = room();
    let mut due = begin;
    for at in (0..connections.len()).cycle() {
        due += gap_ns;
        if due - begin > lasts_ns {
            break;
        }
        sleep_until(due);
        ask(&mut connections[at])?;
        latencies.saturating_record(monotonic_ns().saturating_sub(due).max(1));
    }
    Ok(latencies)
}

impl Copies {
    fn count(&self) -> u64 {
        self.servers.len() as u64
    }

    /// Takes a copy, which is the first that the kernel ends where memory runs out.
    fn add(&mut self, server: Server) -> std::io::Result<()> {
        let mut bytes = 0;
        for pid in server.processes()? {
            process::end_first(pid);
            bytes += process::memory_use(pid)?.map_or(0, |of| of.pss_bytes + of.page_table_bytes);
        }
        self.largest_bytes = self.largest_bytes.max(bytes);
        self.servers.push(server);
        Ok(())
    }

    /// Reads the memory of all, if there have never been more.
    fn weigh(&mut self, guest: Option<u64>) -> std::io::Result<()> {
        if self.memory.is_some_and(|memory| memory.copies >= self.count()) {
            return Ok(());
        }
        let mut sum = MemoryUse::default();
        let mut guests = Some(0);
        for server in &self.servers {
            let mut own = None;
            for pid in server.processes()? {
                sum += process::memory_use(pid)?.unwrap_or_default();
                if let Some(size) = guest {
                    own = own.or(process::pss_of_mappings(pid, size)?);
                }
            }
            guests = guests.zip(own).map(|(sum, own)| sum + own);
        }
        let available_bytes = process::available_memory_bytes()?;
        let guest_bytes = guests.unwrap_or(0);
        self.memory = Some(Memory { copies: self.count(), of: sum, guest_bytes, available_bytes });
        Ok(())
    }

    /// Ends copies until there are `count`.
    fn shrink(&mut self, count: u64) -> Result<(), ServerFailure> {
        let keep = usize::try_from(count).unwrap_or(usize::MAX).min(self.servers.len());
        let mut ending = self.servers.split_off(keep);
        ending.iter_mut().for_each(Server::ask_to_end);
        ending.iter_mut().try_for_each(Server::end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::percentile::Percentile;

    fn idle(copies: u64) -> Level {
        Level { copies, latency_ns: None, latencies: None, lasted_ns: 0, cpus_used: None, passed: true }
    }

    /// Percentiles of several trials are those of all their samples, for which each must be stored.
    #[test]
    fn the_percentile_of_loaded_copies_has_its_distribution() {
        let counts = [(2_000_000, 400)].into_iter().collect();
        let level = Level { latencies: hdr::encoded(&counts), lasted_ns: 1_000_000_000, ..idle(4) };
        let point = level.point().expect("latencies");
        let percentiles: Vec<_> = METRICS.iter().filter_map(|metric| Percentile::of_key(metric.key)).collect();
        assert_eq!(percentiles.len(), 1);
        assert_eq!((point.distributions[0].as_str(), point.end_ns), (percentiles[0].of.as_str(), 1_000_000_000));
        assert!(idle(4).point().is_none());
    }

    /// The search on a machine where `fit` copies pass and `room` can be started: the most, why no more, and the most that were tried.
    fn found(max: u64, fit: u64, room: u64) -> (u64, Bound, u64) {
        let at = |target: u64| -> Result<(Level, Option<Bound>), ()> {
            let copies = target.min(room);
            let level = Level { passed: copies <= fit, ..idle(copies) };
            Ok((level, (copies < target).then_some(Bound::Reserve)))
        };
        let (levels, bound) = search(max, at).expect("it finds");
        let most = levels.iter().filter(|level| level.passed).map(|level| level.copies).max().unwrap_or(0);
        (most, bound, levels.iter().map(|level| level.copies).max().unwrap_or(0))
    }

    #[test]
    fn the_most_copies_are_found_to_the_copy() {
        for fit in 1..40 {
            assert_eq!(found(64, fit, 1000).0, fit);
        }
        assert_eq!(found(64, 11, 1000), (11, Bound::Latency, 16));
        assert_eq!(found(64, 1000, 1000), (64, Bound::Max, 64));
        assert_eq!(found(3, 1000, 1000), (3, Bound::Max, 3));
        assert_eq!(found(64, 1000, 21), (21, Bound::Reserve, 21), "the reserve of memory ends it");
        assert_eq!(found(64, 18, 21), (18, Bound::Latency, 21));
        assert_eq!(found(64, 0, 1000).0, 0, "one alone fails");
    }

    /// Memory alone was extrapolated: 7,400 servers with 100 requests/s each on 2 CPUs.
    #[test]
    fn what_bounds_first_is_how_many_fit() {
        let room = |by_cpus| Room { by_memory: 7400.0, by_cpus, cpus: 2.0 };
        let fits = |room: Room, copies: f64| (room.fit() - copies).abs() < 1e-9;
        assert!(fits(room(Some(333.4)), 333.0));
        assert_eq!(
            room(Some(333.4)).to_string(),
            "2 CPUs bound first, at 333 by what a copy used of them; memory would at 7400"
        );
        assert!(fits(room(Some(1e5)), 7400.0));
        assert!(room(Some(1e5)).to_string().starts_with("memory bounds first, at 7400 "));
        assert_eq!(room(None).to_string(), "by memory alone, of idle copies, 7400 would fit");
    }

    #[test]
    fn a_quota_below_the_cpus_bounds_what_copies_can_use() {
        let cpus = [None, Some(2000), Some(1500), Some(128_000)].map(|quota| usable_cpus(64, quota));
        assert_eq!(cpus.map(|cpus| cpus.to_string()), ["64", "2", "1.5", "64"]);
    }

    /// 1000 bytes of which 100 must be left.
    #[test]
    fn a_copy_is_started_only_above_the_reserve() {
        assert!(leaves_reserve(600, 500, 1000, 0.1));
        assert!(!leaves_reserve(600, 501, 1000, 0.1));
        assert!(!leaves_reserve(50, 0, 1000, 0.1), "the reserve is in use already");
    }
}
