//! The auction application with its tiers: from a topology to users, faults, and nothing left behind.

#[path = "tiers/external.rs"]
mod external;
#[path = "tiers/faults.rs"]
mod faults;
#[path = "tiers/full.rs"]
mod full;
#[path = "tiers/images.rs"]
mod images;
#[path = "tiers/kept_data.rs"]
mod kept_data;
#[path = "tiers/sites.rs"]
mod sites;

use crate::bench::{Bench, children, lives, signal, text};
use baremark_sys::network::HeldPort;
use serde_json::Value;
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

/// The command line of a small run with these settings.
pub fn arguments<'a>(set: &[&'a str]) -> Vec<&'a str> {
    // Of two values for a key the first counts: those of the test before the common ones.
    let mut arguments = vec!["auction", "run", "--json"];
    arguments.extend(set.iter().chain(SMALL).flat_map(|text| ["--set", text]));
    arguments
}

pub fn ran(bench: &Bench, set: &[&str], more: &[&str]) -> Output {
    bench.command(&[&arguments(set), more].concat()).output().unwrap()
}

/// The result document of a run whose every trial counts.
pub fn result(output: &Output) -> Value {
    let said = text(&output.stderr);
    // Limits may be exceeded on a busy machine.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{:?}: {said}\n{}", output.status, text(&output.stdout));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    for trial in result["trials"].as_array().unwrap() {
        assert_eq!(trial["status"], "ok", "{trial:#}\n{said}");
    }
    result
}

/// What the application itself reports of a run with a fixed load.
pub fn document(output: &Output) -> Value {
    let result = result(output);
    let exceeded = metric(&result, "limits_exceeded").unwrap();
    assert_eq!(output.status.code(), Some(if exceeded > 0.0 { 4 } else { 0 }), "{result:#}");
    result["details"][0]["document"].clone()
}

/// The estimate of a metric.
pub fn metric(result: &Value, metric: &str) -> Option<f64> {
    let estimates = result["estimates"].as_array().unwrap();
    estimates.iter().find(|row| row["metric"] == metric).and_then(|row| row["estimate"].as_f64())
}

/// What a search reports. On a busy machine it may verify no level: then it has no number of users, and says so by its exit code.
pub fn searched(output: &Output) -> Value {
    let said = text(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    let document = result["details"][0]["document"].clone();
    let rows = document["applications"].as_array().unwrap_or_else(|| panic!("{result:#}\n{said}"));
    let attempts = |row: &Value| row["attempts"].as_array().unwrap().clone();
    let kept = |row: &Value| attempts(row).iter().any(|attempt| attempt["kept"] == true);
    let refuted = |row: &Value| row["search"]["ended"] == "fails-all" || (!attempts(row).is_empty() && !kept(row));
    let users = metric(&result, "maximum_users");
    match output.status.code() {
        Some(0) => assert!(users.is_some_and(|users| users > 0.0) && rows.iter().all(kept), "{result:#}"),
        Some(4) => assert!(users.is_none() && rows.iter().any(refuted), "{result:#}"),
        Some(5) => assert!(users.is_none(), "{result:#}"),
        other => panic!("{other:?}: {said}\n{result:#}"),
    }
    if output.status.code() != Some(0) {
        let reason = result["trials"][0]["reasons"].to_string();
        assert!(reason.contains("no level verified") || reason.contains("undecided"), "{result:#}");
        assert!(document["users"].is_null() || document["users"]["verified"] == false, "{document:#}");
    }
    document
}

/// The row of a result's first application, whose invariants hold.
pub fn sound(document: &Value) -> &Value {
    let row = &document["applications"][0];
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
    let bench = Bench::busy();
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
        // Long enough for the rarest operation on a busy machine.
        "load.verify=8 s",
    ];
    let page = bench.path("report.html");
    let output = ran(&bench, &set, &["--html", page.to_str().unwrap()]);
    let result = searched(&output);
    let row = sound(&result);
    assert_merged_by_one_rule(&row["search"]);
    assert_stored(&bench, &output);
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
    assert!(html.contains("Operations: latency from the intended start") && !html.contains("<script"));
}

