//! `baremark histograms --net`: each packet for a while, by interface.
//!
//! Where programs cannot be loaded into the kernel it shows the counts of `/proc/net/dev`, and says so.

use crate::commands::histograms::{HistogramsArgs, cells, histogram, wait};
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use baremark_report::one_line;
use baremark_trace::TraceError;
use baremark_trace::net::{Interface, NetTrace, Packets, Snapshot};
use baremark_trace::netdev::{self, Counts};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::time::{Duration, Instant};

const FORMAT: &str = "baremark-net-stats/1";

enum Source {
    /// Every packet.
    Programs(Snapshot),
    /// Sums alone, because of this.
    Counters { why: TraceError, grown: BTreeMap<String, Counts> },
}

/// Traces, and shows what was seen.
pub fn run(context: &Context, args: &HistogramsArgs) -> Result<(String, Exit), Refusal> {
    args.check()?;
    let unreadable = |why: io::Error| Refusal::failure(format!("/proc/net/dev: {why}"));
    let failed = |why: TraceError| Refusal::failure(why.to_string());
    let began = Instant::now();
    let end = began + Duration::from_nanos(args.duration.0);
    let (interrupted, source) = match NetTrace::start() {
        Ok(trace) => {
            let before = trace.snapshot().map_err(failed)?;
            let interrupted = wait(context, end);
            (interrupted, Source::Programs(trace.snapshot().map_err(failed)?.since(&before)))
        }
        Err(why) => {
            let before = netdev::read().map_err(unreadable)?;
            let interrupted = wait(context, end);
            let grown = netdev::read().map_err(unreadable)?.into_iter().map(|(name, counts)| {
                let then = before.get(&name).copied().unwrap_or_default();
                (name, counts.since(&then))
            });
            (interrupted, Source::Counters { why, grown: grown.collect() })
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    let exit = if interrupted { Exit::Interrupted } else { Exit::Success };
    let shown = match context.json {
        true => crate::json::document(FORMAT, document(&source, seconds, args)),
        false => text(&source, seconds, args),
    };
    Ok((shown, exit))
}

fn document(source: &Source, seconds: f64, args: &HistogramsArgs) -> Value {
    match source {
        Source::Programs(seen) => {
            let shown = seen.interfaces.iter().filter(|(interface, _)| args.shows(&interface.name));
            let row = |(interface, packets): (&Interface, &Packets)| {
                json!({
                    "interface": interface.name, "namespace": interface.namespace, "received": packets.received,
                    "received_bytes": packets.received_bytes, "merged": packets.merged, "sent": packets.sent,
                    "sent_bytes": packets.sent_bytes, "refused": packets.refused, "polls": packets.polls,
                    "full_polls": packets.full_polls, "histograms": packets.histograms().map(histogram),
                })
            };
            let interfaces: Vec<Value> = shown.map(row).collect();
            json!({ "seconds": seconds, "source": "bpf", "interfaces": interfaces, "drops": seen.drops })
        }
        Source::Counters { why, grown } => {
            let row = |(name, counts): (&String, &Counts)| {
                json!({
                    "interface": name, "received": counts.received, "received_bytes": counts.received_bytes,
                    "received_drops": counts.received_drops, "sent": counts.sent, "sent_bytes": counts.sent_bytes,
                    "sent_drops": counts.sent_drops,
                })
            };
            let interfaces: Vec<Value> = grown.iter().filter(|(name, _)| args.shows(name)).map(row).collect();
            json!({ "seconds": seconds, "source": "proc", "not_available": why.to_string(), "interfaces": interfaces })
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "rounded for people")]
fn way(word: &str, packets: u64, bytes: u64, seconds: f64) -> String {
    format!("{word} {packets} packets ({:.0}/s), {:.1} MB", packets as f64 / seconds, bytes as f64 / 1e6)
}

fn text(source: &Source, seconds: f64, args: &HistogramsArgs) -> String {
    let mut text = String::new();
    match source {
        Source::Programs(seen) => {
            let _ = writeln!(
                text,
                "packets of {seconds:.1} s, each traced. Percentiles are upper ends of bins: at most 25 % high."
            );
            for (interface, packets) in seen.interfaces.iter().filter(|(interface, _)| args.shows(&interface.name)) {
                one(&mut text, interface, packets, seconds);
            }
            let drops: Vec<String> = seen.drops.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
            let drops = if drops.is_empty() { "none".to_owned() } else { drops.join(", ") };
            let _ = writeln!(text, "\ndrops on this machine by reason: {drops}");
        }
        Source::Counters { why, grown } => {
            let _ = writeln!(text, "histograms are not available: {why}");
            let _ = writeln!(text, "from /proc/net/dev over {seconds:.1} s, without sizes, polls and reasons:");
            for (name, counts) in grown.iter().filter(|(name, _)| args.shows(name)) {
                let received = way("received", counts.received, counts.received_bytes, seconds);
                let sent = way("sent", counts.sent, counts.sent_bytes, seconds);
                let drops = counts.received_drops + counts.sent_drops;
                let _ = writeln!(text, "{}: {received}; {sent}; {drops} drops", one_line(name));
            }
        }
    }
    text
}

fn one(text: &mut String, interface: &Interface, packets: &Packets, seconds: f64) {
    const LABELS: [&str; 3] = ["bytes received", "bytes sent", "packets of a poll"];
    let name = one_line(&interface.name);
    let received = way("received", packets.received, packets.received_bytes, seconds);
    let sent = way("sent", packets.sent, packets.sent_bytes, seconds);
    let namespace =
        if interface.namespace == 0 { String::new() } else { format!(" (namespace {})", interface.namespace) };
    let _ = writeln!(text, "\n{name}{namespace}: {received}; {sent}");
    let _ = writeln!(
        text,
        "  merged into others {}; refused by the driver {}; polls {}, of which full {}",
        packets.merged, packets.refused, packets.polls, packets.full_polls
    );
    let _ = writeln!(text, "  {:<22}{:>12}{:>12}{:>12}{:>12}", "", "p50", "p90", "p99", "max");
    for (label, (_, measure, histogram)) in LABELS.iter().zip(packets.histograms()) {
        if histogram.total() > 0 {
            let _ = writeln!(text, "  {label:<22}{}", cells(histogram, measure));
        }
    }
}
