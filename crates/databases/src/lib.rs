//! Databases under load: an OLTP engine over PostgreSQL, MariaDB and `SQLite`, and the workloads that run on it.
//!
//! A workload loads its data once and keeps it; each phase of a trial runs on a copy of that. What the database holds after a run is
//! checked, and a run that fails a check has no result. Nothing here prints.
#![forbid(unsafe_code)]

pub mod conditions;
pub mod database;
mod disk;
pub mod draws;
pub mod dvd_store;
pub mod engine;
mod equal_utilization;
pub mod hammer;
pub mod kept;
pub mod loading;
pub mod management_db;
pub mod mariadb;
pub mod order_entry;
mod parameters;
pub mod postgres;
mod result;
mod run;
pub mod server;
pub mod sqlite;
mod statements;

use baremark_model::job::Job;

/// Jobs of this crate.
pub const ALL: &[&dyn Job] = &[
    &order_entry::workload::OrderEntry,
    &dvd_store::workload::DvdStore,
    &hammer::Hammer,
    &management_db::workload::ManagementDb,
];
