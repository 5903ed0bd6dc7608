//! One trial at several sites at once: the members of an ensemble that share neither memory nor a clock.
//!
//! The lab is their gate. Before each stretch that is timed all sites wait for it; it reads their clocks, and tells each to
//! begin at one moment, by that site's own clock. What each then did is set on the lab's clock, with the error with which
//! the site's clock was known: half of the quickest round trip. Figures join by the rule of their metric, as members of one
//! process do (`model::ensemble`); only what all did over the time from the first start to the last end depends on the
//! clocks, and a trial whose clocks are not known well enough for that is void.

use crate::host_observer::placed;
use crate::lab_clock::now_ns;
use crate::link::{AgentLink, Came, LinkError};
use crate::turns;
use baremark_model::ensemble::{Part, by_rules};
use baremark_model::loading::Loading;
use baremark_model::seam::{Audit, RankTime, Sample, TickRate, Verification};
use baremark_model::units::Nanos;
use baremark_model::wire::{
    ArmRecord, BodyRun, Disturbance, FromAgent, LostTime, MemberRecord, MemberResult, Pass, Series, Stretch,
    TrialResult, TrialSpec,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How often the lab checks whether a site has said something.
const GLANCE: Duration = Duration::from_millis(1);
/// The least time between leave and beginning.
const LEAST_NOTICE: Duration = Duration::from_millis(5);
/// A trial is void when the clocks are known no better than to this share of what ran together.
const WORST_CLOCKS: f64 = 0.1;
/// A trial is flagged when its sites ran side by side for less than this share of the time.
const LEAST_TOGETHER: f64 = 0.9;

/// What is known of a site's clock: how far it is before the lab's, and by how much that may be off, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    offset_ns: i64,
    error_ns: u64,
}

