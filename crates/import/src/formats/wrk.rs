//! wrk: what it prints.

use crate::format::Format;
use crate::lines::Lines;
use crate::number;
use crate::result::{Column, Damage, Imported, Metric, Place};

pub(super) const FORMAT: Format = Format {
    name: "wrk",
    help: "wrk --latency URL >FILE",
    recognises: |head| head.lines().any(|line| line.starts_with("Running ") && line.contains(" test @ ")),
    read,
};

fn read(text: &str, _: &[Column]) -> Result<Imported, Damage> {
    let lines = Lines(text);
    let mut imported = Imported::of("wrk");
    let (_, head) = lines.after("Running ").ok_or_else(|| lines.lacks("Running"))?;
    imported.parameter("duration", head.split(" test @ ").next());
    let words = |line: &'_ str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let layout = lines.all().map(|(number, line)| (number, words(line)));
    for (_, words) in layout.filter(|(_, words)| words.len() == 5 && words[1] == "threads" && words[4] == "connections")
    {
        imported.parameter("threads", Some(&words[0]));
        imported.parameter("connections", Some(&words[3]));
    }
    imported.add("", Metric::higher("requests_per_s", "requests/s"), [lines.required("Requests/sec:")?]);
    if let Some((line, rest)) = lines.after("Latency ").filter(|(_, rest)| !rest.starts_with("Distribution")) {
        let first = rest.split_whitespace().next().unwrap_or_default();
        let mean = number::milliseconds(first, line, "Latency")?;
        imported.add("", Metric::lower("latency_mean_ms", "ms"), [mean]);
    }
    if let Some((line, rest)) = lines.after("99%") {
        imported.add("", Metric::lower("latency_p99_ms", "ms"), [number::milliseconds(rest, line, "99%")?]);
    }
    if let Some((_, errors)) = lines.after("Socket errors:") {
        imported.notes.push(format!("socket errors: {errors}"));
    }
    if let Some((line, failed)) = lines.after("Non-2xx or 3xx responses:") {
        // A server that refuses every request is quick.
        return Err(Damage::at(Place::Line(line), format!("{failed} responses were errors: this is no result")));
    }
    Ok(imported)
}
