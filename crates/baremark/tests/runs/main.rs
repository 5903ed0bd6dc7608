//! Small runs of the program, native, in the null executor and in the microVM, and what happens when one is killed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::float_cmp,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::allow_attributes,
    unsafe_code,
    dead_code,
    unused_imports,
    missing_docs,
    reason = "a test crate; each suite uses a part of what is common"
)]

#[path = "../common/mod.rs"]
mod common;
use common::*;

mod ab;
mod around;
mod auction;
mod auction_data;
mod auction_kills;
mod before_work;
mod bundles;
mod changes;
mod ci;
mod cloud_hypervisor;
mod concurrent;
mod databases;
mod engines;
mod explain;
mod extensions;
mod failover;
mod faults;
mod gpu_members;
mod guest;
mod imports;
mod input;
mod kills;
mod load;
mod load_sites;
mod native;
mod pods;
mod predict;
mod programs;
mod protection;
mod results;
mod run_in;
mod scale;
mod schemas;
mod searches;
mod serving;
mod sessions;
mod supervision;
mod tiles;
mod top;
mod wall_time;
mod workloads;
