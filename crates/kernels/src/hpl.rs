//! HPL: a dense system of linear equations solved by LU factorization with partial pivoting.
//!
//! Right-looking and blocked. A panel of columns is factored by all ranks together, each with its share of the rows, by
//! halves (recursively) down to a few columns; where a pivot is sought, every rank publishes its candidate with the row, so
//! that one barrier a column is enough, as in HPL's own panel. Then the columns behind the panel are shared out: each rank
//! exchanges their rows, solves for the panel's rows of U and multiplies. The right-hand side is one more column, so that
//! the factorization leaves L^-1 b there; what remains is a back substitution. As in HPL, exchanges are not carried back
//! to the columns of L that are done.
//!
//! Matrix and right-hand side are HPL's in kind: uniform in [-0.5, 0.5), drawn by element. They are made anew in each
//! repetition, inside the region but outside the laps. All arithmetic has one order for a given number of ranks and
//! instruction set: the solution must be the same to the last bit in every repetition, wherever it ran.

mod panel;

use crate::cell::Cell;
use crate::dgemm::stride;
use crate::gemm::{Gemm, Matrix, Scratch, Shape};
use crate::isa;
use crate::laps::{Clock, Lap, Laps};
use crate::numbers::number;
use crate::share::share;
use baremark_model::machine::Isa;
use baremark_model::seam::{Body, Work};
use baremark_model::team::Team;
use panel::{Candidate, Panel};
use std::marker::PhantomData;
use std::ops::Range;

/// A system of equations, and all that the ranks need to solve it.
#[derive(Debug)]
pub struct Hpl<'m> {
    order: Order,
    gemm: Gemm,
    /// The matrix, and as its last column the right-hand side, in whose place the solution comes.
    a: Matrix,
    /// The panel's rows below its square, negative, packed by all for all.
    packed: *mut f64,
    scratch: Vec<Scratch>,
    pivots: Vec<Cell<Vec<usize>>>,
    candidates: Vec<Candidate>,
    keeper: Cell<Keeper>,
    memory: PhantomData<&'m mut [u64]>,
}

/// How large the system is and in what blocks it is solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Equations.
    pub n: usize,
    /// Columns of a panel.
    pub nb: usize,
}

/// What rank 0 keeps for all.
#[derive(Debug)]
struct Keeper {
    laps: Laps,
    solutions: u64,
    /// A digest of the first solution's bits.
    digest: u64,
    /// Solutions with another digest.
    differing: u64,
}

// SAFETY: the memory is borrowed exclusively for the life of the kernel; between two barriers of the team an element is
// written by one rank or read by any, which the documentation of each step says.
unsafe impl Sync for Hpl<'_> {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Hpl<'_> {}

/// Why a system cannot be solved so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The memory does not fit.
    #[error(
        "spans of another size or not on cache lines; take those that the sizes name, one for each rank besides two"
    )]
    Memory,
    /// The instruction set is not here.
    #[error("this processor has no {0:?}; the widest here is {widest:?}", widest = isa::widest())]
    NotHere(Isa),
}

/// What the solution is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// Systems that were solved; all have the same matrix.
    pub solutions: u64,
    /// Solutions that differ in any bit from the first.
    pub differing: u64,
    /// HPL's scaled residual of the last: |Ax - b| / (eps (|A| |x| + |b|) n), in the maximum norm.
    pub residual: f64,
    /// A digest of the first solution's bits.
    pub digest: u64,
}

/// The sizes in words of the spans on `ranks` ranks: the matrix, the packed panel, and one a rank.
#[must_use]
pub fn span_words(order: Order, ranks: usize) -> Vec<usize> {
    let Order { n, nb } = order;
    let mut words = vec![stride(n) * (n + 1), n.next_multiple_of(24) * nb];
    words.extend(vec![Scratch::words(nb, WIDTH); ranks]);
    words
}

