//! Kernel micro-benchmarks in guests and containers.

use crate::common::bench::Bench;
use crate::common::qemu::fetched;
use crate::common::shrunk::shrunk;
use serde_json::Value;

/// Every kernel micro-benchmark natively, in a container and in a guest, on one CPU and on two: that each gives a time there.
/// One block is enough for that, and one boot of each guest.
#[test]
fn kernel_micro_benchmarks_run_in_guests_and_containers_over_their_cpus() {
    let memory = format!("\"256 MiB\"\nkernel = {:?}\naccel = \"tcg\"", fetched());
    let changes = [("ranks", "[1, 2]"), ("memory", &*memory), ("fresh", "\"run\""), ("precision", "\"20 %\"")];
    let text =
        shrunk("mmu-guests", &changes).replace("budget = \"1 s\"", "budget = \"10 min\"\nphase = \"50 ms\"\nquads = 1");
    let bench = Bench::new();
    let (document, said) = bench.first_block(&text);
    let absent = document["absent"].as_array().unwrap();
    for row in absent {
        println!("skipped: study mmu-guests: {}", row["reason"].as_str().unwrap_or_default());
    }
    let has = |rows: &[Value], levels: [&str; 3]| {
        let of = |row: &Value| {
            ["workload", "environment", "ranks"].map(|key| row["treatment"][key].as_str().unwrap_or_default()) == levels
        };
        rows.iter()
            .any(|row| of(row) && (row["reason"].is_string() || row["estimate"].as_f64().is_some_and(|ns| ns > 0.0)))
    };
    let estimates = document["estimates"].as_array().unwrap();
    for kind in ["segv", "pcd", "nps", "fw", "syscall"] {
        for place in ["native", "container", "qemu"] {
            for ranks in ["1", "2"] {
                let levels = [kind, place, ranks];
                assert!(has(estimates, levels) || has(absent, levels), "{levels:?}: {said:#?}");
            }
        }
    }
}
