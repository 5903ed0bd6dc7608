//! Features of the host as factors of a study: transparent huge pages, NUMA balancing, idle states, frequency governor and others.
//!
//! One table ([`FEATURES`]) says by which files of sysctl and sysfs a feature is set and what its levels are called there. A feature is
//! probed before a study is planned, so that what this machine lacks is a blank cell with its reason; it is set between trials, each
//! change recorded in the journal before it is made, and undone with the last hold on it, or by the next start after a kill. A reboot undoes
//! all of them by itself. Before each trial the value is read back: one that somebody else has changed fails the trial.
//!
//! What takes a module to be loaded anew (`ept` of kvm_intel, `npt` of kvm_amd) is not among them.
#![forbid(unsafe_code)]

mod feature;
mod setter;
mod vms;

pub use feature::{Absent, FEATURES, Feature, absent, probe};
pub use setter::{HostError, Setter};
pub use vms::running;
