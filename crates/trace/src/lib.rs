//! What only the kernel sees of single I/Os, packets and system calls: small programs at raw tracepoints, and the tables that they fill.
//!
//! The programs are written with an assembler of our own ([`assembler`]) and fitted to the running kernel by its own type description
//! ([`btf`]), so that neither building nor running needs a compiler for them. They belong to file descriptors of this process: when it
//! ends, also by a kill, the kernel removes them. Where something is missing, [`TraceError`] says what, and nothing was attached.
#![forbid(unsafe_code)]

pub mod assembler;
pub mod btf;
pub mod calls;
pub mod disk;
pub mod diskstats;
pub mod histogram;
pub mod net;
pub mod netdev;
pub mod owner;

mod error;

pub use error::TraceError;
