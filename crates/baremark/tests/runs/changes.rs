//! What a killed process has changed on this host is undone by the next start.

use crate::common::bench::{Bench, signal, text};
use crate::common::databases::{left, study};
use crate::common::points::{kill, one_stopped};
use crate::common::tiers::{all_gone, offspring};
use baremark_journal::{Journal, file, file::Files};
use baremark_sys::point::STOP_AT;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const FOLDER: &str = "BAREMARK_TEST_CHANGER";

/// Not a test: a process that makes a folder and dies with it.
#[test]
fn changer() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let journal = Journal::open(folder.join("state/baremark/changes"), vec![Box::new(Files)]).unwrap();
    let _held = file::make(&journal, &folder, |path| fs::create_dir(path)).unwrap();
    std::process::abort();
}

fn left_by_a_killed_process(folder: &Path) -> PathBuf {
    let mut changer = Command::new(std::env::current_exe().unwrap());
    changer.args(["--exact", "changes::changer"]).env(FOLDER, folder);
    assert!(!changer.output().unwrap().status.success());
    let names = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    names.filter(|path| path.to_str().unwrap().contains("/baremark-")).last().expect("the process made a folder")
}

#[test]
fn every_command_undoes_what_a_killed_process_left_and_doctor_lists_it() {
    let bench = Bench::new();
    let left = left_by_a_killed_process(bench.folder.path());
    let doctor = bench.run(&["doctor"]);
    assert!(doctor.status.success() && !left.exists());
    let line = format!("undone: {}, left by a run that was killed\n", left.display());
    assert!(text(&doctor.stdout).starts_with(&line), "{}", text(&doctor.stdout));
    assert!(!text(&bench.run(&["doctor"]).stdout).contains("undone"), "once");
    let left = left_by_a_killed_process(bench.folder.path());
    let document = bench.json(&["doctor", "--json"]);
    assert!(document["recovered"][0].as_str().unwrap().contains(left.to_str().unwrap()), "{document:#}");
    for arguments in [&["list"][..], &["history"], &["ab", "sleep 0.02", "sleep 0.02", "--budget", "2s", "--quiet"]] {
        let left = left_by_a_killed_process(bench.folder.path());
        let said = text(&bench.run(arguments).stderr);
        assert!(!left.exists(), "{arguments:?}: {said}");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("undone")).collect();
        assert_eq!(lines, [format!("undone: {}, left by a run that was killed", left.display())], "{said}");
    }
}

/// Kills a run with all that it has started: stopped first, so that none of them cleans up after another.
fn kill_all(child: &mut Child) {
    let below = offspring(child.id());
    below.iter().for_each(|pid| signal(*pid, libc::SIGSTOP));
    signal(child.id(), libc::SIGSTOP);
    below.iter().for_each(|pid| signal(*pid, libc::SIGKILL));
    kill(child);
    all_gone(&below);
}

/// Killed where it has just been recorded, and where it has just been made.
#[test]
fn the_working_folder_of_commands_is_removed_by_the_next_command_when_all_processes_are_killed() {
    for point in ["work-folder-recorded", "work-folder-made"] {
        let bench = Bench::new();
        let temporary = bench.path("temporary");
        fs::create_dir(&temporary).unwrap();
        let mut run = bench.command(&["ab", "true", "true", "--budget", "2s"]);
        run.env("TMPDIR", &temporary).env(STOP_AT, point).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = run.spawn().unwrap();
        let id = child.id();
        one_stopped(&mut child, point, || offspring(id));
        kill_all(&mut child);
        let names = || fs::read_dir(&temporary).unwrap().flatten().map(|entry| entry.file_name()).collect::<Vec<_>>();
        let made = names().iter().any(|name| name.to_str().unwrap().starts_with("baremark-work-"));
        assert_eq!(made, point == "work-folder-made", "{:?}", names());
        let said = text(&bench.command(&["list"]).env("TMPDIR", &temporary).output().unwrap().stderr);
        assert_eq!(names(), [""; 0], "after {point}: {said}");
    }
}

/// A copy of a database, which stayed until the next command of its own kind: killed where its folder has just been recorded, and where work was done on it.
#[test]
fn the_private_folder_of_a_database_is_removed_by_any_next_command_when_all_processes_are_killed() {
    for point in ["folder-recorded", "phase-done"] {
        let bench = Bench::new();
        bench.write("study.toml", study(&bench, "kind = \"oltp-hammer\"\nrows = 1000"));
        // Other folders of a run are here.
        let temporary = bench.path("temporary");
        fs::create_dir(&temporary).unwrap();
        let mut run = bench.command(&["run", "study.toml"]);
        run.env("TMPDIR", &temporary).env(STOP_AT, point).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = run.spawn().unwrap();
        let id = child.id();
        one_stopped(&mut child, point, || [offspring(id), vec![id]].concat());
        kill_all(&mut child);
        let copies = || if bench.path("baremark-data").exists() { left(&bench) } else { Vec::new() };
        assert!(point == "folder-recorded" || !copies().is_empty(), "work was done on a copy");
        let said = text(&bench.command(&["list"]).env("TMPDIR", &temporary).output().unwrap().stderr);
        let others: Vec<_> = fs::read_dir(&temporary).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(copies().is_empty() && others.is_empty(), "after {point}: {:?} {others:?}: {said}", copies());
    }
}
