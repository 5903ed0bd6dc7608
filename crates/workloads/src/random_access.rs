//! RandomAccess of the HPC Challenge, star mode: every rank updates random words of a table of its own.
//!
//! What it costs is the walk of page tables and the miss in the cache, which is why it shows the MMU's virtualization
//! more than anything else. The reference runs four updates for each word and tolerates 1 % of wrong words, which its
//! variants over shared tables need. Here a run is as many repetitions as the caller asks for, and since the tables are
//! private not one word may be wrong.

use crate::parameters::{KERNELS, Shared, misfit, odd, own_after, own_spans, shared_size, spans_together, take};
use baremark_kernels::random_access as kernel;
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::{Descriptor, Footprint, HeldBy};
use baremark_model::knob::{Default, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::{
    Arena, Body, Owner, Prepared, RankTime, Sample, TickRate, Verification, Workload, WorkloadError,
};
use baremark_model::units::Bytes;
use baremark_model::verify::{ONE_OF, RANGES};

/// The workload `random-access`.
#[derive(Clone, Copy, Debug)]
pub struct RandomAccess;

const TABLE: Knob = Knob::new("table", Kind::Size { min: RANK_MIN_BYTES, max: 1 << 46 }, Default::Typed("256 MiB"))
    .help(
        "size of all ranks' tables together; each rank's is 2^n words of 8 bytes (a share of a size of 2^n is \
         rounded down)",
    );

const VARIANT: Knob = Knob::new("variant", Kind::Choice(&["reference", "optimized"]), Default::Typed("reference"))
    .help(
        "reference: the 128 interleaved streams of the HPC Challenge's own code; optimized: the same updates, \
         each line prefetched 128 updates ahead",
    );

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "random-access",
    help: "random updates by every rank, each in its own table (StarRandomAccess)",
    source: "HPC Challenge 1.5, RandomAccess",
    parameters: &[TABLE, VARIANT],
    metrics: &[
        Metric::higher("gups", "GUP/s", Aggregate::Mean)
            .help("mean over the ranks of 10^-9 x updates / the rank's own time, as the HPC Challenge's star mode"),
        Metric::lower("update_ns", "ns", Aggregate::Mean).help("mean over the ranks of the rank's own time / updates"),
    ],
    footprint: Some(Footprint { key: "table", bytes: |arm| spans_together(&RandomAccess, arm), held: HeldBy::Agent }),
    quick: &[("table", "64 MiB")],
    check: |arm| rank_bytes(arm).map(drop).map_err(misfit),
    ..KERNELS
};

impl Workload for RandomAccess {
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
        let variant = match VARIANT.get::<String>(arm)?.as_str() {
            "reference" => kernel::Variant::Reference,
            _ => kernel::Variant::Optimized,
        };
        let words = Bytes(rank_bytes(arm)? / 8).count();
        let tables = take(arena, &vec![words; arm.ranks])?;
        let body =
            kernel::RandomAccess::new(tables, variant).map_err(|shape| odd(&TABLE, words * 8, shape.to_string()))?;
        Ok(Box::new(PreparedTable { body }))
    }
}

/// The size of one rank's table, which must be 2^n words. A size that is 2^n itself is asked for whatever the number of ranks, which may
/// be that of the CPUs: of 256 MiB each of 6 ranks has 32 MiB.
fn rank_bytes(arm: &ResolvedArm) -> Result<u64, WorkloadError> {
    let Shared { total, ranks } = shared_size(arm, &TABLE)?;
    let each = total.0 / ranks;
    let below = if each == 0 { 0 } else { 1 << each.ilog2() };
    if (total.0.is_power_of_two() || total.0 == below * ranks) && below >= RANK_MIN_BYTES {
        return Ok(below);
    }
    let nearest = [below, (2 * below).max(RANK_MIN_BYTES)].into_iter().filter(|&each| each >= RANK_MIN_BYTES);
    let nearest: Vec<String> = nearest.map(|each| Bytes(each * ranks).to_string()).collect();
    let why = format!("each of {ranks} ranks needs 2^n words of 8 bytes; nearest is {}", nearest.join(" or "));
    Err(odd(&TABLE, total, why))
}

/// The least table of a rank: one word for each stream.
const RANK_MIN_BYTES: u64 = 8 * kernel::STREAMS as u64;

struct PreparedTable<'m> {
    body: kernel::RandomAccess<'m>,
}

