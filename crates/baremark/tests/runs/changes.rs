//! What a killed process has changed on this host is undone by the next start.

use crate::common::bench::{Bench, text};
use baremark_journal::{Journal, file, file::Files};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
fn a_start_undoes_what_a_killed_process_left_and_says_so() {
    let bench = Bench::new();
    let state = bench.path("state");
    let run =
        |arguments: &[&str]| -> Output { bench.command(arguments).env("XDG_STATE_HOME", &state).output().unwrap() };
    let left = left_by_a_killed_process(bench.folder.path());
    let doctor = run(&["doctor"]);
    assert!(doctor.status.success());
    assert!(!left.exists());
    assert!(text(&doctor.stderr).contains(&format!("undone: {}", left.display())), "{}", text(&doctor.stderr));
    let doctor = run(&["doctor"]);
    assert!(!text(&doctor.stderr).contains("undone"), "once");
    let left = left_by_a_killed_process(bench.folder.path());
    let ran = run(&["ab", "true", "true", "--budget", "2s", "--quiet"]);
    assert!(!left.exists(), "{}", text(&ran.stderr));
}
