//! A virtual machine for this process's own code.
#![expect(unsafe_code, reason = "a virtual machine monitor: system calls, shared memory, machine code")]

mod error;
mod exception;
mod guest;
mod image;
mod kick;
mod latch;
mod layout;
mod leaves;
mod machine;
mod mapping;
mod maps;
mod microvm;
mod mmu;
mod pool;
mod probe;
mod rank;
mod registers;
mod space;
mod stats;
mod supervisor;
mod syscall;
mod tables;
mod touch;
mod tsc;
mod vcpu;

pub use error::Error;
pub use leaves::{ExpectedLeaves, expected_leaves};
pub use microvm::{Config, Microvm};
pub use mmu::{MmuMode, MmuVirtualization, mmu_virtualization, mmu_virtualization_in};
pub use probe::{Probe, probe, probe_at};
pub use touch::Touch;
