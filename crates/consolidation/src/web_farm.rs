//! `web-farm`: the most one-CPU web servers on this machine, by latency and by CPU use, in one search.
//!
//! Every server gets an open load of the same rate, one request being a page of 100 KB. The number of servers is what is searched: first
//! the most with a CPU use within its limit, then, around that number, the most whose 95th percentile of latency is within its own. Every window
//! reads both, so that together they are the curves of latency and CPU use against the number of servers.
//!
//! CPU use grows about as the number of servers does, so that a few short windows say where its limit will be reached; the search begins there, with
//! full windows alone near the limit. Servers that run stay for the second search.
//!
//! A number of servers is an answer only where it was loaded and kept its limits: of those the highest that the search's interval holds. Rates are
//! those that were measured at it. Where even `most` servers keep the limits there is no answer, but a lower bound.
//!
//! After the web-farm study of dense consolidation (1-vCPU guests, 25 and 50 requests/s each). CPU use is the servers' own processor time over
//! that of their CPUs: other programs on these, and the kernel's work between servers and generator, are not in it. The generator has CPUs of its own
//! where the arm has two ranks.

use crate::content::PAGE_BYTES;
use crate::farm::{Layout, Program, nginx};
use crate::subject::{CPU, DENSE, Subject, servers};
use baremark_journal::{Journal, JournalError};
use baremark_lab::search::{Expected, Probe, Search, SearchError, Step, SubjectError, UnderLoad};
use baremark_model::arm::ResolvedArm;
use baremark_model::command::{RAMP_DOWN, TIMEOUT};
use baremark_model::descriptor::Descriptor;
use baremark_model::hdr;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob, Update};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::maximum::{Basis, Document, Ended, KneeRow, Maximum, Plan, Said, Window};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::order;
use baremark_model::parameters::Parameters;
use baremark_model::qos::{Bound, Limit, Qos, Reading};
use baremark_model::seam::Sample;
use baremark_model::units::{Nanos, SECOND, Share};
use baremark_model::wire::{Detail, Point};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Servers of the first of the short windows that look for the limit of CPU use.
const FIRST: f64 = 8.0;
/// Each of them has at most so many times the servers of the one before.
const GROWTH: f64 = 4.0;
/// They end where CPU use is this share of its limit, or more, and are this share of a window long.
const NEAR: f64 = 0.6;
const SHORT: f64 = 0.4;
/// The next is aimed somewhat below the limit: overload lasts.
const BELOW: f64 = 0.9;
/// With fewer, something else is wrong.
const FIRST_WINDOWS: usize = 8;
/// The share of pages that may take longer than the limit: p95.
const BEYOND: f64 = 0.05;
/// The share of pages that may fail.
const FAILURES: f64 = 0.01;
/// The step at which the search ends, as a share of the level.
const FINEST: f64 = 0.04;