impl Prepared for PreparedTable<'_> {
    fn body(&self) -> &dyn Body {
        &self.body
    }

    fn verify(&mut self) -> Verification {
        let check = self.body.check_and_reset();
        let kernel::Check { updates, errors, method } = check;
        if errors > 0 {
            return Verification::Failed {
                detail: format!("{errors} words differ from the result of {updates} updates"),
            };
        }
        let detail = match method {
            kernel::Method::Fingerprint => format!(
                "all of {updates} updates checked by a fingerprint of the tables, which misses a wrong word with a probability \
                 of at most 2^-64"
            ),
            kernel::Method::Undone => format!("all of {updates} updates undone, every word as at the beginning"),
        };
        Verification::Passed { detail }
    }

    fn verify_ranges(&mut self, seed: u64) -> Option<Verification> {
        let kernel::Check { updates, errors, .. } = self.body.check_ranges(seed)?;
        if errors > 0 {
            let detail = format!(
                "{errors} words differ from the result of {updates} updates, one of them at least in the ranges that were checked"
            );
            return Some(Verification::Failed { detail });
        }
        let detail = format!(
            "of {updates} updates those in one range of each {ONE_OF}, {RANGES} ranges of each table drawn anew, by a \
             fingerprint, which misses a wrong word there with a probability of at most 2^-64"
        );
        Some(Verification::Passed { detail })
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    fn metrics(&self, reps: u64, times: &[RankTime], rate: TickRate) -> Vec<Sample> {
        let updates = (reps * kernel::QUANTUM) as f64;
        let own: Vec<f64> = times.iter().map(|time| rate.own(time)).collect();
        // A rank that took no time was not run: there is no rate to be told.
        if updates <= 0.0 || own.is_empty() || own.iter().any(|&seconds| seconds <= 0.0) {
            return Vec::new();
        }
        let ranks = own.len() as f64;
        let gups = own.iter().map(|seconds| 1e-9 * updates / seconds).sum::<f64>() / ranks;
        let update_ns = own.iter().map(|seconds| 1e9 * seconds / updates).sum::<f64>() / ranks;
        vec![Sample::new("gups", gups), Sample::new("update_ns", update_ns)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::page_size::PageSize;
    use baremark_model::team::Team;
    use baremark_model::value::Value;
    use baremark_sys::memory::Map;
    use std::collections::BTreeMap;

    fn arm(ranks: usize, table: u64) -> ResolvedArm {
        ResolvedArm::native(ranks, PageSize::Small).with("table", Value::SizeBytes(Bytes(table)))
    }

    #[test]
    fn a_table_that_does_not_divide_names_the_nearest_that_do() {
        let error = RandomAccess.spans(&arm(3, 300 << 20)).expect_err("a third of 300 MiB");
        assert_eq!(
            error.to_string(),
            "table = 300 MiB: each of 3 ranks needs 2^n words of 8 bytes; nearest is 192 MiB or 384 MiB"
        );
        let error = RandomAccess.spans(&arm(2, 3 << 20)).expect_err("1.5 MiB each");
        assert!(error.to_string().ends_with("nearest is 2 MiB or 4 MiB"), "{error}");
        let error = RandomAccess.spans(&arm(2, 8)).expect_err("half a word each");
        assert!(error.to_string().ends_with("nearest is 2 KiB"), "{error}");
        assert!(RandomAccess.spans(&arm(0, 8)).is_err());
    }

    #[test]
    fn the_default_table_serves_any_number_of_ranks() {
        for (ranks, each) in [(1, 256), (3, 64), (4, 64), (6, 32), (12, 16), (96, 2), (240, 1)] {
            let mut arm = arm(ranks, 0);
            arm.parameters.clear();
            assert_eq!(RandomAccess.spans(&arm).expect("the default"), vec![each << 20; ranks], "{ranks} ranks");
        }
    }

    #[test]
    fn a_parameter_of_another_kind_is_refused() {
        let mut arm = arm(1, 0);
        arm.parameters.insert("table".to_owned(), Value::Count(7));
        let refused = RandomAccess.spans(&arm).expect_err("no unit").to_string();
        assert!(refused.starts_with("table: 7; write a size from "), "{refused}");
        arm.parameters = BTreeMap::from([("variant".to_owned(), Value::Choice("fast".to_owned()))]);
        let map = Map::new(&[8], PageSize::Small, 1).expect("2 MiB");
        let error = RandomAccess.prepare(&arm, &map).err().expect("refused");
        assert_eq!(error.to_string(), "variant: fast; write one of reference, optimized");
    }

    #[test]
    fn what_was_run_is_verified_and_measured_as_defined() {
        let arm = arm(2, 2 << 20);
        let spans = RandomAccess.spans(&arm).expect("1 MiB each");
        let map = Map::new(&spans, PageSize::Small, 1).expect("4 MiB");
        let mut prepared = RandomAccess.prepare(&arm, &map).expect("enough memory");
        let team = Team::new(2);
        for rank in 0..2 {
            prepared.body().rank(rank, &team, 2);
        }
        let times = [(0, 0, 1_000_000), (1, 0, 2_000_000)];
        let times = times.map(|(rank, start_ticks, end_ticks)| RankTime { rank, start_ticks, end_ticks });
        let samples = prepared.metrics(2, &times, TickRate(1e9));
        // 131,072 updates in 1 ms and in 2 ms.
        let expected = [0.131_072 * 0.75, 1.5e6 / 131_072.0];
        for (sample, expected) in samples.iter().zip(expected) {
            assert!((sample.value / expected - 1.0).abs() < 1e-12, "{sample:?}, not {expected}");
        }
        if let Some(verification) = prepared.verify_ranges(3) {
            let Verification::Passed { detail } = verification else { panic!("must pass") };
            assert!(detail.starts_with("of 262144 updates those in one range of each 16, "), "{detail}");
        }
        let Verification::Passed { detail } = prepared.verify() else { panic!("must pass") };
        assert!(detail.starts_with("all of 262144 updates "), "{detail}");
        assert!(prepared.metrics(2, &[], TickRate(1e9)).is_empty());
    }
}
