//! The microVM on this machine's KVM. Tests take turns, because each pins threads that spin; where /dev/kvm cannot be opened each
//! prints that it was skipped, and `BAREMARK_REQUIRE_KVM=1` makes that a failure. What depends on the host's kernel and on the load of the
//! machine is in `measured`.
#![expect(unsafe_code, reason = "bodies that fault on purpose, signals, mappings")]
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as expected")]

mod audit;
mod bodies;
mod faults;
mod lifecycle;
mod memory;
mod results;
mod soak;
mod support;
mod watchdog;