/// Runs at each of `agents` its own of `specs`, which are one trial, within `limit`; `came` is called with every phase that all have finished, and with what is
/// loaded at all of them together.
pub(crate) fn run(
    agents: &mut [AgentLink<'_>],
    (specs, place): (&[TrialSpec], &str),
    limit: Duration,
    precision: f64,
    came: &mut dyn FnMut(Came),
) -> Result<TrialResult, LinkError> {
    let of = agents.len();
    let spec = specs.first().ok_or_else(|| LinkError::OutOfTurn("a trial at no site".to_owned()))?;
    for (index, (agent, own)) in agents.iter_mut().zip(specs).enumerate() {
        agent.run_member(&member(own, index)).map_err(|why| why.of_site(index, of))?;
    }
    let mut gate = Gate::of(of);
    let deadline = Instant::now() + limit;
    while gate.done.iter().any(Option::is_none) {
        let (mut silent, mut loaded) = (true, false);
        for (index, agent) in agents.iter_mut().enumerate() {
            while let Some(frame) = agent.heard().map_err(|why| why.of_site(index, of))? {
                silent = false;
                loaded |= matches!(frame, FromAgent::Loading(_));
                gate.take(index, frame).map_err(|why| why.of_site(index, of))?;
            }
        }
        if let Some(loading) = Loading::together(gate.loading.iter().flatten()).filter(|_| loaded) {
            came(Came::Loading(loading));
        }
        while gate.told < gate.phases.iter().copied().min().unwrap_or(0) {
            came(Came::Phase { position: gate.told, of: spec.schedule.len() });
            gate.told += 1;
        }
        if gate.waiting.iter().all(Option::is_some) {
            gate.let_through(agents)?;
        } else if Instant::now() >= deadline {
            let late =
                gate.waiting.iter().zip(&gate.done).position(|(at_gate, done)| at_gate.is_none() && done.is_none());
            let late = late.unwrap_or(0);
            return Err(agents[late].silent("finish a trial", limit).of_site(late, of));
        } else if silent {
            thread::sleep(GLANCE);
        }
    }
    let mut results: Vec<MemberResult> = gate.done.into_iter().flatten().collect();
    let mut observations = Vec::new();
    for (index, result) in results.iter_mut().enumerate() {
        let site = format!("{place}, {} of {of}", index + 1);
        observations.extend(result.result.observations.drain(..).map(|seen| placed(seen, &site)));
    }
    let joined = join(spec, &results, &gate.clocks, precision)?;
    Ok(TrialResult { observations, ..joined })
}

/// What one of the sites is told: one of the members, and a seed of its own.
fn member(spec: &TrialSpec, index: usize) -> TrialSpec {
    let mut own = spec.clone();
    Arc::make_mut(&mut own.arms).iter_mut().flat_map(|arm| &mut arm.members).for_each(|member| member.count = 1);
    own.seed = spec.seed.wrapping_add(index as u64);
    own
}

/// Who has said what.
struct Gate {
    /// The repetitions that each site wants, while it is at the gate.
    waiting: Vec<Option<u64>>,
    done: Vec<Option<MemberResult>>,
    /// How far each has come that loads data.
    loading: Vec<Option<Loading>>,
    /// Phases that each has finished, and those of which the watcher knows.
    phases: Vec<usize>,
    told: usize,
    /// For every passage: the sites' clocks. The first passage agrees on repetitions, each other begins a stretch.
    clocks: Vec<Vec<Clock>>,
}

impl Gate {
    fn of(sites: usize) -> Self {
        let done = (0..sites).map(|_| None).collect();
        let (waiting, loading) = (vec![None; sites], vec![None; sites]);
        Gate { waiting, done, loading, phases: vec![0; sites], told: 0, clocks: Vec::new() }
    }

    fn take(&mut self, index: usize, frame: FromAgent) -> Result<(), LinkError> {
        match frame {
            FromAgent::Loading(loading) => self.loading[index] = Some(loading),
            FromAgent::Phase { .. } => self.phases[index] += 1,
            FromAgent::AtGate { reps } => self.waiting[index] = Some(reps),
            FromAgent::MemberDone(result) => self.done[index] = Some(*result),
            FromAgent::Failed { what, why } => return Err(LinkError::Refused { what, why }),
            other => return Err(LinkError::OutOfTurn(format!("{other:?}"))),
        }
        Ok(())
    }

    /// All are here: reads their clocks and tells them when to begin.
    fn let_through(&mut self, agents: &mut [AgentLink<'_>]) -> Result<(), LinkError> {
        let reps = self.waiting.iter_mut().filter_map(Option::take).max().unwrap_or(1);
        let of = agents.len();
        let mut clocks = Vec::with_capacity(of);
        for (index, agent) in agents.iter_mut().enumerate() {
            let (offset_ns, error_ns) = agent.clock_offset(now_ns).map_err(|why| why.of_site(index, of))?;
            clocks.push(Clock { offset_ns, error_ns });
        }
        let slowest = clocks.iter().map(|clock| clock.error_ns).max().unwrap_or(0);
        // Twice there and back, for a leave that takes longer than the clock's readings did.
        let begin_ns = now_ns() + 8 * slowest + Nanos::from(LEAST_NOTICE).0;
        for (index, (agent, clock)) in agents.iter_mut().zip(&clocks).enumerate() {
            let begin_ns = begin_ns.saturating_add_signed(clock.offset_ns);
            agent.pass(Pass { reps, begin_ns }).map_err(|why| why.of_site(index, of))?;
        }
        self.clocks.push(clocks);
        Ok(())
    }
}

/// How well the stretches of a trial lay side by side, and how well that is known.
#[derive(Clone, Copy, Debug)]
struct Simultaneity {
    /// The least share of a window in which all sites ran.
    together: f64,
    /// The largest share of a window by which its length may be off.
    uncertain: f64,
    /// The same in nanoseconds.
    uncertain_ns: u64,
}

impl Simultaneity {
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a window")]
    fn see(&mut self, own: &[Stretch], clocks: &[Clock]) {
        let window = window_ns(own);
        let together = own.iter().map(|one| one.end_ns).min().unwrap_or(0);
        let together = together.saturating_sub(own.iter().map(|one| one.begin_ns).max().unwrap_or(0));
        self.together = self.together.min(together as f64 / window.max(1) as f64);
        // One site's clock bounds the window below, another's above.
        let mut errors: Vec<u64> = clocks.iter().map(|clock| clock.error_ns).collect();
        errors.sort_unstable();
        let error: u64 = errors.iter().rev().take(2).sum();
        self.uncertain = self.uncertain.max(error as f64 / window.max(1) as f64);
        self.uncertain_ns = self.uncertain_ns.max(error);
    }

    fn judge(self, precision: f64, void: &mut Vec<String>, flags: &mut Vec<String>) {
        let percent = 100.0 * self.uncertain;
        if self.uncertain > WORST_CLOCKS {
            void.push(format!(
                "the clocks of its sites are known to {percent:.1} % of a phase only, too little to align them: write a longer phase"
            ));
        } else if self.uncertain > precision / 2.0 {
            flags.push("the clocks of its sites are known to less than half of the requested precision".to_owned());
        }
        if self.together < LEAST_TOGETHER {
            flags.push("its sites ran side by side for less than nine tenths of a phase".to_owned());
        }
    }
}

fn window_ns(own: &[Stretch]) -> u64 {
    let first = own.iter().map(|one| one.begin_ns).min().unwrap_or(0);
    own.iter().map(|one| one.end_ns).max().unwrap_or(0).saturating_sub(first)
}

/// The records of all sites as one, on the lab's clock; else what does not fit.
fn join(
    spec: &TrialSpec,
    results: &[MemberResult],
    clocks: &[Vec<Clock>],
    precision: f64,
) -> Result<TrialResult, LinkError> {
    let unfit = |what: &str| LinkError::OutOfTurn(what.to_owned());
    let first = results.first().ok_or_else(|| unfit("no site ran"))?;
    let mut simultaneity = Simultaneity { together: 1.0, uncertain: 0.0, uncertain_ns: 0 };
    let mut phases = Vec::with_capacity(spec.schedule.len());
    let mut passages = clocks.iter().skip(1);
    for position in 0..spec.schedule.len() {
        let own: Vec<Member<'_>> = results
            .iter()
            .map(|result| Member::at(result, position))
            .collect::<Option<_>>()
            .ok_or_else(|| unfit("phases are missing"))?;
        let stretches = own[0].stretches.len();
        let clocks: Vec<&Vec<Clock>> = passages.by_ref().take(stretches).collect();
        let fits = |member: &Member<'_>| {
            member.stretches.len() == stretches && [0, stretches].contains(&member.phase.runs.len())
        };
        if clocks.len() != stretches || !own.iter().all(fits) {
            return Err(unfit("the sites did not pass the gate equally often"));
        }
        phases.push(phase(&own, &clocks, &mut simultaneity));
    }
    let of = results.len();
    let each = |of_result: fn(&TrialResult) -> &Vec<String>| {
        let all = results.iter().enumerate();
        all.flat_map(move |(index, member)| of_result(&member.result).iter().map(move |text| (index, text)))
    };
    let mut void: Vec<String> =
        each(|result| &result.void).map(|(index, why)| format!("site {} of {of}: {why}", index + 1)).collect();
    let mut flags: Vec<String> = each(|result| &result.flags).map(|(_, flag)| flag.clone()).collect();
    if results.iter().any(|member| member.result.instruction_set != first.result.instruction_set) {
        void.push("its sites have different instruction sets".to_owned());
    }
    simultaneity.judge(precision, &mut void, &mut flags);
    flags.sort();
    flags.dedup();
    let arms = (0..spec.arms.len()).map(|arm| record(results, arm, simultaneity)).collect::<Option<_>>();
    let worst = |lost: fn(&TrialResult) -> LostTime| {
        let all = results.iter().map(|member| lost(&member.result));
        all.max_by(|one, other| one.share.total_cmp(&other.share)).unwrap_or_default()
    };
    Ok(TrialResult {
        arms: arms.ok_or_else(|| unfit("arms are missing"))?,
        series: phases,
        void,
        flags,
        tick_rate_per_s: TickRate(1e9),
        instruction_set: first.result.instruction_set,
        lost_before: worst(|result| result.lost_before),
        lost_after: worst(|result| result.lost_after),
        elapsed_ns: results.iter().map(|member| member.result.elapsed_ns).max().unwrap_or(0),
        spent_ns: BTreeMap::new(),
        disturbance: disturbance(results.iter().filter_map(|member| member.result.disturbance.as_ref())),
        discarded: Vec::new(),
        observations: Vec::new(),
    })
}

/// What others took of the CPUs at the sites: each share is the largest of any site. Sites of one machine count each other's work as that of others, so
/// that what other programs used of all CPUs is unknown; a phase has no values of its own, since each site has some.
fn disturbance<'d>(found: impl Iterator<Item = &'d Disturbance> + Clone) -> Option<Disturbance> {
    let arms = found.clone().map(|one| one.queued.len()).max()?;
    let most = |share: &dyn Fn(&Disturbance) -> Option<f64>| found.clone().filter_map(share).reduce(f64::max);
    Some(Disturbance {
        queued: (0..arms).map(|arm| most(&|one| one.queued.get(arm).copied().flatten())).collect(),
        rests: (0..arms).map(|arm| found.clone().filter_map(|one| one.rests.get(arm)).sum()).collect(),
        others: None,
        stolen: most(&|one| one.stolen),
        throttled: most(&|one| one.throttled),
        pressure: most(&|one| one.pressure),
        programs: turns::programs(found.clone()),
        hidden_programs: found.clone().any(|one| one.hidden_programs),
        work_of_others: true,
        phases: Vec::new(),
    })
}

