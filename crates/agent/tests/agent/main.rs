//! The agent: its executors against their contract, and whole trials as a lab asks for them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::float_cmp,
    clippy::cast_precision_loss,
    clippy::allow_attributes,
    missing_docs,
    reason = "a test crate"
)]

mod conformance;
mod duets;
mod ensembles;
mod kinds;
mod placement;
mod spawned;
mod toys;
