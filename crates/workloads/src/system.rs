//! Small work for the operating system: `syscall`, `segv`, `fw`, `pcd` and `nps`, `file`, `pipe`, `loopback-tcp` and `page-fault`.
//!
//! The first five are the micro-benchmarks with which MMU virtualization was judged in 2009: what changes page tables (faults, processes made,
//! ended and switched) against what does not (a system call). The others are what programs in containers ask of a runtime that answers
//! system calls itself. Like `page-table` they make system calls, so that
//! only the executor `direct` runs them; in a virtual machine an agent there does. Each has its baseline alongside it, which is not
//! subtracted.

use crate::calls::{Connections, OwnFile, Pipe, fresh_pages, mapped};
use crate::parameters::{KERNELS, misfit, odd};
use baremark_kernels::laps::Laps;
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::descriptor::Descriptor;
use baremark_model::knob::{Default, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::{
    Arena, Body, Prepared, RankTime, Sample, TickRate, Verification, Work, Workload, WorkloadError,
};
use baremark_model::team::Team;
use baremark_sys::children::{Loopback, Parked, Ring, fork_and_wait};
use baremark_sys::clock;
use baremark_sys::paging::empty_call;
use baremark_sys::segv::Guarded;
use std::io;
use std::sync::{Mutex, PoisonError};

/// One of these workloads.
#[derive(Clone, Copy, Debug)]
pub struct System {
    descriptor: &'static Descriptor,
    operation: Operation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Call,
    Fault,
    Fork,
    Populated,
    Switch,
    Read,
    Pipe,
    RoundTrip,
    Touch,
}

/// A system call that does nothing.
pub static SYSCALL: System = System { descriptor: &SYSCALL_DESCRIPTOR, operation: Operation::Call };
/// A forbidden store, handled.
pub static SEGV: System = System { descriptor: &SEGV_DESCRIPTOR, operation: Operation::Fault };
/// A process made, ended and waited for.
pub static FW: System = System { descriptor: &FW_DESCRIPTOR, operation: Operation::Fork };
/// The same among many processes.
pub static PCD: System = System { descriptor: &PCD_DESCRIPTOR, operation: Operation::Populated };
/// A switch from one process to the next.
pub static NPS: System = System { descriptor: &NPS_DESCRIPTOR, operation: Operation::Switch };
/// A file opened, read and closed.
pub static FILE: System = System { descriptor: &FILE_DESCRIPTOR, operation: Operation::Read };
/// Bytes through a pipe.
pub static PIPE: System = System { descriptor: &PIPE_DESCRIPTOR, operation: Operation::Pipe };
/// A round trip over TCP within the machine.
pub static LOOPBACK_TCP: System = System { descriptor: &LOOPBACK_TCP_DESCRIPTOR, operation: Operation::RoundTrip };
/// Memory that is stored to for the first time.
pub static PAGE_FAULT: System = System { descriptor: &PAGE_FAULT_DESCRIPTOR, operation: Operation::Touch };

const PARKED: Knob = Knob::new("processes", Kind::Count { min: 1, max: 4096 }, Default::Typed("64"))
    .help("processes that each rank keeps asleep meanwhile");

const IN_RING: Knob = Knob::new("processes", Kind::Count { min: 1, max: 1024 }, Default::Typed("8"))
    .help("processes of each rank's ring, besides the rank itself, all on the rank's CPU");

const OPERATION_NS: &str = "operation_ns";
const BASELINE_NS: &str = "baseline_ns";

/// The two rows of metrics.
const fn metrics(operation: &'static str, baseline: &'static str) -> [Metric; 2] {
    [
        Metric::lower(OPERATION_NS, "ns", Aggregate::Mean).help(operation),
        Metric::lower(BASELINE_NS, "ns", Aggregate::Mean).help(baseline),
    ]
}

const OWN: &str = "this program";
const SOURCE: &str = "after the kernel micro-benchmarks of the 2009 evaluation of AMD's RVI";
const CALL_BASELINE: &str = "mean time of a system call that does nothing (getppid)";

static SYSCALL_METRICS: [Metric; 2] = metrics(CALL_BASELINE, "mean time of a turn of a loop that calls nothing");
static SEGV_METRICS: [Metric; 2] =
    metrics("mean time of a forbidden store: signal, handler that opens the page, store, closing it", CALL_BASELINE);
static FW_METRICS: [Metric; 2] =
    metrics("mean time to fork a process that ends at once, and wait for it", CALL_BASELINE);
static PCD_METRICS: [Metric; 2] =
    metrics("mean time to make and end a process while the others are asleep", CALL_BASELINE);
static NPS_METRICS: [Metric; 2] = metrics(
    "mean time from one process of a ring to the next, by a byte in a pipe",
    "mean time to write a byte to a pipe and read it in one process",
);
static FILE_METRICS: [Metric; 2] = metrics(
    "mean time to open this program's file by its path, read 4 KiB of it from the page cache and close it; a container's path is shorter",
    "mean time to read 4 KiB of a file that is open",
);
static PIPE_METRICS: [Metric; 2] = metrics(
    "mean time to write 32 KiB to a pipe and read them in one process",
    "mean time to write a byte to a pipe and read it in one process",
);
static LOOPBACK_TCP_METRICS: [Metric; 2] = metrics(
    "mean time of a round trip of one byte over loopback TCP, both ends in one thread: two writes, two reads, no switch",
    "mean time of the same over a pair of local sockets",
);
static PAGE_FAULT_METRICS: [Metric; 2] = metrics(
    "mean time by page of 4 KiB to map memory, store to it for the first time and unmap it, 512 pages at a time",
    "mean time of a store to a page that is there",
);

static SYSCALL_DESCRIPTOR: Descriptor = descriptor("syscall", "a system call that does nothing", &[], &SYSCALL_METRICS);
static SEGV_DESCRIPTOR: Descriptor = descriptor("segv", "a forbidden store, and its handling", &[], &SEGV_METRICS);
static FW_DESCRIPTOR: Descriptor = descriptor("fw", "fork and wait", &[], &FW_METRICS);
static PCD_DESCRIPTOR: Descriptor =
    descriptor("pcd", "process creation and destruction among sleeping processes", &[PARKED], &PCD_METRICS);
static NPS_DESCRIPTOR: Descriptor =
    descriptor("nps", "switches among processes of a ring on one CPU", &[IN_RING], &NPS_METRICS);
static FILE_DESCRIPTOR: Descriptor = own("file", "a file opened, read and closed", &FILE_METRICS);
static PIPE_DESCRIPTOR: Descriptor = own("pipe", "bytes through a pipe", &PIPE_METRICS);
static LOOPBACK_TCP_DESCRIPTOR: Descriptor =
    own("loopback-tcp", "a round trip over TCP on the loopback interface", &LOOPBACK_TCP_METRICS);
static PAGE_FAULT_DESCRIPTOR: Descriptor =
    own("page-fault", "memory stored to for the first time; page faults are not counted", &PAGE_FAULT_METRICS);

/// A workload of this program's own, without parameters.
const fn own(kind: &'static str, help: &'static str, metrics: &'static [Metric]) -> Descriptor {
    Descriptor { source: OWN, ..descriptor(kind, help, &[], metrics) }
}

const fn descriptor(
    kind: &'static str,
    help: &'static str,
    parameters: &'static [Knob],
    metrics: &'static [Metric],
) -> Descriptor {
    Descriptor {
        kind,
        help,
        source: SOURCE,
        parameters,
        metrics,
        executors: &[ExecutorKind::Direct],
        check: |arm| match arm.parameters.get("processes") {
            Some(_) => processes(arm, &PARKED).map(drop).map_err(misfit),
            None => Ok(()),
        },
        ..KERNELS
    }
}

impl Workload for System {
    fn descriptor(&self) -> &'static Descriptor {
        self.descriptor
    }

    fn spans(&self, _arm: &ResolvedArm) -> Result<Vec<u64>, WorkloadError> {
        Ok(Vec::new())
    }

    fn prepare<'m>(&self, arm: &ResolvedArm, _arena: &'m dyn Arena) -> Result<Box<dyn Prepared + 'm>, WorkloadError> {
        let processes = match self.operation {
            Operation::Populated => processes(arm, &PARKED)?,
            Operation::Switch => processes(arm, &IN_RING)?,
            _ => 0,
        };
        let rank = || Mutex::new(Rank { laps: Laps::new(clock::ticks), done: 0, refused: None });
        let ranks = (0..arm.ranks).map(|_| rank()).collect();
        Ok(Box::new(PreparedCalls { body: Small { operation: self.operation, processes, ranks } }))
    }
}

