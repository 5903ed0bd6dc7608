//! Web farms and networks of the lab: limits found, tiers served, and nothing left on the host, also after a kill.

use crate::bench::{Bench, lives, root, signal, text};
use crate::environments::container_kills::{Watched, containers_folder};
use crate::environments::{container, qemu, temporary, wait_for};
use crate::tiers::{all_gone, arguments, assert_at_work, document, have, offspring, ran, served, sound, told};
use baremark_sys::process_tree;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Few servers, short windows, and limits of which the machine's CPU breaks one.
fn study(server: &str, more: &str) -> String {
    format!(
        "[study]\ntitle = \"a small farm\"\n[workload]\nkind = \"web-farm\"\nserver = \"{server}\"\nmost = 12\nlimit = \"500 ms\"\n\
         cpu_limit = \"5 %\"\nquota = \"50 %\"\nwindow = \"300 ms\"\nsettle = \"100 ms\"\nvisits = 6\n{more}\n\
         [factors]\nenvironment = \"native\"\nrate = 50\nranks = 1\n\
         [design]\nquads = 0\nleast_blocks = 1\nmost_blocks = 1\nbudget = \"60 s\"\n"
    )
}

/// Changes are recorded in the bench's own folder, so that other tests' are not taken for these.
pub fn command(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = bench.command(arguments);
    command.env("XDG_STATE_HOME", bench.path("state"));
    command
}

pub fn doctor(bench: &Bench) -> Output {
    command(bench, &["doctor"]).output().unwrap()
}

pub fn records(bench: &Bench) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(bench.path("state/baremark/changes")) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "journal")).collect()
}

/// Links and groups of control that runs of this bench have recorded.
pub fn recorded(bench: &Bench) -> BTreeSet<String> {
    let text: String = records(bench).iter().map(|path| fs::read_to_string(path).unwrap_or_default()).collect();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    let ours = |word: &&str| word.starts_with("baremark-farm-") || word.len() == 11 && word.starts_with("bm");
    words.filter(ours).map(str::to_owned).collect()
}

/// Which of these are on the host.
pub fn there(names: &BTreeSet<String>) -> Vec<String> {
    let groups = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"];
    let listed = groups.iter().filter_map(|root| fs::read_dir(root).ok()).flatten().flatten();
    let groups: Vec<String> = listed.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let is = |name: &&String| {
        Path::new("/sys/class/net").join(name.as_str()).exists()
            || groups.iter().any(|group| group.starts_with(name.as_str()))
    };
    names.iter().filter(is).cloned().collect()
}

#[test]
fn a_web_farm_reports_both_limits_and_the_curve_of_each() {
    if !root() {
        return;
    }
    let bench = Bench::busy();
    bench.write("farm.toml", study("static", "search_time = \"5 s\""));
    let output = command(&bench, &["run", "farm.toml", "--json"]).output().unwrap();
    let said = text(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    let detail = &result["details"][0];
    assert_eq!(detail["format"], "baremark-web-farm/1", "{result:#}\n{said}");
    let farm = &detail["document"];
    assert_eq!(farm["results"].as_array().unwrap().len(), 2, "{farm:#}");
    let levels = farm["levels"].as_array().unwrap();
    assert!(
        levels.iter().any(|level| level["limit"] == "cpu") && levels.iter().any(|level| level["limit"] == "latency")
    );
    for level in levels {
        assert!((1..=12).contains(&level["servers"].as_u64().unwrap()), "{level}");
        assert!(level["cpu_share"].as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)), "{level}");
    }
    // Levels at which other tests took the CPUs say nothing; at others the servers answer.
    let decided: Vec<&Value> = levels.iter().filter(|level| level["verdict"] != "insufficient").collect();
    let answers = |level: &&Value| level["requests_per_s"].as_f64().is_some_and(|rate| rate > 0.0);
    assert!(!decided.is_empty() && decided.iter().all(answers), "{levels:#?}");
    let report = text(&bench.run(&["report", "--details"]).stdout);
    assert!(report.contains("Latency and CPU use by the number of servers"), "{report}");
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "everything is undone");
}

