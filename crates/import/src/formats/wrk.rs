//! wrk: what it prints.

use crate::format::Format;
use crate::lines::Lines;
use crate::number;
use crate::result::{Column, Damage, Metric, Place};
use crate::results::Results;
use crate::text::Text;

pub(super) const FORMAT: Format = Format {
    name: "wrk",
    help: "wrk --latency URL >FILE",
    recognises: |head| head.lines().any(|line| line.starts_with("Running ") && line.contains(" test @ ")),
    read,
};

fn read(text: &mut Text<'_>, _: &[Column]) -> Result<Results, Damage> {
    let text = text.whole()?;
    let lines = Lines(&text);
    let mut imported = Results::of("wrk");
    let (_, head) = lines.after("Running ").ok_or_else(|| lines.lacks("Running"))?;
    imported.parameter("duration", head.split(" test @ ").next());
    let words = |line: &'_ str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let layout = lines.all().map(|(number, line)| (number, words(line)));
    for (_, words) in layout.filter(|(_, words)| words.len() == 5 && words[1] == "threads" && words[4] == "connections")
    {
        imported.parameter("threads", Some(&words[0]));
        imported.parameter("connections", Some(&words[3]));
    }
    let rate = lines.required("Requests/sec:")?;
    // What is printed last: a file without it was cut off, maybe within the rate.
    lines.after("Transfer/sec:").ok_or_else(|| lines.lacks("Transfer/sec:"))?;
    imported.add("", &Metric::higher("requests_per_s", "requests/s"), [rate])?;
    if let Some((line, rest)) = lines.after("Latency ").filter(|(_, rest)| !rest.starts_with("Distribution")) {
        let first = rest.split_whitespace().next().unwrap_or_default();
        let mean = number::milliseconds(first, line, "Latency")?;
        imported.add("", &Metric::lower("latency_mean_ms", "ms"), [mean])?;
    }
    if let Some((line, rest)) = lines.after("99%") {
        imported.add("", &Metric::lower("latency_p99_ms", "ms"), [number::milliseconds(rest, line, "99%")?])?;
    }
    if let Some((_, errors)) = lines.after("Socket errors:") {
        imported.note(format!("socket errors: {errors}"));
    }
    if let Some((line, failed)) = lines.after("Non-2xx or 3xx responses:") {
        // A server that refuses every request is quick.
        return Err(Damage::at(Place::Line(line), format!("{failed} responses were errors: this is no result")));
    }
    Ok(imported)
}
