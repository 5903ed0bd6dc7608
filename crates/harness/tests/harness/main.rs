//! The auction as a workload, without anything running: what topologies mean, how counts are judged, which study a command is.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::float_cmp,
    clippy::cast_precision_loss,
    clippy::allow_attributes,
    missing_docs,
    reason = "a test crate"
)]

mod conversions;
mod elasticity;
mod judgement;
mod topologies;
mod users;
