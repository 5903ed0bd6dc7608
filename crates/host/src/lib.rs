//! Features of the host as factors of a study: transparent huge pages, NUMA balancing, idle states, frequency governor and others.
//!
//! One table ([`FEATURES`]) says by which files of sysctl, sysfs, interrupts and debugfs a feature is set and what its levels are called
//! there. A feature is probed before a study is planned, so that what this machine lacks is a blank cell with its reason; it is set between
//! trials, each change recorded in the journal before it is made, and undone with the last hold on it, or by the next start after a kill. A
//! reboot undoes all of them by itself. Before each trial the value is read back: one that somebody else has changed fails the trial.
//!
//! What a module takes only when it is loaded (`ept` of kvm_intel, `npt` of kvm_amd) is set by loading it again ([`Modules`]); refused when
//! something uses it or it is part of the kernel.
#![forbid(unsafe_code)]

mod cpus;
mod disks;
mod feature;
mod module;
mod setter;
mod tried;
mod vms;

pub use feature::{Absent, FEATURES, Feature, Host, absent, probe};
pub use module::Modules;
pub use setter::{HostError, Setter};
pub use tried::{Tried, tried};
pub use vms::{Vms, running};
