//! What a load came to, sentence by sentence: failures, the summary, latencies, limits and the generator.
//!
//! The text of a terminal and the HTML page say the same, because both are made of these.

use baremark_load::document::{Document, Ended, Verdict as Generator};
use baremark_load::failure::Failure;
use baremark_load::latency::Summary;
use baremark_load::limits::{LimitRow, Verdict};
use baremark_model::order;
use baremark_model::units::Share;
use std::fmt::Write as _;

/// The failures as a headline; `None` where no more failed than may.
pub(super) fn failed(document: &Document) -> Option<String> {
    let exit = if document.ended == Ended::Complete { "exit 1" } else { "" };
    let (succeeded, all) = document.succeeded();
    if all == 0 && document.counts.intended > 0 && document.ended == Ended::Complete {
        let sent = grouped(document.counts.intended);
        return Some(format!("FAILED: none of {sent} {} was answered ({exit})", noun(document)));
    }
    if !document.has_failed() {
        return None;
    }
    let (failed, of) = (all - succeeded, grouped(all));
    let limit = document.error_limit_share.filter(|_| succeeded > 0).map(|limit| {
        let share = 100.0 * failed as f64 / all as f64;
        format!("{share:.1} %, error limit {}", Share(limit))
    });
    let note: Vec<String> = limit.into_iter().chain((!exit.is_empty()).then(|| exit.to_owned())).collect();
    let note = if note.is_empty() { String::new() } else { format!(" ({})", note.join(", ")) };
    let kinds = kinds(document);
    // One status says more than a list of one.
    if let ([(_, kind)], true) = (&kinds[..], document.failed_statuses.len() == 1) {
        return Some(format!("FAILED: {} of {of} responses were {kind}{note}", grouped(failed)));
    }
    Some(format!("FAILED: {} of {of} {} failed{note}: {}", grouped(failed), noun(document), list(&kinds)))
}

/// What can be done about the failures, a line for each kind for which there is something.
pub(super) fn hints(document: &Document) -> Vec<&'static str> {
    let kinds = document.failures.keys().filter_map(|label| Failure::of_label(label));
    kinds.filter_map(Failure::remedy).collect()
}

/// How much was requested, sent and answered.
pub(super) fn summary(document: &Document) -> String {
    let (succeeded, ended) = document.succeeded();
    let (asked, counts) = (&document.asked, &document.counts);
    let all = ended + counts.unfinished + if asked.drive == "closed" { 0 } else { counts.unsent };
    let mut text = format!(
        "{} of {} {} succeeded in {:.1} s",
        grouped(succeeded),
        grouped(all.max(ended)),
        noun(document),
        document.elapsed_s
    );
    let done = number(document.achieved.operations_per_s);
    match (asked.operations_per_s, asked.drive.as_str()) {
        (Some(rate), _) => {
            // The last start lies before the end: nothing more was to come.
            let complete = document.ended == Ended::Complete;
            let lasting = asked.duration_s.filter(|_| complete).unwrap_or(0.0).max(document.elapsed_s);
            let sent = counts.intended.saturating_sub(counts.unsent) as f64 / lasting.max(1e-9);
            let _ = write!(text, "; {}/s requested, {}/s sent", number(rate), number(sent));
        }
        _ if succeeded == 0 => {}
        (None, "users") => {
            let _ = write!(text, "; {done}/s");
        }
        _ => {
            let _ = write!(text, "; {done}/s over {} connections", grouped(asked.connections as u64));
        }
    }
    if noun(document) != "requests" {
        let _ = write!(text, " ({} requests/s)", number(document.achieved.requests_per_s));
    }
    let kinds = kinds(document);
    if !kinds.is_empty() && !document.has_failed() {
        let _ = write!(text, "; {}", list(&kinds));
    }
    text
}

