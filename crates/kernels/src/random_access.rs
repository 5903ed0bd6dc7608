//! RandomAccess of the HPC Challenge, version 1.5: random updates of a table, the `Star` variant with a private table per rank.
//!
//! The update stream is the shift register x -> 2x mod (x^64 + x^2 + x + 1) over GF(2), begun at 1. As in the
//! reference code it is cut into 128 streams whose starts lie `updates / 128` steps apart, `updates` being four times the
//! table's words, and the 128 advance in turn: 128 updates may be under way at once, of the 1,024 that the rules allow.
//! Repetitions continue the streams where the last one left them, so that all updates ever done are a prefix of each stream
//! and can be undone: the table is only ever changed by exclusive-or.

use crate::cell::Cell;
use crate::fingerprint::{self, Growing, Key};
use baremark_model::seam::{Body, Work};
use baremark_model::team::Team;
use baremark_model::verify::{RANGES, Ranges};
use std::arch::x86_64::{__m128i, _mm_add_epi64, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi64x};
use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::arch::x86_64::{_mm_shuffle_epi32, _mm_srai_epi32, _mm_storeu_si128, _mm_xor_si128};
use std::hint::black_box;
use std::marker::PhantomData;
use std::thread;

/// The feedback of the shift register: x^2 + x + 1.
pub const POLY: u64 = 7;
/// The length of the register's cycle from 1.
pub const PERIOD: i64 = 1_317_624_576_693_539_401;
/// Streams that advance in turn.
pub const STREAMS: usize = 128;
/// Updates of one repetition on each rank.
pub const QUANTUM: u64 = 1 << 16;

/// How updates are done; the updates are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Each stream's update follows its advance, as in the reference code.
    Reference,
    /// An update's line is asked for when its stream advances, and updated when 128 others have been asked for; the rules
    /// allow 1,024 to be under way.
    Optimized,
}

/// The tables of all ranks and where each rank stands in the stream.
#[derive(Debug)]
pub struct RandomAccess<'m> {
    variant: Variant,
    ranks: Vec<Cell<Rank>>,
    words: usize,
    /// The tables' memory is borrowed for as long as this lives.
    memory: PhantomData<&'m mut [u64]>,
}

/// One rank's streams and table. The registers come first: they begin a cache line.
#[derive(Debug)]
struct Rank {
    registers: [u64; STREAMS],
    /// Registers whose lines were asked for; zero, which changes no word, outside the region.
    ring: [[u64; 2]; AHEAD / 2],
    table: *mut u64,
    mask: u64,
    /// How often all 128 streams have advanced.
    steps: u64,
}

// SAFETY: the table behind the pointer is borrowed exclusively for the life of the kernel, and each rank has its own.
unsafe impl Send for Rank {}

/// A table that cannot serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a table of {words} words; every rank needs 2^n words, {STREAMS} at least, and as many as the others")]
pub struct Shape {
    /// How many words it has.
    pub words: usize,
}

/// What the check of all updates found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Updates that were checked, over all ranks.
    pub updates: u64,
    /// Words that are not what the updates make of them, over all ranks.
    pub errors: u64,
    /// How it was checked.
    pub method: Method,
}

/// How a table is held against its updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// By the [fingerprint](crate::fingerprint) of all updates, which misses a wrong table with a probability of at most
    /// 2^-64. Only where it differs are all updates undone, to count the wrong words.
    #[default]
    Fingerprint,
    /// All updates are undone and every word is looked at, where the processor has no carry-less multiplication.
    Undone,
}

