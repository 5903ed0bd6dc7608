//! The team of ranks that enters a body together.
//!
//! Inside a virtual machine a rank may wait only for ranks that are inside the same machine: no lock of the operating
//! system, no thread pool, no call. What is left is a barrier that spins. It can be broken: when one rank faults, the
//! others must not spin for ever, so the executor breaks the team and every rank leaves.
//!
//! A rank that spins for a CPU's whole time slice has used up its share of the CPU when its turn to compute comes. Where other
//! programs want the CPUs too, ranks would then hardly ever run at the same time, and a run that takes 50 ms alone takes
//! seconds. So a rank that has waited for much longer than ranks of a team lie apart on a quiet machine [rests](Rest): it
//! sleeps until the last one has come, and has its CPU back at once. How often that happened is counted. It is at a barrier
//! only, and only where another rank is that late.

use std::hint::spin_loop;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// How a rank sleeps at a barrier: what the executor offers in the place where its ranks run.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// The clock by which a rank knows how long it has waited, in ticks.
    pub now: fn() -> u64,
    /// Sleeps while the word has this value: until it is woken, or for some milliseconds at most.
    pub sleep: fn(&AtomicU32, u32),
    /// Wakes all that sleep on the word.
    pub wake: fn(&AtomicU32),
}

/// For how many ticks a rank spins before it sleeps: a half to one millisecond with the rates of processors' counters.
const SPIN_TICKS: u64 = 2_000_000;
/// Between two looks at the clock.
const SPINS: u32 = 64;

/// Something in cache lines of its own: two, for processors fetch lines in pairs.
///
/// A barrier costs what its lines cost. A team on one executor's stack would share them with other values than a team on another's
/// heap, and that difference would be measured as one between the executors.
#[derive(Debug)]
#[repr(align(128))]
struct OwnLines<T>(T);

impl<T> Deref for OwnLines<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The ranks of one parallel region and their barrier.
#[derive(Debug)]
pub struct Team {
    ranks: usize,
    arrived: OwnLines<AtomicUsize>,
    watched: OwnLines<Watched>,
}

/// What ranks that wait look at.
#[derive(Debug)]
struct Watched {
    generation: AtomicU32,
    broken: AtomicBool,
    rest: Option<Rest>,
    /// Ranks that sleep now or are about to.
    asleep: AtomicUsize,
    /// How often ranks slept.
    rests: AtomicU64,
}

impl Team {
    /// A team of `ranks` ranks, numbered from 0. A team of none is taken as a team of one.
    #[must_use]
    pub fn new(ranks: usize) -> Self {
        Team::resting(ranks, None)
    }

    /// The same, whose ranks rest where they have waited for long.
    #[must_use]
    pub fn resting(ranks: usize, rest: Option<Rest>) -> Self {
        Team {
            ranks: ranks.max(1),
            arrived: OwnLines(AtomicUsize::new(0)),
            watched: OwnLines(Watched {
                generation: AtomicU32::new(0),
                broken: AtomicBool::new(false),
                rest,
                asleep: AtomicUsize::new(0),
                rests: AtomicU64::new(0),
            }),
        }
    }

    /// How often a rank slept at the barrier, because another was late.
    #[must_use]
    pub fn rests(&self) -> u64 {
        self.watched.rests.load(Ordering::Relaxed)
    }

    /// How many ranks enter.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Waits until every rank of the team has come here: spinning, and resting where that takes long. Returns at once in a
    /// broken team.
    #[inline]
    pub fn barrier(&self) {
        let generation = self.watched.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.ranks {
            self.arrived.store(0, Ordering::Release);
            // Before the sleepers are looked at, who look at the generation after they have said that they will sleep.
            self.watched.generation.fetch_add(1, Ordering::SeqCst);
            self.wake();
            return;
        }
        let waits = || {
            self.watched.generation.load(Ordering::Acquire) == generation
                && !self.watched.broken.load(Ordering::Relaxed)
        };
        for _ in 0..SPINS {
            if !waits() {
                return;
            }
            spin_loop();
        }
        self.wait_long(generation, &waits);
    }

