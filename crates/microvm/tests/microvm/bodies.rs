//! Bodies: closures, and loops whose results can be compared bit by bit.

use baremark_model::seam::{Body, Work};
use baremark_model::team::Team;
use std::arch::x86_64::*;

/// A body made of a closure.
pub struct Each<F>(pub F);

impl<F: Fn(usize, &Team, u64) + Sync> Body for Each<F> {
    fn work(&self, _ranks: usize) -> Work {
        Work::default()
    }

    fn rank(&self, rank: usize, team: &Team, reps: u64) {
        (self.0)(rank, team, reps);
    }
}

/// A dependent chain of fused multiply-adds in each of eight 512-bit registers.
///
/// # Safety
/// The processor must have AVX-512F.
#[target_feature(enable = "avx512f")]
#[inline(never)]
pub unsafe fn fma_512(rounds: u64) -> [u64; 8] {
    let (scale, shift) = (_mm512_set1_pd(1.000_000_1), _mm512_set1_pd(1e-9));
    let mut lanes = [_mm512_set_pd(1., 2., 3., 4., 5., 6., 7., 8.); 8];
    for _ in 0..rounds {
        for lane in &mut lanes {
            *lane = _mm512_fmadd_pd(*lane, scale, shift);
        }
    }
    let sum = lanes.into_iter().reduce(|a, b| _mm512_add_pd(a, b)).unwrap();
    let mut out = [0; 8];
    // SAFETY: `out` has 64 bytes, and the store needs no alignment.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), _mm512_castpd_si512(sum)) };
    out
}

/// The same with eight 256-bit registers.
///
/// # Safety
/// The processor must have AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
#[inline(never)]
pub unsafe fn fma_256(rounds: u64) -> [u64; 4] {
    let (scale, shift) = (_mm256_set1_pd(0.999_999_9), _mm256_set1_pd(1e-7));
    let mut lanes = [_mm256_set_pd(1., 2., 3., 4.); 8];
    for _ in 0..rounds {
        for lane in &mut lanes {
            *lane = _mm256_fmadd_pd(*lane, scale, shift);
        }
    }
    let sum = lanes.into_iter().reduce(|a, b| _mm256_add_pd(a, b)).unwrap();
    let mut out = [0; 4];
    // SAFETY: `out` has 32 bytes, and the store needs no alignment.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_castpd_si256(sum)) };
    out
}

/// Xorshift updates all over a table whose length is a power of two.
#[inline(never)]
pub fn scatter(table: &mut [u64], updates: u64, seed: u64) {
    let mask = table.len() - 1;
    let mut state = seed | 1;
    for _ in 0..updates {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        table[usize::try_from(state >> 20).unwrap() & mask] ^= state;
    }
}

/// A mix of all words.
pub fn digest(table: &[u64]) -> u64 {
    table.iter().fold(0, |sum, word| sum.rotate_left(5).wrapping_mul(31).wrapping_add(*word))
}
