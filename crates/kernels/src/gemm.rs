//! Matrix multiplication in one rank's hands: C += A B over matrices stored by columns, in the manner of Goto and van de
//! Geijn (2008).
//!
//! Operands are packed so that the innermost loop reads both of them from one address on: A in strips of a tile's rows, B in
//! strips of a tile's columns, padded with zeros. A block of A stays in the second cache, a strip of B in the first, and
//! the tile of C in registers. Edges are computed as whole tiles alongside the matrix. Every element of C is a sum in the order
//! of k, whoever computes it: results are the same bits however columns are shared out.

use baremark_model::machine::Isa;
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::arch::x86_64::{_mm256_add_pd, _mm256_fmadd_pd, _mm256_load_pd, _mm256_loadu_pd, _mm256_set1_pd};
use std::arch::x86_64::{_mm256_setzero_pd, _mm256_storeu_pd};
use std::arch::x86_64::{_mm512_add_pd, _mm512_fmadd_pd, _mm512_load_pd, _mm512_loadu_pd, _mm512_set1_pd};
use std::arch::x86_64::{_mm512_setzero_pd, _mm512_storeu_pd};

/// A part of a matrix stored by columns.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    pub first: *mut f64,
    /// Words from one column to the next.
    pub stride: usize,
}

impl Matrix {
    /// The part that begins at `row` and `column`.
    ///
    /// # Safety
    /// The element must lie in the matrix, or just behind its last one.
    pub unsafe fn from(self, row: usize, column: usize) -> Self {
        // SAFETY: the caller's promise.
        Matrix { first: unsafe { self.first.add(row + column * self.stride) }, stride: self.stride }
    }
}

/// C has `rows` x `columns`, A `rows` x `depth`, B `depth` x `columns`.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
}

/// Multiplication by the instructions of one set.
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    pub isa: Isa,
    /// Rows of a tile.
    pub tile_rows: usize,
    /// Columns of a tile.
    pub tile_columns: usize,
    tile: Tile,
    pack_rows: Pack,
    pack_columns: Pack,
}

/// `C += A B` for one tile, from packed operands: depth, A, B, C and its stride.
type Tile = unsafe fn(usize, *const f64, *const f64, *mut f64, usize);
/// Packs one strip: the matrix, how many of its rows or columns there are, depth, factor, to where.
type Pack = unsafe fn(Matrix, usize, usize, f64, *mut f64);

impl Gemm {
    pub fn new(isa: Isa) -> Self {
        match isa {
            Isa::Baseline => Gemm::tiled::<4, 4>(isa, gemm_tile_baseline),
            Isa::Avx2 => Gemm::tiled::<8, 6>(isa, gemm_tile_avx2),
            Isa::Avx512 => Gemm::tiled::<24, 8>(isa, gemm_tile_avx512),
        }
    }

    fn tiled<const ROWS: usize, const COLUMNS: usize>(isa: Isa, tile: Tile) -> Self {
        let (pack_rows, pack_columns) = (pack_rows::<ROWS>, pack_columns::<COLUMNS>);
        Gemm { isa, tile_rows: ROWS, tile_columns: COLUMNS, tile, pack_rows, pack_columns }
    }

    /// Packs the strips `strips` of `rows` rows of A, times `factor`. Strip `s` begins at word `s * tile_rows * depth`.
    ///
    /// # Safety
    /// A must have `rows` x `depth` elements, and `to` room for `rows` rounded up to whole strips, times `depth`.
    pub unsafe fn pack_a(self, a: Matrix, shape: Shape, strips: std::ops::Range<usize>, factor: f64, to: *mut f64) {
        for strip in strips {
            let row = strip * self.tile_rows;
            let rows = shape.rows.saturating_sub(row).min(self.tile_rows);
            // SAFETY: rows `row..row + rows` are in A, and the strip is inside the room of `to`.
            unsafe { (self.pack_rows)(a.from(row, 0), rows, shape.depth, factor, to.add(row * shape.depth)) };
        }
    }