fn processes(arm: &ResolvedArm, knob: &Knob) -> Result<usize, WorkloadError> {
    let number: u64 = knob.get(arm)?;
    usize::try_from(number).map_err(|error| odd(knob, number, error.to_string()))
}

struct Small {
    operation: Operation,
    processes: usize,
    ranks: Vec<Mutex<Rank>>,
}

/// What one rank keeps; only its own thread locks it while it runs.
struct Rank {
    laps: Laps,
    done: u64,

    /// The first refusal.
    refused: Option<String>,
}

impl Small {
    /// All repetitions of one rank, with whatever must stand meanwhile: made here, since children run where the thread may
    /// that made them.
    fn repetitions(&self, rank: &mut Rank, reps: u64) -> io::Result<()> {
        let each = self.operations();
        match self.operation {
            Operation::Call => repeat(rank, reps, each, calls, |times| {
                (0..times).for_each(|turn| {
                    std::hint::black_box(turn);
                });
                Ok(())
            }),
            Operation::Fault => {
                let mut page = Guarded::new()?;
                repeat(rank, reps, each, |times| page.store(times), calls)?;
                let (opened, expected) = (page.opened() as u64, reps * each);
                if opened == expected {
                    Ok(())
                } else {
                    Err(io::Error::other(format!("{opened} faults, not {expected}")))
                }
            }
            Operation::Fork | Operation::Populated => {
                let _asleep = Parked::new(self.processes)?;
                repeat(rank, reps, each, |times| (0..times).try_for_each(|_| fork_and_wait()), calls)
            }
            Operation::Switch => {
                let (mut ring, mut loopback) = (Ring::new(self.processes)?, Loopback::new()?);
                let hops = self.processes as u64 + 1;
                repeat(rank, reps, each, |times| ring.pass(times / hops), |times| loopback.pass(times))
            }
            Operation::Read => {
                let file = OwnFile::open()?;
                repeat(rank, reps, each, |times| file.open_and_read(times), |times| file.read(times))
            }
            Operation::Pipe => {
                let (mut messages, mut bytes) = (Pipe::new()?, Pipe::new()?);
                repeat(rank, reps, each, |times| messages.pass_messages(times), |times| bytes.pass_bytes(times))
            }
            Operation::RoundTrip => {
                let (mut tcp, mut local) = (Connections::new()?, Connections::new()?);
                repeat(rank, reps, each, |times| tcp.over_tcp(times), |times| local.over_local_sockets(times))
            }
            Operation::Touch => {
                let mut there = mapped(each)?;
                there.touch_each();
                repeat(rank, reps, each, fresh_pages, |_| {
                    there.touch_each();
                    Ok(())
                })
            }
        }
    }

