//! fio: `fio --output-format=json --output=FILE JOBFILE`, and json+.
//!
//! Copies of a job (`numjobs`) run at once, and without `group_reporting` each has a part of the rate: they are one value together.

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
    groupid: u64,
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
    total_ios: f64,
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

impl Job {
    /// What it did in each direction.
    fn directions(&self) -> [(&'static str, Option<&Direction>); 3] {
        [("read", Some(&self.read)), ("write", Some(&self.write)), ("trim", self.trim.as_ref())]
    }
}

impl Direction {
    fn mean(&self) -> Option<f64> {
        self.lat_ns.as_ref().or(self.clat_ns.as_ref()).map(|of| of.mean)
    }

    fn p99(&self) -> Option<f64> {
        // fio has percentiles of one of the two, by its option lat_percentiles.
        let percentile = |of: &Option<Latency>| of.as_ref()?.percentile.get("99.000000").copied();
        percentile(&self.clat_ns).or_else(|| percentile(&self.lat_ns))
    }
}

fn read(text: &mut Text<'_>, _: &[Column]) -> Result<Results, Damage> {
    let file: File = json::read(&text.whole()?)?;
    let mut imported = Results::of(file.version.replace("fio-", "fio "));
    imported.unix_s = file.timestamp;
    imported.host = file.jobs.first().and_then(|job| job.hostname.clone()).filter(|host| !host.is_empty());
    let groups = groups(&file.jobs);
    let of_one = if let [copies] = &groups[..] { copies[0].options.clone() } else { BTreeMap::new() };
    let options = file.global.into_iter().chain(of_one).filter(|(key, _)| !PLACES.contains(&key.as_str()));
    imported.parameters = options.map(|(key, value)| (key.replace('-', "_"), value)).collect();
    for copies in &groups {
        let name = &copies[0].jobname;
        if let Some(failed) = copies.iter().find(|job| job.error != 0) {
            imported.note(format!("job {name} ended with error {} and is left out", failed.error));
            continue;
        }
        if copies.len() > 1 {
            let count = copies.len();
            imported.note(format!(
                "{count} jobs named {name} ran at once: their rates are added, and percentiles are unknown; \
                 group_reporting=1 has them"
            ));
        }
        for at in 0..copies[0].directions().len() {
            let all = copies.iter().map(|job| job.directions()[at]);
            let all: Vec<(&str, &Direction)> = all.filter_map(|(word, of)| Some((word, of?))).collect();
            let did: Vec<&Direction> = all.iter().map(|(_, of)| *of).filter(|of| of.io_bytes > 0).collect();
            if let (Some((word, _)), [_, ..]) = (all.first(), &did[..]) {
                add(&mut imported, &format!("{name} {word}"), &did)?;
            }
        }
    }
    Ok(imported)
}

/// The jobs, those of one name and group together, in the order of their first ones.
fn groups(jobs: &[Job]) -> Vec<Vec<&Job>> {
    let mut places = BTreeMap::new();
    let mut groups: Vec<Vec<&Job>> = Vec::new();
    for job in jobs {
        let at = *places.entry((job.jobname.as_str(), job.groupid)).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[at].push(job);
    }
    groups
}

fn add(imported: &mut Results, name: &str, copies: &[&Direction]) -> Result<(), Damage> {
    let rate = copies.iter().map(|of| of.iops).sum::<f64>();
    imported.add(name, &Metric::higher("iops", "I/O/s"), [rate])?;
    let ios: f64 = copies.iter().map(|of| of.total_ios).sum();
    let (mean, p99) = match copies {
        [only] => (only.mean(), only.p99()),
        _ => {
            let sum = copies.iter().map(|of| Some(of.mean()? * of.total_ios)).sum::<Option<f64>>();
            (sum.filter(|_| ios > 0.0).map(|sum| sum / ios), None)
        }
    };
    imported.add_one(name, &Metric::lower("latency_mean_ns", "ns"), mean)?;
    imported.add_one(name, &Metric::lower("latency_p99_ns", "ns"), p99)
}
