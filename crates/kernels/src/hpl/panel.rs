//! The panel of an LU factorization: columns that are factored by all ranks, each with its share of the rows.
//!
//! The shares are fixed for a panel: a rank writes rows of its own, save where rows are exchanged or solved for in columns
//! that are shared out instead, which barriers set apart.

use crate::gemm::{Gemm, Matrix, Scratch, Shape};
use crate::share::share;
use baremark_model::machine::Isa;
use baremark_model::team::Team;
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::cell::UnsafeCell;
use std::ops::Range;

/// A panel and the tools to factor it.
#[derive(Clone, Copy, Debug)]
pub struct Panel<'h> {
    pub a: Matrix,
    /// Rows of the matrix.
    pub n: usize,
    /// The panel's first column, which is its first row.
    pub from: usize,
    pub gemm: Gemm,
    pub scratch: Scratch,
    pub candidates: &'h [Candidate],
}

/// What a rank publishes where a pivot is sought: its best row, or the row that must give way. A cache line or more each.
#[derive(Debug)]
#[repr(align(128))]
pub struct Candidate(UnsafeCell<Row>);

/// A row of the innermost columns.
#[derive(Clone, Copy, Debug)]
struct Row {
    magnitude: f64,
    row: usize,
    elements: [f64; INNER],
}

// SAFETY: a slot is written by one rank before a barrier and read after it; the next write but one to the slot comes after
// another barrier, which all readers have reached (`Panel::pivot`).
unsafe impl Sync for Candidate {}

impl Candidate {
    /// For each of two columns in turn one slot a rank, and one for the row that gives way.
    pub fn room(ranks: usize) -> Vec<Candidate> {
        let none = Row { magnitude: -1.0, row: 0, elements: [0.0; INNER] };
        (0..2 * (ranks + 1)).map(|_| Candidate(UnsafeCell::new(none))).collect()
    }
}

