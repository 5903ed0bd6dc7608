//! App servers in guests and on other machines: under users, killed, cut off, and nothing left of them.

use crate::bench::{Bench, children, signal, text};
use crate::environments::qemu;
use crate::environments::ssh::Server;
use crate::environments::wait_for;
use crate::tiers::{SMALL, all_gone, document, have, ran};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

/// What leads to an emulated guest; nothing where there is no kernel or no QEMU for it, with a line that is counted.
fn guests() -> Option<Vec<String>> {
    let kernel = qemu::fetched();
    if !have(&["qemu-system-x86_64"]) {
        return None;
    }
    if !kernel.join("vmlinuz").exists() {
        eprintln!("skipped: no kernel for guests; run scripts/fetch-kernel");
        return None;
    }
    let kernel = format!("environments.qemu.kernel={}", kernel.canonicalize().unwrap().display());
    Some(vec![kernel, "environments.qemu.accel=tcg".to_owned(), "environments.qemu.memory=512 MiB".to_owned()])
}

/// Users that an emulated processor carries.
const FEW: &[&str] =
    &["load.users=8", "load.cycle=1 s", "load.warm=3 s", "load.duration=6 s", "app.settings.lease=6 s"];
const BACKED: &[&str] = &["balancer.service=haproxy", "database.service=postgres"];

fn told<'r>(result: &'r Value, name: &str) -> &'r Value {
    let rows = result["applications"][0]["instances"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or(&Value::Null)
}

fn answered(result: &Value) -> u64 {
    let series = result["applications"][0]["load"]["series"].as_array().unwrap();
    series.iter().map(|second| second["answered"].as_u64().unwrap_or(0)).sum()
}

#[test]
fn app_servers_in_guests_serve_users_together() {
    let _alone = qemu::alone();
    let Some(guests) = guests().filter(|_| have(&["haproxy", "postgres"])) else { return };
    let bench = Bench::new();
    let own = ["app.on=qemu", "app.count=2", "app.cpus=[0]", "app.memory=384 MiB"];
    let set: Vec<&str> =
        own.iter().chain(FEW).chain(BACKED).copied().chain(guests.iter().map(String::as_str)).collect();
    let result = document(&ran(&bench, &set, &[]));
    assert_eq!(result["valid"], true, "{}", result["void"]);
    assert_eq!(result["applications"][0]["invariants"]["held"], true);
    assert!(answered(&result) > 0, "{}", result["applications"][0]["load"]);
    for name in ["app-1", "app-2"] {
        let row = told(&result, name);
        assert_eq!((row["on"].as_str(), row["emulated"].as_bool()), (Some("qemu"), Some(true)), "{row}");
        assert_eq!(row["memory_limit"], "guest");
        assert!(row["cpu_s"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["log"].as_array().is_some_and(|log| !log.is_empty()), "{row}");
        assert!(row["statistics"].as_object().is_some_and(|all| !all.is_empty()), "{row}");
    }
    let remarks = result["remarks"].to_string();
    assert!(remarks.contains("emulated processor"), "{remarks}");
}

#[test]
fn app_servers_on_another_machine_serve_users_together() {
    if !have(&["haproxy", "postgres"]) {
        return;
    }
    let Some(server) = Server::start() else { return };
    let bench = Bench::new();
    let config = format!("environments.ssh.config={}", server.config().display());
    let own = ["app.on=ssh:machine", "app.count=2", "app.memory=512 MiB", &config];
    let set: Vec<&str> = own.iter().chain(BACKED).copied().collect();
    let result = document(&ran(&bench, &set, &[]));
    assert_eq!(result["valid"], true, "{}", result["void"]);
    assert_eq!(result["applications"][0]["invariants"]["held"], true);
    assert_eq!(result["applications"][0]["tiers"]["app"]["on"], "ssh:machine");
    for name in ["app-1", "app-2"] {
        let row = told(&result, name);
        assert_eq!((row["on"].as_str(), row["emulated"].as_bool()), (Some("ssh:machine"), None), "{row}");
        assert_ne!(row["memory_limit"], "none", "{row}");
        assert!(row["cpu_s"].as_f64().unwrap() > 0.0 && row["resident_bytes"].as_u64().unwrap() > 0, "{row}");
        assert!(row["log"].as_array().is_some_and(|log| !log.is_empty()), "{row}");
    }
    wait_for(|| (server.left().is_empty() && server.pushed().is_empty()).then_some(()));
}

/// A run whose users have come; the rest of what it says is read to its end by whoever waits.
#[expect(clippy::zombie_processes, reason = "whoever asked for it waits for it; a panic ends the test")]
fn with_users(bench: &Bench, set: &[&str]) -> Child {
    let mut arguments = vec!["auction", "run"];
    arguments.extend(set.iter().chain(SMALL).flat_map(|text| ["--set", text]));
    let mut child = bench.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut all = String::new();
    loop {
        let before = all.len();
        assert!(said.read_line(&mut all).unwrap() > 0, "no users came: {all}");
        if all[before..].contains("warming") {
            std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
            return child;
        }
    }
}

fn below(pid: u32) -> Vec<u32> {
    let own = children(pid);
    let further: Vec<u32> = own.iter().flat_map(|&child| below(child)).collect();
    own.into_iter().chain(further).collect()
}

fn named(pid: u32, name: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with(name))
}

