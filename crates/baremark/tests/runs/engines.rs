//! Environments behind programs of others, which scripts play here: the adapters against the suite that all of them must pass, and what they make of
//! refusals. How the real programs answer is checked in a suite for each.

use crate::bench::{Bench, signal, text};
use crate::scripts::{QEMU, Scripts};
use crate::sites::{NEVER, PLAYED, Program, as_lab, cpu, lab, processes_of, temporary, wait_for};
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::container::{self, Container, Network, Root};
use baremark_environments::mpi::{self, Mpi};
use baremark_environments::qemu::{self, Accel, Disks, Net, Qemu, Topology};
use baremark_environments::slurm::{self, Launcher, Slurm};
use baremark_environments::ssh::{self, Ssh};
use baremark_model::site::Environment;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const SSH: (&str, &str) = ("ssh", include_str!("engines/ssh"));
const MPIRUN: (&str, &str) = ("mpirun", include_str!("engines/mpirun"));
const PODMAN: (&str, &str) = ("podman", include_str!("engines/podman"));
const SLURM: &str = include_str!("engines/slurm");

fn scripts_of_slurm() -> Scripts {
    let scripts = Scripts::new(&["sinfo", "squeue", "scancel", "srun", "sbatch"].map(|name| (name, SLURM)));
    fs::create_dir(scripts.path("jobs")).unwrap();
    scripts
}

/// The program, in a process that [`Scripts::run`] has started; nothing in one that somebody else has.
fn given() -> Option<PathBuf> {
    std::env::var_os(PLAYED).map(PathBuf::from)
}

/// Where the scripts are in such a process: next to its folder for temporary files.
fn scripts_of_given() -> PathBuf {
    std::env::temp_dir().parent().unwrap().to_owned()
}

fn entries(folder: &Path) -> Vec<String> {
    let listed = fs::read_dir(folder).into_iter().flatten().flatten();
    listed.map(|entry| entry.path().display().to_string()).collect()
}

fn conforms(environment: &dyn Environment, residue: &dyn Fn() -> Vec<String>) {
    let place = Place { cpu: cpu(), patience: Duration::from_secs(60), residue };
    assert_eq!(conformance(environment, &place), Ok(()));
}

fn in_words(pids: &[u32]) -> Vec<String> {
    pids.iter().map(|pid| format!("process {pid}")).collect()
}

// ---- ssh

fn machine() -> ssh::Settings {
    ssh::Settings { destination: "machine".to_owned(), ..ssh::Settings::default() }
}

/// What was brought to the other machine: the files of each folder there.
fn brought(temporary: &Path) -> Vec<Vec<String>> {
    let folders = fs::read_dir(temporary).unwrap().flatten();
    let folders = folders.filter(|entry| entry.file_name().to_string_lossy().starts_with("baremark-ssh-"));
    folders.map(|folder| entries(&folder.path())).collect()
}

/// Agents at the other machine, and their traces.
fn left_at(temporary: &Path) -> Vec<String> {
    let running = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let ours = running.filter(|pid| fs::read_link(pid.join("exe")).is_ok_and(|exe| exe.starts_with(temporary)));
    let is_trace = |path: &String| !path.rsplit('/').next().is_some_and(|name| name.starts_with("baremark-"));
    let traces = brought(temporary).into_iter().flatten().filter(is_trace);
    ours.map(|pid| format!("process {}", pid.display())).chain(traces).collect()
}

#[test]
fn a_machine_that_ssh_reaches_conforms_and_keeps_nothing() {
    Scripts::new(&[SSH]).run("engines::ssh_conforms_here", &Program::new());
}

