//! An HTTP load as a workload of a study: one load in each phase, described by parameters, reported as series.
//!
//! The generator runs where the arm's environment is; the server is whatever the URL names. A phase is a warm-up, which is
//! thrown away, and a measured load. A load with more failures than `error_limit` is not a result.

use crate::arrival::Arrival;
use crate::bounded_file;
use crate::document::{Document, FORMAT, OperationRow, Verdict};
use crate::failure::Failure;
use crate::latency::Summary;
use crate::limits;
use crate::load::{Drive, Engine, Load, Pin, Pool, Protocol, Stop};
use crate::order::{Order, OrderError};
use crate::parts::stretches;
use crate::profile::{After, Profile};
use crate::record::{Counts, Part, SecondPart};
use crate::requirements::Requirements;
use crate::scenario::{Scenario, file};
use crate::transport::Trust;
use baremark_model::arm::ResolvedArm;
use baremark_model::command::{self, ARRIVAL, DURATION, RAMP_DOWN, TIMEOUT, WARM_UP};
use baremark_model::descriptor::Descriptor;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::parameters::Parameters;
use baremark_model::qos::Limit;
use baremark_model::seam::Sample;
use baremark_model::units::{Nanos, Share};
use baremark_model::wire::{Detail, Point};
use baremark_sys::cpu_time::CpuTime;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::string::FromUtf8Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// The kind as typed in a study.
pub const KIND: &str = "load";

/// Jobs of this crate.
pub const ALL: &[&dyn Job] = &[&HttpLoad];

const SECOND: u64 = 1_000_000_000;
/// Connections of a closed loop, and at most of an open one or of users, where the study does not say.
const CLOSED: usize = 64;
const OPEN: usize = 1000;

static PARAMETERS: [Knob; 26] = [
    Knob::new("url", Kind::Text, Default::Derived("the scenario's own"))
        .help("URL to request; with a scenario, its base URL"),
    Knob::new("scenario", Kind::Text, Default::Derived("a GET of url")).help("scenario file with operations and users"),
    Knob::new("rate", Kind::Text, Default::Derived("a closed loop"))
        .help("open loop: starts per second, a number or a profile"),
    Knob::new("users", Kind::Text, Default::Derived("a closed loop"))
        .help("closed loop of users with a cycle: a number or a profile"),
    ARRIVAL,
    Knob::new("connections", Kind::Count { min: 1, max: 1 << 20 }, Default::Derived("64; 1000 with rate or users"))
        .help("connections: exactly in a closed loop, at most otherwise"),
    Knob::new("shared", Kind::Switch, Default::Typed("false")).help("share connections among users"),
    Knob::new("http2", Kind::Switch, Default::Typed("false")).help("use HTTP/2"),
    Knob::new("streams", Kind::Count { min: 1, max: 1 << 16 }, Default::Typed("10"))
        .help("concurrent requests on an HTTP/2 connection"),
    Knob::new("threads", Kind::Count { min: 1, max: 1024 }, Default::Typed("1")).help("event loops of the generator"),
    Knob::new(DURATION, Kind::Time { min: 1_000_000, max: 24 * 3600 * SECOND }, Default::Typed("5 s"))
        .help("measured time of a phase"),
    Knob::new(WARM_UP, Kind::Time { min: 0, max: 3600 * SECOND }, Default::Typed("1 s"))
        .help("time under load before it, not measured"),
    Knob::new(RAMP_DOWN, Kind::Time { min: 0, max: 3600 * SECOND }, Default::Typed("0 s"))
        .help("time under load after it, not measured"),
    Knob::new("request_timeout", Kind::Time { min: 1_000_000, max: 3600 * SECOND }, Default::Typed("10 s"))
        .help("request timeout"),
    Knob::new(
        "error_limit",
        Kind::Percent { min: 0.0, max: 1.0 },
        Default::Derived("1 %; none with a limit on failures"),
    )
    .help("share of failed operations above which the phase is not a result"),
    Knob::new(
        "operations",
        Kind::Count { min: 1, max: i64::MAX as u64 },
        Default::Derived("until duration has passed"),
    )
    .help("operations after which a phase ends, instead of duration"),
    Knob::new("cycle", Kind::Time { min: 1, max: 24 * 3600 * SECOND }, Default::Derived("the scenario's own"))
        .help("mean time between the intended starts of a user's operations"),
    Knob::new("trace", Kind::Text, Default::Derived("a steady rate"))
        .help("open loop: file with the rate profile, 'seconds,rate' per line"),
    Knob::new("repeat", Kind::Switch, Default::Typed("false")).help("repeat the trace when it ends"),
    Knob::new("replay", Kind::Text, Default::Derived("drawn arrivals"))
        .help("open loop: file with recorded arrival times, one time in seconds per line"),
    Knob::new("ca", Kind::Text, Default::Derived("the system's"))
        .help("PEM file with the certificate authorities to trust"),
    Knob::new("source", Kind::Words, Default::Derived("the system's")).help("local source addresses, used in turn"),
    Knob::new("header", Kind::Words, Default::Derived("none"))
        .help("headers of every request, such as [\"accept: text/html\"]"),
    Knob::new("insecure", Kind::Switch, Default::Typed("false")).help("skip TLS certificate verification"),
    Knob::new("limit", Kind::Words, Default::Derived("those of the scenario"))
        .help("limits such as [\"p99<50ms\", \"failures<0.5%\"]; a phase that exceeds one is flagged"),
    TIMEOUT,
];

