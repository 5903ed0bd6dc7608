//! Tiers in guests and on other machines: under users, killed, cut off, and nothing left of them.

use crate::bench::{Bench, root, signal, text};
use crate::qemu;
use crate::scripts::{QEMU, Scripts};
use crate::sites::wait_for;
use crate::sshd::Server;
use crate::tiers::{
    FULL, FULL_NEEDS, all_gone, arguments, assert_at_work, document, have, ran, sound, told, under_way,
};
use crate::trials::{Ends, all};
use serde_json::Value;
use std::fs;
use std::path::Path;

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
    &["load.users=8", "load.cycle=1 s", "load.warm_up=3 s", "load.duration=6 s", "app.settings.lease=6 s"];
const BACKED: &[&str] = &["balancer.service=haproxy", "database.service=postgres"];

fn answered(result: &Value) -> u64 {
    let series = result["applications"][0]["load"]["series"].as_array().unwrap();
    series.iter().map(|second| second["answered"].as_u64().unwrap_or(0)).sum()
}

#[test]
fn app_servers_in_guests_serve_users_together() {
    let Some(guests) = guests().filter(|_| have(&["haproxy", "postgres"])) else { return };
    let bench = Bench::new();
    let own = ["app.on=qemu", "app.count=2", "app.cpus=[0]", "app.memory=384 MiB"];
    let set: Vec<&str> =
        own.iter().chain(FEW).chain(BACKED).copied().chain(guests.iter().map(String::as_str)).collect();
    let result = document(&ran(&bench, &set, &[]));
    let application = sound(&result);
    assert!(answered(&result) > 0, "{}", application["load"]);
    assert_at_work(application, &["app-1", "app-2"]);
    for name in ["app-1", "app-2"] {
        let row = told(application, name);
        assert_eq!((row["on"].as_str(), row["emulated"].as_bool()), (Some("qemu"), Some(true)), "{row}");
        assert_eq!(row["memory_limit"], "guest");
        assert!(row["log"].as_array().is_some_and(|log| !log.is_empty()), "{row}");
    }
    let remarks = result["remarks"].to_string();
    assert!(remarks.contains("emulated processor"), "{remarks}");
}

/// Other people's programs run in guests that see this machine's files; an app server here works with both.
#[test]
fn a_database_and_a_web_server_in_guests_serve_users() {
    let Some(guests) = guests().filter(|_| root() && have(&["nginx", "postgres"])) else { return };
    let bench = Bench::new();
    let own = [
        "database.service=postgres",
        "database.on=qemu",
        "database.memory=640 MiB",
        "web.service=nginx",
        "web.on=qemu",
        "app.settings.patience=40 s",
        "faults=[{ at = '2 s', tier = 'web', what = 'reload' }]",
    ];
    let set: Vec<&str> = own.iter().chain(FEW).copied().chain(guests.iter().map(String::as_str)).collect();
    let result = document(&ran(&bench, &set, &[]));
    let application = sound(&result);
    assert!(answered(&result) > 0, "{}", application["load"]);
    assert_at_work(application, &["web-1", "app-1", "database-1"]);
    for (name, on) in [("web-1", "qemu"), ("app-1", "native"), ("database-1", "qemu")] {
        assert_eq!(told(application, name)["on"], on);
    }
    assert!(told(application, "database-1")["statistics"]["database.xact_commit"].as_f64().unwrap() > 0.0);
    assert!(result["remarks"].to_string().contains("in its guest's memory"), "{}", result["remarks"]);
}

/// Every tier is a guest with an address of its own on the bridge of the run. Three emulated guests share this machine's CPUs.
#[test]
#[ignore = "takes minutes; make soak"]
fn tiers_in_guests_on_a_bridge_serve_their_users() {
    let Some(guests) = guests().filter(|_| root() && have(&["nginx", "postgres"])) else { return };
    let bench = Bench::new();
    let own = [
        "topology.network=lab",
        "database.service=postgres",
        "database.on=qemu",
        "database.memory=640 MiB",
        "web.service=nginx",
        "web.on=qemu",
        "app.on=qemu",
        "app.memory=384 MiB",
        "app.settings.patience=120 s",
    ];
    let set: Vec<&str> = own.iter().chain(FEW).copied().chain(guests.iter().map(String::as_str)).collect();
    let result = document(&ran(&bench, &set, &[]));
    let application = sound(&result);
    assert!(answered(&result) > 0, "{}", application["load"]);
    assert_at_work(application, &["web-1", "app-1", "database-1"]);
    for name in ["web-1", "app-1", "database-1"] {
        let row = told(application, name);
        assert_eq!((row["on"].as_str(), row["emulated"].as_bool()), (Some("qemu, lab network"), Some(true)), "{row}");
    }
    assert!(qemu::left().is_empty(), "{:?}", qemu::left());
}

