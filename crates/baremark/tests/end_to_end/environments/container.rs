//! Containers, by the engine that is installed.

use super::{NEVER, Program, as_lab, cpu, lab, print_times, temporary, trial_of, usable, wait_for};
use crate::bench::{Bench, signal, text};
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::container::{Container, Network, Root, Seccomp, Settings};
use baremark_model::site::Environment;
use baremark_model::wire::{FromAgent, WireError};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// Containers and folders that this process has left, in words.
fn left(program: &Program) -> Vec<String> {
    let mut left = program.processes();
    let own = format!("baremark-container-{}-", std::process::id());
    left.extend(temporary().into_iter().filter(|name| name.starts_with(&own)));
    let listed = Command::new("podman").args(["ps", "--all", "--format", "{{.Names}}"]).output().unwrap();
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    left.extend(names.lines().filter(|name| name.starts_with(&own)).map(|name| format!("container {name}")));
    left
}

/// One test after the other: each demands that nothing is left.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_container_conforms() {
    let _alone = ALONE.lock();
    let program = Program::new();
    let container = Container::new(program.path(), Settings::default());
    if !usable(&container) {
        return;
    }
    assert!(!container.emulated(&NEVER));
    let place = Place { cpu: cpu(), patience: Duration::from_secs(20), residue: &|| left(&program) };
    assert_eq!(conformance(&container, &place), Ok(()));
}

#[test]
fn what_is_set_is_what_the_agent_gets() {
    let _alone = ALONE.lock();
    let program = Program::new();
    let settings = Settings {
        cpus: Some(vec![cpu()]),
        memory_bytes: Some(256 << 20),
        seccomp: Seccomp::Off,
        ..Settings::default()
    };
    let container = Container::new(program.path(), settings.clone());
    if !usable(&container) {
        return;
    }
    let facts = |container: &Container| {
        let site = container.start(&NEVER).unwrap();
        let pid = wait_for(|| program.pids().first().copied());
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
        // The program is there as soon as the runtime has become it, with all its limits.
        let (status, devices) = (read("status"), read("net/dev"));
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        let facts = (field("Cpus_allowed_list:"), field("Seccomp:"), field("CapEff:"), devices.lines().count() - 2);
        drop(site);
        facts
    };
    let none = "0000000000000000".to_owned();
    assert_eq!(facts(&container), (cpu().to_string(), "0".to_owned(), none.clone(), 1), "only a loopback");
    let host = Container::new(program.path(), Settings { network: Network::Host, ..Settings::default() });
    let (_, seccomp, capabilities, devices) = facts(&host);
    assert_eq!((seccomp.as_str(), capabilities), ("2", none));
    assert_eq!(devices, fs::read_to_string("/proc/self/net/dev").unwrap().lines().count() - 2);
    let folder = Root::Folder(program.path().parent().unwrap().join("root"));
    fs::create_dir(program.path().parent().unwrap().join("root")).unwrap();
    facts(&Container::new(program.path(), Settings { root: folder, ..settings }));
    assert_eq!(left(&program), [""; 0]);
}

/// What a container finds of itself, a number a line. Memory is tried by a child: it is the one that is killed.
/// CPUs are those of the agent, the first process: a program itself has those of its ranks.
const LOOK: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static long of_status(const char *field) {
    char line[256];
    long found = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, field, strlen(field))) found = atol(line + strlen(field));
    return found;
}
int main(void) {
    char line[1024];
    long devices = -2;
    FILE *net = fopen("/proc/net/dev", "r");
    while (net && fgets(line, sizeof line, net)) devices++;
    pid_t child = fork();
    if (!child) {
        volatile char *memory = malloc(256 << 20);
        for (long byte = 0; byte < 256 << 20; byte += 4096) memory[byte] = 1;
        _exit(0);
    }
    int status = 0;
    cpu_set_t cpus;
    sched_getaffinity(1, sizeof cpus, &cpus);
    waitpid(child, &status, 0);
    printf("cpus %d\nseccomp %ld\ndevices %ld\nheld %d\nmarker %d\n", CPU_COUNT(&cpus),
           of_status("Seccomp:"), devices, !!WIFSIGNALED(status), !access("/marker", F_OK));
    return 0;
}
"#;

/// An image that holds a file by which it is known, until it is dropped.
struct Image(String);

impl Image {
    fn of(folder: &Path) -> Self {
        let name = format!("localhost/baremark-test-{}:latest", std::process::id());
        let tar = folder.with_extension("tar");
        assert!(Command::new("tar").arg("-C").arg(folder).arg("-cf").arg(&tar).arg(".").status().unwrap().success());
        let made = Command::new("podman").arg("import").arg(&tar).arg(&name).output().unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
        Image(name)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        drop(Command::new("podman").args(["rmi", "--force", &self.0]).output());
    }
}

