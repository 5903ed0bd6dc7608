//! `baremark load`: requests to a server, by connections, a rate or users, and what became of them.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch;
use baremark_load::arrival::Arrival;
use baremark_load::document::{Document, Ended, Verdict};
use baremark_load::latency::Summary;
use baremark_load::load::{Drive, Engine, Load, Pin, Pool, Progress, Stop};
use baremark_load::profile::{After, Profile};
use baremark_load::scenario::{Cycle, Scenario, file};
use baremark_load::transport::Trust;
use baremark_model::units::Nanos;
use clap::{Args, ValueEnum};
use std::fmt::Write as _;
use std::fs;
use std::io::{IsTerminal, Write as _, stderr};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the command line asks for.
#[derive(Args)]
pub struct LoadArgs {
    /// Where to, such as `http://127.0.0.1:8080/`; with a scenario, the server that stands for its base
    #[arg(required_unless_present = "scenario")]
    url: Option<String>,
    /// What users do, as a scenario file
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Open loop: starts per second, whatever the server does; a number or a profile such as 'ramp from=0 to=2000 over=30s'
    #[arg(long, value_name = "PROFILE", conflicts_with = "users")]
    rate: Option<Profile>,
    /// Closed loop of users who keep the scenario's cycle; a number or a profile
    #[arg(long, value_name = "PROFILE")]
    users: Option<Profile>,
    /// How the gaps of an open loop are made
    #[arg(long, value_enum, default_value = "constant")]
    arrival: Gaps,
    /// Open loop with the gaps of a recording: a file with a time in seconds on each line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["users", "arrival"])]
    replay: Option<PathBuf>,
    /// Take the profile of the rate from a file with seconds,level on each line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "users"])]
    trace: Option<PathBuf>,
    /// When the trace ends, it starts over
    #[arg(long, requires = "trace")]
    repeat: bool,
    /// Connections: so many without --rate or --users, at most so many with them [default: 64, or as many as are needed]
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// Users share connections instead of keeping one each
    #[arg(long)]
    shared: bool,
    /// Event loops, each on a CPU of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// The CPUs for them, such as 2,3 [default: those that this process may use]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// For how long
    #[arg(long, value_name = "TIME", default_value = "10 s", conflicts_with = "count")]
    duration: Nanos,
    /// Until so many operations
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// After this a request has failed
    #[arg(long, value_name = "TIME", default_value = "10 s")]
    timeout: Nanos,
    /// From the intended start of a user's operation to that of the next, whatever the scenario says
    #[arg(long, value_name = "TIME")]
    cycle: Option<Nanos>,
    /// Everything that is drawn follows from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A header for every request, such as 'accept: text/html'
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Trust the authorities in this PEM file
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Check no certificate
    #[arg(long)]
    insecure: bool,
    /// An address to come from; several are used in turn
    #[arg(long, value_name = "ADDRESS")]
    source: Vec<IpAddr>,
}

/// The arrival processes that need no file.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Gaps {
    /// Equal gaps
    Constant,
    /// Exponential gaps, as many independent clients make them
    Poisson,
}

/// Runs the load and says what became of it.
pub fn run(context: &Context, args: LoadArgs) -> Result<(String, Exit), Refusal> {
    let load = resolve(args)?;
    let engine = Engine::new(load, Arc::clone(&context.interrupt)).map_err(told)?;
    let live = stderr().is_terminal();
    let quiet = context.json && !live;
    let part = engine
        .run(&mut |second| {
            if !quiet {
                show(second, live);
            }
        })
        .map_err(told)?;
    if live {
        drop(write!(stderr(), "\r\x1b[K"));
    }
    let document = Document::new(engine.load(), &part);
    let exit = match document.ended {
        Ended::Interrupted => Exit::Interrupted,
        // Not one answer: nobody has been measured.
        Ended::Complete if document.counts.answered == 0 => Exit::Failure,
        Ended::Complete => Exit::Success,
    };
    if context.json {
        let text =
            serde_json::to_string_pretty(&document).map_err(|why| Refusal::failure(format!("writing JSON: {why}")))?;
        return Ok((text + "\n", exit));
    }
    Ok((describe(&document, watch::style().unicode), exit))
}

