//! The lab: from a plan to a stored run to estimates.
//!
//! It starts agents through environments, gives them trials in random order, stores each as soon as it is over, asks the
//! stopping rule whether another block is needed, and works out the result document from the stored trials alone, so that
//! a killed run, a resumed run and an undisturbed one are judged by the same code. It knows workloads as descriptors only.
#![forbid(unsafe_code)]

mod activity;
pub mod analysis;
pub mod comparison;
pub mod conduct;
mod disk_counts;
mod examined;
mod explain;
pub mod fitness;
mod fitting;
pub mod gates;
pub mod generators;
pub mod history;
pub mod host_observer;
pub mod joined;
mod lab_clock;
pub mod layers;
pub mod link;
mod members;
mod observed;
pub mod overhead;
mod own_time;
mod parallel_start;
pub mod price;
mod provisioning;
mod references;
mod reliability;
pub mod remote_program;
mod run;
pub mod scale;
pub mod schedule;
pub mod search;
mod sites;
mod slope;
mod spend;
pub mod spread;
mod time_use;
mod timeline;
pub mod trials;
mod turns;
mod used_by_others;
mod values;
