//! Groups that hold memory, and groups that count stalls.

use baremark_sys::confine::{Limits, MemoryLimit, hold, send};
use baremark_sys::control_group::{group_of, unified};
use baremark_sys::stall_group::StallGroup;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const SIGKILL: i32 = 9;

/// A shell that first prints the groups in which it is, with a limit on memory; nothing, which is printed, where no group can be made.
fn run(script: &str) -> Option<(baremark_sys::confine::Held, std::process::Output)> {
    let limits = Limits { memory_bytes: Some(64 << 20), ..Limits::default() };
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("cat /proc/self/cgroup; {script}"));
    let held = hold(&mut command, &limits, SIGKILL).unwrap();
    if held.memory != MemoryLimit::ControlGroup {
        println!("skipped: no control group can be made here");
        return None;
    }
    let output = command.output().unwrap();
    Some((held, output))
}

/// The folder of the group of ours among those that a process has printed.
fn group(printed: &str) -> PathBuf {
    let ours = printed.lines().find(|line| line.contains("/baremark-memory-")).unwrap_or_else(|| panic!("{printed}"));
    let (hierarchy, path) = ours.rsplit_once(':').unwrap();
    let mount = if hierarchy == "0:" { unified().unwrap() } else { std::path::Path::new("/sys/fs/cgroup/memory") };
    mount.join(path.trim_start_matches('/'))
}

#[test]
fn too_much_memory_is_refused_and_its_group_goes() {
    // tail keeps a line that never ends.
    let Some((held, output)) = run("head -c 400000000 /dev/zero | tail -c 399999999 > /dev/null") else { return };
    assert!(!output.status.success(), "{output:?}");
    let group = group(&String::from_utf8(output.stdout).unwrap());
    assert!(group.exists());
    drop(held);
    assert!(!group.exists());
}

#[test]
fn what_a_child_leaves_in_its_group_ends_with_the_group() {
    // In a session of its own, so that neither a process group nor a parent leads to it.
    let Some((held, output)) = run("setsid sleep 1000 >&- 2>&- & echo $!") else { return };
    let said = String::from_utf8(output.stdout).unwrap();
    let (group, left) = (group(&said), said.lines().last().unwrap());
    let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap();
    if !listed.lines().any(|pid| pid == left) {
        send(left.parse().unwrap(), SIGKILL).unwrap();
        panic!("{left} is not in its group: {listed}");
    }
    drop(held);
    assert!(!group.exists());
    let state = fs::read_to_string(format!("/proc/{left}/stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
}

#[test]
fn a_process_has_a_group_that_counts_its_stalls_and_goes_after_it() {
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let group = StallGroup::of(child.id());
    let inside = group_of(child.id());
    let seen = group.as_ref().map(StallGroup::stalls);
    child.kill().and_then(|()| child.wait()).unwrap();
    let Some(group) = group else {
        return println!("skipped: no control group of version 2 that counts stalls can be made here");
    };
    let inside = inside.unwrap();
    assert!(inside.contains("/baremark-stalls-"), "{inside}");
    assert!(seen.flatten().is_some(), "its stalls are counted");
    let path = unified().unwrap().join(inside.trim_start_matches('/'));
    assert!(path.exists());
    drop(group);
    assert!(!path.exists());
}
