//! How many translations a second the simulator makes on one core, by stream and scheme, against the goal: `make bench-mmu`.
//!
//! Each line is measured with everything simulated and with the sample that predictions take: of cache lines, and of the
//! translations of streams whose addresses are independent (chase and random access). What the sample costs is told alongside it:
//! by how much an access's time and the walks' references to memory are off. Time is the thread's own on a processor, so that
//! what else runs here counts as little as it can. Words after `--` choose lines that have all of them.
#![allow(clippy::print_stdout, clippy::allow_attributes, reason = "an example prints")]

use baremark_mmu::counts::MEMORY;
use baremark_mmu::machine::{self, Drawn};
use baremark_mmu::page::Page::{Large, Small};
use baremark_mmu::predict::{self, REPEATS, THINNING, drive};
use baremark_mmu::random::Random;
use baremark_mmu::scheme::{Scheme, Setup};
use baremark_mmu::simulator::{SetupError, Simulator};
use baremark_mmu::stream::{BlockedUpdate, Chase, RandomAccess, Stream, StreamError, Triad};
use baremark_mmu::time::{self, Overlap};
use std::time::Instant;

const NATIVE_GOAL: f64 = 50.0;
const NESTED_GOAL: f64 = 20.0;
/// As many as a pass over the blocked matrix takes, whose lines are a fair sample over whole passes alone.
const ACCESSES: usize = 1 << 22;
const ROUNDS: usize = 4;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "Million translations/s on one core, data in the caches too; goal {NATIVE_GOAL} native, {NESTED_GOAL} nested.\n\
         'all': everything; 'sampled': as predictions do, one cache line in {}, and of independent addresses (chase and random\n\
         access) one translation in {}; 'off': what the sample misses of an access's time, nothing hidden, and of the walks'\n\
         references to memory for each access.\n",
        1 << THINNING,
        REPEATS + 1
    );
    println!("{:57} {:>7} {:>8} {:>14} {:>8} {:>7}", "", "all", "sampled", "off", "memory", "off");
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut short = 0;
    for name in ["nehalem-x5570", "cascade-lake", "zen-4"] {
        let drawn = machine::known(name)?.draw(&mut Random::new(1));
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
                let setup = Setup::new(scheme);
                let all = measured(&drawn, setup, kind)?;
                let sampled = measured(&drawn, predict::sampled(setup, stream_of(kind)?.as_ref()), kind)?;
                let goal = if matches!(scheme, Scheme::Native { .. }) { NATIVE_GOAL } else { NESTED_GOAL };
                let word = if sampled.speed >= goal { "ok" } else { "SHORT" };
                short += usize::from(sampled.speed < goal);
                println!(
                    "{line} {:7.1} {:8.1} {word:5} {:+6.2} % {:8.4} {:+7.4}",
                    all.speed,
                    sampled.speed,
                    100.0 * (sampled.ns / all.ns - 1.0),
                    all.memory,
                    sampled.memory - all.memory
                );
            }
        }
    }
    println!("\n{}", if short == 0 { "ok: every line".to_owned() } else { format!("SHORT: {short} lines") });
    Ok(())
}

fn stream_of(kind: &str) -> Result<Box<dyn Stream>, StreamError> {
    Ok(match kind {
        "triad" => Box::new(Triad::new(1 << 28)?),
        "blocked" => Box::new(BlockedUpdate::new(4096, 504)?),
        "chase 64 MiB" => Box::new(Chase::new(1 << 26)?),
        _ => Box::new(RandomAccess::new(1 << 30)?),
    })
}

struct Measured {
    /// Millions a second.
    speed: f64,
    /// Nanoseconds for each access in the simulated processor.
    ns: f64,
    /// References of walks to memory for each access.
    memory: f64,
}

fn measured(drawn: &Drawn, setup: Setup, kind: &str) -> Result<Measured, Box<dyn std::error::Error>> {
    let mut stream = stream_of(kind)?;
    let (simulator, seconds) = timed(drawn, setup, stream.as_mut())?;
    if !simulator.is_fair() {
        // As predictions do: whatever avoids the sample of lines is simulated with all of them.
        return measured(drawn, Setup { thinning: 0, ..setup }, kind);
    }
    let counts = simulator.counts();
    let overlap = Overlap { dependence: stream.dependence(), ..Overlap::NONE };
    let data = time::data(&counts, &drawn.timing, overlap.dependence);
    Ok(Measured {
        speed: ACCESSES as f64 / seconds / 1e6,
        ns: time::together(data, time::walking(&counts, &drawn.timing, overlap), overlap),
        memory: counts.per_translation(counts.table[MEMORY] + counts.nested[MEMORY]),
    })
}

/// The least time of several rounds. Addresses are made outside the timed region.
fn timed(drawn: &Drawn, setup: Setup, stream: &mut dyn Stream) -> Result<(Simulator, f64), SetupError> {
    let mut simulator = Simulator::new(&drawn.part, setup)?;
    let lines: u32 = drawn.part.caches.iter().map(|cache| cache.entries).sum();
    drive(&mut simulator, stream, 2 * lines as usize);
    simulator.forget();
    let mut addresses = vec![0; ACCESSES];
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        stream.fill(&mut addresses);
        let start = on_cpu();
        simulator.run(&addresses);
        best = best.min(on_cpu() - start);
    }
    Ok((simulator, best))
}

/// Seconds that this thread has been on a processor; of the wall clock where the kernel does not report it.
fn on_cpu() -> f64 {
    static BEGUN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = told.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    ns.map_or_else(|| BEGUN.get_or_init(Instant::now).elapsed().as_secs_f64(), |ns| ns as f64 / 1e9)
}