    /// Packs all strips of B's columns.
    ///
    /// # Safety
    /// B must have `depth` x `columns` elements, and `to` room for `columns` rounded up to whole strips, times `depth`.
    pub unsafe fn pack_b(self, b: Matrix, shape: Shape, to: *mut f64) {
        for column in (0..shape.columns).step_by(self.tile_columns) {
            let columns = (shape.columns - column).min(self.tile_columns);
            // SAFETY: columns `column..column + columns` are in B, and the strip is inside the room of `to`.
            unsafe { (self.pack_columns)(b.from(0, column), columns, shape.depth, 1.0, to.add(column * shape.depth)) };
        }
    }

    /// `C += A B` from operands that are packed whole.
    ///
    /// # Safety
    /// `a` and `b` must be packed for `shape`, on boundaries of 64 bytes, and C must have `rows` x `columns` elements that
    /// nobody else uses.
    pub unsafe fn multiply(self, shape: Shape, a: *const f64, b: *const f64, c: Matrix) {
        let block = (BLOCK_WORDS / shape.depth.max(1) / self.tile_rows).max(1) * self.tile_rows;
        for row in (0..shape.rows).step_by(block) {
            let rows = (shape.rows - row).min(block);
            for column in (0..shape.columns).step_by(self.tile_columns) {
                let columns = (shape.columns - column).min(self.tile_columns);
                // SAFETY: packed strips begin at these words, and the rows and columns are inside C.
                unsafe {
                    let (a, b) = (a.add(row * shape.depth), b.add(column * shape.depth));
                    self.column_of_tiles(Shape { rows, columns, depth: shape.depth }, a, b, c.from(row, column));
                }
            }
        }
    }

    /// The tiles of one strip of B.
    ///
    /// # Safety
    /// As for `multiply`; `columns` is at most a tile's.
    unsafe fn column_of_tiles(self, shape: Shape, a: *const f64, b: *const f64, c: Matrix) {
        for row in (0..shape.rows).step_by(self.tile_rows) {
            let rows = (shape.rows - row).min(self.tile_rows);
            // SAFETY: the strip begins at that word; a whole tile is inside C, and an edge is computed alongside it and
            // added as far as C goes.
            unsafe {
                let (a, c) = (a.add(row * shape.depth), c.from(row, 0));
                if rows == self.tile_rows && shape.columns == self.tile_columns {
                    (self.tile)(shape.depth, a, b, c.first, c.stride);
                } else {
                    let mut edge = Edge([0.0; MOST_TILE]);
                    (self.tile)(shape.depth, a, b, edge.0.as_mut_ptr(), self.tile_rows);
                    for column in 0..shape.columns {
                        for row in 0..rows {
                            *c.from(row, column).first += edge.0[column * self.tile_rows + row];
                        }
                    }
                }
            }
        }
    }

    /// `C -= A B` from operands as they lie, packed here block by block into `scratch`.
    ///
    /// # Safety
    /// A, B and C must have the elements of `shape`, C's nobody else's, and `scratch` must be made for as deep and as wide.
    pub unsafe fn subtract(self, shape: Shape, a: Matrix, b: Matrix, c: Matrix, scratch: Scratch) {
        if shape.depth == 0 || shape.columns == 0 {
            return;
        }
        // SAFETY: `scratch` has room for B, and for a block of A, by `Scratch::words`.
        unsafe { self.pack_b(b, shape, scratch.b) };
        let block = (BLOCK_WORDS / shape.depth / self.tile_rows).max(1) * self.tile_rows;
        for row in (0..shape.rows).step_by(block) {
            let part = Shape { rows: (shape.rows - row).min(block), ..shape };
            // SAFETY: rows from `row` on are in A and in C.
            unsafe {
                self.pack_a(a.from(row, 0), part, 0..part.rows.div_ceil(self.tile_rows), -1.0, scratch.a);
                self.multiply(part, scratch.a, scratch.b, c.from(row, 0));
            }
        }
    }
}

/// A tile that only begins inside C, in whole cache lines: a vector that crosses two costs twice.
#[repr(align(64))]
struct Edge([f64; MOST_TILE]);

/// One rank's room to pack in.
#[derive(Clone, Copy, Debug)]
pub struct Scratch {
    pub a: *mut f64,
    pub b: *mut f64,
}

impl Scratch {
    /// The words for products up to `depth` deep and `columns` wide, on a boundary of 64 bytes.
    pub fn words(depth: usize, columns: usize) -> usize {
        Self::a_words(depth) + depth * (columns + MOST_COLUMNS)
    }

