//! One trial: prepare, warm, run the schedule, verify, tell.
//!
//! Both arms of a pair run in this one process, phase by phase in the order that the lab drew. Phases are short, so that the
//! arms alternate faster than the noise of a machine changes; a phase is one entry into its executor, and the clock is
//! read inside. No warm-in precedes it: the first pass after a switch is a small part of a phase, and the
//! same for both arms.

use crate::ensemble::{self, Ensemble, joint_run};
use crate::executors::{direct::Direct, null::Null};
use crate::gate;
use crate::progress::Progress;
pub use crate::trial_error::TrialError;
use crate::{audit, blinded, buffers, buffers::Buffers, disturbance, pace, placing};
use baremark_kernels::isa;
use baremark_microvm::Microvm;
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::disturbed::{QUAD, discarded, flags as flags_of};
use baremark_model::metric::Metric;
use baremark_model::order;
use baremark_model::placement::Topology;
use baremark_model::scale::extra;
use baremark_model::seam::{
    Body, Executor, Fault, Prepared, RankTime, RunRecord, TickRate, Verification, Work, Workload,
};
use baremark_model::team::Team;
use baremark_model::units::{Nanos, Share};
use baremark_model::verify::{Ranges, Verify};
use baremark_model::wire::{ArmRecord, BodyRun, LostTime, MemberRecord, PagesSeen, Series, TrialResult, TrialSpec};
use baremark_sys::affinity::Seat;
use baremark_sys::{clock, smaps, tsc_gaps};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// For how long lost time is looked for, before and after the phases.
const LOST_TIME_LOOK: Duration = Duration::from_millis(10);
/// For how long the time-stamp counter is calibrated where its rate is unknown.
pub(crate) const CALIBRATION: Duration = Duration::from_millis(50);
/// Entries whose median gives the cost of an empty run.
const EMPTY_RUNS: usize = 9;

/// Runs a trial of a kernel; `progress` hears of each phase.
///
/// # Errors
/// When it could not be run to its end; what ran but was not as asked comes back as a void result instead.
pub(crate) fn run(
    workload: &dyn Workload,
    spec: &TrialSpec,
    progress: &mut dyn Progress,
) -> Result<TrialResult, TrialError> {
    let mut spent = Spent::begin();
    let calibration = clock::Calibration::ahead()?;
    let crowds = crowds(spec)?;
    let arms: Vec<&ResolvedArm> = crowds.iter().map(|(arm, _)| *arm).collect();
    let site = placing::site(spec)?;
    let cpus =
        crowds.iter().map(|&(arm, members)| placing::cpus(&site, arm, members)).collect::<Result<Vec<_>, _>>()?;
    let costs = blinded::costs(&arms)?;
    let executor_of = blinded::executor_of(&arms);
    let mut memory = Buffers::allocate(workload, &crowds, (&executor_of, &cpus), &site, spec)?;
    spent.on("memory");
    let mut ensembles = Vec::new();
    for (index, arm) in arms.iter().enumerate() {
        let own = executor_of[index] == index;
        ensembles.push(own.then(|| start(spec, arm, (&site, &cpus[index]), &mut memory, index)).transpose()?);
    }
    let ensembles = Ensembles { own: ensembles, of_arm: executor_of };
    spent.on("executors");
    let pages_before = inspect(&memory, &arms);
    spent.on("pages");
    let maps: Vec<_> = memory.first_arm.iter().zip(&memory.maps).collect();
    let preparations = side_by_side(maps, |(&arm, map)| workload.prepare(arms[arm], map));
    let preparations = preparations.into_iter().collect::<Result<Vec<_>, _>>()?;
    spent.on("preparation");
    let (rate, _) = calibration.end(CALIBRATION)?;
    spent.on("clock");
    let rows = workload.descriptor().metrics;
    let mut stage = Stage {
        spec,
        rate,
        rows,
        ensembles,
        preparations,
        of_arm: &memory.of_arm,
        costs,
        grown: vec![BTreeMap::new(); arms.len()],
        waited: Duration::ZERO,
        void: Vec::new(),
    };
    // Right before the first phase: a CPU that has waited, such as for the calibration, is slower for its first milliseconds.
    let mut reps = blinded::whole(stage.reps()?, &arms);
    stage.ensembles.warmed()?;
    spent.on("pacing");
    reps = progress.agree(Some(reps))?.unwrap_or(reps);
    // The time until other sites were prepared is theirs.
    spent.skip();
    let counters = stage.counters(&arms, &memory);
    spent.on("pacing");
    let (one_side, several) = (progress.is_one_side(), progress.is_one_of_several());
    let phase = Duration::from_nanos(spec.phase_ns);
    let meter = disturbance::Meter::begin(disturbance::Work::Kernel, phase);
    let mut meter = meter.of_one_side(one_side).of_several(several);
    let phases = stage.phases(reps, progress, &mut meter)?;
    let disturbance = meter.end(&phases, arms.len(), rate);
    // Whoever has both sides of a trial knows its quads. Each of several sites would discard other ones: what they did together keeps all.
    let discarded = if one_side || several { Vec::new() } else { discarded(&phases, &disturbance, rate) };
    spent.on("phases");
    let verifications = stage.verify();
    spent.on("verification");
    let empty = stage.empty_runs()?;
    let Left { mut ensembles, mut void, grown, waited } = stage.leave();
    spent.on("empty runs");
    let pages = [pages_before, inspect(&memory, &arms)];
    let found = Found { pages, counters, grown, verifications, empty };
    let (records, more, mut flags) = records(&arms, &mut ensembles, &memory, (&site, &cpus), &found);
    void.extend(more);
    flags.extend(flags_of(&disturbance, &discarded));
    void.sort();
    void.dedup();
    flags.dedup();
    spent.on("pages");
    drop(ensembles);
    memory.end();
    spent.on("end");
    spent.of_phases("measured", measured(&phases, rate));
    spent.of_phases("waits", waited);
    Ok(TrialResult {
        arms: records,
        series: phases,
        void,
        flags,
        tick_rate_per_s: rate,
        instruction_set: isa::widest(),
        // Measured inside the phases instead.
        lost_before: LostTime::default(),
        lost_after: LostTime::default(),
        elapsed_ns: Nanos::from(spent.begun.elapsed()).0,
        spent_ns: spent.by_part,
        disturbance: Some(disturbance),
        discarded,
        observations: Vec::new(),
    })
}

