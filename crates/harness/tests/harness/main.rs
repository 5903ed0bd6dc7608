//! The harness without anything running: what topologies mean, how counts are judged, what is said of results.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::float_cmp,
    clippy::cast_precision_loss,
    clippy::allow_attributes,
    missing_docs,
    reason = "a test crate"
)]

mod elasticity;
mod judgement;
mod pages;
mod studies;
mod topologies;
mod users;
