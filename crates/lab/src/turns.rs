//! One trial of two arms that share no process: each at a site of its own, phase by phase in turns.
//!
//! Both sides are prepared one after the other and stay. The lab gives the turns in the order of the schedule, quads of ABBA as in a
//! trial of one process; the side that waits has nothing to do but to read. Phases are timed at the sites, so that no frame is in what
//! is measured. What both measured becomes one trial, whose series are in the order of the schedule.

use crate::host_observer::placed;
use crate::link::{AgentLink, Came, LinkError};
use baremark_model::disturbed::{QUAD, discarded, flags};
use baremark_model::environments::NATIVE;
use baremark_model::observation::{Observation, THIS_MACHINE};
use baremark_model::order;
use baremark_model::seam::{RankTime, TickRate};
use baremark_model::units::Nanos;
use baremark_model::wire::{
    ArmRecord, Disturbance, FromAgent, Idle, LostTime, Pass, ProgramShare, Series, SideResult, ToAgent, TrialResult,
    TrialSpec, TurnsSpec,
};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A phase lasts at least so many times as long as a turn takes to be given: of a kernel's trial 95 % of the time can be measured.
const PHASE_IN_ROUND_TRIPS: u64 = 20;
/// The same of the rest before a phase, in which whatever passes messages on becomes idle.
const PHASE_IN_RESTS: u64 = 10;
/// What hearing of one turn takes of a CPU at most: some system calls, under a kernel in user space too. A network's latency is not work.
const MOST_HEARING_NS: u64 = 200_000;
/// A side that uses more than this share of one CPU while the other has its turns is not idle; what it takes to hear of a turn apart.
const MOST_IDLE_CPU: f64 = 0.01;
/// The trial counts, for what a guest needs that does nothing depends on its kernel and on the machine; it may have slowed the other side.
const HYPERVISOR_AT_WORK: &str =
    "the hypervisor of one side used more than 1 % of a CPU while that side waited for its turns";
/// Of many short phases every fourth is reported to the watcher.
const MANY_PHASES: usize = 16;
/// Where an arm's record has how long it rested before each phase, if it did.
const RESTED: &str = "rest before each phase";
/// Programs that are named of those that used the CPUs.
const NAMED: usize = 3;

/// One side of a trial: what runs there, and where.
pub(crate) struct Side<'a, 'i> {
    /// Its agent.
    pub agent: &'a mut AgentLink<'i>,
    /// The trial as its agent gets it, with its own arm alone.
    pub spec: TrialSpec,
    /// The name of its environment.
    pub place: &'a str,
}

/// What one side of `spec` runs: arm `arm` alone, and as many phases as that has in the schedule.
pub(crate) fn part(spec: &TrialSpec, arm: usize, place: &str) -> TrialSpec {
    let phases = spec.schedule.iter().filter(|&&of| of == arm).count();
    TrialSpec {
        arms: spec.arms.get(arm).cloned().into_iter().collect(),
        schedule: vec![0; phases],
        allocation_order: vec![0],
        // The schedule is cut short for both sides alike.
        most_ns: None,
        // Elsewhere the agent takes the CPUs that it finds.
        cpus: if place == NATIVE { spec.cpus.clone() } else { Vec::new() },
        // One arm alone.
        duet: None,
        ..spec.clone()
    }
}

/// How long a phase lasts in nanoseconds: as long as it is to, and many times the slower round trip and the rest before it.
fn phase_ns(own_ns: u64, round_trips_ns: [u64; 2], rest_ns: u64) -> u64 {
    let slowest_ns = round_trips_ns[0].max(round_trips_ns[1]);
    own_ns.max(PHASE_IN_ROUND_TRIPS.saturating_mul(slowest_ns)).max(PHASE_IN_RESTS.saturating_mul(rest_ns))
}

