//! The plan and the trials of an imported run. Each metric is a workload of its own, so that each has its comparison; a value is a
//! trial of one arm.

use baremark_import::{Better, Imported, Measured};
use baremark_model::arm::ResolvedArm;
use baremark_model::command;
use baremark_model::imported::{PLACE, PROGRAM};
use baremark_model::job;
use baremark_model::machine::Isa;
use baremark_model::metric;
use baremark_model::observer::ObserveSpec;
use baremark_model::page_size::PageSize;
use baremark_model::plan::{Cell, Mode, Plan, PlannedArm, PlannedWorkload, Treatment};
use baremark_model::seam::{Sample, TickRate};
use baremark_model::study::Design;
use baremark_model::tables::WORKLOAD;
use baremark_model::units::{Nanos, Share};
use baremark_model::value::{Finder, Program, Reading, Take, Value};
use baremark_model::wire::{LostTime, Series, TrialResult};
use std::collections::BTreeMap;

/// The factor whose levels are the benchmarks of a file.
const BENCHMARK: &str = "benchmark";

/// The plan of a file's results: an arm and a cell for each metric of each benchmark, and no pair.
pub(super) fn of(imported: &Imported) -> Plan {
    let metrics: Vec<String> = imported.metrics().into_iter().map(|metric| metric.key.clone()).collect();
    let benchmarks: Vec<String> = imported.benchmarks().into_iter().map(str::to_owned).collect();
    let workloads =
        metrics.iter().map(|key| PlannedWorkload { kind: key.clone(), metric: key.clone(), published: None });
    let mut factors = Vec::new();
    if metrics.len() > 1 {
        factors.push((WORKLOAD.to_owned(), metrics.clone()));
    }
    if benchmarks.len() > 1 {
        factors.push((BENCHMARK.to_owned(), benchmarks.clone()));
    }
    let arms: Vec<PlannedArm> = imported.measured.iter().map(|of| arm(imported, of, &factors)).collect();
    let settings = BTreeMap::from([(PROGRAM.to_owned(), Value::Text(imported.program.clone()))]);
    let name = imported.program.split(' ').next().unwrap_or_default();
    let title = match benchmarks.as_slice() {
        [one] if !one.is_empty() && !imported.free_names => format!("{name}: {one}"),
        _ => name.to_owned(),
    };
    Plan {
        title,
        published: None,
        workload: metrics.join(", "),
        metric: metrics.first().cloned().unwrap_or_default(),
        workloads: if metrics.len() > 1 { workloads.collect() } else { Vec::new() },
        also: BTreeMap::new(),
        factors,
        rows: None,
        columns: if benchmarks.len() > 1 { BENCHMARK } else { WORKLOAD }.to_owned(),
        against: None,
        pairs: Vec::new(),
        cells: (0..arms.len()).map(Cell::Single).collect(),
        arms,
        absent: Vec::new(),
        design: design(imported),
        quads_by_variance: false,
        apart: Vec::new(),
        duet: None,
        mode: Mode::default(),
        extensions: Vec::new(),
        search: None,
        load: None,
        injected: None,
        cpus: Vec::new(),
        environments: BTreeMap::from([(PLACE.to_owned(), settings)]),
        observe: ObserveSpec { which: Vec::new(), ..ObserveSpec::default() },
    }
}

fn design(imported: &Imported) -> Design {
    let most = imported.measured.iter().map(|of| of.values.len()).max().unwrap_or(0) as u64;
    Design {
        precision: Share(0.01),
        delta: Share(0.02),
        budget: Nanos(0),
        phase: Nanos(0),
        quads: 1,
        least_blocks: 1,
        most_blocks: most,
        // Nothing is drawn; 0 would have a seed drawn for it.
        seed: 1,
    }
}

fn arm(imported: &Imported, of: &Measured, factors: &[(String, Vec<String>)]) -> PlannedArm {
    let mut treatment = Treatment::new();
    for (factor, _) in factors {
        let level = if factor == WORKLOAD { &of.metric.key } else { &of.benchmark };
        treatment.insert(factor.clone(), level.clone());
    }
    let mut arm = ResolvedArm::native(1, PageSize::Small);
    arm.parameters = imported.parameters.iter().map(|(key, value)| (key.clone(), Value::Text(value.clone()))).collect();
    if !treatment.contains_key(BENCHMARK) && !of.benchmark.is_empty() && !imported.free_names {
        arm.parameters.insert(BENCHMARK.to_owned(), Value::Text(of.benchmark.clone()));
    }
    arm.parameters.insert(command::KIND.to_owned(), Value::Program(Box::new(program(imported, of))));
    PlannedArm { treatment, environment: PLACE.to_owned(), like: None, arm, emulated: false }
}

/// The program that measured, which carries the metric.
fn program(imported: &Imported, of: &Measured) -> Program {
    let reading = Reading {
        key: of.metric.key.clone(),
        unit: of.metric.unit.clone(),
        better: match of.metric.better {
            Better::Higher => metric::Better::Higher,
            Better::Lower => metric::Better::Lower,
        },
        help: format!("as {} reports it", imported.format),
        from: PLACE.to_owned(),
        finder: Finder::Json(String::new()),
        take: Take::Only,
        scale: 1.0,
        per: String::new(),
        optional: false,
    };
    Program { argv: vec![imported.format.to_owned()], metrics: vec![reading], ..Program::default() }
}

/// One value as a trial; the file's notes are the flags of the first.
pub(super) fn trial(arm: &ResolvedArm, of: &Measured, value: f64, imported: &Imported, first: bool) -> TrialResult {
    let mut record = job::record(arm, &[], format!("reported by {}", imported.program));
    record.executor.ranks = 1;
    let samples = vec![Sample::new(of.metric.key.clone(), value)];
    let series = Series { reps: 1, samples, ..Series::default() };
    TrialResult {
        arms: vec![record],
        series: vec![series],
        void: Vec::new(),
        flags: if first { imported.notes.clone() } else { Vec::new() },
        tick_rate_per_s: TickRate(1e9),
        instruction_set: Isa::Baseline,
        lost_before: LostTime::default(),
        lost_after: LostTime::default(),
        elapsed_ns: 0,
        spent_ns: BTreeMap::new(),
        disturbance: None,
        discarded: Vec::new(),
        observations: Vec::new(),
    }
}
