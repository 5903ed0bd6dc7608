//! What each workload gives on this machine, on threads or in a virtual machine.
//!
//!     cargo run --release -p baremark-workloads --example kernels                  # all of them, once over
//!     cargo run --release -p baremark-workloads --example kernels -- stream page=2m ranks=2 variant=non-temporal
//!     cargo run --release -p baremark-workloads --example kernels -- hpl n=3000 executor=microvm rounds=3
//!
//! The first argument is the workload; the others are its own parameters as a study types them, and four of this
//! program: `page` (default 2m), `ranks` (default all CPUs), `executor` (direct or microvm) and `rounds` (default 3).
//! Figures of one round on a noisy machine are not a measurement: that is what studies are for.
#![expect(clippy::print_stdout, reason = "an example shows what it measures")]

use baremark_microvm::{Config, Microvm};
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::descriptor::Descriptor;
use baremark_model::page_size::PageSize;
use baremark_model::seam::{Body, Prepared, RankTime, TickRate, Verification, Workload, timed_region};
use baremark_model::team::Team;
use baremark_sys::affinity::allowed_cpus;
use baremark_sys::clock::{tick_rate, ticks};
use baremark_sys::memory::Map;
use baremark_sys::thread_team::Crew;
use std::error::Error;
use std::sync::Mutex;
use std::time::Duration;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((kind, settings)) = arguments.split_first() else {
        return baremark_workloads::ALL.iter().try_for_each(|workload| show(*workload, &[]));
    };
    show(baremark_workloads::find(kind).ok_or_else(|| format!("no workload '{kind}'"))?, settings)
}

fn show(workload: &dyn Workload, settings: &[String]) -> Outcome<()> {
    let (arm, rounds) = arm(workload.descriptor(), settings)?;
    (workload.descriptor().check)(&arm)?;
    let (rate, _) = tick_rate(Duration::from_millis(50))?;
    println!("{} {} on {} ranks, {} pages", arm.executor, workload.descriptor().kind, arm.ranks, arm.page);
    for round in 0..rounds {
        let mut map = Map::new(&workload.spans(&arm)?, arm.page, round)?;
        let mut place = Place::new(&arm, &mut map)?;
        let mut prepared = workload.prepare(&arm, &map)?;
        let samples = measure(&mut place, prepared.as_ref(), rate)?;
        let detail = match prepared.verify() {
            Verification::Passed { detail } => detail,
            Verification::Failed { detail } => return Err(detail.into()),
        };
        for (metric, value) in &samples {
            let unit = workload.descriptor().metric(metric).map_or("", |metric| metric.unit);
            println!("  {metric} = {value:.4} {unit}");
        }
        println!("  verified: {detail}");
    }
    Ok(())
}

/// Half a second's run, after a warm one that finds how many repetitions that takes.
fn measure(place: &mut Place, prepared: &dyn Prepared, rate: TickRate) -> Outcome<Vec<(String, f64)>> {
    let mut reps = 1;
    loop {
        let times = place.run(prepared.body(), reps)?;
        let seconds = rate.span(&times).unwrap_or(0.0);
        if seconds > 0.4 {
            let samples = prepared.metrics(reps, &times, rate);
            return Ok(samples.into_iter().map(|sample| (sample.metric, sample.value)).collect());
        }
        reps *= if seconds < 0.04 { 8 } else { 2 };
    }
}

/// Where bodies run.
enum Place {
    Direct(Crew),
    Microvm(Box<Microvm>),
}

impl Place {
    fn new(arm: &ResolvedArm, map: &mut Map) -> Outcome<Self> {
        let cpus = allowed_cpus()?;
        let cpus = cpus.get(..arm.ranks).ok_or("more ranks than CPUs")?;
        if arm.executor == ExecutorKind::Direct {
            return Ok(Place::Direct(Crew::new(cpus)?));
        }
        let mut vm = Microvm::start(&Config { guest_page: arm.page, ..Config::new(cpus.to_vec()) })?;
        vm.touch(map.whole())?;
        Ok(Place::Microvm(Box::new(vm)))
    }

    fn run(&mut self, body: &dyn Body, reps: u64) -> Outcome<Vec<RankTime>> {
        use baremark_model::seam::Executor;
        match self {
            Place::Microvm(vm) => Ok(vm.run(body, reps)?.times),
            Place::Direct(crew) => {
                let team = Team::new(crew.seats().len());
                let times = Mutex::new(Vec::new());
                let done = crew.run(&|rank| {
                    let time = timed_region(body, rank, &team, reps, ticks);
                    times.lock().expect("no thread panics with it").push(time);
                });
                done.map_err(|panics| format!("{} ranks panicked", panics.len()))?;
                Ok(times.into_inner()?)
            }
        }
    }
}

fn arm(descriptor: &Descriptor, settings: &[String]) -> Outcome<(ResolvedArm, u64)> {
    let mut arm = ResolvedArm::native(allowed_cpus()?.len(), PageSize::Large);
    let mut rounds = 3;
    for setting in settings {
        let (key, value) = setting.split_once('=').ok_or_else(|| format!("{setting} is not a key=value"))?;
        match key {
            "rounds" => rounds = value.parse()?,
            "ranks" => arm.ranks = value.parse()?,
            "page" => arm.page = PageSize::from_label(value).ok_or("page is 4k or 2m")?,
            "executor" if value == "microvm" => arm.executor = ExecutorKind::Microvm,
            "executor" => {}
            _ => {
                let knob = descriptor.parameter(key).ok_or_else(|| format!("{} has no {key}", descriptor.kind))?;
                arm.parameters.insert(key.to_owned(), knob.read_text(value)?);
            }
        }
    }
    Ok((arm, rounds))
}
