//! A control: fused multiply-adds in registers, which touch no memory and need nothing of the MMU.
//!
//! What this loop loses in a virtual machine is lost to exits and interrupts. Every lane goes x -> 4x + 1 -> x + 1 by two
//! multiply-adds that are exact below 2^51, so that after any number of turns every lane must hold its start plus
//! that number, whatever the instruction set. Sixteen independent chains keep two units of four cycles' latency busy.

use crate::cell::Cell;
use crate::isa;
use baremark_model::machine::Isa;
use baremark_model::seam::{Body, Work};
use baremark_model::team::Team;
use std::arch::x86_64::{__m256d, __m512d};
use std::arch::x86_64::{_mm256_fmadd_pd, _mm256_loadu_pd, _mm256_set1_pd, _mm256_storeu_pd};
use std::arch::x86_64::{_mm512_fmadd_pd, _mm512_loadu_pd, _mm512_set1_pd, _mm512_storeu_pd};

/// Turns of one repetition on each rank.
pub const QUANTUM: u64 = 1 << 14;

/// The loop and each rank's lanes.
#[derive(Debug)]
pub struct Fma {
    isa: Isa,
    ranks: Vec<Cell<Rank>>,
}

/// One rank's lanes, of which a narrow instruction set uses the first ones.
#[derive(Debug)]
struct Rank {
    lanes: [f64; LANES],
    turns: u64,
}

/// The instruction set that was asked for is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this processor has no {0:?}; the widest here is {widest:?}", widest = isa::widest())]
pub struct NotHere(pub Isa);

/// What the lanes hold, against what they must.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Turns that were checked, over all ranks.
    pub turns: u64,
    /// Lanes that do not hold their start plus their turns.
    pub errors: u64,
}

impl Fma {
    /// The loop for `ranks` ranks by the instructions of `isa`.
    ///
    /// # Errors
    /// When this processor does not have them.
    pub fn new(ranks: usize, isa: Isa) -> Result<Self, NotHere> {
        if !isa::is_available(isa) {
            return Err(NotHere(isa));
        }
        Ok(Fma { isa, ranks: (0..ranks).map(|_| Cell::new(Rank { lanes: first_lanes(), turns: 0 })).collect() })
    }

    /// The instruction set in use.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The lanes that are in use.
    fn lanes(&self) -> usize {
        match self.isa {
            Isa::Baseline => BASELINE_LANES,
            Isa::Avx2 => 4 * AVX2_CHAINS,
            Isa::Avx512 => LANES,
        }
    }

    /// Floating-point operations of one repetition on one rank: two multiply-adds for each lane and turn.
    #[must_use]
    pub fn rank_flops(&self) -> u64 {
        4 * self.lanes() as u64 * QUANTUM
    }

    /// Counts the lanes that do not hold what they must, and puts all of them back to their start.
    pub fn check_and_reset(&mut self) -> Check {
        let lanes = self.lanes();
        let mut check = Check::default();
        for cell in &mut self.ranks {
            let rank = cell.get_mut();
            let expected = first_lanes().map(|start| start + rank.turns as f64);
            let pairs = rank.lanes.iter().zip(&expected).take(lanes);
            check.errors += pairs.filter(|(lane, expected)| lane.to_bits() != expected.to_bits()).count() as u64;
            check.turns += rank.turns;
            *rank = Rank { lanes: first_lanes(), turns: 0 };
        }
        check
    }
}

impl Body for Fma {
    fn work(&self, ranks: usize) -> Work {
        let flops = self.rank_flops() * ranks as u64;
        Work { operations: flops / 2, flops, ..Work::default() }
    }

    fn rank(&self, rank: usize, _team: &Team, reps: u64) {
        let Some(mut state) = self.ranks.get(rank).and_then(Cell::enter) else { return };
        let state = &mut *state;
        let turns = reps * QUANTUM;
        match self.isa {
            Isa::Baseline => fma_baseline(&mut state.lanes, turns),
            // SAFETY: `new` found AVX2 and FMA in this processor.
            Isa::Avx2 => unsafe { fma_avx2(&mut state.lanes, turns) },
            // SAFETY: `new` found AVX-512 F in this processor.
            Isa::Avx512 => unsafe { fma_avx512(&mut state.lanes, turns) },
        }
        state.turns += turns;
    }
}

