//! Features of this host, which the superuser sets: shared by the tests on this machine and by those in a guest with another kernel.

use baremark_host::{Absent, FEATURES, Host, HostError, Modules, Setter, Tried, probe, tried};
use baremark_journal::value::{Values, read};
use baremark_journal::{Journal, Kind};
use baremark_model::knob::Kind as Takes;
use baremark_model::tables;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const KILLED: &str = "BAREMARK_TEST_HOST_SETTER";
pub const ALL: &str = "all of them";
const BEGINS: &str = "begins";

/// This machine, with the disk on which a folder of temporary files is.
pub fn this_host() -> Host {
    Host::this(vec![PathBuf::from("/var/tmp")])
}

pub fn journal(folder: &Path) -> Journal {
    let kinds: Vec<Box<dyn Kind>> = vec![Box::new(Values::system()), Box::new(Modules)];
    Journal::open(folder.join("changes"), kinds).unwrap()
}

/// Two levels other than the one that is set, of each feature that this machine has.
pub fn features_here() -> Vec<(&'static str, PathBuf, Vec<String>)> {
    let mut here = Vec::new();
    for feature in FEATURES {
        let Ok((_, files)) = probe(feature, &this_host()) else { continue };
        let knob = tables::FACTORS.iter().find(|knob| knob.key == feature.key).unwrap();
        let levels: Vec<String> = match (feature.key, knob.kind) {
            (_, Takes::Choice(words)) => words.iter().map(|word| (*word).to_owned()).collect(),
            ("host.deepest_idle_state", _) => vec!["0".to_owned(), "1".to_owned()],
            ("host.zone_reclaim_mode", _) => vec!["0".to_owned(), "1".to_owned()],
            ("host.irq_affinity", _) => vec!["0".to_owned(), "1".to_owned()],
            ("host.sched_features", _) => {
                let other = |word: &str| word.strip_prefix("NO_").map_or_else(|| format!("NO_{word}"), str::to_owned);
                let words = read(&files[0]).unwrap();
                vec![
                    words.split(' ').take(2).map(other).collect::<Vec<_>>().join(","),
                    words.split(' ').map(other).next().unwrap(),
                ]
            }
            ("host.sched_base_slice_ns" | "host.sched_migration_cost_ns", _) => {
                vec!["1000001".to_owned(), "1000002".to_owned()]
            }
            ("host.sched_slice_us", _) => vec!["4000".to_owned(), "6000".to_owned()],
            _ => vec!["11".to_owned(), "12".to_owned()],
        };
        here.push((feature.key, files[0].clone(), levels));
    }
    here
}

/// Whether this is the superuser; else the test is skipped, which is said.
pub fn root_user() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|facts| std::os::unix::fs::MetadataExt::uid(&facts) == 0);
    if !root {
        eprintln!("skipped: not root");
    }
    root
}

/// What each feature of this machine is now, over all of its files.
fn state() -> Vec<(PathBuf, String)> {
    let files = FEATURES.iter().filter_map(|feature| probe(feature, &this_host()).ok()).flat_map(|(_, files)| files);
    files
        .map(|file| {
            let value = read(&file).unwrap();
            (file, value)
        })
        .collect()
}

/// Each feature that this machine has is set and undone.
pub fn are_set_and_undone() {
    let folder = TempDir::new().unwrap();
    let (before, here) = (state(), features_here());
    assert!(!here.is_empty(), "a Linux machine has vm.swappiness");
    for (key, file, levels) in &here {
        let mut changed = false;
        for level in levels {
            let mut setter = Setter::new(journal(folder.path()), this_host());
            match setter.set(key, level) {
                Ok(()) => changed |= state() != before,
                Err(
                    HostError::Absent { source: Absent::NotOffered { .. }, .. }
                    | HostError::InUse { .. }
                    | HostError::ModuleInUse { .. },
                ) => {}
                // In a PID namespace of the tests' own no process outside of it can be seen.
                Err(why @ HostError::VmsUnknown { .. }) => {
                    eprintln!("skipped: {why}");
                    changed = true;
                }
                Err(why) => panic!("{key} = {level}: {why}"),
            }
            drop(setter);
            assert_eq!(state(), before, "{key} = {level} is not undone");
        }
        // A machine with one governor of idle states can be set to that alone.
        assert!(changed || key.contains("governor"), "{key}: {} was never changed", file.display());
    }
}

/// Each feature of this machine passes its trial.
pub fn pass_their_trials() {
    let folder = TempDir::new().unwrap();
    let before = state();
    let mut works = 0;
    for feature in FEATURES.iter().filter(|feature| probe(feature, &this_host()).is_ok()) {
        match tried(feature, journal(folder.path()), &this_host()) {
            Ok(Tried::Works(_)) => works += 1,
            Ok(Tried::Alone)
            | Err(HostError::InUse { .. } | HostError::ModuleInUse { .. } | HostError::VmsUnknown { .. }) => {}
            other => panic!("{}: {other:?}", feature.key),
        }
    }
    assert!(works > 0, "a Linux machine has vm.swappiness");
    assert_eq!(state(), before);
}

/// Not a test: a process that sets every feature, says so, and waits to be killed.
#[test]
fn setter_process() {
    let Some(folder) = std::env::var_os(KILLED).map(PathBuf::from) else { return };
    let mut setter = Setter::new(journal(&folder), this_host());
    eprintln!("{BEGINS}");
    for (key, _, levels) in features_here() {
        let _ = levels.iter().rev().find(|level| setter.set(key, level).is_ok());
        eprintln!("reached {key}");
    }
    eprintln!("reached {ALL}");
    loop {
        std::thread::park();
    }
}

/// When a process that sets features is killed.
#[derive(Clone, Copy, Debug)]
pub enum Moment<'f> {
    /// It has reached this feature, or all.
    Reached(&'f str),
    /// So long after it has begun.
    After(Duration),
}

/// Kills a process that sets features at a moment, and undoes what it left; how long it took from its beginning to the moment.
pub fn killed_at(moment: Moment<'_>) -> Duration {
    let folder = TempDir::new().unwrap();
    let before = state();
    let mut setter = Command::new(std::env::current_exe().unwrap());
    setter.args(["--exact", "live::setter_process", "--nocapture"]).env(KILLED, folder.path());
    let mut setter = setter.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(setter.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line == BEGINS), "it ended before it began");
    let began = Instant::now();
    match moment {
        Moment::Reached(at) => assert!(said.any(|line| line == format!("reached {at}")), "it ended before {at}"),
        Moment::After(time) => std::thread::sleep(time),
    }
    let took = began.elapsed();
    setter.kill().unwrap();
    setter.wait().unwrap();
    let recovery = journal(folder.path()).recover().unwrap();
    assert!(recovery.failed.is_empty() && recovery.foreign.is_empty() && recovery.damaged.is_empty(), "{recovery:?}");
    assert_eq!(state(), before, "killed at {moment:?}: {recovery:?}");
    assert!(matches!(moment, Moment::After(_)) || !recovery.undone.is_empty(), "{recovery:?}");
    took
}
