//! From readings to what a trial records: totals over all of it and per arm, points over time, what was absent, what it cost.
//!
//! A counter's growth is summed from reading to reading, so that one that wraps, goes back or disappears spoils one step
//! and not the whole. Between phases only observers of a low price are read; the others at the ends and for points. Where
//! phases are so short that readings between all of them would take more than [`MOST_SHARE`] of the time, those of some quads
//! alone are observed: of whole quads, in which each arm has its share.

use crate::points::Points;
use crate::tracks::{Change, Span, Tracked};
use crate::{LIST, Root, Row, observer};
use baremark_model::disturbed::QUAD;
use baremark_model::observation::{ArmValues, Cost, Observation, Values};
use baremark_model::observer::{Absence, ObserveSpec, Price, Readings};
use baremark_sys::clock;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The most that readings between phases may take of the time.
const MOST_SHARE: f64 = 0.02;
/// Events that are told one by one; the rest is counted.
const MOST_NOTES: usize = 20;

/// What happened between two laps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lap {
    /// How long it lasted.
    pub seconds: f64,
    /// What the observers read that were read: single CPUs and devices included.
    pub values: Values,
}

/// The quad that goes on, and how many there are until the next that is observed.
#[derive(Clone, Copy, Debug, Default)]
struct Quad {
    /// Phases of it that are over.
    phases: usize,
    /// How long those lasted without the readings around them, and what these took of a CPU.
    lasted: Duration,
    reading: Duration,
    /// Quads that are left out before the next that is observed.
    left_out: u32,
    /// Whether there was none before it.
    is_first: bool,
}

/// Quads to leave out after one whose phases lasted so long and whose readings took `reading`, for readings to be [`MOST_SHARE`] of the time.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded, and not negative")]
fn left_out(lasted: Duration, reading: Duration) -> u32 {
    const MOST: f64 = 1000.0;
    let allowed = MOST_SHARE * lasted.as_secs_f64();
    (reading.as_secs_f64() / allowed.max(1e-9) - 1.0).ceil().clamp(0.0, MOST) as u32
}

/// Observers at work.
pub struct Recorder {
    tracked: Vec<Tracked>,
    absent: Vec<Absence>,
    changes: BTreeSet<Change>,
    interval: Duration,
    per_cpu: bool,
    began: Instant,
    window_from: Option<Instant>,
    quad: Quad,
    arms: Vec<(f64, u32)>,
    last_point: Instant,
    points: Points,
    cost: Cost,
}

impl Recorder {
    /// Starts the observers that are requested and reads them for the first time.
    #[must_use]
    pub fn start(spec: &ObserveSpec, root: &Root) -> Self {
        Recorder::start_of(LIST, spec, root)
    }

    /// The same with the observers of another list.
    #[must_use]
    pub fn start_of(list: &[Row], spec: &ObserveSpec, root: &Root) -> Self {
        let now = Instant::now();
        let mut recorder = Recorder {
            tracked: Vec::new(),
            absent: Vec::new(),
            changes: BTreeSet::new(),
            interval: Duration::from_nanos(spec.interval.0).max(Duration::from_millis(1)),
            per_cpu: spec.per_cpu,
            began: now,
            window_from: None,
            quad: Quad::default(),
            arms: Vec::new(),
            last_point: now,
            points: Points::default(),
            cost: Cost::default(),
        };
        let cpu_before = clock::thread_cpu_ns();
        for name in &spec.which {
            let started = observer(list, name, root).and_then(|mut observer| observer.start().map(|()| observer));
            match started {
                Ok(observer) => {
                    recorder.absent.extend(observer.lacks());
                    recorder.tracked.push(Tracked::new(observer));
                }
                Err(absence) => recorder.absent.push(absence),
            }
        }
        recorder.cost.cpu_ns += clock::thread_cpu_ns().saturating_sub(cpu_before);
        recorder.read(|_| true);
        recorder.tracked.iter_mut().for_each(Tracked::begin_point);
        recorder
    }

    /// Reads the observers that `wanted` picks. One that can be read no more is absent from here on; what it gave stays.
    fn read(&mut self, mut wanted: impl FnMut(&mut Tracked) -> bool) {
        for tracked in &mut self.tracked {
            if !tracked.is_alive() || !wanted(tracked) {
                continue;
            }
            let before = clock::thread_cpu_ns();
            let mut readings = Readings::default();
            let outcome = tracked.observer().read(&mut readings);
            self.changes.extend(tracked.take(readings, Instant::now()));
            let spent = clock::thread_cpu_ns().saturating_sub(before);
            tracked.rest_after(Duration::from_nanos(spent), self.interval);
            self.cost.readings += 1;
            self.cost.cpu_ns += spent;
            if let Err(absence) = outcome {
                tracked.end();
                if !self.absent.contains(&absence) {
                    self.absent.push(absence);
                }
            }
        }
    }

    /// Says that phases begin: what happened before is not an arm's.
    pub fn begin_phases(&mut self) {
        self.quad = Quad { is_first: true, ..Quad::default() };
        self.begin_window();
    }

    fn begin_window(&mut self) {
        self.read(|tracked| tracked.price() == Price::Low);
        self.tracked.iter_mut().for_each(Tracked::begin_window);
        self.window_from = Some(Instant::now());
    }

    /// Says that so many `phases` of `arm` are over, and the next one begins.
    pub fn phase_done(&mut self, arm: usize, phases: u32) {
        self.quad.phases += phases as usize;
        let quad_ends = self.quad.phases >= QUAD;
        if let Some(from) = self.window_from {
            self.end_window(arm, phases, from);
        } else {
            self.point();
        }
        if quad_ends {
            self.next_quad();
        }
    }

