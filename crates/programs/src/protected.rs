//! A program under protection by checkpoints: run by `baremark protect`, which reports what it has counted.
//!
//! The supervisor starts `baremark protect` in the program's place, with the CPUs of the work for the program alone: stopping, copying and
//! sending, and the secondary, which would be another machine, run on any CPU. What pages, pauses and stops cost is measured in each trial, on
//! these CPUs, by `baremark protect --costs`, with as many threads as the program keeps busy.
//!
//! A program in the microVM is protected from outside: its memory is that of the process that carries it, which is traced and copied like any
//! other. Costs are measured with programs in the microVM then.

use crate::keeper::Task;
use baremark_model::job::{JobError, JobRun};
use baremark_model::protection::{Costs, FORMAT, Report, Settings};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Where `baremark protect` writes what it has counted, in the program's folder.
const STATS: &str = "baremark-protection.json";
/// This program itself, as the supervisor that starts it sees it.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// How programs are run, protected or not, so that both are started alike.
#[derive(Clone, Debug)]
pub struct Protected {
    settings: Settings,
    cpus: Vec<usize>,
    costs: Costs,
}

impl Protected {
    /// Measures what protection costs a program that keeps so many threads busy on these CPUs, where it was not measured before; `before`
    /// are the words that have a program run where this one does, such as `baremark guest --`, and none natively.
    ///
    /// # Errors
    /// When memory cannot be tracked here.
    pub fn prepare(
        settings: Settings,
        baremark: &Path,
        cpus: &[usize],
        threads: usize,
        before: &[String],
    ) -> Result<Self, JobError> {
        let costs = match settings.epoch {
            Some(_) => costs_on(baremark, cpus, threads.max(1), before)?,
            None => Costs::default(),
        };
        Ok(Protected { settings, cpus: cpus.to_vec(), costs })
    }

    /// For a program without a run time that could be predicted, such as a server: what protection costs is not measured.
    ///
    /// # Errors
    /// When memory cannot be tracked here.
    pub fn prepare_without_costs(settings: Settings, baremark: &Path, cpus: &[usize]) -> Result<Self, JobError> {
        if settings.epoch.is_some() {
            tracking_works(baremark)?;
        }
        Ok(Protected { settings, cpus: cpus.to_vec(), costs: Costs::default() })
    }

    /// What pages, pauses and stops cost here; zeros without protection, and where it was not measured.
    #[must_use]
    pub fn costs(&self) -> Costs {
        self.costs
    }

    /// The words that stand before a program and its arguments; counters are written to the file `stats`.
    #[must_use]
    pub fn words(&self, stats: &str, further: &[&str]) -> Vec<String> {
        let Settings { epoch, link_mbit, link_delay } = self.settings;
        let numbers = [epoch.unwrap_or_default().as_micros(), u128::from(link_mbit), link_delay.as_micros()];
        let [epoch, rate, delay] = numbers.map(|number| number.to_string());
        let cpus = self.cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let mut words = vec!["protect", "--epoch-us", &epoch, "--link-mbit", &rate, "--link-delay-us", &delay];
        words.extend(["--stats", stats]);
        if !cpus.is_empty() {
            words.extend(["--cpus", &cpus]);
        }
        words.extend(further);
        words.push("--");
        words.into_iter().map(str::to_owned).collect()
    }

    /// The task that runs a program so, in a folder.
    #[must_use]
    pub fn task(&self, task: Task, folder: &Path) -> Task {
        let stats = folder.join(STATS).to_string_lossy().into_owned();
        let words = std::iter::once(THIS_PROGRAM.to_owned()).chain(self.words(&stats, &[]));
        Task { argv: words.chain(task.argv).collect(), cpus: Vec::new(), ..task }
    }

    /// Adds what was counted to a run of such a task.
    ///
    /// # Errors
    /// As [`Protected::report`].
    pub fn add(&self, run: &mut JobRun, folder: &Path) -> Result<(), JobError> {
        let report = self.report(folder)?;
        run.samples.extend(report.samples(&self.costs));
        run.points.extend(report.point());
        run.flags.extend(report.flags());
        Ok(())
    }

