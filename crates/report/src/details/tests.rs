use super::*;
use crate::grid::Cell;
use baremark_model::document::DetailRow;
use baremark_model::plan::Treatment;
use baremark_model::shown::{Shown, ShownCell, ShownRow};
use serde_json::{Value, json};

fn shown(kind: &str, document: Value) -> String {
    let kind = KINDS.iter().find(|of| of.format == kind).expect("a kind");
    let row = DetailRow { treatment: Treatment::new(), block: 0, format: format!("{}1", kind.format), document };
    let (lines, grid) = (kind.show)(&[Reported { name: "native".to_owned(), row: &row }]);
    let cell = |cell: &Cell| if let Cell::Measured { estimate, .. } = cell { estimate.clone() } else { "-".to_owned() };
    let rows = grid.iter().flat_map(|grid| &grid.rows);
    let rows = rows.map(|row| format!("{}: {}", row.label, row.cells.iter().map(cell).collect::<Vec<_>>().join(" | ")));
    lines.into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

fn summary() -> Value {
    json!({ "samples": 500, "mean_ns": 90_000.0, "p50_ns": 80_000, "p90_ns": 120_000, "p95_ns": 150_000, "p99_ns": 400_000, "p999_ns": null, "max_ns": 900_000 })
}

#[test]
fn block_has_engine_queue_depth_and_latencies_of_reads_and_syncs() {
    let detail = json!({ "engine": "io_uring", "registered": true, "cache": "direct", "place": "folder /tmp", "size_bytes": 1 << 30, "depth": 32, "jobs": 1,
        "elapsed_s": 2.0, "ramp_s": 0.5, "steady": { "reached": true, "range": 0.1 }, "read": summary(), "write": null, "sync": summary(), "reads_checked": 7, "blocks_read_back": 30, "read_back_from_memory_bytes": 4096 });
    assert_eq!(
        shown("baremark-block/", detail),
        "native: engine io_uring, buffers registered; cache direct; folder /tmp, 1 GiB; queue depth 32, 1 job; 2.00 s after a ramp of 0.50 s; \
         steady, IOPS ranged over 10 % of their mean; 7 reads and 30 blocks read back, 4 KiB of them from memory are right.\n\
         native, reads: 500 | 90.00 us | 80.00 us | 120.00 us | 150.00 us | 400.00 us | - | 900.00 us\n\
         native, fdatasync: 500 | 90.00 us | 80.00 us | 120.00 us | 150.00 us | 400.00 us | - | 900.00 us"
    );
}

#[test]
fn databases_have_cpu_failures_checks_and_latency_by_operation() {
    let operation = json!({ "name": "payment", "committed": 400, "rolled_back": 3, "latency": summary() });
    let detail = json!({ "database": "sqlite", "version": "3.46.0", "setup": "x", "data_bytes": 1 << 20, "checks": ["12 of 12 hold"],
        "failures": { "deadlock": 2, "other": 0 }, "reconnects": 0, "unserved": 0, "operations": [operation], "cpu": { "driver": 0.25, "server": null } });
    assert_eq!(
        shown("baremark-databases/", detail),
        "native: sqlite 3.46.0, 1 MiB of data; CPUs used: driver 0.250; 2 deadlock.\nnative: checked: 12 of 12 hold.\n\
         native, payment: 400 | 3 | 90.00 us | 80.00 us | 120.00 us | 150.00 us | 400.00 us | - | 900.00 us"
    );
    let earlier =
        json!({ "database": "sqlite", "version": "3.46.0", "data_bytes": 1 << 20, "checks": [], "failures": {} });
    assert_eq!(shown("baremark-databases/", earlier), "native: sqlite 3.46.0, 1 MiB of data; no failure.");
}

#[test]
fn a_load_has_rates_generator_failures_and_latency_by_operation() {
    let detail = json!({ "asked": { "drive": "open", "operations_per_s": 100.0, "connections": 10, "threads": 2 }, "elapsed_s": 4.0,
        "achieved": { "requests_per_s": 99.6, "operations_per_s": 99.6 }, "failures": { "timeout": 2 },
        "operations": [{ "name": "get", "succeeded": 398, "failed": 2, "limit_ns": 50_000_000, "corrected": summary(), "raw": null }],
        "generator": { "verdict": "kept-up", "reasons": [], "send_lag": summary(), "busiest_cpu_share": 0.12 } });
    assert_eq!(
        shown("baremark-load/", detail),
        "native: open loop, 100 operations/s requested, at most 10 connections, 2 threads; 100 operations/s and 100 requests/s done in 4.00 s.\n\
         native: generator: 12 % of one CPU in its busiest thread, send lag p99 400.00 us: not the limit.\n\
         native: failed: 2 timeout.\n\
         native, get: 398 | 2 | 50.00 ms | 90.00 us | 80.00 us | 120.00 us | 150.00 us | 400.00 us | - | 900.00 us"
    );
}

/// A workload that reports know nothing of; another of its rows has a cell too many and words with a control character.
#[test]
fn a_detail_that_brings_how_it_is_shown_needs_nothing_here() {
    let shown = |rate: u64| Shown {
        head: "Toy".to_owned(),
        facts: vec!["wheels of wood".to_owned(), format!("{rate} turns/s")],
        caption: "Turns".to_owned(),
        columns: vec!["turns".to_owned(), "p50".to_owned()],
        rows: vec![
            ShownRow { what: "left".to_owned(), cells: vec![ShownCell::Count(3), ShownCell::from(Some(80_000))] },
            ShownRow { what: "right\u{1b}".to_owned(), cells: vec![ShownCell::Blank; 3] },
        ],
    };
    let rows = [1, 2].map(|rate| DetailRow {
        treatment: Treatment::new(),
        block: 4,
        format: "toy/1".to_owned(),
        document: json!({ "wheels": 2, "shown": shown(rate) }),
    });
    let reported: Vec<Reported<'_>> =
        rows.iter().zip(["a", "b"]).map(|(row, name)| Reported { name: name.to_owned(), row }).collect();
    let group = brought::group(&reported).expect("it is shown");
    assert_eq!(group.head, "Toy");
    assert_eq!(group.lines, ["a; b: wheels of wood.", "a: 1 turns/s.", "b: 2 turns/s."]);
    let [grid] = &group.grids[..] else { panic!("{group:?}") };
    assert_eq!((grid.caption.as_str(), grid.columns.len(), grid.rows.len()), ("Turns", 2, 4));
    assert_eq!(grid.rows[0].label, "a, left");
    assert!(grid.rows.iter().all(|row| row.cells.len() == 2 && !row.label.contains('\u{1b}')), "{grid:?}");
    let cell = |cell: &Cell| matches!(cell, Cell::Measured { estimate, .. } if estimate == "80.00 us");
    assert!(cell(&grid.rows[0].cells[1]), "{grid:?}");
    let bare = DetailRow { document: json!({ "wheels": 2 }), ..rows[0].clone() };
    assert_eq!(brought::group(&[Reported { name: "a".to_owned(), row: &bare }]), None);
}

#[test]
fn treatments_that_are_alike_are_named_together() {
    let lines = [("a", "x"), ("b", "x"), ("c", "y."), ("d", "")];
    assert_eq!(alike(lines.into_iter()), ["a; b: x.", "c: y."]);
}
