//! Pointer chase: the latency of memory, one dependent load after the other.
//!
//! Over working sets from the first cache to well past what the translation buffers reach, with small and with large
//! pages, it shows each level's latency and what a walk of the page tables adds, natively and in two dimensions.

use crate::parameters::{KERNELS, Shared, misfit, odd, own_after, own_spans, shared_size, spans_together, take};
use baremark_kernels::pointer_chase as kernel;
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::{Descriptor, Footprint, HeldBy};
use baremark_model::knob::{Default, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::{
    Arena, Body, Owner, Prepared, RankTime, Sample, TickRate, Verification, Workload, WorkloadError,
};
use baremark_model::units::Bytes;

/// The workload `pointer-chase`.
#[derive(Clone, Copy, Debug)]
pub struct PointerChase;

const WORKING_SET: Knob =
    Knob::new("working_set", Kind::Size { min: RANK_MIN_BYTES, max: 1 << 46 }, Default::Typed("256 MiB")).help(
        "size of all ranks' lines together; each rank chases through its own share, whole lines of 64 bytes \
         (a share of a size of 2^n is rounded down)",
    );

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "pointer-chase",
    help: "latency of memory: dependent loads along a random cycle of lines, each rank through its own",
    source: "baremark; one random cycle over 64-byte lines by Sattolo's algorithm",
    parameters: &[WORKING_SET],
    metrics: &[
        Metric::lower("access_ns", "ns", Aggregate::Mean).help("mean over the ranks of the rank's own time / accesses")
    ],
    footprint: Some(Footprint {
        key: "working_set",
        bytes: |arm| spans_together(&PointerChase, arm),
        held: HeldBy::Agent,
    }),
    quick: &[("working_set", "64 MiB")],
    check: |arm| rank_bytes(arm).map(drop).map_err(misfit),
    ..KERNELS
};

impl Workload for PointerChase {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn spans(&self, arm: &ResolvedArm) -> Result<Vec<u64>, WorkloadError> {
        Ok(own_spans(arm, rank_bytes(arm)?))
    }

    fn owners(&self, arm: &ResolvedArm) -> Vec<Owner> {
        own_after(0, arm)
    }

    fn prepare<'m>(&self, arm: &ResolvedArm, arena: &'m dyn Arena) -> Result<Box<dyn Prepared + 'm>, WorkloadError> {
        let words = Bytes(rank_bytes(arm)? / 8).count();
        let memory = take(arena, &vec![words; arm.ranks])?;
        let body =
            kernel::PointerChase::new(memory, SEED).map_err(|shape| odd(&WORKING_SET, words * 8, shape.to_string()))?;
        Ok(Box::new(PreparedChain { body }))
    }
}

/// The size of one rank's lines. A size of 2^n is asked for whatever the number of ranks, which may be that of the CPUs: of it each has as
/// many lines as it can, and two at least.
fn rank_bytes(arm: &ResolvedArm) -> Result<u64, WorkloadError> {
    let Shared { total, ranks } = shared_size(arm, &WORKING_SET)?;
    let unit = LINE_BYTES * ranks;
    let is_least = total.0 >= RANK_MIN_BYTES * ranks;
    if (total.0.is_power_of_two() && total.0 >= LEAST_WORKING_SET) || (total.0.is_multiple_of(unit) && is_least) {
        return Ok((total.0 / unit * LINE_BYTES).max(RANK_MIN_BYTES));
    }
    let nearest = (total.0 / unit * unit).max(RANK_MIN_BYTES * ranks);
    let why = format!("each of {ranks} ranks needs two whole lines of 64 bytes or more; nearest is {nearest} bytes");
    Err(odd(&WORKING_SET, total, why))
}

const LINE_BYTES: u64 = 8 * kernel::LINE_WORDS as u64;
const RANK_MIN_BYTES: u64 = 2 * LINE_BYTES;
/// A page: what is smaller is meant for a number of ranks.
const LEAST_WORKING_SET: u64 = 4096;
/// The same cycle in every trial: what varies is where its pages lie.
const SEED: u64 = 2010;

struct PreparedChain<'m> {
    body: kernel::PointerChase<'m>,
}

impl Prepared for PreparedChain<'_> {
    fn body(&self) -> &dyn Body {
        &self.body
    }

    fn verify(&mut self) -> Verification {
        let kernel::Check { accesses, errors } = self.body.check_and_reset();
        if errors == 0 {
            Verification::Passed { detail: format!("{accesses} accesses along one cycle ended where they must") }
        } else {
            Verification::Failed { detail: format!("{errors} ranks are astray after {accesses} accesses") }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    fn metrics(&self, reps: u64, times: &[RankTime], rate: TickRate) -> Vec<Sample> {
        let accesses = (reps * kernel::QUANTUM) as f64;
        let own: Vec<f64> = times.iter().map(|time| rate.own(time)).collect();
        // A rank that took no time was not run: there is no latency to be told.
        if accesses <= 0.0 || own.is_empty() || own.iter().any(|&seconds| seconds <= 0.0) {
            return Vec::new();
        }
        let access_ns = own.iter().map(|seconds| 1e9 * seconds / accesses).sum::<f64>() / own.len() as f64;
        vec![Sample::new("access_ns", access_ns)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::page_size::PageSize;
    use baremark_model::team::Team;
    use baremark_model::value::Value;
    use baremark_sys::memory::Map;

    fn arm(ranks: usize, working_set: u64) -> ResolvedArm {
        ResolvedArm::native(ranks, PageSize::Small).with("working_set", Value::SizeBytes(Bytes(working_set)))
    }

    #[test]
    fn a_working_set_of_no_whole_lines_names_the_nearest() {
        let refused = |ranks, bytes| PointerChase.spans(&arm(ranks, bytes)).expect_err("refused").to_string();
        assert!(refused(2, 1000).ends_with("nearest is 896 bytes"), "{}", refused(2, 1000));
        assert!(refused(4, 64).ends_with("nearest is 512 bytes"));
        assert!(refused(0, 64).ends_with("at least one rank"));
        assert_eq!(PointerChase.spans(&arm(3, 384)), Ok(vec![128; 3]));
        assert_eq!(PointerChase.spans(&arm(3, 4096)), Ok(vec![1344; 3]), "as many lines as each can have");
        assert_eq!(PointerChase.spans(&arm(100, 4096)), Ok(vec![128; 100]), "and two at least");
    }

    #[test]
    fn what_was_run_is_verified_and_measured() {
        let arm = arm(2, 64 << 10);
        let map = Map::new(&PointerChase.spans(&arm).expect("32 KiB each"), PageSize::Small, 1).expect("4 MiB");
        let mut prepared = PointerChase.prepare(&arm, &map).expect("enough memory");
        for rank in 0..2 {
            prepared.body().rank(rank, &Team::new(2), 3);
        }
        let times = [(0, 0, 12_288), (1, 0, 36_864)];
        let times = times.map(|(rank, start_ticks, end_ticks)| RankTime { rank, start_ticks, end_ticks });
        let samples = prepared.metrics(3, &times, TickRate(1e9));
        // 12,288 accesses, at 1 ns and at 3 ns.
        assert!((samples[0].value - 2.0).abs() < 1e-12, "{samples:?}");
        assert!(matches!(prepared.verify(), Verification::Passed { .. }));
    }
}
