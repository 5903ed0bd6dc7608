//! The frames between the lab and its agents: length-prefixed, versioned JSON over any pair of byte streams.
//!
//! A frame is a 32-bit little-endian length and that many bytes of JSON. Both sides begin with `Hello`; a side that hears
//! another protocol version says so and stops. Nothing here knows what carries the bytes: stdio, a serial port or ssh.

use crate::arm::ResolvedArm;
use crate::loading::Loading;
use crate::machine::Isa;
use crate::metric::Aggregate;
use crate::observation::Observation;
use crate::observer::ObserveSpec;
use crate::placement::Placed;
use crate::seam::{Audit, ExecutorFacts, RankTime, Sample, TickRate, Verification};
use crate::spawned::{PutFile, Spawn, Spawned};
use crate::units::Share;
use crate::verify::Verify;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

mod frame;

pub use frame::{LONGEST_FRAME, Message, WireError, read_frame, write_frame};

/// The version of this protocol; both sides must agree.
pub const PROTOCOL: u32 = 10;

crate::frames!(ToAgent, FromAgent);

/// What the lab tells an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToAgent {
    /// The greeting; always first.
    Hello {
        /// The protocol that the lab speaks.
        protocol: u32,
        /// The lab's version.
        version: String,
    },
    /// Run this trial and answer with [`FromAgent::TrialDone`] or [`FromAgent::Failed`].
    RunTrial(Box<TrialSpec>),
    /// What the next trial reported as [`FromAgent::Progress`] in an earlier process, before that was interrupted. No answer.
    Progress {
        /// Phases, by their place in the schedule, with what was reported in them, in order.
        rows: Vec<(usize, serde_json::Value)>,
    },
    /// Run this trial as one of several sites that run it at once: before each stretch that is timed say
    /// [`FromAgent::AtGate`] and wait for [`ToAgent::Pass`], and answer with [`FromAgent::MemberDone`] or
    /// [`FromAgent::Failed`]. Needs `run-member`.
    RunMember(Box<TrialSpec>),
    /// All sites are at the gate.
    Pass(Pass),
    /// Run one arm of this trial, whose other arm runs at another site: answered with [`FromAgent::AtTurn`] when it is prepared, then, after
    /// [`ToAgent::Pass`], before each phase, and with [`FromAgent::TurnsDone`] or [`FromAgent::Failed`] at the end. Needs `take-turns`.
    TakeTurns(Box<TurnsSpec>),
    /// Run one phase now; the other side waits.
    Turn {
        /// Phases of the other side since this side's last one.
        others: u32,
    },
    /// No phase is left; verify, and answer with [`FromAgent::TurnsDone`].
    EndTurns {
        /// Phases of the other side since this side's last one.
        others: u32,
    },
    /// Observe the site from now on, alongside whatever else runs there; answered with [`FromAgent::Observing`].
    Observe(Box<ObserveSpec>),
    /// Stop observing; answered with [`FromAgent::Observed`].
    EndObservation,
    /// Prepare this site's part of a load; the answer is [`FromAgent::LoadReady`] or [`FromAgent::Failed`]. Needs `load`.
    PrepareLoad {
        /// The order, as the load engine writes it.
        order: Box<serde_json::Value>,
    },
    /// Say what the site's clock shows: [`FromAgent::Clock`].
    ReadClock,
    /// Make so many system calls that do least, or some more, and time them and page faults: [`FromAgent::CallsTimed`]. Needs `time-calls`.
    TimeCalls {
        /// How many.
        calls: u64,
    },
    /// Make a system call with this argument, by which whoever counts this machine's calls knows the agent: [`FromAgent::Identified`]. Needs `identify`.
    Identify {
        /// Below 2^31.
        argument: u32,
    },
    /// Begin the prepared load at this moment of the site's monotonic clock.
    StartLoad {
        /// In nanoseconds.
        begin_ns: u64,
    },
    /// End the load now and send what there is.
    StopLoad,
    /// Begin the prepared load at this moment of the site's monotonic clock, at level 0: its level and windows follow, until
    /// [`ToAgent::StopLoad`]. Needs `steer-load`.
    SteerLoad {
        /// In nanoseconds.
        begin_ns: u64,
    },
    /// From that moment of the site's monotonic clock on, a steered load has this level: users, or starts per second.
    SetLevel {
        /// In nanoseconds.
        at_ns: u64,
        /// Of all sites together.
        level: f64,
    },
    /// Measure what a steered load means to start in a window, answered with [`FromAgent::LoadWindow`]. Times are of the
    /// site's monotonic clock, in nanoseconds.
    AskWindow {
        /// Its number.
        id: u64,
        /// Its begin.
        begin_ns: u64,
        /// How long it is.
        lasting_ns: u64,
        /// How long what began in it is waited for after its end.
        patience_ns: u64,
    },
    /// Put a file, or the next piece of one, into the agent's folder; answered with [`FromAgent::FilePut`].
    PutFile(PutFile),
    /// Start a program that runs alongside trials; answered with [`FromAgent::Spawned`].
    Spawn(Spawn),
    /// Tell how such a program is doing, with its last lines; answered with [`FromAgent::Spawned`].
    Tell {
        /// Its name.
        name: String,
    },
    /// End such a program; answered with [`FromAgent::Spawned`].
    Stop {
        /// Its name.
        name: String,
        /// How long it may take when it is asked, before it is killed.
        grace_ns: u64,
    },
    /// Nothing more will come; leave.
    Goodbye,
}

