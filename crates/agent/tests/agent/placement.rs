//! Where ranks and memory are put, read back from the kernel.

use crate::ensembles::{arm, run, spec};
use baremark_model::arm::{ExecutorKind, Frames, ResolvedArm};
use baremark_model::page_size::PageSize;
use baremark_model::placement::{MemoryPolicy, Placement};
use baremark_model::wire::{TrialResult, TrialSpec};
use baremark_sys::affinity::allowed_cpus;
use baremark_sys::memory::Map;
use baremark_sys::{numa, topology};

fn placed(placement: Placement, memory: MemoryPolicy) -> ResolvedArm {
    ResolvedArm { placement, memory, ..arm(ExecutorKind::Direct, 1, 1) }
}

/// What a trial with bound memory gives; `None` where no memory can be bound here, which it must say.
fn run_bound(spec: &TrialSpec) -> Option<Result<TrialResult, String>> {
    let map = Map::reserve(&[2 << 20], PageSize::Small, Frames::AsGiven).unwrap();
    let bound = numa::bind(map.address(), map.bytes(), &topology::this().unwrap().memory_nodes[..1]);
    let result = run(spec);
    let Err(refused) = bound else { return Some(result) };
    assert!(numa::is_unsupported(&refused), "{refused}");
    let why = result.unwrap_err();
    assert!(why.contains(&format!("mbind: {refused}; the kernel must have NUMA")), "{why}");
    None
}

#[test]
fn a_rank_and_its_memory_are_where_they_were_asked_to_be() {
    let Some(result) = run_bound(&spec(&[(1, placed(Placement::Compact, MemoryPolicy::Local))])) else { return };
    let result = result.unwrap();
    let record = &result.arms[0];
    let site = topology::this().unwrap();
    assert_eq!(record.placed.cpus, site.place(Placement::Compact, 1, 1).unwrap());
    assert_eq!(record.executor.cpus, record.placed.cpus);
    let node = site.node_of(record.placed.cpus[0]).unwrap() as u64;
    let pages = record.placed.pages();
    assert!(pages > 0 && record.placed.pages_on(node) == pages, "{:?}", record.placed);
    assert_eq!(record.placed.pages_local, pages);
    assert!(!result.void.iter().any(|why| why.contains("memory = local")), "{:?}", result.void);
}

fn nobody_pins_ranks_of(executor: ExecutorKind) {
    let free = ResolvedArm { placement: Placement::Os, ..arm(executor, 1, 1) };
    let result = run(&spec(&[(1, free)])).unwrap();
    assert!(result.arms[0].placed.cpus.is_empty() && result.arms[0].executor.cpus.is_empty());
    assert_eq!(result.arms[0].executor.ranks, 1);
    assert!(result.series.iter().all(|phase| phase.samples.iter().all(|sample| sample.value > 0.0)));
}

#[test]
fn ranks_that_nobody_pins_have_no_cpu_of_their_own() {
    nobody_pins_ranks_of(ExecutorKind::Direct);
}

#[test]
fn ranks_of_a_microvm_that_nobody_pins_have_no_cpu_of_their_own() {
    if !baremark_microvm::probe().is_usable() {
        eprintln!("skipped: no microVM here");
        return;
    }
    nobody_pins_ranks_of(ExecutorKind::Microvm);
}

#[test]
fn what_the_site_cannot_do_is_refused_with_its_reason() {
    let site = topology::this().unwrap();
    let far = spec(&[(1, placed(Placement::Compact, MemoryPolicy::Remote))]);
    if site.memory_nodes.len() < 2 {
        let why = run(&far).unwrap_err();
        assert!(why.starts_with("placement = compact, memory = remote cannot be had here: there is one NUMA"), "{why}");
    } else if let Some(far) = run_bound(&far) {
        assert_eq!(far.unwrap().arms[0].placed.pages_local, 0);
    }
    let mut crowded = spec(&[(1, arm(ExecutorKind::Direct, 2, 1))]);
    crowded.cpus = allowed_cpus().unwrap()[..1].to_vec();
    let why = run(&crowded).unwrap_err();
    assert!(why.contains("2 ranks need a CPU each, and this process may use 1"), "{why}");
}