/// Multiply, then add: two instructions where the wider sets have one. Eight chains of two lanes are what sixteen
/// registers hold alongside the constants.
#[inline(never)]
fn fma_baseline(lanes: &mut [f64; LANES], turns: u64) {
    let mut x: [f64; BASELINE_LANES] = std::array::from_fn(|lane| lanes[lane]);
    for _ in 0..turns {
        for lane in &mut x {
            *lane = (*lane * UP.0 + UP.1) * DOWN.0 + DOWN.1;
        }
    }
    lanes[..BASELINE_LANES].copy_from_slice(&x);
}

#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn fma_avx2(lanes: &mut [f64; LANES], turns: u64) {
    let up = (_mm256_set1_pd(UP.0), _mm256_set1_pd(UP.1));
    let down = (_mm256_set1_pd(DOWN.0), _mm256_set1_pd(DOWN.1));
    let start = lanes.as_mut_ptr();
    // SAFETY: chain * 4 + 4 <= 48 <= LANES, so every load is inside `lanes`.
    let mut x: [__m256d; AVX2_CHAINS] = std::array::from_fn(|chain| unsafe { _mm256_loadu_pd(start.add(4 * chain)) });
    for _ in 0..turns {
        for chain in &mut x {
            *chain = _mm256_fmadd_pd(*chain, up.0, up.1);
        }
        for chain in &mut x {
            *chain = _mm256_fmadd_pd(*chain, down.0, down.1);
        }
    }
    for (chain, value) in x.into_iter().enumerate() {
        // SAFETY: as for the loads.
        unsafe { _mm256_storeu_pd(start.add(4 * chain), value) };
    }
}

#[inline(never)]
#[target_feature(enable = "avx512f")]
fn fma_avx512(lanes: &mut [f64; LANES], turns: u64) {
    let up = (_mm512_set1_pd(UP.0), _mm512_set1_pd(UP.1));
    let down = (_mm512_set1_pd(DOWN.0), _mm512_set1_pd(DOWN.1));
    let start = lanes.as_mut_ptr();
    // SAFETY: chain * 8 + 8 <= 128 = LANES, so every load is inside `lanes`.
    let mut x: [__m512d; AVX512_CHAINS] = std::array::from_fn(|chain| unsafe { _mm512_loadu_pd(start.add(8 * chain)) });
    for _ in 0..turns {
        for chain in &mut x {
            *chain = _mm512_fmadd_pd(*chain, up.0, up.1);
        }
        for chain in &mut x {
            *chain = _mm512_fmadd_pd(*chain, down.0, down.1);
        }
    }
    for (chain, value) in x.into_iter().enumerate() {
        // SAFETY: as for the loads.
        unsafe { _mm512_storeu_pd(start.add(8 * chain), value) };
    }
}

/// Every lane starts at its own number, so that lanes which were swapped are found.
fn first_lanes() -> [f64; LANES] {
    std::array::from_fn(|lane| lane as f64)
}

/// x -> 4x + 1. A factor of 2 would be compiled into an addition.
const UP: (f64, f64) = (4.0, 1.0);
/// 4x + 1 -> x + 1.
const DOWN: (f64, f64) = (0.25, 0.75);
const AVX512_CHAINS: usize = 16;
/// Twelve chains and four constants are the sixteen registers.
const AVX2_CHAINS: usize = 12;
const BASELINE_LANES: usize = 16;
const LANES: usize = 8 * AVX512_CHAINS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_counts_its_turns_by_each_instruction_set() {
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa::is_available(isa)) {
            let mut body = Fma::new(2, isa).expect("available");
            let team = Team::new(2);
            for (rank, reps) in [(0, 2), (1, 1), (0, 3)] {
                body.rank(rank, &team, reps);
            }
            assert_eq!(body.check_and_reset(), Check { turns: 6 * QUANTUM, errors: 0 }, "{isa:?}");
            assert_eq!(body.check_and_reset(), Check { turns: 0, errors: 0 }, "{isa:?}");
        }
    }

    #[test]
    fn a_lane_that_lost_a_turn_is_found() {
        let mut body = Fma::new(1, isa::widest()).expect("available");
        body.rank(0, &Team::new(1), 1);
        body.ranks[0].get_mut().lanes[3] -= 1.0;
        assert_eq!(body.check_and_reset().errors, 1);
    }

    #[test]
    fn the_work_is_two_multiply_adds_for_each_lane_and_turn() {
        let body = Fma::new(1, Isa::Baseline).expect("available");
        assert_eq!(body.work(2).flops, 2 * 16 * 4 * QUANTUM);
    }
}
