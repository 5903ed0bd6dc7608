//! Every kind of workload that this program has, by the crate that provides it. A new crate is one line here.

use baremark_agent::runner::Runners;
use baremark_consolidation::guest_operations::Infrastructure;
use baremark_consolidation::tile::Tile;
use baremark_consolidation::web_farm::WebFarm;
use baremark_harness::workload::Auction;
use baremark_model::arm::ResolvedArm;
use baremark_model::job::{Job, ServerProgram};
use baremark_protection::workload::Protection;
use baremark_streams::workload::StreamTcp;

/// What agents of this program run, and what studies can name.
pub const RUNNERS: Runners = Runners { workloads: baremark_workloads::ALL, jobs: JOBS };

const JOBS: &[&[&dyn Job]] = &[
    baremark_programs::ALL,
    baremark_guest_program::workload::ALL,
    baremark_load::workload::ALL,
    baremark_databases::ALL,
    baremark_key_value::ALL,
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

/// The server that an arm of this kind has started where it runs.
pub fn server_of(kind: &str, arm: &ResolvedArm) -> Option<ServerProgram> {
    job(kind)?.server(arm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::descriptor::Descriptor;
    use baremark_model::metric::Metric;
    use baremark_model::percentile::Percentile;
    use baremark_model::published;
    use baremark_model::unit::{Dimension, Unit, comparable};
    use baremark_model::{command, former, identity};

    fn metrics() -> Vec<&'static Metric> {
        let of = |descriptor: &&'static Descriptor| descriptor.metrics;
        RUNNERS.descriptors().iter().flat_map(of).chain(&command::USUAL).collect()
    }

    #[test]
    fn every_metric_has_a_known_unit_and_every_percentile_a_key_that_says_so() {
        for metric in metrics() {
            assert!(!metric.help.is_empty(), "{}", metric.key);
            let unit = Unit::of(metric.unit);
            assert!(unit.is_ok(), "{}: {unit:?}", metric.key);
            // A difference of two is none, nor is a number of servers that keep one.
            let is_time = unit.is_ok_and(|unit| unit.dimension == Dimension::Time);
            let said = is_time && metric.help.contains("th percentile") && !metric.help.contains(" less ");
            assert!(!said || Percentile::of_key(metric.key).is_some(), "{}: {}", metric.key, metric.help);
        }
    }

    /// What is measured, which percentile, in which unit: `latency_p99_9_us`, `latency_max_us`.
    #[test]
    fn keys_of_percentiles_have_one_form() {
        let mut found = 0;
        for metric in metrics() {
            let Some(Percentile { of, share }) = Percentile::of_key(metric.key) else { continue };
            let percent = format!("p{:04.1}", 100.0 * share);
            let percent = percent.trim_end_matches(".0").replace('.', "_");
            let which = if share < 1.0 { percent.as_str() } else { "max" };
            let (what, unit) = of.rsplit_once('_').unwrap_or_else(|| panic!("{}: of what?", metric.key));
            assert_eq!((metric.key, metric.unit), (format!("{what}_{which}_{unit}").as_str(), unit));
            found += 1;
        }
        assert!(found > 50, "{found} percentiles");
    }

    /// A key that another version had is not one of today, and what it is called now is a parameter.
    #[test]
    fn parameters_have_no_former_name() {
        for descriptor in RUNNERS.descriptors() {
            for knob in descriptor.parameters {
                assert_eq!(former::key_now_of(&[descriptor.kind], knob.key), None, "{}", descriptor.kind);
            }
        }
        for (kinds, before, now) in former::OF_KINDS {
            for kind in kinds {
                let descriptor = RUNNERS.descriptors().into_iter().find(|descriptor| descriptor.kind == *kind);
                let parameter = descriptor.and_then(|descriptor| descriptor.parameter(now));
                assert!(parameter.is_some(), "{kind}: {now}, {before} before");
            }
        }
    }

    #[test]
    fn what_adds_up_is_of_metrics_of_one_unit() {
        let unit = |key: &str| metrics().iter().find(|metric| metric.key == key).map(|metric| metric.unit);
        for sum in identity::SUMS.iter().chain([&identity::OF_TRANSACTIONS]) {
            let whole = unit(sum.whole);
            assert!(whole.is_some() && sum.parts.iter().all(|part| unit(part) == whole), "{sum:?}");
        }
    }

    /// A table of KB stood next to bytes.
    #[test]
    fn metrics_are_in_units_that_convert_to_those_of_published_tables() {
        let mut compared = 0;
        for (name, publication) in published::all() {
            for table in &publication.table {
                let Some(ours) = &table.ours else { continue };
                for row in table.row.iter().filter(|row| row.ours.over.is_empty() && row.ours.blank.is_none()) {
                    let gain = ours.columns.iter().any(|column| !column.over.is_empty());
                    let kind = ours.workload_of(&row.ours);
                    let found = RUNNERS.descriptors().into_iter().find(|descriptor| descriptor.kind == kind);
                    let key = row.ours.metric.as_ref().or(ours.metric.as_ref()).filter(|_| row.ours.quantity.is_none());
                    let metric = found.zip(key).and_then(|(of, key)| of.metric(key));
                    let (Some(metric), Some(unit)) = (metric.filter(|_| !gain), row.unit_in(table)) else { continue };
                    let converts = comparable(metric.unit, unit);
                    assert!(
                        converts.is_some(),
                        "{name}/{}: {} is in {}, published {unit}",
                        table.name,
                        metric.key,
                        metric.unit
                    );
                    compared += 1;
                }
            }
        }
        assert!(compared > 10, "{compared} rows");
    }

    #[test]
    fn no_parameter_of_a_workload_means_something_else_in_every_study() {
        let descriptors = RUNNERS.descriptors();
        assert!(descriptors.len() > 10, "{} workloads", descriptors.len());
        for descriptor in descriptors {
            assert_eq!(descriptor.reserved_parameter(), None, "{}", descriptor.kind);
            assert!(descriptor.parameters.iter().all(|knob| !knob.help.is_empty()), "{}", descriptor.kind);
        }
    }
}
