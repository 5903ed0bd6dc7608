//! Layouts of loop devices and mounts, which take the superuser.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    clippy::allow_attributes,
    reason = "tests, which share more than each suite needs"
)]

mod consent;
mod devices;
mod layout;
#[path = "../disks/plans.rs"]
mod plans;
mod read_back;
