//! Google Benchmark: `--benchmark_out=FILE --benchmark_out_format=json`.
//!
//! Repetitions are the values; the aggregates that the library makes of them are left out.

use crate::format::Format;
use crate::json;
use crate::result::{Column, Damage, Metric, Place};
use crate::results::Results;
use crate::text::Text;
use serde::Deserialize;

pub(super) const FORMAT: Format = Format {
    name: "google-benchmark",
    help: "PROGRAM --benchmark_out=FILE --benchmark_out_format=json",
    recognises: |head| head.contains("\"benchmarks\"") && head.contains("\"context\""),
    read,
};

#[derive(Deserialize)]
struct File {
    context: Context,
    benchmarks: Vec<Row>,
}

#[derive(Deserialize)]
struct Context {
    #[serde(default)]
    host_name: Option<String>,
    #[serde(default)]
    num_cpus: Option<u64>,
    #[serde(default)]
    library_version: Option<String>,
    #[serde(default)]
    library_build_type: Option<String>,
    #[serde(default)]
    cpu_scaling_enabled: bool,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    #[serde(default)]
    run_name: Option<String>,
    #[serde(default)]
    run_type: Option<String>,
    #[serde(default)]
    error_occurred: bool,
    #[serde(default)]
    error_message: String,
    #[serde(default)]
    real_time: Option<f64>,
    #[serde(default)]
    cpu_time: Option<f64>,
    #[serde(default)]
    time_unit: Option<String>,
}

fn read(text: &mut Text<'_>, _: &[Column]) -> Result<Results, Damage> {
    let File { context, benchmarks } = json::read(&text.whole()?)?;
    let version = context.library_version.map(|version| format!(" {}", version.trim_start_matches('v')));
    let mut imported = Results::of(format!("Google Benchmark{}", version.unwrap_or_default()));
    (imported.host, imported.cpus) = (context.host_name, context.num_cpus);
    if context.library_build_type.as_deref() == Some("debug") {
        imported.note("the benchmark library was built for debugging");
    }
    if context.cpu_scaling_enabled {
        imported.note("CPU frequency scaling was enabled");
    }
    for row in benchmarks.iter().filter(|row| row.run_type.as_deref() != Some("aggregate")) {
        let name = row.run_name.as_ref().unwrap_or(&row.name);
        if row.error_occurred {
            imported.note(format!("{name} failed and is left out: {}", row.error_message));
            continue;
        }
        let factor = match row.time_unit.as_deref().unwrap_or("ns") {
            "ns" => 1.0,
            "us" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            other => return Err(Damage::at(Place::Whole, format!("{name}: '{other}' is not a time unit"))),
        };
        let [real, cpu] = [row.real_time, row.cpu_time].map(|time| time.map(|time| time * factor));
        imported.add_one(name, &Metric::lower("real_time_ns", "ns"), real)?;
        imported.add_one(name, &Metric::lower("cpu_time_ns", "ns"), cpu)?;
    }
    Ok(imported)
}
