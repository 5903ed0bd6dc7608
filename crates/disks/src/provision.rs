//! LUNs on layers of the kernel as a workload of a study: RAID groups against one pool, and what each layer costs by itself.
//!
//! Devices are made of files on one disk, so that isolation and parallelism of devices cannot show: what shows is the cost of a layer at equal
//! devices, and the differences between LUNs. All LUNs are filled with random data; the first of them are under load, each by a job of
//! its own.

use crate::engine::{self, Engine, Outcome, Plan};
use crate::layout::{Arrangement, Built, LEAST_DEVICE, Layout, missing};
use crate::settings::{ACCESS, DEPTH, ENGINE, MEASURED, PATH, RAMP, STEADY, STEADY_LIMIT, Settings};
use crate::workload::{COMMON, chosen, notes, points, rates, refused};
use baremark_load::latency::Latencies;
use baremark_model::arm::ResolvedArm;
use baremark_model::command::TIMEOUT;
use baremark_model::descriptor::{Descriptor, joined};
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::parameters::Parameters;
use baremark_model::plan::level_of;
use baremark_model::seam::Sample;
use baremark_model::units::{Bytes, Share};
use baremark_model::wire::Detail;
use baremark_sys::cpu_time::{CpuTime, TICK_S};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The kind as typed in a study.
pub const KIND: &str = "provision";
/// The format of the detail of a phase.
pub const FORMAT: &str = "baremark-provision/1";
/// The parameter that names a layout.
pub const LAYOUT: &str = "layout";

static PARAMETERS: [Knob; 16] = [
    Knob::new(LAYOUT, Kind::Choice(&Layout::WORDS), Default::Typed("pool")).help(
        "what LUNs are: files, loop devices, files of ext4, XFS or btrfs on one device, files of RAID5 groups \
         with one LUN each, files of one RAID5 pool of all devices (btrfs, in place and without checksums), \
         RAID5 groups of md (md-groups), or thin volumes of one pool on RAID5 of md (thin-pool)",
    ),
    Knob::new("luns", Kind::Count { min: 1, max: 64 }, Default::Typed("4")).help("LUNs, all filled with random data"),
    Knob::new("loaded", Kind::Count { min: 1, max: 64 }, Default::Derived("all of luns"))
        .help("LUNs under load, each with a job of its own"),
    Knob::new("devices", Kind::Count { min: 1, max: 64 }, Default::Typed("20"))
        .help("devices, of which each layout has the bytes of all"),
    Knob::new("device_size", Kind::Size { min: LEAST_DEVICE, max: 1 << 40 }, Default::Typed("256 MiB"))
        .help("size of a device"),
    Knob::new("allocated", Kind::Percent { min: 0.01, max: 1.0 }, Default::Typed("100 %"))
        .help("share of the capacity that the LUNs take together; 5 % of it are left to the file systems themselves"),
    Knob::new("span", Kind::Size { min: 1 << 20, max: 1 << 40 }, Default::Derived("all of it"))
        .help("part of each LUN, from its start, that is filled and used"),
    PATH,
    Knob { default: Default::Typed("random-mixed"), ..ACCESS },
    Knob { default: Default::Typed("64"), ..DEPTH },
    ENGINE,
    MEASURED,
    RAMP,
    STEADY,
    STEADY_LIMIT,
    TIMEOUT,
];

const OWN: [Metric; 5] = [
    Metric::lower("mean_us", "us", Aggregate::Mean).help("mean latency of reads and writes"),
    Metric::lower("machine_cpu_us_per_io", "us", Aggregate::Mean).help(
        "CPU time of the whole machine per read or write: layers work in threads of the kernel; work of \
         others is included",
    ),
    Metric::lower("device_reads_per_io", "reads", Aggregate::Mean)
        .help("reads of the devices per read or write of LUNs; absent where LUNs are files"),
    Metric::lower("device_writes_per_io", "writes", Aggregate::Mean)
        .help("the same of writes: the copies and parity of a layer"),
    Metric::lower("lun_range", "%", Aggregate::Mean)
        .help("largest minus smallest IOPS of LUNs under load over their mean; absent of one LUN"),
];

static METRICS: [Metric; 19] = joined(&[&COMMON, &OWN]);

static DESCRIPTOR: Descriptor = Descriptor {
    kind: KIND,
    help: "LUNs of RAID groups, one pool or a single layer of the kernel, over devices made of files: IOPS, latency, CPU and device I/Os per I/O",
    source: "this program",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    quick: &[
        ("duration", "300 ms"),
        ("warm_up", "50 ms"),
        ("devices", "12"),
        ("device_size", "128 MiB"),
        ("span", "32 MiB"),
    ],
    check,
    stops_on_interrupt: true,
    ..Descriptor::JOB
};

