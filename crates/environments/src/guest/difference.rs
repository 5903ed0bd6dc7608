//! What of a running guest is not as requested.

use serde_json::Value;
use std::io;

/// The first thing that is not so, by the hypervisor's own account or by the kernel's of its process.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Difference {
    /// Cloud Hypervisor runs it in another state.
    #[error("Cloud Hypervisor reports the state {0} of a guest that runs")]
    State(Value),
    /// QEMU runs it by emulation instead of KVM, or the other way round.
    #[error("QEMU runs the guest by another accelerator than requested")]
    Accelerator,
    /// QEMU does not say.
    #[error("QEMU's machine protocol: {0}")]
    Protocol(#[source] io::Error),
    /// It has other vCPUs.
    #[error("the guest has {found} of its {wanted} vCPUs")]
    Vcpus {
        /// How many it has.
        found: Value,
        /// How many were requested.
        wanted: usize,
    },
    /// The kernel does not pin a vCPU.
    #[error("vCPU {vcpu} cannot be pinned to CPU {cpu}: {source}")]
    Pinning {
        /// Which, from 0.
        vcpu: usize,
        /// Where to.
        cpu: usize,
        /// What the system said.
        source: io::Error,
    },
    /// A vCPU runs elsewhere.
    #[error("vCPU {vcpu} is not pinned to CPU {cpu}; its CPUs are {found}")]
    Pinned {
        /// Which, from 0.
        vcpu: usize,
        /// Where it should run.
        cpu: usize,
        /// Where it may run.
        found: String,
    },
    /// The cache of a disk is another: its number, from 0.
    #[error("disk {0} of the guest is not cached as disk_cache says")]
    Cache(usize),
    /// Another thread serves a disk.
    #[error("disk {disk} of the guest is served by {thread}, not as disk_iothread says")]
    Thread {
        /// Which, from 0.
        disk: usize,
        /// Which thread.
        thread: String,
    },
    /// A disk has other queues.
    #[error("disk {disk} of the guest has {queues:?} queues, not as disk_queues says")]
    Queues {
        /// Which, from 0.
        disk: usize,
        /// How many it has, where that is known.
        queues: Option<u64>,
    },
    /// Memory that should be of small pages is not: how much, in MiB.
    #[error("{0} MiB of the guest's memory are in huge pages")]
    Huge(u64),
    /// Too little memory is in pages of the kind that was requested.
    #[error("only {found_mib} of the guest's {wanted_mib} MiB are in {kind} pages")]
    Backing {
        /// Which pages.
        kind: &'static str,
        /// How much is in them.
        found_mib: u64,
        /// How much the guest has.
        wanted_mib: u64,
    },
}