static PARAMETERS: [Knob; 17] = [
    Knob::new("server", Kind::Choice(&["static", "nginx"]), Default::Typed("static"))
        .help("web server: this program's own, from memory, or nginx with one process"),
    Knob::new("container", Kind::Switch, Default::Typed("false"))
        .help("each server in a container of podman, in its own network namespace; static servers only"),
    Knob::new("servers", Kind::Count { min: 1, max: 1000 }, Default::Derived("searched"))
        .help("load so many servers for `window` after `settle`, instead of a search"),
    Knob::new("rate", Kind::Count { min: 1, max: 10_000 }, Default::Typed("25"))
        .help("requests per second to each server"),
    Knob::new("most", Kind::Count { min: 2, max: 1000 }, Default::Typed("512")).help("most servers that are started"),
    Knob::new("limit", Kind::Time { min: 1_000_000, max: 60 * SECOND }, Default::Typed("100 ms")).help(
        "limit of the 95th percentile of latency, from the intended start of a request to the last byte of \
         its page",
    ),
    Knob::new("cpu_limit", Kind::Percent { min: 0.05, max: 0.99 }, Default::Typed("90 %"))
        .help("limit of the CPU use: the servers' own CPU time over that of their CPUs"),
    Knob::new("quota", Kind::Percent { min: 0.01, max: 1.0 }, Default::Typed("100 %"))
        .help("share of one CPU that each server may use, by its control group"),
    Knob::new("link_mbit", Kind::Count { min: 0, max: 1_000_000 }, Default::Typed("0"))
        .help("limit of the rate of each server's link in both directions, in Mbit/s; 0 is none"),
    Knob::new("window", Kind::Time { min: SECOND / 10, max: 600 * SECOND }, Default::Typed("2 s"))
        .help("length of a probe"),
    Knob::new("settle", Kind::Time { min: 0, max: 600 * SECOND }, Default::Typed("500 ms"))
        .help("settling time after each change of the number of servers"),
    Knob::new(RAMP_DOWN, Kind::Time { min: 0, max: 600 * SECOND }, Default::Typed("0 s"))
        .help("with `servers`: time under load after the window, not measured"),
    Knob::new("visits", Kind::Count { min: 6, max: 1000 }, Default::Typed("8")).help("probes at the final step size"),
    Knob::new("search_time", Kind::Time { min: 5 * SECOND, max: 24 * 3600 * SECOND }, Default::Typed("2 min"))
        .help("longest search for each of the two limits; what is known by then is the result"),
    Knob::new("dense", Kind::Switch, Default::Typed("false")).help(
        "dense mode: while there are as many servers as CPUs, their quotas are twice the CPUs, and half of \
         the CPUs is used, the host's ends of their links defer interrupts (GRO, gro_flush_timeout, \
         napi_defer_hard_irqs; no TSO at the servers' ends); conditions and settings are checked after every \
         window, and one in which they changed is measured again",
    ),
    Knob::new("defer", Kind::Time { min: 1000, max: SECOND / 10 }, Default::Typed("200 us"))
        .help("longest time that packets wait for others in dense mode"),
    TIMEOUT,
];

static METRICS: [Metric; 10] = [
    Metric::higher("servers_by_latency", "servers", Aggregate::Sum)
        .help("most servers that were seen to have a 95th percentile of latency within `limit`"),
    Metric::higher("servers_by_cpu", "servers", Aggregate::Sum)
        .help("most servers that were seen to have a CPU use within `cpu_limit`"),
    Metric::higher("requests_per_s", "requests/s", Aggregate::Sum)
        .help("pages per second with `servers`; of a search as measured at the smaller of both numbers"),
    Metric::higher("mb_per_s", "MB/s", Aggregate::Sum).help("10^6 bytes of pages per second at that number"),
    Metric::higher("dense_share", "%", Aggregate::Mean).help("windows in dense mode, of those that were measured"),
    Metric::lower("latency_p50_ms", "ms", Aggregate::Most).help("median of latency with `servers`"),
    Metric::lower("latency_p95_ms", "ms", Aggregate::Most).help("95th percentile of latency with `servers`"),
    Metric::lower("cpu", "%", Aggregate::Mean).help("CPU time of the servers over that of their CPUs, with `servers`"),
    Metric::lower("failed", "%", Aggregate::Mean).help("pages that failed, with `servers`"),
    Metric::lower("generator_share", "%", Aggregate::Most)
        .help("CPU use of the busiest thread of the generator in any probe; near 100 % it is the limit"),
];

/// What the workload is.
pub static DESCRIPTOR: Descriptor = Descriptor {
    kind: "web-farm",
    help: "the most one-CPU web servers, each in a network namespace with a CPU quota, by latency and by CPU use; ranks = 2 gives the generator a CPU of its own",
    source: "after the web-farm study of dense consolidation (VMware, 2014)",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    quick: &[("window", "700 ms"), ("settle", "300 ms"), ("visits", "6"), ("search_time", "15 s")],
    check: |arm| Settings::of(arm).map(drop),
    stops_on_interrupt: true,
    ..Descriptor::JOB
};

