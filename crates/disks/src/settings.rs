//! The parameters of the workload, from their table to a plan of the engine.

use crate::access::{BlockShare, Mix, Pattern};
use crate::engine::{Engine, Plan, Ramp, Stop};
use crate::fio::{FioJob, Ignored};
use crate::pace::Load;
use crate::target::{Cache, Place};
use baremark_model::arm::ResolvedArm;
use baremark_model::command::{self, ARRIVAL, DURATION, TIMEOUT, WARM_UP};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::parameters::Parameters;
use baremark_model::units::{Bytes, Nanos, SECOND, Share};
use baremark_model::value::Value;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

/// Threads of the engine `threads`, at most.
const MOST_THREADS: usize = 1024;
/// The parameter that names a block device to be overwritten.
pub const DEVICE: &str = "device";
/// The parameter that names a fio job file of the lab's.
pub const JOB: &str = "job";
/// The parameter that has the text of a fio job.
pub const JOB_TEXT: &str = "job_text";
/// Bytes of a fio job file, at most.
const LONGEST_JOB: u64 = 1 << 20;

/// The preset of accesses.
pub(crate) const ACCESS: Knob = Knob::new(
    "access",
    Kind::Choice(&["random-read", "random-write", "random-mixed", "sequential-read", "sequential-write", "fsync"]),
    Default::Derived("pattern, read_share and block"),
)
.help(
    "preset: random 4 KiB (mixed: 70 % reads), sequential 128 KiB, or 4 KiB writes at depth 1 with \
     fdatasync after each",
);
/// The folder of the target.
pub(crate) const PATH: Knob =
    Knob::new("path", Kind::Text, Default::Derived("TMPDIR, or /tmp")).help("folder on the file system to measure");
/// Outstanding I/Os.
pub(crate) const DEPTH: Knob =
    Knob::new("depth", Kind::Count { min: 1, max: 4096 }, Default::Typed("32")).help("outstanding I/Os of a job");
/// How I/Os are issued.
pub(crate) const ENGINE: Knob =
    Knob::new("engine", Kind::Choice(&["auto", "io_uring", "threads"]), Default::Typed("auto"))
        .help("auto: io_uring, or threads with pread and pwrite where it is forbidden");
/// The measured time.
pub(crate) const MEASURED: Knob =
    Knob::new(DURATION, Kind::Time { min: SECOND / 20, max: 24 * 3600 * SECOND }, Default::Typed("5 s"))
        .help("measured time of a phase");
/// The time under load before it.
pub(crate) const RAMP: Knob =
    Knob::new(WARM_UP, Kind::Time { min: 0, max: 24 * 3600 * SECOND }, Default::Typed("500 ms"))
        .help("time under load before it");
/// The time under load after it.
pub(crate) const RAMP_DOWN: Knob =
    Knob::new(command::RAMP_DOWN, Kind::Time { min: 0, max: 24 * 3600 * SECOND }, Default::Typed("0 s"))
        .help("time under load after it, not measured");
/// The steady state.
pub(crate) const STEADY: Knob =
    Knob::new("steady", Kind::Percent { min: 0.001, max: 1.0 }, Default::Derived("not awaited"))
        .help("then wait until IOPS of 5 seconds lie within this share of their mean");
/// The longest wait for it.
pub(crate) const STEADY_LIMIT: Knob =
    Knob::new("steady_limit", Kind::Time { min: SECOND, max: 24 * 3600 * SECOND }, Default::Typed("1 min"))
        .help("longest such wait");

