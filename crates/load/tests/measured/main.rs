//! Rates, latencies and counts of live loads against theory: for a machine that does nothing else.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../load/bids.rs"]
#[expect(dead_code, reason = "other suites need more of it")]
mod bids;
mod latencies;
mod rates;
#[path = "../load/server.rs"]
#[expect(dead_code, reason = "other suites need more of it")]
mod server;
#[path = "../load/shop.rs"]
#[expect(dead_code, reason = "other suites need more of it")]
mod shop;
