//! The auction application with its tiers: from a topology to users, faults, and nothing left behind.

#[path = "tiers/faults.rs"]
mod faults;
#[path = "tiers/full.rs"]
mod full;
#[path = "tiers/images.rs"]
mod images;

use crate::bench::{Bench, children, lives, signal};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Little data, few users, short windows; what a test needs differently comes after.
const SMALL: &[&str] = &[
    "topology.max_users=300",
    "topology.history=1 %",
    "topology.argon2=64,1",
    "load.users=40",
    "load.cycle=400 ms",
    "load.warm=4 s",
    "load.duration=6 s",
    "load.first=20",
    "load.verify=3 s",
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

/// A result that counts and whose invariants hold; the row of its first application.
pub fn sound(result: &Value) -> &Value {
    assert_eq!(result["valid"], true, "{}", result["void"]);
    let row = &result["applications"][0];
    assert_eq!(row["invariants"]["held"], true, "{}", row["invariants"]);
    row
}

/// What an instance has told.
pub fn told<'r>(row: &'r Value, name: &str) -> &'r Value {
    let rows = row["instances"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {rows:?}"))
}

/// Those of an application have worked, and told of themselves.
pub fn assert_at_work(row: &Value, names: &[&str]) {
    for name in names {
        let told = told(row, name);
        assert!(told["statistics"].as_object().is_some_and(|all| !all.is_empty()), "{name} tells nothing: {told}");
        assert!(told["cpu_s"].as_f64().unwrap() > 0.0, "{name} did nothing: {told}");
    }
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
pub const FULL: &[&str] = &[
    "topology.tls=true",
    "balancer.service=haproxy",
    "web.service=nginx",
    "app.count=2",
    "database.service=postgres",
    "bus.service=redis",
];
pub const FULL_NEEDS: &[&str] = &["haproxy", "nginx", "postgres", "redis-server"];
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
    let row = sound(&result);
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
        (&["topology.max_users=3"], &["impossible 'max_users'", "75"]),
        (&[port.as_str()], &["is taken", "choose another port"]),
        (&["app.image=--privileged", "app.on=container"], &["'--privileged' is not an image reference; write [HOST"]),
        (&["topology.argon2=4294967295,4294967295"], &["'4294967295,4294967295' is not a possible cost; write KiB of"]),
        (&["app.cpus=[99999]"], &["app.cpus: no CPU 99999 can be used here; choose from 0"]),
        (&["load.cpus=[99999]"], &["load.cpus: no CPU 99999 can be used here; choose from 0"]),
        (&["app.cpus=[99999]", "app.on=container"], &["app.cpus: no CPU 99999 can be used here; choose from 0"]),
    ] {
        let output = ran(&bench, set, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{set:?}: {said}");
        let taken = set.contains(&port.as_str());
        assert!(taken || !said.contains("loading the data"), "it is told at once: {said}");
        for phrase in phrases {
            assert!(said.contains(phrase), "{set:?}: {said}");
        }
    }
    let file = bench.write("wrong.toml", "[app]\ncount = 1\n\n[load]\nuser = 5\n");
    let output = bench.command(&["auction", "run", file.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("wrong.toml:5: [load] has no 'user'; did you mean 'users'?"), "{said}");
}

/// A run under way, and the processes below it: its servers serve users.
pub fn under_way(bench: &Bench, set: &[&str]) -> (Child, Vec<u32>) {
    let set = [set, &["load.duration=300 s", "load.warm=1 s"]].concat();
    // In words, since a program that asks for JSON is not told of every second.
    let words: Vec<&str> = arguments(&set).into_iter().filter(|word| *word != "--json").collect();
    let runs = bench.path("runs");
    // Databases run as somebody else, who must get there.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(bench.folder.path(), open).unwrap();
    std::fs::create_dir_all(&runs).unwrap();
    let mut command = bench.command(&words);
    command.arg("--folder").arg(runs);
    served(bench, command)
}

/// The same with a command of the test's own; what it says is in the bench's file `said`.
pub fn served(bench: &Bench, mut command: Command) -> (Child, Vec<u32>) {
    let log = std::fs::File::create(bench.path("said")).unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(180);
    loop {
        let said = std::fs::read_to_string(bench.path("said")).unwrap();
        // A second with users has passed.
        if said.contains(" answered") {
            let servers = offspring(child.id());
            return (child, servers);
        }
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "no users came: {said}");
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

/// All tiers with state and TLS where they are installed, else the embedded default.
fn widest() -> (Vec<String>, usize) {
    let front = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    if !have(&["haproxy", "nginx", "postgres"]) {
        return (Vec::new(), 1);
    }
    let own = ["topology.tls=true", "balancer.service=haproxy", "web.service=nginx", "database.service=postgres"];
    let own = own.iter().map(|text| (*text).to_owned()).chain([format!("balancer.port={front}")]);
    (own.collect(), 4)
}

/// The folders of runs.
fn runs(bench: &Bench) -> Vec<String> {
    let listed = std::fs::read_dir(bench.path("runs")).unwrap().flatten();
    listed.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// Nobody else gets at what a run keeps, its password above all; its databases run as somebody else all the same.
fn assert_private(bench: &Bench) {
    let mode = |path: &Path| std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    let run = bench.path("runs").join(&runs(bench)[0]);
    for path in [run.clone(), run.join("main"), run.join("main/password")] {
        let mode = mode(&path) & 0o777;
        assert_eq!(mode & 0o066, 0, "{}: {mode:o}", path.display());
        assert_eq!(mode & 0o007, 0, "others pass through {}: {mode:o}", path.display());
    }
}

/// At any moment before that: while data is loaded, while servers start, while users come.
#[test]
fn an_interrupt_before_the_first_window_is_no_failure() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("runs")).unwrap();
    for (step, later) in [("loading the data", 0), ("starting app-1", 0), ("starting app-1", 1500)] {
        let set = ["load.users=0", "load.settle=20 s", "load.budget=900 s"];
        let words: Vec<&str> = arguments(&set).into_iter().filter(|word| *word != "--json").collect();
        let mut command = bench.command(&words);
        let mut child = command.arg("--folder").arg(bench.path("runs")).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(said.any(|line| line.starts_with(step)), "no {step}");
        std::thread::sleep(Duration::from_millis(later));
        signal(child.id(), libc::SIGINT);
        let rest: Vec<String> = said.collect();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{step}: {rest:?}");
        let told = "error: interrupted before the first window: nothing was measured";
        assert_eq!(rest.last().map(String::as_str), Some(told), "{step}");
        assert_eq!(runs(&bench), [""; 0], "its folder is gone");
    }
}

#[test]
fn an_interrupt_ends_with_what_there_is_and_leaves_nothing() {
    let bench = Bench::new();
    let (set, tiers) = widest();
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let (child, servers) = under_way(&bench, &set);
    assert!(servers.len() >= tiers, "{servers:?}");
    assert_private(&bench);
    if let Some(port) = set.iter().find_map(|text| text.strip_prefix("balancer.port=")) {
        an_untrusting_client_is_refused(&bench, port);
    }
    signal(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("VOID: it was interrupted: what is here is partial"), "{said}");
    all_gone(&servers);
    assert_eq!(runs(&bench), [""; 0], "its folder is gone");
}

/// Whoever knows nothing of the run's own authority does not talk to its servers.
fn an_untrusting_client_is_refused(bench: &Bench, port: &str) {
    let url = format!("https://127.0.0.1:{port}/");
    let ask = |trust: &[&str]| {
        let words = [&["load", &url, "--count", "3", "--json"], trust].concat();
        let output = bench.run(&words);
        serde_json::from_slice::<Value>(&output.stdout)
            .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&output.stderr)))
    };
    let stranger = ask(&[]);
    assert_eq!(stranger["failures"]["tls"], 3, "{stranger}");
    let careless = ask(&["--insecure"]);
    assert_eq!(careless["failures"], serde_json::json!({}), "it is the certificate alone: {careless}");
}

