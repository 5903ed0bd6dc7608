//! The team of ranks that enters a body together.
//!
//! Inside a virtual machine a rank may wait only for ranks that are inside the same machine: no lock of the operating
//! system, no thread pool, no call. What is left is a barrier that spins. It can be broken: when one rank faults, the
//! others must not spin for ever, so the executor breaks the team and every rank leaves.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The ranks of one parallel region and their barrier.
#[derive(Debug)]
pub struct Team {
    ranks: usize,
    arrived: AtomicUsize,
    generation: AtomicUsize,
    broken: AtomicBool,
}

impl Team {
    /// A team of `ranks` ranks, numbered from 0. A team of none is taken as a team of one.
    #[must_use]
    pub fn new(ranks: usize) -> Self {
        Team {
            ranks: ranks.max(1),
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
        }
    }

    /// How many ranks enter.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Waits, spinning, until every rank of the team has come here. Returns at once in a broken team.
    #[inline]
    pub fn barrier(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.ranks {
            self.arrived.store(0, Ordering::Release);
            self.generation.fetch_add(1, Ordering::AcqRel);
            return;
        }
        while self.generation.load(Ordering::Acquire) == generation && !self.broken.load(Ordering::Relaxed) {
            spin_loop();
        }
    }

    /// Breaks the team: whoever waits, or will wait, goes on. What such a region measured is void.
    pub fn break_up(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Whether the team was broken.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_barrier_separates_what_came_before_from_what_comes_after() {
        let team = Team::new(3);
        let before = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=200 {
                        before.fetch_add(1, Ordering::SeqCst);
                        team.barrier();
                        assert_eq!(before.load(Ordering::SeqCst), 3 * round);
                        team.barrier();
                    }
                });
            }
        });
    }

    #[test]
    fn a_broken_team_lets_the_waiting_go() {
        let team = Team::new(2);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| team.barrier());
            team.break_up();
            waiting.join().expect("the rank left the barrier");
        });
        assert!(team.is_broken());
    }
}
