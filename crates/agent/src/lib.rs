//! The agent: what runs at a site and does the work of a trial.
//!
//! It speaks frames with the lab, prepares a workload in memory made of the pages that were requested, lets executors run
//! its body phase by phase and sends back everything that was seen. It decides nothing about statistics; it only voids a
//! trial that was not what was requested.
#![forbid(unsafe_code)]

pub mod courier;
pub mod ensemble;
pub mod executors;
pub mod gate;
pub mod guest;
pub mod interrupt;
pub mod progress;
pub mod runner;
pub mod serve;
pub mod spawned;
pub mod trial;

mod audit;
mod blinded;
mod buffers;
mod call_costs;
mod disturbance;
mod duet;
pub mod job;
mod load;
mod pace;
mod phases;
mod placing;
mod trial_error;
mod turns;
