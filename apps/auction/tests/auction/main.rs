//! The application as its users meet it: real processes, SQLite, sockets in between.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    clippy::allow_attributes,
    dead_code,
    reason = "tests say what they skip, a failure is a panic, and suites share more than each needs"
)]

mod application;
mod credentials;
mod faults;
mod http;
mod input;
mod market;
mod privacy;
mod process;
mod sales;
mod uploads;
