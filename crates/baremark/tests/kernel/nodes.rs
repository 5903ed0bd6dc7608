//! Programs over several network namespaces: they reach each other, as far apart as requested, and nothing of them is left.

use crate::bench::{Bench, lives, root, text};
use crate::consolidation::{command, doctor, recorded, records, there};
use crate::tiers::{all_gone, offspring};
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