impl<'m> RandomAccess<'m> {
    /// Fills one table for each rank with `table[i] = i` and puts every stream at its start.
    ///
    /// # Errors
    /// When a table's words are not a power of two, fewer than 128, or not as many as the others'.
    pub fn new(tables: Vec<&'m mut [u64]>, variant: Variant) -> Result<Self, Shape> {
        let words = tables.first().map_or(0, |table| table.len());
        let fits = |table: &&'m mut [u64]| table.len() == words && words >= STREAMS && words.is_power_of_two();
        if let Some(table) = tables.iter().find(|table| !fits(table)) {
            return Err(Shape { words: table.len() });
        }
        let registers = starting_registers(words as u64);
        let mut tables = tables;
        thread::scope(|scope| {
            for table in &mut tables {
                scope.spawn(|| fill(table));
            }
        });
        let rank = |table: &'m mut [u64]| {
            Cell::new(Rank {
                registers,
                ring: [[0; 2]; AHEAD / 2],
                table: table.as_mut_ptr(),
                mask: words as u64 - 1,
                steps: 0,
            })
        };
        Ok(RandomAccess { variant, ranks: tables.into_iter().map(rank).collect(), words, memory: PhantomData })
    }

    /// Holds every table against all updates, which plain scalar code does once more by the definition, and puts tables and
    /// streams back to their beginning. Each rank's by a thread of its own.
    pub fn check_and_reset(&mut self) -> Check {
        let words = self.words;
        let method = if fingerprint::is_available() { Method::Fingerprint } else { Method::Undone };
        self.each_rank(method, |_, rank| rank.check_and_reset(words, method))
    }

    /// Holds the words of each table's [`Ranges`] by `seed` against all of their updates, and leaves everything as it is where they are right. Of a table
    /// with a wrong word in these ranges all wrong words are counted, and it is put back to its beginning. `None` where the processor has no
    /// carry-less multiplication: updates cannot be undone in ranges alone.
    pub fn check_ranges(&mut self, seed: u64) -> Option<Check> {
        let words = self.words;
        fingerprint::is_available().then(|| {
            self.each_rank(Method::Fingerprint, |index, rank| rank.check_ranges(words, Ranges::drawn(seed, index)))
        })
    }

    /// What `check` finds of all ranks, each by a thread of its own.
    fn each_rank(&mut self, method: Method, check: impl Fn(usize, &mut Rank) -> Check + Sync) -> Check {
        let (words, check) = (self.words, &check);
        let checks = thread::scope(|scope| {
            let ranks = self.ranks.iter_mut().map(Cell::get_mut).enumerate();
            let started: Vec<_> = ranks.map(|(index, rank)| scope.spawn(move || check(index, rank))).collect();
            // A thread that panicked has checked nothing: everything counts as wrong.
            let lost = Check { updates: 0, errors: words as u64, method };
            started.into_iter().map(|thread| thread.join().unwrap_or(lost)).collect::<Vec<_>>()
        });
        checks.iter().fold(Check { method, ..Check::default() }, |sum, check| Check {
            updates: sum.updates + check.updates,
            errors: sum.errors + check.errors,
            method,
        })
    }
}

impl Body for RandomAccess<'_> {
    /// Table words only: the 1 KiB of registers stays in the nearest cache. An update loads its word before it stores it,
    /// so that nothing is read only because it will be written.
    fn work(&self, ranks: usize) -> Work {
        let operations = QUANTUM * ranks as u64;
        Work { operations, flops: 0, bytes_loaded: 8 * operations, bytes_stored: 8 * operations, bytes_allocated: 0 }
    }

    fn rank(&self, rank: usize, _team: &Team, reps: u64) {
        let Some(mut state) = self.ranks.get(rank).and_then(Cell::enter) else { return };
        let state = &mut *state;
        let steps = reps * (QUANTUM / STREAMS as u64);
        // Through pointers that the compiler cannot see through: the loops stay functions of their own, which the test of their
        // machine code finds by name.
        let (reference, ahead): (Update, UpdateAhead) = black_box((random_access_update, random_access_ahead));
        // SAFETY: every x86-64 processor has SSE2; `mask` is the words of the table less one (`new`), and the table is this rank's alone.
        unsafe {
            match self.variant {
                Variant::Reference => reference(&mut state.registers, state.table, state.mask, steps),
                Variant::Optimized => ahead(&mut state.registers, &mut state.ring, state.table, state.mask, steps),
            }
        }
        state.steps += steps;
    }
}

