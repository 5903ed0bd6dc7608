//! STREAM, version 5.10: copy, scale, add and triad over three arrays larger than every cache.
//!
//! Each pass does the chosen kernels in turn, every rank its own contiguous share of whole cache lines, with a barrier
//! after each kernel, as the reference code's parallel loops have. Two things differ from it, neither of which moves a
//! byte more or less. The scalar is not 3, with which the arrays overflow after 260 passes, but a number with which a pass
//! multiplies them by about 1.000001: any number of passes can be run, and one pass too few or too many still shows.
//! And triad multiplies and adds in two instructions everywhere, so that contents are the same to the last bit with
//! every instruction set.

use crate::cell::Cell;
use crate::isa;
use crate::laps::{Clock, Lap, Laps};
use crate::share::share;
use baremark_model::machine::Isa;
use baremark_model::seam::{Body, Work};
use baremark_model::team::Team;
use baremark_model::verify::{RANGES, Ranges};
use std::arch::x86_64::{_mm_add_pd, _mm_load_pd, _mm_mul_pd, _mm_set1_pd, _mm_sfence, _mm_store_pd, _mm_stream_pd};
use std::arch::x86_64::{_mm256_add_pd, _mm256_load_pd, _mm256_mul_pd, _mm256_set1_pd};
use std::arch::x86_64::{_mm256_store_pd, _mm256_stream_pd};
use std::arch::x86_64::{_mm512_add_pd, _mm512_load_pd, _mm512_mul_pd, _mm512_set1_pd};
use std::arch::x86_64::{_mm512_store_pd, _mm512_stream_pd};
use std::marker::PhantomData;
use std::thread;

/// One of the four kernels; its number is that of its laps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kernel {
    /// `c = a`
    Copy,
    /// `b = s c`
    Scale,
    /// `c = a + b`
    Add,
    /// `a = b + s c`
    Triad,
}

/// How results are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// Through the caches, which read each line before it is written.
    Regular,
    /// Past the caches.
    NonTemporal,
}

/// The three arrays and what is done to them.
#[derive(Debug)]
pub struct Stream<'m> {
    a: *mut f64,
    b: *mut f64,
    c: *mut f64,
    elements: usize,
    plan: Plan,
    loops: [Loop; 4],
    keeper: Cell<Keeper>,
    memory: PhantomData<&'m mut [f64]>,
}

/// What a repetition is.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The kernels of a pass, in order.
    pub kernels: &'static [Kernel],
    /// How they store.
    pub stores: Stores,
    /// By which instructions.
    pub isa: Isa,
    /// Passes of one repetition.
    pub passes: u64,
}

/// What rank 0 keeps for all.
#[derive(Debug)]
struct Keeper {
    laps: Laps,
    passes: u64,
}

// SAFETY: the arrays are borrowed exclusively for the life of the kernel; ranks write separate shares and read what
// others wrote only after the team's barrier.
unsafe impl Sync for Stream<'_> {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Stream<'_> {}

/// Why the kernels cannot run so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The arrays cannot serve.
    #[error("arrays of {0:?} elements; all three need as many, in whole cache lines of 8 and starting on one")]
    Shape([usize; 3]),
    /// The instruction set is not here.
    #[error("this processor has no {0:?}; the widest here is {widest:?}", widest = isa::widest())]
    NotHere(Isa),
}

/// What the arrays hold, against what they must.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Check {
    /// Passes that were checked.
    pub passes: u64,
    /// Elements off by more than [`EPSILON`].
    pub errors: u64,
    /// The largest relative error.
    pub worst: f64,
}

impl Kernel {
    /// All four, in the order of a pass.
    pub const ALL: [Kernel; 4] = [Kernel::Copy, Kernel::Scale, Kernel::Add, Kernel::Triad];

    /// The bytes of an element by STREAM's own rule: what the program names, and nothing that the hardware adds.
    #[must_use]
    pub fn counted_bytes(self) -> u64 {
        match self {
            Kernel::Copy | Kernel::Scale => 16,
            Kernel::Add | Kernel::Triad => 24,
        }
    }

    /// The bytes of an element that cross the memory bus: a regular store reads its line first.
    #[must_use]
    pub fn moved_bytes(self, stores: Stores) -> u64 {
        self.counted_bytes() + self.allocated_bytes(stores)
    }

