//! STREAM: the bandwidth of memory, by copy, scale, add and triad.
//!
//! Each kernel of each pass is timed inside the region, from rank 0's barrier to rank 0's barrier, as the reference code
//! times it, and as there the best time gives the rate. All ranks share the three arrays. An array smaller than four
//! times all last-level caches together measures caches: it is refused unless that is what is requested.

use crate::parameters::{ISA, KERNELS, chosen_isa, misfit, odd, spans_together};
use baremark_kernels::laps::Lap;
use baremark_kernels::stream::{self as kernel, Kernel, Plan, Stores};
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::{Descriptor, Footprint, HeldBy};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::{Arena, Body, Prepared, RankTime, Sample, TickRate, Verification, Workload, WorkloadError};
use baremark_model::units::Bytes;
use baremark_model::verify::{ONE_OF, RANGES};
use baremark_sys::{clock, machine};
use std::sync::OnceLock;

/// The workload `stream`.
#[derive(Clone, Copy, Debug)]
pub struct Stream;

const ARRAY: Knob = Knob::new(
    "array",
    Kind::Size { min: 4096, max: 1 << 46 },
    Default::Derived("four times all last-level caches together"),
)
.help("size of one of the three arrays, which all ranks share; a multiple of 64 bytes");

const SMALL: Knob = Knob::new("small", Kind::Switch, Default::Typed("false"))
    .help("allow arrays under four times all last-level caches: then caches are measured, not memory");

const KERNEL: Knob =
    Knob::new("kernel", Kind::Choice(&["all", "copy", "scale", "add", "triad"]), Default::Typed("all"))
        .help("the kernels of a pass: all four in turn, or one alone");

const VARIANT: Knob = Knob::new("variant", Kind::Choice(&["regular", "non-temporal"]), Default::Typed("regular"))
    .help("regular: stores through the caches, which read each line first; non-temporal: stores past them");

const NTIMES: Knob = Knob::new("ntimes", Kind::Count { min: 1, max: 10_000 }, Default::Typed("1"))
    .help("passes of one repetition; STREAM's NTIMES is this times the repetitions that fill a phase");

/// The rows of one kernel's metrics.
macro_rules! rows {
    ($kernel:literal, $formula:literal, $bytes:literal) => {
        [
            Metric::higher(concat!($kernel, "_mb_per_s"), "MB/s", Aggregate::Sum).help(concat!(
                $formula,
                ": 10^-6 x ",
                $bytes,
                " bytes an element / the best pass's time"
            )),
            Metric::higher(concat!($kernel, "_moved_mb_per_s"), "MB/s", Aggregate::Sum)
                .help(concat!($formula, ": the same with the 8 bytes that a regular store reads before it writes")),
            Metric::lower(concat!($kernel, "_mean_ns"), "ns", Aggregate::Mean)
                .help(concat!($formula, ": the mean time of a pass")),
            Metric::lower(concat!($kernel, "_min_ns"), "ns", Aggregate::Mean)
                .help(concat!($formula, ": the best time of a pass")),
            Metric::lower(concat!($kernel, "_max_ns"), "ns", Aggregate::Most)
                .help(concat!($formula, ": the worst time of a pass")),
        ]
    };
}

const TRIAD: [Metric; 5] = rows!("triad", "a = b + s c", "24");
const ADD: [Metric; 5] = rows!("add", "c = a + b", "24");
const SCALE: [Metric; 5] = rows!("scale", "b = s c", "16");
const COPY: [Metric; 5] = rows!("copy", "c = a", "16");

const SIMULTANEOUS: Metric = Metric::higher("simultaneous_mb_per_s", "MB/s", Aggregate::Window).help(
    "10^-6 x STREAM's bytes of all kernels and passes / the time from the first rank's start to the last \
     one's end: with several machines the bytes that all moved at the same time, where the other rates \
     are sums of bests",
);

const METRICS: [Metric; 21] = {
    let rows = [TRIAD, ADD, SCALE, COPY];
    let mut all = [SIMULTANEOUS; 21];
    let mut row = 0;
    while row < 20 {
        all[row] = rows[row / 5][row % 5];
        row += 1;
    }
    all
};

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "stream",
    help: "bandwidth of memory by copy, scale, add and triad over three arrays that all ranks share",
    source: "STREAM 5.10, J. McCalpin; MB are 10^6 bytes",
    parameters: &[ARRAY, SMALL, KERNEL, VARIANT, NTIMES, ISA],
    metrics: &METRICS,
    footprint: Some(Footprint { key: "array", bytes: |arm| spans_together(&Stream, arm), held: HeldBy::Agent }),
    check: |arm| array_bytes(arm).and_then(|_| plan(arm)).map(drop).map_err(misfit),
    ..KERNELS
};