#[test]
#[ignore = "run by another test"]
fn ssh_conforms_here() {
    let Some(program) = given() else { return };
    let ssh = Ssh::new(program, machine());
    conforms(&ssh, &|| left_at(&std::env::temp_dir()));
    let brought_there = brought(&std::env::temp_dir());
    assert!(brought_there.len() == 1 && brought_there[0].len() == 1, "once for all sites: {brought_there:?}");
    drop(ssh);
    assert_eq!(brought(&std::env::temp_dir()), [[""; 0]; 0]);
    let foreign = std::env::temp_dir().join("foreign");
    fs::write(&foreign, b"\x7fELF but of no machine at all").unwrap();
    let why = Ssh::new(foreign, machine()).start(&NEVER).err().unwrap().to_string();
    assert!(why.contains("could not be brought to machine; its last words:"), "{why}");
    assert_eq!(brought(&std::env::temp_dir()), [[""; 0]; 0]);
}

#[test]
fn a_killed_lab_leaves_nothing_at_a_machine_that_ssh_reaches() {
    let (scripts, program) = (Scripts::new(&[SSH]), Program::new());
    let there = scripts.path("temporary");
    let path = PathBuf::from(scripts.search_path());
    let mut lab = lab("engines::a_lab_of_ssh", &program, &[("PATH", &path), ("TMPDIR", &there)]);
    wait_for(|| left_at(&there).iter().any(|left| left.contains("/agent-")).then_some(()));
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    wait_for(|| (left_at(&there).is_empty() && brought(&there).is_empty()).then_some(()));
}

#[test]
#[ignore = "run by another test"]
fn a_lab_of_ssh() {
    as_lab(|program| {
        let ssh = Ssh::new(program, machine());
        let site = ssh.start(&NEVER).unwrap();
        std::mem::forget(ssh);
        site
    });
}

// ---- Open MPI

fn launched() -> mpi::Settings {
    mpi::Settings { arguments: vec!["--allow-run-as-root".to_owned()], ..mpi::Settings::default() }
}

#[test]
fn what_mpirun_launches_conforms() {
    Scripts::new(&[MPIRUN]).run("engines::mpi_conforms_here", &Program::new());
}

#[test]
#[ignore = "run by another test"]
fn mpi_conforms_here() {
    let Some(program) = given() else { return };
    let residue = || [in_words(&processes_of(&program)), entries(&std::env::temp_dir())].concat();
    conforms(&Mpi::new(program.clone(), mpi::Settings { ranks: 3, ..launched() }), &residue);
    let refused = |settings: mpi::Settings| Mpi::new(program.clone(), settings).probe().unwrap_err().to_string();
    let why = refused(mpi::Settings::default());
    assert!(
        why.contains("does not run as root unless") && why.contains("write arguments = [\"--allow-run-as-root\"]"),
        "{why}"
    );
    let mut wrong = launched();
    wrong.arguments.push("--nosuchoption".to_owned());
    let why = refused(wrong);
    assert!(why.starts_with("mpirun cannot run this program: exit status: 1: mpirun: Error: unknown option"), "{why}");
    let mut silent = mpi::Settings { start_limit: Duration::from_secs(1), ..launched() };
    silent.arguments.push("--silent".to_owned());
    let why = Mpi::new(program.clone(), silent).start(&NEVER).err().unwrap().to_string();
    assert!(why.starts_with("the agent did not connect within 1 s of the start of mpirun"), "{why}");
    wait_for(|| residue().is_empty().then_some(()));
}

// ---- Slurm

fn submitted(launcher: Launcher) -> slurm::Settings {
    slurm::Settings { launcher, folder: Some(scripts_of_given().join("shared")), ..slurm::Settings::default() }
}

#[test]
fn jobs_of_slurm_conform() {
    let scripts = scripts_of_slurm();
    fs::create_dir(scripts.path("shared")).unwrap();
    scripts.run("engines::slurm_conforms_here", &Program::new());
}