/// The table of parameters.
pub static PARAMETERS: [Knob; 30] = [
    Knob::new(JOB, Kind::Text, Default::Derived("none")).help(
        "fio job file whose keys replace the parameters here; read once, on this machine, when the run is \
         planned",
    ),
    Knob::new(JOB_TEXT, Kind::Text, Default::Derived("that of job")).help("text of a fio job, in place of a file"),
    ACCESS,
    PATH,
    Knob::new("file", Kind::Text, Default::Derived("a file without a name in path")).help("file to use, which is kept"),
    Knob::new(DEVICE, Kind::Text, Default::Derived("a file"))
        .help("block device to overwrite; needs --allow-destructive DEVICE"),
    Knob::new("size", Kind::Size { min: 1 << 20, max: 64 << 40 }, Default::Typed("1 GiB")).help("size of the target"),
    Knob::new("pattern", Kind::Choice(&["random", "sequential", "zipf"]), Default::Typed("random"))
        .help("order of offsets; sequential jobs each have their own part"),
    Knob::new("exponent", Kind::Text, Default::Typed("1.2")).help("exponent of zipf, above 0"),
    Knob::new("read_share", Kind::Percent { min: 0.0, max: 1.0 }, Default::Typed("100 %")).help("share of reads"),
    Knob::new("block", Kind::Text, Default::Typed("4 KiB"))
        .help("size of an I/O, or a mix such as \"4 KiB: 60, 64 KiB: 40\""),
    Knob::new("align", Kind::Size { min: 512, max: 1 << 30 }, Default::Derived("the size of the I/O"))
        .help("offsets are multiples of this"),
    DEPTH,
    Knob::new("jobs", Kind::Count { min: 1, max: 256 }, Default::Typed("1"))
        .help("jobs, each with a thread and a queue"),
    Knob::new("rate", Kind::Count { min: 1, max: 1_000_000_000 }, Default::Derived("a closed loop"))
        .help("open loop: I/Os per second of all jobs, latency from the intended start"),
    ARRIVAL,
    Knob::new("burst", Kind::Time { min: 1000, max: 3600 * SECOND }, Default::Derived("load all the time"))
        .help("time with load"),
    Knob::new("pause", Kind::Time { min: 1000, max: 3600 * SECOND }, Default::Derived("none"))
        .help("time between two bursts"),
    Knob::new("sync_every", Kind::Count { min: 0, max: 1 << 32 }, Default::Typed("0"))
        .help("fdatasync after N writes; 0: never"),
    Knob::new("durable", Kind::Switch, Default::Typed("false")).help("open with O_DSYNC"),
    Knob::new("cache", Kind::Choice(&["direct", "buffered"]), Default::Typed("direct"))
        .help("direct: O_DIRECT; buffered: page cache"),
    ENGINE,
    MEASURED,
    Knob::new("operations", Kind::Count { min: 1, max: 1 << 48 }, Default::Derived("no limit"))
        .help("end a phase after N I/Os"),
    RAMP,
    RAMP_DOWN,
    STEADY,
    STEADY_LIMIT,
    Knob::new("verify", Kind::Switch, Default::Typed("false"))
        .help("stamp blocks with checksums and sequence numbers and check them"),
    TIMEOUT,
];

/// The parameters of an arm, checked.
pub struct Settings {
    /// Where the data are.
    pub place: Place,
    /// Their size in bytes.
    pub size: u64,
    /// Whether the page cache is used.
    pub cache: Cache,
    /// The engine that was requested; `None` for auto.
    pub engine: Option<Engine>,
    /// Whether blocks are verified.
    pub verify: bool,
    /// What the engine does.
    pub plan: Plan,
    /// Lines of a fio job without effect.
    pub ignored: Vec<Ignored>,
    /// The name of the fio job, if there is one.
    pub job: Option<String>,
}

