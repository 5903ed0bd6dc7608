//! What an added round trip costs a program of MPI.

use crate::bench::Bench;
use crate::round_trips::{estimate, ran};

/// LAMMPS on two nodes: as many steps as over shared memory, each of them longer by the round trips that it waits for.
#[test]
fn a_step_of_an_mpi_program_is_longer_by_its_round_trips_and_the_slope_says_how_many() {
    let bench = Bench::new();
    let Some(result) = ran(&bench) else { return };
    let step = |command: &str| estimate(&result, "step_us", command).unwrap_or_else(|| panic!("{result:#}"));
    assert!(step("1000 us") > step("0 us") + 500.0, "every step waits for the other node: {result:#}");
    let slope = &result["slopes"][0];
    assert!(slope["slope"].as_f64().is_some_and(|slope| slope > 0.5 && slope < 50.0), "{slope}");
}
