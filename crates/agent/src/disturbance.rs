//! What others took of the CPUs while phases ran.
//!
//! Measured inside the phases and nowhere else. How long each rank was ready to run while somebody else had its CPU: from the kernel's
//! account, read by the rank's own thread on both sides of the measured region, to the nanosecond. What others used of all
//! CPUs: during a kernel the machine's processor time less this process's own; during a job, for which the kernel works too, that of all programs but
//! this one and what it has started. Where not all programs are seen (in a PID namespace of its own, with `hidepid`), it is the machine's processor time less that of
//! this program and what it has started, in which the kernel's own work is, too; and during each job the same less the agent and what it has started alone, which is
//! counted alike wherever the agent runs and compares two sites of one machine ([`PhaseDisturbance::beyond_agent`]). The kernel counts it in ticks of 10 ms; it is read at
//! the ends of phases that are long enough for that, else of several. The programs that used most are named, by readings at both ends of the phases; what a CPU quota
//! withheld and how long some task of the machine waited are read there, too. No quota changes what `/proc/stat` counts, and in a virtual machine it is the guest's.

use baremark_model::disturbed::{QUAD, queued_share};
use baremark_model::order;
use baremark_model::seam::TickRate;
use baremark_model::wire::{Disturbance, PhaseDisturbance, ProgramShare, Series};
use baremark_sys::clock;
use baremark_sys::cpu_time::{CpuTime, TICK_S};
use baremark_sys::cpu_users::{CpuUsers, Sight, outermost_of_this_program, own_name, own_number};
use baremark_sys::held_back::HeldBack;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Phases from this length on are read one by one: ten ticks.
const FINE: Duration = Duration::from_millis(100);
/// During a job so much time passes between two readings, each of which looks at every process.
const BETWEEN_READINGS: Duration = Duration::from_secs(1);
/// Programs that are named, and the least share of all CPUs that each has.
const NAMED: usize = 3;
const LEAST_NAMED: f64 = 0.005;
/// The work that others disturb.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A kernel, which is this process.
    Kernel,
    /// A job, which starts programs.
    Job,
}

/// Whose use of the CPUs is not the others', and what is seen of these.
#[derive(Clone, Copy)]
struct Standpoint {
    /// The process whose descendants are not others.
    root: u32,
    /// The agent: this process, whose descendants are the work and what keeps it.
    agent: u32,
    sight: Sight,
}

impl Standpoint {
    fn of_this_process() -> Self {
        Standpoint { root: outermost_of_this_program(), agent: own_number(), sight: Sight::now() }
    }
}

/// The state of the CPUs at one moment.
#[derive(Clone)]
struct Reading {
    machine: Option<CpuTime>,
    /// This process's processor time.
    own_ns: u64,
    /// Every program's, where it is read.
    users: Option<CpuUsers>,
    at: Instant,
}

impl Reading {
    fn now(with_users: bool) -> Self {
        let users = with_users.then(|| CpuUsers::now().ok()).flatten();
        Reading { machine: CpuTime::now().ok(), own_ns: clock::process_cpu_ns(), users, at: Instant::now() }
    }

    /// Counts what passed from `from` to `to` as before this.
    fn skip(&mut self, from: &Reading, to: &Reading) {
        let all = self.machine.zip(from.machine.zip(to.machine));
        self.machine = all.map(|(machine, (from, to))| CpuTime {
            busy: machine.busy + to.busy.saturating_sub(from.busy),
            all: machine.all + to.all.saturating_sub(from.all),
            stolen: machine.stolen + to.stolen.saturating_sub(from.stolen),
            cpus: machine.cpus,
        });
        self.own_ns += to.own_ns.saturating_sub(from.own_ns);
        self.at += to.at - from.at;
    }

    /// The time of all CPUs from here to `end`, in seconds; `None` where the kernel does not count it.
    #[expect(clippy::cast_precision_loss, reason = "a number of CPUs")]
    fn all_s(&self, end: &Reading) -> Option<f64> {
        let elapsed = end.at - self.at;
        // Some kernels have the file and count nothing (gVisor's).
        let (before, after) = self.machine.zip(end.machine)?;
        let counts = after.cpus > 0 && (after.all > before.all || elapsed < FINE);
        counts.then(|| (after.cpus as f64 * elapsed.as_secs_f64()).max(1e-9))
    }

