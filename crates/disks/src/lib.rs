//! Block I/O as a workload: what a disk does under a pattern of reads and writes, and whether it keeps what it was given.
//!
//! The engine issues I/Os by io_uring with `O_DIRECT`; verification stamps every block; fio's job files are read as far as
//! they mean the same here. Layouts are LUNs on layers of the kernel, over devices made of files, and
//! a disk with a second copy over NBD. It prints nothing.
#![deny(unsafe_code)]

pub mod access;
pub mod device;
pub mod engine;
mod error;
pub mod fio;
mod io;
pub mod layout;
pub mod nbd;
pub mod one_engine;
pub mod over_time;
pub mod pace;
pub mod provision;
pub mod settings;
pub mod target;
pub mod verify;
pub mod workload;
pub mod writable;

/// Jobs of this crate.
pub const ALL: &[&dyn baremark_model::job::Job] = &[&workload::Block, &provision::Provision];
