//! Matrix multiplication by all ranks: C += A B in double precision.
//!
//! One product for the team: A is packed by all ranks together and read by all, columns of B and C are shared out.
//! Repetitions add the same product again, so that C tells how many there were.

use crate::gemm::{Gemm, Matrix, Scratch, Shape};
use crate::isa;
use crate::numbers::number;
use crate::share::share;
use baremark_model::machine::Isa;
use baremark_model::seam::{Body, Work};
use baremark_model::team::Team;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// The matrices and the room to pack in.
#[derive(Debug)]
pub struct Dgemm<'m> {
    gemm: Gemm,
    n: usize,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    packed: *mut f64,
    scratch: Vec<Scratch>,
    products: AtomicU64,
    memory: PhantomData<&'m mut [u64]>,
}

// SAFETY: the memory is borrowed exclusively for the life of the kernel; ranks write separate strips and columns, and
// read strips of others only after the team's barrier.
unsafe impl Sync for Dgemm<'_> {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Dgemm<'_> {}

/// Why a product cannot be run so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The memory does not fit.
    #[error(
        "spans of another size or not on cache lines; take those that the sizes name, one for each rank besides A, B, C"
    )]
    Memory,
    /// The instruction set is not here.
    #[error("this processor has no {0:?}; the widest here is {widest:?}", widest = isa::widest())]
    NotHere(Isa),
}

/// What C holds, against what it must.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Check {
    /// Products that were added.
    pub products: u64,
    /// The scaled residual of C times a random vector; right results stay far below [`LIMIT`].
    pub residual: f64,
}

/// The sizes in words of the spans for products of order `n` on `ranks` ranks: A, B, C, packed A, and one a rank.
#[must_use]
pub fn span_words(n: usize, ranks: usize) -> Vec<usize> {
    let mut words = vec![stride(n) * n; 3];
    words.push(n.next_multiple_of(24) * DEPTH);
    words.extend(vec![Scratch::words(DEPTH, WIDTH); ranks]);
    words
}

impl<'m> Dgemm<'m> {
    /// Fills A, B and C with random numbers.
    ///
    /// # Errors
    /// When the spans are not those of [`span_words`] or the instruction set is not here.
    pub fn new(n: usize, isa: Isa, mut spans: Vec<&'m mut [u64]>) -> Result<Self, Unfit> {
        let fits =
            |(span, words): (&&'m mut [u64], usize)| span.len() >= words && (span.as_ptr() as usize).is_multiple_of(64);
        let words = span_words(n, spans.len().saturating_sub(4));
        if n == 0 || spans.len() < 5 || !spans.iter().zip(words).all(fits) {
            return Err(Unfit::Memory);
        }
        if !isa::is_available(isa) {
            return Err(Unfit::NotHere(isa));
        }
        let mut firsts = spans.iter_mut().map(|span| span.as_mut_ptr().cast::<f64>());
        let mut matrix = || Matrix { first: firsts.next().unwrap_or(std::ptr::null_mut()), stride: stride(n) };
        let (a, b, c, packed) = (matrix(), matrix(), matrix(), matrix().first);
        // SAFETY: the spans are as long as `Scratch::words` says (`fits`).
        let scratch = firsts.map(|first| unsafe { Scratch::new(first, DEPTH) }).collect();
        let products = AtomicU64::new(0);
        let gemm = Gemm::new(isa);
        let mut body = Dgemm { gemm, n, a, b, c, packed, scratch, products, memory: PhantomData };
        (0..3).for_each(|which| body.fill(which));
        Ok(body)
    }

    /// The order of the matrices.
    #[must_use]
    pub fn order(&self) -> usize {
        self.n
    }

    /// The instruction set in use.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.gemm.isa
    }

    /// Holds C x against C0 x + products A (B x) for a random x, by plain sums, and fills C anew (Freivalds' check: a wrong
    /// element shows in its row).
    pub fn check_and_reset(&mut self) -> Check {
        let n = self.n;
        let products = *self.products.get_mut();
        let x: Vec<f64> = (0..n).map(|row| number(3, row as u64)).collect();
        let bx = self.times(self.b, &x);
        let abx = self.times(self.a, &bx);
        let cx = self.times(self.c, &x);
        let held = self.sums(self.c, &x, f64::abs);
        self.fill(2);
        let c0x = self.times(self.c, &x);
        // All elements are at most a half: no sum exceeds this, and rounding errors of n^2 terms add up to far less than n.
        let sums = (products as f64 * 0.125 * n as f64 + 0.25) * n as f64;
        // Each addition to C rounds what it holds by then, each time to the same side where the same is added: errors grow by the square
        // of the products.
        let additions = products as f64 * n.div_ceil(DEPTH) as f64;
        let scaled = |row: usize| {
            let error = (cx[row] - c0x[row] - products as f64 * abx[row]).abs();
            error / ((sums + additions * held[row]) * UNIT_ROUNDOFF)
        };
        let residual = (0..n).map(scaled).fold(0.0, largest);
        *self.products.get_mut() = 0;
        Check { products, residual }
    }

    fn times(&self, matrix: Matrix, x: &[f64]) -> Vec<f64> {
        self.sums(matrix, x, |term| term)
    }