/// Runs `spec` at both sides, within `limit`; `came` is called with what comes of it before its end.
pub(crate) fn run(
    sides: &mut [Side<'_, '_>; 2],
    spec: &TrialSpec,
    limit: Duration,
    came: &mut dyn FnMut(Came),
) -> Result<TrialResult, LinkError> {
    let begun = Instant::now();
    let mut trial = Trial { deadline: begun + limit, limit, came };
    let mut round_trips_ns = [0; 2];
    for (arm, side) in sides.iter_mut().enumerate() {
        round_trips_ns[arm] = side.agent.round_trip_ns().map_err(|why| why.at(side.place))?;
    }
    // Both rest alike, so that a CPU that has waited is no difference between them.
    let rest = sides.iter().map(|side| side.agent.site.relay_works_for()).max().unwrap_or_default();
    let rest_ns = Nanos::from(rest).0;
    let phase_ns = phase_ns(spec.phase_ns, round_trips_ns, rest_ns);
    // One after the other, as in one process: neither is prepared, nor its repetitions found, while the other uses the CPUs. Whose memory and files are the newer
    // ones is drawn, for these may be the faster.
    let second = usize::from(spec.allocation_order.first() != Some(&1));
    let order = [1 - second, second];
    let mut found = [None; 2];
    for arm in order {
        let side = &mut sides[arm];
        let own = TurnsSpec { spec: TrialSpec { phase_ns, ..side.spec.clone() }, arm, rest_ns };
        found[arm] = side.agent.take_turns(own).and_then(|()| trial.at_turn(side)).map_err(|why| why.at(side.place))?;
    }
    let reps = found.iter().flatten().copied().max().unwrap_or(1);
    for arm in order {
        let (side, pass) = (&mut sides[arm], Pass { reps, begin_ns: 0 });
        side.agent.pass(pass).and_then(|()| trial.at_turn(side)).map_err(|why| why.at(side.place))?;
    }
    // Work without repetitions runs its schedule whole.
    let has_repetitions = found.iter().all(Option::is_some);
    let cut = spec.most_ns.filter(|_| has_repetitions);
    let phases_begun = Instant::now();
    let elapsed_ns = || Nanos::from(phases_begun.elapsed()).0;
    let mut others = [0_u32; 2];
    let mut hypervisors = [None::<Idle>; 2];
    let mut times = Vec::with_capacity(spec.schedule.len());
    for (position, &arm) in spec.schedule.iter().enumerate() {
        let begin_ns = elapsed_ns();
        if position > 0 && position % QUAD == 0 && cut.is_some_and(|most| begin_ns >= most) {
            break;
        }
        let [below, above] = &mut *sides;
        let (side, waiting) = match arm {
            0 => (below, above),
            1 => (above, below),
            _ => return Err(LinkError::OutOfTurn(format!("a schedule names arm {arm} of 2"))),
        };
        let turn = ToAgent::Turn { others: std::mem::take(&mut others[arm]) };
        let cpu_ns = waiting.agent.site.hypervisor_cpu_ns();
        side.agent.send(&turn).and_then(|()| trial.at_turn(side)).map_err(|why| why.at(side.place))?;
        others[1 - arm] += 1;
        let end_ns = elapsed_ns();
        times.push((arm, (begin_ns + rest_ns).min(end_ns), end_ns));
        if let Some((before, after)) = cpu_ns.zip(waiting.agent.site.hypervisor_cpu_ns()) {
            let idle = hypervisors[1 - arm].get_or_insert_default();
            idle.ns += end_ns - begin_ns;
            idle.cpu_ns += after.saturating_sub(before);
        }
        let of = spec.schedule.len();
        if of <= MANY_PHASES || (position + 1).is_multiple_of(QUAD) {
            (trial.came)(Came::Phase { position, of });
        }
    }
    let phases_ns = elapsed_ns();
    let [below, above] = sides;
    // First the side that waits: what the other does after its last phase is not a turn.
    let both = if others[1] > 0 {
        let above = trial.end(above, others[1])?;
        [trial.end(below, others[0])?, above]
    } else {
        [trial.end(below, others[0])?, trial.end(above, others[1])?]
    };
    let elapsed_ns = Nanos::from(begun.elapsed()).0;
    join(both, &times, (phases_ns, elapsed_ns), &Prepared { round_trips_ns, has_repetitions, rest }, hypervisors)
}

/// What waiting for a side needs.
struct Trial<'c> {
    deadline: Instant,
    limit: Duration,
    came: &'c mut dyn FnMut(Came),
}