    fn allocated_bytes(self, stores: Stores) -> u64 {
        match stores {
            Stores::Regular => 8,
            Stores::NonTemporal => 0,
        }
    }

    fn flops(self) -> u64 {
        match self {
            Kernel::Copy => 0,
            Kernel::Scale | Kernel::Add => 1,
            Kernel::Triad => 2,
        }
    }
}

impl<'m> Stream<'m> {
    /// Fills `a`, `b` and `c` as STREAM does and makes the loops ready; `clock` times each kernel of each pass.
    ///
    /// # Errors
    /// When the arrays differ, are not whole cache lines, or the instruction set is not here.
    pub fn new(arrays: [&'m mut [u64]; 3], plan: Plan, clock: Clock) -> Result<Self, Unfit> {
        let sizes = arrays.each_ref().map(|array| array.len());
        let aligned = arrays.each_ref().map(|array| (array.as_ptr() as usize).is_multiple_of(64));
        if sizes != [sizes[0]; 3] || sizes[0] == 0 || !sizes[0].is_multiple_of(LINE) || aligned != [true; 3] {
            return Err(Unfit::Shape(sizes));
        }
        if !isa::is_available(plan.isa) {
            return Err(Unfit::NotHere(plan.isa));
        }
        let [a, b, c] = arrays.map(|array| array.as_mut_ptr().cast());
        let keeper = Cell::new(Keeper { laps: Laps::new(clock), passes: 0 });
        let loops = loops(plan.isa, plan.stores);
        let mut body = Stream { a, b, c, elements: sizes[0], plan, loops, keeper, memory: PhantomData };
        body.fill();
        Ok(body)
    }

    /// What a repetition is.
    #[must_use]
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// The elements of one array.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The laps that began at `start_ticks` or later; a lap's part is the kernel's number.
    #[must_use]
    pub fn laps(&self, start_ticks: u64) -> Vec<Lap> {
        self.keeper.enter().map(|keeper| keeper.laps.since(start_ticks)).unwrap_or_default()
    }

    /// Holds every element against the same arithmetic done once with plain numbers, and fills the arrays anew, the three
    /// arrays by a thread each. STREAM tolerates a *mean* relative error of 10^-13 an array; here no element may exceed it.
    pub fn check_and_reset(&mut self) -> Check {
        let passes = self.keeper.get_mut().passes;
        let expected = self.expected(passes);
        let checks = self.each_array(expected, |array, expected, start| {
            let check = check(array, expected);
            array.fill(start);
            check
        });
        self.keeper.get_mut().passes = 0;
        together(passes, checks)
    }

    /// Holds the elements of each array's [`Ranges`] by `seed` against what they must be, and changes nothing; `None` of arrays that have fewer
    /// cache lines than there are ranges.
    pub fn check_ranges(&mut self, seed: u64) -> Option<Check> {
        let lines = self.elements / LINE;
        if lines < RANGES {
            return None;
        }
        let passes = self.keeper.get_mut().passes;
        let expected = self.expected(passes);
        let mut checks = Vec::new();
        for (index, (array, expected)) in self.arrays().into_iter().zip(expected).enumerate() {
            let spans = Ranges::drawn(seed, index).spans(lines);
            checks.extend(spans.map(|span| check(&array[span.start * LINE..span.end * LINE], expected)));
        }
        Some(together(passes, checks))
    }

    /// Calls `act` for each array, its value of `values` and its value at the start, on a thread of its own.
    fn each_array<R: Send>(&mut self, values: [f64; 3], act: impl Fn(&mut [f64], f64, f64) -> R + Sync) -> Vec<R> {
        let act = &act;
        thread::scope(|scope| {
            let arrays = self.arrays().into_iter().zip(values).zip(START);
            let started: Vec<_> =
                arrays.map(|((array, value), start)| scope.spawn(move || act(array, value, start))).collect();
            let all = started.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            all.collect()
        })
    }

    fn expected(&self, passes: u64) -> [f64; 3] {
        let [mut a, mut b, mut c] = START;
        for _ in 0..passes {
            for kernel in self.plan.kernels {
                match kernel {
                    Kernel::Copy => c = a,
                    Kernel::Scale => b = SCALAR * c,
                    Kernel::Add => c = a + b,
                    Kernel::Triad => a = b + SCALAR * c,
                }
            }
        }
        [a, b, c]
    }

    fn fill(&mut self) {
        drop(self.each_array(START, |array, _, start| array.fill(start)));
        self.keeper.get_mut().passes = 0;
    }

    fn arrays(&mut self) -> [&mut [f64]; 3] {
        let elements = self.elements;
        // SAFETY: three separate arrays of `elements` initialised words, borrowed for the life of the kernel (`new`), and
        // `&mut self` proves that no body is at work on them. Every pattern of bits is a number.
        [self.a, self.b, self.c].map(|array| unsafe { std::slice::from_raw_parts_mut(array, elements) })
    }

    /// One kernel over the share of `rank` of `ranks`.
    fn step(&self, kernel: Kernel, rank: usize, ranks: usize) {
        let lines = self.elements / LINE;
        let first = share(lines, rank, ranks);
        let count = share(lines, rank + 1, ranks) - first;
        let (to, x, y) = match kernel {
            Kernel::Copy => (self.c, self.a, self.a),
            Kernel::Scale => (self.b, self.c, self.c),
            Kernel::Add => (self.c, self.a, self.b),
            Kernel::Triad => (self.a, self.b, self.c),
        };
        let at = first * LINE;
        // SAFETY: lines `first..first + count` lie in all three arrays (`share` ends at `lines`), nobody else writes these
        // lines of `to`, others are not written between the barriers around this kernel, and `new` found the
        // instruction set.
        unsafe { self.loops[kernel as usize](to.add(at), x.add(at), y.add(at), count) };
    }
}

/// How many elements of an array are off, and by how much. Contents are the same to the last bit with every instruction set,
/// so that a block which is right is found so by comparing bits alone; only in others is the error worked out.
fn check(array: &[f64], expected: f64) -> Check {
    let bits = expected.to_bits();
    let mut check = Check::default();
    let differing = |block: &&[f64]| block.iter().fold(0, |differ, element| differ | (element.to_bits() ^ bits)) != 0;
    for &element in array.chunks(BLOCK).filter(differing).flatten() {
        // Where nothing ran an array still holds 0; NaN is wrong.
        let same = element.to_bits() == bits;
        let error = if same { 0.0 } else { ((element - expected) / expected).abs() };
        check.errors += u64::from(error > EPSILON || error.is_nan());
        check.worst = if error > check.worst || error.is_nan() { error } else { check.worst };
    }
    check
}

/// What was found after so many passes in all parts.
fn together(passes: u64, parts: Vec<Check>) -> Check {
    parts.into_iter().fold(Check { passes, ..Check::default() }, |sum, part| Check {
        passes,
        errors: sum.errors + part.errors,
        worst: if part.worst > sum.worst || part.worst.is_nan() { part.worst } else { sum.worst },
    })
}

/// Elements that are compared at once.
const BLOCK: usize = 512;

impl Body for Stream<'_> {
    fn work(&self, _ranks: usize) -> Work {
        let elements = self.plan.passes * self.elements as u64;
        let mut work = Work::default();
        for kernel in self.plan.kernels {
            work.operations += elements;
            work.flops += kernel.flops() * elements;
            work.bytes_loaded += (kernel.counted_bytes() - 8) * elements;
            work.bytes_stored += 8 * elements;
            work.bytes_allocated += kernel.allocated_bytes(self.plan.stores) * elements;
        }
        work
    }