#[test]
#[ignore = "run by another test"]
fn slurm_conforms_here() {
    let Some(program) = given() else { return };
    let scripts = scripts_of_given();
    for launcher in [Launcher::Srun, Launcher::Sbatch] {
        let residue = || {
            let files = [entries(&scripts.join("jobs")), entries(&scripts.join("shared"))].concat();
            [in_words(&processes_of(&program)), files].concat()
        };
        conforms(&Slurm::new(program.clone(), submitted(launcher)), &residue);
    }
}

#[test]
fn what_slurm_refuses_is_said_and_a_job_that_waits_is_cancelled() {
    let scripts = scripts_of_slurm();
    fs::create_dir(scripts.path("shared")).unwrap();
    scripts.run("engines::slurm_refuses_here", &Program::new());
}

#[test]
#[ignore = "run by another test"]
fn slurm_refuses_here() {
    let Some(program) = given() else { return };
    let jobs = scripts_of_given().join("jobs");
    for launcher in [Launcher::Srun, Launcher::Sbatch] {
        let of = |partition: &str, pending_limit| {
            let settings =
                slurm::Settings { partition: Some(partition.to_owned()), pending_limit, ..submitted(launcher) };
            Slurm::new(program.clone(), settings)
        };
        let (soon, never) = (Duration::from_secs(1), Duration::from_secs(600));
        let missing = of("nosuch", never).probe().unwrap_err().to_string();
        assert_eq!(missing, "Slurm has no partition nosuch; take one of work, closed");
        let missing = of("closed", never).probe().unwrap_err().to_string();
        assert!(missing.starts_with("Slurm's partition closed is down; "), "{missing}");
        let why = of("nosuch", never).start(&NEVER).err().unwrap().to_string();
        assert!(why.contains("invalid partition specified: nosuch"), "{launcher:?}: {why}");
        let why = of("full", soon).start(&NEVER).err().unwrap().to_string();
        assert!(why.contains("job 7 is PENDING (Resources) and still waits after 1 s"), "{launcher:?}: {why}");
        assert_eq!(entries(&jobs), [""; 0], "{launcher:?}");
        let (slurm, interrupt) = (of("full", never), AtomicBool::new(false));
        thread::scope(|scope| {
            let starting = scope.spawn(|| slurm.start(&interrupt).err().map(|why| why.to_string()));
            wait_for(|| (!entries(&jobs).is_empty()).then_some(()));
            interrupt.store(true, Ordering::Relaxed);
            assert_eq!(starting.join().unwrap().as_deref(), Some("interrupted"), "{launcher:?}");
        });
        wait_for(|| entries(&jobs).is_empty().then_some(()));
    }
    // The first of more partitions than lines are kept.
    fs::write(jobs.join("many"), "").unwrap();
    let of_many = slurm::Settings { partition: Some("work".to_owned()), ..submitted(Launcher::Srun) };
    assert_eq!(Slurm::new(program.clone(), of_many).probe().map_err(|why| why.to_string()), Ok(()));
    fs::write(jobs.join("silent"), "").unwrap();
    let missing = Slurm::new(program, slurm::Settings::default()).probe().unwrap_err().to_string();
    assert!(missing.starts_with("Slurm does not answer: exit status: 1: sinfo: error: no controller; "), "{missing}");
}

// ---- podman and docker

/// What is left of containers, of the program and of its folders.
fn left(scripts: &Scripts, program: &Program) -> Vec<String> {
    let containers = entries(scripts.folder.path()).into_iter().filter(|path| path.contains("/baremark-"));
    let folders = temporary().into_iter().filter(|name| name.starts_with("baremark-container-"));
    program.processes().into_iter().chain(containers).chain(folders).collect()
}

