//! The auction as a workload: from a topology to running applications, their users, and what became of both.
//!
//! Preparing an arm starts every tier where the topology says and loads the data. A phase brings the users, or searches for the
//! most that keep every limit, changes the number of servers meanwhile, collects what each instance reports, and checks that
//! no bid was lost. Blocks, intervals, the store and reports are those of every study. It prints nothing.
#![forbid(unsafe_code)]

mod archive;
mod budget;
mod certificate;
pub mod cluster;
pub mod convert;
mod demand;
pub mod document;
pub mod elastic;
mod external;
mod fixed_load;
pub mod generator;
mod instances;
mod kept_data;
mod leaving;
mod measurements;
pub mod mix;
mod passwords;
mod phase;
mod phase_context;
mod saturation;
mod search;
mod tier_cpus;
pub mod topology;
mod under_load;
pub mod users;
mod verify;
pub mod workload;
