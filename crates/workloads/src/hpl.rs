//! HPL: a dense system of linear equations, solved by all ranks.
//!
//! The rate counts HPL's operations over the time of factorization and back substitution, taken inside the region: making
//! the matrix, which every solution destroys, does not count. HPL's scaled residual must not exceed 16, and all solutions
//! of one preparation, whichever executors ran them, must agree to the last bit.

use crate::parameters::{ISA, KERNELS, chosen_isa, misfit, odd, own_after, spans_of, spans_together, take, whole};
use baremark_kernels::hpl::{self as kernel, Order};
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::{Descriptor, Footprint, HeldBy};
use baremark_model::knob::{Default, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::{
    Arena, Body, Owner, Prepared, RankTime, Sample, TickRate, Verification, Workload, WorkloadError,
};
use baremark_sys::clock;

/// The workload `hpl`.
#[derive(Clone, Copy, Debug)]
pub struct Hpl;

const N: Knob = Knob::new("n", Kind::Count { min: 1, max: 1 << 20 }, Default::Typed("3000")).help("equations");

const NB: Knob = Knob::new("nb", Kind::Count { min: 1, max: 1024 }, Default::Typed("192")).help("columns of a panel");

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "hpl",
    help: "a dense system of linear equations: LU factorization with partial pivoting by all ranks, and solution",
    source: "HPL 2.3: operation count, residual and kind of matrix; the code is baremark's",
    parameters: &[N, NB, ISA],
    metrics: &[
        Metric::higher("gflops", "GFLOP/s", Aggregate::Sum)
            .help("10^-9 x (2/3 n^3 + 3/2 n^2) / the mean time of a solution"),
        Metric::higher("best_gflops", "GFLOP/s", Aggregate::Sum)
            .help("10^-9 x (2/3 n^3 + 3/2 n^2) / the best time of a solution"),
        Metric::lower("solution_ns", "ns", Aggregate::Mean).help("the mean time of a solution"),
    ],
    footprint: Some(Footprint { key: "n", bytes: |arm| spans_together(&Hpl, arm), held: HeldBy::Agent }),
    quick: &[("n", "1000")],
    check: |arm| order(arm).and_then(|_| chosen_isa(arm)).map(drop).map_err(misfit),
    ..KERNELS
};

impl Workload for Hpl {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn spans(&self, arm: &ResolvedArm) -> Result<Vec<u64>, WorkloadError> {
        Ok(spans_of(kernel::span_words(order(arm)?, arm.ranks)))
    }

    /// The matrices are everybody's, the blocks into which each rank packs are its own.
    fn owners(&self, arm: &ResolvedArm) -> Vec<Owner> {
        own_after(2, arm)
    }

    fn prepare<'m>(&self, arm: &ResolvedArm, arena: &'m dyn Arena) -> Result<Box<dyn Prepared + 'm>, WorkloadError> {
        let (order, isa) = (order(arm)?, chosen_isa(arm)?);
        let body = kernel::Hpl::new(order, isa, take(arena, &kernel::span_words(order, arm.ranks))?, clock::ticks);
        Ok(Box::new(PreparedSystem { body: body.map_err(|unfit| odd(&N, order.n, unfit.to_string()))? }))
    }
}

fn order(arm: &ResolvedArm) -> Result<Order, WorkloadError> {
    Ok(Order { n: whole(arm, &N)?, nb: whole(arm, &NB)? })
}

struct PreparedSystem<'m> {
    body: kernel::Hpl<'m>,
}

impl Prepared for PreparedSystem<'_> {
    fn body(&self) -> &dyn Body {
        &self.body
    }

    fn warm_in(&self) -> Option<Box<dyn Body + '_>> {
        Some(Box::new(self.body.warm_in()?))
    }

    fn verify(&mut self) -> Verification {
        let kernel::Check { solutions, differing, residual, digest } = self.body.check_and_reset();
        let Order { n, nb } = self.body.order();
        let detail = format!(
            "{solutions} solutions of n = {n}, nb = {nb} by {:?}, {differing} of them in other bits than the first \
             ({digest:016x}); scaled residual {residual:.2e}, allowed {}",
            self.body.isa(),
            kernel::LIMIT
        );
        // What is not a number does not pass.
        if residual <= kernel::LIMIT && differing == 0 {
            Verification::Passed { detail }
        } else {
            Verification::Failed { detail }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    fn metrics(&self, _reps: u64, times: &[RankTime], rate: TickRate) -> Vec<Sample> {
        let Some(start) = times.iter().map(|time| time.start_ticks).min() else { return Vec::new() };
        let laps = self.body.laps(start).into_iter();
        let seconds: Vec<f64> = laps.map(|lap| rate.seconds(lap.end_ticks.saturating_sub(lap.start_ticks))).collect();
        let Some(best) = seconds.iter().copied().min_by(f64::total_cmp).filter(|&best| best > 0.0) else {
            return Vec::new();
        };
        let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
        let flops = self.body.flops() as f64;
        vec![
            Sample::new("gflops", 1e-9 * flops / mean),
            Sample::new("best_gflops", 1e-9 * flops / best),
            Sample::new("solution_ns", 1e9 * mean),
        ]
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
    fn what_was_run_is_verified_and_measured_by_its_laps() {
        let arm = ResolvedArm::native(1, PageSize::Small).with("n", Value::Count(200)).with("nb", Value::Count(32));
        let map = Map::new(&Hpl.spans(&arm).expect("spans"), PageSize::Small, 1).expect("memory");
        let mut prepared = Hpl.prepare(&arm, &map).expect("fits");
        let start_ticks = clock::ticks();
        prepared.body().rank(0, &Team::new(1), 3);
        let end_ticks = clock::ticks();
        let samples = prepared.metrics(3, &[RankTime { rank: 0, start_ticks, end_ticks }], TickRate(1e9));
        let keys: Vec<&str> = samples.iter().map(|sample| sample.metric.as_str()).collect();
        assert!(DESCRIPTOR.metrics.iter().map(|metric| metric.key).eq(keys), "{samples:?}");
        let [mean, best, each] = [0, 1, 2].map(|index: usize| samples[index].value);
        #[expect(clippy::cast_precision_loss, reason = "a short time")]
        let region = (end_ticks - start_ticks) as f64;
        assert!(3.0 * each <= region && best >= mean, "{samples:?} in {region}");
        // 2/3 200^3 + 3/2 200^2.
        assert!((mean * each / 5_393_333.0 - 1.0).abs() < 1e-6, "{samples:?}");
        let Verification::Passed { detail } = prepared.verify() else { panic!("must pass") };
        assert!(detail.starts_with("3 solutions of n = 200, nb = 32 by "), "{detail}");
    }
}