    fn rank(&self, rank: usize, team: &Team, reps: u64) {
        let mut keeper = if rank == 0 { self.keeper.enter() } else { None };
        if let Some(keeper) = &mut keeper {
            keeper.laps.begin();
        }
        for _ in 0..reps * self.plan.passes {
            for &kernel in self.plan.kernels {
                // A lap begins before any rank begins and ends when all are done. With one barrier less, a rank that loses its
                // processor there would find the others ahead, and the best lap would be one that was begun before its start.
                let start = keeper.as_ref().map_or(0, |keeper| keeper.laps.now());
                team.barrier();
                self.step(kernel, rank, team.ranks());
                team.barrier();
                if let Some(keeper) = &mut keeper {
                    keeper.laps.end(kernel as usize, start);
                }
            }
            if let Some(keeper) = &mut keeper {
                keeper.passes += 1;
            }
        }
    }
}

/// A measured loop over whole cache lines: results, first and second operand, lines.
type Loop = unsafe fn(*mut f64, *const f64, *const f64, usize);

fn loops(isa: Isa, stores: Stores) -> [Loop; 4] {
    match (isa, stores) {
        (Isa::Baseline, Stores::Regular) => {
            [stream_copy_baseline, stream_scale_baseline, stream_add_baseline, stream_triad_baseline]
        }
        (Isa::Avx2, Stores::Regular) => [stream_copy_avx2, stream_scale_avx2, stream_add_avx2, stream_triad_avx2],
        (Isa::Avx512, Stores::Regular) => {
            [stream_copy_avx512, stream_scale_avx512, stream_add_avx512, stream_triad_avx512]
        }
        (Isa::Baseline, Stores::NonTemporal) => {
            [stream_nt_copy_baseline, stream_nt_scale_baseline, stream_nt_add_baseline, stream_nt_triad_baseline]
        }
        (Isa::Avx2, Stores::NonTemporal) => {
            [stream_nt_copy_avx2, stream_nt_scale_avx2, stream_nt_add_avx2, stream_nt_triad_avx2]
        }
        (Isa::Avx512, Stores::NonTemporal) => {
            [stream_nt_copy_avx512, stream_nt_scale_avx512, stream_nt_add_avx512, stream_nt_triad_avx512]
        }
    }
}