/// One site's part of one phase.
struct Member<'r> {
    phase: &'r Series,
    stretches: &'r [Stretch],
    rate: TickRate,
    together: &'r BTreeMap<String, baremark_model::metric::Aggregate>,
}

impl<'r> Member<'r> {
    fn at(result: &'r MemberResult, position: usize) -> Option<Self> {
        Some(Member {
            phase: result.result.series.get(position)?,
            stretches: result.stretches.get(position)?,
            rate: result.result.tick_rate_per_s,
            together: &result.together,
        })
    }

    /// A stretch on the lab's clock.
    fn stretch(&self, half: usize, clock: Clock) -> Stretch {
        let there = self.stretches[half];
        let here = |moment: u64| moment.saturating_add_signed(-clock.offset_ns);
        Stretch { begin_ns: here(there.begin_ns), end_ns: here(there.end_ns) }
    }

    /// When each rank was inside, in nanoseconds of the lab's clock.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds of a stretch")]
    fn times(&self, half: usize, begin_ns: u64) -> Vec<RankTime> {
        let times = self.phase.runs.get(half).map_or(&[][..], |half| &half.times);
        let first = times.iter().map(|time| time.start_ticks).min().unwrap_or(0);
        let at = |tick: u64| begin_ns + (self.rate.seconds(tick.saturating_sub(first)) * 1e9) as u64;
        let on_labs = |time: &RankTime| RankTime {
            rank: time.rank,
            start_ticks: at(time.start_ticks),
            end_ticks: at(time.end_ticks),
        };
        times.iter().map(on_labs).collect()
    }
}