/// The workload `web-farm`.
#[derive(Clone, Copy)]
pub struct WebFarm {
    /// Opens the journal of changes to this host: bridge, links and control groups are recorded in it.
    pub journal: fn() -> Result<Journal, JournalError>,
    /// The options with which podman starts containers here, or what is missing.
    pub container: fn() -> Result<Vec<String>, String>,
}

#[derive(Clone, Debug)]
struct Settings {
    nginx: bool,
    container: bool,
    rate: u64,
    /// How many are loaded where none are searched.
    servers: Option<u32>,
    most: u32,
    limit: Nanos,
    cpu_limit: f64,
    quota: f64,
    /// Bits per second of each server's link, where they are limited.
    link: Option<u64>,
    /// How long packets wait in dense mode; `None` without it.
    dense: Option<Duration>,
    plan: Plan,
    search_time: Duration,
    ramp_down: Duration,
}

impl Settings {
    fn of(arm: &ResolvedArm) -> Result<Settings, InvalidValue> {
        let of = Parameters::of(arm, &PARAMETERS);
        let most: u32 = of.get("most")?;
        let search_time: Duration = of.get("search_time")?;
        let timeout: Duration = of.get(TIMEOUT.key)?;
        if 2 * search_time >= timeout {
            let what = format!(
                "two searches of {} s do not end within the timeout of {} s",
                search_time.as_secs(),
                timeout.as_secs()
            );
            return Err(InvalidValue::new(what, "write a shorter search_time, or a longer timeout"));
        }
        let seconds = |key| Ok::<f64, InvalidValue>(of.get::<Duration>(key)?.as_secs_f64());
        let mut plan = Plan::between(1.0, f64::from(most));
        (plan.finest, plan.trials, plan.confirming) = (FINEST, 1, 0);
        (plan.window_s, plan.settle_s) = (seconds("window")?, seconds("settle")?);
        plan.visits = of.get("visits")?;
        let (Share(cpu_limit), Share(quota)) = (of.get("cpu_limit")?, of.get("quota")?);
        let (nginx, container) = (of.is("server", "nginx")?, of.get("container")?);
        if nginx && container {
            return Err(InvalidValue::new("container = true and server = \"nginx\"", "write server = \"static\""));
        }
        Ok(Settings {
            nginx,
            container,
            rate: of.get("rate")?,
            servers: of.find("servers")?,
            most,
            limit: of.get("limit")?,
            cpu_limit,
            quota,
            link: Some(1_000_000 * of.get::<u64>("link_mbit")?).filter(|rate| *rate > 0),
            dense: if of.get("dense")? { Some(of.get("defer")?) } else { None },
            plan,
            search_time,
            ramp_down: of.get(RAMP_DOWN)?,
        })
    }
}

/// What the most servers must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Criterion {
    Cpu,
    Latency,
}

impl Criterion {
    fn qos(self, settings: &Settings) -> Qos {
        let limit = |bound| Limit { operation: None, bound };
        let limits = match self {
            Criterion::Cpu => limit(Bound::Utilization { resource: Some(CPU.to_owned()), most: settings.cpu_limit }),
            Criterion::Latency => limit(Bound::Latency { beyond: BEYOND, within: settings.limit }),
        };
        // Servers that do not answer use no CPU.
        let limits = vec![limits, limit(Bound::Failures { most: FAILURES })];
        Qos { limits, ..Qos::default() }
    }

    fn metric(self) -> &'static str {
        match self {
            Criterion::Cpu => "servers_by_cpu",
            Criterion::Latency => "servers_by_latency",
        }
    }

    fn words(self, settings: &Settings) -> String {
        match self {
            Criterion::Cpu => format!("CPU use up to {}", Share(settings.cpu_limit)),
            Criterion::Latency => format!("p95 up to {}", settings.limit),
        }
    }
}

