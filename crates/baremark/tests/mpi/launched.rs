//! Processes that Open MPI launches.

use crate::bench::{children, lives, signal};
use crate::sites::{NEVER, PLAYED, Program, as_lab, cpu, lab, print_times, trial_of, usable, wait_for};
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::mpi::{Mpi, Settings};
use baremark_model::site::Environment;
use std::process::Child;
use std::time::Duration;

fn settings() -> Settings {
    let arguments = ["--allow-run-as-root", "--oversubscribe"].map(str::to_owned).to_vec();
    Settings { arguments, ..Settings::default() }
}

#[test]
fn mpirun_conforms() {
    let program = Program::new();
    let mpi = Mpi::new(program.path(), settings());
    if !usable(&mpi) {
        return;
    }
    let place = Place { cpu: cpu(), patience: Duration::from_secs(60), residue: &|| program.processes() };
    assert_eq!(conformance(&mpi, &place), Ok(()));
}

#[test]
fn the_agent_is_the_first_of_several_and_may_use_every_processor() {
    let program = Program::new();
    let mpi = Mpi::new(program.path(), Settings { ranks: 3, ..settings() });
    if !usable(&mpi) {
        return;
    }
    let mut site = mpi.start(&NEVER).unwrap();
    let mut link = site.link().unwrap();
    trial_of(&mut link, cpu(), 1 << 20).unwrap();
    drop(site);
    assert_eq!(program.processes(), [""; 0]);
}

#[test]
fn a_killed_lab_and_a_killed_launcher_leave_no_process() {
    let program = Program::new();
    if !usable(&Mpi::new(program.path(), settings())) {
        return;
    }
    let mut lab = lab("launched::a_lab_to_be_killed", &program, &[]);
    wait_for(|| program.pids().first().copied());
    kill_with_launcher(&mut lab, &program);
    let mut site = Mpi::new(program.path(), settings()).start(&NEVER).unwrap();
    let mut link = site.link().unwrap();
    let agent = wait_for(|| program.pids().first().copied());
    let launcher = children(std::process::id()).into_iter().find(|pid| children(*pid).contains(&agent));
    signal(launcher.expect("mpirun is a child of ours and the agent's parent"), libc::SIGKILL);
    assert_eq!(std::io::Read::read(&mut link.from_agent, &mut [0]).unwrap(), 0, "the stream has ended");
    wait_for(|| program.pids().is_empty().then_some(()));
    drop(site);
}

/// Kills a lab and waits until its agent is gone, and mpirun, which removes its own files in the lab's folder until then.
fn kill_with_launcher(lab: &mut Child, program: &Program) {
    let launchers = children(lab.id());
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    wait_for(|| (program.pids().is_empty() && launchers.iter().all(|pid| !lives(*pid))).then_some(()));
}

/// Open MPI's own files, in a temporary folder that nobody else uses.
#[test]
fn what_open_mpi_keeps_goes_with_its_site_or_with_the_next_one() {
    let program = Program::new();
    if !usable(&Mpi::new(program.path(), settings())) {
        return;
    }
    let temporary = tempfile::TempDir::new().unwrap();
    let play = |test: &str| lab(&format!("launched::{test}"), &program, &[("TMPDIR", temporary.path())]);
    let left = || {
        let entries = std::fs::read_dir(temporary.path()).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    assert!(play("a_lab_whose_launcher_is_killed").wait().unwrap().success());
    assert_eq!(left(), [""; 0], "mpirun was killed");
    let mut killed = play("a_lab_to_be_killed");
    wait_for(|| program.pids().first().copied());
    kill_with_launcher(&mut killed, &program);
    assert!(left().iter().all(|name| name.starts_with("baremark-mpi-")), "{:?}", left());
    assert!(play("a_lab_whose_launcher_is_killed").wait().unwrap().success());
    assert_eq!(left(), [""; 0], "the next one removes what a killed lab has left");
}

/// No test: what the test above runs as a process of its own.
#[test]
#[ignore = "run by another test"]
fn a_lab_whose_launcher_is_killed() {
    let Some(program) = std::env::var_os(PLAYED) else { return };
    let mut site = Mpi::new(program.into(), settings()).start(&NEVER).unwrap();
    let mut link = site.link().unwrap();
    children(std::process::id()).into_iter().for_each(|launcher| signal(launcher, libc::SIGKILL));
    assert_eq!(std::io::Read::read(&mut link.from_agent, &mut [0]).unwrap(), 0, "the stream has ended");
    drop(site);
}

/// No test: what the test above runs as a process of its own.
#[test]
#[ignore = "run by another test"]
fn a_lab_to_be_killed() {
    as_lab(|program| Mpi::new(program, settings()).start(&NEVER).unwrap());
}

#[test]
fn what_mpirun_refuses_is_said() {
    let program = Program::new();
    if !usable(&Mpi::new(program.path(), settings())) {
        return;
    }
    let root = std::fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
    let missing = Mpi::new(program.path(), Settings::default()).probe();
    assert!(!root || missing.is_err_and(|missing| missing.to_string().contains("does not run as root unless")));
    let mut wrong = settings();
    wrong.arguments.push("--nosuchoption".to_owned());
    let missing = Mpi::new(program.path(), wrong).probe().unwrap_err().to_string();
    assert!(missing.starts_with("mpirun cannot run this program: "), "{missing}");
}

#[test]
#[ignore = "prints how long sites take"]
fn how_long_mpirun_takes() {
    let program = Program::new();
    let mpi = Mpi::new(program.path(), settings());
    if usable(&mpi) {
        print_times(&mpi, cpu());
    }
}
