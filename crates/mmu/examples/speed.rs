//! How many translations a second the simulator makes on one core: `cargo run --release -p baremark-mmu --example speed`.
#![allow(clippy::print_stdout, clippy::allow_attributes, reason = "an example prints")]

use baremark_mmu::machine;
use baremark_mmu::page::Page::{Large, Small};
use baremark_mmu::random::Random;
use baremark_mmu::scheme::{Scheme, Setup};
use baremark_mmu::simulator::Simulator;
use baremark_mmu::stream::{RandomAccess, Stream, Triad};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("million translations/s on one core (translation alone / with the program's data in the caches)");
    for name in ["nehalem-x5570", "cascade-lake", "zen-4"] {
        let part = machine::known(name)?.draw(&mut Random::new(1)).part;
        for scheme in [
            Scheme::Native { page: Small },
            Scheme::Native { page: Large },
            Scheme::Nested { guest_page: Small, host_backing: Large },
            Scheme::Nested { guest_page: Small, host_backing: Small },
        ] {
            let speed = |data_in_caches, stream: &mut dyn Stream| {
                let setup = Setup { data_in_caches, ..Setup::new(scheme) };
                Simulator::new(&part, setup).map(|mut simulator| per_second(&mut simulator, stream))
            };
            let mut random = RandomAccess::new(1 << 31)?;
            let mut triad = Triad::new(1 << 28)?;
            println!(
                "{name:14} {:30} random access {:6.1} / {:6.1}   triad {:6.1} / {:6.1}",
                scheme.to_string(),
                speed(false, &mut random)?,
                speed(true, &mut random)?,
                speed(false, &mut triad)?,
                speed(true, &mut triad)?,
            );
        }
    }
    Ok(())
}

/// Addresses are made outside the timed region.
fn per_second(simulator: &mut Simulator, stream: &mut dyn Stream) -> f64 {
    let mut addresses = vec![0; 256 * BLOCK];
    stream.fill(&mut addresses);
    simulator.run(&addresses);
    let mut best = Duration::MAX;
    for _ in 0..3 {
        stream.fill(&mut addresses);
        let start = Instant::now();
        simulator.run(&addresses);
        best = best.min(start.elapsed());
    }
    addresses.len() as f64 / best.as_secs_f64() / 1e6
}
