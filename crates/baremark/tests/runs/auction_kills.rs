//! Interrupts and kills of the auction application on its embedded database: nothing is left, and a run goes on where it was.

use crate::common::bench::{Bench, lives, signal, text};
use crate::common::points::stopped_at;
use crate::common::tiers::{
    BRISK, SMALL, all_gone, arguments, assert_private, assert_without_rights_and_secrets, connections, kill_with_all,
    offspring, ran, runs, sound, under_way, windows, without_pictures,
};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// At any moment: while data is loaded, while servers start, while users come. The run is resumed as any other.
#[test]
fn an_interrupt_at_any_moment_leaves_a_run_that_can_be_resumed() {
    let bench = Bench::new();
    // Servers run as another user, who must get there.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(bench.folder.path(), open).unwrap();
    std::fs::create_dir(bench.path("runs")).unwrap();
    for (file, later) in [("main/shared/password", 0), ("main/app-1", 0), ("main/app-1", 1500)] {
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
fn an_interrupted_run_leaves_nothing() {
    let bench = Bench::new();
    let (child, servers) = under_way(&bench, &[]);
    assert!(!servers.is_empty());
    assert_private(&bench);
    assert_without_rights_and_secrets(child.id(), &servers);
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
    let users = format!("load.scenario={}", without_pictures(&bench).display());
    let few = ["topology.max_users=75", "load.users=10", "load.warm_up=50 ms", "load.duration=500 ms", &users];
    let set = [&few[..], &BRISK].concat();
    let words: Vec<&str> = arguments(&set).into_iter().filter(|word| *word != "--json").collect();
    let mut command = bench.command(&words);
    command.args(["--blocks", "2"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = stopped_at(&mut command, "trial-stored:1");
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
    let users = format!("load.scenario={}", without_pictures(&bench).display());
    let set = [
        &users,
        "load.users=0",
        "load.cycle=100 ms",
        "load.lowest=10",
        "load.highest=40",
        "load.finest=30 %",
        "load.visits=6",
        "load.window=300 ms",
        "load.settle=100 ms",
        "load.trials=1",
        "app.settings.drain=10 ms",
    ];
    let words = arguments(&set);
    let mut command = bench.command(&words);
    let mut child = stopped_at(command.stdout(Stdio::null()).stderr(Stdio::null()), "progress-stored:3");
    let stored = || windows(&bench);
    kill_with_all(&mut child);
    let before = stored();
    assert_eq!(before.len(), 3, "{before:?}");
    let output = bench.run(&["resume", "--json"]);
    let said = text(&output.stderr);
    let resumed: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}"));
    // On a busy machine it may verify no level: then its trial does not count, and says so.
    let reasons = resumed["trials"][0]["reasons"].to_string();
    let verified = !reasons.contains("no level verified") && !reasons.contains("undecided");
    assert_eq!(output.status.code(), Some(i32::from(!verified)), "{said}\n{resumed:#}");
    let after = stored();
    assert!(after.len() >= before.len() && after.starts_with(&before), "{before:?} {after:?}");
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

#[test]
fn a_killed_run_leaves_nothing_running_and_the_next_removes_its_folder() {
    let bench = Bench::new();
    let (mut child, servers) = under_way(&bench, &[]);
    assert!(!servers.is_empty());
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

const TWO: &str = "load.on=['native', 'native']";

#[test]
fn a_site_of_users_that_dies_is_named() {
    let bench = Bench::new();
    let set = [&[TWO, "load.users=10", "load.duration=300 s", "load.warm_up=1 s"], SMALL].concat();
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
    signal(dying, libc::SIGKILL);
    let status = run.wait().unwrap();
    let said = std::fs::read_to_string(bench.path("said")).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("load: site ") && said.contains(" (native): the agent is lost"), "{said}");
    all_gone(&all);
}
