//! `guest-operations`: what an infrastructure does with guests, at a pace: deploy, clone, migrate, migrate storage.
//!
//! Operations are done one after the other; those that begin within the measured time count. Throughput is of whole cycles, from the begin
//! of the first of them to where the next began or could have, so that it does not depend on where the measured time cuts the
//! last. Time before and after it is spent with operations, too, so that neighbors have them next to them all the time.

use baremark_environments::qemu::{Accel, Done, GuestOperations, Operation, Settings};
use baremark_model::arm::ResolvedArm;
use baremark_model::command::{self, DURATION, RAMP_DOWN, TIMEOUT, WARM_UP};
use baremark_model::descriptor::Descriptor;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::knob::{Default, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::parameters::Parameters;
use baremark_model::seam::Sample;
use baremark_model::site::SiteError;
use baremark_model::units::{Bytes, SECOND};
use baremark_model::wire::Detail;
use baremark_sys::wake::sleep_unless;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The kind as typed.
pub const KIND: &str = "guest-operations";
const MIB: u64 = 1 << 20;
/// The words of operations, and what they mean.
const OPERATIONS: [(&str, Operation); 4] = [
    ("deploy", Operation::Deploy),
    ("clone", Operation::Clone),
    ("migrate", Operation::Migrate),
    ("migrate-storage", Operation::MigrateStorage),
];

static PARAMETERS: [Knob; 11] = [
    Knob::new("operation", Kind::Choice(&["deploy", "clone", "migrate", "migrate-storage"]), Default::Typed("deploy"))
        .help(
            "deploy: copy the image and boot it until the guest works; clone: copy the disk of a running guest as \
             it is at one moment and boot the copy; migrate: move a running guest to another QEMU; \
             migrate-storage: move the disk of a running guest to another file",
        ),
    Knob::new("pace", Kind::Time { min: 0, max: 3600 * SECOND }, Default::Typed("0 s"))
        .help("time between the begins of two operations; one that takes longer delays the next"),
    Knob::new("image", Kind::Size { min: MIB, max: 1 << 40 }, Default::Typed("64 MiB"))
        .help("size of a guest's disk, full of random data"),
    Knob::new("guest_memory", Kind::Size { min: 64 * MIB, max: 1 << 40 }, Default::Typed("384 MiB"))
        .help("memory of a guest"),
    Knob::new("dirty", Kind::Size { min: 0, max: 1 << 34 }, Default::Typed("4 MiB"))
        .help("memory that a guest writes each second"),
    Knob::new("guest_kernel", Kind::Text, Default::Derived("what `baremark setup guest-kernel` has fetched"))
        .help("kernel of guests: a bzImage, or a folder that `baremark setup guest-kernel --to FOLDER` has filled"),
    Knob::new("guest_accel", Kind::Choice(&["auto", "kvm", "tcg"]), Default::Typed("auto")).help(
        "what runs a guest's instructions: the processor (kvm), an emulator (tcg), or the processor where a \
         test boot works (auto)",
    ),
    Knob::new(DURATION, Kind::Time { min: SECOND / 10, max: 24 * 3600 * SECOND }, Default::Typed("60 s"))
        .help("measured time: operations that begin in it count"),
    Knob::new(WARM_UP, Kind::Time { min: 0, max: 3600 * SECOND }, Default::Typed("0 s"))
        .help("time with operations before it"),
    Knob::new(RAMP_DOWN, Kind::Time { min: 0, max: 3600 * SECOND }, Default::Typed("0 s"))
        .help("time with operations after it"),
    TIMEOUT,
];

static METRICS: [Metric; 7] = [
    Metric::higher("operations_per_h", "operations/h", Aggregate::Sum).help("operations per hour"),
    Metric::lower("operation_s", "s", Aggregate::Mean).help("mean time of an operation, until the guest works"),
    Metric::lower("longest_operation_s", "s", Aggregate::Most).help("longest time of an operation"),
    Metric::lower("down_ms", "ms", Aggregate::Mean)
        .help("mean time of a migration in which the guest did not run, as QEMU counts it"),
    Metric::lower("migration_ms", "ms", Aggregate::Mean).help("mean time of a migration, as QEMU counts it"),
    Metric::lower("silent_ms", "ms", Aggregate::Most).help(
        "longest time in which nothing was heard of a running guest that reports every 10 ms; absent for \
         deploy",
    ),
    Metric::lower("moved_mb", "MB", Aggregate::Mean)
        .help("mean of 10^6 bytes of disk or memory that an operation copied"),
];

/// What the workload is.
pub static DESCRIPTOR: Descriptor = Descriptor {
    kind: KIND,
    help: "operations on guests in QEMU at a pace, each verified: deploy, clone, live migration, storage migration",
    source: "this program; the infrastructure members of a tile",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    quick: &[("duration", "1 s"), ("image", "8 MiB")],
    check: command::fits_timeout,
    stops_on_interrupt: true,
    ..Descriptor::JOB
};

/// The workload `guest-operations`.
#[derive(Clone, Copy)]
pub struct Infrastructure;

impl Infrastructure {
    fn settings(of: Parameters<'_>) -> Result<Settings, JobError> {
        let made = Settings::of_kernel(of.find("guest_kernel")?);
        let accel = match of.get::<String>("guest_accel")?.as_str() {
            "kvm" => Accel::Kvm,
            "tcg" => Accel::Tcg,
            _ => Accel::Auto,
        };
        let (Bytes(memory_bytes), Bytes(dirty)) = (of.get("guest_memory")?, of.get("dirty")?);
        Ok(Settings { vcpus: 1, memory_bytes, beat: Some(dirty), accel, ..made })
    }
}

impl Job for Infrastructure {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let of = Parameters::of(arm, &PARAMETERS);
        let word: String = of.get("operation")?;
        let operation = OPERATIONS.iter().find(|(name, _)| *name == word).map(|(_, operation)| *operation);
        let operation = operation.ok_or_else(|| JobError::failed(format!("'{word}' is not an operation")))?;
        let Bytes(image) = of.get("image")?;
        let program =
            around.keeper.canonicalize().map_err(|why| JobError::failed(format!("finding this program: {why}")))?;
        let guests =
            GuestOperations::new(program, Infrastructure::settings(of)?, operation, (image, around.seed), around.cpus)
                .map_err(job_error)?;
        Ok(Box::new(PreparedGuests {
            word,
            guests,
            pace: of.get("pace")?,
            phases: [of.get(WARM_UP)?, of.get(DURATION)?, of.get(RAMP_DOWN)?],
            interrupt: Arc::clone(around.interrupt),
        }))
    }
}

