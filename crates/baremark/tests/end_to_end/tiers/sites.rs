//! Users from several sites: one load, merged, with what each site contributed; a site that dies is named.

use super::{SMALL, all_gone, connections, document, have, offspring, ran, sound, told};
use crate::bench::{Bench, text};
use std::time::{Duration, Instant};

const FEW: [&str; 4] = ["load.users=10", "load.warm=1 s", "load.duration=2 s", "limits.mix=900 %"];
/// Two balancers, among which users are spread, with TLS.
const BALANCED: [&str; 3] = ["topology.tls=true", "balancer.service=haproxy", "balancer.count=2"];
const TWO: &str = "load.on=['native', 'native']";

#[test]
fn users_of_two_sites_are_one_load_and_are_spread_over_two_balancers() {
    let bench = Bench::new();
    let balanced = have(&["haproxy"]);
    let balancers = if balanced { &BALANCED[..] } else { &[] };
    let result = document(&ran(&bench, &[&[TWO][..], &FEW, balancers].concat(), &[]));
    let row = sound(&result);
    let load = &row["load"];
    let sites = load["sites"].as_array().unwrap();
    let names: Vec<&str> = sites.iter().map(|site| site["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["1 (native)", "2 (native)"]);
    let succeeded = |row: &serde_json::Value| row["succeeded"].as_u64().unwrap();
    let by_site: Vec<u64> = sites.iter().map(succeeded).collect();
    assert!(by_site.iter().all(|count| *count > 0), "both have users: {by_site:?}");
    // Every operation of the whole is one of a site.
    let whole: u64 = load["operations"].as_array().unwrap().iter().map(succeeded).sum();
    assert_eq!(by_site.iter().sum::<u64>(), whole);
    assert!(sites.iter().all(|site| site["generator"]["send_lag"]["p50_ns"].is_u64()), "{sites:?}");
    assert_eq!(load["users"], 10.0);
    // Pressure by tier, where control groups of version 2 can be made.
    if crate::bench::root() && std::path::Path::new("/sys/fs/cgroup/unified/io.pressure").exists() {
        for key in ["app.cpu_stall", "app.memory_stall", "app.io_stall"] {
            let share = load["waits"][key].as_f64().unwrap_or(-1.0);
            assert!((0.0..=1.0).contains(&share), "{key}: {}", load["waits"]);
        }
    }
    let shown = text(&bench.run(&["report", "--details"]).stdout);
    assert!(shown.contains("Users from 2 sites: 1 (native) "), "{shown}");
    if balanced {
        let sessions = |name: &str| told(row, name)["statistics"]["front.FRONTEND.stot"].as_f64().unwrap_or(0.0);
        let (one, other) = (sessions("balancer-1"), sessions("balancer-2"));
        assert!(one >= 5.0 && other >= 5.0, "five users each: {one} and {other}");
        assert!(load["failures"].as_object().is_some_and(serde_json::Map::is_empty), "{}", load["failures"]);
        assert!(shown.contains("2 haproxy balancer on native") && shown.contains("(sum of 2)"), "{shown}");
    }
}

#[test]
fn a_site_of_users_that_dies_is_named() {
    let bench = Bench::new();
    let set = [&[TWO, "load.users=10", "load.duration=300 s", "load.warm=1 s"], SMALL].concat();
    let mut command = bench.command(&["auction", "run", "--json"]);
    command.args(set.iter().flat_map(|text| ["--set", text]));
    let said = std::fs::File::create(bench.path("said")).unwrap();
    let mut run = command.stdout(std::process::Stdio::null()).stderr(said).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(180);
    // The agents below the agent of the run have the users' connections.
    let is_agent = |pid: &u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).nth(1) == Some(b"agent") && connections(*pid) > 4
    };
    let (dying, all) = loop {
        let all = offspring(run.id());
        let with_users: Vec<u32> = all.iter().copied().filter(is_agent).collect();
        if let [_, second] = with_users[..] {
            break (second, all);
        }
        let said = || std::fs::read_to_string(bench.path("said")).unwrap();
        assert!(run.try_wait().unwrap().is_none() && Instant::now() < deadline, "no users came: {}", said());
        std::thread::sleep(Duration::from_millis(50));
    };
    crate::bench::signal(dying, libc::SIGKILL);
    let status = run.wait().unwrap();
    let said = std::fs::read_to_string(bench.path("said")).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("load: site ") && said.contains(" (native): the agent is lost"), "{said}");
    all_gone(&all);
}
