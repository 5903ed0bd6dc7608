//! What others took of the CPUs while phases ran, and which quads of phases do not count for it.
//!
//! Measured inside the phases and nowhere else. How long each rank was ready to run while somebody else had its CPU: from the kernel's
//! account, read by the rank's own thread on both sides of the measured region, to the nanosecond. What others used of all
//! CPUs: the machine's processor time less this process's own and, where the work is programs that it starts, that of its descendants; read
//! at the ends of phases. The kernel counts it in ticks of 10 ms for each CPU; where phases are too short for that it is read at the ends of
//! quads.

use baremark_model::seam::TickRate;
use baremark_model::wire::{DiscardedQuad, Disturbance, PhaseDisturbance, Series};
use baremark_sys::clock;
use baremark_sys::cpu_time::{CpuTime, TICK_S};
use baremark_sys::process_tree;
use std::time::{Duration, Instant};

/// Phases of a quad.
const QUAD: usize = 4;
/// Phases from this length on are read one by one: ten ticks.
const FINE: Duration = Duration::from_millis(100);
/// A quad in which ranks waited for this share of their time does not count. One time slice of another program takes a
/// sixth of a quad of two ranks and phases of 5 ms; interrupts and the kernel's own threads take a thousandth.
const TOO_LONG: f64 = 0.02;
/// A quad in which others certainly used more than this share of all CPUs does not count: certainly, because a tick of resolution is
/// taken off first.
const TOO_MUCH: f64 = 0.10;
/// From here on a reader should know of it.
const TOLD_QUEUED: f64 = 0.01;
const TOLD_OTHERS: f64 = 0.10;

/// Whose processor time is not that of others.
#[derive(Clone, Copy)]
pub(crate) enum Own {
    /// This process's.
    Process,
    /// This process's and that of its descendants, to a tick for each of them.
    Descendants,
}

impl Own {
    fn cpu_ns(self) -> u64 {
        match self {
            Own::Process => clock::process_cpu_ns(),
            Own::Descendants => process_tree::usage(std::process::id()).map_or(0, |usage| usage.cpu_ns),
        }
    }
}

/// The state of the CPUs at one moment.
#[derive(Clone, Copy)]
struct Reading {
    machine: Option<CpuTime>,
    own_ns: u64,
    at: Instant,
}

impl Reading {
    fn now(own: Own) -> Self {
        Reading { machine: CpuTime::now().ok(), own_ns: own.cpu_ns(), at: Instant::now() }
    }

    /// What others took from here to `end`. Idle time is the kernel's own account and not sampled; the rest of the time less
    /// this process's own and what was stolen is the others'.
    #[expect(clippy::cast_precision_loss, reason = "ticks and nanoseconds of a trial")]
    fn until(&self, end: &Reading) -> PhaseDisturbance {
        let elapsed = end.at - self.at;
        // Some kernels have the file and count nothing (gVisor's).
        let counts =
            |(before, after): &(CpuTime, CpuTime)| after.cpus > 0 && (after.all > before.all || elapsed < FINE);
        let Some((before, after)) = self.machine.zip(end.machine).filter(counts) else {
            return PhaseDisturbance::default();
        };
        let all_s = (after.cpus as f64 * elapsed.as_secs_f64()).max(1e-9);
        let idle = (after.all - after.busy).saturating_sub(before.all - before.busy) as f64 * TICK_S / all_s;
        let stolen = after.stolen.saturating_sub(before.stolen) as f64 * TICK_S / all_s;
        let own = end.own_ns.saturating_sub(self.own_ns) as f64 / 1e9 / all_s;
        PhaseDisturbance {
            queued: None,
            others: Some((1.0 - idle - stolen - own).clamp(0.0, 1.0)),
            stolen: Some(stolen.clamp(0.0, 1.0)),
            resolution: TICK_S / all_s,
        }
    }
}

/// Reads the CPUs' time while phases run.
pub(crate) struct Meter {
    own: Own,
    fine: bool,
    first: Reading,
    last: Reading,
    phases: Vec<PhaseDisturbance>,
}

impl Meter {
    /// Before the first of phases that last about `phase`.
    pub(crate) fn begin(own: Own, phase: Duration) -> Self {
        let first = Reading::now(own);
        Meter { own, fine: phase >= FINE, first, last: first, phases: Vec::new() }
    }

    /// The next phase begins only now: what came before belongs to none.
    pub(crate) fn phase_begins(&mut self) {
        self.last = Reading::now(self.own);
        if self.phases.is_empty() {
            self.first = self.last;
        }
    }

    /// The phase at `position` of the schedule is over.
    pub(crate) fn phase_done(&mut self, position: usize) {
        if self.fine || (position + 1).is_multiple_of(QUAD) {
            self.lap(position + 1);
        }
    }

