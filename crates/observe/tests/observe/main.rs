//! Observers on this machine, on recordings of others, and on what no machine should say.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::float_cmp,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::allow_attributes,
    missing_docs,
    reason = "a test crate"
)]

mod conformance;
mod esxtop;
mod machines;
mod recorder;
mod strangers;
mod toy;
mod watch;
