//! When requests of an open loop are meant to start, whatever the server does meanwhile.
//!
//! An arrival process is points of unit rate; the profile's [`Curve`] turns them into time. Each shard (a thread of a
//! site) walks the whole sequence and takes its own every n-th point, so that the load is the same however many share it.

use crate::profile::Curve;
use crate::rng::Rng;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How the gaps between intended starts are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Arrival {
    /// Equal gaps.
    Constant,
    /// Independent exponential gaps: many independent clients.
    Poisson,
    /// The gaps of a recording, brought to the profile's rate; it starts over at its end.
    Replayed {
        /// Points of unit rate, ascending from 0.
        #[serde(skip)]
        points: Arc<[f64]>,
    },
}

/// Why a recording was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingError {
    /// A line is not a time.
    #[error("recording, line {line}: '{text}' is not a time in seconds; write one number on each line")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is there.
        text: String,
    },
    /// Times go backward.
    #[error("recording, line {0}: the time goes backward; sort the lines")]
    Backward(usize),
    /// Too few.
    #[error("recording has {0} times over no span; at least 2 at different times are needed")]
    Few(usize),
}

impl Arrival {
    /// Reads a recording: on each line a time in seconds (`#` comments), ascending. Also returns its mean rate, per second,
    /// at which it plays as recorded.
    ///
    /// # Errors
    /// The first line that does not fit.
    pub fn from_recording(text: &str) -> Result<(Arrival, f64), RecordingError> {
        let mut times: Vec<f64> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let Some(time) = line.parse::<f64>().ok().filter(|time| time.is_finite()) else {
                return Err(RecordingError::Line { line: index + 1, text: line.chars().take(80).collect() });
            };
            if times.last().is_some_and(|before| time < *before) {
                return Err(RecordingError::Backward(index + 1));
            }
            times.push(time);
        }
        let span = times.last().zip(times.first()).map_or(0.0, |(last, first)| last - first);
        if times.len() < 2 || span <= 0.0 {
            return Err(RecordingError::Few(times.len()));
        }
        let rate = (times.len() - 1) as f64 / span;
        let points = times.iter().map(|time| (time - times[0]) * rate).collect();
        Ok((Arrival::Replayed { points }, rate))
    }
}

/// How unit-rate points become time.
enum Pace {
    Curve(Curve),
    /// So much had been asked by a moment, and this level holds since.
    Dial {
        since_s: f64,
        asked: f64,
        level: f64,
    },
}

impl Pace {
    fn time_of(&self, point: f64) -> Option<f64> {
        match self {
            Pace::Curve(curve) => curve.time_of(point),
            Pace::Dial { since_s, asked, level } => (*level > 0.0).then(|| since_s + (point - asked).max(0.0) / level),
        }
    }
}

/// The intended starts of one shard, ascending.
pub(crate) struct Starts {
    arrival: Arrival,
    pace: Pace,
    rng: Rng,
    /// Arrivals of all shards so far, and the unit-rate point of the last.
    index: u64,
    point: f64,
    shard: u64,
    shards: u64,
}

impl Starts {
    pub(crate) fn new(arrival: Arrival, curve: Curve, seed: u64, shard: (u64, u64)) -> Starts {
        Starts::at_pace(arrival, Pace::Curve(curve), seed, shard)
    }

    /// Starts whose level is 0 until it is changed.
    pub(crate) fn dialled(arrival: Arrival, seed: u64, shard: (u64, u64)) -> Starts {
        Starts::at_pace(arrival, Pace::Dial { since_s: 0.0, asked: 0.0, level: 0.0 }, seed, shard)
    }

    fn at_pace(arrival: Arrival, pace: Pace, seed: u64, (shard, shards): (u64, u64)) -> Starts {
        Starts { arrival, pace, rng: Rng::stream(seed, ARRIVALS), index: 0, point: 0.0, shard, shards }
    }

    /// Changes the level of a dialled pace from `at_s` on; returns when the start that was to come next now comes.
    pub(crate) fn change(&mut self, at_s: f64, to: f64) -> Option<u64> {
        if let Pace::Dial { since_s, asked, level } = &mut self.pace {
            *asked += (at_s - *since_s).max(0.0) * *level;
            (*since_s, *level) = (at_s, to);
        }
        self.time()
    }