type Update = unsafe fn(&mut [u64; STREAMS], *mut u64, u64, u64);
type UpdateAhead = unsafe fn(&mut [u64; STREAMS], &mut [[u64; 2]; AHEAD / 2], *mut u64, u64, u64);

/// The measured loop: `steps` times, each stream advances and updates the word of `table` that it points to.
///
/// Streams advance by groups, two in one SSE2 register, and are read back for their updates: with one store for two
/// registers instead of two, more updates find room in the store queue, in which they wait for their lines.
///
/// # Safety
/// `table` must have `mask + 1` words that nobody else uses.
#[inline(never)]
#[target_feature(enable = "sse2")]
unsafe fn random_access_update(registers: &mut [u64; STREAMS], table: *mut u64, mask: u64, steps: u64) {
    let poly = _mm_set1_epi64x(POLY.cast_signed());
    for _ in 0..steps {
        for group in registers.as_chunks_mut::<GROUP>().0 {
            let pairs = group.as_mut_ptr().cast::<__m128i>();
            for pair in 0..GROUP / 2 {
                // SAFETY: `pair` is below the group's pairs.
                unsafe { _mm_storeu_si128(pairs.add(pair), advance_pair(_mm_loadu_si128(pairs.add(pair)), poly)) };
            }
            let first = group.as_ptr();
            for stream in 0..GROUP {
                // SAFETY: `stream` is below the group's size, and the masked index below the table's words. Volatile, else
                // the compiler keeps the pairs' words in registers that it has to spill.
                unsafe {
                    let register = first.add(stream).read_volatile();
                    *table.add((register & mask) as usize) ^= register;
                }
            }
        }
    }
}

/// The measured loop of the optimized variant: the same updates, each [`AHEAD`] after its line was asked for.
///
/// A load that misses holds one of the first cache's few buffers for misses until the line comes. A line that is asked for
/// into the second cache does not, so that more are on their way at once. Registers wait in a ring, from which the oldest are
/// updated as new ones come in.
///
/// # Safety
/// `table` must have `mask + 1` words that nobody else uses.
#[inline(never)]
#[target_feature(enable = "sse2")]
unsafe fn random_access_ahead(
    registers: &mut [u64; STREAMS],
    ring: &mut [[u64; 2]; AHEAD / 2],
    table: *mut u64,
    mask: u64,
    steps: u64,
) {
    let poly = _mm_set1_epi64x(POLY.cast_signed());
    // SAFETY: the masked index is below the table's words, by the caller's promise.
    let word = |register: u64| unsafe { table.add((register & mask) as usize) };
    let mut oldest = 0;
    for _ in 0..steps {
        for pair in registers.as_chunks_mut::<2>().0 {
            let waiting = &mut ring[oldest];
            oldest = (oldest + 1) % (AHEAD / 2);
            for &old in &*waiting {
                // SAFETY: as above.
                unsafe { *word(old) ^= old };
            }
            // SAFETY: both are two words long.
            unsafe {
                let advanced = advance_pair(_mm_loadu_si128(pair.as_ptr().cast()), poly);
                _mm_storeu_si128(pair.as_mut_ptr().cast(), advanced);
                _mm_storeu_si128(waiting.as_mut_ptr().cast(), advanced);
            }
            for &new in &*waiting {
                _mm_prefetch::<_MM_HINT_T1>(word(new).cast());
            }
        }
    }
    for old in ring.as_flattened_mut() {
        // SAFETY: as above.
        unsafe { *word(*old) ^= *old };
        *old = 0;
    }
}

/// [`advance`] for both words of a pair. SSE2 shifts signs down in 32-bit words only: each word's upper half stands for both.
#[inline]
#[target_feature(enable = "sse2")]
fn advance_pair(pair: __m128i, poly: __m128i) -> __m128i {
    let signs = _mm_srai_epi32::<31>(_mm_shuffle_epi32::<0b11_11_01_01>(pair));
    _mm_xor_si128(_mm_add_epi64(pair, pair), _mm_and_si128(signs, poly))
}

