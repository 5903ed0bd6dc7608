//! Figures of the application, for a quiet machine.
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
mod figures;
#[path = "../auction/http.rs"]
mod http;
#[path = "../auction/process.rs"]
mod process;
#[path = "../servers/services.rs"]
mod services;
