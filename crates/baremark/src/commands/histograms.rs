//! `baremark histograms`: each I/O of block devices for a while, as histograms by device and process.
//!
//! Where programs cannot be loaded into the kernel it shows counts and mean times of `/proc/diskstats`, and says so.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use baremark_model::order;
use baremark_model::units::{Bytes, Nanos};
use baremark_report::heat_map::{self, HeatMap};
use baremark_report::one_line;
use baremark_sys::wake::sleep_unless;
use baremark_trace::TraceError;
use baremark_trace::disk::{DIRECTIONS, Direction, DiskTrace, Ios, Key, OTHERS, Snapshot};
use baremark_trace::diskstats::{self, Counts, Devices};
use baremark_trace::histogram::Histogram;
use baremark_trace::owner::{Kind, Owner};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark histograms --disk --duration 30s
  baremark histograms --disk --device vda --html latency.html
  baremark histograms --net";

const FORMAT: &str = "baremark-histograms/1";
/// Processes of a device that the text shows.
const MOST_PROCESSES: usize = 8;

/// What is traced.
#[derive(clap::Args)]
pub struct HistogramsArgs {
    /// Trace block devices (the default)
    #[arg(long)]
    disk: bool,
    /// Trace network interfaces: packet sizes, packets per poll, merges, drops by reason
    #[arg(long, conflicts_with_all = ["disk", "html"])]
    pub net: bool,
    /// Trace for TIME; an interrupt ends it earlier
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub duration: Nanos,
    /// Time between two columns of the heat maps
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: Nanos,
    /// Show this device or interface alone, such as vda (repeat for several)
    #[arg(long, value_name = "DEVICE")]
    device: Vec<String>,
    /// Write heat maps of latency over time as a page to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl HistogramsArgs {
    /// Whether the options make sense here.
    pub fn check(&self) -> Result<(), Refusal> {
        for (option, time) in [("--duration", self.duration), ("--interval", self.interval)] {
            if !(10_000_000..=86_400_000_000_000).contains(&time.0) {
                return Err(Refusal::bad_input(format!("{option} is {time}; write a time from 10 ms to 24 h")));
            }
        }
        if self.net {
            return Ok(());
        }
        let devices = diskstats::read().unwrap_or_default();
        let known = |name: &String| devices.values().any(|device| device.name == *name);
        match self.device.iter().find(|name| !known(name)) {
            Some(name) => Err(Refusal::bad_input(format!(
                "--device: there is no block device '{name}'; `cut -c11- /proc/diskstats` lists them"
            ))),
            None => Ok(()),
        }
    }

    /// Whether a device or interface is shown.
    pub fn shows(&self, name: &str) -> bool {
        self.device.is_empty() || self.device.iter().any(|wanted| wanted == name)
    }
}

/// What a time of tracing gave.
struct Traced {
    seconds: f64,
    interrupted: bool,
    names: Devices,
    source: Source,
}

/// Time from request to completion, by device and direction.
type Latencies = BTreeMap<((u32, u32), Direction), Histogram>;

enum Source {
    /// Every I/O, and what was counted in each interval.
    Programs { whole: Snapshot, intervals: Vec<Latencies> },
    /// Sums alone, because of this.
    Diskstats { why: TraceError, grown: BTreeMap<((u32, u32), Direction), Counts> },
}

/// Traces, and shows what was seen.
pub fn run(context: &Context, args: &HistogramsArgs) -> Result<(String, Exit), Refusal> {
    args.check()?;
    let traced = trace(context, args)?;
    if let Some(path) = &args.html {
        let page = page(&traced, args)?;
        std::fs::write(path, page).map_err(|why| Refusal::failure(format!("{}: {why}", path.display())))?;
    }
    let exit = if traced.interrupted { Exit::Interrupted } else { Exit::Success };
    Ok((if context.json { crate::json::document(FORMAT, document(&traced, args)) } else { text(&traced, args) }, exit))
}

