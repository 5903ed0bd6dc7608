//! The tests of the model: what a stranger's study file, frame or document meets.
//!
//! One binary with a module for each part. Messages and frames are golden files: a change to one of them is a
//! change to what people or other versions read, and must be seen in review. `INSTA_UPDATE=always` rewrites the goldens.
#![forbid(unsafe_code)]
#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests may fail loudly"
)]

mod command;
mod config;
mod descriptors;
mod duets;
mod environments;
mod plan;
mod reference;
mod several;
mod specimen;
mod strangers;
mod study;
mod units;
mod wire;
