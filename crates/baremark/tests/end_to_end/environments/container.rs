//! Containers, by the engine that is installed.

use super::{NEVER, Program, as_lab, cpu, lab, print_times, temporary, trial_of, usable, wait_for};
use crate::bench::{Bench, signal, text};
use crate::turns::{System, Turn, turn_with};
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::container::{Container, Network, Root, Seccomp, Settings};
use baremark_model::site::Environment;
use baremark_model::wire::{FromAgent, WireError};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
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

/// One test after the other, those of docker too: each demands that nothing of this process's containers is left.
pub fn alone() -> Arc<Turn> {
    turn_with(&[System::Containers])
}

/// The program, with no other test alongside; `None` where no container can be had.
fn containers() -> Option<(Arc<Turn>, Program)> {
    let (alone, program) = (alone(), Program::new());
    usable(&Container::new(program.path(), Settings::default())).then_some((alone, program))
}

#[test]
fn a_container_conforms() {
    let _alone = alone();
    let program = Program::new();
    let container = Container::new(program.path(), Settings::default());
    if !usable(&container) {
        return;
    }
    assert!(!container.emulated(&NEVER));
    let place = Place { cpu: cpu(), patience: Duration::from_secs(60), residue: &|| left(&program) };
    assert_eq!(conformance(&container, &place), Ok(()));
}

#[test]
fn what_is_set_is_what_the_agent_gets() {
    let _alone = alone();
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
        let pid = wait_for(|| program.agents().first().copied());
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
    let ((_, seccomp, capabilities, devices), range) = while_counting_devices(|| facts(&host));
    assert_eq!((seccomp.as_str(), capabilities), ("2", none));
    // Just as many as there are: other tests make bridges and links on this machine.
    assert!((range.0..=range.1).contains(&(devices as f64)), "{devices} of {range:?}");
    let folder = Root::Folder(program.path().parent().unwrap().join("root"));
    fs::create_dir(program.path().parent().unwrap().join("root")).unwrap();
    facts(&Container::new(program.path(), Settings { root: folder, ..settings }));
    assert_eq!(left(&program), [""; 0]);
}

/// What a container finds of itself, a number a line. Memory is tried by a child: it is the one that is killed.
/// CPUs are those of the agent, the first process: a program itself has those of its ranks.
const LOOK: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
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
static int reached(const char *address, const char *port) {
    struct sockaddr_in there = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
    inet_aton(address, &there.sin_addr);
    return !connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&there, sizeof there);
}
int main(int argc, char **argv) {
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
    printf("machine %d\nloopback %d\n", argc > 2 && reached(argv[1], argv[2]), argc > 2 && reached("127.0.0.1", argv[3]));
    return 0;
}
"#;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// An address of this machine that others know it by.
fn own_address() -> Option<IpAddr> {
    // Nothing is sent: the kernel says only from where it would be. The range is set apart for benchmarks.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("198.18.0.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// An image of an engine that holds a file by which it is known, until it is dropped.
pub struct Image {
    engine: PathBuf,
    pub name: String,
}

impl Image {
    pub fn of(folder: &Path, engine: &Path) -> Self {
        let name = format!("localhost/baremark-test-{}:latest", std::process::id());
        let tar = folder.with_extension("tar");
        assert!(Command::new("tar").arg("-C").arg(folder).arg("-cf").arg(&tar).arg(".").status().unwrap().success());
        let made = Command::new(engine).arg("import").arg(&tar).arg(&name).output().unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
        Image { engine: engine.to_owned(), name }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        drop(Command::new(&self.engine).args(["rmi", "--force", &self.name]).output());
    }
}

/// Has containers look at themselves, and at this machine from where they are.
pub struct Look<'p> {
    program: &'p Program,
    bench: Bench,
    /// The address by which others know this machine, where it has one.
    known: Option<IpAddr>,
    /// There, and at its loopback, this machine listens.
    outside: TcpListener,
    inside: TcpListener,
}

/// What is found: CPUs, seccomp, network devices, whether memory is held, whether the file is there, what is reached.
const FOUND: [&str; 7] = ["cpus", "seccomp", "devices", "held", "marker", "machine", "loopback"];

