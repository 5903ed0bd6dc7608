//! Tracing on this machine.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "tests")]

mod disk;
mod net;