static METRICS: [Metric; 13] = [
    Metric::higher("requests_per_s", "requests/s", Aggregate::Sum).help("requests answered per second"),
    Metric::higher("operations_per_s", "operations/s", Aggregate::Sum).help("operations that succeeded per second"),
    Metric::lower("latency_p50_ms", "ms", Aggregate::Mean)
        .help("median latency, from the intended start where there is one"),
    Metric::lower("latency_p95_ms", "ms", Aggregate::Most).help("95th percentile of it; needs 72 operations"),
    Metric::lower("latency_p99_ms", "ms", Aggregate::Most).help("99th percentile of it; needs 368 operations"),
    Metric::lower("latency_p99_9_ms", "ms", Aggregate::Most).help("99.9th percentile of it; needs 3,688 operations"),
    Metric::lower("latency_mean_ms", "ms", Aggregate::Mean).help("mean latency"),
    Metric::higher("received_mb_per_s", "MB/s", Aggregate::Sum).help("10^6 bytes received per second"),
    Metric::lower("failed", "%", Aggregate::Mean).help("operations that failed"),
    Metric::higher("within_limit", "%", Aggregate::Mean)
        .help("operations that succeeded within the time that the scenario allows them, of those which have a limit"),
    Metric::higher("maximum_per_s", "operations/s", Aggregate::Sum)
        .help("highest rate that meets every limit, where it was searched (`baremark load --find-max`)"),
    Metric::higher("maximum_users", "users", Aggregate::Sum)
        .help("most users for whom every limit is met, where they were searched (`baremark load --find-max=users`)"),
    Metric::lower("generator_cpus", "CPUs", Aggregate::Sum).help("CPU time of the generator over elapsed time"),
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: KIND,
    help: "HTTP requests to a server, by connections, a rate or users; latency from the intended start",
    source: "this program",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    quick: &[("duration", "1 s"), ("warm_up", "200 ms")],
    check: |arm| Settings::of(arm).map(drop),
    stops_on_interrupt: true,
    ..Descriptor::JOB
};

/// The workload `load`.
#[derive(Clone, Copy, Debug)]
pub struct HttpLoad;

/// What an arm asks for, checked; no file has been read.
struct Settings {
    order: Order,
    files: Files,
    warm_up: Nanos,
    ramp_down: Nanos,
    error_limit: Option<Share>,
    limits: Vec<Limit>,
}