    /// The rest of a wait that is not over soon.
    #[inline(never)]
    fn wait_long(&self, generation: u32, waits: &dyn Fn() -> bool) {
        let began = self.watched.rest.map_or(0, |rest| (rest.now)());
        while waits() {
            match self.watched.rest {
                Some(rest) if (rest.now)().saturating_sub(began) > SPIN_TICKS => {
                    self.watched.asleep.fetch_add(1, Ordering::SeqCst);
                    if self.watched.generation.load(Ordering::SeqCst) == generation
                        && !self.watched.broken.load(Ordering::SeqCst)
                    {
                        self.watched.rests.fetch_add(1, Ordering::Relaxed);
                        (rest.sleep)(&self.watched.generation, generation);
                    }
                    self.watched.asleep.fetch_sub(1, Ordering::SeqCst);
                }
                _ => (0..SPINS).for_each(|_| spin_loop()),
            }
        }
    }

    fn wake(&self) {
        if let Some(rest) = self.watched.rest
            && self.watched.asleep.load(Ordering::SeqCst) > 0
        {
            (rest.wake)(&self.watched.generation);
        }
    }

    /// Breaks the team: whoever waits, or will wait, continues. What such a region measured is void.
    ///
    /// Nobody is woken: it may be called where this team's way to wake does not work. Who sleeps looks again soon.
    pub fn break_up(&self) {
        self.watched.broken.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn what_a_barrier_writes_shares_no_line_with_anything_else() {
        let team = Team::new(2);
        let at = |field: usize| field - (&raw const team).addr();
        let (arrived, watched) = (at((&raw const team.arrived).addr()), at((&raw const team.watched).addr()));
        assert!(arrived.abs_diff(watched) >= 128);
        assert_eq!(((&raw const team).addr() % 128, arrived % 128, watched % 128), (0, 0, 0));
    }

    #[test]
    fn a_barrier_separates_what_came_before_from_what_comes_after() {
        let team = Team::new(3);
        let before = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=60 {
                        before.fetch_add(1, Ordering::SeqCst);
                        team.barrier();
                        assert_eq!(before.load(Ordering::SeqCst), 3 * round);
                        team.barrier();
                    }
                });
            }
        });
    }

    /// A rest without a system call, in which a rank sleeps until it is woken, and both are counted: one that looked at the word would be awake before the last
    /// rank looks whether anybody sleeps.
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    static WOKEN: AtomicUsize = AtomicUsize::new(0);
    static TICKS: AtomicU64 = AtomicU64::new(0);

    const COUNTED: Rest = Rest {
        now: || TICKS.fetch_add(1_000_000, Ordering::Relaxed),
        sleep: |_, _| {
            SLEPT.fetch_add(1, Ordering::SeqCst);
            while WOKEN.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
        },
        wake: |_| {
            WOKEN.fetch_add(1, Ordering::SeqCst);
        },
    };

    #[test]
    fn who_waits_for_long_sleeps_and_the_last_to_come_wakes() {
        let team = Team::resting(2, Some(COUNTED));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| team.barrier());
            while SLEPT.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            assert_eq!(WOKEN.load(Ordering::SeqCst), 0);
            team.barrier();
            waiting.join().expect("the rank left the barrier");
        });
        assert_eq!((team.rests(), WOKEN.load(Ordering::SeqCst)), (1, 1));
        assert_eq!(Team::new(1).rests(), 0);
    }

    #[test]
    fn a_broken_team_lets_the_waiting_go() {
        let team = Team::new(2);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| team.barrier());
            team.break_up();
            waiting.join().expect("the rank left the barrier");
        });
        assert!(team.watched.broken.load(Ordering::Relaxed));
    }
}
