//! Jobs of a real Slurm: every way in which they end.

use crate::bench::signal;
use crate::cluster::Cluster;
use crate::sites::{NEVER, Program, as_lab, cpu, lab, print_times, trial_of, usable, wait_for_at_most};
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::slurm::{Launcher, Settings, Slurm};
use baremark_model::site::{Environment, Site};
use baremark_model::wire::WireError;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(90);

fn settings(cluster: &Cluster, launcher: Launcher) -> Settings {
    let folder = Some(cluster.shared());
    Settings { launcher, config: Some(cluster.config()), folder, ..Settings::default() }
}

/// What is left of the jobs: in the queue, as processes, as files.
fn left(cluster: &Cluster, program: &Program) -> Vec<String> {
    let mut left = cluster.jobs();
    left.extend(program.processes());
    let files = fs::read_dir(cluster.shared()).unwrap().flatten();
    left.extend(files.map(|entry| format!("file {}", entry.path().display())));
    left
}

/// What ended is soon gone: a job is in the queue until the last of its processes has been collected.
fn nothing_is_left(cluster: &Cluster, program: &Program) {
    wait_for_at_most(PATIENCE, || left(cluster, program).is_empty().then_some(()));
}

/// Starts a site and takes its streams.
fn started(slurm: &Slurm) -> (Box<dyn Site>, baremark_model::site::Link) {
    let mut site = slurm.start(&NEVER).unwrap();
    let link = site.link().unwrap();
    (site, link)
}

/// The end of the agent's stream, and what its site then says.
fn last_words(mut site: Box<dyn Site>, mut link: baremark_model::site::Link) -> String {
    let mut rest = Vec::new();
    link.from_agent.read_to_end(&mut rest).unwrap();
    site.kill();
    site.log().join("\n")
}

fn conforms(launcher: Launcher) {
    let program = Program::new();
    let Some(cluster) = Cluster::start() else { return };
    let slurm = Slurm::new(program.path(), settings(&cluster, launcher));
    assert!(usable(&slurm) && !slurm.emulated(&NEVER));
    let residue = || left(&cluster, &program);
    let place = Place { cpu: cpu(), patience: Duration::from_secs(60), residue: &residue };
    assert_eq!(conformance(&slurm, &place), Ok(()));
}

#[test]
fn srun_conforms() {
    conforms(Launcher::Srun);
}

#[test]
fn sbatch_conforms() {
    conforms(Launcher::Sbatch);
}

#[test]
fn a_job_that_slurm_ends_says_why() {
    let program = Program::new();
    let Some(cluster) = Cluster::start() else { return };
    for launcher in [Launcher::Srun, Launcher::Sbatch] {
        let slurm = Slurm::new(program.path(), settings(&cluster, launcher));
        let (site, link) = started(&slurm);
        cluster.ask("scancel", &[&cluster.running().unwrap()]);
        let words = last_words(site, link);
        assert!(words.contains("CANCELLED"), "{launcher:?}: {words}");

        let (site, link) = started(&slurm);
        let job = format!("JobId={}", cluster.running().unwrap());
        let soon = Command::new("date").args(["-d", "+2 sec", "+EndTime=%Y-%m-%dT%H:%M:%S"]).output().unwrap();
        cluster.ask("scontrol", &["update", &job, String::from_utf8(soon.stdout).unwrap().trim()]);
        let words = last_words(site, link);
        assert!(words.contains("DUE TO TIME LIMIT") || words.contains("TIMEOUT"), "{launcher:?}: {words}");

        let cpus = thread::available_parallelism().unwrap().get();
        let all = Settings { cpus: Some(cpus), ..settings(&cluster, launcher) };
        let (site, link) = started(&Slurm::new(program.path(), all));
        cluster.ask("srun", &["--partition=urgent", "--quiet", &format!("--cpus-per-task={cpus}"), "true"]);
        let words = last_words(site, link);
        assert!(words.contains("PREEMPT"), "{launcher:?}: {words}");
        nothing_is_left(&cluster, &program);
    }
}

#[test]
fn a_job_that_waits_for_ever_is_cancelled_at_its_limit_or_by_an_interrupt() {
    let program = Program::new();
    let Some(cluster) = Cluster::start() else { return };
    let cpus = thread::available_parallelism().unwrap().get().to_string();
    cluster.ask("sbatch", &["--output=/dev/null", "--cpus-per-task", &cpus, "--job-name=others", "--wrap=sleep 600"]);
    wait_for_at_most(PATIENCE, || cluster.running());
    // What the cluster ends at its own end is found.
    wait_for_at_most(PATIENCE, || (!cluster.steps().is_empty()).then_some(()));
    for launcher in [Launcher::Srun, Launcher::Sbatch] {
        let limit = Duration::from_secs(2);
        let slurm = Slurm::new(program.path(), Settings { pending_limit: limit, ..settings(&cluster, launcher) });
        let why = slurm.start(&NEVER).err().unwrap().to_string();
        assert!(why.contains("is PENDING (") && why.contains("and still waits after 2 s"), "{launcher:?}: {why}");
        let slurm = Slurm::new(program.path(), settings(&cluster, launcher));
        let interrupt = AtomicBool::new(false);
        let taken = thread::scope(|scope| {
            let starting = scope.spawn(|| slurm.start(&interrupt).err().map(|why| why.to_string()));
            wait_for_at_most(PATIENCE, || (cluster.jobs().len() == 2).then_some(()));
            let begun = Instant::now();
            interrupt.store(true, Ordering::Relaxed);
            assert_eq!(starting.join().unwrap().as_deref(), Some("interrupted"));
            begun.elapsed()
        });
        assert!(taken < PATIENCE, "{launcher:?}: {taken:?}");
        // One that was cancelled is in the queue for as long as Slurm takes to end it.
        wait_for_at_most(PATIENCE, || (cluster.jobs().len() == 1).then_some(()));
        assert!(cluster.jobs()[0].contains(" others "), "{launcher:?}: {:?}", cluster.jobs());
    }
}