/// Files that a load names.
struct Files {
    scenario: Option<PathBuf>,
    trace: Option<PathBuf>,
    /// Whether the trace is repeated when it ends.
    repeat: bool,
    /// The arrivals of a trace.
    arrival: Arrival,
    replay: Option<PathBuf>,
    ca: Option<PathBuf>,
}

/// A parameter's list, each of its words read.
fn words<T>(
    of: Parameters<'_>,
    key: &str,
    read: impl Fn(&str) -> Result<T, InvalidValue>,
) -> Result<Vec<T>, InvalidValue> {
    of.find::<Vec<String>>(key)?.unwrap_or_default().iter().map(|word| read(word)).collect()
}

fn arrival(of: Parameters<'_>) -> Result<Arrival, InvalidValue> {
    Ok(if of.is(ARRIVAL.key, "poisson")? { Arrival::Poisson } else { Arrival::Constant })
}

/// Who decides when, as far as no file is needed.
fn drive(of: Parameters<'_>) -> Result<Drive, InvalidValue> {
    let given: Vec<&str> = ["rate", "users", "trace"].into_iter().filter(|key| of.has(key)).collect();
    if let [one, other, ..] = given.as_slice() {
        return Err(InvalidValue::new(format!("{one} and {other} are both set"), "keep one of them"));
    }
    Ok(match (of.find::<String>("rate")?, of.find::<String>("users")?) {
        (Some(rate), _) => Drive::Open { arrival: arrival(of)?, profile: profile("rate", &rate)? },
        (None, Some(users)) => Drive::Users { profile: profile("users", &users)? },
        (None, None) => Drive::Closed,
    })
}

impl Settings {
    fn of(arm: &ResolvedArm) -> Result<Settings, InvalidValue> {
        let of = Parameters::of(arm, &PARAMETERS);
        let (url, scenario) = (of.find::<String>("url")?, of.find::<PathBuf>("scenario")?);
        if url.is_none() && scenario.is_none() {
            return Err(InvalidValue::new("neither url nor scenario is set", "write url = \"http://127.0.0.1:8080/\""));
        }
        if let (Some(url), None) = (&url, &scenario) {
            Scenario::of_url(url).map_err(|why| with_remedy("url", &why))?;
        }
        let drive = drive(of)?;
        let files = Files {
            scenario,
            trace: of.find("trace")?,
            repeat: of.get("repeat")?,
            arrival: arrival(of)?,
            replay: of.find("replay")?,
            ca: of.find("ca")?,
        };
        let open = files.trace.is_some() || files.replay.is_some();
        let shared: bool = of.get("shared")?;
        let most = match &drive {
            Drive::Closed if !open => CLOSED,
            // Of users without loops alongside them, the engine takes as many as there are users.
            Drive::Users { profile } if !shared => most_connections(profile)?,
            _ => OPEN,
        };
        let threads = of.get("threads")?;
        let order = Order {
            url,
            scenario: None,
            folder: files.scenario.as_deref().and_then(Path::parent).unwrap_or(Path::new(".")).to_owned(),
            headers: words(of, "header", header)?,
            cycle_ns: of.find("cycle")?,
            drive,
            points: None,
            stop: of.find("operations")?.map_or(Stop::After(of.get(DURATION)?), Stop::Count),
            threads,
            connections: of.find("connections")?.unwrap_or(most.max(threads)),
            pool: if shared { Pool::Shared } else { Pool::Own },
            protocol: match of.get("http2")? {
                true => Protocol::Http2 { streams: of.get("streams")? },
                false => Protocol::Http1,
            },
            timeout_ns: of.get("request_timeout")?,
            grace_ns: None,
            seed: 1,
            trust: if of.get("insecure")? { Trust::Anything } else { Trust::System },
            addresses: Vec::new(),
            sources: words(of, "source", source)?,
            pin: Pin::Spread,
            site: (0, 1),
        };
        command::fits_timeout(arm)?;
        Ok(Settings {
            order,
            files,
            warm_up: of.get(WARM_UP)?,
            ramp_down: of.get(RAMP_DOWN)?,
            error_limit: of.find("error_limit")?,
            limits: words(of, "limit", limit)?,
        })
    }