    /// What others took from here to `end`. During a kernel, and of a job where not all programs are seen: idle time is the kernel's own account and
    /// not sampled; the rest of the time less the own and what was stolen is the others'.
    #[expect(clippy::cast_precision_loss, reason = "ticks and nanoseconds of a trial")]
    fn until(&self, end: &Reading, standpoint: &Standpoint) -> PhaseDisturbance {
        let Some((all_s, (before, after))) = self.all_s(end).zip(self.machine.zip(end.machine)) else {
            return PhaseDisturbance::default();
        };
        let stolen = after.stolen.saturating_sub(before.stolen) as f64 * TICK_S / all_s;
        let idle = (after.all - after.busy).saturating_sub(before.all - before.busy) as f64 * TICK_S / all_s;
        let beyond = |own_s: f64| 1.0 - idle - stolen - own_s / all_s;
        let Standpoint { root, agent, sight } = *standpoint;
        let (others, beyond_agent) = match self.users.as_ref().zip(end.users.as_ref()) {
            Some((before, after)) => {
                let others = match sight.all_programs {
                    true => after.others_since(before, root).iter().map(|(_, seconds)| seconds).sum::<f64>() / all_s,
                    false => beyond(after.tree_since(before, root)),
                };
                (others, beyond(after.tree_since(before, agent)))
            }
            None => {
                let others = beyond(end.own_ns.saturating_sub(self.own_ns) as f64 / 1e9);
                (others, others)
            }
        };
        PhaseDisturbance {
            queued: None,
            others: Some(others.clamp(if sight.all_programs { 0.0 } else { -1.0 }, 1.0)),
            stolen: Some(stolen.clamp(0.0, 1.0)),
            // Ticks that are missing in one phase are in another one: of the mean of both the error is that of one.
            beyond_agent: Some(beyond_agent.clamp(-1.0, 1.0)),
            of_container: sight.stat_of_container,
            resolution: TICK_S / all_s,
        }
    }
}

/// Reads the CPUs' time while phases run.
pub(crate) struct Meter {
    work: Work,
    standpoint: Standpoint,
    fine: bool,
    first: Reading,
    last: Reading,
    /// Every program's time before the first phase.
    users: Option<CpuUsers>,
    phases: Vec<PhaseDisturbance>,
    /// What had kept tasks from the CPUs before the first phase, and when that was read.
    held_back: (HeldBack, Instant),
    /// Of one side of a trial, between whose phases others run at another site.
    side: Option<OneSide>,
    /// Whether other sites of the trial work at the same time.
    several: bool,
}

/// What a meter of phases with gaps between them keeps in addition.
#[derive(Default)]
struct OneSide {
    /// The beginning of the first phase, moved by every gap since: what passed from here to the last reading passed in phases.
    begun: Option<Reading>,
    /// When the last phase ended, while its lap goes on.
    ended: Option<Reading>,
    /// Phases of the lap so far, each of which is known to a tick.
    spans: u32,
    /// What other programs used in the phases of a job, in seconds, and the time of all CPUs in them.
    used: BTreeMap<String, f64>,
    all_s: f64,
}

impl Meter {
    /// Before the first of phases that last about `phase`.
    pub(crate) fn begin(work: Work, phase: Duration) -> Self {
        let mut first = Reading::now(true);
        let users = first.users.clone();
        if work == Work::Kernel {
            first.users = None;
        }
        let standpoint = Standpoint::of_this_process();
        let (last, phases) = (first.clone(), Vec::new());
        let held_back = (HeldBack::now(), Instant::now());
        Meter {
            work,
            standpoint,
            fine: phase >= FINE,
            last,
            first,
            users,
            phases,
            held_back,
            side: None,
            several: false,
        }
    }

    /// The same for one side of a trial: between its phases are those of another site, which are no other programs'.
    pub(crate) fn of_one_side(mut self, is_so: bool) -> Self {
        self.side = is_so.then(OneSide::default);
        self
    }

