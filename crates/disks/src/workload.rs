//! Block I/O as a workload of a study: a target filled once per arm and trial, one measured load in each phase.
//!
//! The target is at the site of the arm's environment: the same study measures a disk natively, in a container's own layer, in
//! a volume and in a guest. What was used (engine, registration, size) is in the detail of every phase.

use crate::engine::{self, Engine, EngineError, Outcome, Plan, Second};
use crate::pace::Load;
use crate::settings::{DEVICE, JOB, JOB_TEXT, PARAMETERS, PATH, Settings};
use crate::target::{Cache, Place, Target};
use crate::verify::{Fault, Ledger};
use crate::writable::Consent;
use baremark_load::latency::Summary;
use baremark_load::parts::stretches;
use baremark_load::reached;
use baremark_model::arm::ResolvedArm;
use baremark_model::codes::Hindrance;
use baremark_model::descriptor::{Descriptor, HinderedBy, joined};
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::knob::InvalidValue;
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::parameters::Parameters;
use baremark_model::seam::Sample;
use baremark_model::units::Bytes;
use baremark_model::wire::{Detail, Point};
use serde_json::json;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// The kind as typed in a study.
pub const KIND: &str = "block";
/// The format of the detail of a phase.
pub const FORMAT: &str = "baremark-block/1";

pub(crate) const fn worst(key: &'static str, help: &'static str) -> Metric {
    Metric::lower(key, "us", Aggregate::Most).help(help)
}

/// Rates and latencies of reads and writes, which other workloads of this engine have as well.
pub(crate) const COMMON: [Metric; 14] = [
    Metric::higher("iops", "IOPS", Aggregate::Sum).help("reads and writes completed per second"),
    Metric::higher("mb_per_s", "MB/s", Aggregate::Sum).help("10^6 bytes read and written per second"),
    Metric::higher("read_iops", "IOPS", Aggregate::Sum).help("reads completed per second"),
    Metric::higher("write_iops", "IOPS", Aggregate::Sum).help("writes completed per second"),
    Metric::lower("read_mean_us", "us", Aggregate::Mean)
        .help("mean read latency, from the intended start where there is a rate"),
    Metric::lower("read_p50_us", "us", Aggregate::Mean).help("median read latency; needs 6 reads"),
    worst("read_p95_us", "95th percentile of it; needs 72 reads"),
    worst("read_p99_us", "99th percentile of it; needs 368 reads"),
    worst("read_p99_9_us", "99.9th percentile of it; needs 3,688 reads"),
    Metric::lower("write_mean_us", "us", Aggregate::Mean)
        .help("mean write latency, from the intended start where there is a rate"),
    Metric::lower("write_p50_us", "us", Aggregate::Mean).help("median write latency; needs 6 writes"),
    worst("write_p95_us", "95th percentile of it; needs 72 writes"),
    worst("write_p99_us", "99th percentile of it; needs 368 writes"),
    worst("write_p99_9_us", "99.9th percentile of it; needs 3,688 writes"),
];

/// The share of a target that lies in memory.
const IN_MEMORY: &str = "in_memory";