/// Updates that wait for their lines: an even number, at most the 1,024 of the rules. More than a hundred misses are not
/// served at once anywhere, and lines that wait longer are driven out again.
const AHEAD: usize = 128;
/// Streams that advance before their updates are done: a divisor of [`STREAMS`].
const GROUP: usize = 32;

impl Rank {
    fn check_and_reset(&mut self, words: usize, method: Method) -> Check {
        // SAFETY: `words` words lie there, borrowed for the life of the kernel (`RandomAccess::new`), and `&mut self` proves
        // that no body is at work on them.
        let table = unsafe { std::slice::from_raw_parts_mut(self.table, words) };
        let starts = starting_registers(words as u64);
        let errors = match method {
            // SAFETY: the method is chosen where the processor has it (`RandomAccess::check_and_reset`).
            Method::Fingerprint if unsafe { is_as_updated(table, &starts, self.steps) } => 0,
            _ => wrong_words(table, &starts, self.steps),
        };
        fill(table);
        let updates = self.steps * STREAMS as u64;
        self.registers = starting_registers(words as u64);
        self.steps = 0;
        Check { updates, errors, method }
    }

    fn check_ranges(&mut self, words: usize, drawn: Ranges) -> Check {
        // SAFETY: as in `check_and_reset`.
        let table = unsafe { std::slice::from_raw_parts(self.table, words) };
        // SAFETY: ranges are checked where the processor has it (`RandomAccess::check_ranges`).
        if unsafe { ranges_are_as_updated(table, &starting_registers(words as u64), self.steps, drawn) } {
            return Check { updates: self.steps * STREAMS as u64, errors: 0, method: Method::Fingerprint };
        }
        self.check_and_reset(words, Method::Undone)
    }
}

/// Whether `table` has the fingerprint of `steps` updates from each of `starts` on, by a key that is drawn now.
///
/// # Safety
/// [`fingerprint::is_available`] must have said so.
#[target_feature(enable = "pclmulqdq,sse2,sse4.1")]
unsafe fn is_as_updated(table: &[u64], starts: &[u64], steps: u64) -> bool {
    let key = Key::fresh();
    let last = table.len() as u64 - 1;
    let (mut found, mut expected) = (Growing::new(key), Growing::new(key));
    for (&word, index) in table.iter().zip(0..) {
        found.add(index, word ^ index);
    }
    for &start in starts {
        let mut register = start;
        for _ in 0..steps {
            register = by_definition(register);
            expected.add(register & last, register);
        }
    }
    found.whole() == expected.whole()
}

/// Streams that advance in turn while updates of drawn ranges are looked for: each waits for its own last register alone.
const IN_TURN: usize = 4;
/// Updates of drawn ranges that are collected before their fingerprint is taken.
const COLLECTED: usize = 1024;

/// Whether the words of `table` that lie in `drawn` have the fingerprint of their updates among `steps` from each of `starts` on, by a key that is drawn now. All
/// registers are advanced; whether one is collected is no branch, which would be mispredicted once in 16 times.
///
/// # Safety
/// [`fingerprint::is_available`] must have said so.
#[target_feature(enable = "pclmulqdq,sse2,sse4.1")]
unsafe fn ranges_are_as_updated(table: &[u64], starts: &[u64; STREAMS], steps: u64, drawn: Ranges) -> bool {
    let key = Key::fresh();
    let last = table.len() as u64 - 1;
    let shift = (table.len() / RANGES).ilog2();
    let (mut found, mut expected) = (Growing::new(key), Growing::new(key));
    for span in drawn.spans(table.len()) {
        let first = span.start as u64;
        for (&word, index) in table[span].iter().zip(first..) {
            found.add(index, word ^ index);
        }
    }
    let (mut collected, mut count) = ([0; COLLECTED], 0);
    for starts in starts.as_chunks::<IN_TURN>().0 {
        let mut registers = *starts;
        for _ in 0..steps {
            for register in &mut registers {
                *register = by_definition(*register);
                collected[count] = *register;
                count += usize::from(drawn.has((*register & last) >> shift));
            }
            if count + IN_TURN > COLLECTED {
                add_updates(&mut expected, &collected[..count], last);
                count = 0;
            }
        }
    }
    add_updates(&mut expected, &collected[..count], last);
    found.whole() == expected.whole()
}