#[test]
fn what_slurm_refuses_is_said_in_its_words() {
    let program = Program::new();
    let Some(mut cluster) = Cluster::start() else { return };
    let of = |partition: &str, arguments: &[&str], launcher| {
        let partition = (!partition.is_empty()).then(|| partition.to_owned());
        let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
        Slurm::new(program.path(), Settings { partition, arguments, ..settings(&cluster, launcher) })
    };
    let missing = of("nosuch", &[], Launcher::Srun).probe().unwrap_err().to_string();
    assert_eq!(missing, "Slurm has no partition nosuch; take one of work, urgent, closed");
    let missing = of("closed", &[], Launcher::Srun).probe().unwrap_err().to_string();
    assert!(missing.starts_with("Slurm's partition closed is down; "), "{missing}");
    for launcher in [Launcher::Srun, Launcher::Sbatch] {
        let why = of("nosuch", &[], launcher).start(&NEVER).err().unwrap().to_string();
        assert!(why.contains("invalid partition specified: nosuch"), "{launcher:?}: {why}");
        let why = of("", &["--account", "no such", "--constraint=unicorn"], launcher).start(&NEVER).err().unwrap();
        assert!(why.to_string().contains("Invalid feature specification"), "{launcher:?}: {why}");
    }
    let nowhere = Settings { config: Some(PathBuf::from("/nowhere/slurm.conf")), ..Settings::default() };
    let missing = Slurm::new(program.path(), nowhere).probe().unwrap_err().to_string();
    assert!(missing.starts_with("Slurm does not answer: "), "{missing}");
    // A node whose daemon has died: Slurm still counts on it and cannot start anything there.
    let limit = Duration::from_secs(5);
    let slurm = Slurm::new(program.path(), Settings { start_limit: limit, ..settings(&cluster, Launcher::Srun) });
    signal(cluster.slurmd.id(), libc::SIGKILL);
    cluster.slurmd.wait().unwrap();
    let begun = Instant::now();
    let why = slurm.start(&NEVER).err().unwrap().to_string();
    assert!(why.contains("before its agent was there") || why.contains("its agent did not connect within"), "{why}");
    assert!(begun.elapsed() < Duration::from_secs(180) && program.pids().is_empty(), "{:?}", begun.elapsed());
}

#[test]
fn a_killed_lab_leaves_no_job() {
    let program = Program::new();
    let Some(cluster) = Cluster::start() else { return };
    for launcher in ["srun", "sbatch"] {
        let (config, folder, name) = (cluster.config(), cluster.shared(), PathBuf::from(launcher));
        let told = [("PLAYED_CONFIG", config.as_path()), ("PLAYED_FOLDER", &folder), ("PLAYED_LAUNCHER", &name)];
        let mut lab = lab("jobs::a_lab_to_be_killed", &program, &told);
        wait_for_at_most(PATIENCE, || cluster.running());
        wait_for_at_most(PATIENCE, || (!cluster.steps().is_empty()).then_some(()));
        signal(lab.id(), libc::SIGKILL);
        lab.wait().unwrap();
        nothing_is_left(&cluster, &program);
    }
}

/// No test: what the test above runs as a process of its own.
#[test]
#[ignore = "run by another test"]
fn a_lab_to_be_killed() {
    as_lab(|program| {
        let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let sbatch = path("PLAYED_LAUNCHER").is_some_and(|name| name == *"sbatch");
        let settings = Settings {
            launcher: if sbatch { Launcher::Sbatch } else { Launcher::Srun },
            config: path("PLAYED_CONFIG"),
            folder: path("PLAYED_FOLDER"),
            silence_limit: Duration::from_secs(4),
            ..Settings::default()
        };
        Slurm::new(program, settings).start(&NEVER).unwrap()
    });
}

#[test]
fn tasks_beyond_the_first_leave_their_places() {
    let program = Program::new();
    let Some(cluster) = Cluster::start() else { return };
    let tasks =
        Settings { ntasks: 2, arguments: vec!["--overcommit".to_owned()], ..settings(&cluster, Launcher::Srun) };
    let (site, mut link) = started(&Slurm::new(program.path(), tasks));
    let answer = trial_of(&mut link, cpu(), 1 << 20);
    assert!(!matches!(answer, Err(WireError::Garbled(_) | WireError::TooLong(_))), "{answer:?}");
    answer.unwrap();
    assert!(cluster.ask("squeue", &["-h", "-o", "%C"]).trim().parse::<usize>().unwrap() >= 1);
    drop(site);
    nothing_is_left(&cluster, &program);
}

#[test]
#[ignore = "prints how long sites take"]
fn how_long_jobs_take() {
    let program = Program::new();
    let Some(cluster) = Cluster::start() else { return };
    for launcher in [Launcher::Srun, Launcher::Sbatch] {
        println!("{launcher:?}");
        print_times(&Slurm::new(program.path(), settings(&cluster, launcher)), cpu());
    }
}