    /// The same for one of several sites that work at the same time: the others may be on this machine, and are no other programs.
    pub(crate) fn of_several(mut self, is_so: bool) -> Self {
        self.several = is_so;
        self
    }

    /// The phase at `position` of the schedule begins only now: what came before belongs to none.
    pub(crate) fn phase_begins(&mut self, position: usize) {
        if position == 0 {
            self.held_back = (HeldBack::now(), Instant::now());
        }
        if self.side.is_some() {
            self.turn_begins(Reading::now(self.work == Work::Job));
            return;
        }
        if self.work == Work::Kernel {
            return;
        }
        // What several short phases have in common is read at the end of the last.
        if self.phases.len() == position && (position == 0 || self.last.at.elapsed() >= BETWEEN_READINGS) {
            self.last = Reading::now(self.work == Work::Job);
        }
        if position == 0 {
            self.first = self.last.clone();
        }
    }

    /// The phase at `position` of the schedule is over.
    pub(crate) fn phase_done(&mut self, position: usize) {
        if self.side.is_some() {
            self.turn_ends(position, Reading::now(self.work == Work::Job));
            return;
        }
        let is_due = match self.work {
            Work::Kernel => self.fine || (position + 1).is_multiple_of(QUAD),
            Work::Job => self.last.at.elapsed() >= BETWEEN_READINGS,
        };
        if is_due {
            self.lap(position + 1);
        }
    }

    /// A phase of one side begins: what passed since its last was the other's.
    fn turn_begins(&mut self, now: Reading) {
        let Some(side) = &mut self.side else { return };
        match &mut side.begun {
            Some(begun) => begun.skip(side.ended.as_ref().unwrap_or(&self.last), &now),
            None => side.begun = Some(Reading { users: None, ..now.clone() }),
        }
        match side.ended.take() {
            Some(ended) => self.last.skip(&ended, &now),
            None => (self.last, side.spans) = (now, 0),
        }
        side.spans += 1;
    }

    /// The phase at `position` of one side is over. Short ones of one quad, half of which is the other side's, are counted together.
    fn turn_ends(&mut self, position: usize, now: Reading) {
        if self.work == Work::Job || self.fine || (position + 1).is_multiple_of(QUAD / 2) {
            self.over_at(position + 1, now);
        } else if let Some(side) = &mut self.side {
            side.ended = Some(now);
        }
    }

    /// Phases up to `until` are over.
    pub(crate) fn lap(&mut self, until: usize) {
        self.over_at(until, Reading::now(self.work == Work::Job));
    }

    /// Phases up to `until` were over when `now` was read.
    fn over_at(&mut self, until: usize, now: Reading) {
        let mut found = self.last.until(&now, &self.standpoint);
        if let Some(side) = &mut self.side {
            found.resolution *= f64::from(side.spans.max(1));
            if let Some((all_s, (before, after))) =
                self.last.all_s(&now).zip(self.last.users.as_ref().zip(now.users.as_ref()))
            {
                side.all_s += all_s;
                for (name, seconds) in after.others_since(before, self.standpoint.root) {
                    *side.used.entry(name).or_default() += seconds;
                }
            }
        }
        self.phases.resize(until, found);
        self.last = now;
    }

    /// What others took over the phases in `series`, of so many `arms`.
    pub(crate) fn end(mut self, series: &[Series], arms: usize, rate: TickRate) -> Disturbance {
        if self.phases.len() < series.len() {
            match self.side.as_mut().and_then(|side| side.ended.take()) {
                Some(ended) => self.over_at(series.len(), ended),
                None => self.lap(series.len()),
            }
        }
        let of = |arm: usize| series.iter().filter(move |phase| phase.arm == arm);
        let rests = |arm: usize| of(arm).flat_map(|phase| &phase.runs).map(|run| run.audit.rests).sum();
        // Of short phases not the mean: each is known to a tick, and none is below zero.
        let whole = match (&self.side, self.work) {
            (Some(side), Work::Kernel) => {
                side.begun.as_ref().map(|begun| begun.until(&self.last, &self.standpoint)).unwrap_or_default()
            }
            (Some(_), Work::Job) => mean_of(&self.phases, series),
            (None, _) => self.first.until(&self.last, &self.standpoint),
        };
        for (found, phase) in self.phases.iter_mut().zip(series) {
            found.queued = queued_share(std::iter::once(phase), rate);
        }
        // Between the phases of one side it is idle, and a quota withholds nothing from it.
        let (before, since) = &self.held_back;
        let now = HeldBack::now();
        Disturbance {
            queued: (0..arms).map(|arm| queued_share(of(arm), rate)).collect(),
            rests: (0..arms).map(rests).collect(),
            others: whole.others.map(|share| share.clamp(0.0, 1.0)),
            stolen: whole.stolen,
            throttled: now.throttled_since(before),
            pressure: now.pressure_since(before, since.elapsed()),
            programs: self.programs(),
            hidden_programs: !self.standpoint.sight.all_programs,
            work_of_others: self.several,
            phases: self.phases,
        }
    }