const OWN: [Metric; 14] = [
    Metric::lower("sync_mean_us", "us", Aggregate::Mean).help("mean latency of fdatasync"),
    worst("sync_p99_us", "99th percentile of it; needs 368 of them"),
    Metric::lower("cpu_us_per_io", "us", Aggregate::Mean)
        .help("user and system CPU time of the process, its io_uring workers included, over reads and writes"),
    Metric::higher("mean_depth", "I/Os", Aggregate::Sum).help("mean number of outstanding I/Os (Little's law)"),
    Metric::higher("device_depth", "I/Os", Aggregate::Sum)
        .help("the same at the device, by the kernel's statistics; others' I/Os included; absent where it has none"),
    Metric::lower("qemu_read_mean_us", "us", Aggregate::Mean)
        .help("in a QEMU guest: mean read latency as QEMU counts it, the ramp included"),
    Metric::lower("qemu_read_p50_us", "us", Aggregate::Mean).help("median of it, from bins 16 % wide; needs 6 reads"),
    worst("qemu_read_p99_us", "99th percentile of it; needs 368 reads"),
    Metric::lower("qemu_write_mean_us", "us", Aggregate::Mean)
        .help("in a QEMU guest: mean write latency as QEMU counts it, the ramp included"),
    Metric::lower("qemu_write_p50_us", "us", Aggregate::Mean).help("median of it, from bins 16 % wide; needs 6 writes"),
    worst("qemu_write_p99_us", "99th percentile of it; needs 368 writes"),
    Metric::lower("qemu_flush_mean_us", "us", Aggregate::Mean)
        .help("in a QEMU guest: mean latency of flushes as QEMU counts it"),
    Metric::lower("ramp_s", "s", Aggregate::Mean).help("time under load before the measured time"),
    Metric::lower(IN_MEMORY, "%", Aggregate::Most)
        .help("share of the target that lies in memory although its I/O is direct: no disk was measured; absent where none does"),
];

static METRICS: [Metric; 28] = joined(&[&COMMON, &OWN]);

static DESCRIPTOR: Descriptor = Descriptor {
    kind: KIND,
    help: "reads and writes of a disk by io_uring or threads: IOPS, latency, CPU per I/O; can verify what it wrote",
    source: "this program",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    alternates: |arm| {
        let own = |of: Settings| matches!(of.place, Place::Folder(_)) && of.cache == Cache::Direct;
        Settings::of(arm).is_ok_and(own)
    },
    quick: &[("duration", "300 ms"), ("warm_up", "50 ms"), ("size", "64 MiB")],
    check,
    stops_on_interrupt: true,
    hindered_by: &[HinderedBy {
        metric: IN_MEMORY,
        hindrance: Hindrance::InMemory,
        means: "the target lies in memory, not on a disk",
    }],
    ..Descriptor::JOB
};

/// Checks an arm. One whose job file is not yet read is checked when that has been done.
fn check(arm: &ResolvedArm) -> Result<(), InvalidValue> {
    let of = Parameters::of(arm, &PARAMETERS);
    if of.has(JOB) && !of.has(JOB_TEXT) { Ok(()) } else { Settings::of(arm).map(drop) }
}

/// An arm of this workload, and where it runs.
#[derive(Clone, Debug)]
pub struct Writer {
    /// The arm.
    pub arm: ResolvedArm,
    /// Its environment.
    pub environment: String,
    /// Whether that is on this machine, with its devices under the names that they have here.
    pub is_here: bool,
    /// Whether it finds this machine's files at the same paths, as a sandbox does.
    pub sees_files: bool,
}

/// Refuses arms that would overwrite a block device that is not among `allowed`. The site refuses it all the same; here it is asked before
/// anything runs.
///
/// # Errors
/// The device, and the option that allows it.
pub fn consent<'a>(writers: impl IntoIterator<Item = &'a Writer>, allowed: &[PathBuf]) -> Result<(), InvalidValue> {
    for writer in writers {
        let Some(device) = device(writer) else { continue };
        if !Consent(allowed).covers(&device, writer.is_here) {
            let what = format!("{} would be overwritten", device.display());
            let remedy = format!("if its content can go, add --allow-destructive {}", device.display());
            return Err(InvalidValue::new(what, remedy));
        }
    }
    Ok(())
}

