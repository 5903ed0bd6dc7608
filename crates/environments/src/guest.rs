//! What guests of every hypervisor on this machine have in common: a kernel and its modules, an initial file system of
//! the program alone, the frames that their agents exchange with the lab, and what their machine is made of.
//!
//! Nothing here knows a hypervisor: each passes what is found, made and checked here to a program of its own.

pub(crate) mod difference;
pub(crate) mod disks;
pub(crate) mod frames;
pub(crate) mod initial;
pub(crate) mod kernel;
pub(crate) mod memory;
pub(crate) mod mmu;
mod modules;
pub(crate) mod portion;
pub(crate) mod topology;
