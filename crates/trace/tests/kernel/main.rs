//! Tracing on this machine, which needs the superuser.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "tests")]

mod calls;
mod device;
mod disk;
mod net;