/// Refuses arms that would fill a file of this machine which is there and holds something, unless it is among `allowed`, or has the ledger of a run with
/// `verify` next to it: then such a run has filled it.
///
/// # Errors
/// The file, and the option that allows it.
pub fn contents_may_go<'a>(
    writers: impl IntoIterator<Item = &'a Writer>,
    allowed: &[PathBuf],
) -> Result<(), InvalidValue> {
    for writer in writers.into_iter().filter(|writer| writer.sees_files) {
        let Ok(Settings { place: Place::File(file), .. }) = Settings::of(&writer.arm) else { continue };
        let bytes = fs::metadata(&file).ok().filter(fs::Metadata::is_file).map_or(0, |found| found.len());
        if bytes > 0 && !ledger_of(&file).exists() && !allowed.contains(&file) {
            let what = format!("{} holds {} and would be overwritten", file.display(), Bytes(bytes));
            let remedy = format!("if its content can go, add --allow-destructive {}", file.display());
            return Err(InvalidValue::new(what, remedy));
        }
    }
    Ok(())
}

/// A file of this machine that these arms fill and keep: the next run finds what they have left there, and no ledger that says so.
pub fn kept_file<'a>(writers: impl IntoIterator<Item = &'a Writer>) -> Option<PathBuf> {
    let of = |writer: &'a Writer| match Settings::of(&writer.arm) {
        Ok(Settings { place: Place::File(file), verify: false, .. }) => Some(file),
        _ => None,
    };
    writers.into_iter().filter(|writer| writer.sees_files).find_map(of)
}

/// Refuses arms of this machine for whose file the folder that they name has no room, or that take none. Nothing is left there.
///
/// # Errors
/// What is in the way, and what to write.
pub fn targets_fit<'a>(writers: impl IntoIterator<Item = &'a Writer>) -> Result<(), InvalidValue> {
    for writer in writers.into_iter().filter(|writer| writer.is_here) {
        let named = Parameters::of(&writer.arm, &PARAMETERS).has(PATH.key);
        let Settings { place: place @ Place::Folder(_), size, cache, .. } = Settings::of(&writer.arm)? else {
            continue;
        };
        if !named {
            continue;
        }
        Target::open(&place, size, cache, Consent::NONE).map(drop).map_err(|why| match why {
            EngineError::Missing { what, remedy } => InvalidValue::new(what, remedy),
            other => {
                InvalidValue::new(other.to_string(), format!("{}: name a folder in which files can be made", PATH.key))
            }
        })?;
    }
    Ok(())
}

/// The block device of an arm of this workload: one that it names as such, or a file that is one on this machine.
fn device(writer: &Writer) -> Option<PathBuf> {
    let is_device = |path: &Path| fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    match Settings::of(&writer.arm).map(|settings| settings.place) {
        Ok(Place::Device(path)) => Some(path),
        Ok(Place::File(path)) if writer.is_here && is_device(&path) => Some(path),
        Ok(_) => None,
        // What cannot be read here is refused at the site; a device that is named is one all the same.
        Err(_) => Parameters::of(&writer.arm, &PARAMETERS).find(DEVICE).ok().flatten(),
    }
}

/// What these arms write, how much at most, and what becomes of it; `None` without arms.
pub fn notice<'a>(writers: impl IntoIterator<Item = &'a Writer>) -> Option<String> {
    let known = |writer: &'a Writer| Some((writer, Settings::of(&writer.arm).ok()?));
    let mut written: Vec<(&str, Place, u64)> = Vec::new();
    for (writer, settings) in writers.into_iter().filter_map(known) {
        let at = written.iter_mut().find(|(site, place, _)| *site == writer.environment && *place == settings.place);
        match at {
            Some((_, _, most)) => *most = settings.size.max(*most),
            None => written.push((&writer.environment, settings.place, settings.size)),
        }
    }
    let most = written.iter().map(|(_, _, size)| *size).max()?;
    let lines = written.iter().map(|(environment, place, size)| match place {
        Place::Device(path) => {
            format!("\n  {environment}: overwrites {} from its start, at most {}", path.display(), Bytes(*size))
        }
        Place::File(path) => {
            format!("\n  {environment}: writes and keeps the file {}, at most {}", path.display(), Bytes(*size))
        }
        Place::Folder(path) => {
            format!(
                "\n  {environment}: writes a file without a name in {}, at most {} an arm",
                path.display(),
                Bytes(*size)
            )
        }
    });
    Some(format!(
        "block: each arm of a trial first fills its target with up to {} of random data; the arms of a trial exist side by side{}",
        Bytes(most),
        lines.collect::<String>()
    ))
}

