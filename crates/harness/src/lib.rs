//! The harness: from a topology to a running application, its load, and what became of both.
//!
//! It starts every tier where the topology says, loads the data, finds the most users that keep their limits or keeps some
//! users for a while, changes the number of servers meanwhile, collects what everybody tells, checks that no bid was lost,
//! and stops everything, whatever happens. It prints nothing.
#![forbid(unsafe_code)]

mod budget;
mod certificate;
mod chart;
pub mod cluster;
pub mod conduct;
pub mod document;
pub mod elastic;
mod fixed;
mod instances;
pub mod layers;
mod leaving;
pub mod mix;
pub mod page;
pub mod study;
pub mod topology;
pub mod under_load;
pub mod users;
mod verify;
pub mod words;
pub mod workload;
