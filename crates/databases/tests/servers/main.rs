//! The workloads on PostgreSQL and MariaDB.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    dead_code,
    clippy::allow_attributes,
    reason = "tests, which share more than each suite needs"
)]

#[path = "../shared/bench.rs"]
mod bench;
mod clock;
#[path = "../shared/copies.rs"]
mod copies;
mod dvd_store;
mod failures;
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
mod server;
#[path = "../shared/shop.rs"]
mod shop;
mod sites;
#[path = "../shared/steps.rs"]
mod steps;
#[path = "../shared/turns.rs"]
mod turns;
