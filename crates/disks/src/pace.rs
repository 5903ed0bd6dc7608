//! When I/Os are to start: as soon as a slot is idle, or at the moments of a rate, all the time or in bursts.

use baremark_stats::Rng;
use std::sync::{Mutex, PoisonError};

/// The process of intended starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Starts per second of all jobs together; `None` keeps every slot busy.
    pub rate: Option<f64>,
    /// Exponential gaps instead of equal ones.
    pub poisson: bool,
    /// Time with load and time without, in ns, in turns; `None` for load all the time.
    pub bursts: Option<(u64, u64)>,
}

/// Whether an I/O is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// One is; its latency counts from this moment.
    Now(u64),
    /// Not before this moment.
    At(u64),
}

/// The intended starts of one job, of which each of its threads takes the next.
pub(crate) struct Pace {
    load: Load,
    start_ns: u64,
    gap_ns: f64,
    next: Mutex<(f64, Rng)>,
}

impl Pace {
    /// Of job `job` of `jobs`, from `start_ns` on.
    pub(crate) fn new(load: Load, (job, jobs): (usize, usize), start_ns: u64, seed: u64) -> Pace {
        let gap_ns = load.rate.map_or(0.0, |rate| 1e9 * jobs as f64 / rate);
        let mut rng = Rng::stream(seed, 1 << 62 | job as u64);
        let first = if load.poisson { gap_ns * rng.exponential() } else { gap_ns * job as f64 / jobs as f64 };
        Pace { load, start_ns, gap_ns, next: Mutex::new((first, rng)) }
    }

    /// Takes the next start if it is due at `now`.
    pub(crate) fn due(&self, now: u64) -> Due {
        if self.load.rate.is_none() {
            return self.burst(now);
        }
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative; float casts saturate"
        )]
        let active = next.0 as u64;
        let moment = self.start_ns
            + match self.load.bursts {
                None => active,
                Some((on, off)) => active / on * (on + off) + active % on,
            };
        if moment > now {
            return Due::At(moment);
        }
        let share = if self.load.poisson { next.1.exponential() } else { 1.0 };
        next.0 += self.gap_ns * share;
        Due::Now(moment)
    }

    fn burst(&self, now: u64) -> Due {
        let Some((on, off)) = self.load.bursts else { return Due::Now(now) };
        let since = now.saturating_sub(self.start_ns);
        let (turn, into) = (since / (on + off), since % (on + off));
        if into < on { Due::Now(now) } else { Due::At(self.start_ns + (turn + 1) * (on + off)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEADY: Load = Load { rate: Some(1000.0), poisson: false, bursts: None };

    /// The intended starts up to `end`.
    fn starts(pace: &Pace, end: u64) -> Vec<u64> {
        std::iter::from_fn(|| match pace.due(end) {
            Due::Now(moment) => Some(moment),
            Due::At(_) => None,
        })
        .collect()
    }

    #[test]
    fn what_is_late_counts_from_its_intended_start() {
        let paces = [Pace::new(STEADY, (0, 2), 500, 1), Pace::new(STEADY, (1, 2), 500, 1)];
        assert_eq!(paces[0].due(499), Due::At(500));
        assert_eq!(starts(&paces[0], 4_000_500), [500, 2_000_500, 4_000_500]);
        assert_eq!(starts(&paces[1], 4_000_500), [1_000_500, 3_000_500]);
        assert_eq!(paces[0].due(5_000_000), Due::At(6_000_500));
    }

    #[test]
    fn bursts_hold_the_rate_while_they_last() {
        let load = Load { bursts: Some((2_000_000, 8_000_000)), ..STEADY };
        let pace = Pace::new(load, (0, 1), 0, 1);
        assert_eq!(starts(&pace, 21_000_000), [0, 1, 10, 11, 20, 21].map(|ms| ms * 1_000_000));
        let closed = Pace::new(Load { rate: None, ..load }, (0, 1), 0, 1);
        assert_eq!([closed.due(1_999_999), closed.due(2_000_000)], [Due::Now(1_999_999), Due::At(10_000_000)]);
    }

    #[test]
    fn poisson_starts_have_the_rate_and_exponential_gaps() {
        let pace = Pace::new(Load { poisson: true, ..STEADY }, (0, 1), 0, 9);
        let starts = starts(&pace, 20_000_000_000);
        assert!((19_300..20_700).contains(&starts.len()), "{}", starts.len());
        let long = starts.windows(2).filter(|pair| pair[1] - pair[0] > 1_000_000).count();
        let share = long as f64 / starts.len() as f64;
        assert!((share - (-1.0_f64).exp()).abs() < 0.015, "{share}");
    }
}
