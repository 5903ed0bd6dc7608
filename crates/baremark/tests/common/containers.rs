//! Containers by podman or docker: what is left of them, images of a test's own, and containers that look at themselves.

use super::bench::{Bench, text};
use super::sites::{NEVER, Program, temporary, usable};
use baremark_environments::container::{Container, Settings};
use baremark_model::site::{Environment, Link};
use baremark_model::wire::{FromAgent, PROTOCOL, ToAgent, read_frame, write_frame};
use baremark_sys::process_tree;
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Containers and folders that this process has left, in words.
pub fn left(program: &Program) -> Vec<String> {
    let mut left = program.processes();
    let own = format!("baremark-container-{}-", std::process::id());
    left.extend(temporary().into_iter().filter(|name| name.starts_with(&own)));
    let listed = Command::new("podman").args(["ps", "--all", "--format", "{{.Names}}"]).output().unwrap();
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    left.extend(names.lines().filter(|name| name.starts_with(&own)).map(|name| format!("container {name}")));
    left
}

/// The program; `None` where no container can be had.
pub fn containers() -> Option<Program> {
    let program = Program::new();
    usable(&Container::new(program.path(), Settings::default())).then_some(program)
}

/// Whether somebody passes on what the lab and an agent in such a container say.
pub fn is_relayed(container: &Container) -> bool {
    let mut site = container.start(&NEVER).unwrap();
    let Link { mut from_agent, mut to_agent } = site.link().unwrap();
    write_frame(&mut to_agent, &ToAgent::Hello { protocol: PROTOCOL, version: String::new() }).unwrap();
    let greeting: FromAgent = read_frame(&mut from_agent).unwrap();
    assert!(matches!(greeting, FromAgent::Hello { .. }), "{greeting:?}");
    site.relay_works_for() > Duration::ZERO
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
    pub bench: Bench,
    /// The address by which others know this machine, where it has one.
    pub known: Option<IpAddr>,
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
        let own = known.unwrap_or(LOOPBACK);
        assert!(came.iter().all(|address| (*address != own) == bridged), "{settings}: {came:?}");
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
pub fn while_counting_devices<T>(run: impl FnOnce() -> T) -> (T, (f64, f64)) {
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

/// The folder in which podman keeps one for each container.
pub fn containers_folder() -> PathBuf {
    let told = Command::new("podman").args(["info", "--format", "{{.Store.GraphRoot}}"]).output().unwrap();
    PathBuf::from(text(&told.stdout).trim()).join("overlay-containers")
}

/// Containers of one lab, watched while they come and go.
pub struct Watched<'f> {
    pub folder: &'f Path,
    /// How their names begin.
    pub prefix: String,
}

impl Watched<'_> {
    /// Their identities, as long as `over` is not set: the engine writes their configuration, which names them, before it starts anything.
    pub fn identities(&self, over: &AtomicBool) -> BTreeSet<String> {
        let mut others = BTreeSet::new();
        let mut ours = BTreeSet::new();
        while !over.load(Ordering::Relaxed) {
            for entry in fs::read_dir(self.folder).into_iter().flatten().flatten() {
                let id = entry.file_name().to_string_lossy().into_owned();
                if others.contains(&id) || ours.contains(&id) {
                    continue;
                }
                let config = fs::read_to_string(entry.path().join("userdata/config.json")).unwrap_or_default();
                if config.contains(&self.prefix) {
                    ours.insert(id);
                } else if config.ends_with('}') {
                    others.insert(id);
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
        ours
    }

    /// What there is of these containers: processes, the state of runtimes, the engine's records and files, mounts, control groups.
    pub fn left(&self, ids: &BTreeSet<String>) -> Vec<String> {
        let mut words: Vec<&str> = ids.iter().map(String::as_str).collect();
        words.push(&self.prefix);
        let of = |text: &str| words.iter().any(|word| text.contains(word));
        let running = process_tree::with_command(|command| command.iter().any(|word| of(word))).unwrap();
        let mut left: Vec<String> =
            running.iter().map(|(pid, words)| format!("process {pid} {}", words.join(" "))).collect();
        for folder in ["/run/runsc", "/run/runc", "/run/crun"].map(Path::new).into_iter().chain([self.folder]) {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path().display().to_string()).filter(|path| of(path)));
        }
        let options = ["ps", "--all", "--external", "--no-trunc", "--format", "{{.ID}} {{.Names}}"];
        let listed = Command::new("podman").args(options).output().unwrap();
        left.extend(text(&listed.stdout).lines().filter(|line| of(line)).map(|line| format!("container {line}")));
        left.extend(ids.iter().flat_map(|id| traces_of(id)));
        left
    }
}