impl Panel<'_> {
    /// Factors `columns` from their diagonal down. `pivots[c - from]` becomes the row that was exchanged with row `c`.
    /// Rows are complete for their own rank when it returns, for others after a barrier.
    pub fn factor(self, columns: Range<usize>, rank: usize, team: &Team, pivots: &mut [usize]) {
        let width = columns.len();
        if width <= INNER {
            return self.factor_inner(columns, rank, team, pivots);
        }
        let half = (width / 2).next_multiple_of(INNER);
        let (left, right) = (columns.start..columns.start + half, columns.start + half..columns.end);
        self.factor(left.clone(), rank, team, pivots);
        team.barrier();
        self.solve_share(&left, &right, rank, team.ranks(), pivots);
        team.barrier();
        self.subtract_share(&left, &right, rank, team.ranks());
        self.factor(right.clone(), rank, team, pivots);
        // The left columns are nobody's until the next barrier: all are past those of the right half.
        team.barrier();
        let mine = share(half, rank, team.ranks())..share(half, rank + 1, team.ranks());
        // SAFETY: columns of the left half are shared out, all inside the matrix.
        unsafe {
            let first = self.a.from(0, left.start + mine.start);
            exchange(first, mine.len(), right.start, &pivots[right.start - self.from..right.end - self.from]);
        }
    }

    /// Exchanges the left half's rows in this rank's share of the right half's columns, and solves for the rows of U.
    fn solve_share(self, left: &Range<usize>, right: &Range<usize>, rank: usize, ranks: usize, pivots: &[usize]) {
        let mine = share(right.len(), rank, ranks)..share(right.len(), rank + 1, ranks);
        let pivots = &pivots[left.start - self.from..left.end - self.from];
        // SAFETY: the columns are this rank's alone between two barriers, and the left half is only read; the scratch has
        // room for any part of a panel.
        unsafe {
            let first = self.a.from(0, right.start + mine.start);
            exchange(first, mine.len(), left.start, pivots);
            let l = self.a.from(left.start, left.start);
            solve(self.gemm, l, first.from(left.start, 0), left.len(), mine.len(), self.scratch);
        }
    }

    /// Subtracts the product of the left half and the rows of U from this rank's rows of the right half.
    fn subtract_share(self, left: &Range<usize>, right: &Range<usize>, rank: usize, ranks: usize) {
        let rows = self.rows(rank, ranks, right.start);
        let shape = Shape { rows: rows.len(), columns: right.len(), depth: left.len() };
        // SAFETY: the rows are this rank's alone, the rows of U are only read since the barrier before.
        unsafe {
            let (l, u) = (self.a.from(rows.start, left.start), self.a.from(left.start, right.start));
            self.gemm.subtract(shape, l, u, self.a.from(rows.start, right.start), self.scratch);
        }
    }

    /// This rank's rows of the panel, as far as they are not above `first`.
    fn rows(self, rank: usize, ranks: usize, first: usize) -> Range<usize> {
        let at = |rank| (self.from + share(self.n - self.from, rank, ranks)).max(first);
        at(rank)..at(rank + 1)
    }

    /// A few columns, one after the other.
    fn factor_inner(self, columns: Range<usize>, rank: usize, team: &Team, pivots: &mut [usize]) {
        for column in columns.clone() {
            let (pivot, row) = self.pivot(&columns, column, rank, team);
            if let Some(place) = pivots.get_mut(column - self.from) {
                *place = pivot;
            }
            let factor = 1.0 / row.elements[column - columns.start];
            let rows = self.rows(rank, team.ranks(), column + 1);
            // SAFETY: the rows are this rank's alone.
            unsafe {
                let multipliers = self.a.from(rows.start, column).first;
                scale(multipliers, rows.len(), factor);
                for behind in column + 1..columns.end {
                    let to = self.a.from(rows.start, behind).first;
                    take_out(to, multipliers, rows.len(), row.elements[behind - columns.start]);
                }
            }
        }
    }

    /// Finds the pivot of `column`, exchanges its row with the diagonal's in `columns`, and returns it. Of equal magnitudes
    /// the first row's wins. One barrier: what is published lies in slots that the next column does not use, and for the
    /// column after it all have passed the next barrier.
    fn pivot(self, columns: &Range<usize>, column: usize, rank: usize, team: &Team) -> (usize, Row) {
        let ranks = team.ranks();
        let slots = &self.candidates[(column % 2) * (ranks + 1)..][..=ranks];
        let mine = self.rows(rank, ranks, column);
        let holds_diagonal = mine.contains(&column);
        // SAFETY: rows `mine` are this rank's alone, and so is its slot, and the last one is the diagonal's owner's.
        unsafe {
            *slots[rank].0.get() = self.best(columns, column, &mine);
            if holds_diagonal {
                *slots[ranks].0.get() = self.row(columns, column);
            }
        }
        team.barrier();
        // SAFETY: every slot was written before the barrier and is only read now.
        let published = |slot: usize| unsafe { *slots[slot].0.get() };
        let mut best = published(0);
        for other in (1..ranks).map(published) {
            if other.magnitude > best.magnitude {
                best = other;
            }
        }
        // SAFETY: both rows are written by their owners.
        unsafe {
            if holds_diagonal {
                self.put(columns, column, &best);
            }
            if best.row != column && mine.contains(&best.row) {
                self.put(columns, best.row, &published(ranks));
            }
        }
        (best.row, best)
    }

    /// The row of `rows` with the largest magnitude in `column`; less than any where there is no row. No number at all is
    /// larger than none, so that a matrix that cannot be factored gives NaN instead of no pivot.
    ///
    /// # Safety
    /// Nobody else may write the rows.
    unsafe fn best(self, columns: &Range<usize>, column: usize, rows: &Range<usize>) -> Row {
        let (mut magnitude, mut place) = (-1.0, None);
        for row in rows.clone() {
            // SAFETY: the row is in the matrix.
            let found = unsafe { *self.a.from(row, column).first }.abs();
            if found > magnitude {
                (magnitude, place) = (found, Some(row));
            }
        }
        let Some(row) = place.or(rows.clone().next()) else {
            return Row { magnitude: -2.0, row: column, elements: [0.0; INNER] };
        };
        // SAFETY: the row is in the matrix.
        Row { magnitude, ..unsafe { self.row(columns, row) } }
    }

    /// # Safety
    /// Nobody else may write the row.
    unsafe fn row(self, columns: &Range<usize>, row: usize) -> Row {
        let mut elements = [0.0; INNER];
        for (element, column) in elements.iter_mut().zip(columns.clone()) {
            // SAFETY: the row is in the matrix.
            *element = unsafe { *self.a.from(row, column).first };
        }
        Row { magnitude: 0.0, row, elements }
    }

    /// # Safety
    /// The row must be the caller's alone.
    unsafe fn put(self, columns: &Range<usize>, row: usize, from: &Row) {
        for (element, column) in from.elements.iter().zip(columns.clone()) {
            // SAFETY: the row is in the matrix.
            unsafe { *self.a.from(row, column).first = *element };
        }
    }
}

/// Exchanges row `from + i` with row `pivots[i]` in `columns` columns from `first` on, for every `i` in order.
///
/// # Safety
/// The columns must be the caller's alone, and the rows inside them.
#[inline(never)]
pub unsafe fn exchange(first: Matrix, columns: usize, from: usize, pivots: &[usize]) {
    for column in 0..columns {
        // SAFETY: the caller's promise. The rows of the next column are asked for meanwhile; where there is none, that is
        // a prefetch of nothing, which harms nobody.
        unsafe {
            let next = first.first.wrapping_add((column + 1) * first.stride);
            let column = first.from(0, column).first;
            for (row, &pivot) in (from..).zip(pivots) {
                _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(pivot).cast());
                column.add(row).swap(column.add(pivot));
            }
        }
    }
}