impl<'m> Hpl<'m> {
    /// Makes everything ready; `clock` times each solution.
    ///
    /// # Errors
    /// When the spans are not those of [`span_words`] or the instruction set is not here.
    pub fn new(order: Order, isa: Isa, mut spans: Vec<&'m mut [u64]>, clock: Clock) -> Result<Self, Unfit> {
        let ranks = spans.len().saturating_sub(2);
        let fits =
            |(span, words): (&&'m mut [u64], usize)| span.len() >= words && (span.as_ptr() as usize).is_multiple_of(64);
        if order.n == 0 || order.nb == 0 || ranks == 0 || !spans.iter().zip(span_words(order, ranks)).all(fits) {
            return Err(Unfit::Memory);
        }
        if !isa::is_available(isa) {
            return Err(Unfit::NotHere(isa));
        }
        let mut firsts = spans.iter_mut().map(|span| span.as_mut_ptr().cast::<f64>());
        let mut first = || firsts.next().unwrap_or(std::ptr::null_mut());
        let (a, packed) = (Matrix { first: first(), stride: stride(order.n) }, first());
        Ok(Hpl {
            order,
            gemm: Gemm::new(isa),
            a,
            packed,
            // SAFETY: the spans are as long as `Scratch::words` says (`fits`).
            scratch: firsts.map(|first| unsafe { Scratch::new(first, order.nb) }).collect(),
            pivots: (0..ranks).map(|_| Cell::new(vec![0; order.nb])).collect(),
            candidates: Candidate::room(ranks),
            keeper: Cell::new(Keeper { laps: Laps::new(clock), solutions: 0, digest: 0, differing: 0 }),
            memory: PhantomData,
        })
    }

    /// How large the system is.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// The instruction set in use.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.gemm.isa
    }

    /// Floating-point operations of one solution as HPL counts them.
    #[must_use]
    pub fn flops(&self) -> u64 {
        let n = self.order.n as u64;
        (4 * n * n * n + 9 * n * n) / 6
    }

    /// The laps that began at `start_ticks` or later, one a solution.
    #[must_use]
    pub fn laps(&self, start_ticks: u64) -> Vec<Lap> {
        self.keeper.enter().map(|keeper| keeper.laps.since(start_ticks)).unwrap_or_default()
    }

    /// The last solution. Whoever calls it has exclusive use, as no body is at work.
    #[must_use]
    pub fn solution(&mut self) -> Vec<f64> {
        // SAFETY: column n of the matrix, on which no body is at work by the exclusive borrow.
        (0..self.order.n).map(|row| unsafe { *self.a.from(row, self.order.n).first }).collect()
    }

    /// Checks the last solution against the matrix, drawn anew element by element.
    pub fn check_and_reset(&mut self) -> Check {
        let n = self.order.n;
        let x = self.solution();
        let keeper = self.keeper.get_mut();
        let Keeper { solutions, differing, digest, .. } = *keeper;
        (keeper.solutions, keeper.differing) = (0, 0);
        let (mut residual, mut row_sums) = (vec![0.0; n], vec![0.0; n]);
        for (column, x) in x.iter().enumerate() {
            for (row, (residual, sum)) in residual.iter_mut().zip(&mut row_sums).enumerate() {
                let element = self.element(row, column);
                *residual += element * x;
                *sum += element.abs();
            }
        }
        let b: Vec<f64> = (0..n).map(|row| self.element(row, n)).collect();
        let error = norm(residual.iter().zip(&b).map(|(ax, b)| ax - b));
        let scale = norm(row_sums) * norm(x) + norm(b);
        let residual = if solutions == 0 { 0.0 } else { error / (UNIT_ROUNDOFF * scale * n as f64) };
        Check { solutions, differing, residual, digest }
    }

    fn element(&self, row: usize, column: usize) -> f64 {
        number(1, (column * self.order.n + row) as u64)
    }

    #[inline(never)]
    /// Makes this rank's columns of a system of that order, which is not larger than this one.
    fn draw(&self, order: Order, rank: usize, ranks: usize) {
        let columns = order.n + 1;
        for column in share(columns, rank, ranks)..share(columns, rank + 1, ranks) {
            for row in 0..order.n {
                // SAFETY: the column is this rank's alone until the barrier.
                unsafe { *self.a.from(row, column).first = self.element(row, column) };
            }
        }
    }

    /// Factors the matrix panel by panel. Ends with a barrier.
    fn factor(&self, order: Order, rank: usize, (pivots, scratch): (&mut [usize], Scratch), team: &Team) {
        let Order { n, nb } = order;
        for from in (0..n).step_by(nb) {
            let width = (n - from).min(nb);
            let panel = Panel { a: self.a, n, from, gemm: self.gemm, scratch, candidates: &self.candidates };
            panel.factor(from..from + width, rank, team, pivots);
            team.barrier();
            self.update((n, from, width), rank, (&*pivots, scratch), team);
        }
    }