/// The error with what caused it.
fn told(why: impl std::error::Error) -> Refusal {
    let mut message = why.to_string();
    let mut source = why.source();
    while let Some(cause) = source {
        let _ = write!(message, ": {cause}");
        source = cause.source();
    }
    Refusal::bad_input(message)
}

fn read(path: &Path) -> Result<String, Refusal> {
    fs::read_to_string(path).map_err(|why| Refusal::bad_input(format!("reading {}: {why}", path.display())))
}

fn resolve(args: LoadArgs) -> Result<Load, Refusal> {
    let mut scenario = match (&args.scenario, &args.url) {
        (Some(path), url) => {
            let bytes =
                fs::read(path).map_err(|why| Refusal::bad_input(format!("reading {}: {why}", path.display())))?;
            let folder = path.parent().unwrap_or(Path::new("."));
            file::parse(&path.display().to_string(), &bytes, url.as_deref(), folder).map_err(told)?
        }
        (None, Some(url)) => Scenario::of_url(url).map_err(told)?,
        (None, None) => return Err(Refusal::bad_input("name a URL or a scenario (--scenario FILE)")),
    };
    for header in &args.header {
        let sound = |part: &str| !part.contains(['\r', '\n']);
        let Some((name, value)) = header.split_once(':').filter(|(name, _)| !name.is_empty() && sound(header)) else {
            return Err(Refusal::bad_input(format!("'{header}' is no header; write such as 'accept: text/html'")));
        };
        scenario.add_header(name.trim(), value.trim());
    }
    if let Some(mean) = args.cycle {
        scenario.set_cycle(Some(Cycle { mean, deviation: 0.25, most: 0.5 }));
    }
    let drive = drive(&args)?;
    let most = match &drive {
        Drive::Closed => 64,
        Drive::Open { .. } => 1000,
        Drive::Users { .. } if args.shared => 1000,
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
        Drive::Users { profile } => profile.curve().map_err(told)?.highest().ceil() as usize,
    };
    let stop = args.count.map_or(Stop::After(args.duration), Stop::Count);
    let mut load = Load::new(scenario, drive, stop);
    load.threads = args.threads;
    load.connections = args.connections.unwrap_or(most).max(if args.connections.is_some() { 0 } else { args.threads });
    load.pool = if args.shared { Pool::Shared } else { Pool::Own };
    load.timeout = args.timeout;
    load.seed = args.seed;
    load.sources = args.source;
    load.trust = match (args.ca, args.insecure) {
        (Some(path), _) => Trust::Authority(path),
        (None, true) => Trust::Anything,
        (None, false) => Trust::System,
    };
    if !args.cpus.is_empty() {
        load.pin = Pin::On(args.cpus);
    }
    Ok(load)
}

fn drive(args: &LoadArgs) -> Result<Drive, Refusal> {
    if let Some(profile) = &args.users {
        return Ok(Drive::Users { profile: profile.clone() });
    }
    let mut profile = args.rate.clone();
    if let Some(path) = &args.trace {
        let mut traced = Profile::from_trace(&read(path)?).map_err(told)?;
        traced.after = if args.repeat { After::Repeat } else { After::Hold };
        profile = Some(traced);
    }
    if let Some(path) = &args.replay {
        let (arrival, recorded) = Arrival::from_recording(&read(path)?).map_err(told)?;
        return Ok(Drive::Open { arrival, profile: profile.unwrap_or(Profile::steady(recorded)) });
    }
    let arrival = if args.arrival == Gaps::Poisson { Arrival::Poisson } else { Arrival::Constant };
    Ok(profile.map_or(Drive::Closed, |profile| Drive::Open { arrival, profile }))
}

/// A second as it passes; a terminal or pipe that is gone ends nothing.
fn show(progress: &Progress, live: bool) {
    let latencies = progress.part.histogram().ok();
    let p99 = latencies.as_ref().and_then(|all| all.percentile(0.99));
    let p50 = latencies.as_ref().and_then(|all| all.percentile(0.5));
    let text = format!(
        "{:>5} s  {:>9} answered  {:>7} failed  p50 {:>9}  p99 {:>9}",
        progress.second + 1,
        progress.part.answered,
        progress.part.failed,
        time(p50),
        time(p99)
    );
    let mut out = stderr().lock();
    drop(if live { write!(out, "\r\x1b[K{text}") } else { writeln!(out, "{text}") });
    drop(out.flush());
}

