//! sysbench 1.x: what `sysbench TEST run` prints.

use crate::format::Format;
use crate::lines::Lines;
use crate::number;
use crate::result::{Column, Damage, Metric};
use crate::results::Results;
use crate::text::Text;

pub(super) const FORMAT: Format = Format {
    name: "sysbench",
    help: "sysbench TEST run >FILE",
    recognises: |head| head.lines().take(20).any(|line| line.starts_with("sysbench 1.")),
    read,
};

/// Rates, with the words behind which they stand, their keys and units.
const RATES: [(&str, &str, &str); 8] = [
    ("events per second:", "events_per_s", "events/s"),
    ("events/s (eps):", "events_per_s", "events/s"),
    ("reads/s:", "reads_per_s", "reads/s"),
    ("writes/s:", "writes_per_s", "writes/s"),
    ("read, MiB/s:", "read_mib_per_s", "MiB/s"),
    ("written, MiB/s:", "written_mib_per_s", "MiB/s"),
    ("read: IOPS=", "reads_per_s", "reads/s"),
    ("write: IOPS=", "writes_per_s", "writes/s"),
];

/// Counts with a rate in parentheses.
const IN_PARENTHESES: [(&str, &str, &str); 3] = [
    ("transactions:", "transactions_per_s", "transactions/s"),
    ("queries:", "queries_per_s", "queries/s"),
    ("Total operations:", "operations_per_s", "operations/s"),
];

fn read(text: &mut Text<'_>, _: &[Column]) -> Result<Results, Damage> {
    let text = text.whole()?;
    let lines = Lines(&text);
    let (_, version) = lines.after("sysbench ").ok_or_else(|| lines.lacks("sysbench"))?;
    let mut imported = Results::of(format!("sysbench {}", version.split_whitespace().next().unwrap_or_default()));
    let options = [
        ("Number of threads:", "threads"),
        ("Prime numbers limit:", "prime_limit"),
        ("block size:", "block_size"),
        ("total size:", "total_size"),
        ("operation:", "operation"),
    ];
    for (word, key) in options {
        imported.parameter(key, lines.after(word).map(|(_, value)| value));
    }
    for (word, key, unit) in RATES {
        imported.add_one("", &Metric::higher(key, unit), lines.number(word)?)?;
    }
    for (word, key, unit) in IN_PARENTHESES {
        if let Some((line, rest)) = lines.after(word)
            && let Some((_, rate)) = rest.split_once('(')
        {
            imported.add("", &Metric::higher(key, unit), [number::leading(rate, line, word)?])?;
        }
    }
    for (line, text) in lines.all().filter(|(_, text)| text.ends_with("MiB/sec)")) {
        let rate = text.rsplit('(').next().unwrap_or_default();
        imported.add(
            "",
            &Metric::higher("memory_mib_per_s", "MiB/s"),
            [number::leading(rate, line, "transferred")?],
        )?;
    }
    // What is printed last: a file without it was cut off.
    let mean = lines.required("avg:")?;
    let p95 = lines.number("95th percentile:")?;
    lines.after("execution time (avg/stddev):").ok_or_else(|| lines.lacks("execution time (avg/stddev):"))?;
    imported.add("", &Metric::lower("latency_mean_ms", "ms"), [mean])?;
    imported.add_one("", &Metric::lower("latency_p95_ms", "ms"), p95)?;
    Ok(imported)
}