    /// Carries a factored panel of `width` columns from `from` on over to the columns behind it, of `n` equations. Ends with a barrier.
    fn update(
        &self,
        (n, from, width): (usize, usize, usize),
        rank: usize,
        (pivots, scratch): (&[usize], Scratch),
        team: &Team,
    ) {
        let (gemm, below) = (self.gemm, from + width);
        let shape = Shape { rows: n - below, columns: 0, depth: width };
        let strips = shape.rows.div_ceil(gemm.tile_rows);
        let strips = share(strips, rank, team.ranks())..share(strips, rank + 1, team.ranks());
        let columns = self.columns(below..n + 1, rank, team.ranks());
        // SAFETY: the panel is only read until the barrier at the end, strips are packed by one rank each, columns behind
        // the panel are this rank's alone, and the scratch has room for `nb` x `WIDTH`.
        unsafe {
            gemm.pack_a(self.a.from(below, from), shape, strips, -1.0, self.packed);
            for column in columns.clone().step_by(WIDTH) {
                let count = (columns.end - column).min(WIDTH);
                panel::exchange(self.a.from(0, column), count, from, &pivots[..width]);
                panel::solve(gemm, self.a.from(from, from), self.a.from(from, column), width, count, scratch);
            }
            team.barrier();
            for column in columns.clone().step_by(WIDTH) {
                let part = Shape { columns: (columns.end - column).min(WIDTH), ..shape };
                gemm.pack_b(self.a.from(from, column), part, scratch.b);
                gemm.multiply(part, self.packed, scratch.b, self.a.from(below, column));
            }
        }
        team.barrier();
    }

    /// The columns of `rank` among `all`, in whole tiles.
    fn columns(&self, all: Range<usize>, rank: usize, ranks: usize) -> Range<usize> {
        let tile = self.gemm.tile_columns;
        let tiles = all.len().div_ceil(tile);
        let at = |rank| (all.start + share(tiles, rank, ranks) * tile).min(all.end);
        at(rank)..at(rank + 1)
    }

    #[inline(never)]
    /// Back substitution, block by block from the last: rank 0 solves a block, then all take its share out of the rows
    /// above. Ends with a barrier.
    fn substitute(&self, order: Order, rank: usize, team: &Team) {
        let Order { n, nb } = order;
        for from in (0..n).step_by(nb).rev() {
            let block = from..(from + nb).min(n);
            if rank == 0 {
                for column in block.clone().rev() {
                    self.eliminate(n, column, from..column);
                }
            }
            team.barrier();
            let mine = share(from, rank, team.ranks())..share(from, rank + 1, team.ranks());
            for column in block {
                // SAFETY: element `column` of the solution is known since the barrier, and only read.
                let x = unsafe { *self.a.from(column, n).first };
                self.take_out((n, column), x, mine.clone());
            }
            team.barrier();
        }
    }

    /// Makes element `column` of the solution of `n` equations and takes it out of `rows`.
    fn eliminate(&self, n: usize, column: usize, rows: Range<usize>) {
        // SAFETY: rank 0 alone works on these rows of the right-hand side until the barrier.
        let x = unsafe {
            let x = self.a.from(column, n).first;
            *x /= *self.a.from(column, column).first;
            *x
        };
        self.take_out((n, column), x, rows);
    }

    /// Subtracts `x` times column `column` of U from `rows` of the right-hand side, column `n`, which are the caller's alone.
    fn take_out(&self, (n, column): (usize, usize), x: f64, rows: Range<usize>) {
        for row in rows {
            // SAFETY: the rows are the caller's alone, and U is only read.
            unsafe { *self.a.from(row, n).first -= x * *self.a.from(row, column).first };
        }
    }

    /// A smaller system in the same memory, whose solution uses all of the code and, of memory besides the matrix, all that a repetition uses; `None` where this one is as small.
    #[must_use]
    pub fn warm_in(&self) -> Option<WarmIn<'_, 'm>> {
        let Order { n, nb } = self.order;
        // A panel, one behind it, and an edge.
        let few = 2 * nb + 1;
        (few < n).then_some(WarmIn { of: self, order: Order { n: few, nb } })
    }

