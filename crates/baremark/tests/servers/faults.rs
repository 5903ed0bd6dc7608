//! What breaks beneath users: databases, buses and servers that are killed, a disk that is full, a time that is over.

use crate::common::bench::{Bench, root};
use crate::common::tiers::{
    FULL, FULL_NEEDS, OTHER, OTHER_NEEDS, SMALL, all_gone, document, have, ran, searched, served, sound, told,
};
use serde_json::Value;
use std::time::{Duration, Instant};

/// After faults: nothing lost, users felt them, and were served again.
fn assert_survived(result: &Value) {
    let series = sound(result)["load"]["series"].as_array().unwrap();
    let failed: u64 = series.iter().map(|second| second["failed"].as_u64().unwrap_or(0)).sum();
    assert!(failed > 0, "what is gone is felt");
    let last: u64 = series.iter().rev().take(4).map(|second| second["answered"].as_u64().unwrap_or(0)).sum();
    assert!(last > 0, "users are served again: {series:?}");
}

#[test]
fn killed_postgres_and_a_killed_server_that_owned_auctions_lose_no_bid() {
    if !have(FULL_NEEDS) {
        return;
    }
    let bench = Bench::new();
    let faults = "faults=[{ at = '3 s', tier = 'database', what = 'kill', down = '2 s' }, \
                  { at = '10 s', tier = 'app', index = 1, what = 'kill' }]";
    let result = document(&ran(&bench, &[FULL, &[faults, "load.duration=22 s"]].concat(), &[]));
    assert_survived(&result);
    let of = |name: &str| told(&result["applications"][0], name);
    assert_eq!(of("app-1")["statistics"]["auction_owned"], 20.0, "all of 300 / 15: {}", of("app-1"));
    assert!(of("app-2")["silent"].is_string(), "it stays dead: {}", of("app-2"));
}

#[test]
fn killed_mariadb_and_a_killed_bus_lose_no_bid() {
    if !have(OTHER_NEEDS) {
        return;
    }
    let bench = Bench::new();
    let faults = "faults=[{ at = '3 s', tier = 'bus', what = 'kill', down = '2 s' }, \
                  { at = '7 s', tier = 'database', what = 'kill', down = '2 s' }]";
    assert_survived(&document(&ran(&bench, &[OTHER, &[faults, "load.duration=22 s"]].concat(), &[])));
}

/// PostgreSQL on a disk of its own that fills up under users: they are refused, and once there is room nothing is lost.
#[test]
fn a_full_disk_under_postgres_refuses_users_and_loses_no_bid() {
    if !have(&["postgres", "unshare", "mount"]) || !root() {
        return;
    }
    let bench = Bench::new();
    let disk = bench.path("disk");
    std::fs::create_dir(&disk).unwrap();
    // PostgreSQL runs as somebody else, who must get there.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(bench.folder.path(), open).unwrap();
    // In a mount namespace of its own, so that the disk is gone with the run, whatever happens to the test.
    let set = ["database.service=postgres", "load.duration=25 s", "services.postgres.wal_size=32 MiB"];
    let arguments = set.iter().chain(SMALL).flat_map(|text| ["--set", text]);
    let mut run = std::process::Command::new("unshare");
    run.args(["--mount", "--propagation=private", "sh", "-c"])
        .arg("mount -t tmpfs -o size=160m,mode=755 it \"$1\" && shift && exec \"$@\"")
        .arg("sh")
        .arg(&disk)
        .arg(env!("CARGO_BIN_EXE_baremark"))
        .args(["--store".as_ref(), bench.store().as_os_str()])
        .args(["auction", "run", "--json", "--folder"])
        .arg(&disk)
        .args(arguments);
    let (child, servers) = served(&bench, run);
    let said = || std::fs::read_to_string(bench.path("said")).unwrap();
    // As the processes in that namespace see it.
    let inside = format!("/proc/{}/root{}", child.id(), disk.display());
    let filler = std::path::Path::new(&inside).join("filler");
    drop(std::fs::write(&filler, vec![1; 200 << 20]));
    assert!(filler.metadata().unwrap().len() > 1 << 20, "the disk was filled");
    std::thread::sleep(Duration::from_secs(6));
    std::fs::remove_file(&filler).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.code() == Some(1) {
        // The database did not come through: the trial does not count, and says why.
        assert!(said().contains("database-1 has ended"), "{}", said());
        assert!(!said().contains("inconsistent"), "{}", said());
    } else {
        let result = document(&output);
        assert_ne!(sound(&result)["load"]["failures"], serde_json::json!({}), "a full disk is felt");
    }
    all_gone(&servers);
}