/// What is stored while a search goes on: where it began, and its windows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Window { criterion: Criterion, probe: Box<Probe> },
    Expected { around: f64 },
}

impl Job for WebFarm {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let settings = Settings::of(arm)?;
        let program = match settings.nginx.then(nginx) {
            None => Program::Static,
            Some(Some(nginx)) => Program::Nginx(nginx),
            Some(None) => {
                let remedy = "install nginx, or write server = \"static\"".to_owned();
                return Err(JobError::Missing { what: "there is no nginx here".to_owned(), remedy });
            }
        };
        let container = settings.container.then(self.container).transpose().map_err(|what| {
            let remedy = "install podman and a runtime, or write container = false".to_owned();
            JobError::Missing { what, remedy }
        })?;
        let journal = (self.journal)().map_err(JobError::failed)?;
        let own =
            around.keeper.canonicalize().map_err(|why| JobError::failed(format!("finding this program: {why}")))?;
        let (cpus, generator) = divided(around.cpus);
        let most = settings.servers.unwrap_or(settings.most);
        let (quota, link) = (settings.quota, settings.link);
        let layout = Layout { program, own, most, quota, link, cpus, container };
        Ok(Box::new(PreparedFarm {
            settings,
            journal,
            layout,
            generator,
            seed: around.seed,
            interrupt: Arc::clone(around.interrupt),
        }))
    }
}

/// The CPUs of the servers and those of the generator: the last is its own where there are several.
fn divided(cpus: &[usize]) -> (Vec<usize>, Vec<usize>) {
    match cpus {
        [servers @ .., own] if !servers.is_empty() => (servers.to_vec(), vec![*own]),
        all => (all.to_vec(), all.to_vec()),
    }
}

struct PreparedFarm {
    settings: Settings,
    journal: Journal,
    layout: Layout,
    generator: Vec<usize>,
    seed: u64,
    interrupt: Arc<AtomicBool>,
}

fn nanos(seconds: f64) -> Nanos {
    Nanos(u64::try_from(Duration::from_secs_f64(seconds).as_nanos()).unwrap_or(u64::MAX))
}

/// A farm that could not be built.
fn missing(what: String) -> JobError {
    let remedy = "web farms need root, or CAP_NET_ADMIN and CAP_SYS_ADMIN, for network namespaces".to_owned();
    JobError::Missing { what, remedy }
}

/// What a search of one limit found.
struct Found {
    criterion: Criterion,
    document: Document,
}

impl PreparedFarm {
    fn measured(&self, stored: &[Stored], store: &mut dyn FnMut(&Stored)) -> Result<JobRun, JobError> {
        if let Some(servers) = self.settings.servers {
            return self.fixed(servers);
        }
        let mut subject = self.subject();
        let mut all: Vec<Found> = Vec::new();
        let mut flags = Vec::new();
        let known =
            stored.iter().find_map(|one| if let Stored::Expected { around } = one { Some(*around) } else { None });
        let expected = match known {
            Some(around) => around,
            None => {
                let around = self.expected(&mut subject)?;
                store(&Stored::Expected { around });
                around
            }
        };
        for criterion in [Criterion::Cpu, Criterion::Latency] {
            let found = all.first().and_then(|found: &Found| found.document.maximum).map(|maximum| maximum.level);
            let (document, broken) =
                self.searched(criterion, found.unwrap_or(expected), &mut subject, stored, store)?;
            if self.interrupt.load(Ordering::Acquire) || document.ended == Ended::Interrupted {
                return Err(JobError::Interrupted);
            }
            if let Some(why) = broken {
                return Err(JobError::failed(why));
            }
            all.push(Found { criterion, document });
        }
        if subject.has_quota() == Some(false) {
            flags.push(
                "servers had no CPU quota: this machine has no control groups with the controller cpu".to_owned(),
            );
        }
        if self.layout.cpus == self.generator {
            flags.push("the generator shared the CPUs of the servers; ranks = 2 gives it its own".to_owned());
        }
        let mut run = self.reported(&all, flags);
        if let Some(share) = subject.dense_share() {
            run.samples.push(Sample::new("dense_share", 100.0 * share));
        }
        Ok(run)
    }