    /// The bits of the solution, folded by FNV-1a over words.
    fn digest(&self) -> u64 {
        (0..self.order.n).fold(0xcbf2_9ce4_8422_2325, |hash, row| {
            // SAFETY: the solution is only read until the next barrier.
            let bits = unsafe { *self.a.from(row, self.order.n).first }.to_bits();
            (hash ^ bits).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

impl Body for Hpl<'_> {
    /// HPL's operations; each element of the matrix counted once, whatever caches and packing move besides.
    fn work(&self, _ranks: usize) -> Work {
        let bytes = 8 * (self.order.n * (self.order.n + 1)) as u64;
        let flops = self.flops();
        Work { operations: flops, flops, bytes_loaded: bytes, bytes_stored: bytes, bytes_allocated: 0 }
    }

    fn rank(&self, rank: usize, team: &Team, reps: u64) {
        self.solve(self.order, rank, team, reps);
    }
}

/// What runs before a system is solved for the first time: a smaller one, which is neither checked nor timed.
#[derive(Clone, Copy, Debug)]
pub struct WarmIn<'h, 'm> {
    of: &'h Hpl<'m>,
    order: Order,
}

impl Body for WarmIn<'_, '_> {
    /// None that counts.
    fn work(&self, _ranks: usize) -> Work {
        Work::default()
    }

    fn rank(&self, rank: usize, team: &Team, reps: u64) {
        self.of.solve(self.order, rank, team, reps);
    }
}

impl Hpl<'_> {
    /// What rank `rank` does to solve a system of that order, which is not larger than this one; solutions of smaller ones are not counted.
    #[inline]
    fn solve(&self, order: Order, rank: usize, team: &Team, reps: u64) {
        let ranks = team.ranks();
        // A team of another size would leave columns to nobody: it does nothing, which the check finds.
        if ranks != self.scratch.len() {
            return;
        }
        let (Some(&scratch), Some(mut pivots)) = (self.scratch.get(rank), self.pivots.get(rank).and_then(Cell::enter))
        else {
            return;
        };
        let mut keeper = if rank == 0 { self.keeper.enter() } else { None };
        if let Some(keeper) = &mut keeper {
            keeper.laps.begin();
        }
        for _ in 0..reps {
            self.draw(order, rank, ranks);
            team.barrier();
            let start = keeper.as_ref().map_or(0, |keeper| keeper.laps.now());
            team.barrier();
            self.factor(order, rank, (&mut pivots[..], scratch), team);
            self.substitute(order, rank, team);
            if let Some(keeper) = &mut keeper {
                // Of a smaller system, too: the next region's first lap takes its place.
                keeper.laps.end(0, start);
            }
            if let Some(keeper) = keeper.as_mut().filter(|_| order == self.order) {
                let digest = self.digest();
                keeper.digest = if keeper.solutions == 0 { digest } else { keeper.digest };
                keeper.differing += u64::from(digest != keeper.digest);
                keeper.solutions += 1;
            }
            team.barrier();
        }
    }
}

fn norm(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().map(f64::abs).fold(0.0, |a, b| if b > a || b.is_nan() { b } else { a })
}

/// The scaled residual that HPL allows.
pub const LIMIT: f64 = 16.0;
const UNIT_ROUNDOFF: f64 = f64::EPSILON / 2.0;
/// Columns that are exchanged, solved and packed at once.
const WIDTH: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bed::{Lines, run, spans};
    use std::sync::atomic::{AtomicU64, Ordering};

    fn clock() -> u64 {
        static TICKS: AtomicU64 = AtomicU64::new(1);
        TICKS.fetch_add(1, Ordering::Relaxed)
    }

    fn body(order: Order, isa: Isa, memory: &mut [Lines]) -> Hpl<'_> {
        Hpl::new(order, isa, memory.iter_mut().map(Lines::words).collect(), clock).expect("fits")
    }

    /// Gaussian elimination with partial pivoting as a textbook has it.
    fn textbook(body: &Hpl<'_>) -> Vec<f64> {
        let n = body.order.n;
        let mut a: Vec<Vec<f64>> =
            (0..n).map(|row| (0..=n).map(|column| body.element(row, column)).collect()).collect();
        for k in 0..n {
            let pivot = (k..n).max_by(|&p, &q| a[p][k].abs().total_cmp(&a[q][k].abs())).expect("a row");
            a.swap(k, pivot);
            let pivot = a[k].clone();
            for row in &mut a[k + 1..] {
                let factor = row[k] / pivot[k];
                row.iter_mut().zip(&pivot).skip(k).for_each(|(element, pivot)| *element -= factor * pivot);
            }
        }
        let mut x = vec![0.0; n];
        for row in (0..n).rev() {
            let known: f64 = (row + 1..n).map(|column| a[row][column] * x[column]).sum();
            x[row] = (a[row][n] - known) / a[row][row];
        }
        x
    }

