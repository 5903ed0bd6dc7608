//! Programs that fork while they are killed, at ten moments.

use baremark_sys::kill_tree::Family;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Processes that are in a folder.
fn standing(folder: &Path) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| at.starts_with(folder))).collect()
}

#[test]
fn nothing_is_left_of_programs_that_fork_while_they_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    // As a server that a supervisor has started: in a group of its own, with workers that come and go all the time.
    let test = std::process::id();
    let forks = format!("while kill -0 {test}; do (sleep 5; :) & (exec sleep 0.001); done");
    for round in 0..10 {
        let script = format!("setsid sh -c '{forks}' & wait");
        let mut shell = Command::new("/bin/sh");
        let mut root = shell.args(["-c", &script]).current_dir(&folder).process_group(0).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while standing(&folder).len() <= 4 {
            assert!(Instant::now() < deadline, "it does not fork");
            thread::sleep(Duration::from_millis(1));
        }
        let killed = Family::of(root.id(), Path::new("/bin/sh"), &folder).kill(Duration::from_secs(60));
        root.wait().unwrap();
        assert!(killed.is_ok(), "{killed:?}");
        assert_eq!(standing(&folder), Vec::<u32>::new(), "round {round}");
    }
}
