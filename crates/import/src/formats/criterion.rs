//! criterion: what `cargo criterion --message-format=json` prints, or a `sample.json`, `estimates.json` or `raw.csv` of its folder
//! `target/criterion`.
//!
//! A value is the time of a sample divided by its iterations. `estimates.json` has one: the slope where there is one, else the mean.

use crate::format::Format;
use crate::json;
use crate::result::{Column, Damage, Metric, Place};
use crate::results::Results;
use crate::rows::{self, Rows};
use crate::text::Text;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt::Display;

const CSV_HEAD: &str = "group,function,value,throughput_num";
const COMPLETE: &str = "benchmark-complete";
/// The message behind those of the benchmarks of a group.
const GROUP_COMPLETE: &str = "group-complete";

pub(super) const FORMAT: Format = Format {
    name: "criterion",
    help: "cargo criterion --message-format=json >FILE, or target/criterion/NAME/new/sample.json",
    recognises: |head| {
        ["\"sampling_mode\"", "\"point_estimate\"", COMPLETE].iter().any(|word| head.contains(word))
            || head.starts_with(CSV_HEAD)
    },
    read,
};

/// Why there are no times of a benchmark.
#[derive(Debug, thiserror::Error)]
enum TimesError {
    #[error("has neither measured_values nor typical")]
    None,
    #[error("'{0}' is not a time unit; only criterion's wall time can be imported")]
    Unit(String),
    #[error("{iterations} iteration counts for {times} times")]
    Unequal { iterations: usize, times: usize },
    #[error("an iteration count is not positive")]
    NoIterations,
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    iteration_count: Vec<f64>,
    #[serde(default)]
    measured_values: Vec<f64>,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    typical: Option<Typical>,
    /// The benchmarks of a group that is complete.
    #[serde(default)]
    benchmarks: Vec<String>,
}

#[derive(Deserialize)]
struct Typical {
    estimate: f64,
    unit: String,
}

#[derive(Deserialize)]
struct Sample {
    iters: Vec<f64>,
    times: Vec<f64>,
}

#[derive(Deserialize)]
struct Estimates {
    mean: Point,
    #[serde(default)]
    slope: Option<Point>,
}

#[derive(Deserialize)]
struct Point {
    point_estimate: f64,
}

#[derive(Deserialize)]
struct Record {
    group: String,
    #[serde(default)]
    function: Option<String>,
    #[serde(default)]
    value: Option<String>,
    sample_measured_value: f64,
    unit: String,
    iteration_count: f64,
}

fn read(text: &mut Text<'_>, _: &[Column]) -> Result<Results, Damage> {
    if text.head().starts_with(CSV_HEAD) {
        return records(text);
    }
    if text.head().lines().any(|line| line.starts_with('{') && line.contains("\"reason\"")) {
        return messages(text);
    }
    let text = text.whole()?;
    let mut results = Results::of("criterion");
    if text.contains("\"iters\"") || text.contains("\"sampling_mode\"") {
        let Sample { iters, times } = json::read(&text)?;
        results.add("", &time(), each(&iters, &times).map_err(|what| Damage::at(Place::Whole, what.to_string()))?)?;
    } else {
        let Estimates { mean, slope } = json::read(&text)?;
        results.add("", &time(), [slope.unwrap_or(mean).point_estimate])?;
    }
    Ok(results)
}

fn time() -> Metric {
    Metric::lower("time_ns", "ns")
}

/// The messages of cargo-criterion. A group's last message names its benchmarks: where it is missing, so are some of them.
fn messages(text: &mut Text<'_>) -> Result<Results, Damage> {
    let mut results = Results::of_log("criterion");
    let (mut buffer, mut number) = (Vec::new(), 1);
    // Those of the group that is not complete.
    let mut open = BTreeSet::new();
    while let Some(line) = text.line(&mut buffer, number)? {
        if line.starts_with('{') {
            let message: Message = json::line(line, number - 1)?;
            let damage = |what: &dyn Display| Damage::at(Place::Line(number), format!("{}: {what}", message.id));
            match message.reason.as_str() {
                COMPLETE => {
                    let values = measured(&message).map_err(|why| damage(&why))?;
                    results.add(&message.id, &time(), values)?;
                    open.insert(message.id);
                }
                GROUP_COMPLETE => match message.benchmarks.iter().find(|name| !open.contains(*name)) {
                    Some(missing) => return Err(damage(&format!("{missing} is of this group and was not reported"))),
                    None => open.clear(),
                },
                _ => {}
            }
        }
        number += 1;
    }
    match open.first() {
        Some(name) => {
            let what = format!("the file ends without the message '{GROUP_COMPLETE}' for {name}; it was cut off");
            Err(Damage::at(Place::Line(number - 1), what))
        }
        None => Ok(results),
    }
}

/// The times of one benchmark, in nanoseconds.
fn measured(message: &Message) -> Result<Vec<f64>, TimesError> {
    match (&message.typical, message.measured_values.is_empty()) {
        (_, false) => {
            let factor = factor(&message.unit)?;
            let values = each(&message.iteration_count, &message.measured_values)?;
            Ok(values.into_iter().map(|value| value * factor).collect())
        }
        (Some(typical), true) => Ok(vec![typical.estimate * factor(&typical.unit)?]),
        (None, true) => Err(TimesError::None),
    }
}

fn records(text: &mut Text<'_>) -> Result<Results, Damage> {
    let mut results = Results::of_log("criterion");
    let mut rows = Rows::of(text, b',');
    let heading = rows.next()?.map(|(_, row)| row.clone()).unwrap_or_default();
    while let Some((line, row)) = rows.next()? {
        if row.len() != heading.len() {
            return Err(rows::unequal(line, row.len(), heading.len()));
        }
        let row: Record = row.deserialize(Some(&heading)).map_err(|why| rows::damage(&why, line))?;
        let damage = |what: TimesError| Damage::at(Place::Line(line), format!("{}: {what}", row.group));
        let parts = [Some(row.group.clone()), row.function.clone(), row.value.clone()];
        let name = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        let factor = factor(&row.unit).map_err(damage)?;
        let values = each(&[row.iteration_count], &[row.sample_measured_value]).map_err(damage)?;
        results.add(&name, &time(), values.into_iter().map(|value| value * factor))?;
    }
    Ok(results)
}

/// Nanoseconds in a unit.
fn factor(unit: &str) -> Result<f64, TimesError> {
    match unit {
        "ns" => Ok(1.0),
        "us" | "µs" => Ok(1e3),
        "ms" => Ok(1e6),
        "s" => Ok(1e9),
        other => Err(TimesError::Unit(other.to_owned())),
    }
}

/// The time of each iteration.
fn each(iterations: &[f64], times: &[f64]) -> Result<Vec<f64>, TimesError> {
    if iterations.len() != times.len() || times.is_empty() {
        return Err(TimesError::Unequal { iterations: iterations.len(), times: times.len() });
    }
    match iterations.iter().all(|count| *count > 0.0) {
        true => Ok(times.iter().zip(iterations).map(|(time, count)| time / count).collect()),
        false => Err(TimesError::NoIterations),
    }
}
