//! Failover: a secondary in another process continues a program that was killed, from the last acknowledged epoch.
//!
//! Three processes take part. The *conductor* ([`conductor::run`]) has the clients' connections and the standard streams, which outlive a
//! failover; the *primary* has the program, in the microVM; the *secondary* has the last checkpoint. Primary and secondary are the same
//! program, [`replica::serve`]: a secondary becomes the primary when the conductor says so. What the program sends in an epoch travels with
//! the epoch's checkpoint, and it is the secondary that hands it to the conductor: output that was released belongs to a checkpoint that
//! the secondary has. Input stays with the conductor until a checkpoint says that the program has read it.

mod checkpoint;
pub mod conductor;
mod control;
mod descriptors;
mod primary;
mod proxy;
pub mod replica;
mod report;

pub use control::Order;
pub use report::{Failover, FailoverReport};