    /// What happened since `from` was in phases of `arm`.
    fn end_window(&mut self, arm: usize, phases: u32, from: Instant) {
        let (ended, spent_ns) = (Instant::now(), self.cost.cpu_ns);
        let due = self.point_due() <= ended;
        self.read(|tracked| tracked.price() == Price::Low || (due && tracked.is_due()));
        let now = Instant::now();
        self.quad.lasted += ended - from;
        self.quad.reading += Duration::from_nanos(self.cost.cpu_ns - spent_ns);
        if self.arms.len() <= arm {
            self.arms.resize(arm + 1, (0.0, 0));
        }
        self.arms[arm].0 += (now - from).as_secs_f64();
        self.arms[arm].1 += phases;
        self.tracked.iter_mut().for_each(|tracked| tracked.end_window(arm));
        self.window_from = Some(now);
        if due {
            self.add_point();
        }
    }

    /// A quad is over: whether the next is observed. The first of a trial is; those after it are in the middle of what each stands for, so that not
    /// all are the coldest of their trials.
    fn next_quad(&mut self) {
        let left_out = match self.window_from {
            Some(_) if self.quad.is_first => left_out(self.quad.lasted, self.quad.reading).div_ceil(2),
            Some(_) => left_out(self.quad.lasted, self.quad.reading),
            None => self.quad.left_out.saturating_sub(1),
        };
        self.quad = Quad { left_out, ..Quad::default() };
        if left_out > 0 {
            self.window_from = None;
        } else if self.window_from.is_none() {
            self.begin_window();
        }
    }

    /// When the next point is due.
    #[must_use]
    pub fn point_due(&self) -> Instant {
        self.last_point + self.interval * self.points.stretch()
    }

    /// Reads and adds a point, where one is due.
    pub fn point(&mut self) {
        if self.point_due() <= Instant::now() {
            self.read(Tracked::is_due);
            self.add_point();
        }
    }

    fn add_point(&mut self) {
        let rates = self.rates_of_point(self.per_cpu);
        self.last_point = Instant::now();
        self.points.add((self.last_point - self.began).as_secs_f64(), &rates);
    }

    /// What was read since the last point, per second; begins the next.
    fn rates_of_point(&mut self, per_cpu: bool) -> Values {
        let mut rates = Values::new();
        for tracked in &mut self.tracked {
            if let Some(seconds) = tracked.point_seconds() {
                tracked.values(Span::Point, 1.0 / seconds, per_cpu, &mut rates);
            }
            tracked.begin_point();
        }
        rates
    }

    /// Reads everything and reports what happened since the last lap, every CPU's share included: for live views.
    pub fn lap(&mut self) -> Lap {
        self.read(|_| true);
        let seconds = self.last_point.elapsed().as_secs_f64();
        self.last_point = Instant::now();
        let mut values = self.rates_of_point(true);
        for (key, value) in &mut values {
            let quantity = baremark_model::quantity::find(baremark_model::quantity::split(key).0);
            if quantity.is_some_and(|row| row.growth != baremark_model::quantity::Growth::Level) {
                *value *= seconds;
            }
        }
        Lap { seconds, values }
    }

    /// What could not be observed so far.
    #[must_use]
    pub fn absent(&self) -> &[Absence] {
        &self.absent
    }

    /// What observing has cost so far.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Reads everything for the last time, and tells.
    #[must_use]
    pub fn finish(mut self) -> Observation {
        let rest = self.last_point.elapsed();
        self.read(|_| true);
        let seconds = self.began.elapsed().as_secs_f64();
        // The rest after the last point, unless it was too short to have a rate when it was read.
        if self.points.len() > 0 && rest * 2 > self.interval {
            self.add_point();
        }
        let mut whole = Values::new();
        for tracked in &mut self.tracked {
            tracked.values(Span::Whole, 1.0, true, &mut whole);
            tracked.end();
        }
        let arm = |(arm, &(seconds, phases)): (usize, &(f64, u32))| {
            let mut values = Values::new();
            for tracked in self.tracked.iter().filter(|tracked| tracked.price() == Price::Low) {
                tracked.values(Span::Arm(arm), 1.0, false, &mut values);
            }
            ArmValues { arm, seconds, phases, values }
        };
        let arms = self.arms.iter().enumerate().filter(|(_, (_, phases))| *phases > 0).map(arm).collect();
        Observation {
            seconds,
            whole,
            arms,
            series: self.points.series(self.interval),
            absent: self.absent,
            notes: notes(&self.changes),
            cost: self.cost,
            ..Observation::default()
        }
    }
}

/// What happened to instances, in words.
fn notes(changes: &BTreeSet<Change>) -> Vec<String> {
    let words = |change: &Change| match change {
        Change::Came(name) => format!("{name} appeared during observation; its earlier activity is not counted"),
        Change::Went(name) => format!("{name} disappeared during observation; its activity until then is counted"),
        Change::WentBack(key) => format!("{key}: a counter went back; that step is not counted"),
    };
    let mut notes: Vec<String> = changes.iter().take(MOST_NOTES).map(words).collect();
    if changes.len() > MOST_NOTES {
        notes.push(format!("{} more such events", changes.len() - MOST_NOTES));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quads_are_left_out_until_readings_are_a_fiftieth_of_the_time() {
        let of = |lasted_us, reading_us| left_out(Duration::from_micros(lasted_us), Duration::from_micros(reading_us));
        assert_eq!(of(400_000, 2_800), 0, "phases of 100 ms");
        assert_eq!(of(400_000, 8_000), 0, "just a fiftieth");
        assert_eq!(of(24_000, 2_880), 5, "phases of 6 ms: one quad of six");
        assert_eq!((of(0, 0), of(0, 1), of(1, 1_000_000)), (0, 999, 1000), "never more than a thousand");
    }
}
