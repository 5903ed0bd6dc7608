//! Runs tests, several at a time, each in its own process, folder and environment.

use crate::cargo::{self, Test, Tier, root, target_folder};
use crate::others;
use crate::outcome::{self, Outcome, State, counted, judged, of_the_test};
use crate::record;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;
use tempfile::TempDir;

/// How long what a test started may take to end after it.
const ENDING_S: u64 = 60;

/// How a tier's tests are run.
#[derive(Clone, Copy)]
pub struct Manner {
    /// In private namespaces where these are permitted.
    apart: bool,
    /// One test of each suite at a time: each finds its system as it left it.
    in_turn: bool,
    /// Engines and launchers of other people are not found, whether or not they are installed.
    hides_others: bool,
    /// So many tests at once.
    jobs: usize,
    /// A test that has not ended by then never will.
    limit_s: u64,
}

impl Manner {
    pub fn of(tier: Tier) -> Self {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        match tier {
            // Most of them wait: for budgets, deadlines and processes of theirs. None depends on how many run.
            Tier::Code => Manner { apart: false, in_turn: false, hides_others: true, jobs: 2 * cpus, limit_s: 600 },
            Tier::Systems => Manner { apart: true, in_turn: true, hides_others: false, jobs: cpus, limit_s: 1200 },
            Tier::Measured => Manner { apart: true, in_turn: true, hides_others: false, jobs: 1, limit_s: 3600 },
        }
    }

    pub fn alone(self) -> Self {
        Manner { jobs: 1, ..self }
    }
}

/// `make test`.
pub fn code(suite: Option<&str>, filters: &[String]) -> Result<ExitCode, String> {
    let tests = chosen(cargo::tests(Tier::Code, suite)?, filters)?;
    let outcomes = run(&tests, Manner::of(Tier::Code), told)?;
    print!("{}", outcome::times(&outcomes));
    print_skips(&outcomes, &[]);
    record::write(Tier::Code, &outcomes, &[])?;
    println!("\n{}", counted(&outcomes));
    Ok(exit_code(!outcomes.iter().any(|of| of.state == State::Failed)))
}

/// `make test-systems`: what fails is run once more, alone; only what fails then, too, is a failure.
pub fn systems(suite: Option<&str>, filters: &[String], recorded: bool) -> Result<ExitCode, String> {
    let tests = chosen(cargo::tests(Tier::Systems, suite)?, filters)?;
    let manner = Manner::of(Tier::Systems);
    let before = record::skips_before();
    let outcomes = run(&tests, manner, told)?;
    let again: Vec<Test> = outcomes.iter().filter(|of| of.state == State::Failed).map(|of| of.test.clone()).collect();
    if !again.is_empty() {
        println!("\nagain, each alone: {} of {} tests", again.len(), outcomes.len());
    }
    let alone = run(&again, manner.alone(), told)?;
    record::write(Tier::Systems, &outcomes, &alone)?;
    print!("{}", outcome::times(&outcomes));
    print_skips(&outcomes, &before);
    let named = |what: &str, which: &dyn Fn(&Outcome) -> bool| {
        let names: Vec<String> = alone.iter().filter(|of| which(of)).map(|of| of.test.full()).collect();
        println!("\n{what}: {}", if names.is_empty() { "none".to_owned() } else { names.len().to_string() });
        names.iter().for_each(|name| println!("  {name}"));
        names.len()
    };
    println!("\npassed: {}", outcomes.iter().filter(|of| of.state == State::Passed).count());
    named("passed only alone", &|of| of.state != State::Failed);
    let failed = named("failed", &|of| of.state == State::Failed);
    if recorded {
        record::append(&outcomes, &alone)?;
    }
    Ok(exit_code(failed == 0))
}

