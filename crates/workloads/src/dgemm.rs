//! Matrix multiplication: what the processor's arithmetic gives when caches are used well.
//!
//! One product of square matrices for all ranks. Next to `fma`, which is the most that the same instructions can give, it
//! says how near a program of packed blocks comes to it.

use crate::parameters::{ISA, KERNELS, chosen_isa, misfit, odd, own_after, spans_of, spans_together, take, whole};
use baremark_kernels::dgemm as kernel;
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::{Descriptor, Footprint, HeldBy};
use baremark_model::knob::{Default, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::{
    Arena, Body, Owner, Prepared, RankTime, Sample, TickRate, Verification, Workload, WorkloadError,
};

/// The workload `dgemm`.
#[derive(Clone, Copy, Debug)]
pub struct Dgemm;

const N: Knob =
    Knob::new("n", Kind::Count { min: 1, max: 1 << 20 }, Default::Typed("2000")).help("order of the three matrices");

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "dgemm",
    help: "multiplication of matrices in double precision, one product for all ranks",
    source: "HPC Challenge 1.5, DGEMM; packed blocks after Goto and van de Geijn 2008",
    parameters: &[N, ISA],
    metrics: &[Metric::higher("gflops", "GFLOP/s", Aggregate::Sum)
        .help("10^-9 x 2 n^3 x products / time from the first rank's start to the last one's end")],
    footprint: Some(Footprint { key: "n", bytes: |arm| spans_together(&Dgemm, arm), held: HeldBy::Agent }),
    quick: &[("n", "1000")],
    check: |arm| whole(arm, &N).and_then(|_| chosen_isa(arm)).map(drop).map_err(misfit),
    ..KERNELS
};

impl Workload for Dgemm {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn spans(&self, arm: &ResolvedArm) -> Result<Vec<u64>, WorkloadError> {
        Ok(spans_of(kernel::span_words(whole(arm, &N)?, arm.ranks)))
    }

    /// The matrices are everybody's, the blocks into which each rank packs are its own.
    fn owners(&self, arm: &ResolvedArm) -> Vec<Owner> {
        own_after(4, arm)
    }

    fn prepare<'m>(&self, arm: &ResolvedArm, arena: &'m dyn Arena) -> Result<Box<dyn Prepared + 'm>, WorkloadError> {
        let (n, isa) = (whole(arm, &N)?, chosen_isa(arm)?);
        let body = kernel::Dgemm::new(n, isa, take(arena, &kernel::span_words(n, arm.ranks))?);
        Ok(Box::new(PreparedMatrices { body: body.map_err(|unfit| odd(&N, n, unfit.to_string()))? }))
    }
}

struct PreparedMatrices<'m> {
    body: kernel::Dgemm<'m>,
}

impl Prepared for PreparedMatrices<'_> {
    fn body(&self) -> &dyn Body {
        &self.body
    }

    fn verify(&mut self) -> Verification {
        let kernel::Check { products, residual } = self.body.check_and_reset();
        let detail = format!(
            "{products} products of order {} by {:?}, scaled residual {residual:.2e}, allowed {}",
            self.body.order(),
            self.body.isa(),
            kernel::LIMIT
        );
        // What is not a number does not pass.
        if residual <= kernel::LIMIT { Verification::Passed { detail } } else { Verification::Failed { detail } }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    fn metrics(&self, reps: u64, times: &[RankTime], rate: TickRate) -> Vec<Sample> {
        let flops = (reps * self.body.work(times.len()).flops) as f64;
        let seconds = rate.span(times).filter(|&seconds| seconds > 0.0 && flops > 0.0);
        let sample = |seconds| Sample::new("gflops", 1e-9 * flops / seconds);
        seconds.map(sample).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::page_size::PageSize;
    use baremark_model::team::Team;
    use baremark_model::value::Value;
    use baremark_sys::memory::Map;

    #[test]
    fn what_was_run_is_verified_and_measured() {
        let arm = ResolvedArm::native(1, PageSize::Small).with("n", Value::Count(100));
        let map = Map::new(&Dgemm.spans(&arm).expect("spans"), PageSize::Small, 1).expect("memory");
        let mut prepared = Dgemm.prepare(&arm, &map).expect("fits");
        prepared.body().rank(0, &Team::new(1), 3);
        let times = [RankTime { rank: 0, start_ticks: 500, end_ticks: 1_000_500 }];
        let samples = prepared.metrics(3, &times, TickRate(1e9));
        // 3 products of 2 x 10^6 operations in 1 ms.
        assert!((samples[0].value - 6.0).abs() < 1e-12, "{samples:?}");
        let Verification::Passed { detail } = prepared.verify() else { panic!("must pass") };
        assert!(detail.starts_with("3 products of order 100 by "), "{detail}");
        assert!(prepared.metrics(3, &[], TickRate(1e9)).is_empty());
    }
}