/// What an agent tells the lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromAgent {
    /// The greeting; the answer to the lab's.
    Hello {
        /// The protocol that the agent speaks.
        protocol: u32,
        /// The agent's version.
        version: String,
        /// What it can do: `run-trial`, `load`, ...
        capabilities: Vec<String>,
        /// The widest instruction set that its site has, as dispatched by the kernels.
        instruction_set: Isa,
        /// Its process number at its site.
        pid: u32,
    },
    /// The phases of a trial that reads and writes disks begin: its data have been written.
    DiskPhases,
    /// Data is being loaded before the first phase of a trial; for whoever watches.
    Loading(Loading),
    /// One phase of a trial is over; for whoever watches.
    Phase {
        /// Its place in the schedule.
        position: usize,
        /// How many the schedule has.
        of: usize,
        /// Which arm ran.
        arm: usize,
    },
    /// A part of a trial that goes on, to be stored at once, so that an interrupted trial can be taken up: a window of a search.
    Progress {
        /// The place of its phase in the schedule.
        position: usize,
        /// As the workload writes it.
        row: serde_json::Value,
    },
    /// The trial ran to its end; it may still be void.
    TrialDone(Box<TrialResult>),
    /// Waiting for the other sites; `reps` are the repetitions that this one wants to run next.
    AtGate {
        /// At least as many are run.
        reps: u64,
    },
    /// The trial of one site of several ran to its end.
    MemberDone(Box<MemberResult>),
    /// Waiting for this side's next phase, with nothing running: at first when everything is prepared.
    AtTurn {
        /// The repetitions that this side has found for a phase; `None` of work that has none and runs its schedule whole.
        reps: Option<u64>,
    },
    /// One side's part of a trial in turns ran to its end.
    TurnsDone(Box<SideResult>),
    /// The site is being observed.
    Observing,
    /// What was observed.
    Observed(Box<Observation>),
    /// The load is prepared.
    LoadReady,
    /// What the site's clock shows.
    Clock {
        /// Its monotonic clock, in nanoseconds.
        monotonic_ns: u64,
    },
    /// What a system call and a page fault take.
    CallsTimed {
        /// Nanoseconds of the system call that does least.
        call_ns: f64,
        /// Nanoseconds of a page fault without a disk; `None` where none could be timed.
        fault_ns: Option<f64>,
    },
    /// The call of [`ToAgent::Identify`] was made.
    Identified,
    /// A second of a load has passed.
    LoadSecond {
        /// Which, from 0.
        second: usize,
        /// What happened in it, as the load engine writes it.
        part: serde_json::Value,
    },
    /// A load has ended.
    LoadDone {
        /// All that was measured, as the load engine writes it.
        part: Box<serde_json::Value>,
    },
    /// How many operations of a steered load are on their way; told several times a second.
    LoadInFlight {
        /// Operations.
        operations: u64,
    },
    /// A window of a steered load is over.
    LoadWindow {
        /// Its number.
        id: u64,
        /// What was measured in it, as the load engine writes it.
        part: Box<serde_json::Value>,
    },
    /// The file is there.
    FilePut {
        /// Its path at the site.
        path: String,
    },
    /// How a program that was spawned is doing.
    Spawned(Spawned),
    /// The request could not be carried out.
    Failed {
        /// What was tried.
        what: String,
        /// What went wrong, with the remedy where there is one.
        why: String,
    },
}