#[test]
fn a_killed_run_of_all_tiers_leaves_nothing_running_and_the_next_removes_its_folder() {
    let bench = Bench::new();
    let (set, tiers) = widest();
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let (mut child, servers) = under_way(&bench, &set);
    assert!(servers.len() >= tiers, "{servers:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    all_gone(&servers);
    assert_eq!(runs(&bench).len(), 1, "nobody was there to remove it");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("app.port={}", taken.local_addr().unwrap().port());
    let next = ran(&bench, &[&port], &["--folder", bench.path("runs").to_str().unwrap()]);
    assert_eq!(next.status.code(), Some(2), "{}", String::from_utf8_lossy(&next.stderr));
    assert_eq!(runs(&bench), [""; 0]);
}

/// Runs shipped studies with few users for a moment: name, arms. A place or service that is not here is told in its row.
fn run_shrunk(studies: &[(&str, usize)]) {
    let bench = Bench::new();
    let set = [
        "study.blocks=1",
        "topology.images=memory",
        "load.users=30",
        "load.profile=''",
        "load.duration=1500 ms",
        "load.warm=1 s",
    ];
    for (name, arms) in studies {
        let result = document(&ran(&bench, &set, &[name]));
        let rows = result["arms"].as_array().unwrap();
        assert_eq!(rows.len(), *arms, "{name}");
        for row in rows {
            let ran = row["values"][0].as_f64().is_some_and(|value| value > 0.0);
            assert!(ran || row["absent"].is_string(), "{name}: {row}");
        }
        assert!(rows[0]["absent"].is_null(), "{name}: {}", rows[0]);
    }
}

/// That of places is run with its guests, see `elsewhere`.
#[test]
fn shipped_studies_run_shrunk() {
    if have(&["haproxy", "nginx", "postgres", "mariadbd"]) {
        run_shrunk(&[("auction-elastic", 2), ("auction-databases", 6)]);
    }
}

#[test]
#[ignore = "nine more starts of what the other tests start: part of `make soak`"]
fn the_other_shipped_studies_run_shrunk() {
    if have(&["haproxy", "nginx", "apache2", "postgres"]) {
        run_shrunk(&[("auction-bursts", 4), ("auction-tiers", 5)]);
    }
}