    /// The order with what is in the files.
    fn read(&self) -> Result<Order, OrderError> {
        let mut order = self.order.clone();
        let Files { scenario, trace, repeat, arrival, replay, ca } = &self.files;
        if let Some(path) = scenario {
            order.scenario = Some((path.display().to_string(), text_of(path, file::LONGEST_MIB)?));
        }
        let mut rate = match &order.drive {
            Drive::Open { profile, .. } => Some(profile.clone()),
            _ => None,
        };
        if let Some(path) = trace {
            let mut traced = Profile::from_trace(&text_of(path, LONGEST_MIB)?)?;
            traced.after = if *repeat { After::Repeat } else { After::Hold };
            order.drive = Drive::Open { arrival: arrival.clone(), profile: traced.clone() };
            rate = Some(traced);
        }
        if let Some(path) = replay {
            let (arrival, recorded) = Arrival::from_recording(&text_of(path, LONGEST_MIB)?)?;
            order.points = if let Arrival::Replayed { points } = &arrival { Some(points.to_vec()) } else { None };
            order.drive = Drive::Open { arrival, profile: rate.unwrap_or(Profile::steady(recorded)) };
        }
        if let Some(path) = ca {
            order.trust = Trust::Certificates { file: path.clone(), pem: text_of(path, LONGEST_MIB)? };
        }
        Ok(order)
    }
}

/// The longest recording, trace or list of certificates, in MiB.
const LONGEST_MIB: u64 = 256;

/// Connections of a user who keeps one, with those of the loops that run alongside.
const BESIDE: usize = 4;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
fn most_connections(users: &Profile) -> Result<usize, InvalidValue> {
    let curve =
        users.curve().map_err(|why| InvalidValue::new(format!("users: {why}"), "write such as users = \"100\""))?;
    Ok((curve.highest().ceil() as usize).saturating_mul(BESIDE))
}

/// The load that an arm describes, with every file read that it names; seed, CPUs and site are the caller's to set.
///
/// # Errors
/// What is wrong with a parameter or a file, with the remedy.
pub fn order(arm: &ResolvedArm) -> Result<Order, OrderError> {
    Settings::of(arm)?.read()
}

/// What an arm states of the result: the limits that it must meet, and the share of its operations that may fail.
///
/// # Errors
/// What is wrong with a parameter, with the remedy.
pub fn stated(arm: &ResolvedArm) -> Result<(Vec<Limit>, Option<Share>), InvalidValue> {
    let Settings { limits, error_limit, .. } = Settings::of(arm)?;
    Ok((limits, error_limit))
}

/// A text file of at most so many MiB.
fn text_of(path: &Path, most_mib: u64) -> Result<String, OrderError> {
    let not_text = |why: FromUtf8Error| OrderError::NotText { path: path.to_owned(), source: why.utf8_error() };
    String::from_utf8(bounded_file::read(path, most_mib)?).map_err(not_text)
}

/// A refusal of the parameter `key` that may have a remedy of its own after a semicolon.
fn with_remedy(key: &str, why: &impl ToString) -> InvalidValue {
    let why = why.to_string();
    let (what, remedy) = why.split_once("; ").unwrap_or((&why, "write such as \"http://127.0.0.1:8080/\""));
    InvalidValue::new(format!("{key}: {what}"), remedy)
}

fn limit(text: &str) -> Result<Limit, InvalidValue> {
    text.parse::<Limit>()
        .map_err(|why| InvalidValue::new(format!("limit = '{text}': {why}"), "write such as \"p99<50ms\""))
}

fn source(text: &str) -> Result<IpAddr, InvalidValue> {
    text.parse::<IpAddr>()
        .map_err(|why| InvalidValue::new(format!("source = '{text}': {why}"), "write an address of this machine"))
}

