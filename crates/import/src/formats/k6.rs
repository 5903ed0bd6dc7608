//! k6: `k6 run --summary-export=FILE`, or what `handleSummary` gets, as JSON.

use crate::format::Format;
use crate::json;
use crate::result::{Column, Damage, Metric, Place};
use crate::results::Results;
use crate::text::Text;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) const FORMAT: Format = Format {
    name: "k6",
    help: "k6 run --summary-export=FILE SCRIPT",
    recognises: |head| {
        head.contains("\"metrics\"") && (head.contains("\"iterations\"") || head.contains("\"http_reqs\""))
    },
    read,
};

#[derive(Deserialize)]
struct File {
    metrics: BTreeMap<String, BTreeMap<String, Value>>,
}

impl File {
    /// A figure of a metric: in `values`, or, as --summary-export writes it, next to the others.
    fn value(&self, metric: &str, key: &str) -> Option<f64> {
        let metric = self.metrics.get(metric)?;
        metric.get("values").map_or_else(|| metric.get(key), |values| values.get(key)).and_then(Value::as_f64)
    }
}

fn read(text: &mut Text<'_>, _: &[Column]) -> Result<Results, Damage> {
    let file: File = json::read(&text.whole()?)?;
    let mut imported = Results::of("k6");
    imported.parameter("vus_max", file.value("vus_max", "value").or_else(|| file.value("vus_max", "max")));
    imported.add_one("", &Metric::higher("requests_per_s", "requests/s"), file.value("http_reqs", "rate"))?;
    if !file.metrics.contains_key("http_reqs") {
        let rate = file.value("iterations", "rate");
        let rate = rate.ok_or_else(|| Damage::at(Place::Whole, "has no rate of http_reqs or iterations"))?;
        imported.add("", &Metric::higher("iterations_per_s", "iterations/s"), [rate])?;
    }
    for (key, name) in [
        ("avg", "duration_mean_ms"),
        ("med", "duration_p50_ms"),
        ("p(95)", "duration_p95_ms"),
        ("p(99)", "duration_p99_ms"),
    ] {
        imported.add_one("", &Metric::lower(name, "ms"), file.value("http_req_duration", key))?;
    }
    let failed = file.value("http_req_failed", "rate").or_else(|| file.value("http_req_failed", "value"));
    if let Some(share) = failed.filter(|share| *share > 0.0) {
        imported.note(format!("{} % of the requests failed", 100.0 * share));
    }
    Ok(imported)
}
