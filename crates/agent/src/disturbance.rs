//! What others took of the CPUs while phases ran, and which quads of phases do not count for it.
//!
//! Measured inside the phases and nowhere else: the kernel's account of how long each rank was ready to run while somebody
//! else had its CPU, read by the rank's own thread on both sides of the measured region, to the nanosecond; and over all
//! phases the machine's processor time less this process's own. The latter comes in ticks of 10 ms for each CPU, too coarse
//! for one phase.

use baremark_model::seam::TickRate;
use baremark_model::wire::{DiscardedQuad, Disturbance, Series};
use baremark_sys::clock;
use baremark_sys::cpu_time::CpuTime;
use std::time::Instant;

/// Phases of a quad.
const QUAD: usize = 4;
/// A quad in which ranks waited for this share of their time does not count. One time slice of another program takes a
/// sixth of a quad of two ranks and phases of 5 ms; interrupts and the kernel's own threads take a thousandth.
const TOO_LONG: f64 = 0.02;
/// From here on a reader should know of it.
const TOLD_QUEUED: f64 = 0.01;
const TOLD_OTHERS: f64 = 0.10;

/// The state of the CPUs before the first phase.
pub(crate) struct Before {
    machine: Option<CpuTime>,
    own_ns: u64,
    at: Instant,
}

impl Before {
    pub(crate) fn now() -> Self {
        Before { machine: CpuTime::now().ok(), own_ns: clock::process_cpu_ns(), at: Instant::now() }
    }

    /// What others took since, over the phases in `series`, of so many `arms`.
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a trial")]
    pub(crate) fn since(&self, series: &[Series], arms: usize, rate: TickRate) -> Disturbance {
        let of = |arm: usize| series.iter().filter(move |phase| phase.arm == arm);
        let rests = |arm: usize| of(arm).flat_map(|phase| &phase.runs).map(|run| run.audit.rests).sum();
        let machine = self.machine.zip(CpuTime::now().ok());
        let own_s = clock::process_cpu_ns().saturating_sub(self.own_ns) as f64 / 1e9;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let own = own_s / (cpus * self.at.elapsed().as_secs_f64()).max(1e-9);
        let busy = machine.and_then(|(before, after)| after.share_since(&before));
        let stolen = machine.and_then(|(before, after)| after.stolen_since(&before));
        Disturbance {
            queued: (0..arms).map(|arm| queued_share(of(arm), rate)).collect(),
            rests: (0..arms).map(rests).collect(),
            // Stolen time is busy, and may be in the own time too.
            others: busy.map(|busy| (busy - stolen.unwrap_or(0.0) - own).clamp(0.0, 1.0)),
            stolen,
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

/// The quads that do not count: those in which ranks waited for their CPUs for more than [`TOO_LONG`] of their time, over all
/// four phases of both arms together, so that neither arm is looked at. Where that is more than half of the trial's quads all
/// of them count: what is left would be a choice among disturbed ones.
pub(crate) fn discarded(series: &[Series], rate: TickRate) -> Vec<DiscardedQuad> {
    let quads = series.chunks_exact(QUAD);
    let all = quads.len();
    let judge = |(quad, phases): (usize, &[Series])| {
        let share = queued_share(phases.iter(), rate).filter(|share| *share > TOO_LONG)?;
        let why = format!("its ranks waited for their CPUs for {:.1} % of their time", 100.0 * share);
        Some(DiscardedQuad { quad, why })
    };
    let discarded: Vec<DiscardedQuad> = quads.enumerate().filter_map(judge).collect();
    if 2 * discarded.len() > all { Vec::new() } else { discarded }
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
        let text = "some quads of phases were discarded: their ranks waited for CPUs for more than 2 % of their time";
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
            let discarded = discarded(series, RATE);
            assert_eq!(discarded.len(), 1, "{discarded:?}");
            assert_eq!(
                (discarded[0].quad, &*discarded[0].why),
                (0, "its ranks waited for their CPUs for 2.2 % of their time")
            );
        }
        assert!(discarded(&quads(&[[700, 0, 0, 0], [0; 4], [0; 4]]), RATE).is_empty());
    }

    #[test]
    fn where_most_quads_were_disturbed_all_count() {
        let bad = [3000, 0, 0, 0];
        assert_eq!(discarded(&quads(&[bad, [0; 4]]), RATE).len(), 1);
        assert!(discarded(&quads(&[bad, bad, [0; 4]]), RATE).is_empty());
    }

    #[test]
    fn what_was_not_counted_is_not_nothing() {
        let mut series = quads(&[[900, 0, 0, 0], [0; 4], [0; 4]]);
        series[0].runs[0].audit.queued_ns = None;
        assert!(discarded(&series, RATE).is_empty());
        let found = Before::now().since(&series, 2, RATE);
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
