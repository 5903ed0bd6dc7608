//! `command`: any external program, as its study describes it.
//!
//! Every run has a fresh folder: files are put, what prepares it runs unmeasured, what runs alongside it becomes ready, then
//! the program is timed. A run that does not succeed by the study's own rules, or lacks a metric, is not a result. A program that
//! is repeated has one folder for all its runs in a trial, and a phase of it is as many runs as fit.

use crate::carried::{self, Laid};
use crate::inside::Inside;
use crate::keeper::{End, Outcome, Stdout, Task};
use crate::protected::Protected;
use crate::reading::{self, ReadingError};
use crate::runs;
use crate::workshop::{self, Workshop, badly_ended, ended_well, in_words, last_words};
use baremark_kernels::isa;
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::command::{self, TIMEOUT};
use baremark_model::descriptor::Descriptor;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::metric::Metric;
use baremark_model::protection::Settings;
use baremark_model::seam::{Sample, WorkloadError};
use baremark_model::units::Nanos;
use baremark_model::value::{self, Program, Reading};
use baremark_sys::process::find_program;
use regex_lite::Regex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Instant;

/// How long what runs alongside a program may take to become ready.
const READY_LIMIT_NS: u64 = 60_000_000_000;

/// The warm-up of a phase of a program that is repeated, as a share of the phase.
const WARM_UP_SHARE: u32 = 4;

/// What every program takes for a seed: it fits into 31 bits.
const LARGEST_SEED: u64 = (1 << 31) - 1;

/// Any external program.
#[derive(Clone, Copy, Debug)]
pub struct Command;

impl Job for Command {
    fn descriptor(&self) -> &'static Descriptor {
        &command::BARE
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let refused = |value: &str, why: &str| WorkloadError::Parameter {
            key: command::KIND.to_owned(),
            value: value.to_owned(),
            why: why.to_owned(),
        };
        let program =
            command::of_arm(arm).ok_or_else(|| refused("(not set)", "describe it in the section [command]"))?;
        needs(program)?;
        let inside = match arm.executor {
            ExecutorKind::Microvm => Some(Inside::prepare(arm, around.keeper)?),
            _ => None,
        };
        let settings = Settings::of(arm)?;
        let before = inside.as_ref().map(Inside::before).unwrap_or_default();
        let protected = match settings.epoch {
            Some(_) => Some(Protected::prepare(settings, around.keeper, around.cpus, around.cpus.len(), &before)?),
            None => None,
        };
        let Nanos(timeout_ns) = TIMEOUT.get(arm)?;
        Ok(Box::new(PreparedProgram { program, arm, around, timeout_ns, inside, protected, kept: None }))
    }
}

/// Refuses a site, which is the one that asks, that lacks what the program needs.
///
/// # Errors
/// Which program or instruction set it lacks, and how to get it.
pub fn needs(program: &Program) -> Result<(), JobError> {
    let path = program.environment.get("PATH").cloned().unwrap_or_else(workshop::search_path);
    for (needed, package) in &program.needs {
        missing(needed, package, &path)?;
    }
    if let Some(needed) = program.instruction_set
        && isa::widest() < needed
    {
        let what = format!("the program needs {needed:?} and this site has {:?} at most", isa::widest());
        return Err(JobError::Missing { what, remedy: "run it elsewhere, or take a build for less".to_owned() });
    }
    Ok(())
}

/// Refuses a site that lacks a program. `package` is the Debian package that has it, or, with a space in it, how else to get it.
///
/// # Errors
/// Which it lacks, and how to get it.
pub fn missing(program: &str, package: &str, path: &str) -> Result<(), JobError> {
    if find_program(program, path).or_else(|| next_to_this(program)).is_some() {
        return Ok(());
    }
    let remedy = match package {
        "" => "install it".to_owned(),
        how if how.contains(' ') => how.to_owned(),
        name => format!("Debian package {name}"),
    };
    Err(JobError::Missing { what: format!("program {program} not found at site"), remedy })
}

/// A program in the folder of this one, as those that are built with it are.
fn next_to_this(program: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    if program.contains('/') { None } else { find_program(own.parent()?.join(program).to_str()?, "") }
}

struct PreparedProgram<'s> {
    program: &'s Program,
    arm: &'s ResolvedArm,
    around: JobContext<'s>,
    timeout_ns: u64,
    /// Where it runs in the microVM.
    inside: Option<Inside>,
    /// How it is protected.
    protected: Option<Protected>,
    /// Where a program that is repeated runs.
    kept: Option<Opened<'s>>,
}

/// A folder in which the program can be run, with all that it finds there.
struct Opened<'s> {
    workshop: Workshop,
    texts: Texts<'s>,
    environment: BTreeMap<String, String>,
    laid: Laid,
}

