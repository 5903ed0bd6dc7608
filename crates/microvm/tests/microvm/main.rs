//! The microVM on this machine's KVM. Tests take turns, because each pins threads that spin; where there is no KVM each
//! says that it was skipped, and `BAREMARK_REQUIRE_KVM=1` makes that a failure.
#![expect(unsafe_code, reason = "bodies that fault on purpose, signals, mappings")]
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as expected")]

mod audit;

mod bodies;
mod faults;
mod figures;
mod host;
mod leaves;
mod lifecycle;
mod results;
mod soak;
mod support;
mod telling;
mod watchdog;
