//! `sessions`: desktop-like users of about 70 MB each, and how many of them a place can serve.
//!
//! The work of terminal servers: many processes with a working set each, which are made, ended and switched. With `most`
//! set, the number of users is searched at which 95 of 100 actions still keep the limit, and responses are of that number; else `users` of
//! them act. Where even `most` users keep the limit, the search has no answer, and says how many they are at least.

use crate::desktop::{Script, Told};
use crate::run_folder::{Stage, Written};
use baremark_model::arm::ResolvedArm;
use baremark_model::command::TIMEOUT;
use baremark_model::descriptor::Descriptor;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::maximum::{self, KneeRow};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::Sample;
use baremark_model::shown::{Shown, ShownCell, ShownRow};
use baremark_model::units::{Bytes, Nanos, SECOND};
use baremark_model::wire::{Detail, Point};
use serde_json::json;
use std::time::Duration;

/// The name and version of what it reports alongside its metrics.
const FORMAT: &str = "baremark-sessions/1";

const USERS: Knob = Knob::new("users", Kind::Count { min: 1, max: 10_000 }, Default::Typed("4"))
    .help("concurrent users, a process each");
const MOST: Knob = Knob::new("most", Kind::Count { min: 2, max: 10_000 }, Default::Derived("no search: just users"))
    .help("searches the most users within the limit, up to so many; duration is then that of each window");
const EACH: Knob = Knob::new("each", Kind::Size { min: 1 << 20, max: 1 << 36 }, Default::Typed("70 MiB"))
    .help("working set of a user");
const PACE: Knob = Knob::new("pace", Kind::Time { min: 1_000_000, max: 3600 * SECOND }, Default::Typed("1 s"))
    .help("from one action of a user to its next, whatever the first takes");
const LIMIT: Knob = Knob::new("limit", Kind::Time { min: 100_000, max: 3600 * SECOND }, Default::Typed("200 ms"))
    .help("limit that 95 % of actions must keep");
const TIME: Knob = Knob::new("duration", Kind::Time { min: SECOND / 10, max: 3600 * SECOND }, Default::Typed("10 s"))
    .help("how long is measured");

static METRICS: [Metric; 8] = [
    Metric::lower("response_p95_ms", "ms", Aggregate::Most)
        .help("response of an action from when it was due, 95th percentile"),
    Metric::lower("response_p50_ms", "ms", Aggregate::Mean).help("the same, median"),
    Metric::lower("response_p99_ms", "ms", Aggregate::Most).help("the same, 99th percentile; absent below 368 actions"),
    Metric::lower("response_longest_ms", "ms", Aggregate::Most).help("the longest"),
    Metric::lower("slow", "%", Aggregate::Mean).help("actions over the limit"),
    Metric::higher("actions_per_s", "actions/s", Aggregate::Sum).help("actions that were due in the measured time"),
    Metric::higher("processes_per_s", "processes/s", Aggregate::Sum).help("documents opened, a process each"),
    Metric::higher("users_within_limit", "users", Aggregate::Sum).help(
        "most users who were seen to keep the limit with 95 of 100 actions, by search; absent where `most` of \
         them do",
    ),
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "sessions",
    help: "desktop-like users: typing, leafing, replacing, saving, opening",
    source: "after the terminal-server study of the 2009 evaluation of AMD's RVI",
    parameters: &[TIMEOUT, USERS, MOST, EACH, PACE, LIMIT, TIME],
    metrics: &METRICS,
    alternates: |_| true,
    quick: &[("each", "16 MiB"), ("pace", "50 ms"), ("duration", "1 s")],
    check: |arm| script(arm, 0).map(drop),
    ..Descriptor::JOB
};

/// Desktop-like users.
#[derive(Clone, Copy, Debug)]
pub struct Sessions;

impl Job for Sessions {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let script = script(arm, around.seed)?;
        let need = script.users.saturating_mul(script.each_bytes);
        let available = baremark_sys::process::available_memory_bytes().unwrap_or(u64::MAX);
        if need > available {
            let what = format!("{} users need {need} bytes and the site has {available}", script.users);
            return Err(JobError::Missing { what, remedy: "write fewer users, or a smaller each".to_owned() });
        }
        Ok(Box::new(PreparedSessions { arm, around, script, written: Written::NOTHING }))
    }
}

fn script(arm: &ResolvedArm, seed: u64) -> Result<Script, InvalidValue> {
    let most = MOST.find(arm)?;
    Ok(Script {
        users: most.map_or_else(|| USERS.get(arm), Ok)?,
        search: most.is_some(),
        each_bytes: EACH.get::<Bytes>(arm)?.0,
        pace_ns: PACE.get::<Nanos>(arm)?.0,
        limit_ns: LIMIT.get::<Nanos>(arm)?.0,
        time_ns: TIME.get::<Nanos>(arm)?.0,
        seed,
    })
}

struct PreparedSessions<'s> {
    arm: &'s ResolvedArm,
    around: JobContext<'s>,
    script: Script,
    written: Written,
}

impl ReadyJob for PreparedSessions<'_> {
    fn rest(&mut self) -> Result<(), JobError> {
        self.written.sync()
    }

    fn run(&mut self) -> Result<JobRun, JobError> {
        let mut stage = Stage::open(self.arm, self.around)?;
        self.written.note(&stage);
        let script = serde_json::to_string(&self.script).map_err(JobError::failed)?;
        let program = self.around.keeper.to_string_lossy();
        let outcome = stage.run(&[&*program, "desktop", "drive", &script])?;
        let last = outcome.stdout.text.lines().last().unwrap_or_default();
        let told: Told = serde_json::from_str(last)
            .map_err(|why| JobError::failed(format!("the driver's last line is not valid ({why}): {last}")))?;
        if let Some(wrong) = told.wrong {
            return Err(JobError::failed(format!("a user went wrong: {wrong}")));
        }
        if told.actions == 0 {
            return Err(JobError::failed(
                "no action was due in the measured time; write a longer duration or a shorter pace",
            ));
        }
        let checked = format!("{} actions; {} documents opened as they were saved", told.actions, told.opened);
        let flags = told.search.iter().cloned().collect();
        let points = vec![responses(&told)];
        let detail = told.knee.as_ref().map(|knee| detail(knee, told.most_users));
        Ok(JobRun { samples: samples(&told), checked, flags, points, detail, ..JobRun::default() })
    }
}

