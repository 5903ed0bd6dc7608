//! The HTTP load engine: it says when each request was meant to start, when it did, and whether that was its own fault.
//!
//! One event loop per core on non-blocking sockets. Open loops (a rate) and closed ones (connections, users) combine with any
//! arrival process and any profile. Latencies count from the *intended* start, the uncorrected figure is next to them, and
//! every result carries a verdict on the generator itself. It prints nothing, and only it resolves names.
#![deny(unsafe_code)]

mod actor;
pub mod arrival;
pub mod bounded_file;
mod control;
pub mod document;
pub mod epoll;
mod extract;
pub mod failure;
pub mod fuzz_invariants;
mod hpack;
mod http1;
mod http2;
mod json;
pub mod latency;
pub mod limits;
pub mod load;
pub mod order;
pub mod parts;
pub mod profile;
mod propagation;
pub mod rate_control;
pub mod reached;
pub mod reading;
pub mod record;
pub mod requirements;
mod response;
mod rng;
pub mod scenario;
pub mod steady;
mod template;
mod threads;
pub mod transport;
pub mod url;
mod worker;
pub mod workload;

pub use epoll::raise_descriptor_limit;
