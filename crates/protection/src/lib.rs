//! Protection by checkpoints: a program is stopped at the end of each epoch, the pages that it has changed are copied to a secondary, and
//! what it has sent in the epoch is released when the secondary has acknowledged it.
//!
//! [`primary::run`] does that for any native program, with all its threads and processes; [`secondary::serve`] is the other end of the
//! link, a process of its own; [`output::Gate`] holds back what a server sends. [`workload::Protection`] measures it.
//!
//! A native program's secondary keeps memory alone, no registers, files or sockets, and cannot go on as the program. Memory that such a
//! program gives back to the kernel stays in the copy until it is written or unmapped. Output through anything but the TCP proxy, such as
//! files and pipes, is not held back. A program in the microVM can fail over: see [`failover`]. The secondary is a process of the same
//! machine, whose CPUs it uses.
#![forbid(unsafe_code)]

mod copied;
pub mod costs;
mod encoding;
pub mod failover;
pub mod link;
mod memory;
pub mod output;
pub mod primary;
pub mod report;
pub mod secondary;
mod threads;
pub mod workload;
pub mod writer;

pub use threads::End;