impl Workload for Stream {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn spans(&self, arm: &ResolvedArm) -> Result<Vec<u64>, WorkloadError> {
        Ok(vec![array_bytes(arm)?; 3])
    }

    fn prepare<'m>(&self, arm: &ResolvedArm, arena: &'m dyn Arena) -> Result<Box<dyn Prepared + 'm>, WorkloadError> {
        let array = Bytes(array_bytes(arm)?);
        let take = || arena.take_words(array.count() / 8);
        let arrays = [take()?, take()?, take()?];
        let body = kernel::Stream::new(arrays, plan(arm)?, clock::ticks)
            .map_err(|unfit| odd(&ARRAY, array, unfit.to_string()))?;
        Ok(Box::new(PreparedArrays { body, caches: caches() }))
    }
}

fn plan(arm: &ResolvedArm) -> Result<Plan, WorkloadError> {
    let kernels: &[Kernel] = match KERNEL.get::<String>(arm)?.as_str() {
        "all" => &Kernel::ALL,
        "copy" => &[Kernel::Copy],
        "scale" => &[Kernel::Scale],
        "add" => &[Kernel::Add],
        _ => &[Kernel::Triad],
    };
    let stores = match VARIANT.get::<String>(arm)?.as_str() {
        "regular" => Stores::Regular,
        _ => Stores::NonTemporal,
    };
    Ok(Plan { kernels, stores, isa: chosen_isa(arm)?, passes: NTIMES.get(arm)? })
}

/// The size of this arm's part of one array. All parts together are as large as asked, if that is large enough, else the
/// least that is.
fn array_bytes(arm: &ResolvedArm) -> Result<u64, WorkloadError> {
    let whole = array_bytes_for(ARRAY.find(arm)?, SMALL.get(arm)?, caches())?;
    let parts = arm.parts.max(1) as u64;
    if !whole.is_multiple_of(parts * LINE_BYTES) {
        let nearest = Bytes((whole / (parts * LINE_BYTES)).max(1) * parts * LINE_BYTES);
        let why = format!("each of {parts} machines needs whole cache lines; nearest is {} bytes", nearest.0);
        return Err(odd(&ARRAY, Bytes(whole), why));
    }
    Ok(whole / parts)
}

fn array_bytes_for(asked: Option<Bytes>, small: bool, caches: Option<u64>) -> Result<u64, WorkloadError> {
    let least = caches.map(|caches| (4 * caches).next_multiple_of(LINE_BYTES));
    let array = match (asked, least) {
        (Some(array), _) => array,
        (None, Some(least)) => Bytes(least),
        (None, None) => {
            let unknown =
                InvalidValue::new("array: cache sizes are unknown on this machine", "write a size and small = true");
            return Err(InvalidValue { key: Some(ARRAY.key.to_owned()), ..unknown }.into());
        }
    };
    if !array.0.is_multiple_of(LINE_BYTES) {
        let below = array.0 / LINE_BYTES * LINE_BYTES;
        let why = format!("it must be whole cache lines; nearest is {} bytes", below.max(LINE_BYTES));
        return Err(odd(&ARRAY, array, why));
    }
    let why = match least {
        _ if small => return Ok(array.0),
        Some(least) if array.0 >= least => return Ok(array.0),
        Some(least) => format!(
            "last-level caches here hold {} together, and an array needs four times that, {}; or write small = true to \
             measure caches",
            Bytes(least / 4),
            Bytes(least)
        ),
        None => "cache sizes are unknown on this machine; write small = true if memory is not the aim".into(),
    };
    Err(odd(&ARRAY, array, why))
}

/// The size of all last-level caches together, in bytes, as far as this machine tells.
#[must_use]
pub fn caches() -> Option<u64> {
    static CACHES: OnceLock<Option<u64>> = OnceLock::new();
    *CACHES.get_or_init(|| machine::last_level_caches(machine::root()))
}

const LINE_BYTES: u64 = 64;

struct PreparedArrays<'m> {
    body: kernel::Stream<'m>,
    caches: Option<u64>,
}

