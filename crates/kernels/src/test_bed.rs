//! What tests of kernels share: memory on cache lines, as an arena's spans are, and teams that run one at a time.

use baremark_model::seam::Body;
use baremark_model::team::Team;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Has a team of `ranks` threads run `body`. One team at a time: ranks spin, and two teams on the same CPUs would wait for
/// each other's time slices.
pub fn run(body: &dyn Body, ranks: usize, reps: u64) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let team = Team::new(ranks);
    thread::scope(|scope| {
        for rank in 0..ranks {
            let team = &team;
            scope.spawn(move || body.rank(rank, team, reps));
        }
    });
}

/// Whole cache lines of words.
pub struct Lines(Vec<Line>);

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[expect(dead_code, reason = "read as words")] [u64; 8]);

impl Lines {
    /// At least `words` words of `fill`.
    pub fn new(words: usize, fill: u64) -> Self {
        Lines(vec![Line([fill; 8]); words.div_ceil(8)])
    }

    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: lines are words without anything between, all of them initialised, and borrowed for as long.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast::<u64>(), 8 * self.0.len()) }
    }
}

/// One span for each size.
pub fn spans(sizes: Vec<usize>) -> Vec<Lines> {
    sizes.into_iter().map(|words| Lines::new(words, 0)).collect()
}