#[test]
fn nginx_serves_a_number_of_servers_that_is_not_searched() {
    if !root() || !have(&["nginx"]) {
        return;
    }
    let bench = Bench::new();
    bench.write("farm.toml", study("nginx", "servers = 2") + "[report]\nmetric = \"requests_per_s\"\n");
    let output = command(&bench, &["run", "farm.toml", "--json"]).output().unwrap();
    let said = text(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    let rows = result["estimates"].as_array().unwrap().iter();
    let rate = rows.clone().find(|row| row["metric"] == "requests_per_s").and_then(|row| row["estimate"].as_f64());
    assert!(rate.is_some_and(|rate| rate > 1.0), "{result:#}\n{said}");
    assert!(rows.clone().all(|row| row["metric"] != "servers_by_latency"), "nothing was searched: {result:#}");
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "everything is undone");
}

#[test]
fn servers_in_containers_answer_and_are_gone_afterwards() {
    if !root() || !have(&["podman"]) {
        return;
    }
    let _alone = container::alone();
    let bench = Bench::new();
    let more = "servers = 2\ncontainer = true";
    bench.write("farm.toml", study("static", more) + "[report]\nmetric = \"requests_per_s\"\n");
    let output = command(&bench, &["run", "farm.toml", "--json"]).output().unwrap();
    let said = text(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    let rows = result["estimates"].as_array().unwrap().iter();
    let rate = rows.clone().find(|row| row["metric"] == "requests_per_s").and_then(|row| row["estimate"].as_f64());
    assert!(rate.is_some_and(|rate| rate > 1.0), "{result:#}\n{said}");
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "everything is undone");
    let names = Command::new("podman").args(["ps", "--all", "--format", "{{.Names}}"]).output().unwrap();
    assert!(!text(&names.stdout).contains("baremark-farm-"), "{}", text(&names.stdout));
}

