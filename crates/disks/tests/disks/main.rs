//! The engine and its verification on real files.
#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::print_stdout, reason = "tests")]

mod engine;
mod layout;
mod nbd;
mod plans;
mod verify;
