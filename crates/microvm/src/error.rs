//! Why a microVM could not be had, with what would help.

use baremark_sys::affinity::Seat;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Starting or probing a microVM failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No KVM device.
    #[error(
        "{} does not exist: load kvm_intel or kvm_amd (modprobe), turn on virtualization in the firmware, inside a \
         virtual machine turn on nested virtualization on its host, and in a container pass the device in with --device /dev/kvm",
        device.display()
    )]
    Missing {
        /// The device that was looked for.
        device: PathBuf,
    },
    /// The device is there and may not be used.
    #[error(
        "{} may not be opened: add the user to group kvm (usermod -aG kvm USER, then log in again), or in a container \
         pass it in with --device /dev/kvm",
        device.display()
    )]
    Denied {
        /// The device.
        device: PathBuf,
    },
    /// The device is there and does not open for another reason.
    #[error("cannot open {}: unload other hypervisors' modules and see dmesg", device.display())]
    Open {
        /// The device.
        device: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A device of another kind by that name.
    #[error(
        "{} is not a KVM device, for it does not answer KVM_GET_API_VERSION: remove what hides it, and in a container pass the host's with \
         --device /dev/kvm",
        device.display()
    )]
    NotKvm {
        /// The device.
        device: PathBuf,
    },
    /// Another interface than the one that has been stable since 2007.
    #[error("KVM speaks API version {found}, needed is 12: this is not Linux's KVM, or it is older than 2.6.22")]
    ApiVersion {
        /// The version found.
        found: i32,
    },
    /// A needed extension of KVM is missing.
    #[error("KVM does not support {capability}: use Linux 5.0 or later, with a back end that offers it")]
    Capability {
        /// Its name in `linux/kvm.h`.
        capability: &'static str,
    },
    /// The configuration cannot work.
    #[error("{what}: {remedy}")]
    Config {
        /// What was requested.
        what: String,
        /// What would be right.
        remedy: String,
    },
    /// A rank's thread could not be pinned.
    #[error("cannot pin a rank to {seat}: name CPUs that this process may use (taskset -p, cpusets)")]
    Pin {
        /// The CPU.
        seat: Seat,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A rank's thread could not be made.
    #[error("cannot start the thread of rank {rank}: raise the limit of processes (ulimit -u)")]
    Thread {
        /// The rank.
        rank: usize,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Memory for tables or stacks could not be had.
    #[error("cannot allocate the microVM's {what}: raise the limit of address space (ulimit -v)")]
    Memory {
        /// What it was for.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A call to KVM failed.
    #[error("{call} failed: see dmesg; the back end may not support 64-bit guests")]
    Kvm {
        /// The call, by its name in `linux/kvm.h`.
        call: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No signal is free with which to stop a rank that does not come back.
    #[error("all realtime signals have handlers: leave one to the microVM's watchdog")]
    NoSignal,
    /// The machine was made and does not run.
    #[error("the microVM's first run failed: {0}")]
    FirstRun(baremark_model::seam::Fault),
    /// No interrupts between virtual CPUs.
    #[error("no interrupt of one virtual CPU to another can be had here: {what}")]
    Interrupts {
        /// What happened instead.
        what: String,
    },
    /// The trial run took longer than anybody would wait.
    #[error(
        "the trial run did not end within {:.0} s, in which it used {:.1} s of CPU time: this back end cannot be used for measuring",
        took.as_secs_f64(),
        cpu.as_secs_f64()
    )]
    Stuck {
        /// How long it was waited for.
        took: Duration,
        /// What this process has used of the CPUs meanwhile.
        cpu: Duration,
    },
}

/// Names the call that failed.
pub(crate) fn failed(call: &'static str) -> impl FnOnce(kvm_ioctls::Error) -> Error {
    move |error| Error::Kvm { call, source: error.into() }
}