impl Prepared for PreparedArrays<'_> {
    fn body(&self) -> &dyn Body {
        &self.body
    }

    fn verify(&mut self) -> Verification {
        let check = self.body.check_and_reset();
        self.judged(check, "every one")
    }

    fn verify_ranges(&mut self, seed: u64) -> Option<Verification> {
        let check = self.body.check_ranges(seed)?;
        Some(
            self.judged(
                check,
                &format!("in one range of each {ONE_OF}, {RANGES} ranges of each array drawn anew: those"),
            ),
        )
    }

    fn metrics(&self, reps: u64, times: &[RankTime], rate: TickRate) -> Vec<Sample> {
        let Some(start) = times.iter().map(|time| time.start_ticks).min() else { return Vec::new() };
        let laps = self.body.laps(start);
        let plan = self.body.plan();
        let of_kernel = |&kernel: &Kernel| samples(kernel, plan.stores, self.body.elements(), &laps, rate);
        let mut all: Vec<Sample> = plan.kernels.iter().filter_map(of_kernel).flatten().collect();
        all.extend(simultaneous(&self.body, reps, times, rate).filter(|_| !laps.is_empty()));
        all
    }
}

impl PreparedArrays<'_> {
    /// What a check says that looked at `which` of the elements.
    fn judged(&self, check: kernel::Check, which: &str) -> Verification {
        let kernel::Check { passes, errors, worst } = check;
        let elements = self.body.elements();
        if errors > 0 {
            let detail = format!(
                "{errors} of 3 x {elements} elements are off by more than {:e} after {passes} passes, the worst by {worst:e}; \
                 checked: {which}",
                kernel::EPSILON
            );
            return Verification::Failed { detail };
        }
        let caches = self.caches.map_or_else(|| "of unknown size".to_owned(), |caches| Bytes(caches).to_string());
        Verification::Passed {
            detail: format!(
                "{which} of 3 x {elements} elements within {:e} of its value after {passes} passes; last-level caches {caches}",
                kernel::EPSILON
            ),
        }
    }
}

/// All that was moved, by STREAM's rule, over the whole window.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn simultaneous(body: &kernel::Stream<'_>, reps: u64, times: &[RankTime], rate: TickRate) -> Option<Sample> {
    let work = body.work(times.len());
    let bytes = (reps * (work.bytes_loaded + work.bytes_stored)) as f64;
    let seconds = rate.span(times).filter(|&seconds| seconds > 0.0)?;
    Some(Sample::new(SIMULTANEOUS.key, 1e-6 * bytes / seconds))
}