/// Each level's row is of all its windows together: "p50 3.16 s p99 479.20 ms" was a median next to a mean.
fn assert_merged_by_one_rule(search: &Value) {
    let knee = search["knee"].as_array().unwrap();
    assert!(knee.len() > 1, "{search}");
    for row in knee {
        let at = |key: &str| row[key].as_u64().unwrap_or(u64::MAX);
        assert!(at("p50_ns") <= at("p95_ns") && at("p95_ns") <= at("p99_ns"), "{row}");
    }
    // As many windows as there were, each in one row.
    let windows: u64 = knee.iter().map(|row| row["windows"].as_u64().unwrap()).sum();
    let measured: usize =
        search["trials"].as_array().unwrap().iter().map(|one| one["windows"].as_array().unwrap().len()).sum();
    assert_eq!(windows, measured as u64, "{search}");
}

/// The run is in the history, is reported again, compared, and has each probe of its search.
fn assert_stored(bench: &Bench, output: &Output) {
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let again = bench.json(&["report", "--json"]);
    assert_eq!(printed["estimates"], again["estimates"]);
    let history = bench.json(&["history", "--json"]);
    let runs = history["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]["id"]), (1, &printed["run"]["id"]), "{history:#}");
    let csv = text(&bench.run(&["report", "--csv=trials"]).stdout);
    let probes = csv.lines().filter(|line| line.contains(",probe,") && line.contains(",users,")).count();
    let windows = printed["details"][0]["document"]["applications"][0]["search"]["trials"][0]["windows"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(probes, windows, "{csv}");
    let shown = text(&bench.run(&["report", "--details"]).stdout);
    assert!(shown.contains("Levels that the search measured") && shown.contains("Instances"), "{shown}");
}

#[test]
fn several_applications_carry_their_sum() {
    let bench = Bench::busy();
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
    let result = searched(&ran(&bench, &set, &[]));
    let rows = result["applications"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row["invariants"]["held"], true);
        assert!(row["search"]["ended"].is_string(), "{row}");
    }
    assert!(result["remarks"].to_string().contains("in step"), "{}", result["remarks"]);
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let bench = Bench::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("app.port={}", taken.local_addr().unwrap().port());
    for (set, phrases) in [
        (&["app.cuont=2"][..], &["has no 'cuont'", "did you mean 'count'?"][..]),
        (&["topology.max_users=3"], &["invalid 'max_users'", "75"]),
        (&[port.as_str()], &["is taken", "choose another port"]),
        (&["app.image=--privileged", "app.on=container"], &["'--privileged' is not an image reference; write [HOST"]),
        (&["topology.argon2=4294967295,4294967295"], &["'4294967295,4294967295' is not a possible cost; write KiB of"]),
        (&["app.cpus=[99999]"], &["app.cpus: no CPU 99999 can be used here; choose from 0"]),
        (&["load.cpus=[99999]"], &["load.cpus: no CPU 99999 can be used here; choose from 0"]),
        (&["app.cpus=[99999]", "app.on=container"], &["app.cpus: no CPU 99999 can be used here; choose from 0"]),
    ] {
        let output = ran(&bench, set, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let taken = set.contains(&port.as_str());
        assert_eq!(output.status.code(), Some(if taken { 1 } else { 2 }), "{set:?}: {said}");
        for phrase in phrases {
            assert!(said.contains(phrase), "{set:?}: {said}");
        }
    }
    let runs = bench.json(&["history", "--json"])["runs"].as_array().unwrap().len();
    assert_eq!(runs, 1, "only what was started is stored");
    let output = bench.run(&["auction", "run", "auction-tiers"]);
    let said = text(&output.stderr);
    assert!(said.contains("auction-tiers is a study; run it with `baremark run auction-tiers`"), "{said}");
    let file = bench.write("wrong.toml", "[app]\ncount = 1\n\n[load]\nuser = 5\n");
    let output = bench.command(&["auction", "run", file.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("wrong.toml:5: [load] has no 'user'; did you mean 'users'?"), "{said}");
}

/// A run under way, and the processes below it: its servers serve users.
pub fn under_way(bench: &Bench, set: &[&str]) -> (Child, Vec<u32>) {
    let set = [set, &["load.duration=300 s", "load.warm=1 s"]].concat();
    let runs = bench.path("runs");
    // Databases run as somebody else, who must get there.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(bench.folder.path(), open).unwrap();
    std::fs::create_dir_all(&runs).unwrap();
    let mut command = bench.command(&arguments(&set));
    command.arg("--folder").arg(runs);
    served(bench, command)
}

/// The same with a command of the test's own; what it says is in the bench's file `said`.
pub fn served(bench: &Bench, mut command: Command) -> (Child, Vec<u32>) {
    let log = std::fs::File::create(bench.path("said")).unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(180);
    loop {
        // Users keep connections, which their agent has; there is one of it.
        if children(child.id()).into_iter().any(|agent| connections(agent) >= USERS) {
            let servers = offspring(child.id());
            return (child, servers);
        }
        let said = || std::fs::read_to_string(bench.path("said")).unwrap();
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "no users came: {}", said());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Fewer than any test has, and more than an agent without users has connections.
const USERS: usize = 5;

/// Established TCP connections of a process.
pub fn connections(pid: u32) -> usize {
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(3) == Some(&"01")).then(|| fields.get(9).map(|inode| format!("socket:[{inode}]"))).flatten()
    };
    let established: std::collections::BTreeSet<String> = table.lines().filter_map(of_line).collect();
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let targets = descriptors.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| target.to_str().is_some_and(|target| established.contains(target))).count()
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

/// Kills a run and waits until its agent and its servers are gone, who have its folder: only then does the next run remove that.
fn kill_with_all(run: &mut Child) {
    let below = offspring(run.id());
    signal(run.id(), libc::SIGKILL);
    run.wait().unwrap();
    all_gone(&below);
}

/// All tiers with state and TLS where they are installed, else the embedded default; and the port of the balancer,
/// which nobody else is given meanwhile.
fn widest() -> (Vec<String>, usize, HeldPort) {
    let held = HeldPort::any().unwrap();
    let front = held.number();
    if !have(&["haproxy", "nginx", "postgres"]) {
        return (Vec::new(), 1, held);
    }
    let own = ["topology.tls=true", "balancer.service=haproxy", "web.service=nginx", "database.service=postgres"];
    let own = own.iter().map(|text| (*text).to_owned()).chain([format!("balancer.port={front}")]);
    (own.collect(), 4, held)
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

/// At any moment: while data is loaded, while servers start, while users come. The run is resumed as any other.
#[test]
fn an_interrupt_at_any_moment_leaves_a_run_that_can_be_resumed() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("runs")).unwrap();
    for (file, later) in [("main/password", 0), ("main/app-1", 0), ("main/app-1", 1500)] {
        let set = ["load.users=0", "load.settle=20 s", "load.budget=900 s"];
        let mut command = bench.command(&arguments(&set));
        let child = command.arg("--folder").arg(bench.path("runs"));
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(180);
        while !runs(&bench).iter().any(|run| bench.path("runs").join(run).join(file).exists()) {
            assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "no {file}");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(later));
        signal(child.id(), libc::SIGINT);
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{file}: {said}");
        assert!(said.contains("interrupted; `baremark resume "), "{file}: {said}");
        assert_eq!(runs(&bench), [""; 0], "its folder is gone");
    }
    let states = bench.json(&["history", "--json"]);
    assert!(states["runs"].as_array().unwrap().iter().all(|run| run["state"] == "interrupted"), "{states:#}");
}

#[test]
fn an_interrupted_run_leaves_nothing_and_goes_on_where_it_was() {
    let bench = Bench::new();
    let (set, tiers, _port) = widest();
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let (child, servers) = under_way(&bench, &set);
    assert!(servers.len() >= tiers, "{servers:?}");
    assert_private(&bench);
    if let Some(port) = set.iter().find_map(|text| text.strip_prefix("balancer.port=")) {
        an_untrusting_client_is_refused(&bench, port);
    }
    signal(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stdout));
    all_gone(&servers);
    assert_eq!(runs(&bench), [""; 0], "its folder is gone");
}

