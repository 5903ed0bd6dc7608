//! The traits behind which workloads and executors hide.
//!
//! A *body* is the measured region: machine code that is entered by a team of ranks, allocates nothing, calls nothing,
//! locks nothing and cannot panic. An *executor* runs it somewhere: on threads, or on the vCPUs of a virtual machine that
//! shares the address space. Because the clock is read inside the region, entering a machine never counts. A *workload*
//! makes a body over memory that it was handed, checks its result and turns ticks into metrics.

use crate::arm::ResolvedArm;
use crate::codes::Translation;
use crate::descriptor::Descriptor;
use crate::knob::InvalidValue;
use crate::team::{Rest, Team};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::mem::MaybeUninit;

/// The work of one repetition over all ranks of a team, declared alongside the code that does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The operations that the metric counts: updates, elements, accesses.
    pub operations: u64,
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes that the code loads.
    pub bytes_loaded: u64,
    /// Bytes that the code stores.
    pub bytes_stored: u64,
    /// Bytes that the hardware reads only because they are about to be written (write-allocate).
    pub bytes_allocated: u64,
}

/// The measured region of a workload, entered once by every rank of a team.
pub trait Body: Sync {
    /// The work of one repetition over all ranks of a team of `ranks`.
    fn work(&self, ranks: usize) -> Work;

    /// What rank `rank` of `team` does, `reps` times over. Must not allocate, lock, panic, or call the operating system
    /// or code that might; may wait only at the team's barrier.
    fn rank(&self, rank: usize, team: &Team, reps: u64);

    /// Where the ranks of all members of an ensemble meet before the clock is read; `None` for a body that runs alone.
    fn gate(&self) -> Option<&Team> {
        None
    }

    /// The tick before which the region is not begun, so that machines whose ranks cannot meet begin together; 0 for none.
    fn not_before(&self) -> u64 {
        0
    }
}

/// When one rank was inside the region, in ticks of the processor's time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankTime {
    /// Which rank.
    pub rank: usize,
    /// After the opening barrier.
    pub start_ticks: u64,
    /// When this rank was done, before the closing barrier.
    pub end_ticks: u64,
}

/// The rate of the time-stamp counter, ticks per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TickRate(pub f64);

impl TickRate {
    /// Ticks as seconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "differences of ticks stay far below 2^53")]
    pub fn seconds(self, ticks: u64) -> f64 {
        ticks as f64 / self.0
    }

    /// From the first start to the last end of a team, in seconds; `None` for no rank.
    #[must_use]
    pub fn span(self, times: &[RankTime]) -> Option<f64> {
        let start = times.iter().map(|t| t.start_ticks).min()?;
        let end = times.iter().map(|t| t.end_ticks).max()?;
        Some(self.seconds(end.saturating_sub(start)))
    }

    /// One rank's own time in seconds.
    #[must_use]
    pub fn own(self, time: &RankTime) -> f64 {
        self.seconds(time.end_ticks.saturating_sub(time.start_ticks))
    }
}

/// Memory of a page's size on a boundary of pages.
#[repr(align(4096))]
struct PageOfStack {
    _bytes: [u8; 4096],
}

/// One rank's pass through the region: barrier (and the ensemble's gate or moment), clock, body, clock, barrier. Executors call it *inside* whatever they
/// put around the body, with a clock that works there (`now` gives ticks and must order what stands before and after).
///
/// The body's stack frames begin at the same place of a page in every executor. Otherwise vectors on the stack cross cache lines in
/// one and not in another: HPL's triangular solver took 17 % longer in the virtual machine for that alone.
#[inline(never)]
pub fn timed_region(body: &dyn Body, rank: usize, team: &Team, reps: u64, now: fn() -> u64) -> RankTime {
    // The compiler puts this function's frame on the boundary that its strictest local asks for.
    black_box(&MaybeUninit::<PageOfStack>::uninit());
    team.barrier();
    if let Some(gate) = body.gate() {
        gate.barrier();
    }
    let not_before = body.not_before();
    while not_before > 0 && now() < not_before {
        std::hint::spin_loop();
    }
    let start_ticks = now();
    body.rank(rank, team, reps);
    let end_ticks = now();
    team.barrier();
    RankTime { rank, start_ticks, end_ticks }
}