fn profile(key: &str, text: &str) -> Result<Profile, InvalidValue> {
    let remedy = "write a number, or a profile such as \"ramp from=0 to=2000 over=30s\"";
    Profile::from_str(text).map_err(|why| InvalidValue::new(format!("{key} = '{text}': {why}"), remedy))
}

/// A header of every request, as typed: its name and its value.
///
/// # Errors
/// When it is not `NAME: VALUE` on one line.
pub fn header(text: &str) -> Result<(String, String), InvalidValue> {
    let parts = text.split_once(':').filter(|(name, _)| !name.trim().is_empty() && !text.contains(['\r', '\n']));
    let parts = parts.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    parts.ok_or_else(|| {
        InvalidValue::new(format!("header = '{text}' must be NAME: VALUE"), "write \"accept: text/html\"")
    })
}

impl Job for HttpLoad {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let settings = Settings::of(arm).map_err(JobError::failed)?;
        let mut order = settings.read().map_err(|why| JobError::Missing {
            what: format!("a file of the load cannot be read here: {why}"),
            remedy: "name files that the agent can read, by their absolute paths".to_owned(),
        })?;
        order.seed = around.seed;
        order.pin = Pin::On(around.cpus.to_vec());
        let mut load = order.load().map_err(JobError::failed)?;
        let Settings { warm_up, ramp_down, error_limit, limits, .. } = settings;
        let required = Requirements::of(&load, &limits, error_limit).map_err(JobError::failed)?;
        load.grace = required.grace(&load);
        Ok(Box::new(PreparedLoad { load, warm_up, ramp_down, required, interrupt: Arc::clone(around.interrupt) }))
    }
}

/// A load that can be run in each phase.
struct PreparedLoad {
    load: Load,
    warm_up: Nanos,
    ramp_down: Nanos,
    required: Requirements,
    interrupt: Arc<AtomicBool>,
}

impl PreparedLoad {
    fn once(&self, stop: Stop) -> Result<Part, JobError> {
        let load = Load { stop, ..self.load.clone() };
        let engine = Engine::new(load, Arc::clone(&self.interrupt)).map_err(JobError::failed)?;
        let part = engine.run(&mut |_| ()).map_err(JobError::failed)?;
        if part.interrupted { Err(JobError::Interrupted) } else { Ok(part) }
    }
}

impl ReadyJob for PreparedLoad {
    fn works_in_own_processes(&self) -> bool {
        // The server was there before.
        false
    }

    fn run(&mut self) -> Result<JobRun, JobError> {
        let begun = Instant::now();
        if self.warm_up.0 > 0 {
            self.once(Stop::After(self.warm_up))?;
        }
        let begin_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let before = CpuTime::now().ok();
        let part = self.once(self.load.stop)?;
        let mut document = Document::new(&self.load, &part);
        self.required.check(&mut document, &part, &self.load, before);
        if self.ramp_down.0 > 0 {
            self.once(Stop::After(self.ramp_down))?;
        }
        if document.succeeded().0 == 0 || document.has_failed() {
            return Err(too_many_failures(&document));
        }
        Ok(reported(document, &part, begin_ns))
    }
}

/// What a phase of a trial reports of a load, whose measured time began `begin_ns` after the phase.
#[must_use]
pub fn reported(document: Document, part: &Part, begin_ns: u64) -> JobRun {
    let (succeeded, all) = document.succeeded();
    let generator = &document.generator;
    let mut flags = match generator.verdict {
        Verdict::KeptUp => Vec::new(),
        Verdict::Busy | Verdict::WasTheLimit => {
            generator.reasons.iter().map(|reason| format!("load generator: {reason}")).collect()
        }
    };
    let exceeded = document.limits.iter().filter(|row| row.verdict == limits::Verdict::Exceeded);
    flags.extend(exceeded.map(|row| format!("limit exceeded: {}", row.limit)));
    flags.extend(missed(&document));
    flags.extend(left_out(&document));
    JobRun {
        void: Vec::new(),
        samples: samples(&document, (all - succeeded) as f64 / all.max(1) as f64),
        checked: format!("{succeeded} operations succeeded"),
        flags,
        points: points(part, begin_ns),
        detail: detail(document),
    }
}

