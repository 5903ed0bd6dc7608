//! Protection by checkpoints: how many pages an epoch has, how long a link and an epoch hold up answers, and predicted run times.

use crate::common::bench::{Bench, kvm};
use crate::common::protection::{
    BAREMARK, assert_copied, estimate, protected, protected_to_none, study_of_loads, tracks,
};
use std::process::Command;

#[test]
fn an_epoch_has_the_pages_that_are_written_in_a_pass() {
    if !tracks() {
        return;
    }
    let (_, report) = protected(50_000, &[], &[BAREMARK, "protect", "--write", "1000", "--passes", "8000"]);
    assert_copied(&report, 3);
    let later = (report.pages - report.first_pages) / (report.epochs - 1);
    assert!((900..1016).contains(&later), "{later} pages: {report:?}");
    let held = report.held_pages / report.epochs;
    assert!((report.first_pages - 50..report.first_pages + 100).contains(&held), "{held} pages held: {report:?}");
}

#[test]
fn an_epoch_in_the_microvm_has_the_pages_that_are_written_in_a_pass() {
    if !kvm() || !tracks() {
        return;
    }
    let writer = [BAREMARK, "guest", "--", BAREMARK, "protect", "--write", "1000", "--passes", "4000"];
    let (_, report) = protected(50_000, &[], &writer);
    assert_copied(&report, 3);
    let later = (report.pages - report.first_pages) / (report.epochs - 1);
    assert!((900..1500).contains(&later), "{later} pages: {report:?}");
}

#[test]
fn processes_that_wait_are_in_every_checkpoint() {
    if !tracks() {
        return;
    }
    let growing = ["--write", "2", "--passes", "6000", "--new", "--waiting", "3", "--workers", "2"];
    let (_, report) = protected(20_000, &[], &[&[BAREMARK, "protect"], &growing[..]].concat());
    assert_copied(&report, 3);
    // Not in those before they began and after they ended.
    assert!((2 * report.epochs..=4 * report.epochs).contains(&report.process_checkpoints), "{report:?}");
}

#[test]
fn a_slow_link_makes_epochs_longer_than_a_fast_one() {
    if !tracks() {
        return;
    }
    let writer = [BAREMARK, "protect", "--write", "500", "--passes", "12000"];
    let period = |further: &[&str]| protected(5_000, further, &writer).1.period_ns().unwrap();
    let (fast, slow) = (period(&[]), period(&["--link-mbit", "100"]));
    assert!(slow > fast, "{fast} {slow}");
}

#[test]
fn a_load_writes_its_pages_in_each_epoch_and_a_round_trip_takes_one() {
    if !tracks() {
        return;
    }
    let bench = Bench::new();
    bench.write("loads.toml", study_of_loads(r#""memory", "ping-pong""#, 3, 1));
    let document = bench.json(&["--json", "--quiet", "run", "loads.toml"]);
    let of = |metric: &str, load: &str| estimate(&document, metric, &[("load", load), ("protect", "20 ms")]);
    // 2,048 pages of 4 KiB and few others.
    let pages = of("pages_per_epoch", "memory");
    assert!((1000.0..4000.0).contains(&pages), "{pages}: {document:#}");
    // What is asked when an epoch's output was released is answered when the next epoch's is.
    let held = of("round_trip_p50_us", "ping-pong");
    assert!(held >= 15_000.0, "{held} us: {document:#}");
}

#[test]
#[ignore = "minutes, and wants a quiet machine: `make soak`"]
fn soak_predicted_run_times_of_loads_are_those_that_are_measured() {
    const LOADS: [&str; 2] = ["memory", "compile"];
    const BLOCKS: u64 = 6;
    const MOST: f64 = 0.2;
    let bench = Bench::new();
    if !tracks() {
        return;
    }
    let compiles = ["make", "cc"]
        .iter()
        .all(|program| Command::new(program).arg("--version").output().is_ok_and(|of| of.status.success()));
    if !compiles {
        eprintln!("skipped: no make or no cc; the load memory alone is judged");
    }
    let loads = if compiles { &LOADS[..] } else { &LOADS[..1] };
    let listed = loads.iter().map(|load| format!("{load:?}")).collect::<Vec<_>>().join(", ");
    bench.write("loads.toml", study_of_loads(&listed, 10, BLOCKS));
    let document = bench.json(&["--json", "--quiet", "run", "loads.toml"]);
    let mut wrong = Vec::new();
    for &load in loads {
        let measured = protected_to_none(&document, "run_s", &[("load", load)]);
        let predicted = estimate(&document, "predicted_ratio", &[("load", load), ("protect", "20 ms")]);
        let line = format!("{load}: measured {measured:.3}, predicted {predicted:.3} in {BLOCKS} blocks");
        println!("{line}");
        if (predicted / measured - 1.0).abs() > MOST {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "more than {MOST} apart: {}", wrong.join("; "));
}
