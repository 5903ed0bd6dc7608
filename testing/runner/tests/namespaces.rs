//! Private namespaces of tests of the tier `systems`. Needs root; without it the runner uses none, and these are skipped.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::allow_attributes, missing_docs, reason = "a test crate")]

use std::fs;
use std::process::Command;

fn apart(script: &str) -> Option<String> {
    let (own, inside) = (namespace(None), "readlink /proc/self/ns/net");
    let mut command = Command::new(env!("CARGO_BIN_EXE_test-runner"));
    let output = command
        .args(["supervise", "apart", "600", "60", "sh", "-c", &format!("{inside} && {script}")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let (net, rest) = said.split_once('\n').unwrap();
    if net == own {
        eprintln!("skipped: namespaces are not permitted here");
        return None;
    }
    Some(rest.to_owned())
}

fn namespace(path: Option<&str>) -> String {
    fs::read_link(path.unwrap_or("/proc/self/ns/net")).unwrap().to_string_lossy().into_owned()
}

#[test]
fn a_test_has_processes_mounts_and_a_network_of_its_own() {
    let Some(said) = apart(
        "ls -d /proc/[0-9]* | wc -l; ls /sys/class/net; cat /sys/class/net/lo/operstate; ls /sys/fs | grep cgroup",
    ) else {
        return;
    };
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].parse::<u32>().unwrap() < 10, "{said}");
    assert!(lines[1..].contains(&"lo") && lines.contains(&"cgroup") && !lines.contains(&"down"), "{said}");
}

#[test]
fn what_it_writes_to_run_and_shared_memory_is_its_own() {
    let name = format!("bm-{}", std::process::id());
    let script =
        format!("mkdir /run/{name} && touch /dev/shm/{name} && ls -d /run/{name} /dev/shm/{name} && ls /dev/shm");
    let Some(said) = apart(&script) else { return };
    assert_eq!(said, format!("/dev/shm/{name}\n/run/{name}\n{name}\n"));
    for folder in ["/run", "/dev/shm"] {
        assert!(!fs::exists(format!("{folder}/{name}")).unwrap());
    }
}

#[test]
fn control_groups_are_those_of_the_machine() {
    let own = fs::read_dir("/sys/fs/cgroup").map(|entries| entries.flatten().count()).unwrap_or_default();
    let Some(said) = apart("ls -A /sys/fs/cgroup 2>/dev/null | wc -l") else { return };
    assert_eq!(said.trim().parse::<usize>().unwrap(), own);
}