    fn subject(&self) -> Subject {
        let (layout, generator) = (self.layout.clone(), (self.generator.clone(), self.seed));
        let (rate, dense) = (self.settings.rate as f64, self.settings.dense);
        Subject::new(self.journal.clone(), layout, rate, generator, dense, Arc::clone(&self.interrupt))
    }

    /// About how many servers reach the limit of CPU use, from short windows.
    fn expected(&self, subject: &mut Subject) -> Result<f64, JobError> {
        let (plan, qos) = (&self.settings.plan, Criterion::Cpu.qos(&self.settings));
        subject.start(0).map_err(|why| missing(why.to_string()))?;
        let mut level = FIRST.clamp(plan.lowest, plan.highest);
        for _ in 0..FIRST_WINDOWS {
            let mut read = || -> Result<Reading, SubjectError> {
                subject.set(level, nanos(plan.settle_s))?;
                subject.read(&qos, nanos(SHORT * plan.window_s))
            };
            let reading = read().map_err(JobError::failed)?;
            if self.interrupt.load(Ordering::Acquire) {
                return Err(JobError::Interrupted);
            }
            let used = reading.utilization.get(CPU).copied().unwrap_or(0.0);
            let reached = level * self.settings.cpu_limit / used.max(1e-3);
            if used >= NEAR * self.settings.cpu_limit || level >= plan.highest || reading.generator_limit.is_some() {
                return Ok(reached.clamp(plan.lowest, plan.highest));
            }
            level = (BELOW * reached).min(GROWTH * level).clamp(plan.lowest, plan.highest);
        }
        Ok(level)
    }

    /// One window with a number of servers.
    fn fixed(&self, servers: u32) -> Result<JobRun, JobError> {
        let mut subject = self.subject();
        let qos = Criterion::Latency.qos(&self.settings);
        let plan = &self.settings.plan;
        subject.start(0).map_err(|why| missing(why.to_string()))?;
        let mut read = || -> Result<Reading, SubjectError> {
            subject.set(f64::from(servers), nanos(plan.settle_s))?;
            subject.read(&qos, nanos(plan.window_s))
        };
        let reading = read().map_err(JobError::failed)?;
        subject.stay(self.settings.ramp_down);
        if self.interrupt.load(Ordering::Acquire) {
            return Err(JobError::Interrupted);
        }
        let asked = reading.asked_per_s * reading.elapsed_s;
        if asked <= 0.0 {
            return Err(JobError::failed("no request was due in the window; write a longer window, or a higher rate"));
        }
        let mut values = vec![
            ("requests_per_s", reading.achieved_per_s),
            ("mb_per_s", reading.achieved_per_s * PAGE_BYTES as f64 / 1e6),
            ("failed", 100.0 * reading.failed as f64 / reading.all.max(1) as f64),
        ];
        values.extend(reading.p50_ns.map(|ns| ("latency_p50_ms", ns as f64 / 1e6)));
        values.extend(reading.p95_ns.map(|ns| ("latency_p95_ms", ns as f64 / 1e6)));
        values.extend(reading.utilization.get(CPU).map(|share| ("cpu", 100.0 * share)));
        values.extend(reading.generator_cpu_share.map(|share| ("generator_share", 100.0 * share)));
        values.extend(subject.dense_share().map(|share| ("dense_share", 100.0 * share)));
        let latencies = hdr::encoded(&reading.latencies);
        let window = (nanos(plan.settle_s).0, nanos(plan.settle_s + reading.elapsed_s).0);
        Ok(JobRun {
            samples: values.into_iter().map(|(metric, value)| Sample::new(metric, value)).collect(),
            checked: format!("every server sent its files whole before it was loaded; {} pages failed", reading.failed),
            points: vec![Point::new("all", window, Vec::new(), latencies).of(&["latency_ms"])],
            flags: reading.generator_limit.into_iter().collect(),
            ..JobRun::default()
        })
    }