fn check(arm: &ResolvedArm) -> Result<(), InvalidValue> {
    Asked::of(arm).map(drop)
}

/// Layouts that this machine cannot make, as [`Limits::absent`](baremark_model::plan::Limits::absent) has them, each with the reason.
#[must_use]
pub fn absent() -> Vec<(String, String)> {
    let of = |word: &&str| Some((level_of(KIND, LAYOUT, word), missing(Layout::from_word(word)?)?));
    Layout::WORDS.iter().filter_map(of).collect()
}

/// How much these arms of this workload take of a disk, in words; `None` for none of this workload.
pub fn notice<'a>(arms: impl IntoIterator<Item = &'a ResolvedArm>) -> Option<String> {
    let asked: Vec<Asked> = arms.into_iter().filter_map(|arm| Asked::of(arm).ok()).collect();
    let most = asked.iter().max_by_key(|asked| asked.arrangement.total())?;
    Some(format!(
        "provision: each arm of a trial makes devices of files in {} ({} in all) and fills its LUNs; the arms of a trial exist side by \
         side; all devices are on one disk, so that isolation and parallelism of devices cannot show",
        most.folder.display(),
        Bytes(most.arrangement.total())
    ))
}

/// The parameters of an arm, checked.
struct Asked {
    arrangement: Arrangement,
    loaded: usize,
    folder: PathBuf,
    engine: Option<Engine>,
    plan: Plan,
}

impl Asked {
    fn of(arm: &ResolvedArm) -> Result<Asked, InvalidValue> {
        let of = Parameters::of(arm, &PARAMETERS);
        let word = of.get::<String>(LAYOUT)?;
        let layout = Layout::from_word(&word).ok_or_else(|| {
            InvalidValue::new(
                format!("{LAYOUT} = '{word}' is not known"),
                format!("write one of {}", Layout::WORDS.join(", ")),
            )
        })?;
        let arrangement = Arrangement {
            layout,
            luns: of.get("luns")?,
            devices: of.get("devices")?,
            device_bytes: of.get::<Bytes>("device_size")?.0,
            allocated: of.get::<Share>("allocated")?.0,
            span: of.find::<Bytes>("span")?.map_or(u64::MAX, |span| span.0),
        };
        arrangement.check()?;
        let luns: usize = of.get("luns")?;
        let loaded = of.find("loaded")?.unwrap_or(luns);
        if loaded > luns {
            let what = format!("loaded = {loaded} are more than luns = {luns}");
            return Err(InvalidValue::new(what, "write at most luns"));
        }
        let settings = Settings::of(&as_block(arm)?)?;
        let plan = Plan { jobs: loaded, ..settings.plan };
        let folder = of.find("path")?.unwrap_or_else(std::env::temp_dir);
        Ok(Asked { arrangement, loaded, folder, engine: settings.engine, plan })
    }
}

/// The arm as one of the workload `block`, which reads what both have; the defaults are this workload's.
fn as_block(arm: &ResolvedArm) -> Result<ResolvedArm, InvalidValue> {
    let mut block = arm.clone();
    for knob in &PARAMETERS {
        if let (false, Default::Typed(text)) = (block.parameters.contains_key(knob.key), knob.default) {
            block.parameters.insert(knob.key.to_owned(), knob.read_text(text)?);
        }
    }
    Ok(block)
}

/// The workload `provision`.
#[derive(Clone, Copy, Debug)]
pub struct Provision;

impl Job for Provision {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let asked = Asked::of(arm).map_err(JobError::failed)?;
        let built = Built::new(&asked.arrangement, &asked.folder, around.interrupt).map_err(refused)?;
        for (place, lun) in built.luns().iter().enumerate() {
            lun.fill(around.seed.wrapping_add(place as u64), None, around.interrupt).map_err(refused)?;
        }
        let (engine, mut flags) = match built.luns().first() {
            Some(lun) => chosen(asked.engine, lun)?,
            None => return Err(JobError::failed("the layout has no LUN")),
        };
        if built.device_paths().nth(1).is_some() {
            flags.push("all devices are on one disk: isolation and parallelism of devices cannot show".to_owned());
        }
        if !built.is_direct() {
            flags.push(
                "devices use the page cache of this machine: the file system of path does not allow direct I/O below them".to_owned(),
            );
        }
        let plan = Plan { engine, cpus: around.cpus.to_vec(), seed: around.seed, ..asked.plan.clone() };
        Ok(Box::new(PreparedLuns { asked, plan, built, flags, interrupt: Arc::clone(around.interrupt) }))
    }
}