    fn time(&self) -> Option<u64> {
        let seconds = self.pace.time_of(self.point)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
        Some((seconds * 1e9).round() as u64)
    }

    fn step(&mut self) {
        self.point = match &self.arrival {
            Arrival::Constant => self.index as f64,
            Arrival::Poisson => self.point + self.rng.exponential(),
            Arrival::Replayed { points } => {
                let each = (points.len() - 1) as u64;
                let (round, within) = (self.index / each, self.index % each);
                let within = usize::try_from(within).unwrap_or(0);
                round as f64 * points[points.len() - 1] + points[within]
            }
        };
        self.index += 1;
    }
}

impl Iterator for Starts {
    /// Nanoseconds from the start of the load.
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        loop {
            let mine = self.index % self.shards == self.shard;
            self.step();
            if mine {
                return self.time();
            }
        }
    }
}

/// The stream of the seed from which arrivals are drawn; users' streams are their numbers.
const ARRIVALS: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    fn starts(arrival: Arrival, rate: f64, shard: (u64, u64)) -> Starts {
        Starts::new(arrival, Profile::steady(rate).curve().expect("a curve"), 5, shard)
    }

    #[test]
    fn constant_starts_are_a_gap_apart() {
        let first: Vec<u64> = starts(Arrival::Constant, 1000.0, (0, 1)).take(4).collect();
        assert_eq!(first, [0, 1_000_000, 2_000_000, 3_000_000]);
    }

    #[test]
    fn poisson_gaps_have_the_rate_and_are_as_long_as_they_vary() {
        let times: Vec<u64> = starts(Arrival::Poisson, 500.0, (0, 1)).take(20_001).collect();
        let gaps: Vec<f64> = times.windows(2).map(|two| (two[1] - two[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean - 2.0).abs() < 0.06 && (deviation / mean - 1.0).abs() < 0.04, "{mean} {deviation}");
    }

    #[test]
    fn shards_together_are_the_whole() {
        for arrival in [Arrival::Constant, Arrival::Poisson] {
            let whole: Vec<u64> = starts(arrival.clone(), 100.0, (0, 1)).take(30).collect();
            let mut parts: Vec<u64> =
                (0..3).flat_map(|shard| starts(arrival.clone(), 100.0, (shard, 3)).take(10)).collect();
            parts.sort_unstable();
            assert_eq!(whole, parts);
        }
    }

    /// The level can be changed at any moment; what had been asked by then stays asked, to the fraction of a start.
    #[test]
    fn a_dialled_pace_follows_its_level() {
        let mut dialled = Starts::dialled(Arrival::Constant, 5, (0, 1));
        assert_eq!(dialled.next(), None, "nothing at level 0");
        let mut at = dialled.change(1.0, 10.0);
        let mut times = Vec::new();
        while let Some(ns) = at.filter(|ns| *ns < 1_450_000_000) {
            times.push(ns / 1_000_000);
            at = dialled.next();
        }
        assert_eq!(times, [1000, 1100, 1200, 1300, 1400]);
        // Half a start has been asked by 1.45 s; the other half takes 25 ms at twice the rate.
        assert_eq!(dialled.change(1.45, 20.0), Some(1_475_000_000));
        assert_eq!(dialled.next(), Some(1_525_000_000));
        assert_eq!(dialled.change(1.5, 0.0), None);
        assert_eq!(dialled.change(9.0, 20.0), Some(9_025_000_000));
    }

    #[test]
    fn a_recording_plays_as_recorded_and_starts_over() {
        let (arrival, rate) = Arrival::from_recording("10.0\n10.1\n10.4\n# end\n11.0\n").expect("a recording");
        let played: Vec<u64> = starts(arrival, rate, (0, 1)).take(5).map(|ns| ns / 1_000_000).collect();
        assert_eq!(played, [0, 100, 400, 1000, 1100]);
        assert_eq!(Arrival::from_recording("1\n0.5\n").expect_err("backward"), RecordingError::Backward(2));
        assert!(Arrival::from_recording("now\n").expect_err("no time").to_string().contains("line 1: 'now'"));
    }
}
