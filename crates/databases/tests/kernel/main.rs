//! Databases on disks of their own, which are mounted: a loss of power, a full disk, a second copy.
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
mod full_disk;
mod power_loss;
#[path = "../shared/shop.rs"]
mod shop;
mod sites;
