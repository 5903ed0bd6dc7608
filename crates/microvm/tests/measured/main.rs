//! What depends on the host's kernel and on the load of this machine: exact counts of exits and of page faults in a region, entries of the
//! hypervisor's tables, and figures for people.
#![expect(unsafe_code, reason = "mappings")]
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as expected")]

#[expect(dead_code, reason = "bodies of the other tests")]
#[path = "../microvm/bodies.rs"]
mod bodies;
#[path = "../microvm/memory.rs"]
mod memory;
#[path = "../microvm/support.rs"]
mod support;

mod audit;
mod figures;
mod host;
mod leaves;
mod telling;
