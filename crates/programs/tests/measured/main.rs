//! Jobs whose pace is measured: for a machine that does nothing else.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    clippy::allow_attributes,
    missing_docs,
    dead_code,
    reason = "a test crate"
)]

#[path = "../keeper/bench.rs"]
mod bench;

use baremark_model::units::{Bytes, Nanos};
use baremark_model::value::Value;
use bench::{arm, run_job, value};

#[test]
fn users_act_at_their_pace() {
    use baremark_programs::sessions::Sessions;
    let ns = |ms: u64| Value::TimeNs(Nanos(ms * 1_000_000));
    let parameters = vec![
        ("users", Value::Count(2)),
        ("each", Value::SizeBytes(Bytes(2 << 20))),
        ("pace", ns(20)),
        ("limit", ns(200)),
        ("duration", ns(1600)),
    ];
    let run = run_job(&Sessions, &arm(&parameters)).unwrap();
    // 80 turns each, of which every eighth opens a document.
    assert!((80.0..=110.0).contains(&value(&run, "actions_per_s")), "{run:?}");
    assert!(value(&run, "response_p50_ms") <= value(&run, "response_p95_ms"), "{run:?}");
    assert!(value(&run, "response_p95_ms") <= value(&run, "response_longest_ms"), "{run:?}");
    assert!(run.checked.ends_with("documents opened as they were saved"), "{run:?}");
    assert!(value(&run, "processes_per_s") < 20.0, "{run:?}");
}
