//! Observers: system activity, read from the kernel's and the processor's own counters.
//!
//! Each observer is one file and reads one thing; [`recorder`] makes growth, totals of arms and series of what they read, and
//! [`watch`] does so alongside a trial. Files are read below a root folder, so that recorded files of other machines can be
//! read by the same code. Nothing here fails a trial: what cannot be read is absent, with its reason.
#![forbid(unsafe_code)]

pub mod activity;
pub mod conformance;
pub mod esxtop;
pub mod recorder;
pub mod watch;

mod counters;
mod cpu;
mod disk;
mod interrupts;
mod io_histograms;
mod kernel;
mod kvm;
mod lost;
mod memory;
mod net_stats;
mod network;
mod null;
mod numa;
mod paging;
mod points;
mod pressure;
mod sockets;
mod source;
mod tracks;

pub use interrupts::shootdowns;
pub use source::Root;

use baremark_model::observer::{Absence, Observer};

/// A row of the list of observers: the name in studies, and how it is made to read below a root.
pub type Row = (&'static str, fn(Root) -> Box<dyn Observer>);

/// Every observer. A new one is its file and a line here; studies can name it once `model::observer::OBSERVERS` has its name,
/// which a test compares.
pub const LIST: &[Row] = &[
    ("cpu", |root| Box::new(cpu::Cpu::new(root))),
    ("kernel", |root| Box::new(kernel::Kernel::new(root))),
    ("interrupts", |root| Box::new(interrupts::Interrupts::new(root))),
    ("disk", |root| Box::new(disk::Disk::new(root))),
    ("network", |root| Box::new(network::Network::new(root))),
    ("sockets", |root| Box::new(sockets::Sockets::new(root))),
    ("memory", |root| Box::new(memory::Memory::new(root))),
    ("paging", |root| Box::new(paging::Paging::new(root))),
    ("numa", |root| Box::new(numa::Numa::new(root))),
    ("pressure", |root| Box::new(pressure::Pressure::new(root))),
    ("kvm", |root| Box::new(kvm::Kvm::new(root))),
    ("counters", |root| Box::new(counters::Counters::new(root))),
    ("io-histograms", |root| Box::new(io_histograms::IoHistograms::new(root))),
    ("net-stats", |root| Box::new(net_stats::NetStats::new(root))),
    ("lost", |_| Box::new(lost::Lost::new())),
    ("null", |_| Box::new(null::Null)),
];

/// The observer of that name in a list, reading below `root`.
///
/// # Errors
/// Its absence when there is no such observer, as when the other side is a later version.
pub fn observer(list: &[Row], name: &str, root: &Root) -> Result<Box<dyn Observer>, Absence> {
    let row = list.iter().find(|(known, _)| *known == name);
    let unknown = || Absence::new(name, "this version has no observer of that name");
    row.map(|(_, make)| make(root.clone())).ok_or_else(unknown)
}
