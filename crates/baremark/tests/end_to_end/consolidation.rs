//! Web farms and networks of the lab: limits found, tiers served, and nothing left on the host, also after a kill.

use crate::bench::{Bench, lives, root, text};
use crate::tiers::{all_gone, arguments, assert_at_work, document, have, offspring, ran, served, sound, told};
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
fn command(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = bench.command(arguments);
    command.env("XDG_STATE_HOME", bench.path("state"));
    command
}

fn doctor(bench: &Bench) -> Output {
    command(bench, &["doctor"]).output().unwrap()
}

fn records(bench: &Bench) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(bench.path("state/baremark/changes")) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "journal")).collect()
}

/// Links and groups of control that runs of this bench have recorded.
fn recorded(bench: &Bench) -> BTreeSet<String> {
    let text: String = records(bench).iter().map(|path| fs::read_to_string(path).unwrap_or_default()).collect();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    let ours = |word: &&str| word.starts_with("baremark-farm-") || word.len() == 11 && word.starts_with("bm");
    words.filter(ours).map(str::to_owned).collect()
}

/// Which of these are on the host.
fn there(names: &BTreeSet<String>) -> Vec<String> {
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
    let bench = Bench::new();
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
    // Every server answers: the rate of a level is that of all its servers together.
    let most = levels.iter().max_by_key(|level| level["servers"].as_u64()).unwrap();
    assert!(most["requests_per_s"].as_f64().unwrap() > 0.0, "{most}");
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
            &["topology.network=lab", "app.on=qemu", "database.service=postgres"],
            "network = \"lab\" and the tier app on qemu",
        ),
    ] {
        let output = ran(&bench, set, &[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(phrase), "{said}");
    }
}