/// One member of an ensemble: what runs, and how many of it, behind the arm's common barrier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// How many of it; 1 is the common case.
    pub count: u32,
    /// What each of them is.
    pub arm: ResolvedArm,
}

/// One arm of a trial: an ensemble released by one barrier over a common measured window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmSpec {
    /// Its members; one is the common case.
    pub members: Vec<Member>,
}

impl ArmSpec {
    /// An arm of one member.
    #[must_use]
    pub fn of_one(arm: ResolvedArm) -> Self {
        ArmSpec { members: vec![Member { count: 1, arm }] }
    }
}

/// One fresh execution of a schedule of arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialSpec {
    /// The workload's kind.
    pub workload: String,
    /// The arms, by index. Stored trials of one cell share them.
    pub arms: Arc<[ArmSpec]>,
    /// Which arm runs in each phase, in order.
    pub schedule: Vec<usize>,
    /// The order in which the arms' memory is allocated and touched.
    pub allocation_order: Vec<usize>,
    /// The least duration of a phase.
    pub phase_ns: u64,
    /// Repetitions of a kernel's body in each phase; `None` to find as many as make a phase long enough. Trials of one cell
    /// all have the same, so that a comparison is of the same work throughout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reps: Option<u64>,
    /// Where they are to be found: those of another comparison of the same work, with which finding begins. One run confirms them, or more find others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reps_near: Option<u64>,
    /// After so long no further quad of phases is begun, so that work which cannot be cut does not make a trial long; `None`
    /// to run the whole schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_ns: Option<u64>,
    /// The longest that one run of a body may take before it is stopped.
    pub watchdog_ns: u64,
    /// The CPUs for the ranks, in order; empty where the agent shall take those that it may use.
    pub cpus: Vec<usize>,
    /// The CPUs of both arms of a job, of one rank each, that run at the same time; `None` where they take turns. Each two phases of the schedule begin together, the
    /// first of them on the first CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duet: Option<[usize; 2]>,
    /// Seed of every random choice inside the trial.
    pub seed: u64,
    /// How much of the result is checked.
    #[serde(default, skip_serializing_if = "Verify::is_whole")]
    pub verify: Verify,
    /// What is to be observed at the site meanwhile; `None` for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observe: Option<ObserveSpec>,
    /// Block devices of the site that the trial may overwrite, as the user has named them; the site writes to no other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overwritable: Vec<PathBuf>,
}

impl TrialSpec {
    /// A trial of these arms without phases: their memory in their order, the CPUs that the agent finds, seed 0, a minute for a body, all results verified, nothing
    /// observed.
    #[must_use]
    pub fn new(workload: &str, arms: impl Into<Arc<[ArmSpec]>>) -> Self {
        let arms = arms.into();
        TrialSpec {
            workload: workload.to_owned(),
            schedule: Vec::new(),
            allocation_order: (0..arms.len()).collect(),
            arms,
            phase_ns: 1,
            reps: None,
            reps_near: None,
            most_ns: None,
            watchdog_ns: 60_000_000_000,
            cpus: Vec::new(),
            duet: None,
            seed: 0,
            verify: Verify::default(),
            observe: None,
            overwritable: Vec::new(),
        }
    }
}

/// Leave to continue, given to all sites of an ensemble at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// The repetitions that all of them run.
    pub reps: u64,
    /// The moment at which all of them begin, by the site's own monotonic clock, in nanoseconds.
    pub begin_ns: u64,
}

