//! A kernel by hand: fused multiply-adds on one rank, timed from outside and checked afterwards.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_kernels::fma::{Fma, NotHere};
use baremark_kernels::isa;
use baremark_model::seam::Body;
use baremark_model::team::Team;
use std::time::Instant;

fn main() -> Result<(), NotHere> {
    let (ranks, reps) = (1, 2_000);
    let mut fma = Fma::new(ranks, isa::widest())?;
    let work = fma.work(ranks);
    let begin = Instant::now();
    fma.rank(0, &Team::new(ranks), reps);
    let seconds = begin.elapsed().as_secs_f64();
    println!("{:?}: {:.1} Gflop/s", fma.isa(), (work.flops * reps) as f64 / seconds / 1e9);
    let check = fma.check_and_reset();
    println!("{} turns, {} wrong lanes", check.turns, check.errors);
    Ok(())
}
