//! Costs of this machine: an operation costs more than its baseline.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as expected")]

use baremark_model::arm::ResolvedArm;
use baremark_model::page_size::PageSize;
use baremark_model::seam::{RankTime, TickRate, Verification, Workload};
use baremark_model::team::Team;
use baremark_model::units::Bytes;
use baremark_model::value::Value;
use baremark_sys::clock;
use baremark_sys::memory::Map;
use baremark_workloads::page_table::PageTable;
use baremark_workloads::system::{FILE, FW, LOOPBACK_TCP, NPS, PAGE_FAULT, PCD, PIPE, SEGV, SYSCALL};
use std::collections::BTreeMap;

/// Rounds of which the least counts: a CPU that is taken away meanwhile makes one of them look dear.
const ROUNDS: usize = 10;

/// The least of each metric, and the last verdict.
fn least(workload: &dyn Workload, arm: &ResolvedArm, reps: u64) -> (BTreeMap<String, f64>, Verification) {
    let map = Map::new(&workload.spans(arm).unwrap(), PageSize::Small, 1).unwrap();
    let mut prepared = workload.prepare(arm, &map).unwrap();
    let mut least = BTreeMap::new();
    for _ in 0..ROUNDS {
        let start_ticks = clock::ticks();
        prepared.body().rank(0, &Team::new(1), reps);
        let times = [RankTime { rank: 0, start_ticks, end_ticks: clock::ticks() }];
        for sample in prepared.metrics(reps, &times, TickRate(1e9)) {
            let least = least.entry(sample.metric).or_insert(f64::INFINITY);
            *least = least.min(sample.value);
        }
    }
    (least, prepared.verify())
}

#[test]
fn each_operation_costs_more_than_its_baseline() {
    for workload in [&SYSCALL, &SEGV, &FW, &PCD, &NPS, &FILE, &PIPE, &LOOPBACK_TCP, &PAGE_FAULT] {
        let descriptor = workload.descriptor();
        let (least, _) = least(workload, &ResolvedArm::native(1, PageSize::Small), 2);
        let [operation, baseline] = [0, 1].map(|at: usize| least[descriptor.metrics[at].key]);
        assert!(operation > baseline && baseline > 0.0, "{}: {least:?}", descriptor.kind);
    }
}

#[test]
fn a_fault_costs_more_than_a_touch_and_every_page_faults_once() {
    let arm = ResolvedArm::native(1, PageSize::Small).with("region", Value::SizeBytes(Bytes(4 << 20)));
    let (least, verification) = least(&PageTable, &arm, 3);
    assert!(least["fault_ns"] > least["touch_ns"], "{least:?}");
    // A page that the kernel moves meanwhile (compaction for somebody's huge pages) faults once more.
    assert!(matches!(verification, Verification::Passed { .. }), "{verification:?}");
}
