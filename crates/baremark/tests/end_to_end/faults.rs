//! Stores that cannot be written: a clear error, and what was stored before is untouched.

use crate::bench::{Bench, SMALL, root, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn run_refused(bench: &Bench) -> String {
    bench.write("small.toml", SMALL);
    let output = bench.run(&["run", "small.toml"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn a_store_that_is_something_else_is_refused_and_left_alone() {
    for foreign in [&b"this is no database, and long enough to be read as a header by anybody who tries to"[..], b"x"] {
        let bench = Bench::new();
        fs::create_dir(bench.path("store")).unwrap();
        fs::write(bench.store(), foreign).unwrap();
        let message = run_refused(&bench);
        assert!(message.contains("baremark.db"), "{message}");
        assert_eq!(fs::read(bench.store()).unwrap(), foreign, "a foreign file is not written to");
    }
}

#[test]
fn a_full_disk_stops_the_run_and_keeps_what_was_stored() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    bench.write("small.toml", SMALL.replace("most_blocks = 12", "most_blocks = 400").replace("60 s", "10 min"));
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
    bench.write("small.toml", SMALL);
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
    assert!(read("report").contains("a small study"), "{}", read("report"));
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
    bench.write("small.toml", SMALL.replace("most_blocks = 12", "most_blocks = 400").replace("60 s", "10 min"));
    let mut run = bench.spawn(&["run", "small.toml", "--aa"]);
    let mut log = std::io::BufReader::new(run.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("block 3 is stored") {
        assert!(std::io::BufRead::read_line(&mut log, &mut said).unwrap() > 0, "{said}");
    }
    run.kill().unwrap();
    run.wait().unwrap();
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

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let bench = Bench::new();
    fs::create_dir(bench.path("store")).unwrap();
    fs::set_permissions(bench.path("store"), fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(bench.path("store/probe"), "").is_ok() {
        eprintln!("skipped: permissions do not bind this user");
        return;
    }
    let message = run_refused(&bench);
    assert!(message.contains("store"), "{message}");
}

#[test]
fn a_store_under_a_file_is_refused() {
    let bench = Bench::new();
    bench.write("store", "a file where the folder should be");
    let message = run_refused(&bench);
    assert!(message.contains("store"), "{message}");
}

#[test]
fn a_trial_that_does_not_get_its_pages_is_void() {
    let bench = Bench::new();
    bench.write(
        "small.toml",
        SMALL.replace("[\"native\", \"null\"]", "\"native\"").replace("\"4k\"", "[\"4k\", \"2m\"]"),
    );
    let mut command = bench.command(&["run", "small.toml", "--json"]);
    // Transparent huge pages are switched off for this process and its children: what a machine without them looks like.
    // SAFETY: prctl is async-signal-safe and touches no memory.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut command, || {
            match libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let trials = document["trials"].as_array().unwrap();
    let of = |page: &str| -> Vec<&serde_json::Value> {
        trials.iter().filter(|trial| trial["arms"][0]["treatment"]["page"] == page).collect()
    };
    assert!(
        of("4k").len() >= 10 && of("4k").iter().filter(|trial| trial["status"] != "ok").count() <= 2,
        "{document:#}"
    );
    assert_eq!(of("2m").len(), 3, "given up after three in a row");
    for trial in of("2m") {
        assert_ne!(trial["status"], "ok", "{trial:#}");
    }
    let estimated: Vec<_> =
        document["estimates"].as_array().unwrap().iter().map(|row| &row["treatment"]["page"]).collect();
    assert!(estimated.iter().all(|page| *page == "4k"), "what did not get its pages has no estimate: {estimated:?}");
}
