//! How many translations a second the simulator makes on one core, by stream and scheme, against the goal: `make bench-mmu`.
//!
//! Each line is measured with every cache line simulated and with the sample of lines that predictions take; what the
//! sample costs is told beside it: by how much the walks' references to memory for each access are off. Time is the
//! thread's own on a processor, so that what else runs here counts as little as it can. Words after `--` choose lines that have all
//! of them.
#![allow(clippy::print_stdout, clippy::allow_attributes, reason = "an example prints")]

use baremark_mmu::counts::MEMORY;
use baremark_mmu::machine;
use baremark_mmu::page::Page::{Large, Small};
use baremark_mmu::predict::{THINNING, drive};
use baremark_mmu::random::Random;
use baremark_mmu::scheme::{Scheme, Setup};
use baremark_mmu::simulator::{Part, Simulator};
use baremark_mmu::stream::{BlockedUpdate, Chase, RandomAccess, Stream, StreamError, Triad};
use std::time::Instant;

const NATIVE_GOAL: f64 = 50.0;
const NESTED_GOAL: f64 = 20.0;
const ACCESSES: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "Million translations/s on one core, data in the caches too; goal {NATIVE_GOAL} native, {NESTED_GOAL} nested.\n\
         'all': every cache line; 'sampled': one line in {}, as predictions do; 'off': what sampling misses of the walks'\n\
         references to memory for each access.\n",
        1 << THINNING
    );
    println!("{:14} {:27} {:14} {:>7} {:>8}          {:>8} {:>7}", "", "", "", "all", "sampled", "memory", "off");
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut short = 0;
    for name in ["nehalem-x5570", "cascade-lake", "zen-4"] {
        let part = machine::known(name)?.draw(&mut Random::new(1)).part;
        for scheme in [
            Scheme::Native { page: Small },
            Scheme::Native { page: Large },
            Scheme::Nested { guest_page: Small, host_backing: Large },
            Scheme::Nested { guest_page: Small, host_backing: Small },
        ] {
            for kind in ["triad", "blocked", "chase 64 MiB", "random access"] {
                let line = format!("{name:14} {:27} {kind:14}", scheme.to_string());
                if !wanted.iter().all(|word| line.contains(word.as_str())) {
                    continue;
                }
                let (all, exact) = measured(&part, scheme, 0, kind)?;
                let (sampled, roughly) = measured(&part, scheme, THINNING, kind)?;
                let goal = if matches!(scheme, Scheme::Native { .. }) { NATIVE_GOAL } else { NESTED_GOAL };
                let word = |speed: f64| if speed >= goal { "ok" } else { "SHORT" };
                short += usize::from(sampled < goal);
                println!("{line} {all:7.1} {sampled:8.1} {:5} {:>8.4} {:+7.4}", word(sampled), exact, roughly - exact);
            }
        }
    }
    println!("\n{}", if short == 0 { "ok: every line".to_owned() } else { format!("SHORT: {short} lines") });
    Ok(())
}

fn stream_of(kind: &str) -> Result<Box<dyn Stream>, StreamError> {
    Ok(match kind {
        "triad" => Box::new(Triad::new(1 << 28)?),
        "blocked" => Box::new(BlockedUpdate::new(8192, 504)?),
        "chase 64 MiB" => Box::new(Chase::new(1 << 26)?),
        _ => Box::new(RandomAccess::new(1 << 30)?),
    })
}

/// Millions a second, and the walks' references to memory for each access. Addresses are made outside the timed region.
fn measured(part: &Part, scheme: Scheme, thinning: u32, kind: &str) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let mut stream = stream_of(kind)?;
    let mut simulator = Simulator::new(part, Setup { thinning, ..Setup::new(scheme) })?;
    let lines: u32 = part.caches.iter().map(|cache| cache.entries).sum();
    drive(&mut simulator, stream.as_mut(), 2 * lines as usize);
    simulator.forget();
    let mut addresses = vec![0; ACCESSES];
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        stream.fill(&mut addresses);
        let start = on_cpu();
        simulator.run(&addresses);
        best = best.min(on_cpu() - start);
    }
    let counts = simulator.counts();
    let memory = counts.per_translation(counts.table[MEMORY] + counts.nested[MEMORY]);
    Ok((ACCESSES as f64 / best / 1e6, memory))
}

/// Seconds that this thread has been on a processor; of the wall clock where the kernel does not tell.
fn on_cpu() -> f64 {
    static BEGUN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = told.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    ns.map_or_else(|| BEGUN.get_or_init(Instant::now).elapsed().as_secs_f64(), |ns| ns as f64 / 1e9)
}
