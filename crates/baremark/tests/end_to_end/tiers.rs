//! The auction application with its tiers: from a topology to users, faults, and nothing left behind.

#[path = "tiers/faults.rs"]
mod faults;
#[path = "tiers/full.rs"]
mod full;

use crate::bench::{Bench, children, lives, signal};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Output};
use std::time::{Duration, Instant};

/// Little data, few users, short windows; what a test needs differently comes after.
pub const SMALL: &[&str] = &[
    "topology.max_users=300",
    "topology.history=1 %",
    "topology.argon2=64,1",
    "load.users=40",
    "load.cycle=400 ms",
    "load.warm=4 s",
    "load.duration=6 s",
    "limits.per_operation=false",
    "limits.failures=99 %",
    "services.postgres.buffers=32 MiB",
    "services.postgres.connections=60",
    "services.mariadb.buffers=32 MiB",
    "services.mariadb.log_size=16 MiB",
    "app.settings.pool=8",
    "app.settings.lease=2 s",
];

fn arguments<'a>(set: &[&'a str]) -> Vec<&'a str> {
    // Of two values for a key the first counts: those of the test before the common ones.
    let mut arguments = vec!["auction", "run", "--json"];
    arguments.extend(set.iter().chain(SMALL).flat_map(|text| ["--set", text]));
    arguments
}

pub fn ran(bench: &Bench, set: &[&str], more: &[&str]) -> Output {
    bench.command(&[&arguments(set), more].concat()).output().unwrap()
}

pub fn document(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}\n{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether these programs are here; says so when one is not.
pub fn have(programs: &[&str]) -> bool {
    let missing = |name: &&&str| {
        let places = ["/usr/sbin", "/usr/bin"];
        let found = places.iter().any(|place| Path::new(place).join(name).exists());
        let postgres = || std::fs::read_dir("/usr/lib/postgresql").is_ok_and(|mut versions| versions.next().is_some());
        !(found || **name == "postgres" && postgres())
    };
    match programs.iter().find(missing) {
        Some(name) => {
            eprintln!("skipped: {name} is not installed");
            false
        }
        None => true,
    }
}

/// Every tier, and users who come by TLS.
const FULL: &[&str] = &[
    "topology.tls=true",
    "balancer.service=haproxy",
    "web.service=nginx",
    "app.count=2",
    "database.service=postgres",
    "bus.service=redis",
];
const FULL_NEEDS: &[&str] = &["haproxy", "nginx", "postgres", "redis-server"];
/// The same with the other services; the bus is what these need.
const OTHER: &[&str] = &["balancer.service=haproxy", "web.service=apache", "app.count=2", "database.service=mariadb"];
const OTHER_NEEDS: &[&str] = &["haproxy", "apache2", "mariadbd", "mariadb-install-db", "redis-server"];

#[test]
fn the_embedded_default_finds_how_many_users_it_carries() {
    let bench = Bench::new();
    let set = [
        "load.users=0",
        "load.cycle=100 ms",
        "load.lowest=20",
        "load.highest=80",
        "load.finest=20 %",
        "load.visits=6",
        "load.window=1500 ms",
        "load.settle=500 ms",
        "load.trials=1",
    ];
    let page = bench.path("report.html");
    let result = document(&ran(&bench, &set, &["--html", page.to_str().unwrap()]));
    assert_eq!(result["format"], "baremark-auction/1");
    assert_eq!(result["valid"], true, "{}", result["void"]);
    let row = &result["applications"][0];
    assert_eq!(row["invariants"]["held"], true);
    assert!(row["search"]["knee"].as_array().unwrap().len() > 1, "{}", row["search"]);
    let load = &row["load"];
    let operation = |name: &str| {
        let rows = load["operations"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).cloned().unwrap_or_default()
    };
    for name in ["home", "login", "active-auctions", "join", "place-bid", "next-bid", "logout"] {
        assert!(operation(name)["succeeded"].as_u64().unwrap_or(0) > 0, "{name}: {load}");
    }
    assert!(load["propagation"]["samples"].as_u64().unwrap_or(0) > 0, "pushed bids are seen: {load}");
    assert!(load["mix"]["shares"].as_array().is_some_and(|shares| shares.len() == 6));
    assert!(row["instances"][0]["statistics"].as_object().is_some_and(|all| !all.is_empty()));
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("operation by operation") && !html.contains("<script"));
}

