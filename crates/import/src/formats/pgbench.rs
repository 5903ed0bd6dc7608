//! pgbench: the summary that it prints, the log of every transaction (`--log`), and the log by intervals (`--aggregate-interval`).
//!
//! A log's rate is its transactions over the time from the first one's start to the last one's end. Of several log files of one
//! run (one a thread) only their concatenation is the run.

use crate::format::Format;
use crate::lines::Lines;
use crate::number;
use crate::result::{Column, Damage, Imported, Metric, Place};

pub(super) const FORMAT: Format = Format {
    name: "pgbench",
    help: "pgbench >FILE, or the file pgbench_log.PID that pgbench --log writes",
    recognises: |head| head.contains("transaction type:") || head.lines().next().is_some_and(is_log),
    read,
};

/// No time since 1970 in seconds is less: 2001.
const EPOCH: f64 = 1e9;

fn is_log(line: &str) -> bool {
    let words: Vec<Option<f64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    let epoch = |at: usize| words.get(at).copied().flatten().is_some_and(|value| value >= EPOCH);
    words.len() >= 6 && (epoch(4) || epoch(0))
}

fn read(text: &str, _: &[Column]) -> Result<Imported, Damage> {
    let first = text.lines().next().unwrap_or_default();
    if !is_log(first) {
        return summary(Lines(text));
    }
    let first: f64 = first.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    if first >= EPOCH { intervals(text) } else { transactions(text) }
}

fn summary(lines: Lines<'_>) -> Result<Imported, Damage> {
    let version = lines.after("pgbench (");
    let version = version
        .and_then(|(_, rest)| rest.split([')', ' ']).find(|word| word.starts_with(|c: char| c.is_ascii_digit())));
    let mut imported = Imported::of(format!("pgbench {}", version.unwrap_or_default()).trim_end());
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
    imported.add("", Metric::higher("transactions_per_s", "transactions/s"), [number::leading(rate, line, "tps =")?]);
    imported.add("", Metric::lower("latency_mean_ms", "ms"), [mean]);
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

fn transactions(text: &str) -> Result<Imported, Damage> {
    let mut imported = Imported::of("pgbench");
    let (mut latencies, mut left_out) = (Vec::new(), 0);
    let (mut begin, mut end) = (f64::INFINITY, f64::NEG_INFINITY);
    for (number, line) in Lines(text).all() {
        let Some(fields) = fields(line, number, 6)? else {
            left_out += 1;
            continue;
        };
        // client, transaction, latency in microseconds, script, seconds and microseconds of its end.
        let ended = fields[4] + fields[5] / 1e6;
        (begin, end) = (begin.min(ended - fields[2] / 1e6), end.max(ended));
        latencies.push(fields[2] / 1e3);
    }
    if left_out > 0 {
        imported.notes.push(format!("{left_out} transactions failed or were skipped"));
    }
    #[expect(clippy::cast_precision_loss, reason = "a number of transactions")]
    let count = latencies.len() as f64;
    latencies.sort_by(f64::total_cmp);
    let rank = (latencies.len() * 99).div_ceil(100).max(1) - 1;
    imported.add_one(
        "",
        Metric::higher("transactions_per_s", "transactions/s"),
        (end > begin).then(|| count / (end - begin)),
    );
    imported.add_one(
        "",
        Metric::lower("latency_mean_ms", "ms"),
        (count > 0.0).then(|| latencies.iter().sum::<f64>() / count),
    );
    imported.add_one("", Metric::lower("latency_p99_ms", "ms"), latencies.get(rank).copied());
    Ok(imported)
}

/// Lines of interval start, transactions, sum of latencies, of their squares, least and most. The first interval and the last are
/// not whole.
fn intervals(text: &str) -> Result<Imported, Damage> {
    let rows = Lines(text).all().map(|(number, line)| Ok((number, fields(line, number, 6)?)));
    let rows = rows.collect::<Result<Vec<(u64, Option<Vec<f64>>)>, Damage>>()?;
    let rows: Vec<(u64, Vec<f64>)> = rows.into_iter().filter_map(|(number, row)| Some((number, row?))).collect();
    let [(_, first), .., (last_line, last)] = rows.as_slice() else {
        return Err(Damage::at(Place::Line(1), "has one interval; two are needed to know how long one is"));
    };
    if last[0] <= first[0] {
        return Err(Damage::at(Place::Line(*last_line), "the last interval begins before the first"));
    }
    let whole = &rows[..rows.len() - 1];
    let sum = |at: usize| whole.iter().map(|(_, row)| row[at]).sum::<f64>();
    let mut imported = Imported::of("pgbench");
    imported.notes.push("the last interval may not be whole and is left out".to_owned());
    imported.add("", Metric::higher("transactions_per_s", "transactions/s"), [sum(1) / (last[0] - first[0])]);
    imported.add_one("", Metric::lower("latency_mean_ms", "ms"), (sum(1) > 0.0).then(|| sum(2) / sum(1) / 1e3));
    Ok(imported)
}
