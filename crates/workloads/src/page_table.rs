//! Page-table work: what a demand-zero fault, a change of protection and an unmapping cost, page by page.
//!
//! This is work for the operating system, so it has no pure body: it makes system calls, and only the executor `direct`
//! runs it, which is a thread of the process and nothing else. Inside a virtual machine it is measured by an agent of that
//! machine. The costs are absolute, in nanoseconds a page, and alongside them stand those of the same loops with nothing to
//! do: touching pages that are there (alongside the fault) and a system call that does nothing (alongside the other two). They
//! are not subtracted, and unlike operations are never compared with each other.

use crate::parameters::{KERNELS, misfit, odd};
use baremark_kernels::laps::Laps;
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::descriptor::{Descriptor, Footprint, HeldBy, size_of};
use baremark_model::knob::{Default, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::page_size::PageSize;
use baremark_model::seam::{
    Arena, Body, Prepared, RankTime, Sample, TickRate, Verification, Work, Workload, WorkloadError,
};
use baremark_model::team::Team;
use baremark_model::units::Bytes;
use baremark_sys::clock;
use baremark_sys::paging::{Fresh, empty_call, faults_of_this_thread};
use std::io;
use std::sync::{Mutex, PoisonError};

/// The workload `page-table`.
#[derive(Clone, Copy, Debug)]
pub struct PageTable;

const REGION: Knob = Knob::new("region", Kind::Size { min: RANK_BYTES, max: 1 << 40 }, Default::Typed("16 MiB")).help(
    "size of all ranks' regions together, which every repetition maps, touches, protects and unmaps page \
     by page; each rank's is a multiple of 2 MiB (a share of a size of 2^n is rounded down, to 2 MiB at \
     least)",
);

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "page-table",
    help: "cost of page-table work for the operating system: demand-zero fault, change of protection, unmapping",
    source: "baremark; operations of the memory-management tests that were run for AMD's RVI in 2009",
    parameters: &[REGION],
    metrics: &[
        Metric::lower("fault_ns", "ns", Aggregate::Mean)
            .help("mean time of the first store to a page of anonymous memory"),
        Metric::lower("protect_ns", "ns", Aggregate::Mean).help("mean time of a call that makes one page read-only"),
        Metric::lower("unmap_ns", "ns", Aggregate::Mean).help("mean time of a call that unmaps one page"),
        Metric::lower("touch_ns", "ns", Aggregate::Mean)
            .help("the baseline of a fault: mean time of a store to a page that is there"),
        Metric::lower("call_ns", "ns", Aggregate::Mean)
            .help("the baseline of the others: mean time of a system call that does nothing (getppid)"),
    ],
    footprint: Some(Footprint { key: "region", bytes: |arm| size_of(arm, "region"), held: HeldBy::Workload }),
    executors: &[ExecutorKind::Direct],
    check: |arm| rank_bytes(arm).map(drop).map_err(misfit),
    ..KERNELS
};

impl Workload for PageTable {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    /// None: pages that are there already are what this does not want.
    fn spans(&self, _arm: &ResolvedArm) -> Result<Vec<u64>, WorkloadError> {
        Ok(Vec::new())
    }

    fn prepare<'m>(&self, arm: &ResolvedArm, _arena: &'m dyn Arena) -> Result<Box<dyn Prepared + 'm>, WorkloadError> {
        let bytes = Bytes(rank_bytes(arm)?).count();
        let rank = || Mutex::new(Rank { laps: Laps::new(clock::ticks), tally: Tally::default() });
        let ranks = (0..arm.ranks).map(|_| rank()).collect();
        Ok(Box::new(PreparedPages { body: Pages { bytes, page: arm.page, ranks } }))
    }
}