/// Of open arrivals of which not all ended in time. How many there were is known, so that chance has no part; at the end as many are under way as come
/// in the time that one takes from its actual start, or one.
fn missed(document: &Document) -> Option<String> {
    let (ended, intended) = (document.counts.ended as f64, document.counts.intended as f64);
    let per_s = |count: f64| count / document.elapsed_s.max(1e-9);
    let taken_s = document.latency.raw.as_ref().and_then(|raw| raw.p50_ns).map_or(0.0, |ns| ns as f64 / 1e9);
    let under_way = (per_s(intended) * taken_s).max(1.0);
    (document.asked.drive == "open" && ended < 0.95 * intended - under_way)
        .then(|| format!("throughput {:.0} of the requested {:.0} operations/s", per_s(ended), per_s(intended)))
}

/// Operations that are in no percentile, since they had no end when the load ended. A generator that kept up is not why.
fn left_out(document: &Document) -> Vec<String> {
    let Counts { unsent, unfinished, .. } = document.counts;
    // A caller of a closed loop who never got a connection has begun nothing.
    let unsent = if document.asked.drive == "closed" { 0 } else { unsent };
    let told = document.generator.verdict != Verdict::KeptUp;
    let unsent =
        (unsent > 0 && !told).then(|| format!("{unsent} operations were not started: the connections were all busy"));
    let unfinished = (unfinished > 0).then(|| {
        format!("{unfinished} operations had not ended when the load did; the percentiles do not include them")
    });
    unsent.into_iter().chain(unfinished).collect()
}

/// More failures than the limit, by kind, with what is known of the cause.
fn too_many_failures(document: &Document) -> JobError {
    let (succeeded, all) = document.succeeded();
    if all == 0 {
        return JobError::failed(format!("no operation ended within {:.1} s", document.elapsed_s));
    }
    let statuses = document.statuses.iter().filter(|(status, _)| **status >= 400);
    let mut kinds: Vec<String> =
        statuses.map(|(status, count)| format!("{count} responses were HTTP {status}")).collect();
    let others = Failure::ALL.into_iter().filter(|kind| *kind != Failure::Status);
    kinds.extend(others.filter_map(|kind| {
        let count = document.failures.get(kind.label())?;
        Some(format!("{count} {}", describe(kind)))
    }));
    JobError::failed(format!("{} of {all} operations failed: {}", all - succeeded, kinds.join(", ")))
}

fn describe(kind: Failure) -> String {
    match kind {
        Failure::Refused => "connections refused (no server listens at that address and port)".to_owned(),
        Failure::Unreachable => "addresses unreachable".to_owned(),
        Failure::Reset => "connections reset by the server".to_owned(),
        Failure::ClosedEarly => "connections closed by the server before the response ended".to_owned(),
        Failure::Timeout => "timeouts".to_owned(),
        Failure::Tls => "TLS failures (set insecure = true for a certificate that cannot be verified)".to_owned(),
        other => match other.remedy() {
            Some(remedy) => format!("{} ({remedy})", other.label()),
            None => other.label().to_owned(),
        },
    }
}

