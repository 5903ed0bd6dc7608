//! Pods of Kubernetes, whose cluster a script plays in place of kubectl. The suite `kubernetes` has pods of containers.

use crate::bench::{Bench, children, lives, signal, text};
use crate::scripts::Scripts;
use crate::sites::{NEVER, Program, as_lab, cpu, lab, trial_of, wait_for};
use crate::trials::{self, accounted};
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::kubernetes::{Kubernetes, Settings};
use baremark_model::site::Environment;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const IMAGE: &str = "localhost/baremark-kubernetes:1";

/// A cluster whose pods are processes of this machine.
struct Cluster {
    scripts: Scripts,
}

impl Cluster {
    fn start() -> Self {
        Cluster { scripts: Scripts::new(&[("kubectl", include_str!("engines/kubectl"))]) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scripts.path(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    fn kubernetes(&self, program: PathBuf, settings: Settings) -> Kubernetes {
        Kubernetes::with_kubectl(program, settings, self.path("kubectl"))
    }

    /// Each pod by its folder.
    fn pods(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path("pods")).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// The processes that run the program as it was brought into a pod.
    fn agents(&self) -> Vec<u32> {
        let pods = self.path("pods");
        let runs = |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.starts_with(&pods));
        let listed = fs::read_dir("/proc").unwrap().flatten();
        listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(runs).collect()
    }

    fn left(&self) -> Vec<String> {
        let agents = self.agents().into_iter().map(|pid| format!("process {pid}"));
        agents.chain(self.pods().iter().map(|pod| format!("pod {}", pod.display()))).collect()
    }

    /// The words of each call of kubectl.
    fn calls(&self) -> Vec<Vec<String>> {
        let calls = fs::read_to_string(self.path("calls")).unwrap();
        calls.trim_end().split("\n\n").map(|call| call.lines().map(str::to_owned).collect()).collect()
    }

    /// The names of the pods that were deleted: once more where the first kubectl took too long.
    fn deleted(&self) -> BTreeSet<String> {
        let calls = self.calls().into_iter().filter(|call| call[2..4] == ["delete", "pod"]);
        calls.map(|mut call| call.swap_remove(4)).collect()
    }
}

fn settings() -> Settings {
    Settings {
        image: IMAGE.to_owned(),
        context: Some("test".to_owned()),
        namespace: Some("lab".to_owned()),
        memory_bytes: Some(256 << 20),
        time: Duration::from_secs(300),
        ..Settings::default()
    }
}

#[test]
fn a_pod_conforms() {
    let (program, cluster) = (Program::new(), Cluster::start());
    let kubernetes = cluster.kubernetes(program.path(), settings());
    let place = Place { cpu: cpu(), patience: Duration::from_secs(60), residue: &|| cluster.left() };
    assert_eq!(conformance(&kubernetes, &place), Ok(()));
    let calls = cluster.calls();
    assert!(calls.iter().all(|call| call[..2] == ["--context=test", "--namespace=lab"]), "{calls:?}");
    let creates = calls.iter().filter(|call| call[2] == "create").count();
    assert!(creates > 0 && creates == cluster.deleted().len(), "{calls:?}");
}

#[test]
fn a_killed_lab_leaves_a_pod_that_ends_and_the_next_one_deletes_it() {
    let (program, cluster) = (Program::new(), Cluster::start());
    let kubectl = cluster.path("kubectl");
    let mut lab = lab("pods::a_lab_to_be_killed", &program, &[(KUBECTL, kubectl.as_path())]);
    // The same file runs before, to print its version.
    let is_agent = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.ends_with(b"agent\0"));
    wait_for(|| cluster.agents().into_iter().find(is_agent));
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    wait_for(|| cluster.agents().is_empty().then_some(()));
    wait_for(|| cluster.pods().iter().all(|pod| pod.join("ended").exists()).then_some(()));
    assert_eq!(cluster.pods().len(), 1, "it has ended and is still listed");
    drop(cluster.kubernetes(program.path(), settings()).start(&NEVER).unwrap());
    assert_eq!(cluster.left(), [""; 0]);
}

const KUBECTL: &str = "BAREMARK_PLAYED_KUBECTL";

/// No test: what the test above runs as a process of its own.
#[test]
#[ignore = "run by another test"]
fn a_lab_to_be_killed() {
    as_lab(|program| {
        let kubectl = std::env::var_os(KUBECTL).unwrap();
        Kubernetes::with_kubectl(program, settings(), kubectl).start(&NEVER).unwrap()
    });
}

#[test]
fn a_pod_that_ends_before_its_agent_says_why() {
    let (program, cluster) = (Program::new(), Cluster::start());
    let mut site = cluster.kubernetes(program.path(), settings()).start(&NEVER).unwrap();
    let mut link = site.link().unwrap();
    trial_of(&mut link, cpu(), 1 << 20).unwrap();
    let pod = cluster.pods().remove(0);
    fs::write(pod.join("ended"), "137").unwrap();
    cluster.agents().into_iter().for_each(|agent| signal(agent, libc::SIGKILL));
    assert_eq!(link.from_agent.read(&mut [0]).unwrap(), 0, "the stream has ended");
    // The client has its end from the pod's.
    wait_for(|| children(std::process::id()).into_iter().all(|client| !lives(client)).then_some(()));
    site.kill();
    let log = site.log().join("\n");
    assert!(log.contains("Kubernetes reports: pod baremark-"), "{log}");
    assert!(log.contains("is Failed (Error, exit code 137)"), "{log}");
    assert_eq!(cluster.left(), [""; 0]);
}

#[test]
fn a_pod_that_never_gets_ready_is_given_up_with_the_reason_of_the_cluster() {
    let (program, cluster) = (Program::new(), Cluster::start());
    let late = Settings { start_limit: Duration::from_secs(1), ..settings() };
    cluster.write("unready", r#"{"reason":"ContainerCreating"}"#);
    let begun = Instant::now();
    let why = cluster.kubernetes(program.path(), late).start(&NEVER).err().unwrap().to_string();
    assert!(why.ends_with("is Pending (ContainerCreating) and was not ready within 1 s"), "{why}");
    assert!(begun.elapsed() >= Duration::from_secs(1));
    cluster.write("unready", r#"{"reason":"ImagePullBackOff","message":"no such image"}"#);
    let why = cluster.kubernetes(program.path(), settings()).start(&NEVER).err().unwrap().to_string();
    assert!(why.contains("is Pending (ImagePullBackOff: no such image)") && !why.contains("within"), "{why}");
    let interrupt = AtomicBool::new(false);
    cluster.write("unready", r#"{"reason":"ContainerCreating"}"#);
    let kubernetes = cluster.kubernetes(program.path(), settings());
    thread::scope(|scope| {
        let started = scope.spawn(|| kubernetes.start(&interrupt).err().unwrap().to_string());
        let waits = || fs::read_to_string(cluster.path("calls")).unwrap().matches("\nwait\n").count() == 3;
        wait_for(|| waits().then_some(()));
        interrupt.store(true, Ordering::Relaxed);
        assert_eq!(started.join().unwrap(), "interrupted");
    });
    assert_eq!(cluster.deleted().len(), 3, "each is deleted");
}

#[test]
fn a_program_that_does_not_arrive_whole_or_does_not_run_is_refused() {
    let (program, cluster) = (Program::new(), Cluster::start());
    cluster.write("cut", "");
    let why = cluster.kubernetes(program.path(), settings()).start(&NEVER).err().unwrap().to_string();
    let length = fs::metadata(program.path()).unwrap().len();
    assert!(why.contains("the program could not be brought into pod baremark-"), "{why}");
    assert!(why.contains(&format!("received 1000 of {length} bytes")), "{why}");
    fs::remove_file(cluster.path("cut")).unwrap();
    let foreign = cluster.path("foreign");
    fs::write(&foreign, b"\x7fELF but of no machine at all").unwrap();
    let why = cluster.kubernetes(foreign, settings()).start(&NEVER).err().unwrap().to_string();
    assert!(why.contains("the program could not be brought into pod baremark-"), "{why}");
    assert_eq!(cluster.left(), [""; 0]);
}

#[test]
fn a_permission_that_is_missing_is_named() {
    let cluster = Cluster::start();
    let missing = |denied: &str| {
        cluster.write("denied", denied);
        cluster.kubernetes(PathBuf::new(), settings()).probe().unwrap_err().to_string()
    };
    for action in ["create pods", "delete pods", "create pods/exec"] {
        let told = missing(action);
        assert!(
            told.starts_with(&format!("no permission to {action} in namespace lab of context test; get ")),
            "{told}"
        );
    }
    cluster.write("kubectl", "#!/bin/sh\necho 'The connection to the server was refused' >&2\nexit 1\n");
    let told = missing("");
    let expected =
        "Kubernetes does not answer in namespace lab of context test: exit status: 1: The connection to the server";
    assert!(told.starts_with(expected), "{told}");
}

/// The whole program, as a user runs it.
#[test]
fn a_study_compares_a_pod_with_native() {
    let (program, cluster) = (Program::new(), Cluster::start());
    let bench = Bench::new();
    let study = format!(
        "[study]\ntitle = \"a pod\"\n[workload]\nkind = \"random-access\"\ntable = \"1 MiB\"\n\
         [factors]\nenvironment = [\"native\", \"kubernetes\"]\nranks = 1\n\
         [environments.kubernetes]\nimage = \"{IMAGE}\"\ncontext = \"test\"\nmemory = \"256 MiB\"\nfresh = \"run\"\n\
         [design]\nphase = \"20 ms\"\nquads = 1\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"10 min\"\n"
    );
    let study = bench.write("study.toml", study);
    let path = cluster.scripts.search_path();
    let document = program.document_with(&bench, &study, &[("PATH", &path)]);
    assert_eq!(document["absent"].as_array().unwrap().len(), 0, "{}", document["absent"]);
    for place in ["native", "kubernetes"] {
        accounted(&trials::of(&document, place), 4);
    }
    assert_eq!(cluster.left(), [""; 0]);
    fs::write(cluster.path("denied"), "create pods\n").unwrap();
    let mut command = bench.command(&["plan", study.to_str().unwrap()]);
    let output = command.env("PATH", &path).output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("no permission to create pods in the default namespace of context test"), "{said}");
}
