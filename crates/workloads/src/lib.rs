//! The workloads: what is run and measured.
//!
//! A workload is a descriptor (its table of parameters and metrics), the sizes of the memory that it takes, and a
//! preparation that gives a body to run, a check of its result and metrics from ticks. To add one, write its module and
//! add it to [`ALL`]; nothing else knows workloads by name.
#![forbid(unsafe_code)]

pub mod dgemm;
pub mod fma;
pub mod hpl;
pub mod page_table;
pub mod pointer_chase;
pub mod random_access;
pub mod stream;
pub mod system;

mod calls;
mod parameters;

use baremark_model::seam::Workload;

/// Every workload that can be run in an agent.
pub const ALL: &[&dyn Workload] = &[
    &random_access::RandomAccess,
    &pointer_chase::PointerChase,
    &stream::Stream,
    &hpl::Hpl,
    &dgemm::Dgemm,
    &fma::Fma,
    &page_table::PageTable,
    &system::SYSCALL,
    &system::SEGV,
    &system::FW,
    &system::PCD,
    &system::NPS,
    &system::FILE,
    &system::PIPE,
    &system::LOOPBACK_TCP,
    &system::PAGE_FAULT,
];

/// The workload of this kind.
#[must_use]
pub fn find(kind: &str) -> Option<&'static dyn Workload> {
    ALL.iter().copied().find(|workload| workload.descriptor().kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::knob::{Default, Kind};
    use baremark_model::units::Bytes;
    use std::collections::BTreeSet;

    #[test]
    fn kinds_are_unique_and_found() {
        let kinds: BTreeSet<&str> = ALL.iter().map(|workload| workload.descriptor().kind).collect();
        assert_eq!(kinds.len(), ALL.len());
        for kind in kinds {
            assert_eq!(find(kind).map(|found| found.descriptor().kind), Some(kind));
        }
        assert!(find("no-such-workload").is_none());
    }

    #[test]
    fn descriptors_are_complete_and_their_defaults_are_in_range() {
        for descriptor in ALL.iter().map(|workload| workload.descriptor()) {
            assert!(!descriptor.metrics.is_empty() && !descriptor.executors.is_empty(), "{}", descriptor.kind);
            assert!(
                descriptor.footprint.is_none_or(|of| descriptor.parameter(of.key).is_some()),
                "{}",
                descriptor.kind
            );
            for knob in descriptor.parameters {
                match (knob.kind, knob.default) {
                    (Kind::Size { min, max }, Default::Typed(text)) => {
                        let size: Bytes = text.parse().expect("a size");
                        assert!((min..=max).contains(&size.0), "{}", knob.key);
                    }
                    (Kind::Choice(words), Default::Typed(text)) => assert!(words.contains(&text), "{}", knob.key),
                    _ => {}
                }
            }
        }
    }
}