#[test]
fn a_guest_that_is_killed_is_named_and_nothing_is_left() {
    let _alone = qemu::alone();
    let Some(guests) = guests().filter(|_| have(&["postgres"])) else { return };
    let bench = Bench::new();
    let own = ["app.on=qemu", "database.service=postgres"];
    let set: Vec<&str> = own.iter().chain(FEW).copied().chain(guests.iter().map(String::as_str)).collect();
    let child = with_users(&bench, &set);
    let all = below(child.id());
    let guest = all.iter().copied().find(|&pid| named(pid, "qemu")).unwrap();
    signal(guest, libc::SIGKILL);
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("VOID: main: app-1 has ended: ") && said.contains("the site qemu is lost"), "{said}");
    all_gone(&all);
}

#[test]
fn a_connection_that_is_cut_is_named_and_a_killed_run_leaves_nothing_at_the_other_machine() {
    if !have(&["postgres"]) {
        return;
    }
    let Some(server) = Server::start() else { return };
    let bench = Bench::new();
    let config = format!("environments.ssh.config={}", server.config().display());
    let set = ["app.on=ssh:machine", "database.service=postgres", "load.duration=4 s", &config];
    let child = with_users(&bench, &set);
    server.cut();
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("VOID: main: app-1 has ended: ") && said.contains("the site ssh is lost"), "{said}");
    wait_for(|| (server.left().is_empty() && server.pushed().is_empty()).then_some(()));
    let mut child = with_users(&bench, &set);
    let all = below(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    all_gone(&all);
    wait_for(|| (server.left().is_empty() && server.pushed().is_empty()).then_some(()));
}

#[test]
fn the_study_of_places_has_all_its_arms() {
    let _alone = qemu::alone();
    let Some(guests) = guests().filter(|_| have(&["postgres", "podman"])) else { return };
    let bench = Bench::new();
    let own = ["study.blocks=1", "load.profile=''"];
    let set: Vec<&str> = own.iter().chain(FEW).copied().chain(guests.iter().map(String::as_str)).collect();
    let result = document(&ran(&bench, &set, &["auction-places"]));
    let arms = result["arms"].as_array().unwrap();
    assert_eq!(
        arms.iter().map(|arm| arm["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["native", "container", "qemu"]
    );
    for arm in arms {
        if arm["name"] == "container" && arm["absent"].is_string() {
            eprintln!("skipped: {}", arm["absent"]);
            continue;
        }
        assert!(arm["values"][0].as_f64().is_some_and(|value| value > 0.0), "{arm}");
    }
    assert_eq!((arms[2]["emulated"].as_bool(), arms[2]["ratio"].is_null()), (Some(true), true), "{}", arms[2]);
    for run in result["runs"].as_array().unwrap() {
        assert_eq!(run["result"]["applications"][0]["invariants"]["held"], true, "{run}");
    }
}

#[test]
fn what_cannot_run_elsewhere_is_told_before_anything_runs() {
    let bench = Bench::new();
    for (set, exit, phrases) in [
        (&["app.on=qemu"][..], 2, &["app servers on qemu and a database that is a file", "postgres or mariadb"][..]),
        (&["web.service=nginx", "web.on=ssh:there"], 2, &["the tier web on ssh:there", "app servers alone"]),
        (
            &["app.on=qemu", "database.service=postgres", "topology.images=files"],
            2,
            &["images in files of this machine and app servers on qemu"],
        ),
        (&["environments.qemu.acel=tcg"], 2, &["[environments.qemu] has no 'acel'", "did you mean 'accel'?"]),
        (&["environments.moon.accel=tcg"], 2, &["[environments] has no 'moon'"]),
        (&["environments.qemu.memory=much"], 2, &["memory = 'much' does not start with a number"]),
    ] {
        let output = ran(&bench, set, &[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(exit), "{set:?}: {said}");
        for phrase in phrases {
            assert!(said.contains(phrase), "{set:?}: {said}");
        }
    }
    if !have(&["postgres"]) {
        return;
    }
    for (set, phrase) in [
        (&["app.on=qemu", "environments.qemu.kernel=/nowhere/vmlinuz"][..], "scripts/fetch-kernel"),
        (&["app.on=ssh:nowhere.invalid"], "nowhere.invalid cannot be reached by ssh"),
    ] {
        let output = ran(&bench, &[set, &["database.service=postgres"]].concat(), &[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{set:?}: {said}");
        assert!(said.contains(phrase), "{set:?}: {said}");
    }
}