/// The size of one rank's region. A size of 2^n is asked for whatever the number of ranks, which may be that of the CPUs: of it each has
/// as much as it can, and the least that a region has.
fn rank_bytes(arm: &ResolvedArm) -> Result<u64, WorkloadError> {
    let total: Bytes = REGION.get(arm)?;
    let ranks = arm.all_ranks().max(1) as u64;
    if total.0.is_power_of_two() || (total.0.is_multiple_of(ranks * RANK_BYTES) && total.0 > 0) {
        return Ok((total.0 / ranks / RANK_BYTES).max(1) * RANK_BYTES);
    }
    let nearest = Bytes((total.0 / (ranks * RANK_BYTES)).max(1) * ranks * RANK_BYTES);
    Err(odd(&REGION, total, format!("each of {ranks} ranks needs a multiple of 2 MiB; nearest is {nearest}")))
}

const RANK_BYTES: u64 = 2 << 20;

/// The parts of a repetition, by the numbers of their laps, and the metrics that they give.
const PARTS: [&str; 5] = ["fault_ns", "touch_ns", "protect_ns", "call_ns", "unmap_ns"];

/// Calls of the baseline in a repetition: a few large pages would give it too few.
const CALLS: u64 = 1024;

struct Pages {
    bytes: usize,
    page: PageSize,
    ranks: Vec<Mutex<Rank>>,
}

/// What one rank keeps; only its own thread locks it while it runs.
struct Rank {
    laps: Laps,
    tally: Tally,
}

#[derive(Clone, Copy, Debug, std::default::Default, PartialEq, Eq)]
struct Tally {
    pages: u64,
    /// Faults that the first touches took.
    faults: u64,
    /// Faults that the second touches took.
    baseline_faults: u64,
    /// Repetitions that a refused call ended.
    refused: u64,
}

impl Pages {
    fn repetition(&self, rank: &mut Rank) -> io::Result<()> {
        let Rank { laps, tally } = rank;
        let mut fresh = Fresh::map(self.bytes, self.page)?;
        let none = faults_of_this_thread()?;
        let start = laps.now();
        fresh.touch_each();
        laps.end(0, start);
        let first = faults_of_this_thread()?;
        let start = laps.now();
        fresh.touch_each();
        laps.end(1, start);
        tally.pages += fresh.pages() as u64;
        tally.faults += first - none;
        tally.baseline_faults += faults_of_this_thread()? - first;
        let start = laps.now();
        fresh.protect_each(&mut || laps.end(2, start))?;
        let start = laps.now();
        (0..CALLS).for_each(|_| empty_call());
        laps.end(3, start);
        let start = laps.now();
        fresh.unmap_each()?;
        laps.end(4, start);
        Ok(())
    }

    fn pages(&self) -> u64 {
        self.bytes as u64 / self.page.bytes()
    }
}

impl Body for Pages {
    fn work(&self, ranks: usize) -> Work {
        Work { operations: (4 * self.pages() + CALLS) * ranks as u64, ..Work::default() }
    }

    fn rank(&self, rank: usize, _team: &Team, reps: u64) {
        let Some(rank) = self.ranks.get(rank) else { return };
        let mut rank = rank.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..reps {
            rank.tally.refused += u64::from(self.repetition(&mut rank).is_err());
        }
    }
}

struct PreparedPages {
    body: Pages,
}

impl Prepared for PreparedPages {
    fn body(&self) -> &dyn Body {
        &self.body
    }

