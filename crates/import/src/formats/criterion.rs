//! criterion: what `cargo criterion --message-format=json` prints, or a `sample.json`, `estimates.json` or `raw.csv` of its folder
//! `target/criterion`.
//!
//! A value is the time of a sample divided by its iterations. `estimates.json` has one: the slope where there is one, else the mean.

use crate::format::Format;
use crate::json;
use crate::result::{Column, Damage, Imported, Metric, Place};
use ::csv::ReaderBuilder;
use serde::Deserialize;

const CSV_HEAD: &str = "group,function,value,throughput_num";
const COMPLETE: &str = "benchmark-complete";

pub(super) const FORMAT: Format = Format {
    name: "criterion",
    help: "cargo criterion --message-format=json >FILE, or target/criterion/NAME/new/sample.json",
    recognises: |head| {
        ["\"sampling_mode\"", "\"point_estimate\"", COMPLETE].iter().any(|word| head.contains(word))
            || head.starts_with(CSV_HEAD)
    },
    read,
};

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

fn read(text: &str, _: &[Column]) -> Result<Imported, Damage> {
    let mut imported = Imported::of("criterion");
    if text.starts_with(CSV_HEAD) {
        records(text, &mut imported)?;
    } else if text.contains(COMPLETE) {
        messages(text, &mut imported)?;
    } else if text.contains("\"iters\"") || text.contains("\"sampling_mode\"") {
        let Sample { iters, times } = json::read(text)?;
        imported.add("", time(), each(&iters, &times).map_err(|what| Damage::at(Place::Whole, what))?);
    } else {
        let Estimates { mean, slope } = json::read(text)?;
        imported.add("", time(), [slope.unwrap_or(mean).point_estimate]);
    }
    Ok(imported)
}

fn time() -> Metric {
    Metric::lower("time_ns", "ns")
}

fn messages(text: &str, imported: &mut Imported) -> Result<(), Damage> {
    for (before, line) in (0..).zip(text.lines()).filter(|(_, line)| line.trim_start().starts_with('{')) {
        let message: Message = json::line(line, before)?;
        if message.reason != COMPLETE {
            continue;
        }
        let damage = |what: String| Damage::at(Place::Line(before + 1), format!("{}: {what}", message.id));
        match (&message.typical, message.measured_values.is_empty()) {
            (_, false) => {
                let factor = factor(&message.unit).map_err(damage)?;
                let values = each(&message.iteration_count, &message.measured_values).map_err(damage)?;
                imported.add(&message.id, time(), values.into_iter().map(|value| value * factor));
            }
            (Some(typical), true) => {
                let factor = factor(&typical.unit).map_err(damage)?;
                imported.add(&message.id, time(), [typical.estimate * factor]);
            }
            (None, true) => return Err(damage("has neither measured_values nor typical".to_owned())),
        }
    }
    Ok(())
}

fn records(text: &str, imported: &mut Imported) -> Result<(), Damage> {
    let mut reader = ReaderBuilder::new().from_reader(text.as_bytes());
    for row in reader.deserialize::<Record>() {
        let row = row.map_err(|why| super::csv::damage(&why))?;
        let damage = |what| Damage::at(Place::Whole, format!("{}: {what}", row.group));
        let parts = [Some(row.group.clone()), row.function.clone(), row.value.clone()];
        let name = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        let factor = factor(&row.unit).map_err(damage)?;
        let values = each(&[row.iteration_count], &[row.sample_measured_value]).map_err(damage)?;
        imported.add(&name, time(), values.into_iter().map(|value| value * factor));
    }
    Ok(())
}

/// Nanoseconds in a unit.
fn factor(unit: &str) -> Result<f64, String> {
    match unit {
        "ns" => Ok(1.0),
        "us" | "µs" => Ok(1e3),
        "ms" => Ok(1e6),
        "s" => Ok(1e9),
        other => Err(format!("'{other}' is not a time unit; only criterion's wall time can be imported")),
    }
}

/// The time of each iteration.
fn each(iterations: &[f64], times: &[f64]) -> Result<Vec<f64>, String> {
    if iterations.len() != times.len() || times.is_empty() {
        return Err(format!("{} iteration counts for {} times", iterations.len(), times.len()));
    }
    match iterations.iter().all(|count| *count > 0.0) {
        true => Ok(times.iter().zip(iterations).map(|(time, count)| time / count).collect()),
        false => Err("an iteration count is not positive".to_owned()),
    }
}
