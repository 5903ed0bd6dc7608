//! Where the time of a trial goes, part by part, for the pairs of the standard study: without a lab and without observers.
//!
//!     cargo run --release -p baremark-agent --example parts [TRIALS]
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "an example shows what it measures")]
#![expect(clippy::cast_precision_loss, reason = "milliseconds of a trial")]

use baremark_agent::runner::Runners;
use baremark_model::arm::{ExecutorKind, GuestTables, ResolvedArm};
use baremark_model::page_size::PageSize;
use baremark_model::units::Bytes;
use baremark_model::value::Value;
use baremark_model::wire::{ArmSpec, TrialResult, TrialSpec};
use baremark_sys::affinity::allowed_cpus;
use std::collections::BTreeMap;

/// Workload, page and parameters.
type Cell<'c> = (&'c str, PageSize, &'c [(&'c str, Value)]);

const QUADS: usize = 20;
const PHASE_NS: u64 = 5_000_000;

fn main() {
    let trials: usize = std::env::args().nth(1).map_or(3, |count| count.parse().unwrap());
    let size = |bytes| Value::SizeBytes(Bytes(bytes));
    let cells: [Cell<'_>; 5] = [
        ("stream", PageSize::Large, &[("kernel", Value::Choice("triad".into()))]),
        ("random-access", PageSize::Small, &[("table", size(256 << 20))]),
        ("random-access", PageSize::Large, &[("table", size(256 << 20))]),
        ("hpl", PageSize::Large, &[("n", Value::Count(1500))]),
        ("fma", PageSize::Large, &[]),
    ];
    for (workload, page, parameters) in cells {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        let mut reps = None;
        for seed in 0..trials {
            let result = run(&spec(workload, page, parameters, reps, seed as u64));
            reps = Some(result.series[0].reps);
            assert!(result.void.is_empty(), "{:?}", result.void);
            *sums.entry("all".to_owned()).or_default() += result.elapsed_ns as f64 / 1e6;
            *sums.entry("quads".to_owned()).or_default() += result.series.len() as f64 / 4.0;
            for (part, ns) in &result.spent_ns {
                *sums.entry(part.clone()).or_default() += *ns as f64 / 1e6;
            }
        }
        let mean = |part: &str| sums.get(part).copied().unwrap_or(0.0) / trials as f64;
        println!("{workload} {page}: {:.0} % measured", 100.0 * mean("measured") / mean("all"));
        for part in sums.keys() {
            println!("    {part:<14} {:>8.1}{}", mean(part), if part == "quads" { "" } else { " ms" });
        }
    }
}

fn spec(workload: &str, page: PageSize, parameters: &[(&str, Value)], reps: Option<u64>, seed: u64) -> TrialSpec {
    let plain = ResolvedArm::native(allowed_cpus().unwrap().len(), page);
    let native = parameters.iter().fold(plain, |arm, (key, value)| arm.with(key, value.clone()));
    let virtual_one = ResolvedArm {
        executor: ExecutorKind::Microvm,
        host_backing: Some(PageSize::Large),
        guest_tables: Some(GuestTables::Contiguous),
        ..native.clone()
    };
    TrialSpec {
        schedule: (0..QUADS).flat_map(|quad| if quad % 2 == 0 { [0, 1, 1, 0] } else { [1, 0, 0, 1] }).collect(),
        phase_ns: PHASE_NS,
        reps,
        most_ns: Some(1_000_000_000),
        watchdog_ns: 10_000_000_000,
        seed,
        ..TrialSpec::new(workload, [native, virtual_one].map(ArmSpec::of_one))
    }
}

fn run(spec: &TrialSpec) -> TrialResult {
    Runners { workloads: baremark_workloads::ALL, jobs: &[] }.run(spec, &mut |_, _| ()).unwrap()
}
