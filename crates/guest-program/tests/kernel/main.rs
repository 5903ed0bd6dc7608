//! Programs in the guest as an unprivileged user in namespaces of their own, as root or as a user who may make namespaces.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as expected")]
#![expect(unsafe_code, reason = "a process leaves its user and its namespaces before it executes a program")]
#![allow(dead_code, clippy::allow_attributes, reason = "each suite uses a part of what they share")]

mod confined;
mod sequences;
#[path = "../guest/support.rs"]
mod support;