/// What an executor counted during one run; keys are the counted system's own names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Ranks that proved, by a token sent from inside, that they executed where the executor says.
    pub ranks_inside: usize,
    /// System calls that the region made and that had to be forwarded; 0 or the sample is void.
    pub forwarded_syscalls: u64,
    /// Page faults that the region took in the guest; 0 or the sample is void.
    pub guest_page_faults: u64,
    /// Returns from guest to user space beyond those that the executor itself needs.
    pub extra_exits: u64,
    /// The hypervisor's counters: growth over the run.
    pub counters: BTreeMap<String, u64>,
    /// How long ranks were ready to run while somebody else had their CPUs, over all ranks, in nanoseconds; `None` where the
    /// kernel does not report it (`/proc/thread-self/schedstat`) and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_ns: Option<u64>,
    /// How often a rank slept at a barrier because another was late.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rests: u64,
}

/// For serde, which hands over a reference.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One run of a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// When each rank was inside, in rank order.
    pub times: Vec<RankTime>,
    /// What was counted meanwhile.
    pub audit: Audit,
}

/// What is true of an executor as long as it lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutorFacts {
    /// `direct`, `microvm` or `null`.
    pub name: String,
    /// The ranks of its team.
    pub ranks: usize,
    /// The CPU to which each rank is pinned; empty where the operating system moves them.
    pub cpus: Vec<usize>,
    /// Whether the body is really run; the null executor times an empty region.
    pub runs_body: bool,
    /// Whether the body runs inside a virtual machine.
    pub virtual_machine: bool,
    /// Which MMU virtualization is at work, in words ("nested (EPT)", "shadow (PVM)"); `None` without a machine.
    pub mmu: Option<String>,
    /// How addresses are translated there; `None` without a machine, and in trials of versions that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translation: Option<Translation>,
    /// Anything else that a reader of the numbers should know, by name.
    pub notes: BTreeMap<String, String>,
}

impl ExecutorFacts {
    /// How addresses are translated there; of trials of earlier versions as their words say.
    #[must_use]
    pub fn translation(&self) -> Option<Translation> {
        self.translation.or_else(|| self.mmu.as_deref().map(Translation::of_words))
    }
}

/// Why a body could not be run to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Fault {
    /// The body touched what it must not, or executed what the processor refuses.
    #[error("rank {rank} took exception {vector} ({name}) at instruction {rip:#x}, address {address:#x}")]
    Exception {
        /// Which rank.
        rank: usize,
        /// The processor's exception number.
        vector: u8,
        /// Its name, such as "#PF page fault".
        name: String,
        /// The instruction's address.
        rip: u64,
        /// The address that was touched (page faults), else 0.
        address: u64,
    },
    /// A rank did not come back in time.
    #[error("rank {rank} did not finish within {limit_ms} ms; the machine was stopped")]
    TimedOut {
        /// Which rank.
        rank: usize,
        /// The watchdog's limit in milliseconds.
        limit_ms: u64,
    },
    /// The body panicked, which a body must not.
    #[error("rank {rank} panicked; a measured body must not")]
    Panicked {
        /// Which rank.
        rank: usize,
    },
    /// The executor itself failed.
    #[error("{what}: {why}")]
    Executor {
        /// What was tried.
        what: String,
        /// What went wrong, with the remedy where there is one.
        why: String,
    },
}

/// How a body is run. One executor serves many runs of one arm.
pub trait Executor {
    /// What is true of it.
    fn facts(&self) -> &ExecutorFacts;

    /// Runs `body`, `reps` repetitions on every rank, and returns when every rank has left it.
    ///
    /// # Errors
    /// A [`Fault`] when any rank could not finish. The executor can be used again afterwards.
    fn run(&mut self, body: &dyn Body, reps: u64) -> Result<RunRecord, Fault>;

