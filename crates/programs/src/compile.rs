//! `compile`: a parallel build of a real C project of many small files.
//!
//! Many short processes and small files: page tables made and ended, not arithmetic. Every run unpacks a fresh tree and
//! configures it, neither of which is measured; then the build is, with as many jobs as there are CPUs; then the artefact
//! must be there, run and say what it should.

use crate::command::{missing, times};
use crate::run_folder::{self, Stage, Written};
use crate::workshop::{last_words, search_path};
use baremark_model::arm::ResolvedArm;
use baremark_model::command::{CPU, TIMEOUT, WALL};
use baremark_model::descriptor::Descriptor;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::Sample;
use regex_lite::Regex;
use std::fs;
use std::path::{Path, PathBuf};

const TARBALL: Knob = Knob::new("tarball", Kind::Text, Default::Required)
    .help("the project's source as tar reads it, a file at the site; its first folder is left out");
const CONFIGURE: Knob = Knob::new("configure", Kind::Words, Default::Derived("no configure step"))
    .help("program and arguments that configure the tree; not measured");
const BUILD: Knob =
    Knob::new("build", Kind::Words, Default::Typed("make")).help("program and arguments that build it; -jN is added");
const JOBS: Knob = Knob::new("jobs", Kind::Count { min: 1, max: 4096 }, Default::Derived("one for each CPU"))
    .help("number of parallel compilers");
const ARTEFACT: Knob = Knob::new("artefact", Kind::Words, Default::Required)
    .help("the built program, which is run with these arguments to check it, such as [\"./httpd\", \"-v\"]");
const SAYS: Knob = Knob::new("says", Kind::Text, Default::Typed(""))
    .help("a regular expression that the built program's output must match");

static METRICS: [Metric; 3] = [
    WALL.help("wall time of the build"),
    CPU,
    Metric::higher("files_per_s", "files/s", Aggregate::Sum).help("object files made for each second of wall time"),
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "compile",
    help: "a parallel build of a C project of many small files",
    source: "after the Apache compile of the 2009 evaluation of AMD's RVI",
    parameters: &[TIMEOUT, TARBALL, CONFIGURE, BUILD, JOBS, ARTEFACT, SAYS],
    metrics: &METRICS,
    alternates: |_| true,
    check,
    ..Descriptor::JOB
};

fn check(arm: &ResolvedArm) -> Result<(), InvalidValue> {
    let misfit = |what: String, remedy: &str| Err(InvalidValue::new(what, remedy));
    if let Err(why) = Regex::new(&SAYS.get::<String>(arm)?) {
        return misfit(format!("says is not a regular expression: {why}"), "write one, such as says = 'Apache/2'");
    }
    if ARTEFACT.get::<Vec<String>>(arm)?.is_empty() {
        return misfit("artefact names no program".to_owned(), "write artefact = [\"./program\", \"--version\"]");
    }
    Ok(())
}

/// A parallel build.
#[derive(Clone, Copy, Debug)]
pub struct Compile;

impl Job for Compile {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let path = search_path();
        for (program, package) in [("tar", "tar"), ("make", "make"), ("cc", "gcc")] {
            missing(program, package, &path)?;
        }
        let tarball = run_folder::found_at_site(
            &TARBALL.get::<PathBuf>(arm)?,
            "scripts/fetch-sources gets the sources of the shipped studies; or name another tarball",
        )?;
        Ok(Box::new(PreparedBuild { arm, around, tarball, written: Written::NOTHING }))
    }
}

struct PreparedBuild<'s> {
    arm: &'s ResolvedArm,
    around: JobContext<'s>,
    tarball: PathBuf,
    written: Written,
}

impl ReadyJob for PreparedBuild<'_> {
    fn rest(&mut self) -> Result<(), JobError> {
        self.written.sync()
    }

    fn run(&mut self) -> Result<JobRun, JobError> {
        let mut stage = Stage::open(self.arm, self.around)?;
        self.written.note(&stage);
        let tarball = self.tarball.to_string_lossy().into_owned();
        stage.run(&["tar", "--extract", "--strip-components=1", "--no-same-owner", "--file", &tarball])?;
        let configure: Vec<String> = CONFIGURE.find(self.arm)?.unwrap_or_default();
        if !configure.is_empty() {
            stage.run(&configure)?;
        }
        let before = objects(&stage.path("."));
        let jobs = JOBS.find(self.arm)?.unwrap_or(stage.cpus() as u64);
        let mut build: Vec<String> = BUILD.get(self.arm)?;
        build.push(format!("-j{jobs}"));
        let built = stage.run(&build)?;
        let made = objects(&stage.path(".")).saturating_sub(before);
        if made == 0 {
            let what =
                format!("{} made no object file; name a tarball of sources that are not built yet", build.join(" "));
            return Err(JobError::Failed { what, log: last_words(&built) });
        }
        let artefact: Vec<String> = ARTEFACT.get(self.arm)?;
        let outcome = stage.run(&artefact)?;
        let said = format!("{}\n{}", outcome.stdout.text, outcome.stderr.text);
        let says: String = SAYS.get(self.arm)?;
        if !Regex::new(&says).is_ok_and(|regex| regex.is_match(&said)) {
            let what = format!("{} was built and does not say '{says}'", artefact.join(" "));
            return Err(JobError::Failed { what, log: last_words(&outcome) });
        }
        let mut samples = times(&built).to_vec();
        #[expect(clippy::cast_precision_loss, reason = "a number of files and nanoseconds of a build")]
        let rate = made as f64 / (built.wall_ns as f64 / 1e9);
        samples.push(Sample::new("files_per_s", rate));
        let checked = format!("{made} object files with {jobs} jobs; {} runs and says so", artefact.join(" "));
        Ok(JobRun { samples, checked, ..JobRun::default() })
    }
}

/// Object files in a tree.
fn objects(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let of_entry = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => objects(&entry.path()),
        Ok(kind) if kind.is_file() => {
            u64::from(entry.path().extension().is_some_and(|name| name == "o" || name == "lo"))
        }
        _ => 0,
    };
    entries.flatten().map(of_entry).sum()
}