impl Settings {
    /// Of an arm, which has the text of its fio job if it has one: no file is read.
    ///
    /// # Errors
    /// The parameter at fault and what would be right.
    pub fn of(arm: &ResolvedArm) -> Result<Settings, InvalidValue> {
        let mut replaced = arm.clone();
        let of = Parameters::of(arm, &PARAMETERS);
        if let Some(name) = of.find::<String>(ACCESS.key)? {
            preset(&mut replaced.parameters, &name)?;
        }
        let (job, text) = (of.find::<String>(JOB)?, of.find::<String>(JOB_TEXT)?);
        let name = job.as_deref().unwrap_or(JOB_TEXT);
        let ignored = match &text {
            Some(text) => replace_by_job(&mut replaced.parameters, name, text)?,
            None if job.is_some() => return Err(unread(name)),
            None => Vec::new(),
        };
        let job = text.map(|_| name.to_owned());
        command::fits_timeout(&replaced)?;
        let of = Parameters::of(&replaced, &PARAMETERS);
        let settings = Settings {
            place: place(of)?,
            size: of.get::<Bytes>("size")?.0,
            cache: if of.is("cache", "buffered")? { Cache::Buffered } else { Cache::Direct },
            engine: match of.get::<String>("engine")?.as_str() {
                "io_uring" => Some(Engine::IoUring),
                "threads" => Some(Engine::Threads),
                _ => None,
            },
            verify: of.get("verify")?,
            plan: plan(of)?,
            ignored,
            job,
        };
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), InvalidValue> {
        let mix = &self.plan.mix;
        let units: Vec<u64> = mix.blocks.iter().map(|block| block.bytes).chain(mix.align).collect();
        if self.cache == Cache::Direct
            && let Some(odd) = units.iter().find(|bytes| *bytes % 512 != 0)
        {
            let what = format!("{odd} bytes are not a multiple of 512, which O_DIRECT needs");
            return Err(InvalidValue::new(what, "write multiples of 512 in block and align, or cache = \"buffered\""));
        }
        let jobs = self.plan.jobs as u64;
        if mix.largest().saturating_mul(jobs) > self.size {
            let what =
                format!("{jobs} jobs with I/Os of {} do not fit into {}", Bytes(mix.largest()), Bytes(self.size));
            return Err(InvalidValue::new(what, "write a larger size, or smaller blocks"));
        }
        if self.engine == Some(Engine::Threads) && self.plan.depth * self.plan.jobs > MOST_THREADS {
            let what = format!("engine = \"threads\" makes {} threads", self.plan.depth * self.plan.jobs);
            return Err(InvalidValue::new(
                what,
                format!("write depth and jobs whose product is at most {MOST_THREADS}"),
            ));
        }
        if self.verify { self.can_be_verified() } else { Ok(()) }
    }

    fn can_be_verified(&self) -> Result<(), InvalidValue> {
        let mix = &self.plan.mix;
        let one = mix.blocks.len() == 1 && mix.align.is_none_or(|align| align == mix.largest());
        let block = mix.largest();
        if !one
            || !block.is_multiple_of(512)
            || !(4_u64 << 20).is_multiple_of(block)
            || !self.size.is_multiple_of(block)
        {
            let what =
                "verify needs I/Os of one size, a power of two from 512 B to 4 MiB that divides size, aligned to it";
            return Err(InvalidValue::new(what, "write one block size and no align"));
        }
        let outstanding = (self.plan.depth * self.plan.jobs) as u64;
        if self.size / block < 4 * outstanding {
            let what = format!("verify needs at least 4 blocks for each of {outstanding} outstanding I/Os");
            return Err(InvalidValue::new(what, "write a larger size, or a smaller depth"));
        }
        Ok(())
    }
}

/// Sets the parameters of which a preset consists.
fn preset(parameters: &mut BTreeMap<String, Value>, name: &str) -> Result<(), InvalidValue> {
    let (pattern, reads, block, sync) = match name {
        "random-write" => ("random", "0 %", "4 KiB", "0"),
        "random-mixed" => ("random", "70 %", "4 KiB", "0"),
        "sequential-read" => ("sequential", "100 %", "128 KiB", "0"),
        "sequential-write" => ("sequential", "0 %", "128 KiB", "0"),
        "fsync" => ("random", "0 %", "4 KiB", "1"),
        _ => ("random", "100 %", "4 KiB", "0"),
    };
    let mut typed = vec![("pattern", pattern), ("read_share", reads), ("block", block), ("sync_every", sync)];
    typed.extend((name == "fsync").then_some(("depth", "1")));
    typed.into_iter().try_for_each(|(key, text)| set(parameters, key, text))
}

