//! Networks as runs use them: connected, limited, switched and gone. They need the superuser.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::allow_attributes,
    reason = "tests"
)]

mod connected;
mod kills;
mod support;