    fn searched(
        &self,
        criterion: Criterion,
        around: f64,
        subject: &mut Subject,
        stored: &[Stored],
        store: &mut dyn FnMut(&Stored),
    ) -> Result<(Document, Option<String>), JobError> {
        let qos = criterion.qos(&self.settings);
        let own = |one: &Stored| match one {
            Stored::Window { criterion: of, probe } if *of == criterion => Some(Probe::clone(probe)),
            _ => None,
        };
        let mut watch = |step: &Step| {
            if let Step::Window { trial, level, reading, stored: false, .. } = step {
                store(&Stored::Window { criterion, probe: Box::new(Probe::new(*trial, *level, reading)) });
            }
        };
        let mut search = Search {
            title: criterion.metric(),
            factor: "servers",
            qos: &qos,
            plan: self.settings.plan,
            interrupt: &self.interrupt,
            deadline: Some(Instant::now() + self.settings.search_time),
            around: Some(Expected::Near(around)),
            stored: stored.iter().filter_map(own).collect(),
            watch: &mut watch,
        };
        search.run(subject).map_err(|why| match why {
            SearchError::Start(what) => missing(what),
            other => JobError::failed(other),
        })
    }

    fn reported(&self, all: &[Found], mut flags: Vec<String>) -> JobRun {
        let mut samples = Vec::new();
        let mut add = |metric: &str, value: f64| samples.push(Sample::new(metric, value));
        let mut results = Vec::new();
        let answers: Vec<Most> = all.iter().map(|found| result(&found.document)).collect();
        for (Found { criterion, .. }, result) in all.iter().zip(&answers) {
            if let Some(passed) = result.passed.as_ref().filter(|_| !result.ceiling) {
                add(criterion.metric(), passed.servers as f64);
            }
            let words = format!("{}: {}", criterion.words(&self.settings), result.words(self.settings.rate));
            flags.extend(result.least.then(|| format!("a lower bound: {words}")));
            flags.extend(result.passed.is_none().then(|| format!("no number of servers: {words}")));
            flags.extend(result.doubt.as_ref().map(|doubt| format!("{}: {doubt}", criterion.words(&self.settings))));
            results.push(words);
        }
        for (metric, value) in rates(&answers).into_iter().flatten() {
            add(metric, value);
        }
        let windows = || all.iter().flat_map(|found| &found.document.trials).flat_map(|trial| &trial.windows);
        if let Some(busiest) = windows().filter_map(|window| window.reading.generator_cpu_share).reduce(f64::max) {
            add("generator_share", 100.0 * busiest);
        }
        let pages: f64 = windows().map(|window| window.reading.achieved_per_s * window.reading.elapsed_s).sum();
        let server = if self.settings.nginx { "nginx" } else { "static" };
        JobRun {
            samples,
            checked: format!("every server sent its files whole before it was loaded; {pages:.0} pages answered"),
            flags,
            detail: Some(Detail {
                format: "baremark-web-farm/1".to_owned(),
                document: json!({
                    "server": server, "rate": self.settings.rate, "results": results, "levels": levels(all, self.settings.rate),
                    "searches": all.iter().map(|found| json!({ "limit": found.criterion, "search": found.document })).collect::<Vec<_>>(),
                }),
            }),
            ..JobRun::default()
        }
    }
}

/// Servers that were loaded and kept the limits.
#[derive(Clone, Debug, PartialEq)]
struct Passed {
    servers: usize,
    /// Pages per second that were measured with them.
    achieved_per_s: f64,
}

/// The most servers.
struct Most {
    /// The most that kept the limits, as far as the search knows.
    passed: Option<Passed>,
    /// Whether more may be possible.
    least: bool,
    /// Whether no more were tried: then it is no answer.
    ceiling: bool,
    /// How the search ended, and what it knows of the limit's place.
    how: String,
    /// What contradicts it.
    doubt: Option<String>,
}

