//! Commits that do not wait, by the clock.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    dead_code,
    clippy::allow_attributes,
    reason = "tests, which share more than each suite needs"
)]

#[path = "../shared/bench.rs"]
mod bench;
#[path = "../shared/copies.rs"]
mod copies;
#[path = "../shared/shop.rs"]
mod shop;
mod sites;