    /// Operations of one repetition.
    fn operations(&self) -> u64 {
        match self.operation {
            Operation::Call => 1000,
            Operation::Fault => 100,
            Operation::Fork | Operation::Populated => 4,
            Operation::Switch => 16 * (self.processes as u64 + 1),
            Operation::Read | Operation::Pipe | Operation::RoundTrip => 50,
            Operation::Touch => 512,
        }
    }
}

/// Times the operation and its baseline, by turns.
fn repeat(
    rank: &mut Rank,
    reps: u64,
    times: u64,
    mut operation: impl FnMut(u64) -> io::Result<()>,
    mut baseline: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    for _ in 0..reps {
        let start = rank.laps.now();
        operation(times)?;
        rank.laps.end(0, start);
        let start = rank.laps.now();
        baseline(times)?;
        rank.laps.end(1, start);
        rank.done += times;
    }
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "the form of an operation")]
fn calls(times: u64) -> io::Result<()> {
    (0..times).for_each(|_| empty_call());
    Ok(())
}

impl Body for Small {
    fn work(&self, ranks: usize) -> Work {
        Work { operations: self.operations() * ranks as u64, ..Work::default() }
    }

    fn rank(&self, rank: usize, _team: &Team, reps: u64) {
        let Some(rank) = self.ranks.get(rank) else { return };
        let mut rank = rank.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = self.repetitions(&mut rank, reps) {
            rank.refused.get_or_insert_with(|| why.to_string());
        }
    }
}

