//! Our side: a workload on pinned threads of this process, its pages looked at and its result verified.

use crate::Outcome;
use baremark_agent::executors::direct::Direct;
use baremark_model::arm::ResolvedArm;
use baremark_model::page_size::PageSize;
use baremark_model::seam::{Executor, Prepared, RankTime, Sample, TickRate, Verification};
use baremark_sys::affinity::allowed_cpus;
use baremark_sys::clock::{self, tick_rate};
use baremark_sys::memory::Map;
use std::cell::Cell;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

/// The least that a timed run lasts, in seconds.
const LEAST: f64 = 0.4;

/// CPUs that this process may use.
pub fn cpus() -> Outcome<Vec<usize>> {
    Ok(allowed_cpus()?)
}

/// One metric of one run of `kind` with these parameters on `ranks` CPUs, in 2 MiB pages.
pub fn measure(kind: &str, settings: &[(&str, String)], ranks: usize, metric: &str, seed: u64) -> Outcome<f64> {
    let cpus = cpus()?;
    on(cpus.get(..ranks).ok_or("more ranks than CPUs")?, (kind, settings), metric, seed, |executor, prepared, rate| {
        let mut reps = 1;
        loop {
            let times = executor.run(prepared.body(), reps)?.times;
            let seconds = rate.span(&times).unwrap_or(0.0);
            if seconds >= LEAST {
                return Ok((reps, times));
            }
            reps *= if seconds < LEAST / 10.0 { 8 } else { 2 };
        }
    })
}

/// One metric of exactly `reps` repetitions after a warm one, on `ranks` CPUs that share the work, in 2 MiB pages.
pub fn passes(
    kind: &str,
    settings: &[(&str, String)],
    (ranks, reps): (usize, u64),
    metric: &str,
    seed: u64,
) -> Outcome<f64> {
    let cpus = cpus()?;
    on(cpus.get(..ranks).ok_or("more ranks than CPUs")?, (kind, settings), metric, seed, |executor, prepared, _| {
        executor.run(prepared.body(), 1)?;
        Ok((reps, executor.run(prepared.body(), reps)?.times))
    })
}

/// The sum of one metric over `ranks` runs at the same time, each of one rank with memory of its own, as the star tests of
/// the HPC Challenge are: `reps` repetitions after a warm one, begun together.
pub fn star(kind: &str, settings: &[(&str, String)], ranks: usize, metric: &str, seed: u64) -> Outcome<f64> {
    let cpus = cpus()?;
    let cpus = cpus.get(..ranks).ok_or("more ranks than CPUs")?;
    let together = Barrier::new(ranks);
    let one = |rank: usize| {
        let arrived = Cell::new(false);
        let value = on(&cpus[rank..=rank], (kind, settings), metric, seed + rank as u64, |executor, prepared, _| {
            let warm = executor.run(prepared.body(), 1);
            together.wait();
            arrived.set(true);
            warm?;
            Ok((STAR_REPS, executor.run(prepared.body(), STAR_REPS)?.times))
        });
        // Whoever failed before the others were released must not keep them waiting.
        if !arrived.get() {
            together.wait();
        }
        value.map_err(|why| why.to_string())
    };
    let values: Vec<Result<f64, String>> = thread::scope(|scope| {
        let one = &one;
        let ranks: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || one(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| Err("a rank panicked".to_owned()))).collect()
    });
    Ok(values.into_iter().sum::<Result<f64, String>>()?)
}

/// Repetitions of a star run: the HPC Challenge makes ten passes of STREAM, the first of which does not count.
const STAR_REPS: u64 = 9;

/// One metric of a run of a workload on these CPUs, as `run` makes it once all is ready; repetitions and times are its answer.
fn on(
    cpus: &[usize],
    (kind, settings): (&str, &[(&str, String)]),
    metric: &str,
    seed: u64,
    run: impl FnOnce(&mut Direct, &dyn Prepared, TickRate) -> Outcome<(u64, Vec<RankTime>)>,
) -> Outcome<f64> {
    let workload = baremark_workloads::find(kind).ok_or_else(|| format!("no workload '{kind}'"))?;
    let descriptor = workload.descriptor();
    let mut arm = ResolvedArm::native(cpus.len(), PageSize::Large);
    for (key, value) in settings {
        let knob = descriptor.parameter(key).ok_or_else(|| format!("{kind} has no {key}"))?;
        arm = arm.with(key, knob.read_text(value)?);
    }
    (descriptor.check)(&arm)?;
    let (rate, _) = tick_rate(Duration::from_millis(50))?;
    let map = Map::new(&workload.spans(&arm)?, arm.page, seed)?;
    map.backing()?.is(arm.page)?;
    let mut executor = Direct::new(cpus)?;
    let mut prepared = workload.prepare(&arm, &map)?;
    let (reps, times) = run(&mut executor, prepared.as_ref(), rate)?;
    let samples = prepared.metrics(reps, &times, rate);
    if let Verification::Failed { detail } = prepared.verify() {
        return Err(detail.into());
    }
    let value = |sample: &Sample| (sample.metric == metric).then_some(sample.value);
    Ok(samples.iter().find_map(value).ok_or_else(|| format!("{kind} gave no {metric}"))?)
}

/// Loads a second, in 10^9 and per rank, that `ranks` cores reach at once when no load waits for another: the limit of
/// random access. `words` is the size of each rank's table, a power of two.
pub fn independent_loads(words: usize, ranks: usize, seed: u64) -> Outcome<f64> {
    let cpus = cpus()?;
    let (rate, _) = tick_rate(Duration::from_millis(50))?;
    let map = Map::new(&vec![8 * words as u64; ranks], PageSize::Large, seed)?;
    map.backing()?.is(PageSize::Large)?;
    let tables: Vec<&mut [u64]> =
        (0..ranks).map(|_| baremark_model::seam::Arena::take_words(&map, words)).collect::<Result<_, _>>()?;
    let mut executor = Direct::new(cpus.get(..ranks).ok_or("more ranks than CPUs")?)?;
    let body = Loads { tables: tables.into_iter().map(|table| &*table).collect() };
    executor.run(&body, LOADS / 8)?;
    let times = executor.run(&body, LOADS)?.times;
    Ok(per_rank(&times, rate))
}

/// Loads of each rank: about half a second's.
const LOADS: u64 = 1 << 26;

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
fn per_rank(times: &[RankTime], rate: TickRate) -> f64 {
    times.iter().map(|time| 1e-9 * LOADS as f64 / rate.own(time)).sum::<f64>() / times.len() as f64
}

struct Loads<'m> {
    tables: Vec<&'m [u64]>,
}

impl baremark_model::seam::Body for Loads<'_> {
    fn work(&self, _ranks: usize) -> baremark_model::seam::Work {
        baremark_model::seam::Work::default()
    }

    fn rank(&self, rank: usize, _team: &baremark_model::team::Team, reps: u64) {
        std::hint::black_box(baremark_kernels::loads::independent(self.tables[rank], reps));
    }
}

/// Seconds until a microVM of all CPUs with large pages has run its first, empty region.
pub fn first_instruction() -> Outcome<f64> {
    let (rate, _) = tick_rate(Duration::from_millis(50))?;
    let start = clock::ticks();
    let vm = baremark_microvm::Microvm::start(&baremark_microvm::Config::new(cpus()?))?;
    let seconds = rate.seconds(clock::ticks() - start);
    drop(vm);
    Ok(seconds)
}