    /// What was counted in a run of such a task.
    ///
    /// # Errors
    /// When there is no report, or one of another version.
    pub fn report(&self, folder: &Path) -> Result<Report, JobError> {
        let path = folder.join(STATS);
        let report = read(&path);
        // The next run must not be judged by this one's.
        drop(std::fs::remove_file(&path));
        report
    }
}

/// Reads the report of a run.
///
/// # Errors
/// When it is missing or of another version.
pub fn read(path: &Path) -> Result<Report, JobError> {
    let failed = |why: &dyn std::fmt::Display| JobError::failed(format!("the counters of protection: {why}"));
    let bytes = std::fs::read(path).map_err(|why| failed(&why))?;
    let report: Report = serde_json::from_slice(&bytes).map_err(|why| failed(&why))?;
    if (report.format.as_str(), report.version) != FORMAT {
        return Err(failed(&format!("format {} {}, not {} {}", report.format, report.version, FORMAT.0, FORMAT.1)));
    }
    Ok(report)
}

/// What costs depend on: the CPUs of the work, its threads, and the words before its program.
type Place = (Vec<usize>, usize, Vec<String>);

fn costs_on(baremark: &Path, cpus: &[usize], threads: usize, before: &[String]) -> Result<Costs, JobError> {
    static KNOWN: Mutex<BTreeMap<Place, Costs>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (cpus.to_vec(), threads, before.to_vec());
    if let Some(costs) = known.get(&key) {
        return Ok(*costs);
    }
    let list = cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut measure = Command::new(baremark);
    measure.args(["protect", "--costs", "--workers", &threads.to_string()]);
    if !cpus.is_empty() {
        measure.args(["--cpus", &list]);
    }
    if !before.is_empty() {
        measure.arg("--").args(before);
    }
    let said = answered("the cost of a checkpoint", &mut measure)?;
    let costs =
        serde_json::from_slice(&said).map_err(|why| JobError::failed(format!("the cost of a checkpoint: {why}")))?;
    known.insert(key, costs);
    Ok(costs)
}

/// Runs a small program under protection.
fn tracking_works(baremark: &Path) -> Result<(), JobError> {
    let mut small = Command::new(baremark);
    small.args(["protect", "--epoch-us", "5000", "--"]).arg(baremark);
    small.args(["protect", "--write", "1", "--passes", "1000"]);
    answered("a program under protection", &mut small).map(drop)
}

/// What `baremark protect` prints; an error of its own is what this machine lacks.
fn answered(what: &str, command: &mut Command) -> Result<Vec<u8>, JobError> {
    let output = command.stdin(Stdio::null()).output().map_err(|why| JobError::failed(format!("{what}: {why}")))?;
    if !output.status.success() {
        let what = String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("error: ").to_owned();
        return Err(JobError::Missing { what, remedy: "write protect = \"none\"".to_owned() });
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_program_alone_is_bound_to_the_cpus_of_the_work() {
        let settings =
            Settings { epoch: Some(Duration::from_millis(20)), link_mbit: 1000, link_delay: Duration::from_micros(50) };
        let protected = Protected { settings, cpus: vec![0, 1], costs: Costs::default() };
        let task = Task { argv: vec!["cc".to_owned(), "-c".to_owned()], cpus: vec![0, 1], ..Task::default() };
        let task = protected.task(task, Path::new("/folder"));
        let expected = "/proc/self/exe protect --epoch-us 20000 --link-mbit 1000 --link-delay-us 50 \
                        --stats /folder/baremark-protection.json --cpus 0,1 -- cc -c";
        assert_eq!((task.argv.join(" ").as_str(), task.cpus.len()), (expected, 0));
    }

    #[test]
    fn a_report_is_used_once_and_only_of_this_version() {
        let folder = tempfile::tempdir().expect("a folder");
        let protected = Protected {
            settings: Settings { epoch: None, link_mbit: 1, link_delay: Duration::ZERO },
            cpus: Vec::new(),
            costs: Costs::default(),
        };
        let path = folder.path().join(STATS);
        for (version, taken) in [(FORMAT.1, true), (FORMAT.1 + 1, false)] {
            let report = Report { format: FORMAT.0.to_owned(), version, ..Report::default() };
            std::fs::write(&path, serde_json::to_string(&report).expect("JSON")).expect("written");
            assert_eq!(protected.report(folder.path()).is_ok(), taken);
            assert!(!path.exists());
        }
    }
}
