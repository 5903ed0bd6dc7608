//! Stores on full and on read-only disks: a clear error, and what was stored before is untouched.

use crate::common::bench::{Bench, SMALL, root};
use crate::common::played::PLAYED;
use crate::common::points::{kill, stopped_at};
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn a_full_disk_stops_the_run_and_keeps_what_was_stored() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    bench.write("small.toml", SMALL.replace("most_blocks = 12", "most_blocks = 400").replace("60 s", "24 h"));
    fs::create_dir(bench.path("store")).unwrap();
    let program = env!("CARGO_BIN_EXE_baremark");
    // A disk of one MiB of its own, seen by this process tree alone, and what the store looks like once it is full.
    let script = format!(
        "mount -t tmpfs -o size=400k tmpfs store && {program} --store store/baremark.db run small.toml --aa >out 2>err; \
         echo $? >code; {program} --store store/baremark.db history --json >history; cp store/baremark.db kept.db"
    );
    let status = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .current_dir(bench.folder.path())
        .status()
        .unwrap();
    assert!(status.success());
    let read = |name: &str| fs::read_to_string(bench.path(name)).unwrap();
    assert_eq!(read("code").trim(), "1", "{}", read("err"));
    assert!(read("err").contains("full"), "{}", read("err"));
    let history: serde_json::Value = serde_json::from_str(&read("history")).unwrap();
    assert!(history["runs"][0]["trials"].as_u64().unwrap() > 0, "{history:#}");
}

#[test]
fn a_store_on_a_read_only_disk_is_read_and_not_written() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    bench.write("small.toml", PLAYED);
    bench.json(&["run", "small.toml", "--quick", "--json"]);
    let program = env!("CARGO_BIN_EXE_baremark");
    let script = format!(
        "mount --bind store store && mount -o remount,bind,ro store && \
         {program} --store store/baremark.db report >report && {program} --store store/baremark.db run small.toml 2>err; echo $? >code"
    );
    let status =
        Command::new("unshare").args(["--mount", "sh", "-c", &script]).current_dir(bench.folder.path()).status();
    assert!(status.unwrap().success());
    let read = |name: &str| fs::read_to_string(bench.path(name)).unwrap();
    assert!(read("report").contains("a played study"), "{}", read("report"));
    assert!(read("err").contains("is read-only; name another file with --store"), "{}", read("err"));
    assert_eq!(read("code").trim(), "1");
}

/// Runs a script in a mount namespace of its own, in the bench's folder, with the program as `$1`.
fn mounted(bench: &Bench, script: &str) {
    let status = Command::new("unshare")
        .args(["--mount", "sh", "-ec", script, "sh", env!("CARGO_BIN_EXE_baremark")])
        .current_dir(bench.folder.path())
        .status()
        .unwrap();
    assert!(status.success(), "{script}");
}

#[test]
fn runs_on_a_full_disk_are_listed_and_shown() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/schema-4.db");
    mounted(
        &bench,
        &format!(
            "mkdir store; mount -t tmpfs -o size=600k tmpfs store; cp {golden} store/baremark.db
             head -c 10M /dev/zero >store/fill 2>/dev/null || true
             $1 --store store/baremark.db history >list; $1 --store store/baremark.db report >report"
        ),
    );
    let read = |name: &str| fs::read_to_string(bench.path(name)).unwrap();
    assert!(
        read("list").contains("counting lines") && read("report").contains("150 of 150 requests succeeded"),
        "{}",
        read("report")
    );
}

#[test]
fn a_log_that_a_killed_run_left_is_read_on_a_full_and_on_a_read_only_disk() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    bench.write("small.toml", SMALL.replace("most_blocks = 12", "most_blocks = 400").replace("60 s", "24 h"));
    let mut command = bench.command(&["run", "small.toml", "--aa"]);
    kill(&mut stopped_at(command.stdout(Stdio::null()).stderr(Stdio::null()), "trial-stored:3"));
    assert!(fs::metadata(bench.path("store/baremark.db-wal")).unwrap().len() > 0, "the trials are in the log");
    mounted(
        &bench,
        "mkdir full; mount -t tmpfs -o size=2m tmpfs full; cp store/baremark.db store/baremark.db-wal full
         head -c 10M /dev/zero >full/fill 2>/dev/null || true
         $1 --store full/baremark.db history --json >on-full
         rm store/*-shm; mount --bind store store; mount -o remount,bind,ro store
         $1 --store store/baremark.db history --json >on-read-only",
    );
    for name in ["on-full", "on-read-only"] {
        let list: serde_json::Value = serde_json::from_slice(&fs::read(bench.path(name)).unwrap()).unwrap();
        assert!(list["runs"][0]["trials"].as_u64() >= Some(3), "{name}: {list:#}");
    }
}
