//! Every adapter with its real program.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

mod bench;
mod carried;
mod conformance;
mod other_users;
#[path = "../services/shipped.rs"]
mod shipped;
