//! Programs of MPI over nodes of network namespaces.

use crate::bench::{Bench, text};
use crate::consolidation::records;
use crate::round_trips::{estimate, ran};
use std::path::PathBuf;

/// LAMMPS on two nodes: its packets are counted, and its round trip is the one that was added.
#[test]
fn a_program_of_mpi_over_two_nodes_has_its_round_trip_and_its_packets_counted() {
    let bench = Bench::new();
    let Some(result) = ran(&bench) else { return };
    assert!(estimate(&result, "step_us", "1000 us").is_some_and(|step| step > 0.0), "{result:#}");
    assert!(estimate(&result, "round_trip_us", "1000 us").unwrap() >= 900.0, "{result:#}");
    assert_eq!(estimate(&result, "round_trip_us", "shared memory"), None, "no node, no round trip");
    assert!(estimate(&result, "frames_per_step", "0 us").unwrap() > 2.0, "{result:#}");
    let slope = &result["slopes"][0];
    assert_eq!((slope["points"].as_u64(), slope["blocks"].as_u64()), (Some(2), Some(1)), "{slope}");
    let report = text(&bench.run(&["report", "--details"]).stdout);
    assert!(report.contains("Slope ") && report.contains("step_us against round_trip_us"), "{report}");
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "everything is undone");
}