fn time(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), |ns| format!("{:.2}", Nanos(ns)))
}

/// The result in words and a table.
fn describe(document: &Document, unicode: bool) -> String {
    let mut text = String::new();
    if document.ended == Ended::Interrupted {
        let _ = writeln!(text, "INTERRUPTED: what follows is partial, the first {:.1} s.\n", document.elapsed_s);
    }
    let verdict = match document.generator.verdict {
        Verdict::KeptUp => "the generator kept up",
        Verdict::Busy => "the generator was busy: latencies may be coloured by it",
        Verdict::WasTheLimit => "THE GENERATOR WAS THE LIMIT: these figures are not the server's",
    };
    let achieved = &document.achieved;
    let _ = writeln!(
        text,
        "{}: {:.0} requests/s for {:.1} s; {verdict}",
        document.scenario, achieved.requests_per_s, document.elapsed_s
    );
    if let (Some(asked), Some(share)) = (document.asked.operations_per_s, achieved.share_of_asked) {
        let _ = writeln!(text, "asked {asked:.0} operations/s, {:.2} % of them ended in time", 100.0 * share);
    }
    for reason in &document.generator.reasons {
        let _ = writeln!(text, "  - {reason}");
    }
    table(&mut text, document);
    for (kind, count) in &document.failures {
        let _ = writeln!(text, "failed: {count} {kind}");
    }
    for example in &document.failure_examples {
        let _ = writeln!(text, "  such as at {example}");
    }
    let lag = document.generator.send_lag.as_ref();
    let _ = writeln!(
        text,
        "generator: CPU {:.0} %, send lag p50 {}, p99 {}",
        100.0 * document.generator.busiest_cpu_share,
        time(lag.and_then(|lag| lag.p50_ns)),
        time(lag.and_then(|lag| lag.p99_ns))
    );
    if document.series.len() > 1 && unicode {
        let rates: Vec<u64> = document.series.iter().map(|second| second.answered).collect();
        let _ = writeln!(text, "requests/s by second: {}", bars(&rates));
    }
    text
}

fn table(text: &mut String, document: &Document) {
    let corrected = document.latency.corrected.is_some();
    let from = if corrected { "from the intended start" } else { "from the send: a closed loop has no intended start" };
    let _ = writeln!(text, "\nlatency {from}");
    let _ = writeln!(
        text,
        "{:<20} {:>9} {:>7} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "operation", "done", "failed", "p50", "p95", "p99", "p99.9", "largest"
    );
    let line = |text: &mut String, name: &str, done: u64, failed: u64, summary: Option<&Summary>| {
        let at = |pick: fn(&Summary) -> Option<u64>| time(summary.and_then(pick));
        let _ = writeln!(
            text,
            "{name:<20} {done:>9} {failed:>7} {:>10} {:>10} {:>10} {:>10} {:>10}",
            at(|all| all.p50_ns),
            at(|all| all.p95_ns),
            at(|all| all.p99_ns),
            at(|all| all.p999_ns),
            at(|all| Some(all.max_ns))
        );
    };
    for row in &document.operations {
        let summary = if corrected { row.corrected.as_ref() } else { row.raw.as_ref() };
        line(text, &row.name, row.succeeded, row.failed, summary.or(row.raw.as_ref()));
        if let Some(delay) = &row.delay {
            line(text, "  delay", delay.samples, 0, Some(delay));
        }
    }
    if let (true, Some(raw)) = (corrected, &document.latency.raw) {
        line(text, "uncorrected, all", raw.samples, 0, Some(raw));
    }
}

/// One column for each value, or for several where they are many.
fn bars(values: &[u64]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let each = values.len().div_ceil(60).max(1);
    let sums: Vec<u64> = values.chunks(each).map(|some| some.iter().sum::<u64>() / some.len() as u64).collect();
    let most = sums.iter().max().copied().unwrap_or(0).max(1);
    sums.iter().map(|sum| LEVELS[usize::try_from(sum * 7 / most).unwrap_or(0).min(7)]).collect()
}