/// Every tier on the other machine, each by connections of its own; a fault tells a web server there to read its configuration
/// again.
#[test]
fn every_tier_on_another_machine_serves_users() {
    if !root() || !have(FULL_NEEDS) {
        return;
    }
    let Some(server) = Server::start() else { return };
    server.let_others_through();
    let bench = Bench::new();
    let config = format!("environments.ssh.config={}", server.config().display());
    let tiers = ["balancer", "web", "app", "database", "bus"].map(|tier| format!("{tier}.on=ssh:machine"));
    let own = [config.as_str(), "app.memory=512 MiB", "faults=[{ at = '2 s', tier = 'web', what = 'reload' }]"];
    let set: Vec<&str> = FULL.iter().chain(&own).copied().chain(tiers.iter().map(String::as_str)).collect();
    let result = document(&ran(&bench, &set, &[]));
    let application = sound(&result);
    assert_at_work(application, &["balancer-1", "web-1", "app-1", "app-2", "database-1", "bus-1"]);
    assert!(answered(&result) > 0, "{}", application["load"]);
    for row in application["instances"].as_array().unwrap() {
        assert_eq!((row["on"].as_str(), row["emulated"].as_bool()), (Some("ssh:machine"), None), "{row}");
        assert!(row["resident_bytes"].as_u64().unwrap() > 0, "{row}");
    }
    for name in ["app-1", "app-2"] {
        let row = told(application, name);
        assert_ne!(row["memory_limit"], "none", "{row}");
        assert!(row["log"].as_array().is_some_and(|log| !log.is_empty()), "{row}");
    }
    wait_for(|| (server.left().is_empty() && server.pushed().is_empty()).then_some(()));
}

fn named(pid: u32, name: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with(name))
}

#[test]
fn a_guest_that_is_killed_is_named_and_nothing_is_left() {
    let Some(guests) = guests().filter(|_| have(&["postgres"])) else { return };
    let bench = Bench::new();
    let own = ["app.on=qemu", "database.service=postgres"];
    let set: Vec<&str> = own.iter().chain(FEW).copied().chain(guests.iter().map(String::as_str)).collect();
    let (child, all) = under_way(&bench, &set);
    let guest = all.iter().copied().find(|&pid| named(pid, "qemu")).unwrap();
    signal(guest, libc::SIGKILL);
    let output = child.wait_with_output().unwrap();
    let said = fs::read_to_string(bench.path("said")).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("app-1 has ended: ") && said.contains("the site qemu is lost"), "{said}");
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
    // Long enough that users are there when a busy machine comes to see them.
    let set = ["app.on=ssh:machine", "database.service=postgres", "load.duration=10 s", &config];
    let (child, _) = under_way(&bench, &set);
    server.cut();
    let output = child.wait_with_output().unwrap();
    let said = fs::read_to_string(bench.path("said")).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("app-1 has ended: ") && said.contains("the site ssh is lost"), "{said}");
    wait_for(|| (server.left().is_empty() && server.pushed().is_empty()).then_some(()));
    let (mut child, all) = under_way(&bench, &set);
    child.kill().unwrap();
    child.wait().unwrap();
    all_gone(&all);
    wait_for(|| (server.left().is_empty() && server.pushed().is_empty()).then_some(()));
}

#[test]
fn the_study_of_places_has_all_its_arms() {
    let Some(guests) = guests().filter(|_| have(&["postgres", "podman"])) else { return };
    let bench = Bench::new();
    let kernel = guests[0].split_once('=').unwrap().1.to_owned();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/auction-places.toml");
    let few = "users = 8\nduration = \"6 s\"\nwarm_up = \"3 s\"\nerror_limit = \"99 %\"\nsize = \"quick\"";
    let own = "accel = \"tcg\"\nmemory = \"512 MiB\"\n[topology.load]\ncycle = \"1 s\"\n[topology.app.settings]\nlease = \"6 s\"\n";
    let study = fs::read_to_string(shipped).unwrap();
    let study = study.replace("users = \"most\"", few).replace("max_users = 4000", "max_users = 300");
    let own = format!("kernel = {kernel:?}\n{own}");
    let study = study.replace("[factors]", &format!("{own}\n[factors]"));
    let study = study.replace("metric = \"maximum_users\"", "metric = \"operations_per_s\"");
    let (result, said) = bench.first_block(&study);
    assert_eq!(Ends::of(&all(&result)).failed, 0, "{said:#?}");
    for absent in result["absent"].as_array().unwrap() {
        eprintln!("skipped: {}", absent["reason"]);
    }
    let details = result["details"].as_array().unwrap();
    let places: Vec<&str> = details.iter().map(|row| row["treatment"]["app.on"].as_str().unwrap()).collect();
    assert!(places.contains(&"native") && places.contains(&"qemu"), "{places:?}");
    for detail in details {
        assert_eq!(detail["document"]["applications"][0]["invariants"]["held"], true, "{detail}");
    }
    let emulated = |row: &&Value| row["treatment"]["app.on"] == "qemu" && row["metric"] == "operations_per_s";
    let ratio = result["ratios"].as_array().unwrap().iter().find(emulated).unwrap();
    assert_eq!(ratio["emulated"], true, "{ratio}");
}

#[test]
fn a_guest_without_a_kernel_and_a_machine_without_a_name_are_told_before_anything_runs() {
    let (bench, scripts) = (Bench::new(), Scripts::new(&[QEMU]));
    if !have(&["postgres", "ssh"]) {
        return;
    }
    for (set, phrase) in [
        (&["app.on=qemu", "environments.qemu.kernel=/nowhere/vmlinuz"][..], "baremark setup guest-kernel"),
        (&["app.on=ssh:nowhere.invalid"], "nowhere.invalid cannot be reached by ssh"),
    ] {
        let mut command = bench.command(&arguments(&[set, &["database.service=postgres"]].concat()));
        let output = command.env("PATH", scripts.search_path()).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{set:?}: {said}");
        assert!(said.contains(phrase), "{set:?}: {said}");
    }
}
