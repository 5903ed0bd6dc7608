//! Tests of the page-walk model: exact reference counts, properties of its structures, and what it refuses.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::allow_attributes,
    missing_docs,
    reason = "tests"
)]

mod allocator;
mod calibrations;
#[path = "../../../../fuzz/src/traces.rs"]
mod fuzzed;
mod machines;
mod naive;
mod predictions;
mod references;
mod structures;
mod traces;