/// A run under way, once so many of its links are recorded, and the processes below it.
fn under_way_with(bench: &Bench, links: usize) -> (Child, Vec<u32>) {
    let mut child = command(bench, &["run", "farm.toml"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while recorded(bench).len() < links {
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "no links: {:?}", recorded(bench));
        std::thread::sleep(Duration::from_millis(2));
    }
    let below = offspring(child.id());
    (child, below)
}

/// As it makes its bridge, as it starts servers, as it loads them.
#[test]
fn nothing_is_left_of_a_farm_that_is_killed_at_any_moment() {
    if !root() {
        return;
    }
    for links in [1, 3, 6, 9] {
        let bench = Bench::new();
        bench.write("farm.toml", study("static", "search_time = \"8 s\""));
        let (mut child, below) = under_way_with(&bench, links);
        child.kill().unwrap();
        child.wait().unwrap();
        all_gone(&below);
        let names = recorded(&bench);
        assert!(names.len() >= links, "{names:?}");
        let said = doctor(&bench);
        assert_eq!(there(&names), [""; 0], "after {links}: {}", text(&said.stderr));
        assert_eq!(records(&bench), Vec::<PathBuf>::new(), "after {links}: {}", text(&said.stderr));
        assert!(below.iter().all(|pid| !lives(*pid)));
    }
}

/// The identity and the name of the container whose monitor has just been started for a farm of this run.
fn starting(run: &Child) -> Option<(String, String)> {
    let is = |words: &[String]| words[0].ends_with("conmon") && words.iter().any(|word| word.starts_with(FARM));
    let below = offspring(run.id());
    process_tree::with_command(is).unwrap().into_iter().find_map(|(_, words)| {
        let name = words.iter().find(|word| word.starts_with(FARM))?;
        let owner: u32 = name[FARM.len()..].split('-').next()?.parse().ok()?;
        let id = words.iter().skip_while(|word| *word != "-c").nth(1)?;
        below.contains(&owner).then(|| (id.clone(), name.clone()))
    })
}

/// How names of containers and folders of farms begin; the number of their process follows.
const FARM: &str = "baremark-farm-";

/// From the moment at which the engine has started its monitor on, and before the container runs: without a supervisor both would remain. Then also
/// with the supervisor, whose container the next start of the program removes.
#[test]
fn nothing_is_left_of_a_farm_in_containers_that_is_killed_while_one_starts() {
    if !root() || !have(&["podman"]) {
        return;
    }
    let _alone = container::alone();
    let folder = containers_folder();
    for with_supervisor in [false, true] {
        let bench = Bench::new();
        bench.write("farm.toml", study("static", "servers = 1\ncontainer = true"));
        let mut run = command(&bench, &["run", "farm.toml"]);
        let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let (id, name) = wait_for(|| {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it started a container");
            starting(&child)
        });
        let below = offspring(child.id());
        if with_supervisor {
            let is = |words: &[String]| words.iter().any(|word| word == "supervise") && words.contains(&name);
            process_tree::with_command(is).unwrap().iter().for_each(|(pid, _)| signal(*pid, libc::SIGKILL));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        all_gone(&below);
        let (ids, watched) = (BTreeSet::from([id]), Watched { folder: &folder, prefix: name });
        if !with_supervisor {
            assert_eq!(watched.left(&ids), [""; 0], "the supervisor has removed it");
        }
        let (own, _) = watched.prefix.rsplit_once('-').unwrap();
        // Whoever was killed has its locks until the kernel has ended it.
        wait_for(|| {
            doctor(&bench);
            (records(&bench).is_empty() && !temporary().iter().any(|name| name == own)).then_some(())
        });
        assert_eq!(watched.left(&ids), [""; 0], "with its supervisor: {with_supervisor}");
    }
}

/// Two members with a weight and one without; the limits are such that a busy machine keeps them, or not at all.
fn tiles(limit: &str) -> String {
    format!(
        "[study]\ntitle = \"small tiles\"\n[workload]\nkind = \"tile\"\nmost = 2\nduration = \"2 s\"\nwarm_up = \"200 ms\"\n\
         stagger = \"10 ms\"\n\
         [tile.members.web]\nworkload = \"web-farm\"\nservers = 1\nrate = 50\nlimit = \"{limit}\"\nthroughput = \"requests_per_s\"\n\
         [tile.members.mail]\nworkload = \"block\"\nsize = \"1 MiB\"\nread_share = \"0 %\"\nrate = 50\ndepth = 2\n\
         limit = \"write_mean_us < 5000000\"\nthroughput = \"iops\"\n\
         [tile.members.standby]\nworkload = \"web-farm\"\nservers = 1\nrate = 5\nweight = 0\nlimit = \"failed < 99\"\n\
         throughput = \"requests_per_s\"\n\
         [factors]\nenvironment = \"native\"\nranks = 1\n\
         [design]\nquads = 0\nleast_blocks = 1\nmost_blocks = 1\nbudget = \"60 s\"\n"
    )
}

#[test]
fn one_and_two_tiles_run_to_a_score() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    bench.write("tile.toml", tiles("latency_p95_ms < 10000"));
    let output = command(&bench, &["run", "tile.toml", "--json"]).output().unwrap();
    let said = text(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    let estimate = |metric: &str| {
        let rows = result["estimates"].as_array().unwrap().iter();
        rows.clone().find(|row| row["metric"] == metric).and_then(|row| row["estimate"].as_f64())
    };
    assert_eq!(estimate("tiles"), Some(2.0), "{result:#}\n{said}");
    // Of one tile it is 1 by definition, and two cannot do more than twice as much at a fixed load, but for chance.
    assert!((estimate("score_of_one").unwrap() - 1.0).abs() < 1e-9, "{result:#}");
    assert!(estimate("score").is_some_and(|score| score > 0.2 && score < 3.0), "{result:#}");
    let report = text(&bench.run(&["report", "--details"]).stdout);
    assert!(report.contains("Throughput over that of one tile") && report.contains("2 tiles"), "{report}");
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "everything is undone");
}

#[test]
fn the_dvd_store_behind_its_web_front_is_a_member_of_a_tile() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    let shop = format!(
        "[tile.members.shop]\nworkload = \"dvd-store\"\nfront = \"web\"\nconnections = 2\nrate = 30\ndata = \"{}\"\n\
         limit = \"latency_p50_ms < 10000\"\nthroughput = \"orders_per_min\"\n[factors]\n",
        bench.path("baremark-data").display()
    );
    bench.write("tile.toml", tiles("latency_p95_ms < 10000").replace("[factors]\n", &shop));
    let output = command(&bench, &["run", "tile.toml", "--json"]).output().unwrap();
    let said = text(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    let levels = result["details"][0]["document"]["levels"].as_array().unwrap_or_else(|| panic!("{result:#}\n{said}"));
    let two = levels.iter().find(|level| level["tiles"] == 2).unwrap_or_else(|| panic!("{levels:#?}"));
    let shops = two["runs"].as_array().unwrap().iter().filter(|run| run["member"] == "shop");
    let orders: Vec<f64> = shops.map(|run| run["throughput"].as_f64().unwrap()).collect();
    assert!(orders.len() == 2 && orders.iter().all(|orders| *orders > 100.0), "{orders:?}: {two:#}");
    let left = fs::read_dir(bench.path("baremark-data")).unwrap().flatten();
    assert!(left.into_iter().all(|entry| entry.file_name().to_string_lossy().starts_with("sqlite-")));
}

#[test]
fn a_tile_whose_member_breaks_its_limit_has_no_score() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    // Nothing is answered so soon.
    bench.write("tile.toml", tiles("latency_p95_ms < 0.0001"));
    let output = command(&bench, &["run", "tile.toml", "--json"]).output().unwrap();
    let (said, out) = (text(&output.stderr), text(&output.stdout));
    assert!(out.contains("\"status\": \"void\""), "{said}{out}");
    assert!(
        format!("{said}{out}").contains("one tile does not keep its limits: web of tile 1: latency_p95_ms is"),
        "{said}{out}"
    );
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["estimates"], serde_json::json!([]), "{out}");
    assert_eq!(output.status.code(), Some(1), "nothing was measured: {said}");
}

