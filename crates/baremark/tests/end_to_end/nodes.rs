//! Programs over several network namespaces: they reach each other, as far apart as requested, and nothing of them is left.

use crate::bench::{Bench, lives, root, text};
use crate::consolidation::{command, doctor, recorded, records, there};
use crate::tiers::{all_gone, have, offspring};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The round trip that `nodes` reports, in microseconds.
pub fn round_trip(said: &str) -> f64 {
    let rest = said.split("round trip between nodes: ").nth(1).unwrap_or_else(|| panic!("{said}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_program_starts_others_on_nodes_and_the_added_round_trip_is_measured() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    let nodes = |more: &[&str]| command(&bench, &[&["nodes"], more].concat()).output().unwrap();
    let script = "{launch} {host2} ip -o -4 addr show eth0 && echo {hosts} {subnet}; exit 7";
    let output = nodes(&["--count", "3", "--", "sh", "-c", script]);
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    let hosts: Vec<&str> = out.lines().last().unwrap().split(' ').next().unwrap().split(',').collect();
    assert_eq!(hosts.len(), 3, "{out}{said}");
    assert!(out.lines().next().unwrap().contains(&format!("{}/24", hosts[1])), "the command ran on it: {out}{said}");
    assert_eq!(output.status.code(), Some(7), "as the program ended: {said}");
    let near = round_trip(&said);
    let far = text(&nodes(&["--round-trip", "5ms", "--", "true"]).stderr);
    assert!(round_trip(&far) >= 4500.0 && near < round_trip(&far), "{near} us: {far}");
    assert!(far.contains("0 lost"), "{far}");
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "everything is undone");
    let uneven = nodes(&["--round-trip", "1ms", "--jitter", "600us", "--", "true"]);
    let said = text(&uneven.stderr);
    assert!(said.contains("--jitter 600 us is more than half of --round-trip 1 ms; write at most 500 us"), "{said}");
    assert_eq!(uneven.status.code(), Some(2), "{said}");
    // Where the kernel lacks netem, that is refused, and nothing is left of what was made before.
    let netem = nodes(&["--round-trip", "5ms", "--delay-by", "netem", "--", "true"]);
    let said = text(&netem.stderr);
    if netem.status.success() {
        assert!(round_trip(&said) >= 4500.0 && said.contains("delayed by netem"), "{said}");
    } else {
        assert_eq!(netem.status.code(), Some(3), "{said}");
        assert!(said.contains("this kernel has no netem; load the module sch_netem"), "{said}");
    }
    let refused = nodes(&["--", "/no/such/program"]);
    assert!(text(&refused.stderr).contains("starting /no/such/program"), "{}", text(&refused.stderr));
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "everything is undone");
}

/// Ten moments, drawn by the clock: links, the bridge, namespaces and the program are gone after the next start.
#[test]
fn nothing_is_left_of_nodes_that_are_killed_at_ten_random_moments() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    let before = settings();
    for moment in 0..10 {
        let mut run = command(&bench, &["nodes", "--count", "4", "--", "sleep", "1000"]);
        let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        // From none of its links to all five, and the program.
        while recorded(&bench).len() < moment.min(5) {
            assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "{:?}", recorded(&bench));
            std::thread::yield_now();
        }
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
        let drawn = Instant::now() + Duration::from_micros(u64::from(nanos) / 1000 % 20_000);
        while Instant::now() < drawn {
            std::thread::yield_now();
        }
        let below = offspring(child.id());
        let names = recorded(&bench);
        child.kill().unwrap();
        if moment % 2 == 1 {
            // Nobody is left who could tidy up.
            below.iter().for_each(|pid| drop(baremark_sys::confine::send(i32::try_from(*pid).unwrap(), 9)));
        }
        child.wait().unwrap();
        all_gone(&below);
        let said = doctor(&bench);
        assert_eq!(there(&names), [""; 0], "kill {moment}: {}", text(&said.stderr));
        assert_eq!(records(&bench), Vec::<PathBuf>::new(), "kill {moment}: {}", text(&said.stderr));
        assert!(below.iter().all(|pid| !lives(*pid)), "kill {moment}");
    }
    assert_eq!(settings(), before, "settings and rules of the host's network");
}

/// The host's settings of networks, and its rules and routes but for those of single links.
fn settings() -> Vec<(PathBuf, String)> {
    let mut folders = vec![PathBuf::from("/proc/sys/net/core"), PathBuf::from("/proc/sys/net/ipv4")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()) {
            match path.is_dir() {
                true if path.ends_with("conf") || path.ends_with("neigh") => {}
                true => folders.push(path),
                false => found.extend(fs::read_to_string(&path).ok().map(|text| (path, text))),
            }
        }
    }
    let rules = Command::new("ip").args(["rule", "show"]).output().unwrap();
    found.push((PathBuf::from("ip rule"), text(&rules.stdout)));
    found.sort();
    found
}

/// LAMMPS on two nodes: as many steps as over shared memory, each of them longer by the round trips that it waits for.
#[test]
fn a_step_of_an_mpi_program_is_longer_by_its_round_trips_and_the_slope_says_how_many() {
    if !root() || !have(&["lmp", "mpirun"]) {
        return;
    }
    // It judges what it measures.
    let bench = Bench::busy();
    let shipped = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/mpi-latency.toml")).unwrap();
    let shorter = [
        (
            "\"shared memory\", \"0 us\", \"50 us\", \"100 us\", \"500 us\", \"1000 us\"]",
            "\"shared memory\", \"0 us\", \"1000 us\"]",
        ),
        ("cells = [8, 16]", "cells = 6"),
        ("steps = 400", "steps = 200"),
        ("least_blocks = 4", "least_blocks = 1\nmost_blocks = 1"),
    ];
    let study = shorter.iter().fold(shipped, |study, (long, short)| {
        assert!(study.contains(long), "{long}");
        study.replace(long, short)
    });
    // A program that no level names is a mistake in a study.
    let study = ["50 us", "100 us", "500 us"].iter().fold(study, |study, name| {
        let (before, rest) = study.split_once(&format!("[commands.\"{name}\"]")).unwrap();
        let after = rest.find("\n[").unwrap();
        format!("{before}{}", &rest[after + 1..])
    });
    bench.write("mpi.toml", study);
    let output = command(&bench, &["run", "mpi.toml", "--json"]).output().unwrap();
    let said = text(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    let estimate = |metric: &str, command: &str| {
        let rows = result["estimates"].as_array().unwrap().iter();
        let mut own = rows.filter(|row| row["metric"] == metric && row["treatment"]["command"] == command);
        own.next().and_then(|row| row["estimate"].as_f64())
    };
    let step = |command: &str| estimate("step_us", command).unwrap_or_else(|| panic!("{result:#}\n{said}"));
    assert!(step("1000 us") > step("0 us") + 500.0, "every step waits for the other node: {result:#}");
    assert!(estimate("round_trip_us", "1000 us").unwrap() >= 900.0, "{result:#}");
    assert_eq!(estimate("round_trip_us", "shared memory"), None, "no node, no round trip");
    assert!(estimate("frames_per_step", "0 us").unwrap() > 2.0, "{result:#}");
    let slope = &result["slopes"][0];
    assert_eq!((slope["points"].as_u64(), slope["blocks"].as_u64()), (Some(2), Some(1)), "{slope}");
    assert!(slope["slope"].as_f64().is_some_and(|slope| slope > 0.5 && slope < 50.0), "{slope}");
    let report = text(&bench.run(&["report", "--details"]).stdout);
    assert!(report.contains("Slope ") && report.contains("step_us against round_trip_us"), "{report}");
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "everything is undone");
}