/// One side of a trial whose two arms run at different sites, phase by phase in turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnsSpec {
    /// The trial as far as it runs here: one arm, and a phase of the schedule for each turn that it can have.
    pub spec: TrialSpec,
    /// Which arm of the whole trial it is, 0 or 1.
    pub arm: usize,
    /// For how many nanoseconds it rests between hearing of a turn and its phase, so that whatever passed the message on is idle again.
    pub rest_ns: u64,
}

/// What one side of a trial in turns measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SideResult {
    /// Its own part, whose only arm is number 0.
    pub result: TrialResult,
    /// What it did while the other side had its phases.
    pub idle: Idle,
}

/// The processor time that a side of a trial in turns used while the phases of the other ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// How long it waited for its turn while the other side had one, in nanoseconds.
    pub ns: u64,
    /// The processor time of its process meanwhile, in nanoseconds.
    pub cpu_ns: u64,
}

/// A stretch that was timed, by the site's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// The first start of any rank, in nanoseconds.
    pub begin_ns: u64,
    /// The last end of any.
    pub end_ns: u64,
}

/// What one site of an ensemble measured, and what it takes to join it with the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberResult {
    /// Its own trial.
    pub result: TrialResult,
    /// For each phase: its run. Two, the halves, in results of format 1.
    pub stretches: Vec<Vec<Stretch>>,
    /// How the members join in each metric.
    pub together: BTreeMap<String, Aggregate>,
}

/// One run of a kernel's body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BodyRun {
    /// When each rank was inside; the ranks of an ensemble's members are numbered through.
    pub times: Vec<RankTime>,
    /// What was counted meanwhile.
    pub audit: Audit,
    /// The metrics of this run alone, where a phase has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
}

/// What one arm measured in one phase of a trial, whatever its workload is: a kernel, a program, an HTTP load, an application.
///
/// The metrics of the phase are in `samples`. What was measured over shorter stretches, or as a distribution, is in
/// `points`; what only this kind of workload reports is in `detail`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its place in the schedule, from 0. `position` in results of format 1.
    #[serde(alias = "position")]
    pub phase: usize,
    /// Which arm ran.
    pub arm: usize,
    /// When it began, in nanoseconds since the trial's first phase began. 0 in results of format 1.
    #[serde(default)]
    pub begin_ns: u64,
    /// When it ended, likewise.
    #[serde(default)]
    pub end_ns: u64,
    /// Repetitions in each run of the body.
    pub reps: u64,
    /// The runs of a kernel's body, one a phase; two `halves` in results of format 1. Empty for everything else.
    #[serde(default, alias = "halves", skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<BodyRun>,
    /// The metrics of the whole phase: of all members together, as [`crate::ensemble::together`] joins them.
    pub samples: Vec<Sample>,
    /// The metrics of each member alone, in order; empty where there is only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberRecord>,
    /// Parts of the phase, in order of time: seconds of a load, operations of an application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
    /// What only this kind of workload reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
}

/// One part of a phase: samples, a distribution, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// What it is a part of: `all` for every operation together, else the operation's or tier's name.
    pub name: String,
    /// When it began, in nanoseconds since the phase began.
    pub begin_ns: u64,
    /// When it ended, likewise.
    pub end_ns: u64,
    /// Values, by metric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// A distribution of nanoseconds in HdrHistogram's V2 format, in base64. Histograms of one name merge by addition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<String>,
    /// The distributions of the phase that the histogram is a part of, as percentiles' keys name them
    /// ([`crate::percentile::Percentile::of`]): `latency_ms`. None in results of versions before 0.3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distributions: Vec<String>,
    /// Latencies counted in coarse bins ([`crate::timeline::written`]): of a stretch of the phase, to show how they were over time. No percentile
    /// is of them. One text takes a reader far less memory than lists of lists.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bins: String,
}

impl Point {
    /// A part from `begin_ns` to `end_ns` of the phase.
    #[must_use]
    pub fn new(name: &str, (begin_ns, end_ns): (u64, u64), samples: Vec<Sample>, histogram: Option<String>) -> Point {
        let name = name.to_owned();
        Point { name, begin_ns, end_ns, samples, histogram, distributions: Vec::new(), bins: String::new() }
    }

    /// The same as a part of these distributions of the phase.
    #[must_use]
    pub fn of(self, distributions: &[&str]) -> Point {
        Point { distributions: distributions.iter().map(|of| (*of).to_owned()).collect(), ..self }
    }
}

