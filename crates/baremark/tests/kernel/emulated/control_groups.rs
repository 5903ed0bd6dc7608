//! Control groups of version 2, mounted alone as on current distributions: limits bind, counters are read, and nothing is left.

use super::stock_guest::{StockGuest, is_inside};
use crate::bench::{Bench, lives, program, text};
use crate::consolidation::doctor;
use baremark_consolidation::quota::{ControlGroups, Quotas};
use baremark_journal::Journal;
use baremark_journal::group::Groups;
use baremark_sys::confine::{Limits, MemoryLimit, hold};
use baremark_sys::control_group::{self, Controller, Version};
use baremark_sys::registry;
use baremark_sys::stall_group::StallGroup;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const ROOT: &str = "/sys/fs/cgroup";
/// Set for the process that is killed.
const OWNER: &str = "BAREMARK_TEST_GROUP_OWNER";
const MEMORY: u64 = 64 << 20;
const KILL: i32 = 9;

/// Boots the guest. Its kernel offers no controller to groups below the first one, as no init system has asked for that.
#[test]
#[ignore = "soak"]
fn soak_control_groups_of_version_2_in_a_guest() {
    let guest = StockGuest {
        modules: &["drivers/net/veth.ko", "net/bridge", "net/llc", "net/802", "net/sched"],
        programs: &[(Path::new(env!("CARGO_BIN_EXE_baremark")), env!("CARGO_BIN_EXE_baremark"))],
        prepare: "mount -t cgroup2 none /sys/fs/cgroup\nmodprobe bridge\nmodprobe veth",
        tests: "emulated::control_groups::in_the_guest farms::nothing_is_left_of_a_farm",
        disk_bytes: 256 << 20,
    };
    let Some(shown) = guest.run() else { return };
    let passed = shown.lines().find(|line| line.starts_with("test result: ok. ")).unwrap();
    assert!(passed.starts_with("test result: ok. 7 passed;"), "{shown}");
}

/// The groups below the first one, and what it offers them.
fn state() -> (Vec<PathBuf>, String) {
    let folders = fs::read_dir(ROOT).unwrap().flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    (folders.collect(), fs::read_to_string(Path::new(ROOT).join("cgroup.subtree_control")).unwrap())
}

