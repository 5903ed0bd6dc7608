//! Programs in the guest, on this machine's KVM. This very executable is their runner: it is recognised before `main`. Where
//! there is no KVM each test prints that it was skipped, and `BAREMARK_REQUIRE_KVM=1` makes that a failure.
//!
//! Other people's programs are in the suites `programs` and `servers`, unprivileged users and namespaces in `kernel`, and what depends on the
//! load of the machine in `measured`.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as expected")]
#![expect(unsafe_code, reason = "an option of a socket")]
#![allow(dead_code, clippy::allow_attributes, reason = "each suite uses a part of what they share")]

mod api;
mod both;
mod cases;
mod conformance;
mod continued;
mod exitless;
mod load;
mod probe;
mod programs;
mod sequences;
mod served;
mod support;
mod table;
