//! The engine against other people's servers, in folders and processes of their own.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod http2;
#[path = "../load/server.rs"]
#[expect(dead_code, reason = "other suites need more of it")]
mod server;