struct PreparedCalls {
    body: Small,
}

impl Prepared for PreparedCalls {
    fn body(&self) -> &dyn Body {
        &self.body
    }

    fn verify(&mut self) -> Verification {
        let (mut done, mut refused) = (0, None);
        for rank in &mut self.body.ranks {
            let rank = rank.get_mut().unwrap_or_else(PoisonError::into_inner);
            done += std::mem::take(&mut rank.done);
            refused = refused.or(rank.refused.take());
        }
        match refused {
            None => Verification::Passed { detail: format!("{done} operations, none refused") },
            Some(why) => Verification::Failed { detail: format!("after {done} operations: {why}") },
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    fn metrics(&self, _reps: u64, times: &[RankTime], rate: TickRate) -> Vec<Sample> {
        let Some(start) = times.iter().map(|time| time.start_ticks).min() else { return Vec::new() };
        let mut laps = Vec::new();
        for rank in &self.body.ranks {
            laps.extend(rank.lock().unwrap_or_else(PoisonError::into_inner).laps.since(start));
        }
        let sample = |(part, metric): (usize, &str)| {
            let of_part: Vec<u64> =
                laps.iter().filter(|lap| lap.part == part).map(|lap| lap.end_ticks - lap.start_ticks).collect();
            let operations = of_part.len() as f64 * self.body.operations() as f64;
            let value = 1e9 * rate.seconds(of_part.iter().sum()) / operations;
            (operations > 0.0).then(|| Sample::new(metric, value))
        };
        [OPERATION_NS, BASELINE_NS].into_iter().enumerate().filter_map(sample).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::page_size::PageSize;
    use baremark_sys::memory::Map;

    fn run(workload: &System, reps: u64) -> (Vec<Sample>, Verification) {
        let arm = ResolvedArm::native(1, PageSize::Small);
        let map = Map::new(&[], PageSize::Small, 1).expect("nothing");
        let mut prepared = workload.prepare(&arm, &map).expect("nothing to take");
        let start_ticks = clock::ticks();
        prepared.body().rank(0, &Team::new(1), reps);
        let times = [RankTime { rank: 0, start_ticks, end_ticks: clock::ticks() }];
        let samples = prepared.metrics(reps, &times, TickRate(1e9));
        let region = times[0].end_ticks - times[0].start_ticks;
        #[expect(clippy::cast_precision_loss, reason = "a short time")]
        let most = region as f64 / (reps * prepared.body().work(1).operations) as f64;
        assert!(samples.iter().map(|sample| sample.value).sum::<f64>() <= most, "{samples:?} of {most}");
        (samples, prepared.verify())
    }

    #[test]
    fn each_operation_and_its_baseline_have_a_cost_and_are_seen_to_be_done() {
        for workload in [&SYSCALL, &SEGV, &FW, &PCD, &NPS, &FILE, &PIPE, &LOOPBACK_TCP, &PAGE_FAULT] {
            let kind = workload.descriptor.kind;
            let (samples, verification) = run(workload, 2);
            assert!(samples.len() == 2 && samples.iter().all(|sample| sample.value > 0.0), "{kind}: {samples:?}");
            let Verification::Passed { detail } = verification else { panic!("{kind}: {verification:?}") };
            let done = 2 * (Small { operation: workload.operation, processes: 8, ranks: Vec::new() }).operations();
            assert_eq!(detail, format!("{done} operations, none refused"));
        }
    }

    #[test]
    fn a_refusal_is_told() {
        let mut rank = Rank { laps: Laps::new(clock::ticks), done: 0, refused: None };
        let refuse = |_| Err(io::Error::other("no more processes"));
        assert!(repeat(&mut rank, 3, 4, refuse, calls).is_err());
        rank.refused = Some("no more processes".to_owned());
        let body = Small { operation: Operation::Fork, processes: 0, ranks: vec![Mutex::new(rank)] };
        let verification = PreparedCalls { body }.verify();
        assert_eq!(verification, Verification::Failed { detail: "after 0 operations: no more processes".to_owned() });
    }
}
