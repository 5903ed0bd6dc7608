//! Programs and jobs that the tests run under a real keeper.

use baremark_model::arm::ResolvedArm;
use baremark_model::job::{Job, JobContext, JobError, JobRun};
use baremark_model::metric::Better;
use baremark_model::page_size::PageSize;
use baremark_model::units::Nanos;
use baremark_model::value::{Finder, Program, Reading, Take, Value};
use baremark_programs::command::Command;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The keeper, as a program of its own.
pub(crate) const KEEPER: &str = env!("CARGO_BIN_EXE_baremark-keeper");

/// A sleep whose length no other test has, so that its process can be told.
pub(crate) fn odd_sleep() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("3{}.{number:03}", std::process::id())
}

/// Whether a process has this word among its arguments.
pub(crate) fn runs(word: &str) -> bool {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .any(|line| line.split(|&byte| byte == 0).any(|argument| argument == word.as_bytes()))
}

pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn shell(script: &str) -> Program {
    Program {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        output_limit_bytes: 1 << 16,
        ..Program::default()
    }
}

pub(crate) fn rate(from: &str) -> Reading {
    Reading {
        key: "rate".to_owned(),
        unit: "1/s".to_owned(),
        better: Better::Higher,
        help: String::new(),
        from: from.to_owned(),
        finder: Finder::Regex(r"rate (?<value>\S+)".to_owned()),
        take: Take::Only,
        scale: 2.0,
        per: String::new(),
        optional: false,
    }
}

pub(crate) fn run_within(program: Program, timeout: Duration) -> Result<JobRun, JobError> {
    let arm = arm(&[
        ("command", Value::Program(Box::new(program))),
        ("timeout", Value::TimeNs(Nanos(u64::try_from(timeout.as_nanos()).unwrap()))),
        ("words", Value::Text("two words; $HOME".to_owned())),
    ]);
    run_job(&Command, &arm)
}

pub(crate) fn arm(parameters: &[(&str, Value)]) -> ResolvedArm {
    let plain = ResolvedArm::native(1, PageSize::Small);
    parameters.iter().fold(plain, |arm, (key, value)| arm.with(key, value.clone()))
}

pub(crate) fn run_job(job: &dyn Job, arm: &ResolvedArm) -> Result<JobRun, JobError> {
    let cpus = baremark_sys::affinity::allowed_cpus().unwrap();
    let phase = Duration::from_millis(400);
    let interrupt = Arc::default();
    let (keeper, cpus) = (Path::new(KEEPER), &cpus[..1]);
    let around = JobContext { keeper, cpus, seed: 7, phase, overwritable: &[], interrupt: &interrupt };
    job.prepare(arm, around)?.run()
}

pub(crate) fn run(program: Program) -> Result<JobRun, JobError> {
    run_within(program, Duration::from_secs(120))
}

pub(crate) fn failure(program: Program) -> String {
    run(program).expect_err("it must fail").to_string()
}

pub(crate) fn value(run: &JobRun, metric: &str) -> f64 {
    run.samples.iter().find(|sample| sample.metric == metric).unwrap().value
}
