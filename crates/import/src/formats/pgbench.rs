//! pgbench: the summary that it prints, the log of every transaction (`--log`), and the log by intervals (`--aggregate-interval`).
//!
//! A log's rate is its transactions over the time from the first one's start to the last one's end. Of several log files of one
//! run (one a thread) only their concatenation is the run.

use crate::format::Format;
use crate::lines::Lines;
use crate::number;
use crate::result::{Column, Damage, Metric, Place};
use crate::results::Results;
use crate::text::Text;

pub(super) const FORMAT: Format = Format {
    name: "pgbench",
    help: "pgbench >FILE, or the file pgbench_log.PID that pgbench --log writes",
    recognises: |head| head.contains("transaction type:") || head.lines().next().is_some_and(is_log),
    read,
};

/// No time since 1970 in seconds is less: 2001.
const EPOCH: f64 = 1e9;
/// Most transactions of a log, of which each is kept for the percentile.
const MOST_TRANSACTIONS: usize = 16_000_000;
/// How the line of the rate that is printed last ends, by version: before 14, from 14 on, and with `--connect`.
const LAST: [&str; 3] =
    ["(excluding connections establishing)", "(without initial connection time)", "(including reconnection times)"];

fn is_log(line: &str) -> bool {
    let words: Vec<Option<f64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    let epoch = |at: usize| words.get(at).copied().flatten().is_some_and(|value| value >= EPOCH);
    words.len() >= 6 && (epoch(4) || epoch(0))
}

fn read(text: &mut Text<'_>, _: &[Column]) -> Result<Results, Damage> {
    let first = text.first_line();
    if !is_log(first) {
        return summary(Lines(&text.whole()?));
    }
    let first: f64 = first.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    if first >= EPOCH { intervals(text) } else { transactions(text) }
}

fn summary(lines: Lines<'_>) -> Result<Results, Damage> {
    let version = lines.after("pgbench (");
    let version = version
        .and_then(|(_, rest)| rest.split([')', ' ']).find(|word| word.starts_with(|c: char| c.is_ascii_digit())));
    let mut imported = Results::of(format!("pgbench {}", version.unwrap_or_default()).trim_end());
    let options = [
        ("transaction type:", "transaction"),
        ("scaling factor:", "scale"),
        ("query mode:", "query_mode"),
        ("number of clients:", "clients"),
        ("number of threads:", "threads"),
    ];
    for (word, key) in options {
        imported.parameter(key, lines.after(word).map(|(_, value)| value));
    }
    let mean = lines.after("latency average").ok_or_else(|| lines.lacks("latency average"))?;
    let mean =
        number::milliseconds(&mean.1.trim_start_matches(['=', ':', ' ']).replace(' ', ""), mean.0, "latency average")?;
    // Of the two rates of versions before 14, the one without the time to connect comes last.
    let rate = lines.all().filter_map(|(line, text)| Some((line, text.strip_prefix("tps = ")?))).last();
    let (line, rate) = rate.ok_or_else(|| lines.lacks("tps ="))?;
    if !LAST.iter().any(|end| rate.ends_with(end)) {
        return Err(Damage::at(Place::Line(line), format!("'{rate}' is not the last rate; the file was cut off")));
    }
    let rate = number::leading(rate, line, "tps =")?;
    imported.add("", &Metric::higher("transactions_per_s", "transactions/s"), [rate])?;
    imported.add("", &Metric::lower("latency_mean_ms", "ms"), [mean])?;
    Ok(imported)
}

/// The numbers of a line; a transaction that failed or was skipped has words instead of a latency.
fn fields(line: &str, number: u64, least: usize) -> Result<Option<Vec<f64>>, Damage> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.iter().any(|word| ["failed", "skipped", "serialization", "deadlock"].contains(word)) {
        return Ok(None);
    }
    let wrong = |what: String| Damage::at(Place::Line(number), what);
    if words.len() < least {
        return Err(wrong(format!("has {} of {least} columns; the file was cut off", words.len())));
    }
    let parse = |word: &&str| word.parse::<f64>().map_err(|why| wrong(format!("'{word}': {why}")));
    words.iter().map(parse).collect::<Result<Vec<_>, _>>().map(Some)
}