fn job_error(why: SiteError) -> JobError {
    match why {
        SiteError::Missing(missing) => JobError::Missing { what: missing.what, remedy: missing.remedy },
        SiteError::Interrupted => JobError::Interrupted,
        SiteError::NotReady { what, log } => JobError::Failed { what, log },
        other @ SiteError::Io { .. } => JobError::failed(other),
    }
}

struct PreparedGuests {
    word: String,
    guests: GuestOperations,
    pace: Duration,
    /// Before the measured time, that time, and after it.
    phases: [Duration; 3],
    interrupt: Arc<AtomicBool>,
}

/// An operation with its begin and end, since the begin of the run.
struct Timed {
    begin: Duration,
    end: Duration,
    done: Done,
}

/// Operations per hour of these, which began in the measured time, at a pace: of whole cycles, the last of which ends where a further
/// operation could have begun. `None` for none.
fn per_hour(counted: &[&Timed], pace: Duration) -> Option<f64> {
    let (first, last) = (counted.first()?, counted.last()?);
    let cycles = last.end.max(last.begin + pace).saturating_sub(first.begin).as_secs_f64();
    (cycles > 0.0).then(|| counted.len() as f64 * 3600.0 / cycles)
}

impl PreparedGuests {
    fn wait_until(&self, moment: Instant) -> Result<(), JobError> {
        let left = moment.saturating_duration_since(Instant::now());
        let over = sleep_unless(|| self.interrupt.load(Ordering::Acquire), left);
        over.then_some(()).ok_or(JobError::Interrupted)
    }

