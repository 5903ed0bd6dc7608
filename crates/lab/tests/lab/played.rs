//! An environment whose agents are threads that follow a script, and a journal in memory.

use baremark_lab::analysis::Run;
use baremark_lab::conduct::{CallCounter, Conductor, Ending, Progress, RunLog, RunLogError};
use baremark_lab::trials::Finished;
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::document::LookRow;
use baremark_model::event::Event;
use baremark_model::machine::{Isa, MachineFacts};
use baremark_model::metric::Aggregate;
use baremark_model::page_size::PageSize;
use baremark_model::plan::{Cell, Contrast, Mode, Pair, Plan, PlannedArm, PlannedWorkload, Treatment};
use baremark_model::seam::{Audit, ExecutorFacts, RankTime, Sample, TickRate, Verification};
use baremark_model::second_look::SecondLook;
use baremark_model::site::{Environment, Link, Missing, Portion, Site, SiteError};
use baremark_model::study::Design;
use baremark_model::units::{Nanos, Share, UnixTime};
use baremark_model::wire::{
    ArmRecord, BodyRun, FromAgent, Idle, LostTime, MemberResult, PROTOCOL, PagesSeen, Pass, Series, SideResult,
    Stretch, ToAgent, TrialResult, TrialSpec, TurnsSpec, read_frame, write_frame,
};
use baremark_stats::Rng;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What an agent does with a trial.
#[derive(Clone, Debug)]
pub enum Answer {
    /// It gives these values of "gups", one for each arm.
    Values(Vec<f64>),
    /// As values, of phases that last so long each and vary by so much, as the trial's seed draws them.
    Varying(Vec<f64>, u64, f64),
    /// As values, with so much memory in each arm.
    In(u64, Vec<f64>),
    /// It gives these metrics, in every phase of every arm.
    Named(Vec<(&'static str, f64)>),
    /// It gives values, and the trial is void for this reason.
    Void(&'static str),
    /// It says that it cannot.
    Failed(&'static str),
    /// It dies.
    Dies,
    /// It speaks another protocol.
    Foreign,
}

type Script = Arc<Mutex<dyn FnMut(&TrialSpec) -> Answer + Send>>;

/// What happens while a site starts: of which place among several, with the flag that gives it up.
type Starting = Arc<dyn Fn(usize, &AtomicBool) -> Result<(), SiteError> + Send + Sync>;

/// What happens in a turn: of which arm, with how many phases of the other side since its last. It dies where that is false.
type Turning = Arc<dyn Fn(usize, u32) -> bool + Send + Sync>;

#[derive(Clone)]
pub struct Played {
    starting: Starting,
    /// Sites that are there.
    there: Arc<AtomicUsize>,
    script: Script,
    greeting: u32,
    /// Which of several sites this is, by the stretch that it says each half lasted.
    lasted_ns: Vec<u64>,
    index: usize,
    capabilities: &'static [&'static str],
    turning: Turning,
    idle: Idle,
    /// What a system call and a page fault take there.
    costs_ns: [f64; 2],
    /// Gets the argument of the system call by which the agent identifies itself; where this returns false the agent has ended.
    identifying: Arc<dyn Fn(u32) -> bool + Send + Sync>,
    /// What the hypervisor of a site uses of the CPUs between two questions.
    hypervisor_ns: Option<u64>,
    /// For how long something works after each message.
    relay: Duration,
    /// The rests and the phases of sides in turns, in ns.
    rests: Arc<Mutex<Vec<[u64; 2]>>>,
}

struct PlayedSite {
    link: Option<Link>,
    there: Arc<AtomicUsize>,
    hypervisor_ns: Option<u64>,
    relay: Duration,
    asked: AtomicU64,
}

impl Drop for PlayedSite {
    fn drop(&mut self) {
        self.there.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Played {
    /// In the place of a time: that site cannot run its trial, or is lost.
    pub const FAILS: u64 = 0;
    pub const DIES: u64 = u64::MAX;
    /// An order of a load that no agent can prepare.
    pub const REFUSED: &'static str = "refused";
    /// An order of a steered load whose agent dies in its first window.
    pub const DYING: &'static str = "dying";

    pub fn new(script: impl FnMut(&TrialSpec) -> Answer + Send + 'static) -> Self {
        Played {
            starting: Arc::new(|_, _| Ok(())),
            there: Arc::default(),
            script: Arc::new(Mutex::new(script)),
            greeting: PROTOCOL,
            lasted_ns: Vec::new(),
            index: 0,
            capabilities: &["run-member", "take-turns", "load", "steer-load", "time-calls", "identify"],
            turning: Arc::new(|_, _| true),
            idle: Idle { ns: 1_000_000, cpu_ns: 1000 },
            costs_ns: [100.0, 500.0],
            identifying: Arc::new(|_| true),
            hypervisor_ns: None,
            relay: Duration::ZERO,
            rests: Arc::default(),
        }
    }

    /// Sites at which whatever passes messages on works for so long after each.
    pub fn relayed(mut self, relay: Duration) -> Self {
        self.relay = relay;
        self
    }

    /// The rest that each side had before a phase, and how long that was to be at least, in ns.
    pub fn rests(&self) -> Arc<Mutex<Vec<[u64; 2]>>> {
        Arc::clone(&self.rests)
    }

    /// Sites at which a system call and a page fault take so long.
    pub fn costing(mut self, costs_ns: [f64; 2]) -> Self {
        self.costs_ns = costs_ns;
        self
    }

    /// Agents that tell `identifying` the argument by which they are to identify themselves, and are gone where it says false.
    pub fn identifying(mut self, identifying: impl Fn(u32) -> bool + Send + Sync + 'static) -> Self {
        self.identifying = Arc::new(identifying);
        self
    }

    /// Agents whose turns are told to `turning`, and which use so much CPU time while they wait for them.
    pub fn in_turns(mut self, idle: Idle, turning: impl Fn(usize, u32) -> bool + Send + Sync + 'static) -> Self {
        (self.idle, self.turning) = (idle, Arc::new(turning));
        self
    }

    /// Sites with a hypervisor, which uses so much of the CPUs between two questions.
    pub fn with_hypervisor(mut self, used_ns: u64) -> Self {
        self.hypervisor_ns = Some(used_ns);
        self
    }

    /// Agents of a version that cannot take turns.
    pub fn of_one_place(mut self) -> Self {
        self.capabilities = &["run-member"];
        self
    }

    /// Sites that start so.
    pub fn starting(
        mut self,
        starting: impl Fn(usize, &AtomicBool) -> Result<(), SiteError> + Send + Sync + 'static,
    ) -> Self {
        self.starting = Arc::new(starting);
        self
    }

    /// How many of its sites are there, at any time.
    pub fn there(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.there)
    }

    /// Agents of several sites, of which each says that every half lasted so long. Their clocks are hours apart.
    pub fn lasting(mut self, lasted_ns: &[u64]) -> Self {
        self.lasted_ns = lasted_ns.to_vec();
        self
    }

    /// That one of several places.
    pub fn at(mut self, index: usize) -> Self {
        self.index = index;
        self
    }

    /// Agents that greet with another protocol.
    pub fn foreign() -> Self {
        Played { greeting: PROTOCOL + 1, ..Played::new(|_| Answer::Foreign) }
    }
}

impl Environment for Played {
    fn name(&self) -> &'static str {
        "native"
    }

    fn probe(&self) -> Result<(), Missing> {
        Ok(())
    }

    fn portion(&self, portion: Portion) -> Result<Option<Box<dyn Environment>>, Missing> {
        Ok(Some(Box::new(Played { index: portion.index, ..self.clone() })))
    }

    fn start(&self, interrupt: &AtomicBool) -> Result<Box<dyn Site>, SiteError> {
        (self.starting)(self.index, interrupt)?;
        let (lab, agent) = UnixStream::pair().unwrap();
        let played = self.clone();
        thread::spawn(move || play(agent, &played));
        let link = Link { from_agent: Box::new(lab.try_clone().unwrap()), to_agent: Box::new(lab) };
        self.there.fetch_add(1, Ordering::SeqCst);
        let (hypervisor_ns, asked) = (self.hypervisor_ns, AtomicU64::new(0));
        Ok(Box::new(PlayedSite { link: Some(link), there: self.there(), hypervisor_ns, relay: self.relay, asked }))
    }
}

impl Site for PlayedSite {
    fn link(&mut self) -> Option<Link> {
        self.link.take()
    }

    fn kill(&mut self) {}

    fn log(&self) -> Vec<String> {
        vec!["the last words of a played agent".to_owned()]
    }

    fn relay_works_for(&self) -> Duration {
        self.relay
    }

    fn hypervisor_cpu_ns(&self) -> Option<u64> {
        Some(self.hypervisor_ns? * self.asked.fetch_add(1, Ordering::SeqCst))
    }
}

fn play(mut stream: UnixStream, played: &Played) {
    let (protocol, script) = (played.greeting, &played.script);
    // Of a load it hands back what it was told to do.
    let mut part = Box::default();
    while let Ok(message) = read_frame::<ToAgent>(&mut stream) {
        let answer = match message {
            ToAgent::Hello { .. } => FromAgent::Hello {
                protocol,
                version: "0".to_owned(),
                capabilities: played.capabilities.iter().map(|&name| name.to_owned()).collect(),
                instruction_set: Isa::Baseline,
                pid: 1,
            },
            ToAgent::RunTrial(spec) => {
                let answer = (script.lock().unwrap())(&spec);
                match answer {
                    Answer::Values(values) => FromAgent::TrialDone(Box::new(result(&spec, &values))),
                    Answer::Varying(values, phase_ns, sd) => {
                        FromAgent::TrialDone(Box::new(varying(&spec, &values, phase_ns, sd)))
                    }
                    Answer::In(bytes, values) => {
                        let mut result = result(&spec, &values);
                        result.arms.iter_mut().for_each(|arm| arm.pages_after.resident_bytes = bytes);
                        FromAgent::TrialDone(Box::new(result))
                    }
                    Answer::Named(values) => {
                        let mut result = result(&spec, &vec![1.0; spec.arms.len()]);
                        for phase in &mut result.series {
                            phase.samples = values.iter().map(|(key, value)| Sample::new(*key, *value)).collect();
                        }
                        FromAgent::TrialDone(Box::new(result))
                    }
                    Answer::Void(reason) => {
                        let mut result = result(&spec, &[1.0, 1.0]);
                        result.void.push(reason.to_owned());
                        FromAgent::TrialDone(Box::new(result))
                    }
                    Answer::Failed(why) => FromAgent::Failed { what: "a trial".to_owned(), why: why.to_owned() },
                    Answer::Dies | Answer::Foreign => return,
                }
            }
            ToAgent::RunMember(spec) => {
                // Not under the script's lock: sites wait for each other.
                let answer = (script.lock().unwrap())(&spec);
                let lasted = played.lasted_ns[played.index];
                match answer {
                    Answer::Values(_) if lasted == Played::FAILS => {
                        FromAgent::Failed { what: "a trial".to_owned(), why: "no memory".to_owned() }
                    }
                    Answer::Values(values) if lasted != Played::DIES => {
                        let Some(member) = member(&mut stream, &spec, played, &values) else { return };
                        FromAgent::MemberDone(Box::new(member))
                    }
                    _ => return,
                }
            }
            ToAgent::TakeTurns(side) => {
                let answer = (script.lock().unwrap())(&side.spec);
                match answer {
                    Answer::Values(values) => {
                        let Some(done) = turns(&mut stream, &side, played, &values) else { return };
                        FromAgent::TurnsDone(Box::new(done))
                    }
                    Answer::Failed(why) => FromAgent::Failed { what: "a trial".to_owned(), why: why.to_owned() },
                    _ => return,
                }
            }
            ToAgent::PrepareLoad { order } if order.as_str() == Some(Played::REFUSED) => {
                FromAgent::Failed { what: "preparing the load".to_owned(), why: "no file".to_owned() }
            }
            ToAgent::PrepareLoad { order } => {
                part = order;
                FromAgent::LoadReady
            }
            ToAgent::ReadClock => FromAgent::Clock { monotonic_ns: now_ns() },
            ToAgent::Identify { argument } if !(played.identifying)(argument) => return,
            ToAgent::Identify { .. } => FromAgent::Identified,
            ToAgent::TimeCalls { .. } => {
                FromAgent::CallsTimed { call_ns: played.costs_ns[0], fault_ns: Some(played.costs_ns[1]) }
            }
            ToAgent::StartLoad { .. } => FromAgent::LoadDone { part: part.clone() },
            // Of a load that is steered it tells the level as what is on its way, and its order as each window.
            ToAgent::SteerLoad { .. } => FromAgent::LoadInFlight { operations: 0 },
            ToAgent::SetLevel { level, .. } => {
                FromAgent::LoadInFlight { operations: format!("{level:.0}").parse().unwrap() }
            }
            ToAgent::AskWindow { .. } if part.as_str() == Some(Played::DYING) => return,
            ToAgent::AskWindow { id, .. } => FromAgent::LoadWindow { id, part: part.clone() },
            ToAgent::Observe(_) => FromAgent::Observing,
            ToAgent::EndObservation => FromAgent::Observed(Box::default()),
            ToAgent::Goodbye => return,
            other => FromAgent::Failed { what: format!("{other:?}"), why: "this agent is played".to_owned() },
        };
        if write_frame(&mut stream, &answer).is_err() {
            return;
        }
    }
}

/// Waits until it is so; whether it ever was.
pub fn soon(is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    is_so()
}

/// What a site of several measured: it passes the gate before every half, and says that the half began at the moment that
/// the lab named and lasted as long as it was told to say. Its clock is its index in hours behind the machine's.
fn member(stream: &mut UnixStream, spec: &TrialSpec, played: &Played, values: &[f64]) -> Option<MemberResult> {
    let behind_ns = 3_600_000_000_000 * (played.index as u64 + 1);
    let now = || now_ns() + (1 << 61) - behind_ns;
    let pass = |stream: &mut UnixStream| -> Option<u64> {
        write_frame(stream, &FromAgent::AtGate { reps: 1 + played.index as u64 }).ok()?;
        loop {
            match read_frame::<ToAgent>(stream).ok()? {
                ToAgent::ReadClock => write_frame(stream, &FromAgent::Clock { monotonic_ns: now() }).ok()?,
                ToAgent::Pass(pass) if pass.reps == 2 => return Some(pass.begin_ns),
                _ => return None,
            }
        }
    };
    pass(stream)?;
    let mut stretches = Vec::new();
    for (position, &arm) in spec.schedule.iter().enumerate() {
        let mut halves = Vec::new();
        for _ in 0..2 {
            let begin_ns = pass(stream)?;
            halves.push(Stretch { begin_ns, end_ns: begin_ns + played.lasted_ns[played.index] });
        }
        stretches.push(halves);
        write_frame(stream, &FromAgent::Phase { position, of: spec.schedule.len(), arm }).ok()?;
    }
    let mut result = result(spec, values);
    for samples in result
        .series
        .iter_mut()
        .flat_map(|phase| phase.runs.iter_mut().map(|half| &mut half.samples).chain([&mut phase.samples]))
    {
        let value = samples[0].value;
        samples.push(Sample::new("gups_at_once", value));
    }
    let together = [("gups", Aggregate::Sum), ("gups_at_once", Aggregate::Window)];
    Some(MemberResult { result, stretches, together: together.map(|(key, rule)| (key.to_owned(), rule)).into() })
}

/// One side of a trial in turns, whose ranks say that a phase lasted a millisecond by a clock of 2 GHz. It has found 5 repetitions more than its arm's
/// number, and continues with those of the other side alone.
fn turns(stream: &mut UnixStream, side: &TurnsSpec, played: &Played, values: &[f64]) -> Option<SideResult> {
    played.rests.lock().unwrap().push([side.rest_ns, side.spec.phase_ns]);
    let mut ask = |reps| {
        write_frame(stream, &FromAgent::AtTurn { reps }).ok()?;
        read_frame::<ToAgent>(stream).ok()
    };
    let ToAgent::Pass(Pass { reps: 6, .. }) = ask(Some(5 + side.arm as u64))? else { return None };
    let mut phases = 0;
    loop {
        match ask(None)? {
            ToAgent::Turn { others } if (played.turning)(side.arm, others) => {
                thread::sleep(Duration::from_nanos(side.rest_ns));
                phases += 1;
            }
            ToAgent::EndTurns { .. } => break,
            _ => return None,
        }
    }
    let mut result = result(&side.spec, values);
    result.tick_rate_per_s = TickRate(2e9);
    result.series.truncate(phases);
    for (phase, place) in result.series.iter_mut().zip(1..) {
        phase.reps = 6;
        phase.runs.truncate(1);
        let start_ticks = place * 1_000_000_000_000;
        phase.runs[0].times = vec![RankTime { rank: 0, start_ticks, end_ticks: start_ticks + 2_000_000 }];
    }
    Some(SideResult { result, idle: played.idle })
}

pub fn now_ns() -> u64 {
    static BEGAN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    u64::try_from(BEGAN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap()
}

/// The result of a trial in which arm i had the value `values[i]` in every phase.
pub fn result(spec: &TrialSpec, values: &[f64]) -> TrialResult {
    let samples = |arm: usize| vec![Sample::new("gups", values[arm])];
    let half = |arm| BodyRun {
        times: vec![RankTime { rank: 0, start_ticks: 0, end_ticks: 1 }],
        audit: Audit::default(),
        samples: samples(arm),
    };
    let phases = spec.schedule.iter().enumerate().map(|(phase, &arm)| Series {
        phase,
        begin_ns: 0,
        end_ns: 0,
        arm,
        reps: 1,
        runs: vec![half(arm), half(arm)],
        samples: samples(arm),
        members: Vec::new(),
        points: Vec::new(),
        detail: None,
    });
    let arm = ArmRecord {
        executor: ExecutorFacts {
            name: "direct".to_owned(),
            ranks: 1,
            cpus: vec![0],
            runs_body: true,
            virtual_machine: false,
            mmu: None,
            translation: None,
            notes: BTreeMap::new(),
        },
        pages_before: PagesSeen::default(),
        pages_after: PagesSeen::default(),
        counters: BTreeMap::new(),
        grown: BTreeMap::new(),
        placed: Default::default(),
        verification: Verification::Passed { detail: String::new() },
        verified: None,
        empty_run_ns: 1.0,
    };
    TrialResult {
        arms: vec![arm; spec.arms.len()],
        series: phases.collect(),
        void: Vec::new(),
        flags: Vec::new(),
        tick_rate_per_s: TickRate(1e9),
        instruction_set: Isa::Baseline,
        lost_before: LostTime::default(),
        lost_after: LostTime::default(),
        elapsed_ns: 1,
        spent_ns: BTreeMap::new(),
        disturbance: None,
        discarded: Vec::new(),
        observations: Vec::new(),
    }
}

/// As `result`, of phases of `phase_ns` each whose logarithms have the standard deviation `sd`.
fn varying(spec: &TrialSpec, values: &[f64], phase_ns: u64, sd: f64) -> TrialResult {
    let (mut result, mut rng) = (result(spec, values), Rng::new(spec.seed));
    for (place, phase) in (0..).zip(&mut result.series) {
        (phase.begin_ns, phase.end_ns) = (place * phase_ns, (place + 1) * phase_ns);
        phase.samples[0].value *= (sd * rng.normal()).exp();
    }
    result
}

fn arm(environment: &str) -> PlannedArm {
    let executor = if environment == "microvm" { ExecutorKind::Microvm } else { ExecutorKind::Direct };
    PlannedArm {
        treatment: Treatment::from([("environment".to_owned(), environment.to_owned())]),
        environment: environment.to_owned(),
        like: None,
        arm: ResolvedArm { executor, ..ResolvedArm::native(1, PageSize::Small) },
        emulated: false,
    }
}

/// Native against a container in one trial, at two sites in turns.
pub fn in_turns() -> Plan {
    let mut plan = plan("container");
    plan.pairs[0].interleaved = true;
    plan.cells = vec![Cell::Pair(0)];
    plan
}

/// Native against microvm in one process, or against a container in trials of its own.
pub fn plan(other: &str) -> Plan {
    let interleaved = other == "microvm";
    Plan {
        title: "played".to_owned(),
        published: None,
        workload: "random-access".to_owned(),
        metric: "gups".to_owned(),
        workloads: Vec::new(),
        also: BTreeMap::new(),
        factors: vec![("environment".to_owned(), vec!["native".to_owned(), other.to_owned()])],
        rows: None,
        columns: "environment".to_owned(),
        against: None,
        arms: vec![arm("native"), arm(other)],
        pairs: vec![Pair { numerator: 1, denominator: 0, contrast: Contrast::Environment, interleaved, asked: true }],
        cells: if interleaved { vec![Cell::Pair(0)] } else { vec![Cell::Single(0), Cell::Single(1)] },
        absent: Vec::new(),
        design: Design {
            precision: Share(0.01),
            delta: Share(0.02),
            // Trials that are played count with the time that they take: no test of something else comes to its end.
            budget: Nanos(100 * 3_600_000_000_000),
            phase: Nanos(50_000_000),
            quads: 1,
            least_blocks: 10,
            most_blocks: 60,
            seed: 7,
        },
        quads_by_variance: false,
        apart: Vec::new(),
        duet: None,
        mode: Mode::default(),
        extensions: Vec::new(),
        search: None,
        load: None,
        injected: None,
        cpus: vec![0],
        environments: BTreeMap::new(),
        observe: Default::default(),
    }
}

/// `plan`, and the control with it in the same blocks.
pub fn with_control(plan: &Plan) -> Plan {
    let mut both = plan.clone();
    both.workload = "random-access, fma".to_owned();
    both.workloads = ["random-access", "fma"]
        .map(|kind| PlannedWorkload { kind: kind.to_owned(), metric: "gups".to_owned(), published: None })
        .to_vec();
    both.arms = ["random-access", "fma"]
        .iter()
        .flat_map(|kind| plan.arms.iter().map(move |arm| (kind, arm)))
        .map(|(kind, arm)| {
            let mut arm = arm.clone();
            arm.treatment.insert("workload".to_owned(), (*kind).to_owned());
            arm
        })
        .collect();
    let control = Pair { numerator: 3, denominator: 2, ..plan.pairs[0] };
    (both.pairs, both.cells) = (vec![plan.pairs[0], control], vec![Cell::Pair(0), Cell::Pair(1)]);
    both
}

/// What was written down, and after how many trials the disk is full.
#[derive(Default)]
pub struct Memory {
    pub trials: Vec<Finished>,
    pub looks: Vec<LookRow>,
    pub progress: Vec<Progress>,
    pub examined: Option<SecondLook>,
    pub full_after: Option<usize>,
}

impl RunLog for Memory {
    fn trial(&mut self, trial: &Finished) -> Result<(), RunLogError> {
        if self.full_after.is_some_and(|limit| self.trials.len() >= limit) {
            return Err(RunLogError("the disk is full".to_owned()));
        }
        self.trials.push(trial.clone());
        Ok(())
    }

    fn progress(&mut self, progress: &Progress) -> Result<(), RunLogError> {
        self.progress.push(progress.clone());
        Ok(())
    }

    fn look(&mut self, look: &LookRow) -> Result<(), RunLogError> {
        self.looks.push(look.clone());
        Ok(())
    }

    fn second_look(&mut self, found: &SecondLook) -> Result<(), RunLogError> {
        self.examined = Some(found.clone());
        Ok(())
    }
}

/// The block device that runs of these tests may overwrite.
pub const OVERWRITABLE: &str = "/dev/sdb";

/// Conducts `plan` with what `memory` has so far; the agents of every environment follow `played`'s script.
pub fn conduct(
    plan: &Plan,
    played: Vec<(&str, Played)>,
    memory: &mut Memory,
    interrupt: &AtomicBool,
) -> (Result<Ending, RunLogError>, Vec<Event>) {
    conduct_with(plan, played, memory, (interrupt, None))
}

/// The same with what counts system calls when the run is over.
pub fn conduct_with(
    plan: &Plan,
    played: Vec<(&str, Played)>,
    memory: &mut Memory,
    (interrupt, calls): (&AtomicBool, Option<&mut dyn CallCounter>),
) -> (Result<Ending, RunLogError>, Vec<Event>) {
    let environments: BTreeMap<String, Box<dyn Environment>> =
        played.into_iter().map(|(name, played)| (name.to_owned(), Box::new(played) as Box<dyn Environment>)).collect();
    let mut events = Vec::new();
    let (mut trials, looks) = (memory.trials.clone(), memory.looks.clone());
    let progress = memory.progress.clone();
    let ending = Conductor {
        plan,
        run: "a-run",
        environments: &environments,
        interrupt,
        progress: &progress,
        overwritable: &[OVERWRITABLE.into()],
        host: &mut |_| Ok(()),
        calls: calls.map(|calls| calls as &mut dyn CallCounter),
        // So long that no load of this machine has a test examine less.
        examine_least: Duration::from_secs(3600),
        log: memory,
        watch: &mut |event| events.push(event.clone()),
    }
    .conduct(&mut trials, &looks);
    (ending, events)
}

/// The stored run, for the analysis.
pub fn run(plan: &Plan, memory: &Memory) -> Run {
    Run {
        id: "a-run".to_owned(),
        file: "a.toml".to_owned(),
        plan: plan.clone(),
        machine: MachineFacts::default(),
        version: "0".to_owned(),
        started: UnixTime(0),
        ended: None,
        stop_reason: None,
        trials: memory.trials.clone(),
        looks: memory.looks.clone(),
        examined: memory.examined.clone(),
        imported: Vec::new(),
        notes: Vec::new(),
    }
}