#[test]
fn a_member_that_cannot_be_is_refused_with_what_would_be_right() {
    let bench = Bench::new();
    let wrong = tiles("latency_p95_ms 5");
    bench.write("tile.toml", wrong);
    let output = command(&bench, &["run", "tile.toml"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("'latency_p95_ms 5' must be METRIC < NUMBER; write limit = "), "{said}");
}

/// The folder of the kernel for guests; nothing where there is none or no QEMU, with a line that is counted.
fn kernel() -> Option<PathBuf> {
    if !have(&["qemu-system-x86_64"]) {
        return None;
    }
    if !qemu::fetched().join("vmlinuz").exists() {
        eprintln!("skipped: no kernel for guests; run scripts/fetch-kernel");
        return None;
    }
    Some(qemu::fetched().canonicalize().unwrap())
}

/// An application, and members that each do one operation on guests.
fn tile_with_guests(kernel: &Path, operations: &[(&str, &str)]) -> String {
    let member = |(operation, limit): &(&str, &str)| {
        format!(
            "[tile.members.{operation}]\nworkload = \"guest-operations\"\noperation = \"{operation}\"\nguest_kernel = \"{}\"\n\
             guest_accel = \"tcg\"\nimage = \"8 MiB\"\nguest_memory = \"256 MiB\"\nwarm_up = \"0 s\"\nramp_down = \"0 s\"\n\
             throughput = \"operations_per_h\"\nlimit = \"{limit}\"\n",
            kernel.display()
        )
    };
    format!(
        "[study]\ntitle = \"a tile with guests\"\n[workload]\nkind = \"tile\"\nmost = 1\nduration = \"1 s\"\nwarm_up = \"100 ms\"\n\
         ramp_down = \"200 ms\"\nstagger = \"10 ms\"\n\
         [tile.members.mail]\nworkload = \"block\"\nsize = \"1 MiB\"\nread_share = \"0 %\"\nrate = 50\ndepth = 2\n\
         limit = \"write_mean_us < 5000000\"\nthroughput = \"iops\"\n{}\
         [factors]\nenvironment = \"native\"\nranks = 1\n\
         [design]\nquads = 0\nleast_blocks = 1\nmost_blocks = 1\nbudget = \"120 s\"\n",
        operations.iter().map(member).collect::<String>()
    )
}

#[test]
fn guests_are_deployed_cloned_and_moved_as_members_of_a_tile() {
    let _alone = qemu::alone();
    let Some(kernel) = kernel() else { return };
    let bench = Bench::new();
    // Each limit needs a metric that its operation alone has, and no more.
    let operations = [
        ("deploy", "operation_s < 300"),
        ("clone", "silent_ms < 300000"),
        ("migrate", "down_ms < 300000"),
        ("migrate-storage", "silent_ms < 300000"),
    ];
    bench.write("tile.toml", tile_with_guests(&kernel, &operations));
    let output = command(&bench, &["run", "tile.toml", "--json"]).output().unwrap();
    let said = text(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    let document = &result["details"][0]["document"];
    let level = &document["levels"][0];
    assert!((level["score"].as_f64().unwrap_or(0.0) - 1.0).abs() < 1e-9, "of one tile: {result:#}\n{said}");
    for (operation, _) in operations {
        let members = level["members"].as_array().unwrap();
        let member = members.iter().find(|member| member["name"] == operation).unwrap();
        assert!(member["throughput"].as_f64().is_some_and(|rate| rate > 1.0), "{member}");
        assert!(member["limited"].as_f64().is_some_and(|value| value > 0.0), "{member}");
    }
    assert_eq!(document["absent"], serde_json::json!([]), "{document:#}");
    assert!(format!("{said}{result}").contains("guests were emulated"), "{result:#}\n{said}");
}

#[test]
fn members_that_this_machine_has_no_kernel_for_are_absent() {
    let bench = Bench::new();
    bench.write("tile.toml", tile_with_guests(Path::new("/nowhere/kernel"), &[("migrate", "down_ms < 1000")]));
    let output = command(&bench, &["run", "tile.toml", "--json"]).output().unwrap();
    let said = text(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    let document = &result["details"][0]["document"];
    assert_eq!(document["absent"][0]["name"], "migrate", "{result:#}\n{said}");
    assert!(document["absent"][0]["why"].as_str().is_some_and(|why| why.contains("; ")), "{document:#}");
    assert!((document["levels"][0]["score"].as_f64().unwrap() - 1.0).abs() < 1e-9, "applications alone: {document:#}");
    let report = text(&bench.run(&["report", "--details"]).stdout);
    assert!(report.contains("migrate is absent: "), "{report}");
}

/// While guests boot, and while one is moved.
#[test]
fn nothing_is_left_of_operations_on_guests_that_are_killed() {
    let _alone = qemu::alone();
    let Some(kernel) = kernel() else { return };
    for count in [1, 2] {
        let bench = Bench::new();
        let study = format!(
            "[study]\ntitle = \"guests\"\n[workload]\nkind = \"guest-operations\"\noperation = \"migrate\"\nguest_accel = \"tcg\"\n\
             guest_kernel = \"{}\"\nimage = \"8 MiB\"\nguest_memory = \"256 MiB\"\nduration = \"60 s\"\n\
             [factors]\nenvironment = \"native\"\nranks = 1\n\
             [design]\nquads = 0\nleast_blocks = 1\nmost_blocks = 1\nbudget = \"120 s\"\n",
            kernel.display()
        );
        bench.write("guests.toml", study);
        let mut run = command(&bench, &["run", "guests.toml"]);
        let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let emulators = || {
            let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            offspring(child.id()).iter().filter(|pid| name(pid).starts_with("qemu")).count()
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while emulators() < count {
            assert!(Instant::now() < deadline, "{count} emulators do not come");
            std::thread::sleep(Duration::from_millis(2));
        }
        let below = offspring(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        all_gone(&below);
    }
}

const LAB: &[&str] = &["topology.network=lab", "web.service=nginx", "database.service=postgres"];

/// App, web and database tiers in a namespace each, and the web server in a container where there is an engine.
#[test]
fn tiers_on_a_bridge_serve_their_users() {
    if !root() || !have(&["nginx", "postgres"]) {
        return;
    }
    let bench = Bench::new();
    let container = if have(&["podman"]) { &["web.on=container"][..] } else { &[] };
    let output = ran(&bench, &[LAB, container].concat(), &[]);
    let row = document(&output);
    let row = sound(&row);
    assert_at_work(row, &["web-1", "app-1", "database-1"]);
    for name in ["app-1", "database-1"] {
        assert_eq!(told(row, name)["on"], "native, lab network");
    }
    if !container.is_empty() {
        assert_eq!(told(row, "web-1")["on"], "container, lab network");
    }
}

#[test]
fn nothing_is_left_of_tiers_on_a_bridge_that_are_killed() {
    if !root() || !have(&["nginx", "postgres"]) {
        return;
    }
    let bench = Bench::new();
    // The database runs as somebody else, who must get there.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    fs::set_permissions(bench.folder.path(), open).unwrap();
    fs::create_dir(bench.path("runs")).unwrap();
    let set = [LAB, &["load.duration=300 s", "load.warm=1 s"]].concat();
    let mut run = command(&bench, &arguments(&set));
    run.arg("--folder").arg(bench.path("runs"));
    let (mut child, servers) = served(&bench, run);
    let names = recorded(&bench);
    assert!(names.len() >= 4, "three nodes and the bridge: {names:?}");
    assert!(there(&names).len() >= 4, "{names:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    all_gone(&servers);
    let said = doctor(&bench);
    assert_eq!(there(&names), [""; 0], "{}", text(&said.stderr));
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "{}", text(&said.stderr));
}

#[test]
fn a_network_that_cannot_be_is_refused_with_what_would_be_right() {
    let bench = Bench::new();
    for (set, phrase) in [
        (&["topology.network=lap"][..], "unknown network 'lap'; did you mean 'lab'?"),
        (
            &["topology.network=lab", "app.on=ssh:elsewhere", "database.service=postgres"],
            "network = \"lab\" and the tier app on ssh:elsewhere",
        ),
    ] {
        let output = ran(&bench, set, &[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(phrase), "{said}");
    }
}
