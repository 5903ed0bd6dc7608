//! The application over PostgreSQL, MariaDB and Redis.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    clippy::allow_attributes,
    dead_code,
    reason = "tests say what they skip, a failure is a panic, and suites share more than each needs"
)]

#[path = "../auction/application.rs"]
mod application;
mod external;
#[path = "../auction/http.rs"]
mod http;
#[path = "../auction/market.rs"]
mod market;
#[path = "../auction/process.rs"]
mod process;
mod sales;
mod services;