/// The workload `block`.
#[derive(Clone, Copy, Debug)]
pub struct Block;

impl Job for Block {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn measures_disks(&self) -> bool {
        true
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let settings = Settings::of(arm).map_err(JobError::failed)?;
        let consent = Consent(around.overwritable);
        let target = Target::open(&settings.place, settings.size, settings.cache, consent).map_err(refused)?;
        let (engine, mut flags) = chosen(settings.engine, &target)?;
        let job = settings.job.as_deref().unwrap_or_default();
        flags.extend(
            settings
                .ignored
                .iter()
                .map(|line| format!("{job}, line {}: '{}' has no effect: {}", line.line, line.key, line.why)),
        );
        let mut ledger =
            if settings.verify { Some(ledger(&settings, &target, around.seed, &mut flags)?) } else { None };
        target.fill(around.seed, ledger.as_mut(), around.interrupt).map_err(refused)?;
        let in_memory = target.in_memory().map_err(refused)?;
        let plan = Plan { engine, cpus: around.cpus.to_vec(), seed: around.seed, ..settings.plan.clone() };
        let interrupt = Arc::clone(around.interrupt);
        Ok(Box::new(PreparedTarget {
            settings,
            plan,
            target,
            in_memory,
            ledger: ledger.map(Mutex::new),
            flags,
            interrupt,
        }))
    }
}

/// The engine, and what a reader should know of the choice.
pub(crate) fn chosen(asked: Option<Engine>, target: &Target) -> Result<(Engine, Vec<String>), JobError> {
    if asked == Some(Engine::Threads) {
        return Ok((Engine::Threads, Vec::new()));
    }
    match (Engine::probe(target), asked) {
        (Ok(()), _) => Ok((Engine::IoUring, Vec::new())),
        (Err(why), None) => {
            let flag = format!("{why}: engine threads was used, one thread per outstanding I/O");
            Ok((Engine::Threads, vec![flag]))
        }
        (Err(why), Some(_)) => Err(JobError::Missing {
            what: format!("{why}"),
            remedy: "write engine = \"threads\", or allow io_uring (in containers: seccomp = \"off\")".to_owned(),
        }),
    }
}

/// Where the ledger of a file that is kept is.
fn ledger_of(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}.ledger", file.display()))
}

/// A new ledger. Next to a file that is kept it is kept too, as FILE.ledger, and what is found there is checked first.
fn ledger(settings: &Settings, target: &Target, seed: u64, flags: &mut Vec<String>) -> Result<Ledger, JobError> {
    let block = usize::try_from(settings.plan.mix.largest()).unwrap_or(usize::MAX);
    let Place::File(path) = &settings.place else { return Ok(Ledger::new(seed, block, settings.size)) };
    let path = ledger_of(path);
    let failed = |why| JobError::failed(format!("the ledger {}: {why}", path.display()));
    if let Some(old) = Ledger::open(&path).map_err(failed)? {
        let old = Mutex::new(old);
        let back = engine::check_all(target, &old).map_err(refused)?;
        whole(&back.faults, back.faults.len() as u64, "since the last writer ended")?;
        flags.extend(from_memory(back.cached_bytes, target));
        drop(old);
    }
    Ledger::create(&path, seed, block, settings.size).map_err(failed)
}

/// That bytes were read back from the page cache, if some were.
fn from_memory(cached: u64, target: &Target) -> Option<String> {
    (cached > 0).then(|| {
        format!(
            "{cached} of {} bytes were read back from the page cache (a file system without a disk, or pages that another program maps): \
             that a disk has them was not verified",
            target.size()
        )
    })
}

