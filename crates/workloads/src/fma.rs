//! The control: multiply-adds in registers.
//!
//! It asks nothing of memory or MMU, so that what an environment takes from it is the price of exits and interrupts
//! alone. Run alongside another workload, at the same width of vectors, it says how much of that one's loss is *not* explained
//! by them.

use crate::parameters::{ISA, KERNELS, chosen_isa, misfit, odd};
use baremark_kernels::fma as kernel;
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::Descriptor;
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::{Arena, Body, Prepared, RankTime, Sample, TickRate, Verification, Workload, WorkloadError};

/// The workload `fma`.
#[derive(Clone, Copy, Debug)]
pub struct Fma;

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "fma",
    help: "multiply-adds in registers: a control that needs neither memory nor MMU",
    source: "baremark; sixteen independent chains of two exact multiply-adds",
    parameters: &[ISA],
    metrics: &[Metric::higher("gflops", "GFLOP/s", Aggregate::Sum)
        .help("sum over the ranks of 10^-9 x floating-point operations / the rank's own time; a multiply-add is two")],
    check: |arm| chosen_isa(arm).map(drop).map_err(misfit),
    ..KERNELS
};

impl Workload for Fma {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn spans(&self, _arm: &ResolvedArm) -> Result<Vec<u64>, WorkloadError> {
        Ok(Vec::new())
    }

    fn prepare<'m>(&self, arm: &ResolvedArm, _arena: &'m dyn Arena) -> Result<Box<dyn Prepared + 'm>, WorkloadError> {
        let isa = chosen_isa(arm)?;
        let body =
            kernel::Fma::new(arm.ranks, isa).map_err(|error| odd(&ISA, format!("{isa:?}"), error.to_string()))?;
        Ok(Box::new(PreparedFma { body }))
    }
}

struct PreparedFma {
    body: kernel::Fma,
}

impl Prepared for PreparedFma {
    fn body(&self) -> &dyn Body {
        &self.body
    }

    fn verify(&mut self) -> Verification {
        let kernel::Check { turns, errors } = self.body.check_and_reset();
        let isa = self.body.isa();
        if errors == 0 {
            Verification::Passed { detail: format!("every lane holds its start plus its turns, {turns} by {isa:?}") }
        } else {
            Verification::Failed { detail: format!("{errors} lanes are wrong after {turns} turns by {isa:?}") }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    fn metrics(&self, reps: u64, times: &[RankTime], rate: TickRate) -> Vec<Sample> {
        let flops = (reps * self.body.rank_flops()) as f64;
        let own: Vec<f64> = times.iter().map(|time| rate.own(time)).collect();
        // A rank that took no time was not run: there is no rate to be told.
        if flops <= 0.0 || own.is_empty() || own.iter().any(|&seconds| seconds <= 0.0) {
            return Vec::new();
        }
        let gflops = own.iter().map(|seconds| 1e-9 * flops / seconds).sum();
        vec![Sample::new("gflops", gflops)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::page_size::PageSize;
    use baremark_model::team::Team;
    use baremark_model::value::Value;
    use baremark_sys::memory::Map;

    fn arm(isa: &str) -> ResolvedArm {
        ResolvedArm::native(1, PageSize::Small).with("isa", Value::Choice(isa.to_owned()))
    }

    #[test]
    fn flops_are_counted_and_lanes_verified() {
        let map = Map::new(&[8], PageSize::Small, 1).expect("2 MiB");
        let mut prepared = Fma.prepare(&arm("baseline"), &map).expect("baseline is everywhere");
        prepared.body().rank(0, &Team::new(1), 3);
        let time = RankTime { rank: 0, start_ticks: 0, end_ticks: 1_000_000 };
        let samples = prepared.metrics(3, &[time], TickRate(1e9));
        // 3 repetitions of 2^14 turns of 16 lanes of 4 operations in 1 ms.
        assert!((samples[0].value / 3.145_728 - 1.0).abs() < 1e-12, "{samples:?}");
        assert!(matches!(prepared.verify(), Verification::Passed { .. }));
    }

    #[test]
    fn an_instruction_set_of_no_known_name_is_refused() {
        let map = Map::new(&[8], PageSize::Small, 1).expect("2 MiB");
        let error = Fma.prepare(&arm("avx9"), &map).err().expect("refused");
        assert_eq!(error.to_string(), "isa: avx9; write one of widest, baseline, avx2, avx512");
    }
}
