//! Block I/O as a workload: what a disk does under a pattern of reads and writes, and whether it keeps what it was given.
//!
//! The engine issues I/Os by io_uring with `O_DIRECT`; verification stamps every block; fio's job files are read as far as
//! they mean the same here. It prints nothing.
#![deny(unsafe_code)]

pub mod access;
pub mod device;
pub mod engine;
mod error;
pub mod fio;
mod io;
pub mod pace;
pub mod settings;
pub mod target;
pub mod verify;
pub mod workload;