impl Trial<'_> {
    /// Waits until a side has nothing to do but to wait for its turn; the repetitions that it has found.
    fn at_turn(&mut self, side: &mut Side<'_, '_>) -> Result<Option<u64>, LinkError> {
        match self.frame(side)? {
            FromAgent::AtTurn { reps } => Ok(reps),
            other => Err(LinkError::OutOfTurn(format!("{other:?}"))),
        }
    }

    /// Ends a side's turns, of which `others` of the other side's were the last, and takes what it has measured.
    fn end<'p>(&mut self, side: &mut Side<'p, '_>, others: u32) -> Result<(&'p str, SideResult), LinkError> {
        let place = side.place;
        side.agent.send(&ToAgent::EndTurns { others }).map_err(|why| why.at(place))?;
        let mut done = match self.frame(side).map_err(|why| why.at(place))? {
            FromAgent::TurnsDone(done) => *done,
            other => return Err(LinkError::OutOfTurn(format!("{other:?}")).at(place)),
        };
        let site = if place == NATIVE { THIS_MACHINE } else { place };
        let seen = std::mem::take(&mut done.result.observations);
        done.result.observations = seen.into_iter().map(|seen| placed(seen, site)).collect();
        Ok((place, done))
    }

    fn frame(&mut self, side: &mut Side<'_, '_>) -> Result<FromAgent, LinkError> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match side.agent.receive_until("finish a trial", left, self.limit)? {
                FromAgent::Loading(loading) => (self.came)(Came::Loading(loading)),
                frame => return Ok(frame),
            }
        }
    }
}

/// What was known of both sides before their first phase.
struct Prepared {
    /// The quickest of some round trips of a short frame to each.
    round_trips_ns: [u64; 2],
    /// Whether their phases repeat something, as a kernel's do.
    has_repetitions: bool,
    /// How long each rests before a phase.
    rest: Duration,
}

/// What both sides measured as one trial; `times` are the turns that were given: whose, and from when to when by the lab's clock. `hypervisors` is what those of both sides used
/// of this machine in the other's turns.
fn join(
    sides: [(&str, SideResult); 2],
    times: &[(usize, u64, u64)],
    (phases_ns, elapsed_ns): (u64, u64),
    prepared: &Prepared,
    hypervisors: [Option<Idle>; 2],
) -> Result<TrialResult, LinkError> {
    let mut void = Vec::new();
    let mut flagged: Vec<String> = Vec::new();
    for (own, (place, side)) in sides.iter().enumerate() {
        // It hears of a turn of its own after each stretch of the other's, and of the end.
        let stretches = times.chunk_by(|one, next| one.0 == next.0).filter(|turns| turns[0].0 != own).count() as u64;
        let hearing_ns = prepared.round_trips_ns[own].min(MOST_HEARING_NS);
        void.extend(side.result.void.iter().map(|why| format!("at {place}: {why}")));
        void.extend(not_idle(place, side.idle, stretches.saturating_mul(hearing_ns)));
        flagged.extend(side.result.flags.iter().cloned());
        let is_at_work = hypervisors[own].is_some_and(|idle| share(idle) > MOST_IDLE_CPU);
        flagged.extend(is_at_work.then(|| HYPERVISOR_AT_WORK.to_owned()));
    }
    let mut own = [0, 1].map(|side: usize| sides[side].1.result.series.iter());
    let rates = [0, 1].map(|side: usize| sides[side].1.result.tick_rate_per_s);
    let mut series = Vec::with_capacity(times.len());
    for (phase, &(arm, begin_ns, end_ns)) in times.iter().enumerate() {
        let missing = || LinkError::OutOfTurn(format!("phases of {} are missing", sides[arm].0));
        let found = own[arm].next().ok_or_else(missing)?;
        series.push(on_labs_clock(Series { phase, arm, begin_ns, end_ns, ..found.clone() }, rates[arm]));
    }
    if let Some(arm) = (0..2).find(|&arm| own[arm].next().is_some()) {
        return Err(LinkError::OutOfTurn(format!("{} has more phases than it had turns", sides[arm].0)));
    }
    let rate = TickRate(1e9);
    let disturbance = disturbance(&sides, times);
    // As in one process: of kernels alone, since a program's phases are few.
    let known = disturbance.as_ref().filter(|_| prepared.has_repetitions);
    let discarded = known.map_or_else(Vec::new, |found| discarded(&series, found, rate));
    flagged.extend(disturbance.iter().flat_map(|found| flags(found, &discarded)));
    let sets = [0, 1].map(|side: usize| sides[side].1.result.instruction_set);
    if sets[0] != sets[1] {
        flagged.push(format!("its sides have different instruction sets: {:?} and {:?}", sets[0], sets[1]));
    }
    flagged.sort();
    flagged.dedup();
    let [one, other] = [&sides[0].1.result, &sides[1].1.result];
    let worst = |of: fn(&TrialResult) -> LostTime| {
        if of(one).share >= of(other).share { of(one) } else { of(other) }
    };
    let result = TrialResult {
        arms: Vec::new(),
        void,
        flags: flagged,
        tick_rate_per_s: rate,
        instruction_set: sets[0],
        lost_before: worst(|result| result.lost_before),
        lost_after: worst(|result| result.lost_after),
        elapsed_ns,
        spent_ns: spent([one, other], phases_ns),
        disturbance,
        discarded,
        series,
        observations: Vec::new(),
    };
    let observations = observations(&sides);
    let partners = [sides[1].0.to_owned(), sides[0].0.to_owned()];
    let arms = sides.into_iter().zip(partners).zip(hypervisors);
    let arms =
        arms.map(|(((place, side), partner), hypervisor)| record((place, side), &partner, hypervisor, prepared.rest));
    let arms = arms.collect::<Option<Vec<ArmRecord>>>();
    let arms = arms.ok_or_else(|| LinkError::OutOfTurn("a side has no arm".to_owned()))?;
    Ok(TrialResult { arms, observations, ..result })
}

