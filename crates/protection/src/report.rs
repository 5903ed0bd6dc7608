//! What is counted while a program is protected, pause by pause.

use baremark_model::hdr;
use baremark_model::protection::{FORMAT, Report};
use baremark_model::units::Nanos;
use std::time::Duration;

/// Below this many values there is no 99th percentile: with fewer, the largest of all may lie below it with more than 2.5 %.
const FEWEST_FOR_P99: usize = 368;

/// Counters of a run.
#[derive(Debug, Default)]
pub struct Counters {
    /// What is summed up.
    pub report: Report,
    pauses: Vec<u64>,
}

impl Counters {
    /// Counts a pause.
    pub fn pause(&mut self, pause: Duration) {
        let pause = Nanos::from(pause).0;
        self.report.paused_ns += pause;
        self.report.pause_max_ns = self.report.pause_max_ns.max(pause);
        self.pauses.push(pause);
    }

    /// The report of a run that lasted so long; `epoch` is `None` without protection.
    #[must_use]
    pub fn finish(mut self, epoch: Option<Duration>, wall: Duration) -> Report {
        self.pauses.sort_unstable();
        let at = |numerator: usize| self.pauses.get((self.pauses.len() * numerator).div_ceil(100).max(1) - 1).copied();
        Report {
            format: FORMAT.0.to_owned(),
            version: FORMAT.1,
            requested_ns: epoch.map_or(0, |epoch| Nanos::from(epoch).0),
            wall_ns: Nanos::from(wall).0,
            pause_p50_ns: at(50),
            pause_p99_ns: at(99).filter(|_| self.pauses.len() >= FEWEST_FOR_P99),
            pauses: hdr::encoded(&self.pauses.iter().map(|pause| (*pause, 1)).collect()),
            ..self.report
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_pauses_are_values_that_occurred() {
        let of = |count: u64| {
            let mut counters = Counters::default();
            (1..=count).for_each(|micros| counters.pause(Duration::from_micros(micros)));
            counters.finish(Some(Duration::from_millis(5)), Duration::from_secs(1))
        };
        let few = of(3);
        assert_eq!((few.pause_p50_ns, few.pause_p99_ns, few.pause_max_ns), (Some(2000), None, 3000));
        assert_eq!((few.paused_ns, few.requested_ns), (6000, 5_000_000));
        let many = of(400);
        assert_eq!((many.pause_p50_ns, many.pause_p99_ns), (Some(200_000), Some(396_000)));
        let all = hdr::decoded(&many.pauses.expect("pauses")).expect("as written");
        assert_eq!((all.count(), all.value_at(0.99).map(|ns| ns / 1000)), (400, Some(396)));
        assert_eq!((of(0).pause_p50_ns, of(0).pauses), (None, None));
    }
}