impl<'p> Look<'p> {
    /// `None`, with the reason printed, where the program that looks cannot be made.
    pub fn new(program: &'p Program) -> Option<Self> {
        let bench = Bench::new();
        let source = bench.write("look.c", LOOK);
        let compiled = Command::new("cc").args(["-O1", "-static", "-o"]).arg(bench.path("look")).arg(source).status();
        if !compiled.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no cc that makes static programs");
            return None;
        }
        let known = own_address();
        let listen = |address: IpAddr| TcpListener::bind((address, 0)).unwrap();
        let (outside, inside) = (listen(known.unwrap_or(LOOPBACK)), listen(LOOPBACK));
        outside.set_nonblocking(true).unwrap();
        Some(Look { program, bench, known, outside, inside })
    }

    /// A folder with the file in it.
    pub fn root(&self) -> PathBuf {
        let root = self.bench.path("root");
        for folder in ["proc", "sys", "dev", "tmp"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("marker"), "").unwrap();
        root
    }

    /// Demands that a container of these settings finds just that, with `told` in the lab's own environment.
    pub fn finds(&self, settings: &str, expected: [f64; 7], told: &[(&str, &str)]) {
        let Look { bench, program, known, outside, inside } = self;
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port().to_string();
        let metrics = FOUND.map(|key| {
            format!("[command.metrics.{key}]\nunit = \"1\"\nbetter = \"higher\"\nregex = '{key} (?<value>[0-9]+)'\n")
        });
        let study = format!(
            "[study]\ntitle = \"a look\"\n[workload]\nkind = \"command\"\ntimeout = \"1 min\"\n[command]\n\
             argv = {:?}\n[command.bring]\nlook = {:?}\n{}[factors]\nenvironment = \"container\"\n\
             ranks = 1\n[environments.container]\nfresh = \"run\"\n{settings}\n\
             [design]\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"2 min\"\nphase = \"50 ms\"\nquads = 1\n",
            ["{folder}/look", &known.unwrap_or(LOOPBACK).to_string(), &port(outside), &port(inside)],
            bench.path("look"),
            metrics.concat(),
        );
        let study = bench.write("study.toml", study);
        let (document, devices) = while_counting_devices(|| program.document_with(bench, &study, told));
        let rows = document["estimates"].as_array().unwrap();
        let found =
            FOUND.map(|key| rows.iter().find(|row| row["metric"] == key).and_then(|row| row["estimate"].as_f64()));
        let mut expected = expected.map(Some);
        if settings.contains("network = \"host\"") {
            // Just as many as there are: other tests make bridges and links on this machine, and the container sees those too.
            assert!(found[2].is_some_and(|seen| (devices.0..=devices.1).contains(&seen)), "{found:?}, {devices:?}");
            expected[2] = found[2];
        }
        assert_eq!(found, expected, "{settings}: {document:#}");
        // What comes over a bridge comes from an address of its own, all else from this machine's.
        let came: Vec<IpAddr> = std::iter::from_fn(|| outside.accept().ok()).map(|(_, address)| address.ip()).collect();
        let bridged = settings.contains("bridge");
        assert!(came.iter().all(|address| (Some(*address) != *known) == bridged), "{settings}: {came:?}");
        assert_eq!(came.is_empty(), expected[5] == Some(0.0), "{settings}");
        let mut about = fs::read_dir(bench.folder.path()).unwrap().flatten().map(|entry| entry.file_name());
        assert!(about.all(|name| name != "oom"), "{settings}: nothing is left where the user stands");
    }
}

/// This machine's network devices.
fn devices() -> f64 {
    fs::read_to_string("/proc/self/net/dev").unwrap().lines().count() as f64 - 2.0
}