#[test]
fn a_container_conforms_and_what_an_engine_refuses_is_said() {
    let (scripts, program) = (Scripts::new(&[PODMAN]), Program::new());
    let of = |settings| Container::new(program.path(), settings).with_engine(scripts.path("podman"));
    conforms(&of(container::Settings::default()), &|| left(&scripts, &program));
    let refused = |settings| of(settings).probe().unwrap_err().to_string();
    // This engine cannot mount the agent's socket, of which an image is not accused.
    let image = container::Settings { root: Root::Image("some:1".to_owned()), ..container::Settings::default() };
    assert_eq!(of(image).probe(), Ok(()));
    let rooted = |root| refused(container::Settings { root, ..container::Settings::default() });
    let missing = rooted(Root::Image("nosuch:1".to_owned()));
    let expected =
        "containers can be started here, but none of the image nosuch:1: exit status: 125: Error: nosuch:1: ";
    assert!(
        missing.starts_with(expected) && missing.ends_with("; give an image that it has or can fetch"),
        "{missing}"
    );
    let missing = rooted(Root::Folder("/nowhere/root".into()));
    let expected = "containers can be started here, but none of the folder /nowhere/root: exit status: 125: ";
    assert!(
        missing.starts_with(expected) && missing.ends_with("; give a folder that holds a system's files"),
        "{missing}"
    );
    let missing = refused(container::Settings { network: Network::Bridge, ..container::Settings::default() });
    let expected = "containers can be started here, but none on a bridge: exit status: 125: ";
    assert!(missing.starts_with(expected), "{missing}");
    assert!(
        missing.contains("install what it makes bridges with (Debian: netavark and iptables), or write network"),
        "{missing}"
    );
    assert_eq!(left(&scripts, &program), [""; 0]);
}

#[test]
fn a_killed_lab_leaves_no_container() {
    let (scripts, program) = (Scripts::new(&[PODMAN]), Program::new());
    let mut lab = lab("engines::a_lab_of_podman", &program, &[(ENGINE, &scripts.path("podman"))]);
    wait_for(|| program.agents().first().copied());
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    wait_for(|| program.processes().is_empty().then_some(()));
    let again = Container::new(program.path(), container::Settings::default()).with_engine(scripts.path("podman"));
    drop(again.start(&NEVER).unwrap());
    assert_eq!(left(&scripts, &program), [""; 0], "the next start removes the folder");
}

const ENGINE: &str = "BAREMARK_PLAYED_ENGINE";

#[test]
#[ignore = "run by another test"]
fn a_lab_of_podman() {
    as_lab(|program| {
        let engine = std::env::var_os(ENGINE).unwrap();
        Container::new(program, container::Settings::default()).with_engine(engine).start(&NEVER).unwrap()
    });
}

#[test]
fn an_engine_that_is_not_there_is_missing_with_a_remedy() {
    let program = Program::new();
    let missing = Container::new(program.path(), container::Settings::default())
        .with_engine("/nowhere/podman")
        .probe()
        .unwrap_err();
    assert!(missing.to_string().contains("starting /nowhere/podman: "), "{missing}");
    assert!(missing.remedy.contains("install podman"), "{missing}");
    let missing =
        Container::new(program.path(), container::Settings::default()).with_engine("false").probe().unwrap_err();
    assert!(missing.to_string().contains("exit status: 1; see whether `false run` works"), "{missing}");
}