/// Every setting of a study changes what the container itself finds, and nothing else does.
#[test]
fn a_container_finds_what_the_study_has_set() {
    let _alone = ALONE.lock();
    let program = Program::new();
    if !usable(&Container::new(program.path(), Settings::default())) {
        return;
    }
    let bench = Bench::new();
    let source = bench.write("look.c", LOOK);
    let compiled = Command::new("cc").args(["-O1", "-static", "-o"]).arg(bench.path("look")).arg(source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no cc that makes static programs");
        return;
    }
    let root = bench.path("root");
    for folder in ["proc", "sys", "dev", "tmp"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("marker"), "").unwrap();
    let image = Image::of(&root);
    let here = |text: &str| text.lines().count() as f64 - 2.0;
    let all = thread::available_parallelism().unwrap().get() as f64;
    let host = here(&fs::read_to_string("/proc/self/net/dev").unwrap());
    // CPUs, seccomp, network devices, whether memory is held, whether the file is there.
    for (settings, expected) in [
        (String::new(), [all, 2.0, 1.0, 0.0, 0.0]),
        ("seccomp = \"off\"".to_owned(), [all, 0.0, 1.0, 0.0, 0.0]),
        (format!("cpus = [\"{}\"]\nnetwork = \"host\"", cpu()), [1.0, 2.0, host, 0.0, 0.0]),
        (format!("memory = \"64 MiB\"\nimage = \"{}\"", image.0), [all, 2.0, 1.0, 1.0, 1.0]),
        (format!("rootfs = {root:?}"), [all, 2.0, 1.0, 0.0, 1.0]),
    ] {
        let keys = ["cpus", "seccomp", "devices", "held", "marker"];
        let metrics = keys.map(|key| {
            format!("[command.metrics.{key}]\nunit = \"1\"\nbetter = \"higher\"\nregex = '{key} (?<value>[0-9]+)'\n")
        });
        let study = format!(
            "[study]\ntitle = \"a look\"\n[workload]\nkind = \"command\"\ntimeout = \"1 min\"\n[command]\n\
             argv = [\"{{folder}}/look\"]\n[command.bring]\nlook = {:?}\n{}[factors]\nenvironment = \"container\"\n\
             ranks = 1\n[environments.container]\nfresh = \"run\"\n{settings}\n\
             [design]\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"2 min\"\nphase = \"50 ms\"\n",
            bench.path("look"),
            metrics.concat(),
        );
        let study = bench.write("study.toml", study);
        let document = program.document(&bench, &study);
        let rows = document["estimates"].as_array().unwrap();
        let found =
            keys.map(|key| rows.iter().find(|row| row["metric"] == key).and_then(|row| row["estimate"].as_f64()));
        assert_eq!(found, expected.map(Some), "{settings}: {document:#}");
        assert_eq!(left(&program), [""; 0]);
    }
}

#[test]
fn more_memory_than_the_limit_ends_the_agent_and_not_the_lab() {
    let _alone = ALONE.lock();
    let program = Program::new();
    let settings = Settings { memory_bytes: Some(64 << 20), ..Settings::default() };
    let container = Container::new(program.path(), settings);
    if !usable(&container) {
        return;
    }
    let mut site = container.start(&NEVER).unwrap();
    let mut link = site.link().unwrap();
    let answer = trial_of(&mut link, cpu(), 512 << 20);
    assert!(matches!(answer, Err(WireError::Closed) | Ok(FromAgent::Failed { .. })), "{answer:?}");
    drop(site);
    assert_eq!(left(&program), [""; 0]);
}

#[test]
fn a_killed_lab_leaves_no_container_and_the_next_one_its_folder() {
    let _alone = ALONE.lock();
    let program = Program::new();
    if !usable(&Container::new(program.path(), Settings::default())) {
        return;
    }
    let mut lab = lab("environments::container::a_lab_to_be_killed", &program, &[]);
    wait_for(|| program.pids().first().copied());
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    wait_for(|| program.processes().is_empty().then_some(()));
    drop(Container::new(program.path(), Settings::default()).start(&NEVER).unwrap());
    let of_lab = format!("baremark-container-{}-", lab.id());
    let kept: Vec<_> = temporary().into_iter().filter(|name| name.starts_with(&of_lab)).collect();
    assert_eq!((kept, left(&program)), (Vec::new(), Vec::new()));
}

/// No test: what the test above runs as a process of its own.
#[test]
#[ignore = "run by another test"]
fn a_lab_to_be_killed() {
    as_lab(|program| Container::new(program, Settings::default()).start(&NEVER).unwrap());
}

#[test]
fn an_engine_that_is_not_there_is_missing_with_a_remedy() {
    let program = Program::new();
    let missing =
        Container::new(program.path(), Settings::default()).with_engine("/nowhere/podman").probe().unwrap_err();
    assert!(missing.to_string().contains("starting /nowhere/podman: "), "{missing}");
    assert!(missing.remedy.contains("install podman"), "{missing}");
    let missing = Container::new(program.path(), Settings::default()).with_engine("false").probe().unwrap_err();
    assert!(missing.to_string().contains("exit status: 1; see whether `false run` works"), "{missing}");
}

#[test]
#[ignore = "prints how long sites take"]
fn how_long_containers_take() {
    let _alone = ALONE.lock();
    let program = Program::new();
    let container = Container::new(program.path(), Settings::default());
    if usable(&container) {
        print_times(&container, cpu());
    }
}