/// Sets a parameter as typed in a study.
fn set(parameters: &mut BTreeMap<String, Value>, key: &str, typed: &str) -> Result<(), InvalidValue> {
    if let Some(knob) = PARAMETERS.iter().find(|knob| knob.key == key) {
        parameters.insert(key.to_owned(), knob.read_text(typed)?);
    }
    Ok(())
}

/// A job file whose text an order does not have.
fn unread(path: &str) -> InvalidValue {
    InvalidValue::new(
        format!("{JOB} = '{path}' was not read when the run was planned"),
        "start a new run of the study; a site reads no job file of its own",
    )
}

/// Reads the fio job file that these parameters name, if they name one, on this machine: its text is a parameter from then on.
///
/// # Errors
/// A file that cannot be read, or a text next to it.
pub fn read_job(parameters: &mut BTreeMap<String, Value>) -> Result<(), InvalidValue> {
    let Some(Value::Text(path)) = parameters.get(JOB) else { return Ok(()) };
    if parameters.contains_key(JOB_TEXT) {
        return Err(InvalidValue::new(format!("{JOB} and {JOB_TEXT} are both set"), "keep one of them"));
    }
    let text = job_file(path)?;
    parameters.insert(JOB_TEXT.to_owned(), Value::Text(text));
    Ok(())
}

/// The text of a fio job file.
///
/// # Errors
/// When it is not a regular file, is longer than a job can be, or cannot be read.
pub fn job_file(path: &str) -> Result<String, InvalidValue> {
    let failed = |why: &dyn std::fmt::Display| {
        InvalidValue::new(format!("{JOB} = '{path}' cannot be read: {why}"), "name a file by its absolute path")
    };
    // A FIFO without a writer does not wait.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = opened.map_err(|why| failed(&why))?;
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err(failed(&"it is not a regular file"));
    }
    let mut text = String::new();
    let read = file.take(LONGEST_JOB + 1).read_to_string(&mut text).and_then(|read| match read as u64 {
        ..=LONGEST_JOB => Ok(()),
        _ => Err(io::Error::other("it is longer than 1 MiB")),
    });
    read.map_err(|why| failed(&why))?;
    Ok(text)
}

fn replace_by_job(
    parameters: &mut BTreeMap<String, Value>,
    path: &str,
    text: &str,
) -> Result<Vec<Ignored>, InvalidValue> {
    let job = FioJob::read(text).map_err(|why| {
        let why = why.to_string();
        let (what, remedy) = why.split_once("; ").unwrap_or((&why, "see docs/block.md"));
        InvalidValue::new(format!("{path}, {what}"), remedy)
    })?;
    for (key, typed) in job.parameters {
        let named = |why: InvalidValue| InvalidValue::new(format!("{path}: {}", why.what), why.remedy);
        set(parameters, &key, &typed).map_err(named)?;
    }
    Ok(job.ignored)
}

fn place(of: Parameters<'_>) -> Result<Place, InvalidValue> {
    match (of.find("file")?, of.find(DEVICE)?, of.find("path")?) {
        (None, None, path) => Ok(Place::Folder(path.unwrap_or_else(std::env::temp_dir))),
        (Some(file), None, None) => Ok(Place::File(file)),
        (None, Some(device), None) => Ok(Place::Device(device)),
        _ => Err(InvalidValue::new("more than one of path, file and device is set", "keep one of them")),
    }
}