    /// The other programs that used most of the CPUs, over the phases.
    fn programs(&self) -> Vec<ProgramShare> {
        if let (Some(side), Work::Job) = (&self.side, self.work) {
            let mut used: Vec<(String, f64)> = side.used.clone().into_iter().collect();
            order::by(&mut used, |(_, one), (_, other)| other.total_cmp(one));
            return shares(used.into_iter(), side.all_s);
        }
        let now = match self.work {
            Work::Job => self.last.users.clone(),
            Work::Kernel => CpuUsers::now().ok(),
        };
        let used = self.users.as_ref().zip(now).map(|(before, now)| now.others_since(before, self.standpoint.root));
        let Some((used, all_s)) = used.zip(self.first.all_s(&self.last)) else { return Vec::new() };
        // Other sites run this program, too, and where they are a container's or were reached by ssh they are no descendants.
        let other_sites = if self.side.is_some() || self.several { own_name().ok() } else { None };
        shares(used.into_iter().filter(|(name, _)| other_sites.as_ref() != Some(name)), all_s)
    }
}

/// Those that used most, of the time of all CPUs.
fn shares(used: impl Iterator<Item = (String, f64)>, all_s: f64) -> Vec<ProgramShare> {
    let shares = used.map(|(name, seconds)| ProgramShare { name, share: (seconds / all_s).min(1.0) });
    shares.take(NAMED).filter(|of| of.share >= LEAST_NAMED).collect()
}