/// Fails with the damaged blocks, if there are any.
fn whole(faults: &[Fault], count: u64, when: &str) -> Result<(), JobError> {
    if count == 0 {
        return Ok(());
    }
    let log = faults.iter().take(20).map(ToString::to_string).collect();
    Err(JobError::Failed { what: format!("verification found {count} damaged blocks {when}"), log })
}

pub(crate) fn refused(why: EngineError) -> JobError {
    match why {
        EngineError::Missing { what, remedy } => JobError::Missing { what, remedy },
        EngineError::Interrupted => JobError::Interrupted,
        other @ EngineError::Io { .. } => JobError::failed(other),
    }
}

/// A filled target.
struct PreparedTarget {
    settings: Settings,
    plan: Plan,
    target: Target,
    /// The share of it that no disk has.
    in_memory: f64,
    ledger: Option<Mutex<Ledger>>,
    flags: Vec<String>,
    interrupt: Arc<AtomicBool>,
}

impl ReadyJob for PreparedTarget {
    fn run(&mut self) -> Result<JobRun, JobError> {
        let outcome = engine::run(&self.plan, &self.target, self.ledger.as_ref(), &self.interrupt).map_err(refused)?;
        // The next phase draws other offsets.
        self.plan.seed = self.plan.seed.wrapping_add(1);
        whole(&outcome.faults, outcome.fault_count, "in what was read")?;
        if outcome.operations() == 0 {
            return Err(JobError::failed("no I/O completed in the measured time; write a longer duration"));
        }
        let without = format!("{} I/Os without an error", outcome.operations());
        let checked = match (outcome.read_back, outcome.cached_bytes) {
            (0, _) => without,
            (blocks, 0) => format!("{without}, {blocks} blocks read back past the page cache are right"),
            (blocks, _) => format!("{without}, {blocks} blocks are right, of which some were read from the page cache"),
        };
        let mut flags = self.flags.clone();
        flags.extend(notes(&self.plan, &outcome));
        flags.extend(from_memory(outcome.cached_bytes, &self.target));
        Ok(JobRun {
            samples: samples(&outcome, self.in_memory),
            checked,
            flags,
            void: Vec::new(),
            points: points(&outcome),
            detail: Some(Detail { format: FORMAT.to_owned(), document: self.document(&outcome) }),
        })
    }
}

impl PreparedTarget {
    fn document(&self, outcome: &Outcome) -> serde_json::Value {
        json!({
            "engine": self.plan.engine.label(),
            "registered": outcome.registered,
            "cache": format!("{:?}", self.settings.cache).to_lowercase(),
            "place": place(&self.settings.place),
            "size_bytes": self.target.size(),
            "depth": self.plan.depth,
            "jobs": self.plan.jobs,
            "elapsed_s": outcome.elapsed_ns as f64 / 1e9,
            "ramp_s": outcome.ramp_ns as f64 / 1e9,
            "steady": outcome.steady.map(|(reached, range)| json!({ "reached": reached, "range": range })),
            "read": outcome.reads.summary(),
            "write": outcome.writes.summary(),
            "sync": outcome.syncs.summary(),
            "reads_checked": outcome.checked,
            "blocks_read_back": outcome.read_back,
            "read_back_from_memory_bytes": outcome.cached_bytes,
        })
    }
}

fn place(place: &Place) -> String {
    match place {
        Place::Folder(path) => format!("folder {}", path.display()),
        Place::File(path) => format!("file {}", path.display()),
        Place::Device(path) => format!("device {}", path.display()),
    }
}

pub(crate) fn notes(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let mut notes = Vec::new();
    if plan.engine == Engine::IoUring && !outcome.registered {
        notes.push("io_uring buffers could not be registered (limit on locked memory): more CPU per I/O".to_owned());
    }
    if let Some((false, range)) = outcome.steady {
        notes.push(format!(
            "no steady state: IOPS ranged over {:.0} % of their mean when the wait ended",
            100.0 * range
        ));
    }
    notes.extend(missed(plan.load, outcome.operations(), outcome.elapsed_ns));
    notes
}