fn trace(context: &Context, args: &HistogramsArgs) -> Result<Traced, Refusal> {
    let unreadable = |why: io::Error| Refusal::failure(format!("/proc/diskstats: {why}"));
    let began = Instant::now();
    let (interrupted, source) = match DiskTrace::start() {
        Ok(trace) => programs(context, args, &trace).map_err(|why| Refusal::failure(why.to_string()))?,
        Err(why) => {
            let before = diskstats::read().map_err(unreadable)?;
            let interrupted = wait(context, began + Duration::from_nanos(args.duration.0));
            let grown = grown(&before, &diskstats::read().map_err(unreadable)?);
            (interrupted, Source::Diskstats { why, grown })
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    Ok(Traced { seconds, interrupted, names: diskstats::read().map_err(unreadable)?, source })
}

fn programs(context: &Context, args: &HistogramsArgs, trace: &DiskTrace) -> Result<(bool, Source), TraceError> {
    let end = Instant::now() + Duration::from_nanos(args.duration.0);
    let step = Duration::from_nanos(args.interval.0);
    let mut last = trace.snapshot()?;
    let (begun, mut intervals, mut next) = (last.clone(), Vec::new(), Instant::now() + step);
    loop {
        let interrupted = wait(context, next.min(end));
        let now = trace.snapshot()?;
        let totals = now.since(&last).by_device().into_iter().map(|(key, ios)| (key, ios.total));
        intervals.push(totals.collect());
        if interrupted || Instant::now() >= end {
            return Ok((interrupted, Source::Programs { whole: now.since(&begun), intervals }));
        }
        (last, next) = (now, next + step);
    }
}

/// Waits until `until`; whether the user wants an end before.
pub fn wait(context: &Context, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    !sleep_unless(|| context.interrupt.load(Ordering::Relaxed), left)
}

fn grown(before: &Devices, after: &Devices) -> BTreeMap<((u32, u32), Direction), Counts> {
    let mut all = BTreeMap::new();
    for (number, device) in after {
        let Some(then) = before.get(number) else { continue };
        for direction in DIRECTIONS {
            let (now, then) = (device.of(direction), then.of(direction));
            let counts = Counts {
                ios: now.ios.saturating_sub(then.ios),
                bytes: now.bytes.saturating_sub(then.bytes),
                total_ns: now.total_ns.saturating_sub(then.total_ns),
            };
            if counts.ios > 0 {
                all.insert((*number, direction), counts);
            }
        }
    }
    all
}

impl Traced {
    fn name(&self, number: (u32, u32)) -> String {
        let known = self.names.get(&number).map(|device| one_line(&device.name));
        match number {
            (0, 0) => "others".to_owned(),
            _ => known.unwrap_or_else(|| format!("{}:{}", number.0, number.1)),
        }
    }
}

/// The owner of a process, with the kind's word and the container's number where it has one.
fn owned_by<'s>(whole: &'s Snapshot, key: &Key) -> (Option<&'s Owner>, Kind) {
    let owner = whole.owners.get(&key.process).filter(|_| key.process != OTHERS);
    (owner, owner.map_or(Kind::Process, Owner::kind))
}

fn document(traced: &Traced, args: &HistogramsArgs) -> Value {
    let mut body = json!({ "seconds": traced.seconds, "interval_ns": args.interval.0 });
    match &traced.source {
        Source::Programs { whole, .. } => {
            body["source"] = "bpf".into();
            body["began_before"] = whole.began_before.into();
            body["not_kept"] = whole.not_kept.into();
            let shown = |number| args.shows(&traced.name(number));
            let rows = whole.by_device();
            let rows = rows.iter().filter(|((number, _), _)| shown(*number));
            body["devices"] = rows.map(|((number, direction), ios)| row(traced, *number, *direction, ios)).collect();
            let processes = whole.ios.iter().filter(|(key, _)| shown(key.device));
            let process = |(key, ios): (&Key, &Ios)| {
                let mut row = row(traced, key.device, key.direction, ios);
                let (owner, kind) = owned_by(whole, key);
                row["process"] = key.process.into();
                row["kind"] = json!(kind);
                row["comm"] = owner.map(|owner| owner.comm.clone()).into();
                row["container"] = owner.and_then(Owner::container).into();
                row
            };
            body["processes"] = processes.map(process).collect();
        }
        Source::Diskstats { why, grown } => {
            body["source"] = "diskstats".into();
            body["not_available"] = why.to_string().into();
            let rows = grown.iter().filter(|((number, _), _)| args.shows(&traced.name(*number)));
            let rows = rows.map(|((number, direction), counts)| {
                json!({
                    "device": traced.name(*number), "direction": direction.word(), "ios": counts.ios,
                    "bytes": counts.bytes, "total_ns": counts.total_ns,
                })
            });
            body["devices"] = rows.collect();
        }
    }
    body
}

fn row(traced: &Traced, number: (u32, u32), direction: Direction, ios: &Ios) -> Value {
    json!({
        "device": traced.name(number), "direction": direction.word(), "ios": ios.count, "bytes": ios.bytes,
        "total_ns": ios.total_ns, "queue_ns": ios.queue_ns, "device_ns": ios.device_ns,
        "histograms": ios.histograms().map(histogram),
    })
}

/// A histogram with its name and unit.
pub fn histogram((name, unit, histogram): (&str, &str, &Histogram)) -> Value {
    json!({
        "name": name, "unit": unit, "values": histogram.total(), "p50": histogram.percentile(0.5),
        "p99": histogram.percentile(0.99), "bins": histogram.bins(),
    })
}

fn text(traced: &Traced, args: &HistogramsArgs) -> String {
    let mut text = String::new();
    match &traced.source {
        Source::Programs { whole, .. } => {
            let _ = writeln!(
                text,
                "I/Os of {:.1} s, each traced; counted as /proc/diskstats counts requests. Percentiles are upper ends of bins: at most 25 % high.",
                traced.seconds
            );
            for (what, count) in [
                ("under way at the start", whole.began_before),
                ("in no histogram: too many at one time", whole.not_kept),
            ] {
                if count > 0 {
                    let _ = writeln!(text, "{count} I/Os {what}");
                }
            }
            for ((number, direction), ios) in &whole.by_device() {
                if args.shows(&traced.name(*number)) {
                    device(&mut text, traced, whole, (*number, *direction), ios);
                }
            }
            if whole.ios.is_empty() {
                text.push_str("no I/O ended\n");
            }
        }
        Source::Diskstats { why, grown } => {
            let _ = writeln!(text, "histograms are not available: {why}");
            let _ = writeln!(
                text,
                "from /proc/diskstats over {:.1} s, without processes and distributions:",
                traced.seconds
            );
            for ((number, direction), counts) in grown {
                let name = traced.name(*number);
                if args.shows(&name) {
                    let mean = nanos(counts.total_ns / counts.ios.max(1));
                    let head = head(&name, *direction, counts.ios, counts.bytes, traced.seconds);
                    let _ = writeln!(text, "{head}, mean {mean}");
                }
            }
            if grown.is_empty() {
                text.push_str("no I/O ended\n");
            }
        }
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "rounded for people")]
fn head(name: &str, direction: Direction, ios: u64, bytes: u64, seconds: f64) -> String {
    let (rate, volume) = (ios as f64 / seconds, bytes as f64 / 1e6);
    let word = direction.word();
    format!("{name} {word}: {ios} I/Os ({rate:.0}/s), {volume:.1} MB ({:.1} MB/s)", volume / seconds)
}

fn nanos(value: u64) -> String {
    format!("{:.1}", Nanos(value))
}

fn unit(value: Option<u64>, unit: &str) -> String {
    match (value, unit) {
        (None, _) => "-".to_owned(),
        (Some(value), "ns") => nanos(value),
        // The upper end of a bin, which is one less than a round number.
        (Some(value), "B") => format!("{:.0}", Bytes(value.saturating_add(1))),
        (Some(value), _) => value.to_string(),
    }
}

/// The p50, p90, p99 and maximum of a histogram, twelve columns each.
pub fn cells(histogram: &Histogram, measure: &str) -> String {
    [0.5, 0.9, 0.99, 1.0].map(|share| format!("{:>12}", unit(histogram.percentile(share), measure))).concat()
}

/// A device and direction: percentiles of each histogram, then its processes.
fn device(text: &mut String, traced: &Traced, whole: &Snapshot, of: ((u32, u32), Direction), ios: &Ios) {
    const LABELS: [&str; 8] = [
        "I/O size, up to",
        "seek (sectors)",
        "seek, nearest of 16",
        "time in queue",
        "time at device",
        "time in all",
        "outstanding",
        "inter-arrival",
    ];
    let (number, direction) = of;
    let _ = writeln!(text, "\n{}", head(&traced.name(number), direction, ios.count, ios.bytes, traced.seconds));
    let _ = writeln!(text, "  {:<22}{:>12}{:>12}{:>12}{:>12}", "", "p50", "p90", "p99", "max");
    for (label, (_, measure, histogram)) in LABELS.iter().zip(ios.histograms()) {
        let _ = writeln!(text, "  {label:<22}{}", cells(histogram, measure));
    }
    let mut processes: Vec<(&Key, &Ios)> =
        whole.ios.iter().filter(|(key, _)| (key.device, key.direction) == of).collect();
    order::by_key(&mut processes, |(key, ios)| (std::cmp::Reverse(ios.count), key.process));
    let _ = writeln!(text, "  {:<34}{:>12}{:>13}{:>13}", "by", "I/Os", "queue p99", "device p99");
    for (key, ios) in processes.iter().take(MOST_PROCESSES) {
        let latency = |histogram: &Histogram| unit(histogram.percentile(0.99), "ns");
        let by = by(whole, key);
        let _ = writeln!(text, "  {by:<34}{:>12}{:>13}{:>13}", ios.count, latency(&ios.queue), latency(&ios.device));
    }
    if processes.len() > MOST_PROCESSES {
        let _ = writeln!(text, "  and {} more", processes.len() - MOST_PROCESSES);
    }
}

/// A process in words: its name, number, and container or guest.
fn by(whole: &Snapshot, key: &Key) -> String {
    if key.process == OTHERS {
        return "processes beyond the table".to_owned();
    }
    let (owner, kind) = owned_by(whole, key);
    let comm = owner.map_or_else(|| "?".to_owned(), |owner| one_line(&owner.comm));
    let place = match (kind, owner.and_then(Owner::container)) {
        (Kind::Guest, _) => " guest".to_owned(),
        (_, Some(container)) => format!(" in {container}"),
        _ => String::new(),
    };
    format!("{comm} {}{place}", key.process)
}

fn page(traced: &Traced, args: &HistogramsArgs) -> Result<String, Refusal> {
    let Source::Programs { whole, intervals } = &traced.source else {
        return Err(Refusal::failure("--html: there are no histograms to draw; see the reason without --html"));
    };
    let maps = whole.by_device().into_keys().filter(|(number, _)| args.shows(&traced.name(*number))).map(|key| {
        let cells = |interval: &Latencies| {
            let bins = interval.get(&key).map(Histogram::bins).unwrap_or_default();
            bins.into_iter().map(|bin| (bin.from, bin.to.unwrap_or(bin.from), bin.count)).collect()
        };
        HeatMap {
            title: format!("{} {}: time from request to completion", traced.name(key.0), key.1.word()),
            interval_ns: args.interval.0,
            columns: intervals.iter().map(cells).collect(),
        }
    });
    Ok(heat_map::page("Latency of I/Os over time", &maps.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_name_has_a_line_feed_is_described_in_one_line() {
        let key = Key { device: (8, 0), direction: DIRECTIONS[0], process: 7 };
        let owner = Owner { comm: "a\nsda read: 9\t".to_owned(), group: String::new() };
        let whole = Snapshot { owners: [(7, owner)].into(), ..Snapshot::default() };
        assert_eq!(by(&whole, &key), "a\\u{a}sda read: 9\\u{9} 7");
    }
}