/// Adds the updates of these registers to a table whose last index is `last`.
#[inline]
#[target_feature(enable = "pclmulqdq,sse2,sse4.1")]
fn add_updates(sum: &mut Growing, registers: &[u64], last: u64) {
    for &register in registers {
        sum.add(register & last, register);
    }
}

/// The words that are not as at the beginning after all updates were undone.
fn wrong_words(table: &mut [u64], starts: &[u64], steps: u64) -> u64 {
    for &start in starts {
        undo(table, start, steps);
    }
    table.iter().zip(0..).filter(|&(&word, index)| word != index).count() as u64
}

/// The register's next state, by the definition's own words.
#[inline]
fn by_definition(register: u64) -> u64 {
    let carry = register.leading_zeros() == 0;
    if carry { (register << 1) ^ POLY } else { register << 1 }
}

/// Applies `steps` updates from the register's state `register` on, by the definition's own words.
fn undo(table: &mut [u64], mut register: u64, steps: u64) {
    let last = table.len() - 1;
    for _ in 0..steps {
        register = by_definition(register);
        if let Some(word) = table.get_mut(register as usize & last) {
            *word ^= register;
        }
    }
}

fn fill(table: &mut [u64]) {
    for (word, index) in table.iter_mut().zip(0..) {
        *word = index;
    }
}

/// How far apart two streams start: the updates of a full run, four for each word, over the streams.
fn stream_distance(words: u64) -> u64 {
    4 * words / STREAMS as u64
}

fn starting_registers(words: u64) -> [u64; STREAMS] {
    std::array::from_fn(|stream| starts((stream_distance(words) * stream as u64).cast_signed()))
}

/// The register after `n` steps from 1: x^n modulo the polynomial, by squaring and shifting from the highest bit of `n`
/// on. Equals `HPCC_starts` of HPCC 1.4.1 and 1.5 for every `n`.
#[must_use]
pub fn starts(n: i64) -> u64 {
    let n = n.rem_euclid(PERIOD).cast_unsigned();
    let mut power = 1;
    for bit in (0..64 - n.leading_zeros()).rev() {
        power = square(power);
        if n >> bit & 1 == 1 {
            power = advance(power);
        }
    }
    power
}

/// Squaring is linear over GF(2): the square of a sum is the sum of squares, and that of x^i is x^(2i).
fn square(value: u64) -> u64 {
    let mut square = 0;
    let mut term = 1;
    for bit in 0..64 {
        square ^= if value >> bit & 1 == 1 { term } else { 0 };
        term = advance(advance(term));
    }
    square
}