    /// Phases up to `until` are over.
    fn lap(&mut self, until: usize) {
        let now = Reading::now(self.own);
        self.phases.resize(until, self.last.until(&now));
        self.last = now;
    }

    /// What others took over the phases in `series`, of so many `arms`.
    pub(crate) fn end(mut self, series: &[Series], arms: usize, rate: TickRate) -> Disturbance {
        if self.phases.len() < series.len() {
            self.lap(series.len());
        }
        let of = |arm: usize| series.iter().filter(move |phase| phase.arm == arm);
        let rests = |arm: usize| of(arm).flat_map(|phase| &phase.runs).map(|run| run.audit.rests).sum();
        let whole = self.first.until(&self.last);
        for (found, phase) in self.phases.iter_mut().zip(series) {
            found.queued = queued_share(std::iter::once(phase), rate);
        }
        Disturbance {
            queued: (0..arms).map(|arm| queued_share(of(arm), rate)).collect(),
            rests: (0..arms).map(rests).collect(),
            others: whole.others,
            stolen: whole.stolen,
            phases: self.phases,
        }
    }
}

/// The share of the ranks' time in which they waited for their CPUs; `None` where that was not counted or there is no time.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a trial")]
fn queued_share<'s>(phases: impl Iterator<Item = &'s Series>, rate: TickRate) -> Option<f64> {
    let (mut queued, mut seconds) = (0, 0.0);
    for run in phases.flat_map(|phase| &phase.runs) {
        queued += run.audit.queued_ns?;
        seconds += run.times.iter().map(|time| rate.own(time)).sum::<f64>();
    }
    (seconds > 0.0).then(|| queued as f64 / 1e9 / seconds)
}

/// The quads that do not count: those in which ranks waited for their CPUs for more than [`TOO_LONG`] of their time, or others used more than
/// [`TOO_MUCH`] of all CPUs, over all four phases of both arms together, so that neither arm is looked at. Where that is more
/// than half of the trial's quads all of them count: what is left would be a choice among disturbed ones.
pub(crate) fn discarded(series: &[Series], found: &Disturbance, rate: TickRate) -> Vec<DiscardedQuad> {
    let all = series.len() / QUAD;
    let judge = |quad: usize| {
        let phases = &series[QUAD * quad..QUAD * (quad + 1)];
        let waited = queued_share(phases.iter(), rate).filter(|share| *share > TOO_LONG);
        let waited =
            waited.map(|share| format!("its ranks waited for their CPUs for {:.1} % of their time", 100.0 * share));
        let used = found.phases.get(QUAD * quad..QUAD * (quad + 1)).and_then(others_share);
        let used = used.map(|share| format!("other programs used {:.0} % of the CPUs", 100.0 * share));
        Some(DiscardedQuad { quad, why: waited.or(used)? })
    };
    let discarded: Vec<DiscardedQuad> = (0..all).filter_map(judge).collect();
    if 2 * discarded.len() > all { Vec::new() } else { discarded }
}

/// The share of all CPUs that others used over the phases of a quad, where it is certainly more than [`TOO_MUCH`].
fn others_share(phases: &[PhaseDisturbance]) -> Option<f64> {
    let shares: Option<Vec<f64>> = phases.iter().map(|phase| phase.others).collect();
    let share = 0.25 * shares?.iter().sum::<f64>();
    // The smallest of the readings' resolutions, which is that of the quad or coarser.
    let resolution = phases.iter().map(|phase| phase.resolution).fold(f64::INFINITY, f64::min);
    (share - resolution > TOO_MUCH).then_some(share)
}

