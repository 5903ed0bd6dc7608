//! Every adapter with its real program.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

mod bench;
mod carried;
mod conformance;
#[path = "../services/shipped.rs"]
mod shipped;