/// The search, level by level, of which reports draw the knee.
fn detail(search: &maximum::Document, most_users: Option<f64>) -> Detail {
    let row = |row: &KneeRow| {
        let times = [row.p50_ns, row.p95_ns, row.p99_ns].map(ShownCell::from);
        let cells = [ShownCell::Count(row.windows as u64)].into_iter().chain(times);
        ShownRow { what: format!("{:.0} users", row.level), cells: cells.collect() }
    };
    let limits: Vec<String> = search.qos.limits.iter().map(ToString::to_string).collect();
    let found = most_users.map_or("no number of users is the answer".to_owned(), |users| format!("{users:.0} users"));
    let shown = Shown {
        head: "Desktop users".to_owned(),
        facts: vec![format!("the most users within {}: {found}", limits.join(", "))],
        caption: "Responses from when actions were due, by number of users".to_owned(),
        columns: ["windows", "p50", "p95", "p99"].map(str::to_owned).to_vec(),
        rows: search.knee.iter().map(row).collect(),
    };
    Detail { format: FORMAT.to_owned(), document: json!({ "search": search, "shown": shown }) }
}

/// The responses over the measured time.
fn responses(told: &Told) -> Point {
    let whole = (0, Nanos::from(Duration::from_secs_f64(told.seconds)).0);
    Point::new("all", whole, Vec::new(), told.responses.clone()).of(&["response_ms"])
}

fn samples(told: &Told) -> Vec<Sample> {
    let percentile = |(p, ns): &(f64, u64)| {
        let metric = match *p {
            p if p <= 0.5 => "response_p50_ms",
            p if p <= 0.95 => "response_p95_ms",
            p if p <= 0.99 => "response_p99_ms",
            _ => "response_longest_ms",
        };
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a response")]
        let ms = *ns as f64 / 1e6;
        Sample::new(metric, ms)
    };
    let mut samples: Vec<Sample> = told.percentiles_ns.iter().map(percentile).collect();
    #[expect(clippy::cast_precision_loss, reason = "numbers of actions")]
    let (actions, slow, opened) = (told.actions as f64, told.slow as f64, told.opened as f64);
    samples.push(Sample::new("slow", 100.0 * slow / actions));
    samples.push(Sample::new("actions_per_s", actions / told.seconds));
    samples.push(Sample::new("processes_per_s", opened / told.seconds));
    samples.extend(told.most_users.map(|users| Sample::new("users_within_limit", users)));
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::hdr;
    use baremark_model::percentile::Percentile;
    use baremark_model::study;

    /// Percentiles of several trials are those of all their samples, for which each must be stored.
    #[test]
    fn every_percentile_has_its_distribution() {
        let counts = (1..=400).map(|ms| (ms * 1_000_000, 1)).collect();
        let told = Told {
            actions: 400,
            seconds: 2.0,
            percentiles_ns: vec![(0.5, 200_000_000), (0.95, 380_000_000), (0.99, 396_000_000), (1.0, 400_000_000)],
            responses: hdr::encoded(&counts),
            ..Told::default()
        };
        let point = responses(&told);
        assert!(point.histogram.is_some() && point.end_ns == 2_000_000_000);
        let samples = samples(&told);
        let percentiles: Vec<Percentile> = samples.iter().filter_map(|one| Percentile::of_key(&one.metric)).collect();
        assert_eq!(percentiles.len(), 3);
        assert!(percentiles.iter().all(|percentile| point.distributions == [percentile.of.as_str()]));
    }

    /// Keys of earlier versions are read, and a sentence says what they are called now.
    #[test]
    fn a_study_of_an_earlier_version_is_read_with_a_notice() {
        let parse = |workload: &str| {
            let text = format!("[study]\ntitle = \"users\"\n[workload]\nkind = \"sessions\"\n{workload}");
            study::parse("a.toml", text.as_bytes(), &[Sessions.descriptor()])
        };
        let [then, now] = ["time = \"3 s\"\n", "duration = \"3 s\"\n"].map(|line| parse(line).expect("a study"));
        assert_eq!(then.workloads[0].parameters, now.workloads[0].parameters);
        assert_eq!(then.renamed, ["a.toml:5: 'time' in [workload] is called 'duration' now"]);
        assert!(now.renamed.is_empty(), "{:?}", now.renamed);
        let varied = parse("[factors]\ntime = [\"1 s\", \"2 s\"]\n").expect("a study");
        assert_eq!((varied.factors[0].key.as_str(), varied.renamed.len()), ("duration", 1));
        let twice = parse("duration = \"3 s\"\ntime = \"4 s\"\n").expect_err("twice").to_string();
        assert!(twice.contains("'duration' is set twice, also as 'time'"), "{twice}");
        let both = parse("[factors]\ntime = [\"1 s\"]\nduration = [\"2 s\"]\n").expect_err("both").to_string();
        assert!(both.contains("'duration' is varied twice, once by its former name"), "{both}");
        let unknown = parse("warm_upp = \"3 s\"\n").expect_err("unknown").to_string();
        assert!(unknown.contains("unknown key 'warm_upp'"), "{unknown}");
    }
}
