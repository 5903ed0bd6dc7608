//! Programs in the guest, on this machine's KVM. This very executable is their runner: it is recognised before `main`. Where
//! there is no KVM each test says that it was skipped, and `BAREMARK_REQUIRE_KVM=1` makes that a failure.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as expected")]
#![expect(unsafe_code, reason = "a process leaves its user and its namespaces before it executes a program")]

mod api;
mod cases;
mod confined;
mod conformance;
mod continued;
mod exitless;
mod figures;
mod probe;
mod programs;
mod sequences;
mod served;
mod support;