/// Runs something; with its result come the fewest and the most network devices that this machine had meanwhile.
fn while_counting_devices<T>(run: impl FnOnce() -> T) -> (T, (f64, f64)) {
    let (done, over) = std::sync::mpsc::channel::<()>();
    thread::scope(|scope| {
        let counting = scope.spawn(move || {
            let mut range = (devices(), devices());
            // Each pause ends at once when the run has ended.
            while over.recv_timeout(Duration::from_millis(20)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let now = devices();
                range = (range.0.min(now), range.1.max(now));
            }
            range
        });
        let result = run();
        drop(done);
        (result, counting.join().unwrap())
    })
}

/// The CPUs that there are, and this machine's network devices.
pub fn all_and_devices() -> (f64, f64) {
    (thread::available_parallelism().unwrap().get() as f64, devices())
}

/// Every setting of a study changes what the container itself finds, and nothing else does.
#[test]
fn a_container_finds_what_the_study_has_set() {
    let Some((_alone, program)) = containers() else { return };
    let Some(look) = Look::new(&program) else { return };
    let root = look.root();
    let image = Image::of(&root, Path::new("podman"));
    let (all, host) = all_and_devices();
    let mut places = vec![
        (String::new(), [all, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        ("seccomp = \"off\"".to_owned(), [all, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        (format!("cpus = [\"{}\"]\nnetwork = \"host\"", cpu()), [1.0, 2.0, host, 0.0, 0.0, 1.0, 1.0]),
        (format!("memory = \"64 MiB\"\nimage = \"{}\"", image.name), [all, 2.0, 1.0, 1.0, 1.0, 0.0, 0.0]),
        (format!("rootfs = {root:?}"), [all, 2.0, 1.0, 0.0, 1.0, 0.0, 0.0]),
    ];
    let bridge = Settings { network: Network::Bridge, ..Settings::default() };
    match look.known {
        // Its own loopback and the bridge's end; this machine, but none of what it keeps to itself.
        Some(_) if usable(&Container::new(program.path(), bridge)) => {
            places.push(("network = \"bridge\"".to_owned(), [all, 2.0, 2.0, 0.0, 0.0, 1.0, 0.0]));
        }
        Some(_) => {}
        None => eprintln!("skipped: a bridge: this machine has no address that a container could reach"),
    }
    for (settings, expected) in places {
        look.finds(&settings, expected, &[]);
        assert_eq!(left(&program), [""; 0]);
    }
}

/// The same programs as natively, by this machine's own files, which stay as they are.
#[test]
fn a_container_of_this_machines_files_runs_its_programs_and_changes_none() {
    let Some((_alone, program)) = containers() else { return };
    let bench = Bench::new();
    let marker = format!("/var/tmp/baremark-container-{}", std::process::id());
    let shell = format!("python3 -c 'print(6 * 7)'; echo changed > {marker}; cat {marker}");
    let study = |place: &str| {
        format!(
            "[study]\ntitle = \"host's files\"\n[workload]\nkind = \"command\"\n[command]\nargv = [\"sh\", \"-c\", {shell:?}]\n\
             [command.metrics.answer]\nunit = \"1\"\nbetter = \"higher\"\nregex = '(?<value>[0-9]+)\\nchanged'\n\
             [factors]\nenvironment = \"container\"\nranks = 1\n[environments.container]\n{place}\nfresh = \"run\"\n\
             [design]\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"2 min\"\nphase = \"50 ms\"\nquads = 1\n"
        )
    };
    let document = program.document(&bench, &bench.write("study.toml", study("rootfs = \"host\"")));
    let rows = document["estimates"].as_array().unwrap();
    let answer = rows.iter().find(|row| row["metric"] == "answer").and_then(|row| row["estimate"].as_f64());
    assert_eq!(answer, Some(42.0), "{document:#}");
    assert!(!Path::new(&marker).exists(), "the container changed this machine's files");
    assert_eq!(left(&program), [""; 0]);
    let bare = bench.write("bare.toml", study("rootfs = \"/\""));
    let refused = bench.run(&["run", bare.to_str().unwrap()]);
    let why = text(&refused.stderr);
    assert!(why.contains("would let the container change this machine's own files; write \"host\""), "{why}");
    assert_eq!(refused.status.code(), Some(2), "{why}");
}

/// One study has containers of different settings next to each other, each under its name.
#[test]
fn containers_of_two_settings_stand_beside_each_other_in_one_study() {
    let Some((_alone, program)) = containers() else { return };
    let Some(Look { bench, .. }) = Look::new(&program) else { return };
    let study = format!(
        "[study]\ntitle = \"two containers\"\n[workload]\nkind = \"command\"\ntimeout = \"1 min\"\n[command]\n\
         argv = [\"{{folder}}/look\"]\n[command.bring]\nlook = {:?}\n[command.metrics.seccomp]\nunit = \"1\"\n\
         better = \"higher\"\nregex = 'seccomp (?<value>[0-9]+)'\n[command.metrics.held]\nunit = \"1\"\n\
         better = \"higher\"\nregex = 'held (?<value>[0-9]+)'\n\
         [factors]\nenvironment = [\"container\", \"unfiltered\"]\nranks = 1\n\
         [environments.unfiltered]\nlike = \"container\"\nseccomp = \"off\"\n\
         [environments.container]\nmemory = \"64 MiB\"\nfresh = \"run\"\n\
         [design]\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"2 min\"\nphase = \"50 ms\"\nquads = 1\n",
        bench.path("look"),
    );
    let document = program.document(&bench, &bench.write("study.toml", study));
    let rows = document["estimates"].as_array().unwrap();
    for (place, seccomp) in [("container", 2.0), ("unfiltered", 0.0)] {
        let of = |metric: &str| {
            let row = rows.iter().find(|row| row["metric"] == metric && row["treatment"]["environment"] == place);
            row.and_then(|row| row["estimate"].as_f64())
        };
        assert_eq!((of("seccomp"), of("held")), (Some(seccomp), Some(1.0)), "{place}: {document:#}");
    }
    for (row, name, seccomp) in [(0, "container", "on"), (1, "unfiltered", "off")] {
        let used = &document["run"]["environments"][row];
        assert_eq!((&used["name"], &used["place"]), (&name.into(), &"container".into()));
        let settings = (&used["settings"]["seccomp"], &used["settings"]["memory"], &used["settings"]["network"]);
        assert_eq!(settings, (&seccomp.into(), &"64 MiB".into(), &"none".into()), "{used}");
    }
    let report = text(&bench.run(&["report", "--details"]).stdout);
    assert!(report.contains("  unfiltered: container with seccomp = off."), "{report}");
    let places = report.lines().find_map(|line| line.strip_prefix("  places ")).map(str::trim);
    assert_eq!(places, Some("container: fresh = run, memory = 64 MiB"), "{report}");
    let seen = |place: &str| document["observed"]["rows"].to_string().contains(&format!("\"place\":\"{place}\""));
    assert!(seen("container") && seen("unfiltered"), "each is observed where it is: {}", document["observed"]);
    assert_eq!(left(&program), [""; 0]);
}

/// The shipped study of the filter of system calls, shrunk.
#[test]
fn the_study_of_the_filter_has_both_containers_beside_native() {
    let Some((_alone, program)) = containers() else { return };
    let shipped = include_str!("../../../../../studies/seccomp.toml");
    let shrunk = shipped.replace("budget = \"3 min\"", "budget = \"2 min\"\nleast_blocks = 4\nmost_blocks = 4");
    assert_ne!(shrunk, shipped);
    let bench = Bench::new();
    let document = program.document(&bench, &bench.write("study.toml", shrunk));
    let estimates = document["estimates"].as_array().unwrap();
    for workload in ["syscall", "fw", "fma"] {
        for place in ["native", "container", "unfiltered"] {
            let of = |row: &&serde_json::Value| {
                row["treatment"]["workload"] == workload && row["treatment"]["environment"] == place
            };
            assert!(
                estimates.iter().find(of).is_some_and(|row| row["estimate"].as_f64() > Some(0.0)),
                "{workload} {place}"
            );
        }
    }
    let why = document["explanations"].to_string();
    assert!(why.contains("overhead that computing alone does not explain"), "{why}");
    assert!(why.contains("speedup over container by its own settings"), "{why}");
    assert_eq!(left(&program), [""; 0]);
}

/// The shipped study of single-row statements, shrunk: the embedded database needs no files but this program.
#[test]
fn a_database_in_a_container_answers_beside_native() {
    let Some((_alone, program)) = containers() else { return };
    let bench = Bench::new();
    let mut study = include_str!("../../../../../studies/oltp-hammer.toml").to_owned();
    let data = format!("duration = \"200 ms\"\ndata = {:?}", bench.path("data"));
    for (shipped, shrunk) in [
        ("rows = 100000", "rows = 1000"),
        ("duration = \"10 s\"", data.as_str()),
        ("warm_up = \"2 s\"", "warm_up = \"50 ms\""),
        ("ranks = [1, 2, 4, 8]", "ranks = [1]"),
        ("least_blocks = 5", "least_blocks = 2\nmost_blocks = 2"),
    ] {
        assert!(study.contains(shipped), "{shipped}");
        study = study.replace(shipped, shrunk);
    }
    study += "[environments.container]\nfresh = \"run\"\n";
    let document = program.document(&bench, &bench.write("study.toml", study));
    let of = |row: &&serde_json::Value, metric: &str, place: &str| {
        row["metric"] == metric && row["treatment"]["environment"] == place
    };
    for place in ["native", "container"] {
        for metric in ["tx_per_s", "cpu_us_per_tx", "server_context_switches_per_s"] {
            let row = document["estimates"].as_array().unwrap().iter().find(|row| of(row, metric, place));
            let value = row.and_then(|row| row["estimate"].as_f64());
            assert!(value > Some(0.0), "{metric} of {place}: {value:?}");
        }
    }
    let ratios = document["ratios"].as_array().unwrap();
    let ratio = ratios.iter().find(|row| of(row, "tx_per_s", "container")).and_then(|row| row["ratio"].as_f64());
    assert!(ratio > Some(0.0), "{ratios:#?}");
    let trials = document["trials"].as_array().unwrap();
    assert!(trials.len() == 4 && trials.iter().all(|trial| trial["status"] == "ok"), "{trials:#?}");
    // What the container loaded went with it.
    let kept: Vec<_> = fs::read_dir(bench.path("data")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(matches!(&kept[..], [name] if name.to_string_lossy().starts_with("sqlite-oltp-hammer-")), "{kept:?}");
    assert_eq!(left(&program), [""; 0]);
}

/// Without what the engine makes bridges with, which is a program of somebody else's, other containers still run.
#[test]
fn an_engine_that_can_make_no_bridge_says_so_and_not_that_it_does_not_work() {
    let Some((_alone, program)) = containers() else { return };
    let bench = Bench::new();
    let found = Command::new("which").arg("podman").output().unwrap();
    fs::create_dir(bench.path("only")).unwrap();
    std::os::unix::fs::symlink(text(&found.stdout).trim(), bench.path("only/podman")).unwrap();
    let planned = |network: &str| {
        let study = format!(
            "[study]\ntitle = \"a bridge\"\n[workload]\nkind = \"random-access\"\ntable = \"1 MiB\"\n\
             [factors]\nenvironment = [\"native\", \"container\"]\nranks = 1\n\
             [environments.container]\nnetwork = \"{network}\"\n[design]\nphase = \"50 ms\"\nquads = 1\nbudget = \"1 min\"\n"
        );
        let study = bench.write("study.toml", study);
        let mut command = bench.command(&["plan", study.to_str().unwrap()]);
        let output = command.env("PATH", bench.path("only")).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let without = planned("none");
    if without.contains("containers cannot be started") {
        eprintln!("skipped: podman alone cannot start containers here");
        return;
    }
    assert!(!without.contains("bridge:"), "{without}");
    let said = planned("bridge");
    assert!(said.contains("containers can be started here, but none on a bridge: exit status: "), "{said}");
    assert!(
        said.contains("install what it makes bridges with (Debian: netavark and iptables), or write network"),
        "{said}"
    );
    assert_eq!(left(&program), [""; 0]);
}

#[test]
fn an_engine_that_has_no_such_image_or_folder_names_it() {
    let _alone = alone();
    let program = Program::new();
    let of = |root| Container::new(program.path(), Settings { root, ..Settings::default() });
    if !usable(&of(Root::Program)) {
        return;
    }
    // No registry serves this name: nothing is asked of a network.
    let missing = of(Root::Image("containers-storage:nosuch".to_owned())).probe().unwrap_err().to_string();
    let expected =
        "containers can be started here, but none of the image containers-storage:nosuch: exit status: 125: ";
    assert!(missing.starts_with(expected), "{missing}");
    assert!(missing.ends_with("; give an image that it has or can fetch"), "{missing}");
    let missing = of(Root::Folder("/nowhere/root".into())).probe().unwrap_err().to_string();
    let expected = "containers can be started here, but none of the folder /nowhere/root: exit status: 125: ";
    assert!(missing.starts_with(expected), "{missing}");
    assert!(missing.ends_with("; give a folder that holds a system's files"), "{missing}");
    assert_eq!(left(&program), [""; 0]);
}

#[test]
fn more_memory_than_the_limit_ends_the_agent_and_not_the_lab() {
    let _alone = alone();
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

/// The engine's own name of the container in which a process runs, by its control group; `None` while it has none.
fn id_of(pid: u32) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let id = groups.split(|byte: char| !byte.is_ascii_hexdigit()).find(|word| word.len() == 64)?;
    Some(id.to_owned())
}

/// Control groups and mounts of this machine that bear the engine's name of a container.
pub fn traces_of(id: &str) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut traces: Vec<String> = mounts.lines().filter(|line| line.contains(id)).map(str::to_owned).collect();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        let inner = fs::read_dir(&folder).into_iter().flatten().flatten();
        folders
            .extend(inner.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()));
        let name = folder.display().to_string();
        traces.extend(name.contains(id).then_some(name));
    }
    traces
}

#[test]
fn a_killed_lab_leaves_no_container_and_the_next_one_its_folder() {
    let Some((_alone, program)) = containers() else { return };
    let mut lab = lab("environments::container::a_lab_to_be_killed", &program, &[]);
    let pid = wait_for(|| program.agents().first().copied());
    let container = wait_for(|| id_of(pid));
    assert_ne!(traces_of(&container), [""; 0]);
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    wait_for(|| (program.processes().is_empty() && traces_of(&container).is_empty()).then_some(()));
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
    let _alone = alone();
    let program = Program::new();
    let container = Container::new(program.path(), Settings::default());
    if usable(&container) {
        print_times(&container, cpu());
    }
}

/// A dynamic program in a container of nothing but this program: the reason with its remedy, an early end, and exit code 1.
#[test]
fn a_dynamic_program_in_an_empty_container_is_explained_and_ends_the_run() {
    let Some((_alone, _program)) = containers() else { return };
    let bench = Bench::new();
    let study = "[study]\ntitle = \"dynamic\"\n[workload]\nkind = \"command\"\n[command]\n\
                 argv = [\"{folder}/own-true\"]\n[command.bring]\nown-true = \"/bin/true\"\n\
                 [factors]\nenvironment = [\"native\", \"container\"]\n\
                 [design]\nleast_blocks = 10\nmost_blocks = 10\n\
                 [report]\nratio_to = { environment = \"native\" }\n";
    bench.write("study.toml", study);
    let ran = bench.run(&["run", "study.toml"]);
    let (said, shown) = (text(&ran.stderr), text(&ran.stdout));
    assert_eq!(ran.status.code(), Some(1), "{said}\n{shown}");
    let expected = "is dynamically linked: its loader /lib64/ld-linux-x86-64.so.2 does not exist in this environment; link it \
                    statically, or set image or rootfs in [environments.container]";
    assert!(said.contains("nothing could be compared: ") && said.contains(expected), "{said}");
    let document = bench.json(&["report", "--json"]);
    let trials = document["trials"].as_array().unwrap();
    assert!(trials.len() <= 6, "native goes on for no more than three blocks: {}", trials.len());
    let history = bench.json(&["history", "--json"]);
    assert_eq!(history["runs"][0]["state"], "failed", "{history:#}");
}
