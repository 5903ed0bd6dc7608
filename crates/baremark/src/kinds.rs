//! Every kind of workload that this program has, by the crate that provides it. A new crate is one line here.

use baremark_agent::runner::Runners;
use baremark_consolidation::guest_operations::Infrastructure;
use baremark_consolidation::tile::Tile;
use baremark_consolidation::web_farm::WebFarm;
use baremark_harness::workload::Auction;
use baremark_model::job::Job;
use baremark_protection::workload::Protection;
use baremark_streams::workload::StreamTcp;

/// What agents of this program run, and what studies can name.
pub const RUNNERS: Runners = Runners { workloads: baremark_workloads::ALL, jobs: JOBS };

const JOBS: &[&[&dyn Job]] = &[
    baremark_programs::ALL,
    baremark_guest_program::workload::ALL,
    baremark_load::workload::ALL,
    baremark_databases::ALL,
    baremark_disks::ALL,
    &[&Auction {
        places: crate::auction_places::make,
        load_sites: crate::auction_places::load_site,
        data_sources: baremark_auction::DATA_SOURCES,
    }],
    &[&StreamTcp { journal: crate::changes::journal }],
    &[&WebFarm { journal: crate::changes::journal, container: crate::auction_places::container_options }],
    &[&Protection],
    &[&Infrastructure],
    &[&Tile { find: job }],
];

/// The job of this kind.
fn job(kind: &str) -> Option<&'static dyn Job> {
    JOBS.iter().flat_map(|jobs| jobs.iter().copied()).find(|job| job.descriptor().kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_parameter_of_a_workload_means_something_else_in_every_study() {
        let descriptors = RUNNERS.descriptors();
        assert!(descriptors.len() > 10, "{} workloads", descriptors.len());
        for descriptor in descriptors {
            assert_eq!(descriptor.lost_parameter(), None, "{}", descriptor.kind);
        }
    }
}
