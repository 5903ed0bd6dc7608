//! Kills of a lab while it starts a container: whatever the moment, nothing of the container remains.

use crate::bench::{children, signal};
use crate::containers::{Watched, containers_folder};
use crate::sites::{NEVER, Program, as_lab, lab, temporary, usable, wait_for};
use baremark_environments::container::{Container, Containers, Runtime, Settings};
use baremark_journal::Journal;
use baremark_model::site::Environment;
use baremark_model::wire::{FromAgent, PROTOCOL, ToAgent, read_frame, write_frame};
use baremark_stats::Rng;
use baremark_sys::private_folder::PrivateFolder;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const RUNTIME: &str = "BAREMARK_PLAYED_RUNTIME";
/// The file that a lab makes when its agent has greeted it.
const GREETED: &str = "BAREMARK_PLAYED_GREETED";

fn settings(runtime: &str) -> Settings {
    let runtime = Runtime { name: runtime.to_owned(), platform: "ptrace".to_owned() };
    Settings { runtime: Some(runtime), ..Settings::default() }
}

/// No test: what the tests below run as a process of its own.
#[test]
#[ignore = "run by another test"]
fn a_lab_to_be_killed() {
    as_lab(|program| {
        let runtime = std::env::var(RUNTIME).unwrap();
        let mut site = Container::new(program, settings(&runtime)).start(&NEVER).unwrap();
        let mut link = site.link().unwrap();
        write_frame(&mut link.to_agent, &ToAgent::Hello { protocol: PROTOCOL, version: "v".to_owned() }).unwrap();
        let _: FromAgent = read_frame(&mut link.from_agent).unwrap();
        fs::write(std::env::var_os(GREETED).unwrap(), "").unwrap();
        // Its end would end the agent.
        std::mem::forget(link);
        site
    });
}

#[test]
fn a_kill_while_gvisor_starts_leaves_nothing() {
    killed_at_any_moment("runsc");
}

#[test]
fn a_kill_while_runc_starts_leaves_nothing() {
    killed_at_any_moment("runc");
}

/// Kills a lab's supervisors, then the lab.
fn kill_with_supervisors(lab: &Child) {
    for child in children(lab.id()) {
        signal(child, libc::SIGKILL);
    }
    signal(lab.id(), libc::SIGKILL);
}

/// Kills labs at random moments from their start until the agent in their container has greeted them. Of every other the supervisors are killed as well:
/// then the next start of the program has to remove what is left, by the journal.
fn killed_at_any_moment(runtime: &str) {
    let kills: u64 = std::env::var("BAREMARK_CONTAINER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let program = Program::new();
    if !usable(&Container::new(program.path(), settings(runtime))) {
        return;
    }
    let (folder, state) = (containers_folder(), TempDir::new().unwrap());
    let test = "kills::a_lab_to_be_killed";
    let greeted = state.path().join("greeted");
    let told = [(RUNTIME, Path::new(runtime)), ("XDG_STATE_HOME", state.path()), (GREETED, &*greeted)];
    let records = || fs::read_dir(state.path().join("baremark/changes")).into_iter().flatten().flatten();
    let journals =
        || records().filter(|entry| entry.path().extension().is_some_and(|ending| ending == "journal")).count();
    let mut rng = Rng::new(20_261_123);
    let mut longest = Duration::ZERO;
    for kill in 0..=kills {
        let begun = Instant::now();
        let mut child = lab(test, &program, &told);
        let watched = Watched { folder: &folder, prefix: format!("baremark-container-{}-", child.id()) };
        let over = AtomicBool::new(false);
        let (with_supervisors, ids) = thread::scope(|scope| {
            let watching = scope.spawn(|| watched.identities(&over));
            if kill == 0 {
                wait_for(|| greeted.exists().then_some(()));
                longest = begun.elapsed();
            } else {
                thread::sleep(longest.mul_f64(rng.uniform()));
            }
            let with_supervisors = kill % 2 == 1;
            if with_supervisors {
                kill_with_supervisors(&child)
            } else {
                signal(child.id(), libc::SIGKILL)
            }
            child.wait().unwrap();
            // The supervisors' work, and the agent's end where they are dead.
            wait_for(|| program.pids().is_empty().then_some(()));
            over.store(true, Ordering::Relaxed);
            (with_supervisors, watching.join().unwrap())
        });
        let moment = begun.elapsed();
        if with_supervisors {
            let journal = Journal::open(state.path().join("baremark/changes"), vec![Box::new(Containers)]).unwrap();
            // A supervisor that was killed closes its files, and with them its journal, after its command line has gone.
            wait_for(|| {
                let recovered = journal.recover().unwrap();
                assert!(recovered.failed.is_empty() && recovered.damaged.is_empty(), "kill {kill}: {recovered:?}");
                (journals() == 0).then_some(())
            });
        }
        assert_eq!(journals(), 0, "kill {kill}");
        assert_eq!(
            watched.left(&ids),
            [""; 0],
            "kill {kill} of {runtime} after {moment:?}, supervisors too: {with_supervisors}"
        );
        // A process that the lab was about to start has the folder's lock until the kernel has ended it as well.
        wait_for(|| {
            drop(PrivateFolder::orphans(&std::env::temp_dir(), "baremark-container-"));
            temporary().iter().all(|name| !name.starts_with(&watched.prefix)).then_some(())
        });
    }
}
