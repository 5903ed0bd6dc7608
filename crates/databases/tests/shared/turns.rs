//! Jobs whose phases take turns with those of another site: one database for all of them, which rests in between.

use crate::bench::LIMIT;
use baremark_databases::ALL;
use baremark_databases::database::{Connection, Database, Rows};
use baremark_databases::kind::Kind;
use baremark_databases::sqlite::{Sqlite, Synchronous};
use baremark_model::arm::ResolvedArm;
use baremark_model::job::{Job, JobContext, JobRun, ReadyJob};
use baremark_model::page_size::PageSize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A job of this kind on a database whose data are in `folder`, in short phases.
fn of(kind: &str, database: Kind, folder: &Path, typed: &[(&str, &str)]) -> (&'static dyn Job, ResolvedArm) {
    let job = *ALL.iter().find(|job| job.descriptor().kind == kind).unwrap();
    let mut arm = ResolvedArm::native(1, PageSize::Small);
    let shared = [("database", database.word()), ("data", folder.to_str().unwrap()), ("duration", "300 ms")];
    for (key, text) in shared.into_iter().chain([("warm_up", "50 ms")]).chain(typed.iter().copied()) {
        let value = job.descriptor().parameter(key).unwrap().read_text(text).unwrap();
        arm.parameters.insert(key.to_owned(), value);
    }
    (job, arm)
}

fn prepared<'s>(
    (job, arm): &'s (&'static dyn Job, ResolvedArm),
    interrupt: &'s Arc<AtomicBool>,
) -> Box<dyn ReadyJob + 's> {
    let (keeper, phase) = (Path::new("/nonexistent"), Duration::from_secs(1));
    let around = JobContext { keeper, cpus: &[], seed: 5, phase, overwritable: &[], interrupt };
    job.prepare(arm, around).unwrap_or_else(|why| panic!("{why}"))
}

/// As an agent has a job run that takes turns: it rests until its turn, and after it.
fn first_rest(ready: &mut dyn ReadyJob) {
    ready.takes_turns();
    ready.warm_up().unwrap_or_else(|why| panic!("{why}"));
    ready.rest().unwrap_or_else(|why| panic!("{why}"));
}

/// A phase; one in which a slow disk lets no transaction end is repeated.
fn phase(ready: &mut dyn ReadyJob) -> JobRun {
    let deadline = Instant::now() + LIMIT;
    loop {
        match ready.run() {
            Ok(run) => return run,
            Err(why) if why.to_string().contains("no transaction ended") => {
                assert!(Instant::now() < deadline, "{why}");
            }
            Err(why) => panic!("{why}"),
        }
    }
}

fn turn(ready: &mut dyn ReadyJob) {
    ready.wake();
    let run = phase(ready);
    assert!(run.checked.contains("every acknowledged"), "{}", run.checked);
    ready.rest().unwrap_or_else(|why| panic!("{why}"));
}

/// The embedded database that is in a folder, not that of the kept data.
fn embedded(folder: &Path) -> Box<dyn Connection> {
    let ours = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("baremark-"));
    let mut running = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).filter(ours);
    let path = running.next().unwrap().join("data/database");
    assert!(path.is_file() && running.next().is_none(), "{}", path.display());
    Sqlite::new(path, Synchronous::Full, 64 << 20).connect().unwrap()
}

fn is_marked(folder: &Path) -> bool {
    embedded(folder).query("select count(*) from mark", &mut Rows::default()).is_ok()
}

/// In turns the second phase of the embedded database finds what the first has left, and a mark; otherwise data as they were loaded.
pub fn the_embedded_database_goes_on(kind: &str, typed: &[(&str, &str)]) {
    let (folder, interrupt) = (tempfile::tempdir().unwrap(), Arc::default());
    // A commit need not wait for the disk here.
    let typed = [typed, &[("synchronous_commit", "false")]].concat();
    let job = of(kind, Kind::Sqlite, folder.path(), &typed);
    assert!((job.0.descriptor().alternates)(&job.1));
    let mark = || embedded(folder.path()).script("create table mark (x integer)").unwrap();
    let mut ready = prepared(&job, &interrupt);
    first_rest(&mut *ready);
    turn(&mut *ready);
    mark();
    turn(&mut *ready);
    assert!(is_marked(folder.path()), "the data is that of the phase before");
    assert_eq!(ready.resting_cpu_ns(), 0, "no process of its own");
    drop(ready);
    let mut ready = prepared(&job, &interrupt);
    phase(&mut *ready);
    mark();
    phase(&mut *ready);
    assert!(!is_marked(folder.path()), "the data is as it was loaded");
}

