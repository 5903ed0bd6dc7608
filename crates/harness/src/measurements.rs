//! What a phase reports: its metrics, its parts in time, flags, reasons for which it does not count, and its detail.

use crate::document::{Document, FORMAT, LoadRow};
use crate::phase::{self, Unverified};
use crate::phase_context::{Event, Measured};
use crate::users::{self, BESIDE};
use baremark_lab::search::Step;
use baremark_load::latency::Latencies;
use baremark_load::record::Part;
use baremark_load::workload::{FAILED_OPERATIONS, LATENCIES};
use baremark_model::job::{JobError, JobRun};
use baremark_model::maximum::Said;
use baremark_model::qos::Reading;
use baremark_model::seam::Sample;
use baremark_model::wire::{Detail, Point};
use baremark_services::card::Tier;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The metric of a search.
pub(crate) const MAXIMUM: &str = "maximum_users";

/// When what happened in a phase.
pub(crate) struct Marks {
    begun: Instant,
    /// The begin of the window.
    window: Option<Instant>,
    /// Each window of a search.
    probes: Vec<Point>,
}

impl Marks {
    pub(crate) fn new(begun: Instant) -> Marks {
        Marks { begun, window: None, probes: Vec::new() }
    }

    pub(crate) fn see(&mut self, event: &Event<'_>) {
        match event {
            Event::Second(row) => {
                self.window = self.window.or_else(|| Instant::now().checked_sub(Duration::from_secs_f64(row.at_s)));
            }
            Event::Search(Step::Window { level, said, reading, .. }) => {
                self.probes.push(probe(*level, *said, reading, nanos(self.begun.elapsed())));
            }
            Event::Search(Step::Trial { .. }) => {}
        }
    }