/// Where the time of a trial goes, part by part.
struct Spent {
    begun: Instant,
    last: Instant,
    by_part: BTreeMap<String, u64>,
}

impl Spent {
    fn begin() -> Self {
        let now = Instant::now();
        Spent { begun: now, last: now, by_part: BTreeMap::new() }
    }

    /// Whatever was done since the last call is left out.
    fn skip(&mut self) {
        self.last = Instant::now();
    }

    /// Whatever was done since the last call was done on `part`.
    fn on(&mut self, part: &str) {
        let now = Instant::now();
        *self.by_part.entry(part.to_owned()).or_default() += Nanos::from(now - self.last).0;
        self.last = now;
    }

    /// A share of the time of the phases, which is in `phases` too.
    fn of_phases(&mut self, part: &str, time: Duration) {
        self.by_part.insert(part.to_owned(), Nanos::from(time).0);
    }
}

/// Does `work` for each of `items`, as many at once as this process has CPUs; what came of each, in order.
fn side_by_side<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let count = items.len();
    let (left, done) = (Mutex::new(items.into_iter().enumerate()), Mutex::new(Vec::with_capacity(count)));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while let Some((place, item)) = next() {
            let found = work(item);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((place, found));
        }
    };
    thread::scope(|scope| {
        for _ in 1..workers {
            // Without a thread this one does all.
            drop(thread::Builder::new().spawn_scoped(scope, run));
        }
        run();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    order::by_key(&mut done, |(place, _)| *place);
    done.into_iter().map(|(_, found)| found).collect()
}

/// The time inside the measured regions of all phases: from the first rank's start to the last one's end.
fn measured(phases: &[Series], rate: TickRate) -> Duration {
    let runs = phases.iter().flat_map(|phase| &phase.runs);
    Duration::from_secs_f64(runs.filter_map(|run| rate.span(&run.times)).sum())
}

/// The executors of all arms. Arms that differ in a blinded cost alone have one in common.
struct Ensembles {
    own: Vec<Option<Ensemble>>,
    of_arm: Vec<usize>,
}

impl Ensembles {
    /// The one that runs `arm`.
    fn of(&mut self, arm: usize) -> &mut Ensemble {
        self.own[self.of_arm[arm]].as_mut().expect("every arm that executor_of names has an executor")
    }

    /// Runs each arm once: its bodies, `reps` repetitions, as where repetitions are looked for, or what these have instead. Whatever a phase uses of code and memory is there when it is
    /// timed. `of_arm` are the preparations of each arm.
    fn run_once(
        &mut self,
        preparations: &[Box<dyn Prepared + '_>],
        of_arm: &[Vec<usize>],
        reps: u64,
    ) -> Result<(), Fault> {
        for (arm, maps) in of_arm.iter().enumerate() {
            let shorter: Option<Vec<Box<dyn Body + '_>>> =
                maps.iter().map(|&map| preparations[map].warm_in()).collect();
            match shorter {
                Some(bodies) => {
                    self.of(arm).run_each(&bodies.iter().map(|body| &**body).collect::<Vec<&dyn Body>>(), 1)?
                }
                None => {
                    let bodies: Vec<&dyn Body> = maps.iter().map(|&map| preparations[map].body()).collect();
                    self.of(arm).run_each(&bodies, reps)?
                }
            };
        }
        Ok(())
    }

    /// Every arm has run once, and the next run is timed.
    fn warmed(&mut self) -> Result<(), Fault> {
        self.own.iter_mut().flatten().try_for_each(Ensemble::warmed)
    }
}

/// What was found of each arm: its pages before and after the phases, the hypervisor's counters, what an empty run takes;
/// and of each memory's result whether it is right.
struct Found {
    pages: [Vec<Vec<Inspection>>; 2],
    counters: Vec<BTreeMap<String, u64>>,
    grown: Vec<BTreeMap<String, u64>>,
    empty: Vec<f64>,
    verifications: Vec<Verified>,
}

/// Whether a memory's result is right, and the share of it that was checked where that was not the whole.
#[derive(Clone)]
struct Verified {
    verification: Verification,
    share: Option<Share>,
}

/// The arms' records, what of them makes the trial void, and what a reader should know of them.
fn records(
    arms: &[&ResolvedArm],
    ensembles: &mut Ensembles,
    memory: &Buffers,
    (site, cpus): (&Topology, &[Vec<usize>]),
    found: &Found,
) -> (Vec<ArmRecord>, Vec<String>, Vec<String>) {
    let (mut records, mut void, mut flags) = (Vec::new(), Vec::new(), Vec::new());
    let placed_of = |(index, arm): (usize, &&ResolvedArm)| memory.placed(index, arm, site, &cpus[index]);
    let placed = side_by_side(arms.iter().enumerate().collect(), placed_of);
    for ((index, arm), placed) in arms.iter().enumerate().zip(placed) {
        let [before, after] = [0, 1].map(|when: usize| &found.pages[when][index]);
        void.extend(placing::misplaced(arm, site, &placed).map(|why| format!("arm {index}: {why}")));
        flags.extend(placing::remote_share(arm, &placed));
        judge_pages(index, arm, before, after, &mut void);
        let Verified { verification, share } = verified(&found.verifications, &memory.of_arm[index]);
        records.push(ArmRecord {
            executor: ensembles.of(index).facts().clone(),
            pages_before: all_pages(before),
            pages_after: all_pages(after),
            counters: found.counters[index].clone(),
            grown: found.grown[index].clone(),
            placed,
            verification,
            verified: share,
            empty_run_ns: found.empty[index],
        });
    }
    (records, void, flags)
}

/// Each arm and how many of it run together. Members of one process are of one kind: those of several kinds are at sites of
/// their own.
pub(crate) fn crowds(spec: &TrialSpec) -> Result<Vec<(&ResolvedArm, usize)>, TrialError> {
    let mut arms = Vec::new();
    for (index, arm) in spec.arms.iter().enumerate() {
        match arm.members.as_slice() {
            [member] if member.count > 0 => {
                arms.push((&member.arm, usize::try_from(member.count).unwrap_or(usize::MAX)))
            }
            [_] => return Err(TrialError::spec(format!("arm {index} is an ensemble of none"))),
            members => {
                let what = format!("arm {index} is an ensemble of {} kinds of members", members.len());
                let remedy = "one agent runs members of one kind; give each kind a site of its own".to_owned();
                return Err(TrialError::Spec { what, remedy });
            }
        }
    }
    match spec.schedule.iter().find(|&&arm| arm >= arms.len()) {
        Some(arm) => Err(TrialError::spec(format!("the schedule names arm {arm} of {}", arms.len()))),
        None => Ok(arms),
    }
}

/// Starts the members of arm `index`, each on CPUs of its own, and lets each touch the memory that it will use, so that
/// no page is mapped for the first time while it is timed.
fn start(
    spec: &TrialSpec,
    arm: &ResolvedArm,
    (site, cpus): (&Topology, &[usize]),
    memory: &mut Buffers,
    index: usize,
) -> Result<Ensemble, TrialError> {
    let maps = memory.of_arm[index].clone();
    let mut members: Vec<Box<dyn Executor + Send>> = Vec::with_capacity(maps.len());
    let seats = placing::seats(arm, site, cpus);
    for (seats, map) in seats.chunks(arm.ranks.max(1)).zip(maps) {
        members.push(member(spec, arm, seats, memory.maps[map].whole())?);
    }
    Ok(Ensemble::new(members))
}

fn member(
    spec: &TrialSpec,
    arm: &ResolvedArm,
    seats: &[Seat],
    memory: &mut [u64],
) -> Result<Box<dyn Executor + Send>, TrialError> {
    Ok(match arm.executor {
        ExecutorKind::Direct => Box::new(Direct::seated(seats)?),
        ExecutorKind::Null => Box::new(Null::seated(seats)?),
        ExecutorKind::Microvm => {
            let mut microvm = Microvm::start(&baremark_microvm::Config {
                seats: seats.to_vec(),
                guest_page: arm.page,
                guest_tables: arm.guest_tables.unwrap_or_default(),
                watchdog: Duration::from_nanos(spec.watchdog_ns),
                seed: spec.seed,
            })?;
            microvm.touch_program()?;
            microvm.touch(memory)?;
            Box::new(microvm)
        }
    })
}

type Inspection = (PagesSeen, Result<(), String>);

/// What each arm's memory is made of, member by member.
fn inspect(memory: &Buffers, arms: &[&ResolvedArm]) -> Vec<Vec<Inspection>> {
    let text = smaps::of_this_process();
    side_by_side(arms.iter().zip(&memory.of_arm).collect(), |(arm, maps): (&&ResolvedArm, &Vec<usize>)| {
        maps.iter().map(|&map| buffers::inspect(&memory.maps[map], arm.buffer_page(), &text)).collect()
    })
}

fn all_pages(members: &[Inspection]) -> PagesSeen {
    members.iter().fold(PagesSeen { contiguous_bytes: Some(0), ..PagesSeen::default() }, |sum, (seen, _)| PagesSeen {
        resident_bytes: sum.resident_bytes + seen.resident_bytes,
        huge_bytes: sum.huge_bytes + seen.huge_bytes,
        contiguous_bytes: sum.contiguous_bytes.zip(seen.contiguous_bytes).map(|(sum, seen)| sum + seen),
    })
}

fn judge_pages(index: usize, arm: &ResolvedArm, before: &[Inspection], after: &[Inspection], void: &mut Vec<String>) {
    let name = arm.executor;
    for (when, members) in [("before", before), ("after", after)] {
        for (_, verdict) in members {
            if let Err(why) = verdict {
                void.push(format!("memory of arm {index} ({name}) {when} the phases: {why}"));
            }
        }
    }
    let sizes = |seen: &PagesSeen| (seen.resident_bytes, seen.huge_bytes);
    let seen = |members: &[Inspection]| members.iter().map(|(seen, _)| sizes(seen)).collect::<Vec<_>>();
    if seen(before) != seen(after) {
        void.push(format!("the pages of arm {index} ({name}) changed during the phases"));
    }
}

/// The verification of an arm: the first member's that failed, else the first's.
fn verified(verifications: &[Verified], maps: &[usize]) -> Verified {
    let failed = maps.iter().find(|&&map| matches!(verifications[map].verification, Verification::Failed { .. }));
    verifications[*failed.unwrap_or(&maps[0])].clone()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds of a short look")]
pub(crate) fn look_for_lost_time(rate: TickRate) -> LostTime {
    let seen = tsc_gaps::measure(LOST_TIME_LOOK, tsc_gaps::THRESHOLD, rate);
    LostTime {
        looked_ns: (seen.seconds * 1e9) as u64,
        gaps: seen.count,
        share: seen.lost_share,
        longest_ns: seen.longest_ns as u64,
    }
}

/// What is left of a stage when its memory is given back; see there.
struct Left {
    ensembles: Ensembles,
    grown: Vec<BTreeMap<String, u64>>,
    waited: Duration,
    void: Vec<String>,
}

/// Everything that the phases need.
struct Stage<'t> {
    spec: &'t TrialSpec,
    rate: TickRate,
    rows: &'static [Metric],
    ensembles: Ensembles,
    preparations: Vec<Box<dyn Prepared + 't>>,
    of_arm: &'t [Vec<usize>],
    /// Of each arm: the share of repetitions that are run and not counted.
    costs: Vec<Share>,
    /// Of each arm: growth of the hypervisor's counters inside the timed regions so far.
    grown: Vec<BTreeMap<String, u64>>,
    /// How long progress was reported and observers were read, between phases.
    waited: Duration,
    void: Vec<String>,
}

impl Stage<'_> {
    /// Repetitions of a phase, the same for every arm, so that all do the same work: those that are known, or as many as make it long enough. Every arm has run by then.
    fn reps(&mut self) -> Result<u64, Fault> {
        if let Some(reps) = self.spec.reps {
            self.ensembles.run_once(&self.preparations, self.of_arm, reps)?;
            return Ok(reps.max(1));
        }
        let mut most = 1;
        let mut from = self.spec.reps_near.map_or(pace::Begin::One, pace::Begin::Like);
        for arm in 0..self.spec.arms.len() {
            let ensemble = self.ensembles.of(arm);
            let bodies: Vec<&dyn Body> = self.of_arm[arm].iter().map(|&map| self.preparations[map].body()).collect();
            most = most.max(pace::reps_for(ensemble, &bodies, (self.spec.phase_ns, from), self.rate)?);
            from = pace::Begin::Least(most);
        }
        Ok(most)
    }

    /// The hypervisors' counters before the first phase; voids the trial where memory is not mapped as asked.
    fn counters(&mut self, arms: &[&ResolvedArm], memory: &Buffers) -> Vec<BTreeMap<String, u64>> {
        let mut all = Vec::new();
        for (index, arm) in arms.iter().enumerate() {
            let mut sum = BTreeMap::new();
            for (counters, &map) in self.ensembles.of(index).counters().into_iter().zip(&memory.of_arm[index]) {
                self.void.extend(audit::of_leaves(arm, memory.maps[map].bytes(), &counters));
                ensemble::add(&mut sum, counters);
            }
            all.push(sum);
        }
        all
    }

    fn phases(
        &mut self,
        reps: u64,
        progress: &mut dyn Progress,
        meter: &mut disturbance::Meter,
    ) -> Result<Vec<Series>, TrialError> {
        let mut phases = Vec::with_capacity(self.spec.schedule.len());
        progress.phases_begin();
        let began = Instant::now();
        let mut position = 0;
        while progress.turn(position, self.spec.schedule.len(), &mut || 0)? {
            let arm = self.arm_at(position)?;
            let begin_ns = Nanos::from(began.elapsed()).0;
            if position > 0 && position % QUAD == 0 && self.spec.most_ns.is_some_and(|most| begin_ns >= most) {
                break;
            }
            meter.phase_begins(position);
            let phase = self.phase(position, arm, reps, progress)?;
            let phase = Series { begin_ns, end_ns: Nanos::from(began.elapsed()).0, ..phase };
            if phase.samples.is_empty() {
                self.void.push(format!("arm {arm}: a phase took no time that could be measured"));
            }
            phases.push(phase);
            let told = Instant::now();
            meter.phase_done(position);
            progress.phase_done(position, arm);
            self.waited += told.elapsed();
            position += 1;
        }
        Ok(phases)
    }

    /// The arm of the phase at `position`.
    fn arm_at(&self, position: usize) -> Result<usize, TrialError> {
        let arm = self.spec.schedule.get(position);
        arm.copied().ok_or_else(|| TrialError::spec(format!("the schedule has no phase {position}")))
    }

    fn phase(
        &mut self,
        position: usize,
        arm: usize,
        reps: u64,
        progress: &mut dyn Progress,
    ) -> Result<Series, TrialError> {
        let ensemble = self.ensembles.of(arm);
        let prepared: Vec<&dyn Prepared> = self.of_arm[arm].iter().map(|&map| &*self.preparations[map]).collect();
        let bodies: Vec<&dyn Body> = prepared.iter().map(|prepared| prepared.body()).collect();
        let begin = progress.gate(reps)?.map_or(0, |pass| gate::tick_of(pass.begin_ns, self.rate));
        let runs = ensemble.run_each_from(begin, &bodies, reps + extra(reps, self.costs[arm]))?;
        let RunRecord { times, mut audit } = joint_run(&runs);
        progress.timed(position, gate::stretch_of(&times, self.rate));
        self.void.extend(ensemble.unclean(&runs, self.rate).into_iter().map(|why| format!("arm {arm}: {why}")));
        ensemble::add(&mut self.grown[arm], std::mem::take(&mut audit.counters));
        let own: Vec<Vec<RankTime>> = runs.into_iter().map(|run| run.times).collect();
        let (samples, members) = ensemble.metrics(self.rows, &prepared, reps, &own, self.rate);
        let alone = members.len() < 2;
        let member = |(member, samples)| MemberRecord { member, samples };
        let members = members.into_iter().enumerate().map(member).filter(|_| !alone).collect();
        let runs = vec![BodyRun { times, audit, samples: Vec::new() }];
        Ok(Series { phase: position, arm, reps, runs, samples, members, ..Series::default() })
    }

    /// Gives the memory back to whoever lent it.
    fn leave(self) -> Left {
        Left { ensembles: self.ensembles, void: self.void, grown: self.grown, waited: self.waited }
    }

    fn verify(&mut self) -> Vec<Verified> {
        let asked = self.spec.verify;
        let verify = |(map, prepared): (usize, &mut Box<dyn Prepared + '_>)| {
            // Each memory has ranges of its own.
            let in_ranges = match asked {
                Verify::Whole => None,
                Verify::Ranges(seed) => prepared.verify_ranges(seed.wrapping_add((map as u64) << 32)),
            };
            let share = in_ranges.is_some().then_some(Ranges::SHARE);
            Verified { verification: in_ranges.unwrap_or_else(|| prepared.verify()), share }
        };
        let verifications = side_by_side(self.preparations.iter_mut().enumerate().collect(), verify);
        self.void.extend(verifications.iter().filter_map(|of| audit::of_result(&of.verification)));
        verifications
    }

    /// The median time of an empty run of every arm's first member alone, entry and exit included, in nanoseconds.
    fn empty_runs(&mut self) -> Result<Vec<f64>, Fault> {
        let mut medians = Vec::new();
        for arm in 0..self.spec.arms.len() {
            let ensemble = self.ensembles.of(arm);
            let mut runs = Vec::with_capacity(EMPTY_RUNS);
            for _ in 0..EMPTY_RUNS {
                let start = clock::ticks();
                ensemble.first().run(&Nothing, 1)?;
                runs.push(self.rate.seconds(clock::ticks() - start) * 1e9);
            }
            runs.sort_by(f64::total_cmp);
            medians.push(runs[EMPTY_RUNS / 2]);
        }
        Ok(medians)
    }
}

/// A body without work: what remains is the executor's own cost.
struct Nothing;

impl Body for Nothing {
    fn work(&self, _ranks: usize) -> Work {
        Work::default()
    }

    fn rank(&self, _rank: usize, _team: &Team, _reps: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_side_by_side_comes_in_order_and_borrows() {
        let mut words = ["one", "two", "three", ""].map(String::from);
        let lengths = side_by_side(words.iter_mut().collect(), |word: &mut String| {
            word.push('!');
            word.len()
        });
        assert_eq!((lengths, words.concat()), (vec![4, 4, 6, 1], "one!two!three!!".to_owned()));
        assert!(side_by_side(Vec::<u8>::new(), |byte| byte).is_empty());
    }
}