/// Why a trial does not count, one side of which was at work while the other had its turns. To hear that these are over is no such work, and takes longest
/// where each system call is slow, as under a kernel in user space.
fn not_idle(place: &str, idle: Idle, hearing_ns: u64) -> Option<String> {
    let share = share(Idle { cpu_ns: idle.cpu_ns.saturating_sub(hearing_ns), ..idle });
    (share > MOST_IDLE_CPU).then(|| {
        format!(
            "at {place}: it used {:.1} % of a CPU while the other side had its turns, more than {:.0} %",
            100.0 * share,
            100.0 * MOST_IDLE_CPU
        )
    })
}

/// The share of one CPU.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a trial")]
fn share(idle: Idle) -> f64 {
    idle.cpu_ns as f64 / (idle.ns as f64).max(1.0)
}

/// A phase with the times of its ranks in nanoseconds since the first phase began, as far as the lab's clock shows: the first rank's start is the
/// phase's. Lengths are the site's own.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds of a phase")]
fn on_labs_clock(mut phase: Series, rate: TickRate) -> Series {
    for run in &mut phase.runs {
        let first = run.times.iter().map(|time| time.start_ticks).min().unwrap_or(0);
        let at = |tick: u64| phase.begin_ns + (rate.seconds(tick.saturating_sub(first)) * 1e9).round() as u64;
        for time in &mut run.times {
            *time = RankTime { rank: time.rank, start_ticks: at(time.start_ticks), end_ticks: at(time.end_ticks) };
        }
    }
    phase
}

/// What others took at both sides, each in its own phases.
fn disturbance(sides: &[(&str, SideResult); 2], times: &[(usize, u64, u64)]) -> Option<Disturbance> {
    let [one, other] = [0, 1].map(|side: usize| sides[side].1.result.disturbance.as_ref());
    let both = [one?, other?];
    let mean = |share: fn(&Disturbance) -> Option<f64>| {
        let known: Vec<f64> = both.into_iter().filter_map(share).collect();
        #[expect(clippy::cast_precision_loss, reason = "one or two")]
        let count = known.len() as f64;
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / count)
    };
    let mut own = both.map(|found| found.phases.iter().copied());
    let phases: Option<Vec<_>> = times.iter().map(|&(arm, ..)| own[arm].next()).collect();
    Some(Disturbance {
        queued: both.iter().map(|found| found.queued.first().copied().flatten()).collect(),
        rests: both.iter().map(|found| found.rests.first().copied().unwrap_or(0)).collect(),
        others: mean(|found| found.others),
        stolen: mean(|found| found.stolen),
        throttled: mean(|found| found.throttled),
        pressure: mean(|found| found.pressure),
        programs: programs(both.into_iter()),
        hidden_programs: both.iter().any(|found| found.hidden_programs),
        work_of_others: both.iter().any(|found| found.work_of_others),
        phases: phases.unwrap_or_default(),
    })
}

