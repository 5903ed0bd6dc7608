//! With podman.
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

mod around;
mod auction;
mod before_work;
mod databases;
mod engine;
mod farms;
mod images;
mod inside;
mod kills;
mod load_sites;
mod run_in;