fn samples(document: &Document, failed: f64) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut add = |metric: &str, value: f64| samples.push(Sample::new(metric, value));
    add("requests_per_s", document.achieved.requests_per_s);
    add("operations_per_s", document.achieved.operations_per_s);
    add("received_mb_per_s", document.achieved.received_bytes_per_s / 1e6);
    add("failed", 100.0 * failed);
    if let Some(share) = within_limit(&document.operations) {
        add("within_limit", 100.0 * share);
    }
    add("generator_cpus", document.generator.threads.iter().map(|thread| thread.cpu_share).sum());
    let latency = document.latency.corrected.as_ref().or(document.latency.raw.as_ref());
    if let Some(Summary { mean_ns, p50_ns, p95_ns, p99_ns, p999_ns, .. }) = latency {
        add("latency_mean_ms", mean_ns / 1e6);
        let percentiles = [
            ("latency_p50_ms", p50_ns),
            ("latency_p95_ms", p95_ns),
            ("latency_p99_ms", p99_ns),
            ("latency_p99_9_ms", p999_ns),
        ];
        for (metric, value) in percentiles.into_iter().filter_map(|(metric, value)| Some((metric, (*value)?))) {
            add(metric, value as f64 / 1e6);
        }
    }
    samples
}

/// Operations within their limit as a share of all that have one and ended; `None` where none has.
fn within_limit(operations: &[OperationRow]) -> Option<f64> {
    let limited = operations.iter().filter(|operation| operation.limit_ns.is_some());
    let ended = |operation: &OperationRow| (operation.succeeded + operation.failed) as f64;
    let of_each = limited.filter_map(|one| Some((one.within_limit_share? * ended(one), ended(one))));
    let (within, all) = of_each.fold((0.0, 0.0), |(within, all), (more, of)| (within + more, all + of));
    (all > 0.0).then(|| within / all)
}

/// Each second with its distribution, then each operation over the whole measured time, which began `begin_ns` after the phase.
pub fn points(part: &Part, begin_ns: u64) -> Vec<Point> {
    let times = stretches(&part.seconds, (begin_ns, part.elapsed_ns), |seconds, length_s| {
        let mut sum = SecondPart::default();
        for second in seconds {
            // A histogram of this process's own is not torn.
            let _ = sum.merge(second);
        }
        let rate = (length_s > 0.0).then(|| Sample::new("requests_per_s", sum.answered as f64 / length_s));
        let counts = rate.into_iter().chain([Sample::new(FAILED_OPERATIONS, sum.failed as f64)]);
        let latencies = sum.histogram().unwrap_or_default();
        Some((counts.chain(latencies.percentiles_ms(&PERCENTILES)).collect(), latencies.encoded()))
    });
    // Loops alongside users have no intended starts where users have: they wait for events, and are in no percentile of all operations.
    let has_starts = part.operations.iter().any(|operation| operation.corrected.count() > 0);
    let operations = part.operations.iter().map(|operation| {
        let distributions: &[&str] = if has_starts && operation.corrected.count() == 0 { &[] } else { &[LATENCIES] };
        let latencies = if operation.corrected.count() > 0 { &operation.corrected } else { &operation.raw };
        let counts = [
            Sample::new("succeeded", operation.raw.count() as f64),
            Sample::new(FAILED_OPERATIONS, operation.failed() as f64),
        ];
        let samples = counts.into_iter().chain(latencies.percentiles_ms(&PERCENTILES)).collect();
        let whole = (begin_ns, begin_ns + part.elapsed_ns);
        Point::new(&operation.name, whole, samples, latencies.encoded()).of(distributions)
    });
    times.into_iter().chain(operations).collect()
}

/// The distribution of latencies of all operations, as the keys of its percentiles name it.
pub const LATENCIES: &str = "latency_ms";
/// The number of operations that failed, in a part of a phase.
pub const FAILED_OPERATIONS: &str = "failed_operations";
const PERCENTILES: [(&str, f64); 3] = [("latency_p50_ms", 0.5), ("latency_p95_ms", 0.95), ("latency_p99_ms", 0.99)];