/// A finished block is not measured again.
#[test]
fn a_killed_run_is_resumed_without_its_finished_block() {
    let bench = Bench::new();
    let few = ["topology.max_users=75", "load.users=10", "load.warm=200 ms", "load.duration=2 s", "limits.mix=900 %"];
    let words: Vec<&str> = arguments(&few).into_iter().filter(|word| *word != "--json").collect();
    let mut child =
        bench.command(&words).args(["--blocks", "2"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("block 1 is stored") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0, "it ended early");
    }
    kill_with_all(&mut child);
    let first = bench.json(&["report", "--json"])["trials"].clone();
    let resumed = bench.json(&["resume", "--json"]);
    assert_eq!((first.as_array().unwrap().len(), &resumed["trials"][0]), (1, &first[0]), "the first is as it was");
    assert_eq!(resumed["trials"].as_array().unwrap().len(), 2);
    assert!(resumed["run"]["ended"].is_string(), "{}", resumed["run"]);
}

/// A search that was killed goes on after its last stored window, in a trial that says so.
#[test]
fn a_killed_search_is_resumed_without_its_finished_windows() {
    let bench = Bench::new();
    let set = [
        "load.users=0",
        "load.cycle=100 ms",
        "load.lowest=10",
        "load.highest=40",
        "load.finest=30 %",
        "load.visits=6",
        "load.window=500 ms",
        "load.settle=300 ms",
        "load.trials=1",
    ];
    let words = arguments(&set);
    let mut child = bench.command(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let stored = || windows(&bench);
    let deadline = Instant::now() + Duration::from_secs(180);
    while stored().len() < 3 {
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "no windows");
        std::thread::sleep(Duration::from_millis(50));
    }
    kill_with_all(&mut child);
    let before = stored();
    let output = bench.run(&["resume", "--json"]);
    let said = text(&output.stderr);
    let resumed: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    // On a busy machine it may verify no level: then its trial does not count, and says so.
    let reasons = resumed["trials"][0]["reasons"].to_string();
    let verified = !reasons.contains("no level verified") && !reasons.contains("undecided");
    assert_eq!(output.status.code(), Some(i32::from(!verified)), "{said}\n{resumed:#}");
    let after = stored();
    assert!(after.len() > before.len() && after.starts_with(&before), "{before:?} {after:?}");
    let document = &resumed["details"][0]["document"];
    let row = sound(document);
    let levels: Vec<f64> = row["search"]["trials"][0]["windows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|window| window["level"].as_f64().unwrap())
        .collect();
    assert_eq!(levels, after, "each window counts once");
    let said = format!("{} windows of the search of main were measured before the run was resumed", before.len());
    assert!(document["remarks"].to_string().contains(&said), "{}", document["remarks"]);
}

/// The levels of the windows that the latest run has stored.
fn windows(bench: &Bench) -> Vec<f64> {
    let Ok(store) = baremark_store::Store::open_read_only(bench.store()) else { return Vec::new() };
    let Some(run) = store.latest().ok().flatten() else { return Vec::new() };
    let progress = store.load(&run.id).map(|run| run.progress).unwrap_or_default();
    progress.iter().filter_map(|row| row["row"]["window"]["probe"]["level"].as_f64()).collect()
}

/// More failures than the error limit are a failure (1), exceeded limits are a broken gate (4).
#[test]
fn an_exceeded_limit_and_too_many_failures_have_codes_of_their_own() {
    let bench = Bench::new();
    // Busy enough that bids are pushed in that time.
    let few = ["load.users=40", "load.cycle=100 ms", "load.warm=500 ms", "load.duration=3 s", "limits.mix=900 %"];
    let strict = ran(&bench, &[&few[..], &["limits.delay=1 us"]].concat(), &[]);
    assert_eq!(strict.status.code(), Some(4), "{}", text(&strict.stderr));
    let found = result(&strict);
    assert!(metric(&found, "limits_exceeded").is_some_and(|count| count >= 1.0), "{found:#}");
    assert!(found["flags"].to_string().contains("limit exceeded: next-bid:delay.p99<1 us"), "{}", found["flags"]);
    // Without its only server nobody is answered.
    let gone = "faults=[{ at = '200 ms', tier = 'app', what = 'kill' }]";
    let failing = ran(&bench, &[&few[..], &[gone, "limits.failures=0.5 %"]].concat(), &[]);
    let said = text(&failing.stderr);
    assert_eq!(failing.status.code(), Some(1), "{said}");
    assert!(said.contains(" operations failed: "), "{said}");
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
    let (set, tiers, _port) = widest();
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
    assert_eq!(next.status.code(), Some(1), "{}", text(&next.stderr));
    assert_eq!(runs(&bench), [""; 0]);
}

/// Users of one's own, a folder of its own for the database, a limit on a tier's CPU time, and logs that are kept.
#[test]
fn a_topology_has_its_own_users_database_folder_and_limit_on_a_tier() {
    let bench = Bench::new();
    let [data, kept] = ["data", "kept"].map(|name| bench.path(name));
    std::fs::create_dir(&data).unwrap();
    let visitors = "[scenario]\ncycle = \"200 ms\"\n[operations.visit]\nnext = \"visit\"\n[[operations.visit.requests]]\nget = \"/\"\n";
    let visitors = bench.write("visitors.toml", visitors);
    let (folder, scenario) =
        (format!("database.folder={}", data.display()), format!("load.scenario={}", visitors.display()));
    let set =
        [&folder, &scenario, "limits.utilization.app=0.01 %", "load.users=20", "load.warm=500 ms", "load.duration=3 s"];
    let words = [&arguments(&set)[..], &["--keep", kept.to_str().unwrap()]].concat();
    let mut child = bench.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let below = |folder: &Path| {
        let listed = std::fs::read_dir(folder).into_iter().flatten().flatten();
        listed.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let deadline = Instant::now() + Duration::from_secs(180);
    while !below(&data).iter().any(|own| own.join("auction.db").exists()) {
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "no database in its folder");
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert_eq!(below(&data), [""; 0].map(std::path::PathBuf::from), "it is removed with the run");
    let document = document(&output);
    let load = &document["applications"][0]["load"];
    let done: Vec<&str> =
        load["operations"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(done, ["visit"], "{load:#}");
    let broken = load["broken"].as_array().unwrap();
    assert!(broken.len() == 1 && broken[0].as_str().unwrap().starts_with("utilization.app<0.01 %: "), "{broken:?}");
    let trial = below(&kept);
    assert_eq!(trial.len(), 1, "{trial:?}");
    assert!(trial[0].join("main/app-1/last-lines.log").exists(), "{trial:?}");
}

/// Runs shipped studies with few users for a moment, to the end of their first block. A variant whose service is not here is absent
/// with its reason.
fn run_shrunk(studies: &[(&str, usize)]) {
    for (name, arms) in studies {
        let bench = Bench::new();
        let (document, said) = bench.first_block(&shrunk(name));
        let rows = |key: &str| document[key].as_array().unwrap().clone();
        // In so short a time a machine that others use as well may end no operation; the next block then counts.
        let nothing = |trial: &Value| trial["reason"].as_str().is_some_and(|why| why.contains("no operation ended"));
        let fine = |trial: &Value| trial["status"] == "ok" || nothing(trial);
        assert!(rows("trials").iter().all(fine), "{name}: {said:#?}");
        let mut seen: Vec<String> = rows("estimates").iter().map(|row| row["treatment"].to_string()).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len() + rows("absent").len(), *arms, "{name}: {seen:?} {:?}", document["absent"]);
        assert_eq!(rows("details").len(), seen.len(), "{name}");
    }
}

/// A shipped study with few users for a moment.
fn shrunk(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../studies/{name}.toml"));
    let own = ["users = ", "duration = ", "warm_up = ", "images = ", "max_users = ", "history = "];
    let shipped = std::fs::read_to_string(path).unwrap();
    let kept = shipped.lines().filter(|line| !own.iter().any(|key| line.starts_with(key)));
    let study = kept.collect::<Vec<_>>().join("\n");
    let few =
        "[workload]\nusers = 20\nduration = \"2 s\"\nwarm_up = \"500 ms\"\nsize = \"quick\"\nerror_limit = \"99 %\"\n";
    let study = study.replacen("[workload]\n", few, 1).replacen("[topology]\n", "[topology]\nmax_users = 75\n", 1);
    study.replace("metric = \"maximum_users\"", "metric = \"operations_per_s\"")
}

/// `baremark run auction`, two blocks of it on SQLite with one app server: in the history, killed and resumed without its finished
/// block, observed by tier, and explained where limits are exceeded.
#[test]
fn the_shipped_study_is_resumed_observed_and_explained() {
    let bench = Bench::new();
    let busy =
        "[topology.load]\ncycle = \"50 ms\"\n\n[topology.limits]\ndelay = \"1 us\"\n\n[topology.variants.native]";
    let study = shrunk("auction")
        .replacen("users = 20", "users = 75", 1)
        .replacen("[topology.variants.native]", busy, 1)
        .replacen(
            "variant = [\"native\", \"container\", \"not-durable\"]",
            "variant = [\"native\", \"not-durable\"]",
            1,
        )
        .replacen("least_blocks = 4", "least_blocks = 2\nmost_blocks = 2", 1);
    bench.write("study.toml", study);
    let mut child = bench.spawn(&["run", "study.toml"]);
    let said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut lines = Vec::new();
    for line in std::io::BufRead::lines(said).map_while(Result::ok) {
        lines.push(line);
        if lines.iter().any(|line| line.contains("block 1 is stored")) {
            break;
        }
    }
    assert!(lines.iter().any(|line| line.contains("block 1 is stored")), "it ended early: {lines:#?}");
    kill_with_all(&mut child);
    let listed = |state: &str| {
        let history = bench.json(&["history", "--json"]);
        assert_eq!((history["runs"].as_array().unwrap().len(), &history["runs"][0]["state"]), (1, &state.into()));
    };
    listed("killed");
    let first = bench.json(&["report", "--json"])["trials"].clone();
    let resumed = bench.json(&["resume", "--json"]);
    let trials = resumed["trials"].as_array().unwrap();
    assert_eq!((first.as_array().unwrap().len(), trials.len(), &trials[0]), (1, 2, &first[0]), "{resumed:#}");
    listed("finished");
    assert!(resumed["observed"].is_object(), "{resumed:#}");
    let load = &resumed["details"][0]["document"]["applications"][0]["load"];
    let (used, waits) = (&load["cpus_used"]["app.cpus"], &load["waits"]);
    assert!(used.as_f64().is_some_and(|cpus| cpus > 0.0), "{load:#}");
    assert!(waits["app.waiting"].is_f64() && waits["app.disk"].is_f64(), "{waits}");
    let csv = text(&bench.run(&["report", "--csv=trials"]).stdout);
    for metric in ["cpus_app", "threads_waiting_for_cpu_app", "disk_bytes_per_s_app"] {
        assert!(csv.lines().any(|line| line.contains(",tiers,") && line.contains(metric)), "{metric}: {csv}");
    }
    let why = resumed["details"][0]["document"]["applications"][0]["saturated"].as_str().unwrap().to_owned();
    assert!(why.contains("app") && why.contains("CPUs used where limits were exceeded"), "{why}");
    let shown = text(&bench.run(&["report", "--details"]).stdout);
    // However lines are wrapped.
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("CPUs used where limits were") && words.contains("Threads waiting for a CPU"), "{shown}");
}

/// That of places is run with its guests, see `elsewhere`.
#[test]
fn shipped_studies_run_shrunk() {
    run_shrunk(&[("auction", 3)]);
    if have(&["haproxy", "nginx", "postgres"]) {
        run_shrunk(&[("auction-elastic", 2)]);
    }
}

#[test]
#[ignore = "more starts of what the other tests start: part of `make soak`"]
fn the_other_shipped_studies_run_shrunk() {
    if have(&["haproxy", "nginx", "apache2", "postgres", "mariadbd"]) {
        run_shrunk(&[("auction-bursts", 4), ("auction-tiers", 5), ("auction-databases", 6)]);
    }
}