/// What only one kind of workload reports, as that kind writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// The name and version of its format, such as `baremark-load/1`. Readers of another version ignore it.
    pub format: String,
    /// The document.
    pub document: serde_json::Value,
}

/// One member of an ensemble over one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Its place among the ensemble's members, copies counted one by one.
    pub member: usize,
    /// Its own metrics.
    pub samples: Vec<Sample>,
}

/// A trial whose buffers are so large together leaves their frames with its agent, and the lab ends an agent of this machine only when another trial needs as much.
pub const MUCH_BYTES: u64 = 256 << 20;

/// The pages behind a span of memory, as reported by the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagesSeen {
    /// Bytes that are resident.
    pub resident_bytes: u64,
    /// Bytes of them in huge pages.
    pub huge_bytes: u64,
    /// Bytes of them in ranges of 2 MiB whose frames lie one after the other; `None` where the kernel does not show frames to this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contiguous_bytes: Option<u64>,
}

/// What an arm looked like over the whole trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmRecord {
    /// Its executor.
    pub executor: ExecutorFacts,
    /// Its memory before the first phase.
    pub pages_before: PagesSeen,
    /// Its memory after the last.
    pub pages_after: PagesSeen,
    /// The hypervisor's counters before the first phase: how the machine mapped the memory.
    pub counters: BTreeMap<String, u64>,
    /// By how much the hypervisor's counters grew inside the timed regions of all phases together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grown: BTreeMap<String, u64>,
    /// Where its ranks and pages were.
    #[serde(default)]
    pub placed: Placed,
    /// Whether the result was right.
    pub verification: Verification,
    /// The share of the result that was checked; `None` for the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Share>,
    /// How long one entry into the executor and back takes, with nothing to do inside.
    pub empty_run_ns: f64,
}

/// Processor time lost to others, seen by a loop that only reads the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LostTime {
    /// For how long it looked.
    pub looked_ns: u64,
    /// How often the loop stood still for longer than its threshold.
    pub gaps: u64,
    /// The share of the time that it stood still.
    pub share: f64,
    /// The longest stand-still.
    pub longest_ns: u64,
}

/// What others took of the CPUs while the phases of a trial ran: nothing of its preparation is in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// By arm: the share of its ranks' time in which they were ready to run while somebody else had their CPUs; `None` where
    /// the kernel does not report it. Each phase has its own in [`Audit::queued_ns`].
    pub queued: Vec<Option<f64>>,
    /// By arm: how often a rank slept at a barrier because another was late.
    pub rests: Vec<u64>,
    /// The share of all CPUs' time that other programs used, and the kernel where the work is this process or not all programs are seen; `None` where the kernel
    /// does not report it.
    pub others: Option<f64>,
    /// The share of all CPUs' time that the hypervisor below took away; likewise.
    pub stolen: Option<f64>,
    /// The share of its CPU time that a quota withheld from the agent's control group or one around it, of what that used and what was withheld, from
    /// the first phase to the last; `None` where the kernel does not count it, and in results of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<f64>,
    /// The share of the time, from the first phase to the last, in which some task of the machine waited for a CPU, the measured ones among them
    /// (PSI, `some`); likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<f64>,
    /// The other programs that used most, the most first; none where the kernel does not show them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramShare>,
    /// Whether there are programs on the machine that the agent does not see, since it is in a PID namespace of its own or another user's processes are hidden:
    /// they are among the others, and none is named.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden_programs: bool,
    /// Whether part of the measured work itself is done by other programs, such as a server that was there before, or at other sites, which may be on
    /// the same machine: what others used says then nothing of how good the trial is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub work_of_others: bool,
    /// By phase, in order. Empty in results of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseDisturbance>,
}

/// A program and the share of all CPUs' time that it used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProgramShare {
    /// Its name, as the kernel has it.
    pub name: String,
    /// From 0 to 1.
    pub share: f64,
}