/// Of a rate that was not reached, what ended of it: what was due and had not ended when the time was over is in no percentile.
fn missed(load: Load, ended: u64, elapsed_ns: u64) -> Option<String> {
    // How many bursts are in the measured time depends on where it begins.
    let rate = load.rate.filter(|_| load.bursts.is_none())?;
    let missed = reached::missed("I/Os", (rate, load.poisson), ended, elapsed_ns)?;
    Some(format!("{missed}; those that had not ended are in no percentile"))
}

fn samples(outcome: &Outcome, in_memory: f64) -> Vec<Sample> {
    let mut samples = rates(outcome);
    samples.extend([
        Sample::new("cpu_us_per_io", outcome.cpu_ns as f64 / 1e3 / outcome.operations() as f64),
        Sample::new("mean_depth", outcome.mean_depth),
        Sample::new("ramp_s", outcome.ramp_ns as f64 / 1e9),
    ]);
    samples.extend((in_memory > 0.0).then(|| Sample::new(IN_MEMORY, 100.0 * in_memory)));
    samples.extend(outcome.device_depth.map(|depth| Sample::new("device_depth", depth)));
    samples.extend(outcome.syncs.summary().iter().flat_map(|summary| latency("sync", summary)));
    samples
}

/// The values of [`COMMON`].
pub(crate) fn rates(outcome: &Outcome) -> Vec<Sample> {
    let seconds = outcome.elapsed_ns as f64 / 1e9;
    let bytes = (outcome.read_bytes + outcome.written_bytes) as f64;
    let mut samples = vec![
        Sample::new("iops", outcome.operations() as f64 / seconds),
        Sample::new("mb_per_s", bytes / seconds / 1e6),
    ];
    for (name, latencies) in [("read", &outcome.reads), ("write", &outcome.writes)] {
        let Some(summary) = latencies.summary() else { continue };
        samples.push(Sample::new(format!("{name}_iops"), summary.samples as f64 / seconds));
        samples.extend(latency(name, &summary));
    }
    samples
}

/// The latencies of reads, writes or syncs, in us, as far as there are enough for them.
fn latency(name: &str, summary: &Summary) -> Vec<Sample> {
    let Summary { mean_ns, p50_ns, p95_ns, p99_ns, p999_ns, .. } = *summary;
    let mut values = vec![("mean", Some(mean_ns)), ("p99", p99_ns.map(|ns| ns as f64))];
    if name != "sync" {
        let others = [("p50", p50_ns), ("p95", p95_ns), ("p99_9", p999_ns)];
        values.extend(others.map(|(key, value)| (key, value.map(|ns| ns as f64))));
    }
    let key = |(key, value): (&str, Option<f64>)| Some(Sample::new(format!("{name}_{key}_us"), value? / 1e3));
    values.into_iter().filter_map(key).collect()
}

/// A last second that has hardly begun, as the clock is read some microseconds after the end, is part of the one before: over so short a time
/// there is no rate.
fn closed(seconds: &[Second], elapsed_ns: u64) -> Vec<Second> {
    const SECOND: u64 = 1_000_000_000;
    let Some((last, [all @ .., before])) = seconds.split_last() else { return seconds.to_vec() };
    if elapsed_ns.saturating_sub((seconds.len() as u64 - 1) * SECOND) >= SECOND / 100 {
        return seconds.to_vec();
    }
    let both = Second { reads: before.reads + last.reads, writes: before.writes + last.writes };
    all.iter().copied().chain([both]).collect()
}

