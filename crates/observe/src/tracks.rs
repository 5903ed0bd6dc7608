//! What became of every value of one observer: growth since the beginning, since the last point and in each arm.

use baremark_model::observation::Values;
use baremark_model::observer::{Observer, Price, Reading, Readings};
use baremark_model::quantity::{Growth, Quantity, join};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Growth of a counter, or levels to be averaged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    total: f64,
    readings: u32,
}

impl Sum {
    fn add(&mut self, value: f64) {
        self.total += value;
        self.readings += 1;
    }

    fn join(&mut self, other: Sum) {
        self.total += other.total;
        self.readings += other.readings;
    }

    fn value(self, growth: Growth) -> f64 {
        match growth {
            Growth::Level => self.total / f64::from(self.readings.max(1)),
            Growth::Counter | Growth::Counter32 => self.total,
        }
    }
}

/// A span over which values are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// Since observing began.
    Whole,
    /// Since the last point of the series.
    Point,
    /// In the phases of this arm.
    Arm(usize),
}

/// One value of one observer.
#[derive(Debug)]
struct Track {
    quantity: &'static Quantity,
    instance: String,
    part: bool,
    last: u64,
    seen: u64,
    whole: Sum,
    point: Sum,
    window: Sum,
    arms: Vec<Sum>,
}

impl Track {
    fn new(reading: Reading, round: u64) -> Self {
        let Reading { quantity, instance, count, part } = reading;
        let none = Sum::default();
        let (whole, point, window) = (none, none, none);
        let mut track =
            Track { quantity, instance, part, last: count, seen: round, whole, point, window, arms: Vec::new() };
        if quantity.growth == Growth::Level {
            track.add(count);
        }
        track
    }

    /// Takes a reading; whether the counter went back.
    fn take(&mut self, count: u64, round: u64) -> bool {
        let grown = match self.quantity.growth {
            Growth::Level => Some(count),
            Growth::Counter | Growth::Counter32 => self.quantity.grown(self.last, count),
        };
        // Idle time may go back by a tick or two, which is not an event.
        let back = grown.is_none() && self.last - count > 2;
        (self.last, self.seen) = (count, round);
        self.add(grown.unwrap_or(0));
        back
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of a trial stay far below 2^53")]
    fn add(&mut self, count: u64) {
        for sum in [&mut self.whole, &mut self.point, &mut self.window] {
            sum.add(count as f64);
        }
    }

    fn sum(&self, span: Span) -> Sum {
        match span {
            Span::Whole => self.whole,
            Span::Point => self.point,
            Span::Arm(arm) => self.arms.get(arm).copied().unwrap_or_default(),
        }
    }
}

/// What happened to an instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    Came(String),
    Went(String),
    WentBack(String),
}

/// `disk vda`, `net eth0`, `cpu 3`: what precedes the quantity's dot, and the instance.
fn named(quantity: &Quantity, instance: &str) -> String {
    let kind = quantity.key.split_once('.').map_or(quantity.key, |(kind, _)| kind);
    if instance.is_empty() { quantity.key.to_owned() } else { format!("{kind} {instance}") }
}

/// One observer with everything that it has read.
pub(crate) struct Tracked {
    observer: Box<dyn Observer>,
    tracks: HashMap<(&'static str, String), Track>,
    rounds: u64,
    alive: bool,
    point_from: Option<Instant>,
    last_at: Option<Instant>,
    /// Points for which it is left out, because the last reading was dear.
    rest: u32,
}

impl Tracked {
    pub(crate) fn new(observer: Box<dyn Observer>) -> Self {
        Tracked { observer, tracks: HashMap::new(), rounds: 0, alive: true, point_from: None, last_at: None, rest: 0 }
    }

    pub(crate) fn observer(&mut self) -> &mut dyn Observer {
        &mut *self.observer
    }

    pub(crate) fn price(&self) -> Price {
        self.observer.price()
    }

    /// Stops it for good; what it gave stays.
    pub(crate) fn end(&mut self) {
        self.alive = false;
        self.observer.stop();
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive
    }

    /// Whether its turn has come at this point.
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        due
    }

    /// Leaves it out for so many points that readings as dear as this one stay below a thousandth of the time.
    pub(crate) fn rest_after(&mut self, cost: Duration, interval: Duration) {
        const MOST: u128 = 600;
        let allowed = (interval / 1000).as_nanos().max(1);
        self.rest = u32::try_from((cost.as_nanos() / allowed).min(MOST)).unwrap_or(0);
    }

    /// Takes what was read at `now`, and says what happened to instances since the last reading.
    pub(crate) fn take(&mut self, readings: Readings, now: Instant) -> Vec<Change> {
        self.rounds += 1;
        let round = self.rounds;
        let mut changes = Vec::new();
        for reading in readings.values {
            let key = (reading.quantity.key, reading.instance.clone());
            match self.tracks.get_mut(&key) {
                Some(track) => {
                    if track.take(reading.count, round) {
                        changes.push(Change::WentBack(named(reading.quantity, &reading.instance)));
                    }
                }
                None => {
                    if round > 1 && !reading.instance.is_empty() {
                        changes.push(Change::Came(named(reading.quantity, &reading.instance)));
                    }
                    self.tracks.insert(key, Track::new(reading, round));
                }
            }
        }
        for track in self.tracks.values().filter(|track| track.seen + 1 == round && !track.instance.is_empty()) {
            changes.push(Change::Went(named(track.quantity, &track.instance)));
        }
        changes.sort();
        changes.dedup();
        self.last_at = Some(now);
        self.point_from.get_or_insert(now);
        changes
    }

    /// Begins a window: what grows from here on is of the phase that begins.
    pub(crate) fn begin_window(&mut self) {
        self.tracks.values_mut().for_each(|track| track.window = Sum::default());
    }

    /// Gives the window to an arm and begins the next.
    pub(crate) fn end_window(&mut self, arm: usize) {
        for track in self.tracks.values_mut() {
            if track.arms.len() <= arm {
                track.arms.resize(arm + 1, Sum::default());
            }
            let window = std::mem::take(&mut track.window);
            track.arms[arm].join(window);
        }
    }

    /// The seconds over which the point's sums have grown, if it was read since the last point.
    pub(crate) fn point_seconds(&self) -> Option<f64> {
        let seconds = (self.last_at? - self.point_from?).as_secs_f64();
        (seconds > 0.0).then_some(seconds)
    }

    /// Begins the next point where the last reading was.
    pub(crate) fn begin_point(&mut self) {
        self.point_from = self.last_at;
        self.tracks.values_mut().for_each(|track| track.point = Sum::default());
    }

    /// Adds the span's values, counters times `factor`. Instances in which nothing happened are left out; those of single
    /// CPUs unless they are requested.
    pub(crate) fn values(&self, span: Span, factor: f64, per_cpu: bool, into: &mut Values) {
        for track in self.tracks.values() {
            let sum = track.sum(span);
            if sum.readings == 0 {
                continue;
            }
            let factor = if track.quantity.growth == Growth::Level { 1.0 } else { factor };
            let value = sum.value(track.quantity.growth) * track.quantity.scale * factor;
            if track.part {
                *into.entry(track.quantity.key.to_owned()).or_insert(0.0) += value;
            }
            let shown = track.instance.is_empty() || (value != 0.0 && (per_cpu || !track.quantity.per_cpu));
            if shown {
                into.insert(join(track.quantity.key, &track.instance), value);
            }
        }
    }
}