pub fn exit_code(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Those whose full name has one of the filters in it.
pub fn chosen(tests: Vec<Test>, filters: &[String]) -> Result<Vec<Test>, String> {
    let wanted = |test: &Test| filters.is_empty() || filters.iter().any(|filter| test.full().contains(filter.as_str()));
    let chosen: Vec<Test> = tests.into_iter().filter(wanted).collect();
    if chosen.is_empty() { Err(format!("no test is called like {}", filters.join(" or "))) } else { Ok(chosen) }
}

/// Reasons of skips with their numbers; those that were not there before come first and say so.
fn print_skips(outcomes: &[Outcome], before: &[String]) {
    let skips = outcome::skips(outcomes);
    if skips.is_empty() {
        return;
    }
    println!("\nskipped on this machine:");
    let is_new = |reason: &String| !before.is_empty() && !before.contains(reason);
    for (reason, number) in skips.iter().filter(|(reason, _)| is_new(reason)) {
        println!("{number:7} NEW since the last run: {reason}");
    }
    for (reason, number) in skips.iter().filter(|(reason, _)| !is_new(reason)) {
        println!("{number:7} {reason}");
    }
}

/// Tells of a failure at once, and now and then how far things are.
pub fn told(outcome: &Outcome, done: usize, all: usize) {
    if outcome.state == State::Failed {
        println!("\nFAILED {} ({:.1} s)\n{}\n", outcome.test.full(), outcome.seconds, of_the_test(&outcome.output));
    }
    if done.is_multiple_of(100) || done == all {
        println!("{done} of {all} tests");
    }
}

/// What is left to do, and which suites are at it.
struct Queue {
    pending: Vec<usize>,
    busy: Vec<String>,
    done: Vec<(usize, Outcome)>,
}

/// Runs all of them; the outcomes are in the order of the tests.
pub fn run(
    tests: &[Test],
    manner: Manner,
    tell: impl Fn(&Outcome, usize, usize) + Sync,
) -> Result<Vec<Outcome>, String> {
    let place = Place::new(manner)?;
    let before = record::seconds_before();
    let known = |at: &usize| before.get(&tests[*at].full()).copied().unwrap_or(1.0);
    let mut pending: Vec<usize> = (0..tests.len()).collect();
    // From the end are taken first those that took longest.
    pending.sort_by(|a, b| known(a).total_cmp(&known(b)).then(b.cmp(a)));
    let queue = Mutex::new(Queue { pending, busy: Vec::new(), done: Vec::new() });
    let freed = Condvar::new();
    thread::scope(|scope| {
        for _ in 0..manner.jobs {
            scope.spawn(|| {
                while let Some(at) = taken(&queue, &freed, tests, manner.in_turn) {
                    let outcome = place.run(at, &tests[at], manner);
                    let mut queue = locked(&queue);
                    if let Some(own) = queue.busy.iter().position(|busy| *busy == tests[at].target) {
                        queue.busy.swap_remove(own);
                    }
                    tell(&outcome, queue.done.len() + 1, tests.len());
                    queue.done.push((at, outcome));
                    drop(queue);
                    freed.notify_all();
                }
            });
        }
    });
    let mut done = queue.into_inner().unwrap_or_else(PoisonError::into_inner).done;
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, outcome)| outcome).collect())
}

