//! The auction application as tests run it: settings, results, and runs under way.

use super::bench::{Bench, children, lives, signal, text};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Little data, few users, short windows; what a test needs differently comes after.
pub const SMALL: &[&str] = &[
    "topology.max_users=300",
    "topology.history=1 %",
    "topology.argon2=64,1",
    "load.users=40",
    "load.cycle=400 ms",
    "load.warm_up=4 s",
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

/// Users are settled after ten of their cycles, and one server alone has nobody to whom it leaves them.
pub const BRISK: [&str; 2] = ["load.cycle=80 ms", "app.settings.drain=10 ms"];

/// Users who look at no pictures: for the first of each size a server draws all that the others are made of, in every trial.
const NO_PICTURES: &str = r#"
[scenario]
cycle = "80 ms"
[operations.home]
next = "login"
set = { number = "{user}" }
add = { number = 1 }
[[operations.home.requests]]
get = "/"
[operations.login]
next = "auctions"
[[operations.login.requests]]
post = "/api/login"
json = { username = "user{number}", password = "PASSWORD" }
extract = [{ into = "token", json = "token" }]
[operations.auctions]
next = "logout"
[[operations.auctions.requests]]
get = "/api/auctions?page=0"
bearer = "{token}"
[operations.logout]
next = "home"
[[operations.logout.requests]]
post = "/api/logout"
bearer = "{token}"
"#;

/// The file of such users: for tests that do not judge what users do.
pub fn without_pictures(bench: &Bench) -> PathBuf {
    bench.write("users.toml", NO_PICTURES)
}

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

/// What `run` gives once operations ended in the measured time. Of a process that was stopped for all of it none do, and its trial does not count: it is
/// run again, ten times at most.
pub fn with_operations(mut run: impl FnMut() -> Output) -> Output {
    let is_without = |output: &Output| {
        output.status.code() == Some(1) && text(&output.stderr).contains("no operation ended in the measured time")
    };
    let mut output = run();
    for _ in 1..10 {
        if !is_without(&output) {
            break;
        }
        output = run();
    }
    output
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
pub const OTHER: &[&str] =
    &["balancer.service=haproxy", "web.service=apache", "app.count=2", "database.service=mariadb"];

pub const OTHER_NEEDS: &[&str] = &["haproxy", "apache2", "mariadbd", "mariadb-install-db", "redis-server"];

/// A run under way, and the processes below it: its servers serve users.
pub fn under_way(bench: &Bench, set: &[&str]) -> (Child, Vec<u32>) {
    let set = [set, &["load.duration=300 s", "load.warm_up=1 s"]].concat();
    let runs = bench.path("runs");
    // Databases run as somebody else, who must get there.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(bench.folder.path(), open).unwrap();
    std::fs::create_dir_all(&runs).unwrap();
    let mut command = bench.command(&arguments(&set));
    command.arg("--folder").arg(runs).env("BAREMARK_DATABASE_PASSWORD", CANARY);
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
pub const USERS: usize = 5;

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
pub fn kill_with_all(run: &mut Child) {
    let below = offspring(run.id());
    signal(run.id(), libc::SIGKILL);
    run.wait().unwrap();
    all_gone(&below);
}

/// The folders of runs.
pub fn runs(bench: &Bench) -> Vec<String> {
    let listed = std::fs::read_dir(bench.path("runs")).unwrap().flatten();
    listed.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// Nobody else gets at what a run keeps, its password above all; its databases run as somebody else all the same.
pub fn assert_private(bench: &Bench) {
    let mode = |path: &Path| std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    let run = bench.path("runs").join(&runs(bench)[0]);
    for path in [run.clone(), run.join("main"), run.join("main/shared/password")] {
        let mode = mode(&path) & 0o777;
        assert_eq!(mode & 0o066, 0, "{}: {mode:o}", path.display());
        assert_eq!(mode & 0o007, 0, "others pass through {}: {mode:o}", path.display());
    }
}

/// A secret in the environment of a run.
const CANARY: &str = "c4n4ryInTheEnvironment";

/// The run's agent alone has the secrets of the environment, and no server is the superuser's.
pub fn assert_without_rights_and_secrets(run: u32, below: &[u32]) {
    let read = |pid: u32, file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let shown = |pid: u32, file: &str| String::from_utf8_lossy(&read(pid, file)).replace('\0', " ");
    assert!(shown(run, "environ").contains(CANARY), "it is where the run started with it");
    let is_agent = |pid: u32| shown(pid, "cmdline").trim_end().ends_with(" agent");
    let mut servers = 0;
    for pid in below.iter().copied().filter(|pid| !is_agent(*pid)) {
        let (command, environment) = (shown(pid, "cmdline"), shown(pid, "environ"));
        assert!(
            !environment.contains(CANARY) && !environment.contains("BAREMARK_DATABASE_"),
            "{command}: {environment}"
        );
        if command.contains(" auction serve ") {
            servers += 1;
            let status = shown(pid, "status");
            let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
            assert!(!users.split_whitespace().any(|user| user == "0"), "{command}: {users}");
        }
    }
    assert!(servers > 0, "the application serves");
}

/// The levels of the windows that the latest run has stored.
pub fn windows(bench: &Bench) -> Vec<f64> {
    let Ok(store) = baremark_store::Store::open_read_only(bench.store()) else { return Vec::new() };
    let Some(run) = store.latest().ok().flatten() else { return Vec::new() };
    let progress = store.load(&run.id).map(|run| run.progress).unwrap_or_default();
    progress.iter().filter_map(|row| row["row"]["window"]["probe"]["level"].as_f64()).collect()
}

/// A shipped study with few users for a moment.
pub fn shrunk(name: &str) -> String {
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

/// Runs shipped studies with few users for a moment, to the end of their first block. A variant whose service is not here is absent
/// with its reason.
pub fn run_shrunk(studies: &[(&str, usize)]) {
    for (name, arms) in studies {
        let bench = Bench::new();
        let (document, said) = bench.first_block(&shrunk(name));
        let rows = |key: &str| document[key].as_array().unwrap().clone();
        // A machine that others use as well may discard a trial, and says why; the next block then counts.
        let fine =
            |trial: &Value| trial["status"] == "ok" || trial["reason"].is_string() || trial["reasons"].is_array();
        assert!(rows("trials").iter().all(fine), "{name}: {said:#?}");
        let mut seen: Vec<String> = rows("estimates").iter().map(|row| row["treatment"].to_string()).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len() + rows("absent").len(), *arms, "{name}: {seen:?} {:?}", document["absent"]);
        assert_eq!(rows("details").len(), seen.len(), "{name}");
    }
}

/// Each level's row is of all its windows together: "p50 3.16 s p99 479.20 ms" was a median next to a mean.
pub fn assert_merged_by_one_rule(search: &Value) {
    let knee = search["knee"].as_array().unwrap();
    // On a machine that keeps no limit the lowest level is all that is tried.
    assert!(knee.len() > 1 || search["ended"] == "fails-all" && knee.len() == 1, "{search}");
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
pub fn assert_stored(bench: &Bench, output: &Output) {
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

pub fn kept_data_are_reused(more: &[&str]) {
    let bench = Bench::new();
    // A database runs as somebody else, who must get to the run's own folder, not to the kept data.
    let data = format!("topology.data=keep:{}", bench.path("kept").display());
    let few = ["load.users=20", "load.warm_up=200 ms", "load.duration=1 s", "limits.mix=900 %"];
    let set = [&[data.as_str()][..], more, &few, &BRISK].concat();
    for _ in 0..2 {
        // Invariants hold: the second run has the rows of the first load, and none of its bids.
        let result = document(&with_operations(|| ran(&bench, &set, &[])));
        let row = sound(&result);
        // The home page is for everybody; the rest is for those who are logged in.
        let inside = row["load"]["operations"].as_array().unwrap().iter().filter(|one| one["name"] != "home");
        let done: u64 = inside.map(|one| one["succeeded"].as_u64().unwrap()).sum();
        assert!(done > 0, "users log in with the password of the kept accounts: {}", row["load"]["failures"]);
    }
    let folder = std::fs::read_dir(bench.path("kept")).unwrap().next().unwrap().unwrap().path();
    assert!(folder.join("data").is_dir() && folder.join("list.json").is_file(), "{}", folder.display());
    let refused = |set: &[&str], phrase: &str| {
        let output = ran(&bench, set, &[]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(phrase), "{:?}: {said}", output.status);
    };
    refused(&[&["topology.seed=2"], &set[..]].concat(), "it holds other data (seed is '1', not '2')");
    // Damage is seen before anybody is served.
    let file = largest(&folder.join("data"));
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    refused(&set, "is not as it was loaded; remove it to load anew");
}

fn largest(folder: &std::path::Path) -> std::path::PathBuf {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.map(|path| if path.is_dir() { largest(&path) } else { path });
    files.filter(|path| path.is_file()).max_by_key(|path| path.metadata().unwrap().len()).unwrap_or_default()
}
