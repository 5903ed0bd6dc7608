//! Observers: system activity, read from the kernel's and the processor's own counters.
//!
//! Each observer is one file and reads one thing; [`recorder`] makes growth, totals of arms and series of what they read, and
//! [`watch`] does so alongside a trial. Files are read below a root folder, so that recorded files of other machines can be
//! read by the same code. Nothing here fails a trial: what cannot be read is absent, with its reason.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod esxtop;
pub mod recorder;
pub mod watch;

mod counters;
mod cpu;
mod disk;
mod interrupts;
mod kernel;
mod kvm;
mod lost;
mod memory;
mod network;
mod null;
mod numa;
mod paging;
mod points;
mod pressure;
mod source;
mod tracks;

pub use source::Root;

use baremark_model::observer::{Absence, Observer};

/// The observer of that name, reading below `root`.
///
/// # Errors
/// Its absence when there is no such observer, as when the other side is a later version.
pub fn observer(name: &str, root: &Root) -> Result<Box<dyn Observer>, Absence> {
    let root = root.clone();
    Ok(match name {
        "cpu" => Box::new(cpu::Cpu::new(root)),
        "kernel" => Box::new(kernel::Kernel::new(root)),
        "interrupts" => Box::new(interrupts::Interrupts::new(root)),
        "disk" => Box::new(disk::Disk::new(root)),
        "network" => Box::new(network::Network::new(root)),
        "memory" => Box::new(memory::Memory::new(root)),
        "paging" => Box::new(paging::Paging::new(root)),
        "numa" => Box::new(numa::Numa::new(root)),
        "pressure" => Box::new(pressure::Pressure::new(root)),
        "kvm" => Box::new(kvm::Kvm::new(root)),
        "counters" => Box::new(counters::Counters::new(root)),
        "lost" => Box::new(lost::Lost::new()),
        "null" => Box::new(null::Null),
        other => return Err(Absence::new(other, "this version has no observer of that name")),
    })
}