    /// The sums of what `of` makes of each term of a matrix times a vector.
    fn sums(&self, matrix: Matrix, x: &[f64], of: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.n];
        for (column, factor) in x.iter().enumerate() {
            for (row, sum) in sums.iter_mut().enumerate() {
                // SAFETY: `row` and `column` are below the order, and no body is at work, which the exclusive borrow in
                // the one caller proves.
                *sum += of(factor * unsafe { *matrix.from(row, column).first });
            }
        }
        sums
    }

    fn fill(&mut self, which: u64) {
        let matrix = [self.a, self.b, self.c][which as usize];
        for column in 0..self.n {
            for row in 0..self.n {
                // SAFETY: as in `sums`.
                unsafe { *matrix.from(row, column).first = number(which, (column * self.n + row) as u64) };
            }
        }
    }

    /// One product.
    fn multiply(&self, rank: usize, scratch: Scratch, team: &Team) {
        let (n, gemm) = (self.n, self.gemm);
        let strips = n.div_ceil(gemm.tile_rows);
        let mine = share(strips, rank, team.ranks())..share(strips, rank + 1, team.ranks());
        let columns = |rank| (share(n.div_ceil(gemm.tile_columns), rank, team.ranks()) * gemm.tile_columns).min(n);
        for from in (0..n).step_by(DEPTH) {
            let depth = (n - from).min(DEPTH);
            let shape = Shape { rows: n, columns: 0, depth };
            // SAFETY: columns `from..from + depth` are in A, and its strips are packed by one rank each into room for all.
            unsafe { gemm.pack_a(self.a.from(0, from), shape, mine.clone(), 1.0, self.packed) };
            team.barrier();
            for column in (columns(rank)..columns(rank + 1)).step_by(WIDTH) {
                let part = Shape { columns: (columns(rank + 1) - column).min(WIDTH), ..shape };
                // SAFETY: the columns are this rank's alone, the scratch has room for `DEPTH` x `WIDTH`, and all strips
                // were packed before the barrier.
                unsafe {
                    gemm.pack_b(self.b.from(from, column), part, scratch.b);
                    gemm.multiply(part, self.packed, scratch.b, self.c.from(0, column));
                }
            }
            team.barrier();
        }
    }
}

impl Body for Dgemm<'_> {
    /// Each matrix counted once: what caches and packing move besides is the code's own affair.
    fn work(&self, _ranks: usize) -> Work {
        let n = self.n as u64;
        let flops = 2 * n * n * n;
        Work { operations: flops, flops, bytes_loaded: 24 * n * n, bytes_stored: 8 * n * n, bytes_allocated: 0 }
    }

    fn rank(&self, rank: usize, team: &Team, reps: u64) {
        let Some(&scratch) = self.scratch.get(rank) else { return };
        for _ in 0..reps {
            self.multiply(rank, scratch, team);
            if rank == 0 {
                self.products.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Words from one column to the next: whole cache lines, an odd number of them, so that columns spread over all sets.
pub(crate) fn stride(n: usize) -> usize {
    (n.div_ceil(8) | 1) * 8
}

/// NaN stays NaN.
fn largest(a: f64, b: f64) -> f64 {
    if b > a || b.is_nan() { b } else { a }
}

/// The scaled residual that is allowed, HPL's.
pub const LIMIT: f64 = 16.0;
const UNIT_ROUNDOFF: f64 = f64::EPSILON / 2.0;
/// Columns of A, and rows of B, that are packed at once.
const DEPTH: usize = 256;
/// Columns of B that are packed at once.
const WIDTH: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bed::{Lines, run, spans};

    fn memory(n: usize, ranks: usize) -> Vec<Lines> {
        spans(span_words(n, ranks))
    }

    fn body(n: usize, isa: Isa, memory: &mut [Lines]) -> Dgemm<'_> {
        Dgemm::new(n, isa, memory.iter_mut().map(Lines::words).collect()).expect("fits")
    }

    #[test]
    fn products_are_right_by_every_instruction_set_and_by_teams() {
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa::is_available(isa)) {
            for (n, ranks) in [(1, 1), (30, 3), (300, 2)] {
                let mut memory = memory(n, ranks);
                let mut body = body(n, isa, &mut memory);
                run(&body, ranks, 3);
                let check = body.check_and_reset();
                assert!(check.products == 3 && check.residual < 1.0, "{isa:?} {n} {check:?}");
                let check = body.check_and_reset();
                assert!(check.products == 0 && check.residual < 1.0, "{isa:?} {n} {check:?}");
            }
        }
    }

    #[test]
    fn one_wrong_element_and_one_product_too_few_are_found() {
        let mut memory = memory(100, 1);
        let mut body = body(100, isa::widest(), &mut memory);
        run(&body, 1, 1);
        // SAFETY: inside C, on which no body is at work.
        unsafe { *body.c.from(31, 64).first += 1e-9 };
        assert!(body.check_and_reset().residual > LIMIT);
        run(&body, 1, 1);
        *body.products.get_mut() += 1;
        assert!(body.check_and_reset().residual > LIMIT);
    }

    /// A trial has this many products of small matrices within milliseconds: their sums were said to be wrong, with residuals of hundreds.
    #[test]
    fn many_products_of_small_matrices_are_right_and_one_too_few_is_found() {
        let mut memory = memory(16, 1);
        let mut body = body(16, isa::widest(), &mut memory);
        run(&body, 1, 20_000);
        let check = body.check_and_reset();
        assert!(check.products == 20_000 && check.residual < 1.0, "{check:?}");
        run(&body, 1, 20_000);
        *body.products.get_mut() += 1;
        assert!(body.check_and_reset().residual > LIMIT);
    }

    #[test]
    fn the_work_is_twice_the_cube() {
        let mut memory = memory(10, 1);
        assert_eq!(body(10, Isa::Baseline, &mut memory).work(1).flops, 2000);
        assert_eq!(Dgemm::new(10, Isa::Baseline, Vec::new()).err(), Some(Unfit::Memory));
    }
}