/// The programs that used most at any of the sites of a trial; of one that several name, the largest share.
pub(crate) fn programs<'d>(sites: impl Iterator<Item = &'d Disturbance>) -> Vec<ProgramShare> {
    let mut all: Vec<ProgramShare> = Vec::new();
    for program in sites.flat_map(|found| &found.programs) {
        match all.iter_mut().find(|known| known.name == program.name) {
            Some(known) => known.share = known.share.max(program.share),
            None => all.push(program.clone()),
        }
    }
    order::by(&mut all, |one, other| other.share.total_cmp(&one.share));
    all.truncate(NAMED);
    all
}

/// Where the time of both sides went. Each was prepared and verified alone; their phases are those of the trial.
fn spent(sides: [&TrialResult; 2], phases_ns: u64) -> BTreeMap<String, u64> {
    const PHASES: &str = "phases";
    if sides.iter().any(|side| side.spent_ns.is_empty()) {
        return BTreeMap::new();
    }
    let mut sum: BTreeMap<String, u64> = BTreeMap::new();
    for (part, &ns) in sides.iter().flat_map(|side| &side.spent_ns) {
        *sum.entry(part.clone()).or_default() += ns;
    }
    sum.insert(PHASES.to_owned(), phases_ns);
    sum
}

/// What was observed, this machine first. A side on this machine has seen this machine in the phases of both; any other has seen itself, and of its own
/// phases alone.
fn observations(sides: &[(&str, SideResult); 2]) -> Vec<Observation> {
    let mut all = Vec::new();
    for (arm, (_, side)) in sides.iter().enumerate() {
        for mut seen in side.result.observations.iter().cloned() {
            if seen.place != THIS_MACHINE {
                seen.arms.retain(|of| of.arm == arm);
            }
            all.push(seen);
        }
    }
    order::by_key(&mut all, |seen| seen.place != THIS_MACHINE);
    all
}

/// What is true of one arm, with how it took turns.
fn record(
    (place, side): (&str, SideResult),
    partner: &str,
    hypervisor: Option<Idle>,
    rest: Duration,
) -> Option<ArmRecord> {
    let SideResult { result, idle } = side;
    let mut arm = result.arms.into_iter().next()?;
    let of_cpu = |idle: Idle| format!("{:.2} % of a CPU", 100.0 * share(idle));
    let notes = [
        ("place", Some(place.to_owned())),
        ("in turns with", Some(partner.to_owned())),
        ("while it waited", Some(of_cpu(idle))),
        ("its hypervisor, while it waited", hypervisor.map(of_cpu)),
        (RESTED, (!rest.is_zero()).then(|| format!("{} ms", rest.as_millis()))),
    ];
    arm.executor.notes.extend(notes.into_iter().filter_map(|(name, what)| Some((name.to_owned(), what?))));
    arm.counters.insert("idle_ns".to_owned(), idle.ns);
    arm.counters.insert("idle_cpu_ns".to_owned(), idle.cpu_ns);
    if let Some(hypervisor) = hypervisor {
        arm.counters.insert("idle_hypervisor_cpu_ns".to_owned(), hypervisor.cpu_ns);
    }
    Some(arm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_idle_that_uses_one_percent_of_a_cpu_and_what_hearing_takes() {
        let of = |cpu_ns, hearing_ns| not_idle("here", Idle { ns: 1_000_000, cpu_ns }, hearing_ns);
        assert_eq!([of(10_000, 0), of(15_000, 5000), of(0, 5000)], [const { None }; 3]);
        assert!(of(10_001, 0).is_some() && of(15_001, 5000).is_some());
    }

    #[test]
    fn a_phase_is_long_next_to_messages_and_rests() {
        const MS: u64 = 1_000_000;
        assert_eq!(phase_ns(50 * MS, [30_000, 80_000], 0), 50 * MS);
        assert_eq!(phase_ns(50 * MS, [7 * MS, 30_000], 12 * MS), 140 * MS, "20 of the slower round trip");
        assert_eq!(phase_ns(50 * MS, [30_000, 80_000], 12 * MS), 120 * MS, "10 rests");
    }
}