/// Failed operations as counts and names, the most frequent first; each HTTP status is one.
fn kinds(document: &Document) -> Vec<(u64, String)> {
    let status = Failure::Status.label();
    let split = document.failures.get(status) == Some(&document.failed_statuses.values().sum());
    let mut kinds: Vec<(u64, String)> = Vec::new();
    for (label, count) in &document.failures {
        if split && label == status {
            kinds.extend(document.failed_statuses.iter().map(|(code, count)| (*count, format!("HTTP {code}"))));
        } else {
            let noun = Failure::of_label(label).map_or(label.as_str(), |kind| kind.noun(*count));
            kinds.push((*count, noun.to_owned()));
        }
    }
    order::by_key(&mut kinds, |(count, _)| std::cmp::Reverse(*count));
    kinds
}

fn list(kinds: &[(u64, String)]) -> String {
    kinds.iter().map(|(count, kind)| format!("{} {kind}", grouped(*count))).collect::<Vec<_>>().join(", ")
}

fn noun(document: &Document) -> &'static str {
    match &document.operations[..] {
        [only] if only.name == "request" => "requests",
        _ => "operations",
    }
}

/// The name of a limit and what became of it.
pub(super) fn limit(row: &LimitRow) -> (String, String) {
    let name = format!("limit {}", row.limit.replacen('<', " < ", 1));
    let measured = match (row.measured_ns, row.measured_share) {
        (Some(ns), _) => Some(time(ns)),
        (None, Some(share)) => Some(format!("{:.2} %", 100.0 * share)),
        (None, None) => None,
    };
    let of = row.broken.map(|broken| format!("{} of {}", grouped(broken.bad), grouped(broken.all)));
    let verdict = match row.verdict {
        Verdict::Met => format!("met ({})", measured.unwrap_or_default()),
        Verdict::Exceeded => {
            let parts: Vec<String> = measured.into_iter().chain(of.map(|of| format!("{of} broke it"))).collect();
            format!("exceeded ({})", parts.join("; "))
        }
        Verdict::Undecided => match (row.broken, row.needed) {
            (Some(broken), Some(needed)) => {
                let (all, needed) = (grouped(broken.all), grouped(needed));
                format!("undecided ({all} samples; at least {needed} are needed)")
            }
            _ => "undecided (not measured)".to_owned(),
        },
    };
    (name, verdict)
}

/// Whether the generator held up the load.
pub(super) fn generator(document: &Document) -> String {
    let generator = &document.generator;
    let share = 100.0 * generator.busiest_cpu_share;
    let cpu = match generator.threads.len() {
        0 | 1 => format!("{share:.0} % of one CPU"),
        threads => format!("{threads} threads, the busiest at {share:.0} % of one CPU"),
    };
    let lag = generator.send_lag.as_ref().and_then(|lag| match (lag.p99_ns, lag.p50_ns) {
        (Some(ns), _) => Some(format!(", send lag p99 {}", time(ns))),
        (None, Some(ns)) => Some(format!(", send lag p50 {}", time(ns))),
        (None, None) => None,
    });
    let verdict = match generator.verdict {
        Generator::KeptUp => "not the limit",
        Generator::Busy => "busy; latencies may include its own delay",
        Generator::WasTheLimit => "fell behind: latencies include its own delay, not the server's alone",
    };
    format!("{cpu}{}: {verdict}", lag.unwrap_or_default())
}

/// What latencies of this load count from.
pub(super) fn latency_from(document: &Document) -> &'static str {
    match document.latency.corrected {
        Some(_) => "latency from the intended start",
        None => "latency from the send",
    }
}

/// Percentiles in one unit, those that are known.
pub(super) fn percentiles(all: &Summary) -> Vec<String> {
    let (unit, size) = match (all.p50_ns, all.max_ns) {
        (Some(1_000_000_000..), _) => ("s", 1e9),
        (_, 1_000_000..) => ("ms", 1e6),
        _ => ("us", 1e3),
    };
    let known = [("p50", all.p50_ns), ("p90", all.p90_ns), ("p99", all.p99_ns), ("p99.9", all.p999_ns)];
    let known = known.into_iter().filter_map(|(name, ns)| Some((name, ns?))).chain([("max", all.max_ns)]);
    let items = known.enumerate().map(|(at, (name, ns))| {
        let unit = if at == 0 { format!(" {unit}") } else { String::new() };
        format!("{name} {}{unit}", digits(ns as f64 / size))
    });
    items.collect()
}

