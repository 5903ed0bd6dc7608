//! Containers by docker: the same environment in another engine's words, with an engine of the test's own.

use crate::bench::{signal, text};
use crate::containers::{Image, Look, all_and_devices, is_relayed};
use crate::sites::{NEVER, Program, as_lab, cpu, lab, temporary, usable, wait_for};
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::container::{Container, Settings};
use baremark_model::site::Environment;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

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
        // The engine leaves its name for the host's network mounted, and with it the folder.
        for space in fs::read_dir(self.folder.path().join("exec/netns")).into_iter().flatten().flatten() {
            let unmounted = Command::new("umount").arg(space.path()).status();
            assert!(unmounted.is_ok_and(|status| status.success()), "{}", space.path().display());
        }
    }
}

#[test]
fn a_container_of_docker_conforms() {
    let Some(engine) = Engine::start() else { return };
    let program = Program::new();
    let container = engine.container(&program, Settings::default());
    if !usable(&container) {
        return;
    }
    let place = Place { cpu: cpu(), patience: Duration::from_secs(60), residue: &|| engine.left(&program) };
    assert_eq!(conformance(&container, &place), Ok(()));
    assert!(!is_relayed(&container), "its agent speaks through the socket");
    let again = engine.container(&program, Settings::default());
    again.probe().unwrap();
    assert_eq!(engine.left(&program), [""; 0], "the image of nothing is made once");
}

#[test]
fn a_killed_lab_leaves_no_container_of_docker() {
    let Some(engine) = Engine::start() else { return };
    let program = Program::new();
    if !usable(&engine.container(&program, Settings::default())) {
        return;
    }
    let mut lab = lab("engine::a_lab_to_be_killed", &program, &[(ENGINE, &engine.client())]);
    wait_for(|| program.agents().first().copied());
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

/// The lab and a study's settings know nothing of which engine it is.
#[test]
fn a_container_of_docker_finds_what_the_study_has_set() {
    let Some(engine) = Engine::start() else { return };
    let program = Program::new();
    if !usable(&engine.container(&program, Settings::default())) {
        return;
    }
    let Some(look) = Look::new(&program) else { return };
    let image = Image::of(&look.root(), &engine.client());
    let (all, host) = all_and_devices();
    for (settings, expected) in [
        (String::new(), [all, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        ("seccomp = \"off\"".to_owned(), [all, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        (format!("cpus = [\"{}\"]\nnetwork = \"host\"", cpu()), [1.0, 2.0, host, 0.0, 0.0, 1.0, 1.0]),
        (format!("memory = \"64 MiB\"\nimage = \"{}\"", image.name), [all, 2.0, 1.0, 1.0, 1.0, 0.0, 0.0]),
    ] {
        let settings = format!("engine = \"docker\"\n{settings}");
        look.finds(&settings, expected, &[("DOCKER_HOST", &engine.host)]);
        assert_eq!(engine.left(&program), [""; 0]);
    }
}