/// What others took of the CPUs while one phase ran. The kernel counts CPU time in ticks: phases that are too short for it are
/// counted together with the other phases of their quad, and all four have the quad's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseDisturbance {
    /// The share of its ranks' time in which they were ready to run while somebody else had their CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<f64>,
    /// The share of all CPUs' time that other programs used, as in [`Disturbance::others`]; where the agent does not see them it may be below 0, since what it lacks in one phase
    /// because of ticks it has in the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// The share of all CPUs' time that the hypervisor below took away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<f64>,
    /// The share of all CPUs' time that was neither idle nor stolen nor used by the agent and what it has started: other programs', the kernel's and the lab's where that is on this
    /// machine. It is counted alike whichever programs the agent sees; what it lacks in one phase because of ticks it has in the next, and may be below 0. `None` where
    /// the kernel does not report it, and in results of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond_agent: Option<f64>,
    /// Whether these are shares of a container's CPUs and its programs', since a file of its own is in the place of `/proc/stat` (lxcfs).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_container: bool,
    /// The share that one tick of one CPU is: `others` and `stolen` are known to so much.
    pub resolution: f64,
}

impl Disturbance {
    /// The share of all CPUs' time that others used while phases of `arm` ran, `arms` being the arm of each phase: the mean of
    /// its phases; of the whole trial where phases were not recorded.
    #[must_use]
    pub fn others_of(&self, arm: usize, arms: impl Iterator<Item = usize>) -> Option<f64> {
        self.of_arm(arm, arms, self.others, |phase| phase.others).map(|share| share.max(0.0))
    }

    /// The same, of what the agent and what it has started did not use; `None` of a trial whose phases were not recorded.
    #[must_use]
    pub fn beyond_agent_of(&self, arm: usize, arms: impl Iterator<Item = usize>) -> Option<f64> {
        self.of_arm(arm, arms, None, |phase| phase.beyond_agent)
    }

    /// The same, of what the hypervisor below took: two arms may run on two machines.
    #[must_use]
    pub fn stolen_of(&self, arm: usize, arms: impl Iterator<Item = usize>) -> Option<f64> {
        self.of_arm(arm, arms, self.stolen, |phase| phase.stolen)
    }

    fn of_arm(
        &self,
        arm: usize,
        arms: impl Iterator<Item = usize>,
        whole: Option<f64>,
        share: impl Fn(&PhaseDisturbance) -> Option<f64>,
    ) -> Option<f64> {
        let own = arms.zip(&self.phases).filter(|(of, _)| *of == arm);
        let (mut sum, mut phases) = (0.0, 0.0);
        for (_, phase) in own {
            sum += share(phase)?;
            phases += 1.0;
        }
        if phases > 0.0 { Some(sum / phases) } else { whole }
    }
}

/// A quad of phases that does not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiscardedQuad {
    /// Its place among the trial's quads, from 0.
    pub quad: usize,
    /// Why, in words.
    pub why: String,
}

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Per arm of the specification.
    pub arms: Vec<ArmRecord>,
    /// One for each phase of the schedule, in order. `phases` in results of format 1.
    #[serde(alias = "phases")]
    pub series: Vec<Series>,
    /// Reasons for which the trial does not count; empty when it does.
    pub void: Vec<String>,
    /// What a reader should know though the trial counts.
    pub flags: Vec<String>,
    /// The clock of every tick in this record.
    pub tick_rate_per_s: TickRate,
    /// The instruction set that the kernels used.
    pub instruction_set: Isa,
    /// Lost time before the first phase.
    pub lost_before: LostTime,
    /// Lost time after the last.
    pub lost_after: LostTime,
    /// How long the whole trial took inside the agent.
    pub elapsed_ns: u64,
    /// Where that time went, in nanoseconds by part: `memory`, `phases`, `verification` and so on. Of the phases, `measured`
    /// is the time inside the measured regions, and `waits` the time between phases in which progress is reported and
    /// observers are read. Empty in results of earlier versions and of jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spent_ns: BTreeMap<String, u64>,
    /// What others took of the CPUs during the phases; `None` in results of earlier versions and in imported ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Quads that do not count, by a rule that looks at all their phases alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discarded: Vec<DiscardedQuad>,
    /// What was observed meanwhile: at the site, and on the lab's own machine where that is another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observations: Vec<Observation>,
}
