//! Performance samples as a function of period, entity and counter, and what a roll-up of them must be.
//!
//! A row of a coarser resolution is the roll-up of the finer rows of its period as long as those are kept; an older one is a value of
//! its own, for what it was made of is gone. So every row can be computed again without the database.

use super::inventory::COUNTERS;
use baremark_stats::Rng;

/// A resolution in which samples are kept.
#[derive(Clone, Copy, Debug)]
pub struct Resolution {
    /// Its table.
    pub table: &'static str,
    /// The period of a row, in ms.
    pub period_ms: i64,
    /// Periods that are kept.
    pub kept: i64,
}

/// From the finest to the coarsest: a day, a week, a month and a year are kept.
pub const RESOLUTIONS: [Resolution; 4] = [
    Resolution { table: "samples_5min", period_ms: 300_000, kept: 288 },
    Resolution { table: "samples_30min", period_ms: 1_800_000, kept: 336 },
    Resolution { table: "samples_2h", period_ms: 7_200_000, kept: 360 },
    Resolution { table: "samples_1d", period_ms: 86_400_000, kept: 365 },
];

/// The moment at which the loaded history ends, in ms of 1970: the end of a period of every resolution.
pub const NOW_MS: i64 = 1_767_225_600_000;
/// Values are below this.
const VALUES: u64 = 10_000;
/// Samples of 20 s in a sample of 5 min.
const FINEST: i64 = 15;
/// Labels of the random streams of reports; those of resolutions are below.
const REPORTS: u64 = 8;

/// What a row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Measurements in it.
    pub samples: i64,
    /// Their sum.
    pub total: i64,
    /// The lowest mean of the parts.
    pub low: i64,
    /// The highest.
    pub high: i64,
}

/// The beginning of the first period that a resolution keeps.
#[must_use]
pub fn begin(level: usize) -> i64 {
    let Resolution { period_ms, kept, .. } = RESOLUTIONS[level];
    NOW_MS - period_ms * kept
}

/// Periods of a resolution whose finer rows are all kept.
#[must_use]
pub fn rollable(level: usize) -> i64 {
    (NOW_MS - begin(level - 1)) / RESOLUTIONS[level].period_ms
}

/// The beginning of such a period, from 0.
#[must_use]
pub fn bucket(level: usize, number: i64) -> i64 {
    begin(level - 1) + (number % rollable(level)) * RESOLUTIONS[level].period_ms
}

/// The finer rows of a period.
#[must_use]
pub fn parts(level: usize) -> i64 {
    RESOLUTIONS[level].period_ms / RESOLUTIONS[level - 1].period_ms
}

/// The row of a resolution that begins at `at`.
#[must_use]
pub fn sample(level: usize, at: i64, entity: i64, counter: i64) -> Sample {
    if level > 0 && at >= begin(level - 1) {
        let finer = RESOLUTIONS[level - 1].period_ms;
        return rolled((0..parts(level)).map(|part| sample(level - 1, at + part * finer, entity, counter)));
    }
    let period = at / RESOLUTIONS[level].period_ms;
    let measured = FINEST * RESOLUTIONS[level].period_ms / RESOLUTIONS[0].period_ms;
    let mean = value(level as u64, period, entity, counter);
    Sample { samples: measured, total: mean * measured, low: mean * 9 / 10, high: mean + mean / 10 }
}

/// What rows of a finer resolution give together.
pub fn rolled(parts: impl Iterator<Item = Sample>) -> Sample {
    let none = Sample { samples: 0, total: 0, low: i64::MAX, high: i64::MIN };
    parts.fold(none, |sum, part| Sample {
        samples: sum.samples + part.samples,
        total: sum.total + part.total,
        low: sum.low.min(part.low),
        high: sum.high.max(part.high),
    })
}

/// A measurement of the last minutes: what the feed or an insert of all entities brought.
#[must_use]
pub fn measurement(source: i64, turn: i64, entity: i64, counter: i64) -> i64 {
    value(REPORTS + source.unsigned_abs(), turn, entity, counter)
}

fn value(stream: u64, period: i64, entity: i64, counter: i64) -> i64 {
    let series = (entity * COUNTERS + counter).unsigned_abs();
    let mut rng = Rng::stream(stream << 32 | series, period.unsigned_abs());
    i64::try_from(rng.below(VALUES)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resolution_ends_now_and_has_whole_periods_of_the_finer_one() {
        for (level, resolution) in RESOLUTIONS.iter().enumerate().skip(1) {
            assert_eq!(NOW_MS % resolution.period_ms, 0);
            assert_eq!(begin(level - 1) % resolution.period_ms, 0, "{}", resolution.table);
        }
        assert_eq!([1, 2, 3].map(rollable), [48, 84, 30]);
        assert_eq!([1, 2, 3].map(parts), [6, 4, 12]);
    }

    #[test]
    fn a_day_is_the_mean_of_its_5_minutes() {
        let at = NOW_MS - RESOLUTIONS[3].period_ms;
        let finest = (0..288).map(|part| sample(0, at + part * 300_000, 7, 1));
        assert_eq!(sample(3, at, 7, 1), rolled(finest));
        assert_ne!(sample(3, at, 7, 1), sample(3, at, 7, 0));
        // The finer rows of an old day are gone, and it is still the same each time.
        assert_eq!(sample(3, begin(3), 7, 1), sample(3, begin(3), 7, 1));
    }
}