#[test]
fn several_applications_carry_their_sum() {
    let bench = Bench::new();
    let set = [
        "instances.a.app.count=1",
        "instances.b.app.settings.threads=1",
        "load.users=0",
        "load.cycle=100 ms",
        "load.lowest=10",
        "load.highest=40",
        "load.finest=30 %",
        "load.visits=6",
        "load.window=1 s",
        "load.settle=300 ms",
        "load.trials=1",
    ];
    let result = document(&ran(&bench, &set, &[]));
    let rows = result["applications"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row["invariants"]["held"], true);
        assert!(row["search"]["ended"].is_string(), "{row}");
    }
    let said = result["remarks"].as_array().unwrap().iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    assert!(said.contains("in step"), "{said}");
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let bench = Bench::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("app.port={}", taken.local_addr().unwrap().port());
    for (set, phrases) in [
        (&["app.cuont=2"][..], &["has no 'cuont'", "did you mean 'count'?"][..]),
        (&["balancer.count=3", "balancer.service=haproxy"], &["3 instances of the tier balancer"]),
        (&["app.count=2"], &["2 app servers on one SQLite file", "postgres or mariadb"]),
        (&["app.count=0"], &["without app servers"]),
        (&["database.service=oracle"], &["no service of the tier database is 'oracle'"]),
        (&["services.postgres.fsnc=true"], &["has no 'fsnc'", "fsync"]),
        (&["services.nginx.workers=many"], &["services.nginx.workers", "workers"]),
        (&["app.on=moon"], &["no place is 'moon'"]),
        (&["topology.max_users=3"], &["impossible 'max_users'", "75"]),
        (&["elastic.policy=guess"], &["no policy is 'guess'"]),
        (&[port.as_str()], &["is taken", "choose another port"]),
    ] {
        let output = ran(&bench, set, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{set:?}: {said}");
        for phrase in phrases {
            assert!(said.contains(phrase), "{set:?}: {said}");
        }
    }
    let file = bench.write("wrong.toml", "[app]\ncount = 1\n\n[load]\nuser = 5\n");
    let output = bench.command(&["auction", "run", file.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("wrong.toml:5: [load] has no 'user'; did you mean 'users'?"), "{said}");
}

/// A run under way: its servers serve users.
#[expect(clippy::zombie_processes, reason = "whoever asked for it waits for it; a panic ends the test")]
fn under_way(bench: &Bench, set: &[&str]) -> (Child, Vec<u32>) {
    let set = [set, &["load.duration=300 s", "load.warm=1 s"]].concat();
    let log = std::fs::File::create(bench.path("said")).unwrap();
    let mut command = bench.command(&arguments(&set));
    let child = command.stdout(std::process::Stdio::piped()).stderr(log).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(180);
    loop {
        let said = std::fs::read_to_string(bench.path("said")).unwrap();
        // A second with users has passed.
        if said.contains(" answered") {
            let servers = offspring(child.id());
            assert!(servers.len() > set.len() - 2, "{servers:?}");
            return (child, servers);
        }
        assert!(Instant::now() < deadline, "no users came: {said}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The processes below `pid`, their children included.
pub fn offspring(pid: u32) -> Vec<u32> {
    let own = children(pid);
    let below = own.iter().flat_map(|child| offspring(*child)).collect::<Vec<_>>();
    [own, below].concat()
}

pub fn all_gone(servers: &[u32]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while servers.iter().any(|pid| lives(*pid)) {
        assert!(Instant::now() < deadline, "servers are left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_interrupt_ends_with_what_there_is_and_leaves_nothing() {
    let bench = Bench::new();
    let (child, servers) = under_way(&bench, &[]);
    signal(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["valid"], false);
    assert!(document["void"].to_string().contains("interrupted"), "{}", document["void"]);
    all_gone(&servers);
}

#[test]
fn a_killed_run_of_all_tiers_leaves_nothing_running() {
    let bench = Bench::new();
    let set = if have(FULL_NEEDS) { FULL } else { &[] };
    let (mut child, servers) = under_way(&bench, set);
    child.kill().unwrap();
    child.wait().unwrap();
    all_gone(&servers);
}

#[test]
fn an_app_server_runs_in_a_container() {
    if !have(&["podman"]) {
        return;
    }
    let bench = Bench::new();
    let output = ran(&bench, &["app.on=container"], &[]);
    if output.status.code() == Some(3) {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let result = document(&output);
    let row = &result["applications"][0];
    assert_eq!(row["tiers"]["app"]["on"], "container");
    assert_eq!(row["invariants"]["held"], true);
    assert!(row["instances"][0]["cpu_s"].as_f64().unwrap() > 0.0, "{row}");
}

#[test]
fn every_shipped_study_runs_shrunk() {
    if !have(&["haproxy", "nginx", "apache2", "postgres", "mariadbd"]) {
        return;
    }
    let bench = Bench::new();
    let set = [
        "study.blocks=1",
        "load.users=30",
        "load.profile=''",
        "load.duration=1500 ms",
        "load.warm=1 s",
        "services.mariadb.log_size=16 MiB",
        "services.mariadb.buffers=32 MiB",
    ];
    for (name, arms) in [
        ("auction-places", 3),
        ("auction-bursts", 4),
        ("auction-elastic", 2),
        ("auction-databases", 6),
        ("auction-tiers", 5),
    ] {
        let result = document(&ran(&bench, &set, &[name]));
        let rows = result["arms"].as_array().unwrap();
        assert_eq!(rows.len(), arms, "{name}");
        for row in rows {
            let ran = row["values"][0].as_f64().is_some_and(|value| value > 0.0);
            assert!(ran || row["absent"].is_string(), "{name}: {row}");
        }
        assert!(rows[0]["absent"].is_null(), "{name}: {}", rows[0]);
    }
}