fn plan(of: Parameters<'_>) -> Result<Plan, InvalidValue> {
    let bursts = match (of.find::<Nanos>("burst")?, of.find::<Nanos>("pause")?) {
        (None, None) => None,
        (Some(on), Some(off)) => Some((on.0, off.0)),
        _ => return Err(InvalidValue::new("one of burst and pause is set without the other", "write both")),
    };
    let Nanos(duration) = of.get(DURATION)?;
    Ok(Plan {
        mix: Mix {
            pattern: pattern(of)?,
            blocks: blocks(&of.get::<String>("block")?)?,
            align: of.find::<Bytes>("align")?.map(|align| align.0),
            read_share: of.get::<Share>("read_share")?.0,
        },
        load: Load {
            rate: of.find::<u64>("rate")?.map(|rate| rate as f64),
            poisson: of.is(ARRIVAL.key, "poisson")?,
            bursts,
        },
        depth: of.get("depth")?,
        jobs: of.get("jobs")?,
        sync_every: of.get("sync_every")?,
        durable: of.get("durable")?,
        engine: Engine::IoUring,
        ramp: Ramp {
            least_ns: of.get::<Nanos>(WARM_UP)?.0,
            steady: of.find::<Share>("steady")?.map(|share| share.0),
            limit_ns: of.get::<Nanos>("steady_limit")?.0,
        },
        stop: match of.find("operations")? {
            Some(most) => Stop::Count(most, duration),
            None => Stop::After(duration),
        },
        ramp_down_ns: of.find::<Nanos>(RAMP_DOWN.key)?.map_or(0, |time| time.0),
        cpus: Vec::new(),
        seed: 0,
    })
}

fn pattern(of: Parameters<'_>) -> Result<Pattern, InvalidValue> {
    match of.get::<String>("pattern")?.as_str() {
        "sequential" => Ok(Pattern::Sequential),
        "zipf" => {
            let text: String = of.get("exponent")?;
            match text.parse::<f64>() {
                Ok(exponent) if exponent > 0.0 && exponent <= 10.0 => Ok(Pattern::Zipf(exponent)),
                _ => Err(InvalidValue::new(
                    format!("exponent = '{text}' is not an exponent"),
                    "write a number above 0, such as \"1.2\"",
                )),
            }
        }
        _ => Ok(Pattern::Random),
    }
}