impl ReadyJob for PreparedProgram<'_> {
    fn warm_up(&mut self) -> Result<(), JobError> {
        (0..self.program.warmup).try_for_each(|_| self.once().map(drop))
    }

    fn run(&mut self) -> Result<JobRun, JobError> {
        if !self.program.repeat {
            let run = self.once()?;
            let times = runs::run_times(std::slice::from_ref(&run));
            return Ok(JobRun { points: run.points.into_iter().chain(times).collect(), ..run });
        }
        let warm_up = self.around.phase / WARM_UP_SHARE;
        let begun = Instant::now();
        let mut counted = Vec::new();
        loop {
            let run = self.once()?;
            let elapsed = begun.elapsed();
            if elapsed > warm_up {
                counted.push(run);
            }
            if elapsed >= self.around.phase + warm_up {
                return Ok(runs::joined(counted));
            }
        }
    }
}

impl<'s> PreparedProgram<'s> {
    fn open(&self) -> Result<Opened<'s>, JobError> {
        let program = self.program;
        let mut workshop = Workshop::open(self.around.keeper)?;
        let texts = Texts::new(self.arm, program, self.around, workshop.folder().to_string_lossy().into_owned());
        for (name, text) in &program.files {
            workshop.put(name, texts.fill(text)?.as_bytes())?;
        }
        for (name, brought) in &program.bring {
            workshop.put_copy(name, brought)?;
        }
        let environment = texts.environment()?;
        let laid = carried::lay(program, &texts.fill(&program.directory)?)?;
        if let Some(beside) = &program.beside {
            // What prepares the program may prepare what runs alongside it.
            self.prepare(&mut workshop, &texts, &environment)?;
            let task = self.task(&beside.argv, READY_LIMIT_NS, &texts, &environment)?;
            workshop.run_beside(task, &beside.ready)?;
        }
        Ok(Opened { workshop, texts, environment, laid })
    }

    fn task(
        &self,
        argv: &[String],
        timeout_ns: u64,
        texts: &Texts<'_>,
        environment: &BTreeMap<String, String>,
    ) -> Result<Task, JobError> {
        let directory = texts.fill(&self.program.directory)?;
        let mut argv = argv.iter().map(|text| texts.fill(text)).collect::<Result<Vec<_>, _>>()?;
        if let Some(program) = argv.first_mut()
            && find_program(program, environment.get("PATH").map_or("", String::as_str)).is_none()
            && let Some(found) = next_to_this(program).and_then(|found| found.into_os_string().into_string().ok())
        {
            *program = found;
        }
        Ok(Task {
            argv,
            environment: environment.clone(),
            timeout_ns,
            output_limit_bytes: self.program.output_limit_bytes,
            cpus: self.around.cpus.to_vec(),
            directory: self.directory(directory),
            ..Task::default()
        })
    }

    /// Where it runs; in its private folder where files were brought for it to a site that lacks its own.
    fn directory(&self, named: String) -> Option<PathBuf> {
        let brought = self.program.carry.values().any(|brought| !brought.is_empty());
        let named = (!named.is_empty()).then(|| PathBuf::from(named))?;
        (!brought || named.is_dir()).then_some(named)
    }

    fn prepare(
        &self,
        workshop: &mut Workshop,
        texts: &Texts<'_>,
        environment: &BTreeMap<String, String>,
    ) -> Result<(), JobError> {
        for argv in &self.program.prepare {
            let task = self.task(argv, self.timeout_ns, texts, environment)?;
            let name = format!("{}, which prepares the program", workshop::name(&task));
            ended_well(&name, self.timeout_ns, workshop.run(task)?)?;
        }
        Ok(())
    }

    /// One run, prepared, timed and judged.
    fn once(&mut self) -> Result<JobRun, JobError> {
        let (mut opened, fresh) = match self.kept.take() {
            Some(opened) => (opened, false),
            None => (self.open()?, true),
        };
        let Opened { workshop, texts, environment, laid } = &mut opened;
        // A program with another alongside it was prepared before that one started.
        if self.program.beside.is_none() || !fresh {
            self.prepare(workshop, texts, environment)?;
        }
        let stdin = texts.fill(&self.program.stdin)?;
        let mut task = Task {
            stdin: (!stdin.is_empty()).then(|| PathBuf::from(stdin)),
            stdout: match self.program.stdout {
                value::Stdout::Keep => Stdout::Keep,
                value::Stdout::Drop => Stdout::Drop,
            },
            ..self.task(&self.program.argv, self.timeout_ns, texts, environment)?
        };
        let name = workshop::name(&task);
        let directory = texts.fill(&self.program.directory)?;
        task.argv = (0..).zip(task.argv).map(|(index, word)| laid.word(&directory, index, word)).collect();
        if let Some(inside) = &self.inside {
            task = inside.task(task, workshop.folder());
        }
        if let Some(protected) = &self.protected {
            task = protected.task(task, workshop.folder());
        }
        let outcome = workshop.run(task)?;
        self.judge(&name, &outcome, workshop, texts)?;
        let samples = self.samples(&name, &outcome, workshop, texts)?;
        let flags = flags(&outcome).into_iter().chain(laid.flags.iter().cloned()).collect();
        let mut run = JobRun { samples, checked: self.checked(&outcome), flags, ..JobRun::default() };
        if let Some(inside) = &self.inside {
            inside.add(&mut run, seconds(outcome.wall_ns), workshop.folder())?;
        }
        if let Some(protected) = &self.protected {
            protected.add(&mut run, workshop.folder())?;
        }
        if self.program.repeat {
            self.kept = Some(opened);
        }
        Ok(run)
    }
}

