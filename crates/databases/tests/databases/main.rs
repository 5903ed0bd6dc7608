//! The engine on a scripted database, and the workloads on SQLite.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    dead_code,
    clippy::allow_attributes,
    reason = "tests, which share more than each suite needs"
)]

#[path = "../shared/bench.rs"]
mod bench;
mod client;
mod clock;
mod dvd_store;
mod engine;
mod front;
#[path = "../shared/fronts.rs"]
mod fronts;
mod hammer;
mod loading;
mod management_db;
#[path = "../shared/manager.rs"]
mod manager;
#[path = "../shared/nails.rs"]
mod nails;
mod order_entry;
#[path = "../shared/orders.rs"]
mod orders;
#[path = "../shared/parts.rs"]
mod parts;
mod pipeline;
#[path = "../shared/shop.rs"]
mod shop;
#[path = "../shared/steps.rs"]
mod steps;
#[path = "../shared/turns.rs"]
mod turns;