/// Regular stores need none: the barrier orders them.
fn no_fence() {}

/// The measured loops of one instruction set and one way to store. An operand that a kernel does not use is not loaded:
/// the compiler drops the load.
macro_rules! measured_loops {
    ($features:literal, $lanes:literal, $load:ident, $store:ident, $fence:ident, $one:ident, $mul:ident, $add:ident:
     $copy_loop:ident, $scale_loop:ident, $add_loop:ident, $triad_loop:ident) => {
        measured_loops!(@one $copy_loop, $features, $lanes, $load, $store, $fence, |x, _y| x);
        measured_loops!(@one $scale_loop, $features, $lanes, $load, $store, $fence, |x, _y| $mul($one(SCALAR), x));
        measured_loops!(@one $add_loop, $features, $lanes, $load, $store, $fence, |x, y| $add(x, y));
        measured_loops!(@one $triad_loop, $features, $lanes, $load, $store, $fence, |x, y| {
            $add(x, $mul($one(SCALAR), y))
        });
    };
    (@one $name:ident, $features:literal, $lanes:literal, $load:ident, $store:ident, $fence:ident,
     |$x:ident, $y:ident| $value:expr) => {
        #[inline(never)]
        #[target_feature(enable = $features)]
        unsafe fn $name(to: *mut f64, x: *const f64, y: *const f64, lines: usize) {
            for vector in 0..lines * (LINE / $lanes) {
                let at = vector * $lanes;
                // SAFETY: the caller has `lines` lines of 8 elements at all three pointers, each on a boundary of 64 bytes, and
                // `at + $lanes` is at most 8 * `lines`.
                unsafe {
                    let ($x, $y) = ($load(x.add(at)), $load(y.add(at)));
                    $store(to.add(at), $value);
                }
            }
            $fence();
        }
    };
}

measured_loops!("sse2", 2, _mm_load_pd, _mm_store_pd, no_fence, _mm_set1_pd, _mm_mul_pd, _mm_add_pd:
    stream_copy_baseline, stream_scale_baseline, stream_add_baseline, stream_triad_baseline);
measured_loops!("avx2", 4, _mm256_load_pd, _mm256_store_pd, no_fence, _mm256_set1_pd, _mm256_mul_pd, _mm256_add_pd:
    stream_copy_avx2, stream_scale_avx2, stream_add_avx2, stream_triad_avx2);
measured_loops!("avx512f", 8, _mm512_load_pd, _mm512_store_pd, no_fence, _mm512_set1_pd, _mm512_mul_pd, _mm512_add_pd:
    stream_copy_avx512, stream_scale_avx512, stream_add_avx512, stream_triad_avx512);
// What is stored past the caches is ordered only by a fence, and other ranks read it after the barrier.
measured_loops!("sse2", 2, _mm_load_pd, _mm_stream_pd, _mm_sfence, _mm_set1_pd, _mm_mul_pd, _mm_add_pd:
    stream_nt_copy_baseline, stream_nt_scale_baseline, stream_nt_add_baseline, stream_nt_triad_baseline);