    /// # Safety
    /// `first` must begin the words that [`Scratch::words`] says.
    pub unsafe fn new(first: *mut f64, depth: usize) -> Self {
        // SAFETY: the caller's promise.
        Scratch { a: first, b: unsafe { first.add(Self::a_words(depth)) } }
    }

    fn a_words(depth: usize) -> usize {
        BLOCK_WORDS.max(depth * MOST_ROWS).next_multiple_of(8)
    }
}

/// # Safety
/// The matrix must have `rows` (at most `ROWS`) x `depth` elements, and `to` room for `ROWS` x `depth`.
unsafe fn pack_rows<const ROWS: usize>(a: Matrix, rows: usize, depth: usize, factor: f64, to: *mut f64) {
    for k in 0..depth {
        // SAFETY: the caller's promise.
        unsafe {
            let (from, to) = (a.from(0, k).first, to.add(k * ROWS));
            if rows == ROWS {
                for row in 0..ROWS {
                    *to.add(row) = factor * *from.add(row);
                }
            } else {
                for row in 0..ROWS {
                    *to.add(row) = if row < rows { factor * *from.add(row) } else { 0.0 };
                }
            }
        }
    }
}

/// # Safety
/// The matrix must have `depth` x `columns` (at most `COLUMNS`) elements, and `to` room for `COLUMNS` x `depth`.
unsafe fn pack_columns<const COLUMNS: usize>(b: Matrix, columns: usize, depth: usize, factor: f64, to: *mut f64) {
    for k in 0..depth {
        for column in 0..COLUMNS {
            // SAFETY: the caller's promise.
            unsafe {
                *to.add(k * COLUMNS + column) = if column < columns { factor * *b.from(k, column).first } else { 0.0 };
            }
        }
    }
}

/// 24 rows in three registers, times 8 columns: 24 sums, which 32 registers hold alongside a strip's step of A.
///
/// # Safety
/// `a` must have 24 and `b` 8 words for each step of `depth`, `a` on a boundary of 64 bytes; `c` 24 rows of 8 columns.
#[inline(never)]
#[target_feature(enable = "avx512f")]
unsafe fn gemm_tile_avx512(depth: usize, mut a: *const f64, mut b: *const f64, c: *mut f64, stride: usize) {
    let mut sums = [[_mm512_setzero_pd(); 3]; 8];
    // SAFETY: the caller's promise, for all that is loaded, asked for and stored.
    unsafe {
        for column in 0..8 {
            for part in 0..3 {
                _mm_prefetch::<_MM_HINT_T0>(c.add(column * stride + 8 * part).cast());
            }
        }
        for _ in 0..depth {
            let rows = [_mm512_load_pd(a), _mm512_load_pd(a.add(8)), _mm512_load_pd(a.add(16))];
            for (column, sums) in sums.iter_mut().enumerate() {
                let factor = _mm512_set1_pd(*b.add(column));
                for (sum, rows) in sums.iter_mut().zip(rows) {
                    *sum = _mm512_fmadd_pd(rows, factor, *sum);
                }
            }
            a = a.add(24);
            b = b.add(8);
        }
        for (column, sums) in sums.into_iter().enumerate() {
            for (part, sum) in sums.into_iter().enumerate() {
                let at = c.add(column * stride + 8 * part);
                _mm512_storeu_pd(at, _mm512_add_pd(_mm512_loadu_pd(at), sum));
            }
        }
    }
}