fn locked(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next test, once its suite is free where suites go in turn; nothing when none is left.
fn taken(queue: &Mutex<Queue>, freed: &Condvar, tests: &[Test], in_turn: bool) -> Option<usize> {
    let mut queue = locked(queue);
    loop {
        if queue.pending.is_empty() {
            return None;
        }
        let free = |at: &usize| !in_turn || !queue.busy.contains(&tests[*at].target);
        if let Some(next) = queue.pending.iter().rposition(free) {
            let at = queue.pending.remove(next);
            queue.busy.push(tests[at].target.clone());
            return Some(at);
        }
        queue = freed.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

/// The folder of all tests of this run, which is removed with it.
struct Place {
    folder: PathBuf,
    /// Where tests look for programs, if not where this program does.
    path: Option<OsString>,
}

impl Place {
    fn new(manner: Manner) -> Result<Self, String> {
        let mut place = Place { folder: temporary_folder()?, path: None };
        let failed = |why: io::Error, folder: &Path| format!("{}: {why}", folder.display());
        // Tests that become another user look for files below.
        let made = fs::set_permissions(&place.folder, Permissions::from_mode(0o755));
        made.map_err(|why| failed(why, &place.folder))?;
        if manner.hides_others {
            let folder = place.folder.join("others");
            let path = others::hidden(&folder, &std::env::var_os("PATH").unwrap_or_default());
            place.path = Some(path.map_err(|why| failed(why, &folder))?);
        }
        Ok(place)
    }

    fn run(&self, number: usize, test: &Test, manner: Manner) -> Outcome {
        let begun = Instant::now();
        let tried = self.tried(number, test, manner);
        let seconds = begun.elapsed().as_secs_f64();
        let (state, cpu_s, output) = match tried {
            Ok((succeeded, cpu_s, output)) => (judged(succeeded, &output), cpu_s, output),
            Err(why) => (State::Failed, 0.0, why.to_string()),
        };
        Outcome { test: test.clone(), state, seconds, cpu_s, output }
    }

    /// Whether it succeeded and left nothing, its CPU time in seconds, and what it printed.
    fn tried(&self, number: usize, test: &Test, manner: Manner) -> io::Result<(bool, f64, String)> {
        let (temporary, home) = (self.folder.join(number.to_string()), self.folder.join(format!("{number}.home")));
        let log = self.folder.join(format!("{number}.log"));
        for folder in [&temporary, &home] {
            fs::create_dir(folder)?;
        }
        fs::DirBuilder::new().mode(0o700).create(home.join("runtime"))?;
        // This very program, also after cargo has built another in its place.
        let mut command = Command::new("/proc/self/exe");
        command.args([
            "supervise",
            if manner.apart { "apart" } else { "plain" },
            &manner.limit_s.to_string(),
            &ENDING_S.to_string(),
        ]);
        command.arg(&test.program).args(["--exact", &test.name, "--nocapture"]);
        // With one thread libtest prints the name before the output, on its first line.
        command.arg("--test-threads=2");
        let output = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).current_dir(&test.folder);
        environment(&mut command, &temporary, &home, &test.folder);
        command.envs(self.path.iter().map(|path| ("PATH", path)));
        let (mut succeeded, cpu_s) = ended(&command.spawn()?)?;
        let mut said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        for entry in fs::read_dir(&temporary)?.flatten() {
            succeeded = false;
            said += &format!("left in its temporary folder: {}\n", entry.file_name().display());
        }
        for path in [&temporary, &home] {
            removed(path);
        }
        fs::remove_file(log)?;
        Ok((succeeded, cpu_s, said))
    }
}

/// Waits for the end of a child: whether it succeeded, and the CPU time in seconds of it and of all below it that were waited for.
fn ended(child: &Child) -> io::Result<(bool, f64)> {
    let mut status = 0;
    // SAFETY: all zero bytes are a valid rusage.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to variables of this function, which outlive the call.
    while unsafe { libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut used) } < 0 {
        let why = io::Error::last_os_error();
        if why.kind() != io::ErrorKind::Interrupted {
            return Err(why);
        }
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok((status == 0, seconds(used.ru_utime) + seconds(used.ru_stime)))
}

/// A new folder with an unpredictable name in the temporary folder.
pub fn temporary_folder() -> Result<PathBuf, String> {
    let made = tempfile::Builder::new().prefix("bm-").tempdir();
    made.map(TempDir::keep).map_err(|why| format!("{}: {why}", std::env::temp_dir().display()))
}

impl Drop for Place {
    fn drop(&mut self) {
        removed(&self.folder);
    }
}

/// Removes a folder, also one whose folders may not be written.
fn removed(folder: &Path) {
    if fs::remove_dir_all(folder).is_err() {
        permitted(folder);
        if let Err(why) = fs::remove_dir_all(folder) {
            eprintln!("{}: {why}", folder.display());
        }
    }
}

fn permitted(folder: &Path) {
    let _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            permitted(&entry.path());
        }
    }
}

/// Just what tests may know of the environment of whoever started them.
fn environment(command: &mut Command, temporary: &Path, home: &Path, folder: &Path) {
    command.env_clear();
    let kept = |name: &str| {
        let own = ["BAREMARK_", "CARGO", "RUST", "INSTA_", "PROPTEST_"];
        let one = ["PATH", "USER", "LOGNAME", "UPDATE_PAGES", "UPDATE_GOLDEN", "UPDATE_TASKS", "STREAM_C"];
        name != "RUST_BACKTRACE" && (one.contains(&name) || own.iter().any(|start| name.starts_with(start)))
    };
    command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(kept)));
    command.env("TMPDIR", temporary).env("HOME", home).env("LANG", "C.UTF-8");
    // Where changes to the host are recorded; for root it is one folder of the machine otherwise.
    command.env("XDG_STATE_HOME", home.join("state"));
    // Engines of containers keep files there that outlive a command; without it in the temporary folder. Those of root do not ask.
    // SAFETY: has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        command.env("XDG_RUNTIME_DIR", home.join("runtime"));
    }
    command.env("CARGO_MANIFEST_DIR", folder).env("CARGO_TARGET_DIR", target_folder());
    let defaults = [
        ("INSTA_WORKSPACE_ROOT", root().into_os_string()),
        ("INSTA_UPDATE", "no".into()),
        ("PROPTEST_RNG_SEED", "1".into()),
    ];
    for (name, value) in defaults {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    // The tools of a toolchain find it by the home of whoever has it.
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    for (name, below) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        if std::env::var_os(name).is_none() {
            command.env(name, home.join(below));
        }
    }
}

/// Seconds by name, of whatever was recorded.
pub type Seconds = HashMap<String, f64>;
