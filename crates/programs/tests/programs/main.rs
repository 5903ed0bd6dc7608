//! Programs of others under a real keeper.
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
use baremark_sys::process::find_program;
use bench::{arm, run_job, value};

#[test]
fn warehouses_trade_and_their_books_balance() {
    use baremark_programs::warehouse::JvmWarehouse;
    if find_program("javac", "/usr/bin:/bin:/usr/local/bin").is_none() {
        println!("skipped: workload jvm-warehouse: no javac");
        return;
    }
    let parameters = |pages: &str, heap: u64| {
        arm(&[
            ("warehouses", Value::Count(2)),
            ("heap", Value::SizeBytes(Bytes(heap))),
            ("heap_pages", Value::Choice(pages.to_owned())),
            ("warm_up", Value::TimeNs(Nanos(100_000_000))),
            ("duration", Value::TimeNs(Nanos(1_000_000_000))),
        ])
    };
    let run = run_job(&JvmWarehouse, &parameters("4k", 128 << 20)).unwrap();
    assert!(run.checked.ends_with("stock and money of every warehouse add up"), "{run:?}");
    assert!(value(&run, "transactions_per_s") > 0.0, "{run:?}");
    let (share, pauses) = (value(&run, "pause_share"), value(&run, "pauses"));
    assert!(pauses >= 0.0 && (0.0..=100.0).contains(&share), "{run:?}");
    // More than any machine has reserved: refused, and never run on other pages than asked.
    let why = run_job(&JvmWarehouse, &parameters("2m", 1 << 41)).expect_err("no such memory").to_string();
    assert!(why.contains("free at the site; reserve them: write "), "{why}");
}