/// What fsync = false leaves unwritten would be synced between phases, in nobody's time; a server that is there already is not stopped.
pub fn what_runs_on_or_is_not_synced_takes_no_turns(kind: &str) {
    let own = ("server_settings", "FSYNC=off");
    let with_a_url = ("url", "env:URL");
    for (database, typed) in [(Kind::Sqlite, ("fsync", "false")), (Kind::Postgres, own), (Kind::Postgres, with_a_url)] {
        let (job, arm) = of(kind, database, Path::new("/data"), &[typed]);
        assert!(!(job.descriptor().alternates)(&arm), "{typed:?}");
    }
}

/// What a plan counts of two servers that are there at once.
pub fn a_server_that_stays_up_holds_its_cache(kind: &str) {
    let held = |database: Kind, typed: &[(&str, &str)]| {
        let typed = [&[("buffers", "3 GiB")][..], typed].concat();
        let (job, arm) = of(kind, database, Path::new("/data"), &typed);
        (job.descriptor().footprint.unwrap().bytes)(&arm)
    };
    assert_eq!([Kind::Postgres, Kind::Mariadb].map(|server| held(server, &[])), [Some(3 << 30); 2]);
    assert_eq!(held(Kind::Sqlite, &[]), None, "its connections are closed between phases");
    for other in [("url", "env:URL"), ("huge_pages", "true")] {
        assert_eq!(held(Kind::Postgres, &[other]), None, "{other:?}");
    }
}

/// Processes that work in a folder, with their states and parents.
fn processes(folder: &Path) -> BTreeMap<u32, (char, u32)> {
    let of = |pid: u32| {
        let cwd = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let (state, parent) = (fields.next()?.chars().next()?, fields.next()?.parse().ok()?);
        (cwd.starts_with(folder) && state != 'Z').then_some((pid, (state, parent)))
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| of(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// The one of them that this process has started.
fn root(processes: &BTreeMap<u32, (char, u32)>) -> u32 {
    let mut ours = processes.iter().filter(|(_, (_, parent))| *parent == std::process::id());
    let (pid, _) = ours.next().unwrap();
    assert_eq!(ours.next(), None, "one server");
    *pid
}

/// In turns a server is the same in all phases, and none of its processes runs while it rests. Skipped where it is not installed.
pub fn a_server_rests(kind: &str, database: Kind, typed: &[(&str, &str)]) {
    if let Err(why) = database.version() {
        return eprintln!("skipped: {why}");
    }
    let (folder, interrupt) = (tempfile::tempdir().unwrap(), Arc::default());
    let place = folder.path().canonicalize().unwrap();
    let job = of(kind, database, &place, typed);
    assert!((job.0.descriptor().alternates)(&job.1));
    let mut ready = prepared(&job, &interrupt);
    first_rest(&mut *ready);
    let first = root(&processes(&place));
    for phase in 0..3 {
        let resting = processes(&place);
        assert!(resting.values().all(|(state, _)| *state == 'T'), "{phase}: {resting:?}");
        assert_eq!(root(&resting), first, "{phase}: the same server");
        // What has just stopped may still leave its CPU.
        std::thread::sleep(Duration::from_millis(20));
        let used_ns = ready.resting_cpu_ns();
        std::thread::sleep(Duration::from_millis(50));
        assert!(used_ns > 0 && ready.resting_cpu_ns() == used_ns, "{phase}: {used_ns}");
        turn(&mut *ready);
    }
    drop(ready);
    assert_eq!(processes(&place), BTreeMap::new());
}