measured_loops!("avx2", 4, _mm256_load_pd, _mm256_stream_pd, _mm_sfence, _mm256_set1_pd, _mm256_mul_pd, _mm256_add_pd:
    stream_nt_copy_avx2, stream_nt_scale_avx2, stream_nt_add_avx2, stream_nt_triad_avx2);
measured_loops!("avx512f", 8, _mm512_load_pd, _mm512_stream_pd, _mm_sfence, _mm512_set1_pd, _mm512_mul_pd, _mm512_add_pd:
    stream_nt_copy_avx512, stream_nt_scale_avx512, stream_nt_add_avx512, stream_nt_triad_avx512);

/// Elements of a cache line.
const LINE: usize = 8;
/// A pass multiplies `a` by 2s + s^2: with the square root of 2 less one that is 1, with this a little more.
const SCALAR: f64 = 0.414_213_9;
/// `a`, `b` and `c` at the beginning: STREAM's 1, 2 and 0, `a` doubled by its own look at the clock.
const START: [f64; 3] = [2.0, 2.0, 0.0];
/// The relative error that is allowed: STREAM's for numbers of 8 bytes.
pub const EPSILON: f64 = 1e-13;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bed::run;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[repr(align(64))]
    #[derive(Clone)]
    struct Lines([u64; 3 * WORDS]);
    const WORDS: usize = 8 * 37;

    fn clock() -> u64 {
        static TICKS: AtomicU64 = AtomicU64::new(1);
        TICKS.fetch_add(1, Ordering::Relaxed)
    }

    fn plan(kernels: &'static [Kernel], stores: Stores, isa: Isa) -> Plan {
        Plan { kernels, stores, isa, passes: 2 }
    }

    fn body(lines: &mut Lines, plan: Plan) -> Stream<'_> {
        let (a, rest) = lines.0.split_at_mut(WORDS);
        let (b, c) = rest.split_at_mut(WORDS);
        Stream::new([a, b, c], plan, clock).expect("fits")
    }

    #[test]
    fn every_loop_computes_what_the_definition_says() {
        let mut lines = Lines([0; 3 * WORDS]);
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa::is_available(isa)) {
            for stores in [Stores::Regular, Stores::NonTemporal] {
                let mut body = body(&mut lines, plan(&Kernel::ALL, stores, isa));
                run(&body, 3, 2);
                let [a, b, c] = body.arrays();
                let expected = [a[0], b[0], c[0]];
                assert!(expected[0] > 2.0 && expected[2] > 2.0, "four passes have grown {expected:?}");
                assert!(a.iter().all(|&x| x.to_bits() == expected[0].to_bits()));
                assert_eq!(body.check_and_reset(), Check { passes: 4, errors: 0, worst: 0.0 }, "{isa:?} {stores:?}");
                assert_eq!(body.check_and_reset(), Check::default());
            }
        }
    }

    #[test]
    fn single_kernels_are_run_and_checked_alone() {
        let mut lines = Lines([0; 3 * WORDS]);
        for kernels in [&[Kernel::Copy], &[Kernel::Scale], &[Kernel::Add], &[Kernel::Triad]] {
            let mut body = body(&mut lines, plan(kernels, Stores::Regular, isa::widest()));
            run(&body, 2, 1);
            body.arrays()[match kernels[0] {
                Kernel::Copy | Kernel::Add => 2,
                Kernel::Scale => 1,
                Kernel::Triad => 0,
            }][295] += 1e-9;
            assert_eq!(body.check_and_reset().errors, 1, "{kernels:?}");
        }
    }

    /// Arrays of two cache lines for each range.
    #[repr(align(64))]
    struct Long([u64; 3 * LONG]);
    const LONG: usize = 2 * RANGES * LINE;

    #[test]
    fn a_wrong_element_is_found_in_the_drawn_ranges_and_elsewhere_by_the_whole_alone() {
        let plan = plan(&Kernel::ALL, Stores::Regular, Isa::Baseline);
        assert_eq!(body(&mut Lines([0; 3 * WORDS]), plan).check_ranges(1), None, "fewer lines than ranges");
        let mut long = Long([0; 3 * LONG]);
        let (a, rest) = long.0.split_at_mut(LONG);
        let (b, c) = rest.split_at_mut(LONG);
        let mut body = Stream::new([a, b, c], plan, clock).expect("whole lines");
        for (seed, array) in (0..10).flat_map(|seed| [(seed, 0), (seed, 1), (seed, 2)]) {
            let lines: Vec<usize> = Ranges::drawn(seed, array).spans(LONG / LINE).flatten().collect();
            let outside = (0..LONG / LINE).find(|line| !lines.contains(line)).expect("15 of 16");
            for (line, found) in [(lines[0], 1), (lines[lines.len() - 1], 1), (outside, 0)] {
                run(&body, 1, 1);
                assert_eq!(body.check_ranges(seed), Some(Check { passes: 2, errors: 0, worst: 0.0 }));
                body.arrays()[array][line * LINE + 3] *= 1.0 + 1e-9;
                let errors = body.check_ranges(seed).map(|check| check.errors);
                assert_eq!(errors, Some(found), "line {line} of array {array}, seed {seed}");
                assert_eq!(body.check_and_reset().errors, 1, "line {line} of array {array}, seed {seed}");
            }
        }
    }

    #[test]
    fn a_missing_pass_and_a_missing_share_are_found() {
        let mut lines = Lines([0; 3 * WORDS]);
        let mut body = body(&mut lines, plan(&Kernel::ALL, Stores::Regular, isa::widest()));
        run(&body, 1, 1);
        body.keeper.get_mut().passes += 1;
        assert_eq!(body.check_and_reset().errors, 3 * WORDS as u64);
        // Rank 0 of a team that was broken, so that rank 1 never came.
        let team = Team::new(2);
        team.break_up();
        body.rank(0, &team, 1);
        assert!(body.check_and_reset().errors > WORDS as u64);
    }

    #[test]
    fn a_million_passes_stay_finite_and_one_more_shows() {
        let mut lines = Lines([0; 3 * WORDS]);
        let body = body(&mut lines, plan(&Kernel::ALL, Stores::Regular, isa::widest()));
        let (many, more) = (body.expected(1_000_000), body.expected(1_000_001));
        for (many, more) in many.into_iter().zip(more) {
            assert!(many.is_finite() && (more / many - 1.0).abs() > 1e-7, "{many} {more}");
        }
    }

    #[test]
    fn laps_name_the_kernels_in_turn() {
        let mut lines = Lines([0; 3 * WORDS]);
        let body = body(&mut lines, plan(&Kernel::ALL, Stores::Regular, isa::widest()));
        run(&body, 2, 3);
        let laps = body.laps(0);
        assert!(laps.iter().map(|lap| lap.part).eq((0..24).map(|lap| lap % 4)), "{laps:?}");
        assert!(laps.iter().all(|lap| lap.end_ticks > lap.start_ticks));
    }

    #[test]
    fn bytes_are_counted_by_the_rule_and_as_moved() {
        let mut lines = Lines([0; 3 * WORDS]);
        let work = body(&mut lines, plan(&Kernel::ALL, Stores::Regular, isa::widest())).work(2);
        let elements = 2 * WORDS as u64;
        assert_eq!(work.bytes_loaded + work.bytes_stored, 80 * elements);
        assert_eq!((work.bytes_stored, work.bytes_allocated, work.flops), (32 * elements, 32 * elements, 4 * elements));
        let work = body(&mut lines, plan(&Kernel::ALL, Stores::NonTemporal, isa::widest())).work(2);
        assert_eq!(work.bytes_allocated, 0);
        assert_eq!(
            (Kernel::Triad.moved_bytes(Stores::Regular), Kernel::Copy.moved_bytes(Stores::NonTemporal)),
            (32, 16)
        );
    }

    #[test]
    fn arrays_of_another_shape_are_refused() {
        let plan = plan(&Kernel::ALL, Stores::Regular, Isa::Baseline);
        for sizes in [[64, 64, 72], [0, 0, 0], [60, 60, 60]] {
            let mut lines = vec![Lines([0; 3 * WORDS]); 3];
            let mut arrays = lines.iter_mut().zip(sizes).map(|(lines, size)| &mut lines.0[..size]);
            let arrays = std::array::from_fn(|_| arrays.next().expect("three"));
            assert_eq!(Stream::new(arrays, plan, clock).err(), Some(Unfit::Shape(sizes)));
        }
    }
}
