//! Containers by docker: the same environment in another engine's words, with an engine of the test's own.

use super::{NEVER, Program, as_lab, cpu, lab, temporary, trial_of, usable, wait_for};
use crate::bench::{Bench, signal, text};
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::container::{Container, Root, Settings};
use baremark_model::site::Environment;
use baremark_model::wire::{FromAgent, WireError};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// One test after the other: an engine is much for a small machine.
static ALONE: Mutex<()> = Mutex::new(());

/// How long an engine may take to serve.
const PATIENCE: Duration = Duration::from_secs(60);

/// An engine that keeps all that it has in a folder of its own, until it is dropped.
struct Engine {
    daemon: Child,
    host: String,
    folder: TempDir,
}

impl Engine {
    /// `None`, with the reason printed, where there can be none.
    fn start() -> Option<Self> {
        let skip = |why: &str| eprintln!("skipped: docker: {why}");
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name);
        let host = format!("unix://{}", path("socket").display());
        // A client that asks this engine: what a study may name as its engine.
        let client = format!("#!/bin/sh\nexec docker --host {host} \"$@\"\n");
        fs::write(path("docker"), client).unwrap();
        fs::set_permissions(path("docker"), Permissions::from_mode(0o755)).unwrap();
        let log = File::create(path("log")).unwrap();
        let mut command = Command::new("dockerd");
        command.args(["--iptables=false", "--bridge=none", "--storage-driver=vfs", "--host", &host]);
        for (option, name) in [("--data-root", "root"), ("--exec-root", "exec"), ("--pidfile", "pid")] {
            command.arg(option).arg(path(name));
        }
        let daemon = match command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn() {
            Ok(daemon) => daemon,
            Err(why) => {
                skip(&format!("starting dockerd: {why}"));
                return None;
            }
        };
        let mut engine = Engine { daemon, host, folder };
        let deadline = Instant::now() + PATIENCE;
        while !engine.ask(&["info"]).is_some_and(|told| told.contains("Server Version")) {
            let ended = engine.daemon.try_wait().unwrap();
            if ended.is_some() || Instant::now() > deadline {
                let log = fs::read_to_string(engine.folder.path().join("log")).unwrap();
                skip(&format!("dockerd does not serve: {}", log.lines().last().unwrap_or_default()));
                return None;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(engine)
    }

    fn client(&self) -> PathBuf {
        self.folder.path().join("docker")
    }

    fn ask(&self, words: &[&str]) -> Option<String> {
        let output = Command::new(self.client()).args(words).stderr(Stdio::null()).output().unwrap();
        output.status.success().then(|| text(&output.stdout))
    }

    fn container(&self, program: &Program, settings: Settings) -> Container {
        Container::new(program.path(), settings).with_engine(self.client())
    }

    /// What lies about, in words: containers, processes, folders, images without a name.
    fn left(&self, program: &Program) -> Vec<String> {
        let mut left = program.processes();
        let own = format!("baremark-container-{}-", std::process::id());
        left.extend(temporary().into_iter().filter(|name| name.starts_with(&own)));
        let containers = self.ask(&["ps", "--all", "--format", "container {{.Names}}"]).unwrap();
        let images = self.ask(&["images", "--filter", "dangling=true", "--format", "image {{.ID}}"]).unwrap();
        left.extend(containers.lines().chain(images.lines()).map(str::to_owned));
        left
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        signal(self.daemon.id(), libc::SIGTERM);
        drop(self.daemon.wait());
    }
}

#[test]
fn a_container_of_docker_conforms() {
    let _alone = ALONE.lock();
    let Some(engine) = Engine::start() else { return };
    let program = Program::new();
    let container = engine.container(&program, Settings::default());
    if !usable(&container) {
        return;
    }
    let place = Place { cpu: cpu(), patience: Duration::from_secs(30), residue: &|| engine.left(&program) };
    assert_eq!(conformance(&container, &place), Ok(()));
    let again = engine.container(&program, Settings::default());
    again.probe().unwrap();
    assert_eq!(engine.left(&program), [""; 0], "the image of nothing is made once");
}

#[test]
fn docker_holds_a_container_to_its_memory_and_cpus() {
    let _alone = ALONE.lock();
    let Some(engine) = Engine::start() else { return };
    let program = Program::new();
    let settings = Settings { memory_bytes: Some(64 << 20), cpus: Some(vec![cpu()]), ..Settings::default() };
    let container = engine.container(&program, settings);
    if !usable(&container) {
        return;
    }
    let mut site = container.start(&NEVER).unwrap();
    let pid = wait_for(|| program.pids().first().copied());
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(status.contains(&format!("Cpus_allowed_list:\t{}\n", cpu())), "{status}");
    let answer = trial_of(&mut site.link().unwrap(), cpu(), 512 << 20);
    assert!(matches!(answer, Err(WireError::Closed) | Ok(FromAgent::Failed { .. })), "{answer:?}");
    drop(site);
    assert_eq!(engine.left(&program), [""; 0]);
}

#[test]
fn a_killed_lab_leaves_no_container_of_docker() {
    let _alone = ALONE.lock();
    let Some(engine) = Engine::start() else { return };
    let program = Program::new();
    if !usable(&engine.container(&program, Settings::default())) {
        return;
    }
    let mut lab = lab("environments::docker::a_lab_to_be_killed", &program, &[(ENGINE, &engine.client())]);
    wait_for(|| program.pids().first().copied());
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    wait_for(|| program.processes().is_empty().then_some(()));
    drop(engine.container(&program, Settings::default()).start(&NEVER).unwrap());
    let of_lab = format!("baremark-container-{}-", lab.id());
    let kept: Vec<_> = temporary().into_iter().filter(|name| name.starts_with(&of_lab)).collect();
    assert_eq!((kept, engine.left(&program)), (Vec::new(), Vec::new()));
}

const ENGINE: &str = "BAREMARK_PLAYED_ENGINE";

/// No test: what the test above runs as a process of its own.
#[test]
#[ignore = "run by another test"]
fn a_lab_to_be_killed() {
    as_lab(|program| {
        let engine = std::env::var_os(ENGINE).unwrap();
        Container::new(program, Settings::default()).with_engine(engine).start(&NEVER).unwrap()
    });
}

/// The lab, its observers and a study's settings know nothing of which engine it is.
#[test]
fn a_study_runs_in_dockers_containers() {
    let _alone = ALONE.lock();
    let Some(engine) = Engine::start() else { return };
    let program = Program::new();
    if !usable(&engine.container(&program, Settings::default())) {
        return;
    }
    let bench = Bench::new();
    let study = bench.write(
        "study.toml",
        "[study]\ntitle = \"docker\"\n[workload]\nkind = \"random-access\"\ntable = \"1 MiB\"\n[factors]\n\
         environment = [\"native\", \"container\"]\nranks = 1\npage = \"4k\"\n[environments.container]\n\
         engine = \"docker\"\nfresh = \"run\"\n[design]\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"2 min\"\n\
         phase = \"50 ms\"\n",
    );
    let document = program.document_with(&bench, &study, &[("DOCKER_HOST", &engine.host)]);
    let counted = document["estimates"].as_array().unwrap().iter();
    let gups: Vec<_> = counted.filter(|row| row["metric"] == "gups").map(|row| row["n"].as_u64()).collect();
    assert_eq!(gups, [Some(4), Some(4)], "{document:#}");
    assert_eq!(engine.left(&program), [""; 0]);
}

#[test]
fn docker_is_asked_in_its_own_words_and_says_when_nobody_serves() {
    let program = Program::new();
    let folder = TempDir::new().unwrap();
    let missing = |client: &Path, root| {
        let settings = Settings { root, ..Settings::default() };
        Container::new(program.path(), settings).with_engine(client).probe().unwrap_err().to_string()
    };
    let client = folder.path().join("docker");
    assert_eq!(
        missing(&client, Root::Folder("/".into())),
        "docker makes no container of a folder; give an image, or take podman"
    );
    let told = missing(&client, Root::Program);
    assert!(told.starts_with(&format!("containers cannot be started: starting {}: ", client.display())), "{told}");
    fs::write(&client, "#!/bin/sh\necho Cannot connect to the Docker daemon >&2\nexit 1\n").unwrap();
    fs::set_permissions(&client, Permissions::from_mode(0o755)).unwrap();
    let told = missing(&client, Root::Program);
    assert!(told.contains("Cannot connect to the Docker daemon"), "{told}");
    assert!(told.ends_with("see whether `docker info` works for this user"), "{told}");
}