    fn verify(&mut self) -> Verification {
        let mut sum = Tally::default();
        for rank in &mut self.body.ranks {
            let tally = std::mem::take(&mut rank.get_mut().unwrap_or_else(PoisonError::into_inner).tally);
            sum.pages += tally.pages;
            sum.faults += tally.faults;
            sum.baseline_faults += tally.baseline_faults;
            sum.refused += tally.refused;
        }
        judge(sum, self.body.page)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    fn metrics(&self, _reps: u64, times: &[RankTime], rate: TickRate) -> Vec<Sample> {
        let Some(start) = times.iter().map(|time| time.start_ticks).min() else { return Vec::new() };
        let mut laps = Vec::new();
        for rank in &self.body.ranks {
            laps.extend(rank.lock().unwrap_or_else(PoisonError::into_inner).laps.since(start));
        }
        let mean = |part: usize| {
            let of_part: Vec<u64> =
                laps.iter().filter(|lap| lap.part == part).map(|lap| lap.end_ticks - lap.start_ticks).collect();
            let each = if PARTS[part] == "call_ns" { CALLS } else { self.body.pages() };
            let operations = of_part.len() as f64 * each as f64;
            (operations > 0.0).then(|| 1e9 * rate.seconds(of_part.iter().sum()) / operations)
        };
        let sample = |(part, metric): (usize, &&str)| mean(part).map(|value| Sample::new(*metric, value));
        PARTS.iter().enumerate().filter_map(sample).collect()
    }
}

/// Every first touch must have been a fault of its own and hardly any second one: else pages were not of the size that was
/// requested, or somebody took them away meanwhile.
fn judge(tally: Tally, page: PageSize) -> Verification {
    let Tally { pages, faults, baseline_faults, refused } = tally;
    let detail = format!(
        "{pages} pages of {page} took {faults} faults at their first touch and {baseline_faults} at their second; \
         {refused} repetitions were refused"
    );
    let slack = pages / 50 + 8;
    if faults >= pages && faults <= pages + slack && baseline_faults <= slack && refused == 0 {
        Verification::Passed { detail }
    } else {
        Verification::Failed { detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::value::Value;
    use baremark_sys::memory::Map;
    use std::collections::BTreeMap;

    fn arm(ranks: usize, region: u64) -> ResolvedArm {
        ResolvedArm::native(ranks, PageSize::Small).with("region", Value::SizeBytes(Bytes(region)))
    }

    #[test]
    fn faults_are_counted_and_every_operation_has_its_cost() {
        let arm = arm(1, 4 << 20);
        let map = Map::new(&PageTable.spans(&arm).expect("none"), PageSize::Small, 1).expect("nothing");
        let mut prepared = PageTable.prepare(&arm, &map).expect("nothing to take");
        let start_ticks = clock::ticks();
        prepared.body().rank(0, &Team::new(1), 3);
        let times = [RankTime { rank: 0, start_ticks, end_ticks: clock::ticks() }];
        let samples = prepared.metrics(3, &times, TickRate(1e9));
        let of: BTreeMap<&str, f64> = samples.iter().map(|sample| (sample.metric.as_str(), sample.value)).collect();
        assert!(DESCRIPTOR.metrics.iter().all(|metric| of[metric.key] > 0.0), "{of:?}");
        // A page that the kernel moves meanwhile faults once more, which the verdict may refuse; none faults less than once.
        let (Verification::Passed { detail } | Verification::Failed { detail }) = prepared.verify();
        let counts = detail.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok());
        let [pages, _, faults, ..] = counts.collect::<Vec<_>>()[..] else { panic!("{detail}") };
        assert!(pages == 3072 && faults >= pages && detail.ends_with("; 0 repetitions were refused"), "{detail}");
    }

    #[test]
    fn too_few_faults_and_refused_calls_are_found() {
        let right = Tally { pages: 1000, faults: 1000, baseline_faults: 0, refused: 0 };
        assert!(matches!(judge(right, PageSize::Small), Verification::Passed { .. }));
        let wrong = [
            Tally { faults: 999, ..right },
            Tally { faults: 2000, ..right },
            Tally { baseline_faults: 500, ..right },
            Tally { refused: 1, ..right },
        ];
        for tally in wrong {
            assert!(matches!(judge(tally, PageSize::Small), Verification::Failed { .. }), "{tally:?}");
        }
    }

    #[test]
    fn a_region_that_does_not_divide_names_the_nearest() {
        let refused = rank_bytes(&arm(3, 15 << 20)).expect_err("refused").to_string();
        assert_eq!(refused, "region = 15 MiB: each of 3 ranks needs a multiple of 2 MiB; nearest is 12 MiB");
    }

    #[test]
    fn a_region_of_a_power_of_two_serves_any_number_of_ranks() {
        for (ranks, each) in [(1, 16), (3, 4), (6, 2), (8, 2), (12, 2), (256, 2)] {
            assert_eq!(rank_bytes(&arm(ranks, 16 << 20)), Ok(each << 20), "{ranks} ranks");
        }
    }
}
