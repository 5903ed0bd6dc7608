//! How agents come to be somewhere: one adapter a file.
//!
//! An environment starts an agent and hands over its two streams. It knows nothing of trials; whatever it starts is gone
//! when its site is dropped.
#![expect(unsafe_code, reason = "the child's death signal is set between fork and exec")]

pub mod adapter;
mod child;
pub mod cloud_hypervisor;
pub mod conformance;
pub mod container;
mod folder;
mod guest;
mod interruptible;
pub mod kubernetes;
pub mod lab;
pub mod mpi;
pub mod native;
mod portion;
pub mod qemu;
mod ready_line;
pub mod sandbox;
pub mod slurm;
pub mod ssh;
pub mod values;

use adapter::Adapter;

/// Every environment but those that `native` serves. A new one is a line here, and its row in `model::environments::ALL`.
pub const ADAPTERS: &[Adapter] = &[
    sandbox::study::ADAPTER,
    container::study::ADAPTER,
    qemu::study::ADAPTER,
    cloud_hypervisor::study::ADAPTER,
    ssh::study::ADAPTER,
    slurm::study::ADAPTER,
    mpi::study::ADAPTER,
    kubernetes::study::ADAPTER,
];