/// Solves L X = B in place of B for `columns` columns, where L is unit lower triangular of order `order`; by halves, so that
/// nearly all of it is multiplication.
///
/// # Safety
/// L must have `order` rows and columns that nobody writes, B as many rows and `columns` columns that are the caller's
/// alone; the scratch must have room for half the order.
pub unsafe fn solve(gemm: Gemm, l: Matrix, b: Matrix, order: usize, columns: usize, scratch: Scratch) {
    // SAFETY: the caller's promise, for each part.
    unsafe {
        if order <= LEAF {
            return solve_leaf(gemm.isa, l, b, order, columns);
        }
        let half = (order / 2).next_multiple_of(LEAF);
        solve(gemm, l, b, half, columns, scratch);
        let shape = Shape { rows: order - half, columns, depth: half };
        gemm.subtract(shape, l.from(half, 0), b, b.from(half, 0), scratch);
        solve(gemm, l.from(half, half), b.from(half, 0), order - half, columns, scratch);
    }
}

/// The measured loop of [`solve`], for each width of vectors: the same operations in the same order, none of them fused.
///
/// # Safety
/// As for [`solve`]; `order` is at most [`LEAF`].
unsafe fn solve_leaf(isa: Isa, l: Matrix, b: Matrix, order: usize, columns: usize) {
    // SAFETY: the caller's promise; whoever names an instruction set has found it.
    unsafe {
        match isa {
            Isa::Avx512 => solve_leaf_avx512(l, b, order, columns),
            Isa::Avx2 => solve_leaf_avx2(l, b, order, columns),
            Isa::Baseline => solve_leaf_plainly(l, b, order, columns),
        }
    }
}

/// # Safety
/// As for [`solve_leaf`].
#[target_feature(enable = "avx512f")]
unsafe fn solve_leaf_avx512(l: Matrix, b: Matrix, order: usize, columns: usize) {
    // SAFETY: the caller's promise.
    unsafe { solve_leaf_plainly(l, b, order, columns) };
}

/// # Safety
/// As for [`solve_leaf`].
#[target_feature(enable = "avx2")]
unsafe fn solve_leaf_avx2(l: Matrix, b: Matrix, order: usize, columns: usize) {
    // SAFETY: the caller's promise.
    unsafe { solve_leaf_plainly(l, b, order, columns) };
}

/// # Safety
/// As for [`solve_leaf`].
#[inline(always)]
unsafe fn solve_leaf_plainly(l: Matrix, b: Matrix, order: usize, columns: usize) {
    // Columns of L with zeros on and above the diagonal: whole columns are subtracted, of a length known here.
    let mut lower = [const { Lane([0.0; LEAF]) }; LEAF];
    for (column, lower) in lower.iter_mut().enumerate().take(order) {
        for (row, element) in lower.0.iter_mut().enumerate().take(order).skip(column + 1) {
            // SAFETY: the caller's promise.
            *element = unsafe { *l.from(row, column).first };
        }
    }
    // Several columns at once: each waits for its own last step.
    let mut x = [const { Lane([0.0; LEAF]) }; LEAF_COLUMNS];
    for column in (0..columns).step_by(LEAF_COLUMNS) {
        let count = (columns - column).min(LEAF_COLUMNS);
        for (offset, x) in x.iter_mut().enumerate().take(count) {
            for (row, x) in x.0.iter_mut().enumerate().take(order) {
                // SAFETY: the caller's promise.
                *x = unsafe { *b.from(row, column + offset).first };
            }
        }
        for (row, lower) in lower.iter().enumerate() {
            for x in &mut x {
                let factor = x.0[row];
                for (x, lower) in x.0.iter_mut().zip(&lower.0) {
                    *x -= factor * lower;
                }
            }
        }
        for (offset, x) in x.iter().enumerate().take(count) {
            for (row, x) in x.0.iter().enumerate().take(order) {
                // SAFETY: the caller's promise.
                unsafe { *b.from(row, column + offset).first = *x };
            }
        }
    }
}

/// # Safety
/// `count` words from `first` on must be the caller's alone.
unsafe fn scale(first: *mut f64, count: usize, factor: f64) {
    for row in 0..count {
        // SAFETY: the caller's promise.
        unsafe { *first.add(row) *= factor };
    }
}

/// # Safety
/// `count` words from `to` on must be the caller's alone, and as many from `from` on readable and apart from them.
unsafe fn take_out(to: *mut f64, from: *const f64, count: usize, factor: f64) {
    for row in 0..count {
        // SAFETY: the caller's promise.
        unsafe { *to.add(row) -= factor * *from.add(row) };
    }
}

/// Some rows of a column, in whole cache lines: a vector that crosses two costs twice.
#[repr(align(64))]
struct Lane([f64; LEAF]);

/// Columns that are factored one after the other.
const INNER: usize = 8;
/// Rows that are solved for one after the other.
const LEAF: usize = 16;
/// Columns that are solved at once there.
const LEAF_COLUMNS: usize = 4;