/// The load's own document; what is in the points is left out of it.
fn detail(mut document: Document) -> Option<Detail> {
    document.series.clear();
    let document = serde_json::to_value(&document).ok()?;
    Some(Detail { format: FORMAT.to_owned(), document })
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::study;
    use serde_json::json;

    /// The `duration` of other workloads was called so; this one's never was.
    #[test]
    fn what_others_called_so_is_an_unknown_key() {
        let head = "[study]\ntitle = \"t\"\n[workload]\nkind = \"load\"\nurl = \"http://127.0.0.1:8080/\"\n";
        let read = |line: &str| {
            let study = study::parse("a.toml", format!("{head}{line}\n").as_bytes(), &[&DESCRIPTOR]);
            study.map(|study| study.renamed).map_err(|problems| problems.to_string())
        };
        assert_eq!(read("duration = \"5 s\""), Ok(Vec::new()));
        for section in ["workload", "factors"] {
            let line = if section == "factors" { "[factors]\ntime = [\"5 s\"]" } else { "time = \"5 s\"" };
            let told = read(line).expect_err("refused");
            assert!(told.contains("unknown") && told.contains("'time'"), "{told}");
        }
    }

    /// A server that has stopped answering leaves percentiles of the time before, and no failure.
    #[test]
    fn operations_without_an_end_are_told() {
        let flags = |drive: Drive, counts: Counts| {
            let load =
                Load::new(Scenario::of_url("http://127.0.0.1/").expect("a URL"), drive, Stop::After(Nanos(1 << 30)));
            let mut part = Part::new(&load.scenario.operation_names());
            (part.elapsed_ns, part.counts) = (1 << 30, counts);
            (0..10).for_each(|_| part.operations[0].raw.record(1_000_000));
            reported(Document::new(&load, &part), &part, 0).flags
        };
        let open = || Drive::Open { arrival: Arrival::Constant, profile: Profile::steady(100.0) };
        assert_eq!(flags(open(), Counts::default()), [""; 0]);
        assert_eq!(
            flags(open(), Counts { unsent: 70, unfinished: 4, ..Counts::default() }),
            [
                "70 operations were not started: the connections were all busy",
                "4 operations had not ended when the load did; the percentiles do not include them"
            ]
        );
        assert_eq!(flags(Drive::Closed, Counts { unsent: 70, ..Counts::default() }), [""; 0]);
        // In 2^30 ns.
        let of = |ended| flags(open(), Counts { intended: 1000, ended, ..Counts::default() });
        assert_eq!(
            (of(920), of(960)),
            (vec!["throughput 857 of the requested 931 operations/s".to_owned()], Vec::new())
        );
    }

    /// The percentiles of one trial left out loops that wait for events, and those of several had them.
    #[test]
    fn loops_alongside_users_are_in_no_distribution_of_all_operations() {
        let mut part = Part::new(&["read".to_owned(), "next-event".to_owned()]);
        (0..100).for_each(|_| part.operations[0].raw.record(1_000_000));
        (0..100).for_each(|_| part.operations[1].raw.record(20_000_000_000));
        let of_all =
            |part: &Part| points(part, 0).into_iter().filter(|point| point.distributions == [LATENCIES]).count();
        assert_eq!(of_all(&part), 2, "a closed loop has no intended starts");
        (0..100).for_each(|_| part.operations[0].corrected.record(2_000_000));
        assert_eq!(of_all(&part), 1);
    }

    #[test]
    fn operations_within_their_limit_are_weighted_by_how_many_ended() {
        let row = |succeeded: u64, failed: u64, limit_ns: Option<u64>, share: Option<f64>| -> OperationRow {
            let row = json!({ "name": "x", "succeeded": succeeded, "failed": failed, "limit_ns": limit_ns,
                "within_limit_share": share, "failures": {} });
            serde_json::from_value(row).expect("an operation")
        };
        let (often, seldom) = (row(890, 10, Some(5), Some(0.9)), row(99, 1, Some(7), Some(0.1)));
        let without = row(1_000_000, 0, None, None);
        assert_eq!(within_limit(&[often, seldom, without.clone()]), Some(0.82));
        assert_eq!(within_limit(&[without, row(0, 0, Some(5), None)]), None);
    }
}
