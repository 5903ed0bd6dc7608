//! What the engine and layouts of disks do, by the clock: for a machine that does nothing else.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    dead_code,
    clippy::allow_attributes,
    reason = "tests, which share more than each suite needs"
)]

#[path = "../kernel/devices.rs"]
mod devices;
mod engine;
mod layout;
#[path = "../disks/plans.rs"]
mod plans;