/// 8 rows in two registers, times 6 columns: 12 sums, which 16 registers hold alongside two of A and two of B.
///
/// # Safety
/// `a` must have 8 and `b` 6 words for each step of `depth`, `a` on a boundary of 32 bytes; `c` 8 rows of 6 columns.
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
unsafe fn gemm_tile_avx2(depth: usize, mut a: *const f64, mut b: *const f64, c: *mut f64, stride: usize) {
    let mut sums = [[_mm256_setzero_pd(); 2]; 6];
    // SAFETY: the caller's promise, for all that is loaded and stored.
    unsafe {
        for _ in 0..depth {
            let rows = [_mm256_load_pd(a), _mm256_load_pd(a.add(4))];
            for (column, sums) in sums.iter_mut().enumerate() {
                let factor = _mm256_set1_pd(*b.add(column));
                for (sum, rows) in sums.iter_mut().zip(rows) {
                    *sum = _mm256_fmadd_pd(rows, factor, *sum);
                }
            }
            a = a.add(8);
            b = b.add(6);
        }
        for (column, sums) in sums.into_iter().enumerate() {
            for (part, sum) in sums.into_iter().enumerate() {
                let at = c.add(column * stride + 4 * part);
                _mm256_storeu_pd(at, _mm256_add_pd(_mm256_loadu_pd(at), sum));
            }
        }
    }
}

/// Four rows times four columns, for processors that have neither of the others.
///
/// # Safety
/// `a` and `b` must have 4 words for each step of `depth`; `c` 4 rows of 4 columns.
#[inline(never)]
unsafe fn gemm_tile_baseline(depth: usize, a: *const f64, b: *const f64, c: *mut f64, stride: usize) {
    let mut sums = [[0.0; 4]; 4];
    for k in 0..depth {
        // SAFETY: the caller's promise.
        let (rows, factors) = unsafe { (*a.cast::<[f64; 4]>().add(k), *b.cast::<[f64; 4]>().add(k)) };
        for (sums, factor) in sums.iter_mut().zip(factors) {
            for (sum, row) in sums.iter_mut().zip(rows) {
                *sum += row * factor;
            }
        }
    }
    for (column, sums) in sums.into_iter().enumerate() {
        for (row, sum) in sums.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { *c.add(column * stride + row) += sum };
        }
    }
}

/// A block of A: 384 KiB, which a second cache of 1 MiB holds alongside what streams through it.
const BLOCK_WORDS: usize = 48 << 10;
const MOST_ROWS: usize = 24;
const MOST_COLUMNS: usize = 8;
const MOST_TILE: usize = MOST_ROWS * MOST_COLUMNS;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa;
    use crate::test_bed::Lines;

    /// Small whole numbers, whose products and sums are exact: every order gives the same.
    fn number(row: usize, column: usize) -> f64 {
        ((row * 7 + column * 13) % 19) as f64 - 9.0
    }

    fn matrix(rows: usize, columns: usize, stride: usize) -> Vec<f64> {
        let mut all = vec![f64::NAN; stride * columns];
        for column in 0..columns {
            for row in 0..rows {
                all[column * stride + row] = number(row, column);
            }
        }
        all
    }

    #[test]
    fn products_of_all_shapes_are_exact_and_touch_nothing_else() {
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa::is_available(isa)) {
            let gemm = Gemm::new(isa);
            for (rows, columns, depth) in [(1, 1, 1), (24, 8, 5), (25, 9, 3), (47, 17, 40), (500, 31, 300), (3, 2, 0)] {
                let (mut a, mut b) = (matrix(rows, depth, rows + 3), matrix(depth, columns, depth + 1));
                let mut c = matrix(rows, columns, rows + 2);
                let mut room = Lines::new(Scratch::words(depth, columns), f64::NAN.to_bits());
                let shape = Shape { rows, columns, depth };
                let view = |all: &mut Vec<f64>, stride| Matrix { first: all.as_mut_ptr(), stride };
                // SAFETY: the matrices were made with these shapes and strides, the room for this depth and width.
                unsafe {
                    let scratch = Scratch::new(room.words().as_mut_ptr().cast(), depth);
                    let (a, b) = (view(&mut a, rows + 3), view(&mut b, depth + 1));
                    gemm.subtract(shape, a, b, view(&mut c, rows + 2), scratch);
                }
                for column in 0..columns {
                    for row in 0..rows {
                        let product: f64 = (0..depth).map(|k| number(row, k) * number(k, column)).sum();
                        let expected = number(row, column) - product;
                        let found = c[column * (rows + 2) + row];
                        assert_eq!(found.to_bits(), expected.to_bits(), "{isa:?} {shape:?} at {row}, {column}");
                    }
                    assert!(c[column * (rows + 2) + rows..][..2].iter().all(|word| word.is_nan()), "{isa:?} {shape:?}");
                }
            }
        }
    }
}