    fn reported(&self, all: &[Timed]) -> Result<JobRun, JobError> {
        let steady = self.phases[0]..self.phases[0] + self.phases[1];
        let counted: Vec<&Timed> = all.iter().filter(|one| steady.contains(&one.begin)).collect();
        let Some(rate) = per_hour(&counted, self.pace) else {
            let longest = all.iter().map(|one| one.done.seconds).fold(0.0, f64::max);
            let what = format!("no {} began in the measured time; one took {longest:.1} s", self.word);
            return Err(JobError::failed(format!("{what}; write a longer duration, or a shorter pace")));
        };
        let values =
            |of: &dyn Fn(&Done) -> Option<f64>| counted.iter().filter_map(|one| of(&one.done)).collect::<Vec<f64>>();
        let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let most = |values: Vec<f64>| values.into_iter().reduce(f64::max);
        let seconds = |done: &Done| Some(done.seconds);
        let metrics = [
            ("operations_per_h", Some(rate)),
            ("operation_s", mean(values(&seconds))),
            ("longest_operation_s", most(values(&seconds))),
            ("down_ms", mean(values(&|done| done.down_ms))),
            ("migration_ms", mean(values(&|done| done.migration_ms))),
            ("silent_ms", most(values(&|done| done.silent_ms))),
            ("moved_mb", mean(values(&|done| Some(done.moved_bytes as f64 / 1e6)))),
        ];
        let sample = |(metric, value): (&str, Option<f64>)| Some(Sample::new(metric, value?));
        let emulated = "guests were emulated: their times show the mechanics and nothing of this machine's speed";
        let row = |one: &Timed| {
            json!({
                "begin_s": one.begin.as_secs_f64(), "counted": steady.contains(&one.begin), "seconds": one.done.seconds, "down_ms": one.done.down_ms,
                "migration_ms": one.done.migration_ms, "silent_ms": one.done.silent_ms, "moved_bytes": one.done.moved_bytes,
            })
        };
        Ok(JobRun {
            samples: metrics.into_iter().filter_map(sample).collect(),
            checked: format!("{} times {}: every guest worked, with its disk as it should be", all.len(), self.word),
            flags: self.guests.emulated().then(|| emulated.to_owned()).into_iter().collect(),
            detail: Some(Detail {
                format: "baremark-guest-operations/1".to_owned(),
                document: json!({
                    "operation": self.word, "emulated": self.guests.emulated(), "operations": all.iter().map(row).collect::<Vec<_>>(),
                }),
            }),
            ..JobRun::default()
        })
    }
}

impl ReadyJob for PreparedGuests {
    fn warm_up(&mut self) -> Result<(), JobError> {
        self.guests.make_ready(&self.interrupt).map_err(job_error)
    }

    fn run(&mut self) -> Result<JobRun, JobError> {
        self.guests.make_ready(&self.interrupt).map_err(job_error)?;
        let begun = Instant::now();
        let whole: Duration = self.phases.iter().sum();
        let mut all: Vec<Timed> = Vec::new();
        while begun.elapsed() < whole {
            let begin = begun.elapsed();
            let done = self.guests.perform(&self.interrupt).map_err(job_error)?;
            all.push(Timed { begin, end: begun.elapsed(), done });
            self.wait_until(begun + (begin + self.pace).min(whole))?;
        }
        self.reported(&all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(begin_s: u64, end_s: u64) -> Timed {
        let done = Done { seconds: (end_s - begin_s) as f64, ..Done::default() };
        Timed { begin: Duration::from_secs(begin_s), end: Duration::from_secs(end_s), done }
    }

    #[test]
    fn a_rate_is_of_whole_cycles() {
        let (a, b) = (timed(5, 9), timed(9, 15));
        assert_eq!(per_hour(&[], Duration::ZERO), None);
        assert_eq!(per_hour(&[&a, &b], Duration::ZERO), Some(720.0), "two in 10 s");
        // At a pace that it keeps an infrastructure does no more, however fast it is.
        let (a, b) = (timed(0, 1), timed(20, 24));
        assert_eq!(per_hour(&[&a, &b], Duration::from_secs(20)), Some(180.0), "two in 40 s");
        let late = timed(20, 50);
        assert_eq!(per_hour(&[&a, &late], Duration::from_secs(20)), Some(144.0), "two in 50 s");
    }

    #[test]
    fn every_operation_has_its_word() {
        let Kind::Choice(words) = PARAMETERS[0].kind else { panic!("operation is a choice") };
        assert_eq!(OPERATIONS.map(|(word, _)| word).as_slice(), words);
    }
}