/// The program's texts at this site.
pub(crate) struct Texts<'s> {
    arm: &'s ResolvedArm,
    program: &'s Program,
    ranks: usize,
    seed: u64,
    folder: String,
    port: u16,
    /// This program.
    own: String,
}

impl<'s> Texts<'s> {
    pub(crate) fn new(arm: &'s ResolvedArm, program: &'s Program, around: JobContext<'_>, folder: String) -> Self {
        // The keeper's path may be one that means another program in another process.
        let own = around.keeper.canonicalize().unwrap_or_else(|_| around.keeper.to_owned());
        let own = own.to_string_lossy().into_owned();
        Texts { arm, program, ranks: around.cpus.len(), seed: around.seed, folder, port: free_port(), own }
    }

    pub(crate) fn fill(&self, text: &str) -> Result<String, JobError> {
        command::fill(text, |key| self.value(key)).map_err(|key| unfilled(&key))
    }

    /// The environment of the program.
    pub(crate) fn environment(&self) -> Result<BTreeMap<String, String>, JobError> {
        let set = self.program.environment.iter().map(|(name, text)| Ok((name.clone(), self.fill(text)?)));
        let set = set.collect::<Result<BTreeMap<_, _>, JobError>>()?;
        Ok(workshop::environment(self.folder.as_ref(), &self.program.inherit, set))
    }

    /// A regular expression whose placeholders represent their texts as they are.
    fn pattern(&self, regex: &str) -> Result<String, JobError> {
        command::fill(regex, |key| self.value(key).map(|text| regex_lite::escape(&text))).map_err(|key| unfilled(&key))
    }

    fn value(&self, key: &str) -> Option<String> {
        match key {
            "ranks" => return Some(self.ranks.to_string()),
            "folder" => return Some(self.folder.clone()),
            "baremark" => return Some(self.own.clone()),
            "port" => return Some(self.port.to_string()),
            "seed" => return Some((self.seed % LARGEST_SEED).to_string()),
            _ => {}
        }
        match self.program.side(key) {
            Some((count, side)) => self.value(count)?.parse().ok().map(|count| side.of(count).to_string()),
            None => self.arm.parameters.get(key).map(ToString::to_string),
        }
    }
}

fn unfilled(key: &str) -> JobError {
    let what = format!("nothing fills the placeholder {{{key}}}; use the same version of baremark on both sides");
    JobError::failed(what)
}

/// A port that is free now; 0 at a site without a network, whose programs need none.
fn free_port() -> u16 {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|bound| bound.local_addr());
    bound.map_or(0, |address| address.port())
}