#[test]
fn docker_is_asked_in_its_own_words_and_says_when_nobody_serves() {
    let program = Program::new();
    let folder = TempDir::new().unwrap();
    let missing = |client: &Path, root| {
        let settings = container::Settings { root, ..container::Settings::default() };
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

// ---- QEMU

#[test]
fn guests_that_cannot_be_are_refused() {
    Scripts::new(&[QEMU]).run("engines::qemu_refuses_here", &Program::new());
}

#[test]
#[ignore = "run by another test"]
fn qemu_refuses_here() {
    let Some(program) = given() else { return };
    let settings = qemu::Settings {
        vcpus: 2,
        accel: Accel::Tcg,
        module_names: Vec::new(),
        ..qemu::Settings::of_fetched(Path::new("/nowhere"))
    };
    let refused = |settings: qemu::Settings| Qemu::new(program.clone(), settings).probe().unwrap_err().to_string();
    let why =
        refused(qemu::Settings { topology: Topology { cores: Some(3), ..Topology::default() }, ..settings.clone() });
    assert!(why.starts_with("0 sockets of 3 cores of 1 threads are not 2 vCPUs"), "{why}");
    let why = refused(qemu::Settings { pin: vec![0], ..settings.clone() });
    assert_eq!(why, "pin names 1 CPUs for 2 vCPUs; name one for each");
    let why = refused(qemu::Settings { module_names: vec!["nosuch".to_owned()], ..settings.clone() });
    assert!(why.starts_with("the guest's kernel has no module nosuch (looked under "), "{why}");
    let of = |disks: Disks| refused(qemu::Settings { disks, ..settings.clone() });
    let disks = |path: &str| Disks { paths: vec![PathBuf::from(path)], ..Disks::default() };
    let why = of(disks("/nowhere/disk"));
    assert!(why.starts_with("the guest's disk /nowhere/disk cannot be used: "), "{why}");
    let why = of(disks("/dev/null"));
    assert!(why.contains("/dev/null is neither a file nor a block device"), "{why}");
    let why = of(Disks { queues: Some(3), ..Disks::default() });
    assert!(why.starts_with("disk_queues = 3 are more than the guest's 2 vCPUs; write at most vcpus"), "{why}");
    for cache in ["writeback", "writethrough", "unsafe"] {
        let file = program.to_str().unwrap();
        let why = of(Disks { cache: cache.to_owned(), aio: "native".to_owned(), ..disks(file) });
        let expected = format!("disk_aio = native does not go with disk_cache = {cache}; write disk_cache = \"none\"");
        assert!(why.starts_with(&expected), "{why}");
    }
    let tap = Net::Tap { device: "nosuchtap".to_owned(), vhost: false };
    let why = refused(qemu::Settings { net: tap, ..settings.clone() });
    assert!(why.starts_with("'nosuchtap' is not a tap device of this machine; make it"), "{why}");
    let missing = refused(settings);
    assert!(missing.contains("a file of the guest's kernel, /nowhere/vmlinuz, cannot be read: "), "{missing}");
}

// ---- peers of a workload

#[test]
fn a_peer_that_cannot_be_is_told() {
    let (bench, scripts) = (Bench::new(), Scripts::new(&[SSH, PODMAN]));
    let study = |peer: &str, more: &str| {
        format!(
            "[study]\ntitle = \"to and fro\"\n[workload]\nkind = \"ping-pong\"\npeer = \"{peer}\"\n\
             [factors]\nenvironment = \"native\"\nranks = 1\n{more}\
             [design]\nphase = \"60 ms\"\nquads = 1\nbudget = \"2 min\"\n"
        )
    };
    for (peer, more, command, exit, phrase) in [
        ("site:slurm", "", "plan", 2, "peer = 'site:slurm' is not a site with a network"),
        ("site:qmu", "", "plan", 2, "did you mean 'qemu'?"),
        ("moon:80", "", "plan", 2, "write site:ENVIRONMENT, or numbers"),
        ("site:ssh", "", "plan", 2, "environment ssh needs host"),
        (
            "site:ssh",
            "[environments.ssh]\nhost = \"nowhere.invalid\"\n",
            "run",
            3,
            "nowhere.invalid cannot be reached by ssh",
        ),
        ("site:container", "", "run", 1, "the container's network is isolated; write network"),
    ] {
        let file = bench.write("peer.toml", study(peer, more));
        let mut command = bench.command(&[command, file.to_str().unwrap()]);
        let output = command.env("PATH", scripts.search_path()).output().unwrap();
        let said = text(&output.stderr) + &text(&output.stdout);
        assert_eq!(output.status.code(), Some(exit), "{peer}: {said}");
        assert!(said.contains(phrase), "{peer}: {said}");
    }
}