/// One kernel's figures; `None` where it was not timed.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn samples(kernel: Kernel, stores: Stores, elements: usize, laps: &[Lap], rate: TickRate) -> Option<[Sample; 5]> {
    let seconds: Vec<f64> = laps
        .iter()
        .filter(|lap| lap.part == kernel as usize)
        .map(|lap| rate.seconds(lap.end_ticks.saturating_sub(lap.start_ticks)))
        .collect();
    let best = seconds.iter().copied().min_by(f64::total_cmp).filter(|&best| best > 0.0)?;
    let worst = seconds.iter().copied().max_by(f64::total_cmp)?;
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let name = match kernel {
        Kernel::Copy => "copy",
        Kernel::Scale => "scale",
        Kernel::Add => "add",
        Kernel::Triad => "triad",
    };
    let rate_of = |bytes: u64| 1e-6 * (bytes * elements as u64) as f64 / best;
    let sample = |figure: &str, value| Sample { metric: format!("{name}_{figure}"), value };
    Some([
        sample("mb_per_s", rate_of(kernel.counted_bytes())),
        sample("moved_mb_per_s", rate_of(kernel.moved_bytes(stores))),
        sample("mean_ns", 1e9 * mean),
        sample("min_ns", 1e9 * best),
        sample("max_ns", 1e9 * worst),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::page_size::PageSize;
    use baremark_model::team::Team;
    use baremark_model::value::Value;
    use baremark_sys::memory::Map;
    use std::collections::BTreeMap;

    fn arm(parameters: &[(&str, Value)]) -> ResolvedArm {
        let plain = ResolvedArm::native(1, PageSize::Small);
        parameters.iter().fold(plain, |arm, (key, value)| arm.with(key, value.clone()))
    }

    fn refused(asked: Option<Bytes>, small: bool, caches: Option<u64>) -> String {
        array_bytes_for(asked, small, caches).expect_err("refused").to_string()
    }

    #[test]
    fn arrays_are_four_times_the_caches_or_small_on_purpose() {
        let caches = Some(32 << 20);
        assert_eq!(array_bytes_for(None, false, caches), Ok(128 << 20));
        assert_eq!(array_bytes_for(Some(Bytes(128 << 20)), false, caches), Ok(128 << 20));
        assert_eq!(array_bytes_for(Some(Bytes(4096)), true, caches), Ok(4096));
        assert_eq!(
            refused(Some(Bytes(127 << 20)), false, caches),
            "array = 127 MiB: last-level caches here hold 32 MiB together, and an array needs four times that, 128 MiB; \
             or write small = true to measure caches"
        );
        assert!(refused(Some(Bytes(1 << 40)), false, None).contains("cache sizes are unknown"));
        assert!(refused(None, true, None).contains("cache sizes are unknown"));
        assert!(refused(Some(Bytes(4100)), true, caches).ends_with("nearest is 4096 bytes"));
    }

    #[test]
    fn all_three_arrays_of_all_parts_are_its_memory() {
        let size = |parts| {
            let arm = ResolvedArm {
                parts,
                ..arm(&[("array", Value::SizeBytes(Bytes(1 << 20))), ("small", Value::Switch(true))])
            };
            (DESCRIPTOR.footprint.expect("declared").bytes)(&arm)
        };
        assert_eq!((size(1), size(2)), (Some(3 << 20), Some(3 << 20)), "divided, not multiplied");
        assert_eq!(size(3), None, "a megabyte is not a three parts of whole lines");
    }

    #[test]
    fn words_of_no_meaning_are_refused() {
        for (key, expected) in [("kernel", "kernel: x; write one of all, "), ("variant", "variant: x; write one of ")] {
            let error = plan(&arm(&[(key, Value::Choice("x".to_owned()))])).expect_err("refused").to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn what_was_run_is_verified_and_measured_by_its_laps() {
        let arm = arm(&[
            ("array", Value::SizeBytes(Bytes(1 << 20))),
            ("small", Value::Switch(true)),
            ("ntimes", Value::Count(3)),
            ("variant", Value::Choice("non-temporal".to_owned())),
        ]);
        let map = Map::new(&Stream.spans(&arm).expect("3 MiB"), PageSize::Small, 1).expect("6 MiB");
        let mut prepared = Stream.prepare(&arm, &map).expect("enough memory");
        let start_ticks = clock::ticks();
        prepared.body().rank(0, &Team::new(1), 2);
        let end_ticks = clock::ticks();
        let samples = prepared.metrics(2, &[RankTime { rank: 0, start_ticks, end_ticks }], TickRate(1e9));
        let of: BTreeMap<&str, f64> = samples.iter().map(|sample| (sample.metric.as_str(), sample.value)).collect();
        assert_eq!(of.len(), DESCRIPTOR.metrics.len());
        assert!(DESCRIPTOR.metrics.iter().all(|metric| of[metric.key] > 0.0), "{of:?}");
        let total: f64 =
            ["copy", "scale", "add", "triad"].map(|name| of[format!("{name}_mean_ns").as_str()]).iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "a short time")]
        let region = (end_ticks - start_ticks) as f64;
        assert!(6.0 * total <= region, "six passes of {total} in {region} ns");
        // 24 bytes of 131,072 elements.
        assert!((of["triad_mb_per_s"] * of["triad_min_ns"] / (1e3 * 24.0 * 131_072.0) - 1.0).abs() < 1e-12);
        assert!((of["copy_moved_mb_per_s"] / of["copy_mb_per_s"] - 1.0).abs() < 1e-12, "nothing is read to be written");
        let Some(Verification::Passed { detail }) = prepared.verify_ranges(3) else { panic!("must pass") };
        assert!(
            detail.starts_with(
                "in one range of each 16, 64 ranges of each array drawn anew: those of 3 x 131072 elements within 1e-13"
            ),
            "{detail}"
        );
        let Verification::Passed { detail } = prepared.verify() else { panic!("must pass") };
        assert!(
            detail.starts_with("every one of 3 x 131072 elements within 1e-13 of its value after 6 passes"),
            "{detail}"
        );
        let later = [RankTime { rank: 0, start_ticks: end_ticks, end_ticks }];
        assert!(prepared.metrics(2, &later, TickRate(1e9)).is_empty(), "laps of an earlier run are not this one's");
    }

    #[test]
    fn the_mean_best_and_worst_are_of_the_kernels_own_laps() {
        let lap = |part, start_ticks, end_ticks| Lap { part, start_ticks, end_ticks };
        let laps = [lap(0, 0, 100), lap(3, 100, 1100), lap(0, 1100, 1400), lap(3, 1400, 2400)];
        let copy = samples(Kernel::Copy, Stores::Regular, 1000, &laps, TickRate(1e9)).expect("two laps");
        let values = copy.map(|sample| sample.value);
        for (value, expected) in values.into_iter().zip([160_000.0, 240_000.0, 200.0, 100.0, 300.0]) {
            assert!((value / expected - 1.0).abs() < 1e-12, "{value}, not {expected}");
        }
        assert!(samples(Kernel::Add, Stores::Regular, 1000, &laps, TickRate(1e9)).is_none());
    }
}