/// `4 KiB`, or `4 KiB: 60, 64 KiB: 40`.
fn blocks(text: &str) -> Result<Vec<BlockShare>, InvalidValue> {
    let wrong = || {
        InvalidValue::new(
            format!("block = '{text}' is not a size"),
            "write such as \"4 KiB\" or \"4 KiB: 60, 64 KiB: 40\"",
        )
    };
    let part = |part: &str| {
        let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
        let bytes = size.trim().parse::<Bytes>().ok()?.0;
        let weight = weight.trim().trim_end_matches('%').trim().parse::<f64>().ok()?;
        ((512..=1 << 30).contains(&bytes) && weight > 0.0 && weight.is_finite()).then_some(BlockShare { bytes, weight })
    };
    text.split(',').map(part).collect::<Option<Vec<_>>>().ok_or_else(wrong)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use baremark_model::page_size::PageSize;
    use std::fs;

    /// An arm with defaults and these.
    fn arm(typed: &[(&str, &str)]) -> ResolvedArm {
        let mut arm = ResolvedArm::native(1, PageSize::Small);
        for knob in &PARAMETERS {
            let own = typed.iter().find(|(key, _)| *key == knob.key).map(|(_, value)| *value);
            let text = own.or(if let Default::Typed(text) = knob.default { Some(text) } else { None });
            if let Some(text) = text {
                arm.parameters.insert(knob.key.to_owned(), knob.read_text(text).unwrap());
            }
        }
        arm
    }

    fn refusal(typed: &[(&str, &str)]) -> String {
        Settings::of(&arm(typed)).err().expect("refused").to_string()
    }

    #[test]
    fn the_defaults_are_a_random_read_of_4_kib_at_depth_32() {
        let settings = Settings::of(&arm(&[])).unwrap();
        assert_eq!((settings.size, settings.cache, settings.engine), (1 << 30, Cache::Direct, None));
        let plan = settings.plan;
        assert_eq!((plan.depth, plan.jobs, plan.mix.pattern, plan.mix.read_share), (32, 1, Pattern::Random, 1.0));
        assert_eq!(plan.mix.blocks, [BlockShare { bytes: 4096, weight: 1.0 }]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_would_be_right() {
        assert!(
            refusal(&[("block", "4000 B")]).contains("not a multiple of 512, which O_DIRECT needs; write multiples")
        );
        assert!(refusal(&[("block", "4 KiB: x")]).contains("is not a size; write such as"));
        assert!(refusal(&[("burst", "1 s")]).contains("without the other; write both"));
        assert!(refusal(&[("file", "/a"), ("device", "/dev/b")]).contains("more than one of path, file and device"));
        assert!(
            refusal(&[("verify", "true"), ("block", "4 KiB: 1, 8 KiB: 1")]).contains("verify needs I/Os of one size")
        );
        assert!(refusal(&[("verify", "true"), ("size", "1 MiB"), ("depth", "128")]).contains("at least 4 blocks"));
        assert!(refusal(&[("size", "1 MiB"), ("block", "1 MiB"), ("jobs", "2")]).contains("do not fit into"));
        assert!(refusal(&[("engine", "threads"), ("depth", "600"), ("jobs", "2")]).contains("1200 threads"));
    }

    #[test]
    fn a_preset_is_an_access_of_the_standard_study() {
        let plan = |name| Settings::of(&arm(&[("access", name)])).unwrap().plan;
        let mixed = plan("random-mixed");
        assert_eq!((mixed.mix.read_share, mixed.mix.largest(), mixed.depth), (0.7, 4096, 32));
        let sequential = plan("sequential-read");
        assert_eq!((sequential.mix.pattern, sequential.mix.largest()), (Pattern::Sequential, 128 << 10));
        let synced = plan("fsync");
        assert_eq!((synced.mix.read_share, synced.sync_every, synced.depth), (0.0, 1, 1));
    }

    #[test]
    fn a_fio_job_replaces_the_parameters() {
        let typed = |text| [("job_text", text), ("depth", "64"), ("size", "16 MiB")];
        let settings =
            Settings::of(&arm(&typed("[a]\nrw=randwrite\nbs=8k\nioengine=io_uring\niodepth=4\nthinktime=5\n")))
                .unwrap();
        assert_eq!((settings.plan.depth, settings.size, settings.plan.mix.read_share), (4, 16 << 20, 0.0));
        assert_eq!((settings.ignored[0].key.as_str(), settings.job.as_deref()), ("thinktime", Some("job_text")));
        let why = refusal(&typed("[a]\nioengine=io_uring\niodepth=100000\n"));
        assert!(why.contains("depth = 100000 is out of range"), "{why}");
    }

    #[test]
    fn a_job_file_is_read_once_by_the_lab_and_never_at_a_site() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.fio");
        let name = path.to_str().unwrap();
        fs::write(&path, "[a]\nrw=randwrite\nfilename=/srv/first\n").unwrap();
        let mut planned = arm(&[("job", name)]);
        read_job(&mut planned.parameters).unwrap();
        // Exchanged while the run goes on, or another file of this name at the site, or none.
        for other in ["[a]\nrw=randwrite\nfilename=/dev/sda\n", "no job"] {
            fs::write(&path, other).unwrap();
            let settings = Settings::of(&planned).unwrap();
            assert_eq!((&settings.place, settings.job.as_deref()), (&Place::File("/srv/first".into()), Some(name)));
        }
        fs::write(&path, "[a]\nrw=randwrite\nfilename=/dev/sda\n").unwrap();
        // An order without the text, as an earlier version sent it: the file of this name is not read.
        let why = refusal(&[("job", name)]);
        assert!(
            why.starts_with(&format!("job = '{name}' was not read when the run was planned; start a new run")),
            "{why}"
        );
        fs::remove_file(&path).unwrap();
        assert!(Settings::of(&planned).is_ok());
        let refused = |parameters: &[(&str, &str)]| read_job(&mut arm(parameters).parameters).unwrap_err().to_string();
        assert!(refused(&[("job", name)]).contains("cannot be read: No such file"));
        assert!(refused(&[("job", name), ("job_text", "[a]")]).contains("are both set; keep one"));
        assert!(refused(&[("job", "/dev/zero")]).contains("it is not a regular file"));
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(refused(&[("job", name)]).contains("it is not a regular file"));
    }
}