impl PreparedProgram<'_> {
    /// Refuses a run that did not succeed by the study's own rules.
    fn judge(&self, name: &str, outcome: &Outcome, workshop: &Workshop, texts: &Texts<'_>) -> Result<(), JobError> {
        let success = &self.program.success;
        match outcome.end {
            End::Exited { code }
                if success.exit.is_empty() || success.exit.iter().any(|&good| i32::try_from(good) == Ok(code)) => {}
            _ => return Err(badly_ended(name, self.timeout_ns, outcome)),
        }
        if success.present.is_empty() && success.absent.is_empty() {
            return Ok(());
        }
        let text = self.text(&success.from, outcome, workshop);
        let text = text.map_err(|why| failed(name, &why.to_string(), outcome))?;
        let matches = |regex: &str| Regex::new(regex).is_ok_and(|regex| regex.is_match(&text));
        for rule in &success.present {
            let regex = texts.pattern(rule)?;
            if !matches(&regex) {
                return Err(failed(
                    name,
                    &format!("required pattern not found in {}: '{regex}'", success.from),
                    outcome,
                ));
            }
        }
        for rule in &success.absent {
            let regex = texts.pattern(rule)?;
            if matches(&regex) {
                return Err(failed(
                    name,
                    &format!("forbidden pattern matched in {}: '{regex}'", success.from),
                    outcome,
                ));
            }
        }
        Ok(())
    }

    /// What is in one of the program's streams or files.
    fn text(&self, from: &str, outcome: &Outcome, workshop: &Workshop) -> Result<String, ReadingError> {
        match from {
            "stdout" => return Ok(outcome.stdout.text.clone()),
            "stderr" => return Ok(outcome.stderr.text.clone()),
            "output" => return Ok(format!("{}\n{}", outcome.stdout.text, outcome.stderr.text)),
            _ => {}
        }
        let limit = self.program.output_limit_bytes;
        let mut bytes = Vec::new();
        let read =
            File::open(workshop.folder().join(from)).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
        match read {
            Ok(length) if length as u64 > limit => Err(ReadingError::TooLong { name: from.to_owned(), limit }),
            Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(source) => Err(ReadingError::File { name: from.to_owned(), source }),
        }
    }

    fn samples(
        &self,
        name: &str,
        outcome: &Outcome,
        workshop: &Workshop,
        filled: &Texts<'_>,
    ) -> Result<Vec<Sample>, JobError> {
        let mut texts: BTreeMap<&str, String> = BTreeMap::new();
        let mut samples = Vec::new();
        for reading in &self.program.metrics {
            let unread = |why: ReadingError| failed(name, &format!("metric {}: {why}", reading.key), outcome);
            let text = match texts.entry(&reading.from) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(absent) => absent.insert(self.text(&reading.from, outcome, workshop).map_err(unread)?),
            };
            match reading::value(reading, text).map_err(unread)? {
                Some(value) => {
                    let value = value / divisor(reading, filled)?;
                    samples.push(Sample::new(reading.key.clone(), value));
                }
                None if reading.optional => {}
                None => return Err(failed(name, &lacking(reading, outcome), outcome)),
            }
        }
        samples.extend(usual(outcome));
        Ok(samples)
    }

    fn checked(&self, outcome: &Outcome) -> String {
        let rules = self.program.success.present.len() + self.program.success.absent.len();
        let metrics = self.program.metrics.len();
        format!("{}, {rules} rules on its output held, {metrics} metrics were requested", in_words(&outcome.end))
    }
}

/// By what a metric's number is divided.
fn divisor(reading: &Reading, filled: &Texts<'_>) -> Result<f64, JobError> {
    let text = filled.fill(&reading.per)?;
    match text.parse::<f64>() {
        _ if text.is_empty() => Ok(1.0),
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(JobError::failed(format!("metric {} is per '{text}', which must be a number above 0", reading.key))),
    }
}

/// Wall and processor time of a program.
#[must_use]
pub fn times(outcome: &Outcome) -> [Sample; 2] {
    let cpu_ns = outcome.used.user_ns + outcome.used.system_ns;
    [sample(&command::WALL, seconds(outcome.wall_ns)), sample(&command::CPU, seconds(cpu_ns))]
}

/// The metrics of every program.
fn usual(outcome: &Outcome) -> Vec<Sample> {
    let used = &outcome.used;
    #[expect(clippy::cast_precision_loss, reason = "counts of one run")]
    let count = |number: u64| number as f64;
    let mut samples = times(outcome).to_vec();
    samples.extend([
        sample(&command::USER, seconds(used.user_ns)),
        sample(&command::SYSTEM, seconds(used.system_ns)),
        sample(&command::CONTEXT_SWITCHES, count(used.context_switches)),
        sample(&command::PAGE_FAULTS, count(used.page_faults)),
        sample(&command::MAJOR_FAULTS, count(used.major_faults)),
    ]);
    samples.extend(used.peak_rss_bytes.map(|bytes| sample(&command::PEAK_MEMORY, count(bytes))));
    samples
}

fn sample(of: &Metric, value: f64) -> Sample {
    Sample::new(of.key, value)
}

#[expect(clippy::cast_precision_loss, reason = "a run of 104 days is still exact")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn lacking(reading: &Reading, outcome: &Outcome) -> String {
    let cut = match reading.from.as_str() {
        "stdout" => outcome.stdout.cut,
        "stderr" => outcome.stderr.cut,
        _ => false,
    };
    let why = if cut { ", which was cut; raise output_limit" } else { "" };
    format!("metric {} was not found in {}{why}", reading.key, reading.from)
}

fn failed(name: &str, why: &str, outcome: &Outcome) -> JobError {
    JobError::Failed { what: format!("{name}: {why}"), log: last_words(outcome) }
}

/// What a reader should know though the run counts.
fn flags(outcome: &Outcome) -> Vec<String> {
    let mut flags = Vec::new();
    for (name, heard) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
        if heard.cut {
            flags.push(format!("the program's {name} was longer than the limit, and its middle was not kept"));
        }
    }
    if !outcome.left.is_empty() {
        let mut names = outcome.left.clone();
        names.sort();
        names.dedup();
        flags.push(format!("the program left processes running, which were ended: {}", names.join(", ")));
    }
    flags
}