/// What others took over phases of different lengths, with gaps between them.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a trial")]
fn mean_of(phases: &[PhaseDisturbance], series: &[Series]) -> PhaseDisturbance {
    let mean = |share: fn(&PhaseDisturbance) -> Option<f64>| {
        let (mut sum, mut all) = (0.0, 0.0);
        for (phase, times) in phases.iter().zip(series) {
            let lasted = times.end_ns.saturating_sub(times.begin_ns) as f64;
            sum += share(phase)? * lasted;
            all += lasted;
        }
        (all > 0.0).then(|| sum / all)
    };
    let (others, stolen) = (mean(|phase| phase.others), mean(|phase| phase.stolen));
    PhaseDisturbance { others, stolen, ..PhaseDisturbance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::disturbed::{discarded, flags};
    use baremark_model::seam::{Audit, RankTime};
    use baremark_model::wire::{BodyRun, DiscardedQuad};
    use std::fs;

    const RATE: TickRate = TickRate(1e9);

    const ALL_SEEN: Standpoint =
        Standpoint { root: 9, agent: 10, sight: Sight { all_programs: true, stat_of_container: false } };
    /// The same in a PID namespace, in which the first process runs this program.
    const IN_SANDBOX: Standpoint =
        Standpoint { root: 1, agent: 10, sight: Sight { all_programs: false, stat_of_container: false } };

    /// A phase of 5 ms of two ranks that waited for so many microseconds.
    fn phase(place: usize, arm: usize, queued_us: u64) -> Series {
        let time = |rank| RankTime { rank, start_ticks: 1, end_ticks: 5_000_001 };
        let audit = Audit { queued_ns: Some(1000 * queued_us), ..Audit::default() };
        Series {
            phase: place,
            arm,
            begin_ns: 0,
            end_ns: 0,
            reps: 1,
            runs: vec![BodyRun { times: vec![time(0), time(1)], audit, samples: Vec::new() }],
            samples: Vec::new(),
            members: Vec::new(),
            points: Vec::new(),
            detail: None,
        }
    }

    /// Nothing known of what others used.
    fn unknown(series: &[Series]) -> Disturbance {
        others(&vec![None; series.len()], 0.0)
    }

    fn others(shares: &[Option<f64>], resolution: f64) -> Disturbance {
        let of = |&others: &Option<f64>| PhaseDisturbance { others, resolution, ..PhaseDisturbance::default() };
        Disturbance { phases: shares.iter().map(of).collect(), ..Disturbance::default() }
    }

    /// Others that use a CPU during phases of one arm, or of the other, or of both, cost the same quad; what a tick may have made of
    /// nothing costs none.
    #[test]
    fn a_quad_goes_for_what_others_used_whichever_arm_it_was() {
        let series = quads(&[[0; 4]; 3]);
        let with = |quad: [f64; 4], resolution| {
            let shares: Vec<Option<f64>> = quad.into_iter().chain([0.01; 8]).map(Some).collect();
            discarded(&series, &others(&shares, resolution), RATE)
        };
        for quad in [[0.5, 0.0, 0.0, 0.5], [0.0, 0.5, 0.5, 0.0], [0.25; 4]] {
            let found = with(quad, 0.05);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((found[0].quad, &*found[0].why), (0, "other programs used 25 % of the CPUs"));
        }
        assert_eq!(with([0.25; 4], 0.25), [], "one tick of a short quad");
        assert_eq!(with([0.08; 4], 0.0), []);
    }

    /// A machine of two CPUs, so many milliseconds after the first reading: ticks in which its CPUs were busy, idle and stolen (which are
    /// among the busy ones), and the milliseconds of CPU time that are this process's own.
    fn read(begun: Instant, after_ms: u64, [busy, idle, stolen]: [u64; 3], own_ms: u64) -> Reading {
        let machine = CpuTime { busy, all: busy + idle, stolen, cpus: 2 };
        let at = begun + Duration::from_millis(after_ms);
        Reading { machine: Some(machine), own_ns: own_ms * 1_000_000, users: None, at }
    }

    fn close(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-9)
    }

    #[test]
    fn others_have_what_is_neither_idle_nor_stolen_nor_this_processs() {
        let begun = Instant::now();
        let before = read(begun, 0, [1000, 5000, 10], 300);
        // Of 200 ticks in a second of two CPUs 80 were idle, 20 stolen and 50 this process's.
        let seen = before.until(&read(begun, 1000, [1120, 5080, 30], 800), &ALL_SEEN);
        assert!(close(seen.others, 0.25) && close(seen.stolen, 0.1) && seen.queued.is_none(), "{seen:?}");
        assert!((seen.resolution - 0.005).abs() < 1e-12, "a tick of two hundred: {seen:?}");
        // Work of descendants is not the others': they have that much less.
        let seen = before.until(&read(begun, 1000, [1120, 5080, 30], 1200), &ALL_SEEN);
        assert!(close(seen.others, 0.05), "{seen:?}");
        // Ticks may make more of this process's time than there is.
        let seen = before.until(&read(begun, 1000, [1120, 5080, 30], 1400), &ALL_SEEN);
        assert_eq!(seen.others, Some(0.0));
    }

    /// The same with the processes that a `/proc` shows: number, parent, and ticks of CPU time.
    fn read_job(begun: Instant, after_ms: u64, machine: [u64; 3], processes: &[(u32, u32, u64)]) -> Reading {
        let folder = tempfile::tempdir().expect("a folder");
        for (pid, parent, ticks) in processes {
            let process = folder.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&process).expect("it is ours");
            // Half of them are of children that it has waited for.
            let (own, waited_for) = (ticks - ticks / 2, ticks / 2);
            let line = format!("{pid} (p{pid}) S {parent} 1 1 0 -1 0 0 0 0 0 {own} 0 {waited_for} 0 20 0 1 0 5 0 0");
            fs::write(process.join("stat"), line).expect("it is ours");
        }
        let users = Some(CpuUsers::below(folder.path()).expect("a folder"));
        Reading { users, ..read(begun, after_ms, machine, 0) }
    }

    /// In a second of two CPUs the job's programs (11, and 12, which ends) used 80 ticks, the lab (9) 4, another program (20) 50 and the kernel 6. In a sandbox
    /// another program seemed to use nothing, so that a comparison with native named "CPU use by other programs" as its cause.
    #[test]
    fn what_others_use_is_counted_alike_where_they_are_not_seen() {
        let begun = Instant::now();
        let (machine_before, machine_after) = ([1000, 5000, 10], [1150, 5050, 20]);
        let inside = [(1, 0, 30), (10, 1, 100), (11, 10, 40), (12, 10, 5)];
        let inside_later = [(1, 0, 30), (10, 1, 125), (11, 10, 100)];
        let outside = [(1, 0, 500), (2, 0, 3), (3, 2, 70), (9, 1, 200), (20, 1, 900)];
        let outside_later = [(1, 0, 500), (2, 0, 3), (3, 2, 75), (9, 1, 204), (20, 1, 950)];
        // The sandbox's first process is no process of the machine's namespace; the agent there is the lab's child.
        let on_machine = |outside: &[(u32, u32, u64)], inside: &[(u32, u32, u64)]| {
            let own = inside.iter().filter(|(pid, ..)| *pid != 1);
            let own = own.map(|&(pid, parent, ticks)| (pid, if parent == 1 { 9 } else { parent }, ticks));
            outside.iter().copied().chain(own).collect::<Vec<_>>()
        };
        let native = [
            read_job(begun, 0, machine_before, &on_machine(&outside, &inside)),
            read_job(begun, 1000, machine_after, &on_machine(&outside_later, &inside_later)),
        ];
        let sandbox =
            [read_job(begun, 0, machine_before, &inside), read_job(begun, 1000, machine_after, &inside_later)];
        let seen = native[0].until(&native[1], &ALL_SEEN);
        assert!(close(seen.others, 0.25), "the program alone, which is seen: {seen:?}");
        assert!(close(seen.stolen, 0.05) && close(seen.beyond_agent, 0.3), "with the lab and the kernel: {seen:?}");
        let hidden = sandbox[0].until(&sandbox[1], &IN_SANDBOX);
        assert!(close(hidden.others, 0.3) && close(hidden.beyond_agent, 0.3), "{hidden:?}");
        assert!(!seen.of_container && !hidden.of_container);
        let sight = Sight { stat_of_container: true, ..IN_SANDBOX.sight };
        assert!(sandbox[0].until(&sandbox[1], &Standpoint { sight, ..IN_SANDBOX }).of_container);

        let mut meter = Meter::begin(Work::Job, Duration::ZERO);
        (meter.first, meter.last, meter.standpoint) = (sandbox[0].clone(), sandbox[0].clone(), IN_SANDBOX);
        meter.users = sandbox[0].users.clone();
        meter.over_at(1, sandbox[1].clone());
        let found = meter.end(&[phase(0, 0, 0)], 1, RATE);
        assert!(found.hidden_programs && found.programs.is_empty() && close(found.others, 0.3), "{found:?}");
        assert_eq!(found.phases, [PhaseDisturbance { queued: Some(0.0), ..hidden }]);
    }

    /// A job with many processes whose time is known to ticks: what one reading lacks the next one has.
    #[test]
    fn ticks_that_are_missing_in_a_phase_are_in_the_next_one() {
        let begun = Instant::now();
        let at = |ms, ticks| read_job(begun, ms, [ms / 5, 0, 0], &[(1, 0, 0), (10, 1, ticks)]);
        let readings = [at(0, 0), at(100, 24), at(200, 40)];
        let shares = [0, 1].map(|from| readings[from].until(&readings[from + 1], &IN_SANDBOX));
        assert_eq!(shares.map(|share| share.others.map(|others| (10.0 * others).round())), [Some(-2.0), Some(2.0)]);
        let mean = shares.iter().filter_map(|share| share.beyond_agent).sum::<f64>() / 2.0;
        assert!(mean.abs() < 1e-9, "{shares:?}");
        let series = [0, 1].map(|place| Series { end_ns: 100_000_000, ..phase(place, 0, 0) });
        assert!(close(mean_of(&shares, &series).others, 0.0), "clamped one by one, they had a mean of a tenth");
    }

    #[test]
    fn where_the_kernel_counts_nothing_nothing_is_known_of_others() {
        let begun = Instant::now();
        let before = read(begun, 0, [1000, 5000, 10], 300);
        let silent =
            |reading: Reading| (before.until(&reading, &ALL_SEEN).others, before.until(&reading, &ALL_SEEN).stolen);
        assert_eq!(silent(Reading { machine: None, ..read(begun, 1000, [0; 3], 800) }), (None, None));
        assert_eq!(silent(read(begun, 1000, [1000, 5000, 10], 800)), (None, None), "its counts stand still");
        assert!(silent(read(begun, 9, [1000, 5000, 10], 300)).0.is_some(), "a tick has not passed yet");
    }

    #[test]
    fn what_others_took_is_known_by_phase_or_by_quad_where_phases_are_short() {
        let begun = Instant::now();
        // A quiet second, one in which others had a CPU, and a quiet one.
        let readings = [
            read(begun, 1000, [0, 200, 0], 0),
            read(begun, 2000, [100, 300, 0], 0),
            read(begun, 3000, [100, 500, 0], 0),
        ];
        let meter = |phase: Duration| {
            let mut meter = Meter::begin(Work::Kernel, phase);
            (meter.first, meter.last) = (read(begun, 0, [0; 3], 0), read(begun, 0, [0; 3], 0));
            meter
        };
        let mut by_phase = meter(FINE);
        (1..).zip(readings.clone()).for_each(|(until, reading)| by_phase.over_at(until, reading));
        let others: Vec<Option<f64>> = by_phase.phases.iter().map(|phase| phase.others).collect();
        assert_eq!(others, [Some(0.0), Some(0.5), Some(0.0)]);
        assert!(close(by_phase.first.until(&by_phase.last, &ALL_SEEN).others, 1.0 / 6.0));

        let mut by_quad = meter(Duration::from_millis(5));
        (0..QUAD - 1).for_each(|position| by_quad.phase_done(position));
        assert_eq!(by_quad.phases, [], "nothing is read within a quad");
        by_quad.over_at(QUAD, readings[1].clone());
        assert_eq!(by_quad.phases.iter().map(|phase| phase.others).collect::<Vec<_>>(), [Some(0.25); QUAD]);
    }

    /// Idle time is counted in ticks: of three laps of two phases of 5 ms on two CPUs, of which the side uses one, one has no idle tick and one has two.
    #[test]
    fn what_others_used_over_short_phases_of_one_side_is_not_the_mean_of_their_errors() {
        let begun = Instant::now();
        let mut meter = Meter::begin(Work::Kernel, Duration::from_millis(5)).of_one_side(true);
        let (mut busy, mut idle) = (0, 0);
        for (lap, ticks) in [1, 0, 2].into_iter().enumerate() {
            let at = |ms: u64| 1000 * lap as u64 + ms;
            let own = 10 * lap as u64;
            meter.turn_begins(read(begun, at(0), [busy, idle, 0], own));
            meter.turn_ends(2 * lap, read(begun, at(5), [busy, idle, 0], own + 5));
            meter.turn_begins(read(begun, at(100), [busy, idle, 0], own + 5));
            (busy, idle) = (busy + 2 - ticks, idle + ticks);
            meter.turn_ends(2 * lap + 1, read(begun, at(105), [busy, idle, 0], own + 10));
        }
        let series: Vec<Series> = (0..6).map(|at| Series { end_ns: 5_000_000, ..phase(at, 0, 0) }).collect();
        let found = meter.end(&series, 1, RATE);
        assert!(close(found.others, 0.0), "{found:?}");
    }

    /// Two short phases of one side with two seconds between them, in which the other side had both CPUs.
    #[test]
    fn between_the_phases_of_one_side_nothing_is_counted() {
        let begun = Instant::now();
        let mut meter = Meter::begin(Work::Kernel, Duration::from_millis(5)).of_one_side(true);
        meter.turn_begins(read(begun, 0, [0, 0, 0], 0));
        meter.turn_ends(0, read(begun, 1000, [100, 100, 0], 1000));
        meter.turn_begins(read(begun, 3000, [500, 100, 0], 1000));
        meter.turn_ends(1, read(begun, 4000, [650, 150, 0], 2000));
        let [first, second] = [phase(0, 0, 0), phase(1, 0, 0)].map(|phase| Series { end_ns: 1_000_000_000, ..phase });
        let found = meter.end(&[first, second], 1, RATE);
        // Of 400 ticks in the phases 150 were idle and 200 this process's.
        assert!(found.phases.len() == 2 && found.phases.iter().all(|of| close(of.others, 0.125)), "{found:?}");
        assert!(found.phases.iter().all(|of| (of.resolution - 0.005).abs() < 1e-12), "a tick for each: {found:?}");
        assert!(close(found.others, 0.125), "{found:?}");
    }

    fn quads(queued: &[[u64; 4]]) -> Vec<Series> {
        let all = queued.iter().flatten().zip([0, 1, 1, 0].into_iter().cycle());
        all.enumerate().map(|(place, (&queued, arm))| phase(place, arm, queued)).collect()
    }

    #[test]
    fn a_quad_goes_for_what_all_its_phases_waited_whichever_arm_it_was() {
        // 2 % of 40 ms are 800 us.
        let one_arm = quads(&[[900, 0, 0, 0], [0; 4], [0; 4]]);
        let other_arm = quads(&[[0, 900, 0, 0], [0; 4], [0; 4]]);
        let both = quads(&[[225; 4], [0; 4], [0; 4]]);
        for series in [&one_arm, &other_arm, &both] {
            let discarded = discarded(series, &unknown(series), RATE);
            assert_eq!(discarded.len(), 1, "{discarded:?}");
            assert_eq!(
                (discarded[0].quad, &*discarded[0].why),
                (0, "its ranks waited for their CPUs for 2.2 % of their time")
            );
        }
        let series = quads(&[[700, 0, 0, 0], [0; 4], [0; 4]]);
        assert!(discarded(&series, &unknown(&series), RATE).is_empty());
    }

    #[test]
    fn where_most_quads_were_disturbed_all_count() {
        let bad = [3000, 0, 0, 0];
        let (few, most) = (quads(&[bad, [0; 4]]), quads(&[bad, bad, [0; 4]]));
        assert_eq!(discarded(&few, &unknown(&few), RATE).len(), 1);
        assert!(discarded(&most, &unknown(&most), RATE).is_empty());
    }

    /// 109.8 % of the time of a phase of 5 ms: ranks waited before it, too.
    #[test]
    fn no_more_is_waited_in_a_region_than_it_lasts() {
        let phases = [phase(0, 0, 12_000), phase(1, 0, 0)];
        assert_eq!(queued_share(phases[..1].iter(), RATE), Some(1.0));
        assert_eq!(queued_share(phases.iter(), RATE), Some(0.5));
        assert_eq!(queued_share([phase(0, 0, 1_000)].iter(), RATE), Some(0.1));
    }

    #[test]
    fn what_was_not_counted_is_not_nothing() {
        let mut series = quads(&[[900, 0, 0, 0], [0; 4], [0; 4]]);
        series[0].runs[0].audit.queued_ns = None;
        assert!(discarded(&series, &unknown(&series), RATE).is_empty());
        let found = Meter::begin(Work::Kernel, Duration::from_millis(5)).end(&series, 2, RATE);
        assert_eq!(found.queued, [None, Some(0.0)]);
        assert!(found.others.is_none_or(|share| (0.0..=1.0).contains(&share)), "{found:?}");
    }

    #[test]
    fn a_reader_hears_of_what_is_beyond_the_limits() {
        let quiet = Disturbance { queued: vec![Some(0.001)], others: Some(0.02), ..Disturbance::default() };
        assert!(flags(&quiet, &[]).is_empty());
        let busy = Disturbance { queued: vec![None, Some(0.02)], others: Some(0.5), ..Disturbance::default() };
        assert_eq!(flags(&busy, &[DiscardedQuad { quad: 0, why: String::new() }]).len(), 3);
    }
}