    #[test]
    fn solutions_are_the_textbooks_for_every_shape_team_and_instruction_set() {
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa::is_available(isa)) {
            for (n, nb, ranks) in
                [(1, 8, 1), (2, 1, 2), (37, 8, 1), (25, 7, 3), (130, 32, 2), (200, 64, 2), (90, 256, 2)]
            {
                let order = Order { n, nb };
                let mut memory = spans(span_words(order, ranks));
                let mut body = body(order, isa, &mut memory);
                run(&body, ranks, 1);
                let (ours, theirs) = (body.solution(), textbook(&body));
                let apart = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(apart <= 1e-8 * norm(theirs.clone()), "{isa:?} {order:?} {ranks}: {apart} of {ours:?}");
                let check = body.check_and_reset();
                assert!(check.solutions == 1 && check.residual <= LIMIT, "{isa:?} {order:?} {ranks}: {check:?}");
            }
        }
    }

    #[test]
    fn repetitions_give_the_same_bits() {
        let order = Order { n: 150, nb: 32 };
        let mut memory = spans(span_words(order, 2));
        let mut body = body(order, isa::widest(), &mut memory);
        run(&body, 2, 3);
        assert_eq!(body.laps(0).len(), 3);
        run(&body, 2, 2);
        let check = body.check_and_reset();
        assert_eq!((check.solutions, check.differing), (5, 0));
    }

    #[test]
    fn a_warm_in_is_a_smaller_system_that_is_not_counted() {
        let order = Order { n: 150, nb: 32 };
        let mut memory = spans(span_words(order, 2));
        let mut body = body(order, isa::widest(), &mut memory);
        run(&body, 2, 1);
        let cold = body.check_and_reset();
        let smaller = body.warm_in().expect("150 equations are more than two panels and one");
        assert_eq!((smaller.order, smaller.work(2)), (Order { n: 65, nb: 32 }, Work::default()));
        run(&smaller, 2, 1);
        let begin = body.keeper.enter().expect("nobody is at work").laps.now();
        run(&body, 2, 2);
        assert_eq!(body.laps(begin).len(), 2, "laps of a warm-in are not the next region's");
        let warm = body.check_and_reset();
        assert_eq!((warm.solutions, warm.differing, warm.digest), (2, 0, cold.digest));
        assert!(warm.residual <= LIMIT, "{warm:?}");
    }

    #[test]
    fn a_small_system_is_its_own_warm_in() {
        let order = Order { n: 65, nb: 32 };
        let mut memory = spans(span_words(order, 1));
        assert_eq!(body(order, Isa::Baseline, &mut memory).warm_in().map(|smaller| smaller.order), None);
    }

    #[test]
    fn a_wrong_solution_and_one_that_differs_are_found() {
        let order = Order { n: 100, nb: 16 };
        let mut memory = spans(span_words(order, 1));
        let mut body = body(order, isa::widest(), &mut memory);
        run(&body, 1, 1);
        // SAFETY: an element of the solution, on which no body is at work.
        unsafe { *body.a.from(7, 100).first *= 1.0 + 1e-9 };
        assert!(body.check_and_reset().residual > LIMIT);
        run(&body, 1, 1);
        body.keeper.get_mut().digest ^= 1;
        run(&body, 1, 1);
        assert_eq!(body.check_and_reset().differing, 1);
    }

    #[test]
    fn operations_are_counted_as_hpl_does() {
        let order = Order { n: 1000, nb: 64 };
        let mut memory = spans(span_words(order, 1));
        let body = body(order, Isa::Baseline, &mut memory);
        // 2/3 n^3 + 3/2 n^2.
        assert_eq!(body.flops(), 668_166_666);
        assert_eq!(Hpl::new(order, Isa::Baseline, Vec::new(), clock).err(), Some(Unfit::Memory));
    }

    #[test]
    fn a_team_of_another_size_solves_nothing() {
        let order = Order { n: 20, nb: 8 };
        let mut memory = spans(span_words(order, 2));
        let mut body = body(order, Isa::Baseline, &mut memory);
        run(&body, 1, 1);
        assert_eq!(body.check_and_reset().solutions, 0);
    }
}
