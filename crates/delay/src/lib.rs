//! A proxy with a one-way delay: what is read at one side is written at the other when its time has come.
//!
//! [`Proxy`] forwards connections and datagrams between two addresses, [`Links`] whole frames between network interfaces.
//! Order is kept, also with jitter. What waits is bounded: a stream is not read further, datagrams are dropped and counted. A proxy's wait
//! sleeps and then spins, for sleeping alone is late by tens to hundreds of microseconds ([`Wait::Sleeping`] leaves the CPU to others); a
//! link's wait ends earlier by as much as it is late.
#![forbid(unsafe_code)]

pub mod line;
pub mod link;
pub mod probe;
pub mod proxy;

pub use line::{Delay, Overhead, Report, Wait};
pub use link::Links;
pub use proxy::Proxy;
