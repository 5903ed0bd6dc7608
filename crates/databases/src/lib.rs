//! Databases under load: an OLTP engine over PostgreSQL, MariaDB and `SQLite`, and the workloads that run on it.
//!
//! A workload loads its data once and keeps it; a phase of a trial runs on a copy of that, or continues on that of the phase before where two places take
//! turns. What the database holds after a run is checked, and a run that fails a check has no result. Nothing here prints.
#![forbid(unsafe_code)]

pub mod conditions;
pub mod database;
pub mod dataset_cache;
mod disk;
pub mod draws;
pub mod dvd_store;
pub mod endpoint;
pub mod engine;
mod equal_utilization;
mod error;
pub mod external;
mod folders;
pub mod hammer;
mod http;
mod interface;
mod kernel_work;
pub mod kind;
pub mod loading;
pub mod login;
pub mod management_db;
pub mod mariadb;
mod mirrored;
pub mod notice;
pub mod order_entry;
mod parameters;
pub mod postgres;
mod result;
mod run;
pub mod server;
pub mod sites;
mod space;
pub mod sqlite;
mod statements;
mod way;

use baremark_model::job::Job;

/// Jobs of this crate.
pub const ALL: &[&dyn Job] = &[
    &order_entry::workload::ORDER_ENTRY,
    &dvd_store::workload::DVD_STORE,
    &hammer::HAMMER,
    &management_db::workload::MANAGEMENT_DB,
];

/// Levels of these jobs' parameters that this machine itself cannot have, as [`Limits::absent`](baremark_model::plan::Limits::absent) has them, each
/// with the reason.
#[must_use]
pub fn absent() -> Vec<(String, String)> {
    sites::absent(dvd_store::workload::DVD_STORE.descriptor.kind).into_iter().collect()
}
