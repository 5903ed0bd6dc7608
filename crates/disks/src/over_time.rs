//! Latencies over the measured time: how many of each length there were in each second, in a bounded amount of memory.

use crate::io::ring::Action;
use baremark_model::timeline::{BINS, MOST_STRETCHES as MOST, bin, written};
use baremark_model::wire::Point;

const SECOND: u64 = 1_000_000_000;

/// Counts of one stretch by bin, of reads, writes and syncs.
type Counts = [[u32; BINS]; 3];

/// Latencies by the time at which the I/O ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverTime {
    /// A stretch is 2 to the power of this seconds long.
    shift: u32,
    /// At most [`MOST`], for which there is room from the beginning.
    stretches: Vec<Counts>,
}

impl Default for OverTime {
    fn default() -> OverTime {
        OverTime { shift: 0, stretches: Vec::with_capacity(MOST) }
    }
}

fn place(action: Action) -> usize {
    match action {
        Action::Read => 0,
        Action::Write => 1,
        Action::Sync => 2,
    }
}

fn add(all: &mut Counts, more: &Counts) {
    for (all, more) in all.iter_mut().flatten().zip(more.iter().flatten()) {
        *all = all.saturating_add(*more);
    }
}

impl OverTime {
    /// Counts an I/O that ended in that second of the measured time, from 0.
    pub(crate) fn record(&mut self, action: Action, second: u64, latency_ns: u64) {
        while second >> self.shift >= MOST as u64 {
            self.widen();
        }
        let at = usize::try_from(second >> self.shift).unwrap_or(MOST - 1);
        let count = &mut self.stretch(at)[place(action)][bin(latency_ns)];
        *count = count.saturating_add(1);
    }

    fn stretch(&mut self, at: usize) -> &mut Counts {
        if self.stretches.len() <= at {
            self.stretches.resize(at + 1, [[0; BINS]; 3]);
        }
        &mut self.stretches[at]
    }

    /// Makes each stretch twice as long, where it is: nothing is allocated while I/Os are measured.
    fn widen(&mut self) {
        for at in 0..self.stretches.len() {
            let counts = self.stretches[at];
            match at % 2 {
                0 => self.stretches[at / 2] = counts,
                _ => add(&mut self.stretches[at / 2], &counts),
            }
        }
        self.stretches.truncate(self.stretches.len().div_ceil(2));
        self.shift += 1;
    }

    /// Adds what another thread counted over the same time.
    pub(crate) fn merge(&mut self, other: &OverTime) {
        while self.shift < other.shift {
            self.widen();
        }
        for (at, counts) in other.stretches.iter().enumerate() {
            add(self.stretch(at >> (self.shift - other.shift)), counts);
        }
    }

    /// As parts of a phase, in which the measured time began after `begin_ns` and took `elapsed_ns`. What ended after it, as clocks are read, is in
    /// the last.
    pub(crate) fn points(&self, (begin_ns, elapsed_ns): (u64, u64)) -> Vec<Point> {
        let width_ns = SECOND << self.shift;
        // A last stretch that has hardly begun is part of the one before.
        let most = usize::try_from((elapsed_ns.saturating_sub(SECOND / 100) / width_ns) + 1).unwrap_or(MOST);
        let mut of = self.stretches.clone();
        for late in of.split_off(most.min(of.len())) {
            if let Some(last) = of.last_mut() {
                add(last, &late);
            }
        }
        let part = |(at, counts): (usize, &Counts)| {
            let from_ns = at as u64 * width_ns;
            let whole = from_ns + width_ns;
            let to_ns = if elapsed_ns < whole + SECOND / 100 { elapsed_ns.max(from_ns) } else { whole };
            let named = ["read", "write", "sync"].into_iter().zip(counts);
            let parts = named.filter_map(move |(name, counts)| {
                let bins = written(counts.iter().map(|count| u64::from(*count)));
                let part = Point::new(name, (begin_ns + from_ns, begin_ns + to_ns), Vec::new(), None);
                (!bins.is_empty()).then_some(Point { bins, ..part })
            });
            parts.collect::<Vec<_>>()
        };
        of.iter().enumerate().flat_map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times in s, the name and the bins of each part.
    fn parts(of: &OverTime, elapsed_ns: u64) -> Vec<(f64, f64, String, String)> {
        let seconds = |ns: u64| ns as f64 / SECOND as f64;
        let all = of.points((0, elapsed_ns)).into_iter();
        all.map(|point| (seconds(point.begin_ns), seconds(point.end_ns), point.name, point.bins)).collect()
    }

    #[test]
    fn each_second_has_its_latencies_by_kind_and_bin() {
        let mut of = OverTime::default();
        of.record(Action::Read, 0, 1000);
        of.record(Action::Read, 0, 1000);
        of.record(Action::Write, 1, 1_000_000);
        of.record(Action::Sync, 1, 5);
        let mut other = OverTime::default();
        other.record(Action::Read, 0, 1000);
        of.merge(&other);
        let expected = [
            (0.0, 1.0, "read".to_owned(), "19:3".to_owned()),
            (1.0, 1.5, "write".to_owned(), "39:1".to_owned()),
            (1.0, 1.5, "sync".to_owned(), "4:1".to_owned()),
        ];
        assert_eq!(parts(&of, 3 * SECOND / 2), expected);
    }

    #[test]
    fn a_last_second_that_has_hardly_begun_is_part_of_the_one_before() {
        let mut of = OverTime::default();
        of.record(Action::Read, 0, 1000);
        of.record(Action::Read, 1, 1000);
        assert_eq!(parts(&of, SECOND + 70_000), [(0.0, 1.000_07, "read".to_owned(), "19:2".to_owned())]);
        assert!(OverTime::default().points((0, SECOND)).is_empty());
    }

    #[test]
    fn long_work_has_longer_stretches_and_no_more_of_them() {
        let mut long = OverTime::default();
        let place = long.stretches.as_ptr();
        (0..300).for_each(|second| long.record(Action::Read, second, 1000));
        // 8 s each.
        assert_eq!((long.shift, long.stretches.len()), (3, 38));
        assert_eq!(long.stretches.as_ptr(), place, "nothing was allocated");
        let mut short = OverTime::default();
        (0..4).for_each(|second| short.record(Action::Read, second, 1000));
        short.merge(&long);
        assert_eq!((short.shift, short.stretches.len()), (3, 38));
        let first = parts(&short, 300 * SECOND).remove(0);
        assert_eq!(first, (0.0, 8.0, "read".to_owned(), "19:12".to_owned()));
    }
}
