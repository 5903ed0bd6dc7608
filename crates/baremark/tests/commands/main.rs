//! Arguments, bad input, refusals, lists, help, plans. Nothing is measured.
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

mod auction;
mod databases;
mod devices;
mod environments;
mod guide;
mod host;
mod input;
mod load;
mod machines;
mod places;
mod predict;
mod schemas;
mod setup;
mod shipped;
mod stores;
mod studies;
mod tiles;
mod verify_host;
mod workloads;