/// A time to three digits.
pub(super) fn time(ns: u64) -> String {
    let (size, unit) = match ns {
        0..1_000 => (1.0, "ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {unit}", digits(ns as f64 / size))
}

/// Three significant digits, at most three after the point.
fn digits(value: f64) -> String {
    let places = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    let places = if value < 1.0 { 3 } else { places };
    format!("{value:.places$}")
}

/// A rate: whole above 100, else to three digits.
fn number(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    if value >= 100.0 { grouped(value.round() as u64) } else { digits(value) }
}

/// A count with a comma between thousands.
pub(super) fn grouped(count: u64) -> String {
    let plain = count.to_string();
    let mut text = String::new();
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && (plain.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_load::latency::Latencies;
    use baremark_load::load::{Drive, Load, Stop};
    use baremark_load::profile::Profile;
    use baremark_load::record::{Part, ThreadPart};
    use baremark_load::scenario::Scenario;
    use baremark_model::units::Nanos;

    fn load(drive: Drive) -> Load {
        let scenario = Scenario::of_url("http://127.0.0.1:8080/").expect("a URL");
        Load::new(scenario, drive, Stop::After(Nanos(30_000_000_000)))
    }

    fn open() -> Load {
        load(Drive::Open { arrival: baremark_load::arrival::Arrival::Constant, profile: Profile::steady(2000.0) })
    }

    /// 60,000 requests in 30 s, of which some failed.
    fn part(failures: &[(Failure, u64)]) -> Part {
        let mut part = Part::new(&["request".to_owned()]);
        let failed: u64 = failures.iter().map(|(_, count)| count).sum();
        let one = &mut part.operations[0];
        (one.intended, one.in_time) = (60_000, 60_000 - failed);
        for at in 0..60_000 - failed {
            let ns = 800_000 + 50 * at;
            one.raw.record(ns);
            one.corrected.record(ns);
            part.send_lag.record(60_000);
        }
        for (kind, count) in failures {
            one.failures[*kind as usize] = *count;
        }
        part.elapsed_ns = 30_000_000_000;
        (part.counts.intended, part.counts.answered) = (60_000, 60_000);
        part.counts.ended = 60_000;
        part.threads.push(ThreadPart { cpu: None, cpu_ns: 3_600_000_000, wall_ns: 30_000_000_000, away_ns: 0 });
        part
    }

    #[test]
    fn the_summary_has_what_was_requested_sent_and_answered() {
        let document = Document::new(&open(), &part(&[(Failure::Timeout, 2)]));
        let wanted = "59,998 of 60,000 requests succeeded in 30.0 s; 2,000/s requested, 2,000/s sent; 2 timeouts";
        assert_eq!((summary(&document).as_str(), failed(&document)), (wanted, None));
        let all = document.latency.corrected.as_ref().expect("an open loop");
        assert_eq!(percentiles(all).join("  "), "p50 2.30 ms  p90 3.50  p99 3.77  p99.9 3.80  max 3.80");
        assert_eq!(generator(&document), "12 % of one CPU, send lag p99 60.0 us: not the limit");
        let mut part = part(&[]);
        part.operations[0].corrected = Latencies::default();
        let closed = Document::new(&load(Drive::Closed), &part);
        assert_eq!(summary(&closed), "60,000 of 60,000 requests succeeded in 30.0 s; 2,000/s over 64 connections");
        assert_eq!(latency_from(&closed), "latency from the send");
    }

    #[test]
    fn failures_are_the_headline_where_there_are_more_than_may_be() {
        let mut part = part(&[(Failure::Status, 60_000)]);
        part.failed_statuses.insert(404, 60_000);
        let headline = |part: &Part, limit: Option<f64>| {
            let mut document = Document::new(&open(), part);
            document.error_limit_share = limit;
            failed(&document)
        };
        let wanted = "FAILED: 60,000 of 60,000 responses were HTTP 404 (exit 1)";
        assert_eq!(headline(&part, Some(0.01)).as_deref(), Some(wanted));
        assert_eq!(headline(&part, None).as_deref(), Some(wanted), "every failure exceeds a default limit");
        assert_eq!(headline(&part, Some(1.0)), None, "every failure was allowed");
        part = self::part(&[(Failure::Status, 800), (Failure::Timeout, 400)]);
        part.failed_statuses.extend([(503, 700), (500, 100)]);
        let wanted = "FAILED: 1,200 of 60,000 requests failed (2.0 %, error limit 1 %, exit 1): \
                      700 HTTP 503, 400 timeouts, 100 HTTP 500";
        assert_eq!(headline(&part, Some(0.01)).as_deref(), Some(wanted));
        assert_eq!(headline(&part, Some(0.02)), None, "just as much as may");
        part.interrupted = true;
        assert!(headline(&part, Some(0.01)).is_some_and(|text| !text.contains("exit")));
        let mut nothing = Part::new(&["request".to_owned()]);
        nothing.counts.intended = 64;
        let wanted = "FAILED: none of 64 requests was answered (exit 1)";
        assert_eq!(headline(&nothing, None).as_deref(), Some(wanted));
    }

    #[test]
    fn a_hint_says_what_can_be_done() {
        let document = Document::new(&open(), &part(&[(Failure::Refused, 59_999), (Failure::Reset, 1)]));
        assert_eq!(hints(&document), ["start the server, or check host and port"]);
    }

    #[test]
    fn each_limit_says_whether_it_was_met() {
        let mut row = LimitRow {
            limit: "p99<50 ms".to_owned(),
            verdict: Verdict::Met,
            of_scenario: false,
            measured_ns: Some(3_200_000),
            measured_share: None,
            broken: Some(baremark_model::qos::Broken { bad: 5, all: 59_998 }),
            needed: None,
        };
        let said = |row: &LimitRow| {
            let (name, verdict) = limit(row);
            format!("{name}: {verdict}")
        };
        assert_eq!(said(&row), "limit p99 < 50 ms: met (3.20 ms)");
        (row.verdict, row.measured_ns) = (Verdict::Exceeded, Some(61_000_000));
        row.broken = Some(baremark_model::qos::Broken { bad: 1300, all: 59_998 });
        assert_eq!(said(&row), "limit p99 < 50 ms: exceeded (61.0 ms; 1,300 of 59,998 broke it)");
        (row.verdict, row.measured_ns, row.needed) = (Verdict::Undecided, None, Some(368));
        row.broken = Some(baremark_model::qos::Broken { bad: 0, all: 100 });
        assert_eq!(said(&row), "limit p99 < 50 ms: undecided (100 samples; at least 368 are needed)");
        (row.verdict, row.broken, row.measured_share) = (Verdict::Met, None, Some(0.312));
        row.limit = "utilization.cpu<80 %".to_owned();
        assert_eq!(said(&row), "limit utilization.cpu < 80 %: met (31.20 %)");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0, 999, 1000, 38_764, 1_234_567].map(grouped).join(" "), "0 999 1,000 38,764 1,234,567");
        let times = [812, 60_000, 812_345, 41_234_567, 123_456_789, 1_500_000_000].map(time);
        assert_eq!(times.join(" "), "812 ns 60.0 us 812 us 41.2 ms 123 ms 1.50 s");
        assert_eq!([0.05, 8.123, 81.23, 99.96, 2000.4].map(number).join(" "), "0.050 8.12 81.2 100.0 2,000");
    }
}
