//! The engine on a scripted database, and the workloads on real ones.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

mod bench;
mod dvd_store;
mod engine;
mod hammer;
mod management_db;
mod order_entry;
mod power_loss;
mod server;
