//! A proxy with a one-way delay: what is read at one side is written at the other when its time has come.
//!
//! Order is kept, also with jitter. What waits is bounded: a stream is not read further, datagrams are dropped and counted. The wait
//! sleeps and then spins, for sleeping alone is late by tens to hundreds of microseconds.
#![forbid(unsafe_code)]

pub mod line;
pub mod probe;
pub mod proxy;

pub use line::{Delay, Overhead, Report};
pub use proxy::Proxy;
