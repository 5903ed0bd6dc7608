//! RandomAccess on this machine with small and with large pages, in GUP/s, by turns.
//!
//!     cargo run --release -p baremark-workloads --example gups -- "512 MiB" 1 5
//!
//! The arguments are the table's size, the ranks and the rounds. What it prints can be held against `StarRandomAccess_GUPs` of
//! the HPC Challenge (Debian: `hpcc`) started with as many processes: with one process and N = 8200 in hpccinf.txt its
//! table has 512 MiB, of 4 KiB pages, or of 2 MiB pages with GLIBC_TUNABLES=glibc.malloc.hugetlb=1.
#![expect(clippy::print_stdout, reason = "an example shows what it measures")]

use baremark_model::arm::{ExecutorKind, PageSize, ResolvedArm};
use baremark_model::descriptor::Value;
use baremark_model::seam::{Body, Prepared, RankTime, TickRate, Verification, timed_region};
use baremark_model::team::Team;
use baremark_model::units::Bytes;
use baremark_sys::affinity::allowed_cpus;
use baremark_sys::clock::{tick_rate, ticks};
use baremark_sys::crew::Crew;
use baremark_sys::memory::Map;
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Mutex;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let table: Bytes = arguments.next().as_deref().unwrap_or("256 MiB").parse()?;
    let ranks: usize = arguments.next().as_deref().unwrap_or("1").parse()?;
    let rounds: u64 = arguments.next().as_deref().unwrap_or("5").parse()?;
    let workload = baremark_workloads::find("random-access").ok_or("random-access is not among the workloads")?;
    let cpus = allowed_cpus()?;
    let mut crew = Crew::new(cpus.get(..ranks).ok_or("more ranks than CPUs")?)?;
    let (rate, _) = tick_rate(Duration::from_millis(50))?;
    for round in 0..rounds {
        for page in [PageSize::Small, PageSize::Large] {
            let arm = arm(ranks, page, table);
            let map = Map::new(&workload.spans(&arm)?, page, round)?;
            map.backing()?.is(page)?;
            let mut prepared = workload.prepare(&arm, &map)?;
            let gups = measure(&mut crew, prepared.as_ref(), rate);
            if let Verification::Failed { detail } = prepared.verify() {
                return Err(detail.into());
            }
            println!("{page} pages, {table} over {ranks} ranks: {gups:.5} GUP/s per rank");
        }
    }
    Ok(())
}

/// The mean over the ranks of half a second's run, after a warm one.
fn measure(crew: &mut Crew, prepared: &dyn Prepared, rate: TickRate) -> f64 {
    run(crew, prepared.body(), 200);
    let times = run(crew, prepared.body(), 400);
    prepared.metrics(400, &times, rate).first().map_or(0.0, |sample| sample.value)
}

fn run(crew: &mut Crew, body: &dyn Body, reps: u64) -> Vec<RankTime> {
    let team = Team::new(crew.seats().len());
    let times = Mutex::new(Vec::new());
    let done = crew.run(&|rank| {
        let time = timed_region(body, rank, &team, reps, ticks);
        times.lock().expect("no thread panics with it").push(time);
    });
    assert!(done.is_ok(), "a body does not panic");
    times.into_inner().expect("no thread panicked")
}

fn arm(ranks: usize, page: PageSize, table: Bytes) -> ResolvedArm {
    ResolvedArm {
        executor: ExecutorKind::Direct,
        ranks,
        page,
        host_backing: None,
        guest_tables: None,
        parts: 1,
        placement: Default::default(),
        memory: Default::default(),
        parameters: BTreeMap::from([("table".to_owned(), Value::SizeBytes(table))]),
    }
}