/// What a reader should know.
pub(crate) fn flags(found: &Disturbance, discarded: &[DiscardedQuad]) -> Vec<String> {
    let queued = found.queued.iter().flatten().any(|share| *share > TOLD_QUEUED);
    let others = found.others.is_some_and(|share| share > TOLD_OTHERS);
    let mut flags = Vec::new();
    if queued {
        flags.push("ranks waited for CPUs that others had, for more than 1 % of the time of their phases".to_owned());
    }
    if others {
        flags.push("other programs used more than 10 % of the CPUs during the phases".to_owned());
    }
    if !discarded.is_empty() {
        let text = "some quads of phases were discarded: others used more than 10 % of the CPUs, or ranks waited for more than 2 %";
        flags.push(text.to_owned());
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::seam::{Audit, RankTime};
    use baremark_model::wire::BodyRun;

    const RATE: TickRate = TickRate(1e9);

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

    /// How long the phases below are at least.
    const LEAST: Duration = Duration::from_millis(200);

    /// Another program that computes.
    struct Hog(std::process::Child);

    impl Hog {
        fn start() -> Hog {
            let mut shell = std::process::Command::new("sh");
            Hog(shell.args(["-c", "while :; do :; done"]).spawn().expect("a shell starts"))
        }

        fn cpu_s(&self) -> f64 {
            Duration::from_nanos(process_tree::usage(self.0.id()).expect("/proc").cpu_ns).as_secs_f64()
        }

        /// Waits until it has used as much CPU time in all, which takes longer where others compute as well.
        fn uses(&self, least_s: f64) -> f64 {
            let deadline = Instant::now() + Duration::from_secs(60);
            while self.cpu_s() < least_s {
                assert!(Instant::now() < deadline, "a program that computes has had {} s", self.cpu_s());
                std::thread::sleep(Duration::from_millis(5));
            }
            self.cpu_s()
        }
    }

    impl Drop for Hog {
        fn drop(&mut self) {
            drop(self.0.kill().and_then(|()| self.0.wait()));
        }
    }

    fn cpus() -> f64 {
        f64::from(u32::try_from(CpuTime::now().expect("/proc/stat").cpus).expect("a number of CPUs"))
    }

    /// CPU time of a program that shows among all CPUs, whatever ticks make of it.
    fn enough_s() -> f64 {
        0.2 * cpus().max(2.0)
    }

    /// The most that ticks can make of nothing: one for idle and one for stolen time of each CPU, at both ends.
    fn ticks_s() -> f64 {
        4.0 * TICK_S * cpus()
    }

    /// Real phases: by phase, the one has what another program uses and the other has not. What else runs on the machine comes
    /// and goes: a phase has at least what this program is known to have used, and at most what the CPUs were not idle.
    #[test]
    fn what_another_program_uses_is_known_by_phase() {
        let begun = Instant::now();
        let mut meter = Meter::begin(Own::Process, LEAST);
        let before = CpuTime::now().expect("/proc/stat");
        std::thread::sleep(LEAST);
        let after = CpuTime::now().expect("/proc/stat");
        let next_begun = Instant::now();
        meter.phase_done(0);
        let all_s = cpus() * begun.elapsed().as_secs_f64();
        let idle = (after.all - after.busy).saturating_sub(before.all - before.busy);
        let idle_s = f64::from(u32::try_from(idle).expect("ticks of a phase")) * TICK_S;
        let quiet = meter.phases[0].others.expect("/proc/stat");
        let most = 1.0 - (idle_s - ticks_s()) / all_s;
        assert!(quiet <= most, "{quiet} of the CPUs, which were not idle for {most}");

        let hog = Hog::start();
        let used_s = hog.uses(enough_s());
        meter.phase_done(1);
        let all_s = cpus() * next_begun.elapsed().as_secs_f64();
        drop(hog);
        // Some kernels count what was stolen while a program had a CPU as the program's.
        let busy = meter.phases[1].others.expect("/proc/stat") + meter.phases[1].stolen.expect("/proc/stat");
        let least = (used_s - ticks_s()) / all_s;
        assert!(least > 0.0 && busy >= least, "{busy} of the CPUs, of which a program had {least} at least");
    }

    /// A descendant that computes is no other program to work that is done by descendants, while it runs as after its end: in
    /// the same phases there is that much less for others.
    #[test]
    fn what_a_descendant_uses_is_not_the_others() {
        let mut meters = [Own::Process, Own::Descendants].map(|own| Meter::begin(own, LEAST));
        let mut begun = Instant::now();
        let hog = Hog::start();
        let mut phase_done = |position: usize, used_s: f64| {
            let next_begun = Instant::now();
            meters.iter_mut().for_each(|meter| meter.phase_done(position));
            let all_s = cpus() * begun.elapsed().as_secs_f64();
            begun = next_begun;
            let [all, rest] = meters.each_ref().map(|meter| meter.phases[position].others.expect("/proc/stat"));
            // The two are not read at quite the same moments: half must be seen.
            let half = (used_s - ticks_s()) / all_s / 2.0;
            assert!(half > 0.0 && all - rest >= half, "{all} of the CPUs, {rest} without what had twice {half}");
        };
        let first_s = hog.uses(enough_s());
        phase_done(0, first_s);
        let second_s = hog.uses(first_s + enough_s()) - first_s;
        drop(hog);
        phase_done(1, second_s);
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

    #[test]
    fn what_was_not_counted_is_not_nothing() {
        let mut series = quads(&[[900, 0, 0, 0], [0; 4], [0; 4]]);
        series[0].runs[0].audit.queued_ns = None;
        assert!(discarded(&series, &unknown(&series), RATE).is_empty());
        let found = Meter::begin(Own::Process, Duration::from_millis(5)).end(&series, 2, RATE);
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