    /// The begin of the window, in ns since the phase began.
    fn begin_ns(&self, part: &Part) -> u64 {
        let began = self.window.or_else(|| Instant::now().checked_sub(Duration::from_nanos(part.elapsed_ns)));
        began.map_or(0, |began| nanos(began.saturating_duration_since(self.begun)))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A window of a search that ended at `end_ns`.
fn probe(level: f64, said: Said, reading: &Reading, end_ns: u64) -> Point {
    let ms = |metric: &str, ns: Option<u64>| ns.map(|ns| Sample::new(metric, ns as f64 / 1e6));
    let length_ns = nanos(Duration::from_secs_f64(reading.elapsed_s.clamp(0.0, 1e9)));
    let mut samples = vec![
        Sample::new("users", level),
        Sample::new("operations_per_s", reading.achieved_per_s),
        Sample::new(FAILED_OPERATIONS, reading.failed as f64),
    ];
    let percentiles =
        [("latency_p50_ms", reading.p50_ns), ("latency_p95_ms", reading.p95_ns), ("latency_p99_ms", reading.p99_ns)];
    samples.extend(percentiles.into_iter().filter_map(|(metric, ns)| ms(metric, ns)));
    // Undecided windows have neither.
    samples.extend(
        (said != Said::Insufficient).then(|| Sample::new("limits_met", f64::from(u8::from(said == Said::Pass)))),
    );
    samples.extend(reading.utilization.iter().map(|(key, value)| Sample::new(by_tier(key), *value)));
    Point::new("probe", (end_ns.saturating_sub(length_ns), end_ns), samples, None)
}

/// What a phase reports.
pub(crate) fn run(measured: &Measured, document: &Document, marks: &Marks, searched: bool) -> JobRun {
    let loads = loads(measured);
    let parts: Vec<&Part> = measured.parts.iter().flatten().collect();
    let mut samples = if parts.len() == loads.len() { samples(&loads, &parts) } else { Vec::new() };
    let mut void = Vec::new();
    let mut flags = measured.remarks.clone();
    if searched {
        match phase::verified(document) {
            Ok(users) => samples.push(Sample::new(MAXIMUM, users)),
            Err(why @ (Unverified::Refuted(_) | Unverified::Unknown(_))) => void.push(why.to_string()),
        }
        samples.push(Sample::new("probes", marks.probes.len() as f64));
    } else {
        flags.extend(loads.iter().flat_map(|load| &load.broken).map(|broken| format!("limit exceeded: {broken}")));
    }
    if loads.iter().any(|load| load.password_cpus_used.is_none()) {
        flags.push(
            "an app server did not report its CPU time for checking passwords: operations_per_app_cpu_s is unknown"
                .to_owned(),
        );
    }
    let mut points = marks.probes.clone();
    if let ([load], [part]) = (&loads[..], &parts[..]) {
        let begin_ns = marks.begin_ns(part);
        // What users do in addition to their operations is in no latency of theirs.
        let of_users = |point: Point| if BESIDE.contains(&point.name.as_str()) { point.of(&[]) } else { point };
        points.extend(baremark_load::workload::points(part, begin_ns).into_iter().map(of_users));
        points.extend(propagation(part, (begin_ns, begin_ns + part.elapsed_ns)));
        points.extend(seconds(load, begin_ns));
    } else if parts.len() == loads.len() {
        // Applications are measured one after the other.
        let phase = (0, nanos(marks.begun.elapsed()));
        let rows = measured.rows.iter().zip(&measured.parts);
        points.extend(rows.filter_map(|(row, part)| Some(of_application(&row.name, part.as_ref()?, phase))));
    }
    JobRun {
        samples,
        checked: "no bid lost, nothing sold twice, money adds up".to_owned(),
        flags,
        void,
        points,
        detail: detail(document),
    }
}

/// From the sending of a bid until attendees saw it.
fn propagation(part: &Part, whole: (u64, u64)) -> Option<Point> {
    let pushed = part.operations.iter().find(|operation| operation.name == users::PUSHED)?;
    Some(Point::new("propagation", whole, Vec::new(), Some(pushed.delay.encoded()?)).of(&["propagation_ms"]))
}

/// Latencies of one application of several.
fn of_application(name: &str, part: &Part, phase: (u64, u64)) -> Point {
    Point::new(name, phase, Vec::new(), latencies(part).encoded()).of(&[LATENCIES])
}

/// Latencies of users' operations; what they do in addition to them is in none.
fn latencies(part: &Part) -> Latencies {
    let mut all = Latencies::default();
    let own = part.operations.iter().filter(|operation| !BESIDE.contains(&operation.name.as_str()));
    own.for_each(|operation| all.merge(&operation.corrected));
    all
}

/// The windows whose metrics count.
pub(crate) fn loads(measured: &Measured) -> Vec<LoadRow> {
    measured.rows.iter().filter_map(|row| row.load.clone()).collect()
}

pub(crate) fn failed(part: &Part) -> u64 {
    part.operations.iter().map(|operation| operation.failed()).sum()
}

/// Operations that have ended, well or not.
pub(crate) fn ended(part: &Part) -> u64 {
    part.operations.iter().map(|operation| operation.raw.count()).sum::<u64>() + failed(part)
}

pub(crate) fn too_many_failures(loads: &[LoadRow], failed: u64, all: u64) -> JobError {
    if all == 0 {
        return JobError::failed("no operation ended in the measured time");
    }
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for (kind, count) in loads.iter().flat_map(|load| &load.failures) {
        *kinds.entry(kind).or_default() += count;
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    JobError::Failed {
        what: format!("{failed} of {all} operations failed: {}", kinds.join(", ")),
        log: loads.iter().flat_map(|load| load.failure_examples.clone()).collect(),
    }
}

/// The metrics of all applications together: rates, counts and CPU time are summed, latencies are of all operations.
fn samples(loads: &[LoadRow], parts: &[&Part]) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut add = |metric: String, value: Option<f64>| {
        samples.extend(value.map(|value| Sample::new(metric, value)));
    };
    let sum = |of: &dyn Fn(&LoadRow) -> Option<f64>| loads.iter().filter_map(of).reduce(|left, right| left + right);
    let mut all_latencies = Latencies::default();
    parts.iter().for_each(|part| all_latencies.merge(&latencies(part)));
    let ms = |ns: u64| ns as f64 / 1e6;
    let bids = |part: &&Part| {
        let operation = part.operations.iter().find(|operation| operation.name == users::BID)?;
        Some(operation.in_time as f64 * 1e9 / part.elapsed_ns.max(1) as f64)
    };
    let bids = parts.iter().filter_map(bids).reduce(|left, right| left + right);
    let one = if let [one] = loads { Some(one) } else { None };
    add("operations_per_s".to_owned(), sum(&|load| Some(load.operations_per_s)));
    add("bids_per_s".to_owned(), bids);
    for (metric, share) in [("latency_p50_ms", 0.5), ("latency_p95_ms", 0.95), ("latency_p99_ms", 0.99)] {
        add(metric.to_owned(), all_latencies.percentile(share).map(ms));
    }
    add(
        "propagation_p95_ms".to_owned(),
        one.and_then(|load| load.propagation.as_ref()).and_then(|delay| delay.p95_ns).map(ms),
    );
    add("limits_exceeded".to_owned(), sum(&|load| Some(load.broken.len() as f64)));
    let (bad, all): (u64, u64) =
        (parts.iter().map(|part| failed(part)).sum(), parts.iter().map(|part| ended(part)).sum());
    add("failed".to_owned(), Some(100.0 * bad as f64 / all.max(1) as f64));
    add("operations_per_app_cpu_s".to_owned(), one.and_then(|load| load.operations_per_app_cpu_second));
    add("app_cpu_passwords".to_owned(), one.and_then(passwords));
    for tier in Tier::ALL {
        let label = tier.label();
        add(format!("cpus_{label}"), sum(&|load| load.cpus_used.get(&format!("{label}.cpus")).copied()));
    }
    add("users".to_owned(), sum(&|load| Some(load.users)));
    add("generator_cpus".to_owned(), sum(&|load| Some(load.generator_cpus_used)));
    samples.extend(one.into_iter().flat_map(elasticity));
    samples
}

/// The share of the app tier's CPU time that checking passwords took, in %.
fn passwords(load: &LoadRow) -> Option<f64> {
    let app = load.cpus_used.get(&format!("{}.cpus", Tier::App.label())).filter(|cpus| **cpus > 0.0)?;
    Some(100.0 * load.password_cpus_used? / app)
}

/// How well the number of servers followed the demand.
fn elasticity(load: &LoadRow) -> Vec<Sample> {
    let Some(elastic) = &load.elasticity else { return Vec::new() };
    let mut values = vec![("adaptations", elastic.adaptations.len() as f64)];
    if let Some(app) = elastic.metrics.get(Tier::App.label()) {
        values.extend([
            ("app_under_provisioned", app.accuracy_under),
            ("app_over_provisioned", app.accuracy_over),
            ("app_under_provisioned_time", 100.0 * app.timeshare_under),
            ("app_over_provisioned_time", 100.0 * app.timeshare_over),
            ("app_jitter", app.jitter_per_min),
        ]);
    }
    values.into_iter().map(|(metric, value)| Sample::new(metric, value)).collect()
}

/// What each second brought, and the CPU time of each tier in it.
fn seconds(load: &LoadRow, begin_ns: u64) -> Vec<Point> {
    let mut before = 0;
    let points = |row: &crate::document::SecondRow| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of a window")]
        let now = (row.at_s * 1e9) as u64;
        let from = std::mem::replace(&mut before, now);
        let length_s = now.saturating_sub(from) as f64 / 1e9;
        let all = vec![
            Sample::new("requests_per_s", row.answered as f64 / length_s.max(1e-9)),
            Sample::new(FAILED_OPERATIONS, row.failed as f64),
            Sample::new("users", row.users),
            Sample::new("app_servers", row.apps as f64),
            Sample::new("web_servers", row.webs as f64),
        ];
        let tiers = row.cpus_used.iter().chain(&row.waits).map(|(key, value)| Sample::new(by_tier(key), *value));
        let point =
            |name: &str, samples: Vec<Sample>| Point::new(name, (begin_ns + from, begin_ns + now), samples, None);
        [point("all", all), point("tiers", tiers.collect())]
    };
    load.series.iter().flat_map(points).collect()
}

/// The metric of a key such as `app.cpus`: `cpus_app`.
fn by_tier(key: &str) -> String {
    let (tier, what) = key.split_once('.').unwrap_or((key, "share_of_cpus"));
    match what {
        "disk" => format!("disk_bytes_per_s_{tier}"),
        "waiting" => format!("threads_waiting_for_cpu_{tier}"),
        stall if stall.ends_with("_stall") => format!("{stall}_share_{tier}"),
        what => format!("{what}_{tier}"),
    }
}

/// The most seconds of a detail; the points of the series have all.
const MOST_SECONDS: usize = 600;

fn detail(document: &Document) -> Option<Detail> {
    let mut document = document.clone();
    for load in document.applications.iter_mut().filter_map(|row| row.load.as_mut()) {
        if load.series.len() > MOST_SECONDS {
            load.series.clear();
        }
    }
    let document = serde_json::to_value(document).ok()?;
    Some(Detail { format: FORMAT.to_owned(), document })
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::hdr;
    use baremark_model::percentile::Percentile;
    use serde_json::json;

    /// Each application's users have threads of their own.
    #[test]
    fn the_generators_of_several_applications_are_summed() {
        let load = |cpus: f64| -> LoadRow {
            let generator = json!({ "verdict": "kept-up", "reasons": [], "send_lag": null, "busiest_cpu_share": cpus, "threads": [] });
            let row = json!({
                "users": 10.0, "elapsed_s": 20.0, "kept": true, "broken": [], "operations_per_s": 5.0, "operations": [], "failures": {},
                "failure_examples": [], "mix": { "kept": true, "off": [], "shares": [] }, "cpus_used": {}, "generator_cpus_used": cpus,
                "generator": generator, "series": [],
            });
            serde_json::from_value(row).expect("a load")
        };
        // Users who lag behind bid in a window what they were meant to bid before it.
        let bids = |in_time: u64| {
            let mut part = Part::new(&[users::BID.to_owned()]);
            (part.operations[0].in_time, part.elapsed_ns) = (in_time, 20_000_000_000);
            part
        };
        let parts = [bids(40), bids(60)];
        let samples = samples(&[load(0.5), load(0.75)], &parts.iter().collect::<Vec<_>>());
        let of = |metric: &str| samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value);
        assert_eq!(["generator_cpus", "operations_per_s", "bids_per_s"].map(of), [1.25, 10.0, 5.0].map(Some));
    }

    /// Percentiles of several trials are those of all their samples, for which each must be stored.
    #[test]
    fn propagation_and_several_applications_have_their_distributions() {
        let mut part = Part::new(&[users::BID, users::PUSHED].map(str::to_owned));
        (1..=100).for_each(|ms| part.operations[0].corrected.record(ms * 1_000_000));
        (1..=80).for_each(|ms| part.operations[1].delay.record(ms * 1_000_000));
        part.operations[1].corrected.record(20_000_000_000);
        let of = |key: &str| Percentile::of_key(key).map(|percentile| percentile.of).into_iter().collect::<Vec<_>>();
        let count =
            |point: &Point| hdr::decoded(point.histogram.as_deref().expect("some")).expect("as written").count();
        let pushed = propagation(&part, (5, 9)).expect("bids were seen");
        assert_eq!((&pushed.distributions, count(&pushed)), (&of("propagation_p95_ms"), 80));
        let own = of_application("second", &part, (0, 9));
        assert_eq!(
            (&own.distributions, count(&own)),
            (&of("latency_p95_ms"), 100),
            "waiting for a bid is not a latency"
        );
        assert_eq!(propagation(&Part::new(&[users::BID.to_owned()]), (5, 9)), None);
    }
}
