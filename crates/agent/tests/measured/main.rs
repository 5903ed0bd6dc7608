//! What the agent makes of a busy machine, measured while programs compute.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::float_cmp,
    clippy::cast_precision_loss,
    clippy::allow_attributes,
    missing_docs,
    reason = "a test crate"
)]

mod busy;
mod disturbance;
#[path = "../agent/toys.rs"]
#[allow(dead_code, reason = "the other tests use all of them")]
mod toys;
