//! What judges live measurements.
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
mod before_work;
mod causes;
mod databases;
mod farms;
mod full;
mod guide;
mod mpi_steps;
mod one_block;
mod protection;
mod results;
mod scale;
mod searches;
mod standard;
