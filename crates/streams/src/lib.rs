//! `stream-tcp`: what a network path between two ends carries, and what that costs in CPU time.
//!
//! The engine ([`engine::run`]) knows nothing of studies; [`workload::StreamTcp`] makes it a job. Both ends are in this process, each on
//! threads of its own in its own network namespace. Bytes are counted at both ends and must agree.
#![forbid(unsafe_code)]

pub mod counters;
pub mod ends;
pub mod engine;
mod order;
pub mod patterns;
pub mod workload;