/// A line of a file of counters, such as `usage_usec 12`.
fn counter(group: &Path, file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(group.join(file)).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

/// The group of a process, by its number.
fn group_of(pid: u32) -> PathBuf {
    Path::new(ROOT).join(control_group::group_of(pid).unwrap().trim_start_matches('/'))
}

fn limited(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn memory() -> Limits {
    Limits { memory_bytes: Some(MEMORY), ..Limits::default() }
}

#[test]
#[ignore = "runs inside the guest of a soak test"]
fn in_the_guest_version_2_alone_is_there_and_used() {
    if !is_inside() {
        return;
    }
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let groups: Vec<&str> = mounts.lines().filter(|line| line.contains("cgroup")).collect();
    assert!(groups.len() == 1 && groups[0].contains(" /sys/fs/cgroup cgroup2 "), "{groups:?}");
    for controller in [Controller::Memory, Controller::Cpu] {
        assert_eq!(control_group::interface(controller), Some(Version::Two), "{controller:?}");
        assert!(control_group::roots(controller).iter().all(|root| root.version == Version::Two));
    }
    let said = text(&doctor(&Bench::new()).stdout);
    assert!(said.contains("version 2, for memory and CPU time"), "{said}");
    println!("guest: {}", said.lines().find(|line| line.contains("control groups")).unwrap());
}

#[test]
#[ignore = "runs inside the guest of a soak test"]
fn in_the_guest_memory_is_limited_counted_and_released() {
    if !is_inside() {
        return;
    }
    let before = state();
    // tail keeps a line that never ends; the shell begins when it is told to.
    let mut command = limited("read -r go; head -c 400000000 /dev/zero | tail -c 399999999 >/dev/null; read -r end");
    let held = hold(&mut command, &memory(), KILL).unwrap();
    assert_eq!(held.memory, MemoryLimit::ControlGroup);
    let mut child = command.spawn().unwrap();
    let group = group_of(child.id());
    assert_eq!(fs::read_to_string(group.join("memory.max")).unwrap().trim(), MEMORY.to_string());
    let stalls = StallGroup::of(child.id()).expect("PSI counts by group");
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"go\n").unwrap();
    let began = Instant::now();
    while counter(&group, "memory.events", "oom_kill") == 0 {
        assert!(began.elapsed().as_secs() < 60 && child.try_wait().unwrap().is_none(), "nothing was killed");
        std::thread::yield_now();
    }
    let peak: u64 = fs::read_to_string(group.join("memory.peak")).unwrap().trim().parse().unwrap();
    assert!(peak <= MEMORY, "{peak}");
    let counted = stalls.stalls().expect("counted");
    println!("guest: killed at {peak} B of {MEMORY}, stalls {counted:?}");
    assert!(group_of(child.id()) == group, "counted by the group that limits");
    // The shell still lives, and something that has left its session.
    drop((stalls, held));
    assert!(!group.exists());
    assert!(!child.wait().unwrap().success());
    assert_eq!(state(), before, "no group is left, and no controller is offered");
}

/// The journal of whoever is killed, and of who recovers.
fn changes() -> Journal {
    let folder = PathBuf::from(std::env::var_os(OWNER).unwrap());
    Journal::open(folder.join("changes"), vec![Box::new(ControlGroups), Box::new(Groups)]).unwrap()
}

/// Started by the next test: its child leaves its session, and is not reached when this process is killed.
#[test]
#[ignore = "run by another test"]
fn owner() {
    if std::env::var_os(OWNER).is_none() {
        return;
    }
    registry::install(|made| changes().record(made));
    let mut command = limited("setsid sleep 1000 >/dev/null 2>&1 & echo left $!; read -r end");
    let held = hold(&mut command, &memory(), KILL).unwrap();
    let mut child = command.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    eprintln!("{} {}", said.trim(), group_of(child.id()).display());
    let _kept = (child, held);
    loop {
        std::thread::park();
    }
}

#[test]
#[ignore = "runs inside the guest of a soak test"]
fn in_the_guest_the_next_start_ends_what_a_killed_owner_has_left() {
    if !is_inside() {
        return;
    }
    let (before, folder) = (state(), tempfile::tempdir().unwrap());
    let mut owner = Command::new(std::env::current_exe().unwrap());
    owner.args(["--exact", "--ignored", "emulated::control_groups::owner", "--nocapture"]).env(OWNER, folder.path());
    let mut owner = owner.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(owner.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find_map(|line| line.strip_prefix("left ").map(str::to_owned)).expect("it holds a group");
    let (left, group) = line.split_once(' ').unwrap();
    let (left, group) = (left.parse::<u32>().unwrap(), Path::new(group));
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(group.exists() && lives(left), "a kill leaves both");
    let journal = Journal::open(folder.path().join("changes"), vec![Box::new(Groups)]).unwrap();
    let recovery = journal.recover().unwrap();
    assert_eq!(recovery.undone, [format!("control group {}", group.display())], "{recovery:?}");
    assert!(!group.exists() && !lives(left), "{line}");
    assert_eq!(state(), before, "the controller is taken back, too");
}

#[test]
#[ignore = "runs inside the guest of a soak test"]
fn in_the_guest_cpu_time_is_limited_and_the_controller_is_taken_back() {
    if !is_inside() {
        return;
    }
    let before = state();
    let folder = tempfile::tempdir().unwrap();
    let journal = || Journal::open(folder.path().join("changes"), vec![Box::new(ControlGroups)]).unwrap();
    let mut quotas = Quotas::new(&journal(), 0.2).unwrap().expect("a quota can be set");
    let processes = quotas.group().unwrap();
    let group = processes.parent().unwrap().to_owned();
    assert_eq!(fs::read_to_string(group.join("cpu.max")).unwrap(), "20000 100000\n");
    let mut child = limited("read -r go; while :; do :; done").spawn().unwrap();
    fs::write(&processes, child.id().to_string()).unwrap();
    let mut input = child.stdin.take().unwrap();
    let began = Instant::now();
    std::io::Write::write_all(&mut input, b"go\n").unwrap();
    while counter(&group, "cpu.stat", "nr_throttled") < 20 {
        assert!(began.elapsed().as_secs() < 60, "{}", fs::read_to_string(group.join("cpu.stat")).unwrap());
        std::thread::yield_now();
    }
    let used = counter(&group, "cpu.stat", "usage_usec") as f64 / 1e6;
    let share = used / began.elapsed().as_secs_f64();
    println!("guest: {share:.3} of a CPU at a quota of 0.2");
    assert!(share > 0.05 && share < 0.3, "{share}");
    // Its process lives when the group goes.
    drop(quotas);
    assert!(!child.wait().unwrap().success());
    assert_eq!(state(), before);
}

#[test]
#[ignore = "runs inside the guest of a soak test"]
fn in_the_guest_a_study_of_a_command_runs_under_observers() {
    if !is_inside() {
        return;
    }
    let before = state();
    let bench = Bench::new();
    bench.write(
        "study.toml",
        "[study]\ntitle = \"a command\"\n[workload]\nkind = \"command\"\ntimeout = \"60 s\"\n\
         [command]\nargv = [\"sh\", \"-c\", \"i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done\"]\n\
         [factors]\nenvironment = \"native\"\nranks = [1, 2]\n\
         [design]\nquads = 1\nleast_blocks = 2\nmost_blocks = 2\nbudget = \"4 min\"\n[report]\nratio_to = { ranks = 1 }\n",
    );
    let mut run = bench.command(&["run", "study.toml", "--json"]);
    let mut child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    let document: serde_json::Value = serde_json::from_str(&said).unwrap_or_else(|why| panic!("{why}: {said}"));
    let trials = document["trials"].as_array().unwrap();
    let fine = trials.iter().filter(|trial| trial["status"] == "ok").count();
    assert!(status.success() && fine >= 2, "{status}: {document:#}");
    assert!(document["estimates"].as_array().unwrap().len() >= 2, "{document:#}");
    println!("guest: {fine} trials of {} ({})", trials.len(), program().display());
    assert_eq!(state(), before);
}

/// /proc, and tracepoints where the kernel has them all, name a container by the last part of its group's path.
#[test]
#[ignore = "runs inside the guest of a soak test"]
fn in_the_guest_observers_know_a_container_by_its_group() {
    if !is_inside() {
        return;
    }
    let (bench, id) = (Bench::new(), "0123456789abcdef".repeat(4));
    let group = Path::new(ROOT).join(format!("libpod-{id}.scope"));
    fs::create_dir(&group).unwrap();
    let write = "while :; do dd if=/dev/zero of=/data/written bs=4k count=64 conv=fsync 2>/dev/null; done";
    let mut child = limited(&format!("read -r go; {write}")).spawn().unwrap();
    fs::write(group.join("cgroup.procs"), child.id().to_string()).unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"go\n").unwrap();
    let traced = bench.json(&["histograms", "--disk", "--json", "--duration", "3 s"]);
    match traced["processes"].as_array() {
        Some(rows) => assert!(rows.iter().any(|row| row["container"] == id[..12]), "{traced:#}"),
        // Before Linux 6.5 the kernel has no event for the end of an I/O.
        None => println!("guest: not traced: {}", traced["not_available"]),
    }
    let top = bench.run(&["top", "--rows", "--batch", "json", "--interval", "1 s", "--count", "2"]);
    let last: serde_json::Value = serde_json::from_str(text(&top.stdout).lines().last().unwrap()).unwrap();
    let row = last["rows"].as_array().unwrap().iter().find(|row| row["kind"] == "container").cloned();
    let row = row.unwrap_or_else(|| panic!("{last:#}"));
    assert!(row["id"].as_str().is_some_and(|shown| id.starts_with(shown)) && row["cpu_ns"].as_u64() > Some(0), "{row}");
    println!("guest: container {} used {} ns of CPU time", row["id"], row["cpu_ns"]);
    control_group::end(&group).unwrap();
    assert!(!child.wait().unwrap().success());
}