fn advance(register: u64) -> u64 {
    (register << 1) ^ ((register >> 63) * POLY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// `HPCC_starts` as the reference code gives it, for comparison only.
    fn reference(steps: u64) -> u64 {
        (0..steps).fold(1, |ran: u64, _| (ran << 1) ^ if ran.cast_signed() < 0 { POLY } else { 0 })
    }

    fn run(body: &RandomAccess<'_>, reps: u64) {
        let team = Team::new(body.ranks.len());
        for rank in 0..body.ranks.len() {
            body.rank(rank, &team, reps);
        }
    }

    #[test]
    fn starts_are_what_stepping_gives() {
        for n in (0..2000).chain([65_536, 99_991, 1 << 20]) {
            assert_eq!(starts(n), reference(n.cast_unsigned()), "after {n} steps");
        }
    }

    #[test]
    fn starts_come_round_after_the_period() {
        assert_eq!((starts(PERIOD), starts(0), starts(PERIOD + 5)), (1, 1, 32));
        assert_eq!(advance(starts(-1)), 1);
        for (a, b) in [(3, 9), (1 << 40, 77), (PERIOD - 1, 12_345)] {
            let walked = (0..b).fold(starts(a), |register, _| advance(register));
            assert_eq!(starts(a + b), walked, "{a} + {b}");
        }
    }

    #[test]
    fn a_full_run_is_the_scalar_definition_of_the_rules() {
        let words = 1 << 14;
        let mut expected: Vec<u64> = (0..words as u64).collect();
        undo(&mut expected, 1, 4 * words as u64);
        for variant in [Variant::Reference, Variant::Optimized] {
            let mut table = vec![0; words];
            let body = RandomAccess::new(vec![&mut table], variant).expect("2^14 words");
            assert_eq!(body.work(1).operations, 4 * words as u64, "one repetition is a full run of this size");
            run(&body, 1);
            drop(body);
            assert!(table == expected, "the 128 streams together are the one stream: {variant:?}");
        }
    }

    #[test]
    fn all_repetitions_are_undone_and_everything_begins_anew() {
        let mut tables = vec![vec![0; 1 << 12]; 3];
        let tables = tables.iter_mut().map(Vec::as_mut_slice).collect();
        let mut body = RandomAccess::new(tables, Variant::Reference).expect("2^12 words");
        for variant in [Variant::Reference, Variant::Optimized] {
            body.variant = variant;
            run(&body, 3);
            run(&body, 2);
            let Check { updates, errors, .. } = body.check_and_reset();
            assert_eq!((updates, errors), (15 * QUANTUM, 0));
        }
        let Check { updates, errors, .. } = body.check_and_reset();
        assert_eq!((updates, errors), (0, 0));
    }

    #[test]
    fn one_wrong_word_is_found_and_repaired() {
        let mut table = vec![0; 1 << 12];
        let mut body = RandomAccess::new(vec![&mut table], Variant::Reference).expect("2^12 words");
        run(&body, 1);
        // SAFETY: the only rank's table has 2^12 words, and no body is at work on it.
        unsafe { *body.ranks[0].get_mut().table.add(77) ^= 1 << 50 };
        assert_eq!(body.check_and_reset().errors, 1);
        assert_eq!(body.check_and_reset().errors, 0);
    }

    /// Whether there can be fingerprints; if not, that is printed. Not by a macro: those are captured, and a skip must be seen.
    fn ranges_can_be_checked() -> bool {
        if !fingerprint::is_available() {
            std::io::stderr().write_all(b"skipped: this processor has no PCLMULQDQ\n").expect("an open stream");
        }
        fingerprint::is_available()
    }

    #[test]
    fn a_wrong_word_is_found_in_the_drawn_ranges_and_elsewhere_by_the_whole_alone() {
        const WORDS: usize = 1 << 12;
        if !ranges_can_be_checked() {
            return;
        }
        for seed in 0..20 {
            let drawn = Ranges::drawn(seed, 0);
            let inside: Vec<usize> = drawn.spans(WORDS).flatten().collect();
            let outside = (0..WORDS).find(|index| !inside.contains(index)).expect("15 of 16");
            for (word, found) in [(inside[0], 1), (inside[inside.len() - 1], 1), (outside, 0)] {
                let mut table = vec![0; WORDS];
                let mut body = RandomAccess::new(vec![&mut table], Variant::Reference).expect("2^12 words");
                run(&body, 2);
                // SAFETY: the only rank's table has 2^12 words, and no body is at work on it.
                unsafe { *body.ranks[0].get_mut().table.add(word) ^= 1 << 40 };
                let Check { updates, errors, .. } = body.check_ranges(seed).expect("a fingerprint");
                assert_eq!((updates, errors), (2 * QUANTUM, found), "word {word}, seed {seed}");
                // What is right in its ranges stays as it is; what is wrong was put back to the beginning.
                assert_eq!(body.check_and_reset().errors, 1 - found, "word {word}, seed {seed}");
            }
        }
    }

    #[test]
    fn ranges_of_many_repetitions_are_right_and_stay() {
        if !ranges_can_be_checked() {
            return;
        }
        // The smallest table too, whose ranges are two words.
        for words in [STREAMS, 1 << 12] {
            let mut tables = vec![vec![0; words]; 3];
            let tables = tables.iter_mut().map(Vec::as_mut_slice).collect();
            let mut body = RandomAccess::new(tables, Variant::Optimized).expect("a power of two");
            for seed in 0..4 {
                run(&body, 1);
                let Check { updates, errors, .. } = body.check_ranges(seed).expect("a fingerprint");
                assert_eq!((updates, errors), (3 * (seed + 1) * QUANTUM, 0));
            }
            let Check { updates, errors, .. } = body.check_and_reset();
            assert_eq!((updates, errors), (12 * QUANTUM, 0));
        }
    }

    #[test]
    fn an_update_more_or_less_is_found_in_any_ranges() {
        if !ranges_can_be_checked() {
            return;
        }
        let mut table = vec![0; 1 << 12];
        let mut body = RandomAccess::new(vec![&mut table], Variant::Reference).expect("2^12 words");
        run(&body, 1);
        // 128 updates of 4,096 words: about eight are in the ranges.
        body.ranks[0].get_mut().steps -= 1;
        assert_ne!(body.check_ranges(1).expect("a fingerprint").errors, 0);
    }

    #[test]
    fn an_update_more_or_less_is_found() {
        let mut table = vec![0; 1 << 12];
        let mut body = RandomAccess::new(vec![&mut table], Variant::Reference).expect("2^12 words");
        run(&body, 1);
        body.ranks[0].get_mut().steps -= 1;
        assert_ne!(body.check_and_reset().errors, 0);
    }

    /// A fault's name and what it does to a table.
    type Injected = (&'static str, fn(&mut [u64]));

    const FAULTS: &[Injected] = &[
        ("one bit", |table| table[4095] ^= 1),
        ("a lost update", |table| table[9] ^= 0x1234_5678_9abc_def0),
        ("an update of the wrong word", |table| {
            table[8] ^= 0x1234_5678_9abc_def0;
            table[9] ^= 0x1234_5678_9abc_def0;
        }),
        ("two words exchanged", |table| table.swap(100, 101)),
        ("a stale line", |table| table[64..72].iter_mut().zip(64..).for_each(|(word, index)| *word = index)),
        ("a page that is lost", |table| table[512..1024].fill(0)),
    ];

    #[test]
    fn injected_faults_of_every_kind_are_found_in_each_of_many_trials_by_either_method() {
        // Each is missed with a probability of at most 2^-64, so none may be in 6 x 50.
        const WORDS: usize = 1 << 14;
        let methods = [Method::Fingerprint, Method::Undone];
        for method in methods.into_iter().skip(usize::from(!fingerprint::is_available())) {
            for &(name, fault) in FAULTS {
                let mut memory = vec![0; WORDS];
                let mut body = RandomAccess::new(vec![&mut memory], Variant::Reference).expect("2^14 words");
                for round in 0..50 {
                    run(&body, 1);
                    let rank = body.ranks[0].get_mut();
                    // SAFETY: the only rank's table has so many words, and no body is at work on it.
                    let table = unsafe { std::slice::from_raw_parts_mut(rank.table, WORDS) };
                    let before = table.to_vec();
                    fault(table);
                    let wrong = table.iter().zip(before).filter(|(now, before)| **now != *before).count();
                    assert_ne!(wrong, 0, "{name}");
                    let check = rank.check_and_reset(WORDS, method);
                    assert_eq!(check.errors, wrong as u64, "{name}, round {round}, {method:?}");
                    assert_eq!(rank.check_and_reset(WORDS, method).errors, 0, "{name} is repaired, {method:?}");
                }
            }
        }
    }

    #[test]
    fn tables_of_another_shape_are_refused() {
        for sizes in [vec![1000], vec![64], vec![1 << 12, 1 << 13], vec![0]] {
            let mut tables: Vec<Vec<u64>> = sizes.iter().map(|&words| vec![0; words]).collect();
            let tables = tables.iter_mut().map(Vec::as_mut_slice).collect();
            assert!(RandomAccess::new(tables, Variant::Reference).is_err(), "{sizes:?}");
        }
    }
}
