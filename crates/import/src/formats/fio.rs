//! fio: `fio --output-format=json --output=FILE JOBFILE`, and json+.

use crate::format::Format;
use crate::json;
use crate::result::{Column, Damage, Metric};
use crate::results::Results;
use crate::text::Text;
use serde::Deserialize;
use std::collections::BTreeMap;

pub(super) const FORMAT: Format = Format {
    name: "fio",
    help: "fio --output-format=json --output=FILE JOBFILE",
    recognises: |head| head.contains("\"fio version\""),
    read,
};

/// Options that say where files are and how results are written, not which work is done.
const PLACES: [&str; 5] = ["filename", "directory", "name", "output", "output-format"];

#[derive(Deserialize)]
struct File {
    #[serde(rename = "fio version")]
    version: String,
    #[serde(default)]
    timestamp: Option<u64>,
    #[serde(rename = "global options", default)]
    global: BTreeMap<String, String>,
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    #[serde(default)]
    error: i64,
    #[serde(default)]
    hostname: Option<String>,
    #[serde(rename = "job options", default)]
    options: BTreeMap<String, String>,
    read: Direction,
    write: Direction,
    #[serde(default)]
    trim: Option<Direction>,
}

#[derive(Deserialize)]
struct Direction {
    io_bytes: u64,
    iops: f64,
    #[serde(default)]
    lat_ns: Option<Latency>,
    #[serde(default)]
    clat_ns: Option<Latency>,
}

#[derive(Deserialize)]
struct Latency {
    mean: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

fn read(text: &mut Text<'_>, _: &[Column]) -> Result<Results, Damage> {
    let file: File = json::read(&text.whole()?)?;
    let mut imported = Results::of(file.version.replace("fio-", "fio "));
    imported.unix_s = file.timestamp;
    imported.host = file.jobs.first().and_then(|job| job.hostname.clone()).filter(|host| !host.is_empty());
    let of_one = if file.jobs.len() == 1 { file.jobs[0].options.clone() } else { BTreeMap::new() };
    let options = file.global.into_iter().chain(of_one).filter(|(key, _)| !PLACES.contains(&key.as_str()));
    imported.parameters = options.map(|(key, value)| (key.replace('-', "_"), value)).collect();
    for job in &file.jobs {
        if job.error != 0 {
            imported.note(format!("job {} ended with error {} and is left out", job.jobname, job.error));
            continue;
        }
        let trim = job.trim.as_ref().map(|trim| ("trim", trim));
        for (word, direction) in [("read", &job.read), ("write", &job.write)].into_iter().chain(trim) {
            if direction.io_bytes > 0 {
                add(&mut imported, &format!("{} {word}", job.jobname), direction)?;
            }
        }
    }
    Ok(imported)
}

fn add(imported: &mut Results, name: &str, direction: &Direction) -> Result<(), Damage> {
    let Direction { iops, lat_ns, clat_ns, .. } = direction;
    imported.add(name, &Metric::higher("iops", "I/O/s"), [*iops])?;
    let mean = lat_ns.as_ref().or(clat_ns.as_ref()).map(|of| of.mean);
    imported.add_one(name, &Metric::lower("latency_mean_ns", "ns"), mean)?;
    // fio has percentiles of one of the two, by its option lat_percentiles.
    let percentile = |of: &Option<Latency>| of.as_ref()?.percentile.get("99.000000").copied();
    let p99 = percentile(clat_ns).or_else(|| percentile(lat_ns));
    imported.add_one(name, &Metric::lower("latency_p99_ns", "ns"), p99)
}
