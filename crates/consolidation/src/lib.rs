//! Many servers on one machine: how many fit, and what each still delivers.
//!
//! Every server has a network namespace of its own on a bridge of the run and a control group with a CPU quota. The workload `web-farm`
//! ([`web_farm`]) searches for the most web servers that keep a limit of latency and the most that keep a limit of CPU use. The workload `tile`
//! ([`tile`]) runs a fixed set of unlike workloads side by side, once, twice and so on, and scores what they still deliver. The workload
//! `guest-operations` ([`guest_operations`]) deploys, clones and moves guests, alone or as members of a tile.
#![forbid(unsafe_code)]

pub mod content;
mod deferral;
pub mod farm;
mod farm_error;
pub mod guest_operations;
pub mod members;
pub mod quota;
mod starter;
pub mod static_server;
pub mod subject;
pub mod tile;
pub mod web_farm;