impl Most {
    fn words(&self, rate: u64) -> String {
        let Some(passed) = &self.passed else { return self.how.clone() };
        let count = passed.servers;
        let unit = if count == 1 { "server" } else { "servers" };
        format!(
            "{}{count} {unit} with {:.0} of {} requests/s answered; {}",
            if self.least { "at least " } else { "" },
            passed.achieved_per_s,
            count as u64 * rate,
            self.how
        )
    }
}

/// What was measured with the smaller of the numbers, which is an answer where the search has not ended at its ceiling.
fn rates(answers: &[Most]) -> Option<[(&'static str, f64); 2]> {
    let passed = answers.iter().filter_map(|answer| Some((answer.passed.as_ref()?, answer.ceiling)));
    let (smaller, _) = passed.min_by_key(|(passed, _)| passed.servers).filter(|(_, ceiling)| !ceiling)?;
    let mb_per_s = smaller.achieved_per_s * PAGE_BYTES as f64 / 1e6;
    Some([("requests_per_s", smaller.achieved_per_s), ("mb_per_s", mb_per_s)])
}

/// What all windows of one number of servers show together.
struct Tried {
    keeps: bool,
    achieved_per_s: f64,
}

/// What was measured, by number of servers; windows without samples enough for a limit are left out.
fn tried(document: &Document) -> BTreeMap<usize, Tried> {
    let mut by_servers: BTreeMap<usize, Vec<&Window>> = BTreeMap::new();
    let windows = document.trials.iter().flat_map(|trial| &trial.windows);
    for window in windows.filter(|window| window.said != Said::Insufficient) {
        by_servers.entry(servers(window.level)).or_default().push(window);
    }
    let of = |(count, windows): (usize, Vec<&Window>)| {
        let seconds: f64 = windows.iter().map(|window| window.reading.elapsed_s).sum();
        let answered: f64 = windows.iter().map(|window| window.reading.achieved_per_s * window.reading.elapsed_s).sum();
        (count, Tried { keeps: keep(&windows, &document.qos), achieved_per_s: answered / seconds.max(1e-9) })
    };
    by_servers.into_iter().map(of).collect()
}

/// Whether windows keep every limit together: the share of all their pages, and the mean of their CPU use. One of the generator's is not kept.
fn keep(windows: &[&Window], qos: &Qos) -> bool {
    let kept = |(at, limit): (usize, &Limit)| match (&limit.bound, limit.allowed()) {
        (_, Some(allowed)) => {
            let counts = windows.iter().filter_map(|window| *window.reading.broken.get(at)?);
            let (bad, all) = counts.fold((0, 0), |(bad, all), one| (bad + one.bad, all + one.all));
            bad as f64 <= allowed * all as f64
        }
        (Bound::Utilization { most, .. }, None) => {
            let shares = || windows.iter().filter_map(|window| window.reading.utilization.get(CPU));
            shares().sum::<f64>() <= most * shares().count() as f64
        }
        _ => true,
    };
    let generator = windows.iter().any(|window| window.reading.generator_limit.is_some());
    !generator && qos.limits.iter().enumerate().all(kept)
}

/// The most servers of a search: the highest number that kept the limits, not beyond where the search found the limit to be.
fn result(document: &Document) -> Most {
    let all = tried(document);
    let ceiling = document.maximum.map_or(f64::INFINITY, |maximum| maximum.high.unwrap_or(maximum.level).max(1.0));
    let kept = |(count, one): &(&usize, &Tried)| one.keeps && **count as f64 <= ceiling;
    let passed = all.iter().rfind(kept);
    let passed = passed.map(|(&servers, one)| Passed { servers, achieved_per_s: one.achieved_per_s });
    let below = |count: &usize| passed.as_ref().is_some_and(|passed| *count < passed.servers);
    let failed = all.iter().rfind(|(count, one)| below(count) && !one.keeps).map(|(count, _)| count);
    let doubt = passed.as_ref().zip(failed).map(|(passed, failed)| {
        format!("{failed} servers exceeded the limit, and {} kept it; more blocks tell", passed.servers)
    });
    let generator = document.generator_was_the_limit;
    let ceiling = document.ended == Ended::PassesAll;
    let least = passed.is_some() && (generator || !matches!(document.ended, Ended::Found | Ended::FailsAll));
    Most { least, ceiling, how: how(document, passed.is_some()), doubt, passed }
}

/// How a search ended.
fn how(document: &Document, passed: bool) -> String {
    let reason = if document.generator_was_the_limit { " (the load generator was the limit)" } else { "" };
    match (document.ended, document.maximum) {
        (Ended::PassesAll, _) => "ceiling reached: no more are started (most)".to_owned(),
        (Ended::FailsAll, _) => "one server exceeds the limit".to_owned(),
        (Ended::Found, Some(maximum)) => format!("{}{reason}", place(&maximum)),
        (Ended::TimeOver, Some(maximum)) => {
            format!("the search was not over in its time (search_time): {}{reason}", place(&maximum))
        }
        (Ended::TimeOver, None) if passed => "the search was not over in its time (search_time)".to_owned(),
        (Ended::Insufficient, _) => "the windows of the search do not decide".to_owned(),
        _ => "nothing was found in the time of the search (search_time)".to_owned(),
    }
}

/// Where the limit is reached.
fn place(maximum: &Maximum) -> String {
    let interval = match (maximum.low, maximum.high) {
        (Some(low), Some(high)) => {
            let basis = match maximum.basis {
                Basis::Bracket => "from levels within the limit to levels beyond it".to_owned(),
                _ => format!("{} interval within this search", Share(maximum.confidence)),
            };
            format!(", {:.0} to {high:.0} ({basis})", low.max(0.0))
        }
        _ => ", without an interval".to_owned(),
    };
    format!("the limit is at {:.0}{interval}", maximum.level)
}

/// Latency and CPU use against the number of servers, of both searches, by number.
fn levels(all: &[Found], rate: u64) -> Vec<Value> {
    let of = |found: &Found| found.document.knee.iter().map(|row| (found.criterion, row.clone())).collect::<Vec<_>>();
    let mut rows: Vec<(Criterion, KneeRow)> = all.iter().flat_map(of).collect();
    order::by(&mut rows, |left, right| left.1.level.total_cmp(&right.1.level));
    let row = |(criterion, row): &(Criterion, KneeRow)| {
        json!({
            "servers": servers(row.level), "limit": criterion, "windows": row.windows, "verdict": row.verdict,
            "requested_per_s": servers(row.level) as f64 * rate as f64, "requests_per_s": row.achieved_per_s, "failed_share": row.failed_share, "p50_ns": row.p50_ns, "p95_ns": row.p95_ns,
            "cpu_share": row.utilization.get(CPU), "dense_share": row.utilization.get(DENSE), "generator_share": row.generator_cpu_share,
        })
    };
    rows.iter().map(row).collect()
}

impl ReadyJob for PreparedFarm {
    fn run(&mut self) -> Result<JobRun, JobError> {
        self.resume(&[], &mut |_| ())
    }

    fn resume(&mut self, stored: &[Value], report: &mut dyn FnMut(Update)) -> Result<JobRun, JobError> {
        let stored: Vec<Stored> = stored.iter().filter_map(|row| Stored::deserialize(row).ok()).collect();
        let measured = self.measured(&stored, &mut |one| {
            if let Ok(row) = serde_json::to_value(one) {
                report(Update::Part(row));
            }
        });
        if self.interrupt.load(Ordering::Acquire) { Err(JobError::Interrupted) } else { measured }
    }
}

#[cfg(test)]
mod tests;
