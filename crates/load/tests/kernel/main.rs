//! The engine in a network namespace of its own, which takes the superuser.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod ports;
#[path = "../load/server.rs"]
#[expect(dead_code, reason = "other suites need more of it")]
mod server;