fn transactions(text: &mut Text<'_>) -> Result<Results, Damage> {
    let mut imported = Results::of_log("pgbench");
    let (mut latencies, mut left_out) = (Vec::new(), 0_u64);
    let (mut begin, mut end, mut sum) = (f64::INFINITY, f64::NEG_INFINITY, 0.0);
    let (mut buffer, mut number) = (Vec::new(), 0);
    loop {
        number += 1;
        let Some(line) = text.line(&mut buffer, number)? else { break };
        let Some(fields) = fields(line, number, 6)? else {
            left_out += 1;
            continue;
        };
        // client, transaction, latency in microseconds, script, seconds and microseconds of its end.
        let ended = fields[4] + fields[5] / 1e6;
        (begin, end) = (begin.min(ended - fields[2] / 1e6), end.max(ended));
        sum += fields[2] / 1e3;
        latencies.push(fields[2] / 1e3);
        if latencies.len() > MOST_TRANSACTIONS {
            let what = format!("more than {MOST_TRANSACTIONS} transactions; import a part, or a log by intervals");
            return Err(Damage::at(Place::Line(number), what));
        }
    }
    if left_out > 0 {
        imported.note(format!("{left_out} transactions failed or were skipped"));
    }
    #[expect(clippy::cast_precision_loss, reason = "a number of transactions")]
    let count = latencies.len() as f64;
    let rank = (latencies.len() * 99).div_ceil(100).max(1) - 1;
    let p99 = (!latencies.is_empty()).then(|| *latencies.select_nth_unstable_by(rank, f64::total_cmp).1);
    let rate = (end > begin).then(|| count / (end - begin));
    imported.add_one("", &Metric::higher("transactions_per_s", "transactions/s"), rate)?;
    imported.add_one("", &Metric::lower("latency_mean_ms", "ms"), (count > 0.0).then(|| sum / count))?;
    imported.add_one("", &Metric::lower("latency_p99_ms", "ms"), p99)?;
    Ok(imported)
}

/// Lines of interval start, transactions, sum of latencies, of their squares, least and most. The first interval and the last are
/// not whole.
fn intervals(text: &mut Text<'_>) -> Result<Results, Damage> {
    // The start of the first interval, and that of the last with what was done in it, which is not among the sums.
    let (mut first, mut last): (Option<f64>, Option<Vec<f64>>) = (None, None);
    let (mut count, mut latency) = (0.0, 0.0);
    let (mut buffer, mut number) = (Vec::new(), 0);
    loop {
        number += 1;
        let Some(line) = text.line(&mut buffer, number)? else { break };
        let Some(fields) = fields(line, number, 6)? else { continue };
        first = first.or(Some(fields[0]));
        if let Some(whole) = last.replace(fields) {
            (count, latency) = (count + whole[1], latency + whole[2]);
        }
    }
    let lines = number - 1;
    let (Some(first), Some(last)) = (first, last) else {
        return Err(Damage::at(Place::Line(lines.max(1)), "has no interval"));
    };
    if last[0] <= first {
        let what = "has one interval, or the last one begins before the first; two are needed to know how long one is";
        return Err(Damage::at(Place::Line(lines), what));
    }
    let mut imported = Results::of_log("pgbench");
    imported.note("the last interval may not be whole and is left out");
    imported.add("", &Metric::higher("transactions_per_s", "transactions/s"), [count / (last[0] - first)])?;
    let mean = (count > 0.0).then(|| latency / count / 1e3);
    imported.add_one("", &Metric::lower("latency_mean_ms", "ms"), mean)?;
    Ok(imported)
}