/// A layout whose LUNs are full.
struct PreparedLuns {
    asked: Asked,
    plan: Plan,
    built: Built,
    flags: Vec<String>,
    interrupt: Arc<AtomicBool>,
}

/// Totals of the machine and of the layout's devices.
struct Totals {
    cpu: Option<CpuTime>,
    devices: Option<[u64; 2]>,
}

impl Totals {
    fn now(built: &Built) -> Totals {
        Totals { cpu: CpuTime::now().ok(), devices: built.completed() }
    }

    /// Per I/O from here to `after`.
    fn per_io(&self, after: &Totals, operations: u64) -> Vec<Sample> {
        let operations = operations.max(1) as f64;
        let busy = |time: &CpuTime| time.busy.saturating_sub(time.stolen) as f64 * TICK_S * 1e6;
        let cpu = self.cpu.as_ref().zip(after.cpu.as_ref());
        let cpu = cpu.map(|(before, after)| ("machine_cpu_us_per_io", busy(after) - busy(before)));
        let devices = self.devices.zip(after.devices);
        let of = |kind: usize| devices.map(|(before, after)| after[kind].saturating_sub(before[kind]) as f64);
        let each = [cpu, of(0).map(|n| ("device_reads_per_io", n)), of(1).map(|n| ("device_writes_per_io", n))];
        each.into_iter().flatten().map(|(metric, total)| Sample::new(metric, total / operations)).collect()
    }
}

impl ReadyJob for PreparedLuns {
    fn run(&mut self) -> Result<JobRun, JobError> {
        let before = Totals::now(&self.built);
        let loaded = &self.built.luns()[..self.asked.loaded];
        let outcome = engine::run_on_all(&self.plan, loaded, &self.interrupt).map_err(refused)?;
        let after = Totals::now(&self.built);
        // The next phase draws other offsets.
        self.plan.seed = self.plan.seed.wrapping_add(1);
        if outcome.operations() == 0 {
            return Err(JobError::failed("no I/O completed in the measured time; write a longer duration"));
        }
        let mut flags = self.flags.clone();
        flags.extend(notes(&self.plan, &outcome));
        let mut samples = samples(&outcome);
        samples.extend(before.per_io(&after, outcome.all));
        Ok(JobRun {
            samples,
            checked: format!("{} I/Os without an error on {} LUNs", outcome.operations(), self.asked.loaded),
            flags,
            void: Vec::new(),
            points: points(&outcome),
            detail: Some(Detail { format: FORMAT.to_owned(), document: self.document(&outcome) }),
        })
    }
}

impl PreparedLuns {
    fn document(&self, outcome: &Outcome) -> serde_json::Value {
        let seconds = outcome.elapsed_ns as f64 / 1e9;
        let asked = &self.asked.arrangement;
        json!({
            "engine": self.plan.engine.label(),
            "layout": asked.layout.word(),
            "luns": asked.luns,
            "lun_bytes": self.built.lun_bytes(),
            "devices": self.built.device_paths().count(),
            "bytes": asked.total(),
            "direct": self.built.is_direct(),
            "depth": self.plan.depth,
            "elapsed_s": seconds,
            "lun_iops": outcome.by_target.iter().map(|operations| *operations as f64 / seconds).collect::<Vec<_>>(),
            "read": outcome.reads.summary(),
            "write": outcome.writes.summary(),
        })
    }
}

fn samples(outcome: &Outcome) -> Vec<Sample> {
    let operations = outcome.operations() as f64;
    let mut samples = rates(outcome);
    let summaries = [&outcome.reads, &outcome.writes].into_iter().filter_map(Latencies::summary);
    let total_ns: f64 = summaries.map(|summary| summary.mean_ns * summary.samples as f64).sum();
    samples.push(Sample::new("mean_us", total_ns / operations / 1e3));
    let (least, most) = (outcome.by_target.iter().min(), outcome.by_target.iter().max());
    if let (Some(least), Some(most), true) = (least, most, outcome.by_target.len() > 1) {
        let mean = operations / outcome.by_target.len() as f64;
        samples.push(Sample::new("lun_range", 100.0 * (most - least) as f64 / mean));
    }
    samples
}
