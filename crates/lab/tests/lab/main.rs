//! The lab against agents that are played: every trial's outcome is written by the test, nothing is measured.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::float_cmp,
    clippy::cast_precision_loss,
    clippy::allow_attributes,
    missing_docs,
    reason = "a test crate"
)]

mod budget;
mod conduct;
mod examined;
mod generators;
mod holding;
mod members;
mod observed;
mod own_time;
mod percentiles;
mod played;
mod price;
mod reference;
mod reliability;
mod scale;
mod schedule;
mod search;
mod several_sites;
mod spend;
mod spread;
mod timelines;
mod turns;
mod used_by_others;