fn phase(own: &[Member<'_>], clocks: &[&Vec<Clock>], simultaneity: &mut Simultaneity) -> Series {
    let (mut runs, mut seconds, mut window) = (Vec::new(), vec![0.0; own.len()], 0.0);
    for (half, clocks) in clocks.iter().enumerate() {
        let stretches: Vec<Stretch> =
            own.iter().zip(*clocks).map(|(member, &clock)| member.stretch(half, clock)).collect();
        simultaneity.see(&stretches, clocks);
        let lengths: Vec<f64> =
            stretches.iter().map(|one| seconds_of(one.end_ns.saturating_sub(one.begin_ns))).collect();
        let together = seconds_of(window_ns(&stretches));
        window += together;
        seconds.iter_mut().zip(&lengths).for_each(|(sum, more)| *sum += more);
        if own.iter().all(|member| half < member.phase.runs.len()) {
            let samples: Vec<&[Sample]> = own.iter().map(|member| &member.phase.runs[half].samples[..]).collect();
            runs.push(BodyRun {
                times: numbered(own.iter().zip(&stretches).map(|(member, one)| member.times(half, one.begin_ns))),
                audit: audit(own.iter().map(|member| &member.phase.runs[half].audit)),
                samples: joined(own, &samples, &lengths, together),
            });
        }
    }
    let samples: Vec<&[Sample]> = own.iter().map(|member| &member.phase.samples[..]).collect();
    let members =
        samples.iter().enumerate().map(|(member, samples)| MemberRecord { member, samples: samples.to_vec() });
    Series {
        phase: own[0].phase.phase,
        begin_ns: own[0].phase.begin_ns,
        end_ns: own[0].phase.end_ns,
        arm: own[0].phase.arm,
        reps: own[0].phase.reps,
        runs,
        samples: joined(own, &samples, &seconds, window),
        members: members.collect(),
        ..Series::default()
    }
}

fn joined(own: &[Member<'_>], samples: &[&[Sample]], seconds: &[f64], window: f64) -> Vec<Sample> {
    let parts: Vec<Part<'_>> =
        samples.iter().zip(seconds).map(|(samples, &seconds)| Part { samples, seconds }).collect();
    by_rules(own[0].together.iter().map(|(key, &rule)| (key.as_str(), rule)), &parts, window)
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a stretch")]
fn seconds_of(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// The ranks of all sites, numbered through.
fn numbered(sites: impl Iterator<Item = Vec<RankTime>>) -> Vec<RankTime> {
    let mut all = Vec::new();
    for times in sites {
        let first = all.len();
        all.extend(times.into_iter().map(|time| RankTime { rank: first + time.rank, ..time }));
    }
    all
}

fn audit<'a>(sites: impl Iterator<Item = &'a Audit>) -> Audit {
    sites.fold(Audit { queued_ns: Some(0), ..Audit::default() }, |mut sum, site| {
        sum.ranks_inside += site.ranks_inside;
        sum.forwarded_syscalls += site.forwarded_syscalls;
        sum.guest_page_faults += site.guest_page_faults;
        sum.extra_exits += site.extra_exits;
        sum.queued_ns = sum.queued_ns.zip(site.queued_ns).map(|(sum, more)| sum + more);
        sum.rests += site.rests;
        add(&mut sum.counters, &site.counters);
        sum
    })
}

fn add(sum: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    more.iter().for_each(|(name, count)| *sum.entry(name.clone()).or_default() += count);
}

/// What is true of an arm at all sites.
fn record(results: &[MemberResult], arm: usize, simultaneity: Simultaneity) -> Option<ArmRecord> {
    let own: Vec<&ArmRecord> = results.iter().map(|member| member.result.arms.get(arm)).collect::<Option<_>>()?;
    let mut joint = (*own.first()?).clone();
    for other in &own[1..] {
        joint.executor.ranks += other.executor.ranks;
        joint.executor.cpus.extend(&other.executor.cpus);
        for (sum, more) in [(&mut joint.pages_before, other.pages_before), (&mut joint.pages_after, other.pages_after)]
        {
            sum.resident_bytes += more.resident_bytes;
            sum.huge_bytes += more.huge_bytes;
        }
        add(&mut joint.counters, &other.counters);
        add(&mut joint.grown, &other.grown);
        joint.placed.cpus.extend(&other.placed.cpus);
        joint.placed.pages_local += other.placed.pages_local;
        other.placed.pages_by_node.iter().for_each(|on| joint.placed.add(on.node, on.pages));
        joint.empty_run_ns = joint.empty_run_ns.max(other.empty_run_ns);
        if matches!(other.verification, Verification::Failed { .. }) {
            joint.verification = other.verification.clone();
        }
        // Of a share at one site and the whole at another, the share is what is known of all.
        joint.verified = [joint.verified, other.verified].into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0));
    }
    let notes = [
        ("sites", own.len().to_string()),
        ("side by side", format!("{:.1} % of the time", 100.0 * simultaneity.together)),
        ("clocks known to", format!("{} ns", simultaneity.uncertain_ns)),
    ];
    joint.executor.notes.extend(notes.map(|(name, what)| (name.to_owned(), what)));
    joint.counters.insert("clock_uncertainty_ns".to_owned(), simultaneity.uncertain_ns);
    Some(joint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::wire::ProgramShare;

    /// A trial at several sites said nothing of who else used the CPUs.
    #[test]
    fn what_others_took_at_each_site_is_in_the_trial() {
        let program = |name: &str, share: f64| ProgramShare { name: name.to_owned(), share };
        let site = |queued: f64, stolen: f64, programs: &[ProgramShare]| Disturbance {
            queued: vec![Some(queued), None],
            rests: vec![2, 0],
            others: Some(0.5),
            stolen: Some(stolen),
            throttled: (stolen > 0.0).then_some(0.25),
            pressure: Some(queued),
            programs: programs.to_vec(),
            ..Disturbance::default()
        };
        let sites =
            [site(0.1, 0.0, &[program("cc1", 0.2)]), site(0.02, 0.03, &[program("cc1", 0.1), program("make", 0.3)])];
        let found = disturbance(sites.iter()).expect("both report something");
        assert_eq!((found.queued, found.rests, found.stolen), (vec![Some(0.1), None], vec![4, 0], Some(0.03)));
        assert_eq!((found.throttled, found.pressure), (Some(0.25), Some(0.1)));
        assert_eq!(found.programs, [program("make", 0.3), program("cc1", 0.2)]);
        assert!(found.others.is_none() && found.work_of_others, "each is among the other's others");
        assert_eq!(disturbance([].iter()), None);
    }
}
