//! The engine on a scripted database, and the workloads on real ones.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

mod bench;
mod clock;
mod dvd_store;
mod engine;
mod failures;
mod front;
mod hammer;
mod loading;
mod management_db;
mod order_entry;
mod pipeline;
mod power_loss;
mod server;
mod sites;