    /// What was run once untimed is followed by runs that are timed: makes sure of what else of the program they may use.
    ///
    /// # Errors
    /// A [`Fault`] as of a run.
    fn warmed(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// How its ranks sleep at a barrier; `None` where they can only spin.
    fn rest(&self) -> Option<Rest> {
        None
    }

    /// Counters of the hypervisor as they stand now (not growth), by its own names; empty without a machine.
    fn counters(&mut self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
}

/// Memory that was requested could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct MemoryError {
    /// What was requested.
    pub what: String,
    /// Why it failed and what would help.
    pub why: String,
}

/// Memory handed to a workload: one or more spans, made of the pages that the arm asks for, zeroed and touched.
pub trait Arena {
    /// The next `words` 64-bit words, starting on a boundary of 2 MiB, zero, and nobody else's.
    ///
    /// # Errors
    /// When the arena has no such span left.
    #[expect(clippy::mut_from_ref, reason = "each call gives a span that no other call gives, as in any bump arena")]
    fn take_words(&self, words: usize) -> Result<&mut [u64], MemoryError>;
}

/// One measured value of one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sample {
    /// The metric's key in the workload's descriptor.
    pub metric: String,
    /// The value, in the unit that the descriptor gives.
    pub value: f64,
}

impl Sample {
    /// A value of the metric with this key.
    pub fn new(metric: impl Into<String>, value: f64) -> Sample {
        Sample { metric: metric.into(), value }
    }
}

/// Whether a workload's result is what it must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Verification {
    /// The result is right; `detail` says what was checked.
    Passed {
        /// What was checked, in words.
        detail: String,
    },
    /// The result is wrong: no sample of this trial counts.
    Failed {
        /// What was found instead, in words.
        detail: String,
    },
}

/// A workload could not be prepared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// A parameter is out of the range that the workload can do.
    #[error("{key} = {value}: {why}")]
    Parameter {
        /// The parameter's key.
        key: String,
        /// What it was set to.
        value: String,
        /// What would be right.
        why: String,
    },
    /// A parameter is missing or of another kind than its row.
    #[error(transparent)]
    InvalidValue(#[from] InvalidValue),
    /// Its memory could not be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Whose a span of memory is: who touches it first, and on whose node it is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// All ranks', in equal parts one after the other, as kernels share out their loops.
    Shared,
    /// This rank's alone.
    Rank(usize),
}

/// What is run and measured.
pub trait Workload: Sync {
    /// Its parameters, metrics and needs.
    fn descriptor(&self) -> &'static Descriptor;

    /// The sizes in bytes of the spans that [`Workload::prepare`] will take, in order.
    ///
    /// # Errors
    /// When a parameter is out of range.
    fn spans(&self, arm: &ResolvedArm) -> Result<Vec<u64>, WorkloadError>;

    /// Whose each of the spans is; those beyond the list are shared.
    fn owners(&self, _arm: &ResolvedArm) -> Vec<Owner> {
        Vec::new()
    }

    /// Fills the memory and makes the body ready. One preparation may be run by several executors in turn, as long as
    /// their arms ask for the same memory and the same parameters.
    ///
    /// # Errors
    /// When a parameter is out of range or the arena is too small.
    fn prepare<'m>(&self, arm: &ResolvedArm, arena: &'m dyn Arena) -> Result<Box<dyn Prepared + 'm>, WorkloadError>;
}

/// A workload with its memory filled, ready to run.
pub trait Prepared: Send {
    /// The measured region.
    fn body(&self) -> &dyn Body;

    /// What is run once instead of the body before its first run that is timed, where the number of repetitions is known: less work, by which all code and memory is
    /// used that a run uses. `None` where only the body itself does that.
    fn warm_in(&self) -> Option<Box<dyn Body + '_>> {
        None
    }

    /// Checks the result of all runs so far (every repetition of every rank) and leaves the state as after preparation.
    fn verify(&mut self) -> Verification;

    /// Checks what all runs so far must have left in a share of the result, the [`Ranges`](crate::verify::Ranges) of this seed, and leaves everything as it is where that is right;
    /// `None` where the result can be checked as a whole only.
    fn verify_ranges(&mut self, _seed: u64) -> Option<Verification> {
        None
    }

    /// The metrics of one run of `reps` repetitions.
    fn metrics(&self, reps: u64, times: &[RankTime], rate: TickRate) -> Vec<Sample>;
}
