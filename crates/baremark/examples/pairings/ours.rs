//! Our side: a workload on pinned threads of this process, its pages looked at and its result verified.

use crate::Outcome;
use baremark_agent::executors::direct::Direct;
use baremark_model::arm::{ExecutorKind, PageSize, ResolvedArm};
use baremark_model::seam::{Executor, RankTime, Sample, TickRate, Verification};
use baremark_sys::affinity::allowed_cpus;
use baremark_sys::clock::{self, tick_rate};
use baremark_sys::memory::Map;
use std::collections::BTreeMap;
use std::time::Duration;

/// The least that a timed run lasts, in seconds.
const LEAST: f64 = 0.4;

/// CPUs that this process may use.
pub fn cpus() -> Outcome<Vec<usize>> {
    Ok(allowed_cpus()?)
}

/// One metric of one run of `kind` with these parameters on `ranks` CPUs, in 2 MiB pages.
pub fn measure(kind: &str, settings: &[(&str, String)], ranks: usize, metric: &str, seed: u64) -> Outcome<f64> {
    let workload = baremark_workloads::find(kind).ok_or_else(|| format!("no workload '{kind}'"))?;
    let descriptor = workload.descriptor();
    let mut parameters = BTreeMap::new();
    for (key, value) in settings {
        let knob = descriptor.parameter(key).ok_or_else(|| format!("{kind} has no {key}"))?;
        parameters.insert((*key).to_owned(), knob.read_text(value)?);
    }
    let arm = ResolvedArm {
        executor: ExecutorKind::Direct,
        ranks,
        page: PageSize::Large,
        host_backing: None,
        guest_tables: None,
        parts: 1,
        placement: std::default::Default::default(),
        memory: std::default::Default::default(),
        parameters,
    };
    (descriptor.check)(&arm)?;
    let (rate, _) = tick_rate(Duration::from_millis(50))?;
    let map = Map::new(&workload.spans(&arm)?, arm.page, seed)?;
    map.backing()?.is(arm.page)?;
    let cpus = cpus()?;
    let mut executor = Direct::new(cpus.get(..ranks).ok_or("more ranks than CPUs")?)?;
    let mut prepared = workload.prepare(&arm, &map)?;
    let mut reps = 1;
    let samples = loop {
        let times = executor.run(prepared.body(), reps)?.times;
        let seconds = rate.span(&times).unwrap_or(0.0);
        if seconds >= LEAST {
            break prepared.metrics(reps, &times, rate);
        }
        reps *= if seconds < LEAST / 10.0 { 8 } else { 2 };
    };
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
