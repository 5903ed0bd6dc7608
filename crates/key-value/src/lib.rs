//! Keys and values under load: GET and SET over many connections against a server that speaks the protocol of Redis.
//!
//! A server of the run's own is started for each phase, filled, put under load, and asked how many commands it has counted. Every value says
//! of which key and version it is, so that a reply that cannot be is found. Nothing here prints.
#![forbid(unsafe_code)]

pub mod blocking;
pub mod driver;
mod driver_thread;
pub mod history;
pub mod outcome;
mod parameters;
pub mod resp;
mod result;
mod server;
pub mod traffic;
pub mod values;
pub mod workload;

use baremark_model::job::Job;

/// Jobs of this crate.
pub const ALL: &[&dyn Job] = &[&workload::KeyValue];