/// Each second, latencies over time, then reads, writes and syncs with their distributions.
pub(crate) fn points(outcome: &Outcome) -> Vec<Point> {
    let (begin, elapsed) = (outcome.ramp_ns, outcome.elapsed_ns);
    let seconds = stretches(&closed(&outcome.seconds, elapsed), (begin, elapsed), |seconds, length_s| {
        let per_s = |of: fn(&Second) -> u64| seconds.iter().map(of).sum::<u64>() as f64 / length_s;
        let samples = || {
            vec![
                Sample::new("read_iops", per_s(|second| second.reads)),
                Sample::new("write_iops", per_s(|second| second.writes)),
            ]
        };
        (length_s > 0.0).then(|| (samples(), None))
    });
    let named = [("read", &outcome.reads), ("write", &outcome.writes), ("sync", &outcome.syncs)];
    let kinds = named.into_iter().filter(|(_, latencies)| latencies.count() > 0).map(|(name, latencies)| {
        let samples = vec![Sample::new("operations", latencies.count() as f64)];
        Point::new(name, (begin, begin + elapsed), samples, latencies.encoded()).of(&[&format!("{name}_us")])
    });
    let over_time = outcome.over_time.points((begin, elapsed));
    seconds.into_iter().chain(over_time).chain(kinds).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use baremark_model::knob::Default;
    use baremark_model::page_size::PageSize;

    fn writer(environment: &str, typed: &[(&str, &str)]) -> Writer {
        let mut arm = ResolvedArm::native(1, PageSize::Small);
        for knob in &PARAMETERS {
            let own = typed.iter().find(|(key, _)| *key == knob.key).map(|(_, value)| *value);
            let text = own.or(if let Default::Typed(text) = knob.default { Some(text) } else { None });
            if let Some(text) = text {
                arm.parameters.insert(knob.key.to_owned(), knob.read_text(text).unwrap());
            }
        }
        let sees_files = ["native", "sandbox"].contains(&environment);
        Writer { arm, environment: environment.to_owned(), is_here: environment == "native", sees_files }
    }

    /// A file of the run's own without the page cache: nothing is written between phases, and by nobody else.
    #[test]
    fn arms_take_turns_where_each_has_a_file_of_its_own_past_the_page_cache() {
        let alternates = |typed: &[(&str, &str)]| (DESCRIPTOR.alternates)(&writer("container", typed).arm);
        assert!(alternates(&[]) && alternates(&[("path", "/srv"), ("verify", "true")]));
        for target in [("cache", "buffered"), ("file", "/srv/data"), ("device", "/dev/sdb")] {
            assert!(!alternates(&[target]), "{target:?}");
        }
    }

    /// One read in the last 70 us was a second of 14,286 IOPS.
    #[test]
    fn a_second_that_has_hardly_begun_has_no_rate() {
        let second = |reads: u64| Second { reads, writes: 1 };
        let seconds = [second(100), second(100), second(1)];
        let sums = |elapsed_ns: u64| closed(&seconds, elapsed_ns).iter().map(|one| one.reads).collect::<Vec<_>>();
        assert_eq!(sums(2_000_070_000), [100, 101]);
        assert_eq!(sums(2_500_000_000), [100, 100, 1]);
        assert_eq!((closed(&seconds[..1], 70_000).len(), closed(&[], 1).len()), (1, 0));
    }

    /// A disk that stops for the last three of ten seconds has good percentiles: those of the seven before.
    #[test]
    fn a_rate_that_was_not_reached_is_told() {
        let of = |poisson: bool, bursts, ended: u64| {
            missed(Load { rate: Some(100.0), poisson, bursts }, ended, 10_000_000_000)
        };
        assert_eq!(
            of(false, None, 700).as_deref(),
            Some("throughput 70 of the requested 100 I/Os/s; those that had not ended are in no percentile")
        );
        assert_eq!([of(false, None, 950), of(true, None, 860), of(false, Some((1, 1)), 500)], [const { None }; 3]);
        assert!(of(true, None, 800).is_some());
        assert_eq!(missed(Load { rate: None, poisson: false, bursts: None }, 1, 1), None);
    }

    #[test]
    fn the_lab_asks_for_devices_at_every_site() {
        let job = "[a]\nrw=randwrite\nfilename=/dev/sdx\n";
        for environment in ["native", "ssh"] {
            for typed in [("device", "/dev/sdx"), ("job_text", job)] {
                let writers = [writer(environment, &[("file", "/srv/a")][..0]), writer(environment, &[typed])];
                let why = consent(&writers, &["/dev/sdy".into()]).unwrap_err().to_string();
                assert_eq!(
                    why,
                    "/dev/sdx would be overwritten; if its content can go, add --allow-destructive /dev/sdx"
                );
                assert!(consent(&writers, &["/dev/sdx".into()]).is_ok());
            }
        }
        // What cannot be read is asked for all the same.
        let wrong = writer("native", &[("device", "/dev/sdx"), ("block", "4000 B")]);
        assert!(consent(&[wrong], &[]).is_err());
    }

    /// A job file that only reads filled the file that it names with random data, and nobody was asked.
    #[test]
    fn the_lab_asks_for_a_file_that_holds_something() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data");
        let name = file.to_str().unwrap();
        let job = format!("[a]\nrw=randread\nsize=1m\nfilename={name}\n");
        let asked = |environment: &str, allowed: &[PathBuf]| {
            let typed = [[("file", name)], [("job_text", job.as_str())]];
            typed.map(|typed| contents_may_go(&[writer(environment, &typed)], allowed).map_err(|why| why.to_string()))
        };
        assert_eq!(asked("native", &[]), [Ok(()), Ok(())], "there is none");
        fs::write(&file, "").unwrap();
        assert_eq!(asked("native", &[]), [Ok(()), Ok(())], "it is empty");
        fs::write(&file, "mine").unwrap();
        let why =
            format!("{name} holds 4 B and would be overwritten; if its content can go, add --allow-destructive {name}");
        let refused = [Err(why.clone()), Err(why)];
        for environment in ["native", "sandbox"] {
            assert_eq!(asked(environment, &["/srv/other".into()]), refused, "{environment} has this machine's files");
        }
        assert_eq!(asked("native", std::slice::from_ref(&file)), [Ok(()), Ok(())]);
        let kept = |environment, more: &[_]| kept_file(&[writer(environment, &[&[("file", name)], more].concat())]);
        assert_eq!(
            ["native", "sandbox", "ssh"].map(|at| kept(at, &[])),
            [Some(file.clone()), Some(file.clone()), None]
        );
        assert_eq!(kept("native", &[("verify", "true")]), None, "its ledger says so");
        assert_eq!(asked("ssh", &[]), [Ok(()), Ok(())], "that machine has files of its own");
        fs::write(ledger_of(&file), "").unwrap();
        assert_eq!(asked("native", &[]), [Ok(()), Ok(())], "a run with verify has written it");
    }

    #[test]
    fn a_notice_has_each_target_with_the_most_that_is_written() {
        let writers = [
            writer("native", &[("device", "/dev/sdx"), ("size", "1 GiB")]),
            writer("native", &[("device", "/dev/sdx"), ("size", "2 GiB")]),
            writer("ssh", &[("job_text", "[a]\nrw=read\nsize=3m\nfilename=/srv/data\n")]),
            writer("ssh", &[("path", "/data"), ("size", "4 MiB")]),
        ];
        let text = notice(&writers).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("first fills its target with up to 2 GiB of random data"), "{text}");
        let expected = [
            "  native: overwrites /dev/sdx from its start, at most 2 GiB",
            "  ssh: writes and keeps the file /srv/data, at most 3 MiB",
            "  ssh: writes a file without a name in /data, at most 4 MiB an arm",
        ];
        assert_eq!(&lines[1..], expected);
        assert_eq!(notice(&[]), None);
    }
}
