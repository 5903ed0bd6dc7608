//! The result as programs read it, and the generator's verdict on itself.
//!
//! One JSON object, format [`FORMAT`]; keys are only ever added within a version. What is not known is `null`, never 0. Keys carry
//! their units. Percentiles of one run stand without intervals: those belong over several runs.

use crate::failure::Failure;
use crate::latency::{Latencies, Summary};
use crate::limits::LimitRow;
use crate::load::{Drive, Load, Pool, Protocol, Stop};
use crate::record::{Counts, Part, SecondPart};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name and version of the format.
pub const FORMAT: &str = "baremark-load/1";

/// The result of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`FORMAT`].
    pub format: String,
    /// What was done.
    pub scenario: String,
    /// What was requested.
    pub asked: Asked,
    /// Why it ended.
    pub ended: Ended,
    /// How long it ran.
    pub elapsed_s: f64,
    /// What came of it.
    pub achieved: Achieved,
    /// Latencies of all operations together.
    pub latency: Latency,
    /// One for each operation.
    pub operations: Vec<OperationRow>,
    /// Failed operations by kind.
    pub failures: BTreeMap<String, u64>,
    /// The first failures in words.
    pub failure_examples: Vec<String>,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers whose status was none of those expected, by status.
    #[serde(default)]
    pub failed_statuses: BTreeMap<u16, u64>,
    /// The share of operations that may fail; `null` where nobody set one.
    #[serde(default)]
    pub error_limit_share: Option<f64>,
    /// What must be kept, and whether it was.
    #[serde(default)]
    pub limits: Vec<LimitRow>,
    /// Raw counts.
    pub counts: Counts,
    /// The generator's own behaviour.
    pub generator: Generator,
    /// One for each second.
    pub series: Vec<SecondRow>,
    /// Where it came from, when not from this process alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<SiteRow>,
}

/// What was requested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// `closed`, `open` or `users`.
    pub drive: String,
    /// The arrivals of an open loop.
    pub arrival: Option<crate::arrival::Arrival>,
    /// The rate per second of an open loop, or the number of users.
    pub profile: Option<crate::profile::Profile>,
    /// Until when, in seconds.
    pub duration_s: Option<f64>,
    /// Until how many operations.
    pub count: Option<u64>,
    /// Operations per second on the average over the time that it ran; open loops only.
    pub operations_per_s: Option<f64>,
    /// Event loops.
    pub threads: usize,
    /// Connections: exactly so many in a closed loop, at most so many otherwise.
    pub connections: usize,
    /// Whether users shared connections.
    pub connections_shared: bool,
    /// Streams of a connection in HTTP/2; `null` in HTTP/1.1.
    #[serde(default)]
    pub http2_streams: Option<usize>,
    /// After this a request has failed.
    pub timeout_ns: u64,
    /// The seed.
    pub seed: u64,
    /// Sites.
    pub sites: u64,
}

/// Why a load ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// As asked.
    Complete,
    /// It was interrupted: this is what had been measured until then.
    Interrupted,
    /// A site was lost on the way: this is what the others measured.
    SiteLost,
}

/// What came of it, per second of the time that it ran.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Achieved {
    /// Requests answered.
    pub requests_per_s: f64,
    /// Operations that ended well while it ran, loops alongside users apart.
    pub operations_per_s: f64,
    /// Bytes received.
    pub received_bytes_per_s: f64,
    /// Operations that ended (well or not) in time, as a share of those intended; open loops and users.
    pub share_of_asked: Option<f64>,
}

/// Two ways to count latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// From the intended start; `null` for connections in a closed loop, which have none.
    pub corrected: Option<Summary>,
    /// From the actual start: hides what a stalled server did to those who had to wait.
    pub raw: Option<Summary>,
    /// The corrected latency by percentile: pairs of a share and nanoseconds, as far as the samples go.
    #[serde(default)]
    pub corrected_curve: Vec<(f64, u64)>,
    /// The uncorrected one.
    #[serde(default)]
    pub raw_curve: Vec<(f64, u64)>,
}

/// Where latency is given for a curve.
const CURVE: [f64; 13] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999];

/// A site of a load that came from several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteRow {
    /// Its name.
    pub name: String,
    /// Why nothing of it is in the result; `null` when all of it is.
    pub lost: Option<String>,
    /// Seconds that it told of.
    pub seconds: usize,
    /// By how much its begin may have differed from the others', in nanoseconds.
    pub begin_error_ns: u64,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationRow {
    /// Its name.
    pub name: String,
    /// Ended well.
    pub succeeded: u64,
    /// Failed.
    pub failed: u64,
    /// Its share of all operations that ended.
    pub mix_share: Option<f64>,
    /// What it may take.
    pub limit_ns: Option<u64>,
    /// Successes within the limit as a share of all that ended; a failure kept no limit.
    pub within_limit_share: Option<f64>,
    /// Failures by kind.
    pub failures: BTreeMap<String, u64>,
    /// From the intended start.
    pub corrected: Option<Summary>,
    /// From the actual start.
    pub raw: Option<Summary>,
    /// From the moment that an answer or event reports to its arrival, by the two clocks of the machines involved.
    pub delay: Option<Summary>,
    /// Delays within their limit as a share.
    pub delay_within_limit_share: Option<f64>,
}

/// The generator's own behaviour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Whether the figures are the server's or the generator's.
    pub verdict: Verdict,
    /// Why, in words.
    pub reasons: Vec<String>,
    /// How late it began what it meant to begin; `null` where it means nothing.
    pub send_lag: Option<Summary>,
    /// Processor time as a share of the time, of the busiest thread.
    pub busiest_cpu_share: f64,
    /// Of each thread.
    pub threads: Vec<ThreadRow>,
}

/// One thread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// The CPU to which it was pinned.
    pub cpu: Option<usize>,
    /// Processor time as a share of the time.
    pub cpu_share: f64,
}

/// What the generator says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It kept up: the figures are the server's (and the network's).
    KeptUp,
    /// It was busy enough to colour the latencies.
    Busy,
    /// It was the limit: the figures say nothing of the server's.
    WasTheLimit,
}

/// One second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecondRow {
    /// Its start.
    pub at_s: u64,
    /// Operations intended in it.
    pub intended: u64,
    /// Requests answered in it.
    pub answered: u64,
    /// Operations failed in it.
    pub failed: u64,
    /// Bytes received in it.
    pub received_bytes: u64,
    /// Latency of what ended in it; corrected where there are intended starts. To two digits.
    pub latency: Option<Summary>,
}

/// A thread this busy colours latencies.
const BUSY_SHARE: f64 = 0.7;
/// A thread this busy has no more to give.
const FULL_SHARE: f64 = 0.95;
/// Latencies are not those of a load of which a thread has slept over so much.
const AWAY_SHARE: f64 = 0.1;
/// Below this a load is too short to judge how busy its threads were.
const LEAST_JUDGED_NS: u64 = 100_000_000;
/// A send lag whose p99 is longer is the generator's failure; with too few samples for a p99, its median.
const MOST_LAG_NS: u64 = 1_000_000;

impl Document {
    /// The result of `load` as measured in `part`, which may be merged from several sites.
    #[must_use]
    pub fn new(load: &Load, part: &Part) -> Document {
        let elapsed_s = part.elapsed_ns as f64 / 1e9;
        let rate = |count: u64| if elapsed_s > 0.0 { count as f64 / elapsed_s } else { 0.0 };
        let (mut corrected, mut raw) = (Latencies::default(), Latencies::default());
        let mut failures = BTreeMap::new();
        for operation in &part.operations {
            corrected.merge(&operation.corrected);
            raw.merge(&operation.raw);
            add_failures(&operation.failures, &mut failures);
        }
        let has_starts = load.drive != Drive::Closed;
        let share_of_asked =
            (has_starts && part.counts.intended > 0).then(|| part.counts.ended as f64 / part.counts.intended as f64);
        Document {
            format: FORMAT.to_owned(),
            scenario: load.scenario.title.clone(),
            asked: Asked::new(load, elapsed_s),
            ended: if part.interrupted { Ended::Interrupted } else { Ended::Complete },
            elapsed_s,
            achieved: Achieved {
                requests_per_s: rate(part.counts.answered),
                operations_per_s: rate(part.succeeded()),
                received_bytes_per_s: rate(part.counts.received_bytes),
                share_of_asked,
            },
            latency: Latency {
                corrected: corrected.summary(),
                raw: raw.summary(),
                corrected_curve: corrected.curve(&CURVE),
                raw_curve: raw.curve(&CURVE),
            },
            operations: operation_rows(load, part),
            failures,
            failure_examples: part.examples.clone(),
            statuses: part.statuses.clone(),
            failed_statuses: part.failed_statuses.clone(),
            error_limit_share: None,
            limits: Vec::new(),
            counts: part.counts,
            generator: Generator::new(load, part),
            series: part.seconds.iter().enumerate().map(|(at, second)| SecondRow::new(at as u64, second)).collect(),
            sites: Vec::new(),
        }
    }
}

impl Document {
    /// Operations that ended well, and all that ended.
    #[must_use]
    pub fn succeeded(&self) -> (u64, u64) {
        let sum = |count: fn(&OperationRow) -> u64| self.operations.iter().map(count).sum::<u64>();
        let succeeded = sum(|row| row.succeeded);
        (succeeded, succeeded + sum(|row| row.failed))
    }

    /// The share of operations that failed among those that ended; `None` when none has.
    #[must_use]
    pub fn failed_share(&self) -> Option<f64> {
        let (succeeded, all) = self.succeeded();
        (all > 0).then(|| (all - succeeded) as f64 / all as f64)
    }

    /// Whether more failed than the error limit allows; without one, whether everything did.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed_share().is_some_and(|share| match self.error_limit_share {
            Some(limit) => share > limit,
            None => share >= 1.0,
        })
    }

    /// Says from which sites it came, and that one was lost where that is so.
    #[must_use]
    pub fn from_sites(mut self, sites: Vec<SiteRow>) -> Document {
        if self.ended == Ended::Complete && sites.iter().any(|site| site.lost.is_some()) {
            self.ended = Ended::SiteLost;
        }
        self.sites = sites;
        self
    }
}

fn add_failures(counts: &[u64; Failure::ALL.len()], failures: &mut BTreeMap<String, u64>) {
    for kind in Failure::ALL.into_iter().filter(|kind| counts[*kind as usize] > 0) {
        *failures.entry(kind.label().to_owned()).or_default() += counts[kind as usize];
    }
}

fn operation_rows(load: &Load, part: &Part) -> Vec<OperationRow> {
    let ended = |one: &crate::record::OperationPart| one.raw.count() + one.failed();
    let all: u64 = part.operations.iter().map(ended).sum();
    let share = |count: u64, of: u64| (of > 0).then(|| count as f64 / of as f64);
    let rows = part.operations.iter().zip(&load.scenario.operations).map(|(record, operation)| {
        let mut failures = BTreeMap::new();
        add_failures(&record.failures, &mut failures);
        OperationRow {
            name: record.name.clone(),
            succeeded: record.raw.count(),
            failed: record.failed(),
            mix_share: share(ended(record), all),
            limit_ns: operation.limit.map(|limit| limit.0),
            within_limit_share: share(record.within_limit, ended(record)),
            failures,
            corrected: record.corrected.summary(),
            raw: record.raw.summary(),
            delay: record.delay.summary(),
            delay_within_limit_share: share(record.delay_within_limit, record.delay.count()),
        }
    });
    rows.collect()
}

impl Asked {
    fn new(load: &Load, elapsed_s: f64) -> Asked {
        let (drive, arrival, profile) = match &load.drive {
            Drive::Closed => ("closed", None, None),
            Drive::Open { arrival, profile } => ("open", Some(arrival.clone()), Some(profile.clone())),
            Drive::Users { profile } => ("users", None, Some(profile.clone())),
        };
        let open = matches!(load.drive, Drive::Open { .. });
        let curve = profile.as_ref().filter(|_| open).and_then(|profile| profile.curve().ok());
        Asked {
            drive: drive.to_owned(),
            operations_per_s: curve.filter(|_| elapsed_s > 0.0).map(|curve| curve.total(elapsed_s) / elapsed_s),
            arrival,
            profile,
            duration_s: if let Stop::After(time) = load.stop { Some(time.seconds()) } else { None },
            count: if let Stop::Count(count) = load.stop { Some(count) } else { None },
            threads: load.threads,
            connections: load.connections,
            connections_shared: open || load.pool == Pool::Shared,
            http2_streams: if let Protocol::Http2 { streams } = load.protocol { Some(streams) } else { None },
            timeout_ns: load.timeout.0,
            seed: load.seed,
            sites: load.site.1,
        }
    }
}

impl Generator {
    fn new(load: &Load, part: &Part) -> Generator {
        let threads: Vec<ThreadRow> = part
            .threads
            .iter()
            .map(|thread| ThreadRow { cpu: thread.cpu, cpu_share: thread.cpu_ns as f64 / thread.wall_ns.max(1) as f64 })
            .collect();
        let busiest = threads.iter().fold(0.0, |most: f64, thread| most.max(thread.cpu_share));
        let send_lag = part.send_lag.summary();
        let (share, lag) = match &send_lag {
            Some(lag) if lag.p99_ns.is_some() => ("1 %", lag.p99_ns),
            Some(lag) => ("half", lag.p50_ns),
            None => ("", None),
        };
        let late = lag.is_some_and(|lag| lag > MOST_LAG_NS);
        // Compared with latencies ten times as long, being late is not what they show.
        let shown = lag.is_some_and(|lag| lag.saturating_mul(10) > longest(part).unwrap_or(0));
        // In a moment a thread is busy with its own beginning.
        let judged = part.elapsed_ns >= LEAST_JUDGED_NS;
        let mut reasons = Vec::new();
        if judged && busiest >= BUSY_SHARE {
            let busy = busiest * 100.0;
            reasons.push(format!("a generator thread was busy {busy:.0} % of the time; add --threads or --site"));
        }
        if let Some(lag) = lag.filter(|_| late) {
            reasons.push(format!("{share} of the operations started more than {:.1} ms late", lag as f64 / 1e6));
        }
        let was_away = away(part);
        reasons.extend(was_away.iter().map(|was_away| format!("{was_away}; stop other programs")));
        let own = |kind: Failure| part.operations.iter().map(|one| one.failures[kind as usize]).sum::<u64>();
        let starved = own(Failure::PortsExhausted) + own(Failure::DescriptorsExhausted);
        if starved > 0 {
            let kind =
                if own(Failure::PortsExhausted) > 0 { Failure::PortsExhausted } else { Failure::DescriptorsExhausted };
            reasons.push(format!("{starved} operations failed: generator ran out of resources ({})", kind.label()));
            reasons.extend(kind.remedy().map(str::to_owned));
        }
        if part.counts.waited > 0 && load.drive != Drive::Closed {
            let waited = part.counts.waited;
            let connections = load.connections;
            reasons.push(format!(
                "{waited} operations waited for one of {connections} connections; their latency includes the wait"
            ));
        }
        if part.counts.unsent > 0 {
            let unsent = part.counts.unsent;
            let kept = if matches!(load.drive, Drive::Users { .. }) { ", or their users were still kept" } else { "" };
            reasons
                .push(format!("{unsent} operations never got a connection{kept}; the percentiles do not include them"));
        }
        // A closed loop that keeps a fast server busy uses its core up; the server may be the limit all the same.
        let full = judged && busiest >= FULL_SHARE;
        let verdict = if full || (late && shown) || starved > 0 {
            Verdict::WasTheLimit
        } else if late || was_away.is_some() || (judged && busiest >= BUSY_SHARE) {
            Verdict::Busy
        } else {
            Verdict::KeptUp
        };
        Generator { verdict, reasons, send_lag, busiest_cpu_share: busiest, threads }
    }
}

/// That a thread of the generator did not run for a tenth of a window, in words; `None` where each did, and of a window that is too short to judge.
#[must_use]
pub fn away(part: &Part) -> Option<String> {
    let away_ns = part.threads.iter().map(|thread| thread.away_ns).max().unwrap_or(0);
    let was_away = part.elapsed_ns >= LEAST_JUDGED_NS && away_ns as f64 >= AWAY_SHARE * part.elapsed_ns as f64;
    let (away_s, of_s) = (away_ns as f64 / 1e9, part.elapsed_ns as f64 / 1e9);
    was_away.then(|| format!("a generator thread did not run for {away_s:.1} s of {of_s:.1} s"))
}

/// The 99th percentile of latencies from the intended start, or what is known below it.
fn longest(part: &Part) -> Option<u64> {
    let mut all = Latencies::default();
    part.operations.iter().for_each(|one| all.merge(&one.corrected));
    all.percentile(0.99).or(all.percentile(0.5))
}

impl SecondRow {
    /// A second for a document or a live view.
    #[must_use]
    pub fn new(at_s: u64, second: &SecondPart) -> SecondRow {
        SecondRow {
            at_s,
            intended: second.intended,
            answered: second.answered,
            failed: second.failed,
            received_bytes: second.received_bytes,
            latency: second.histogram().ok().and_then(|latencies| latencies.summary()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrival::Arrival;
    use crate::profile::Profile;
    use crate::record::ThreadPart;
    use crate::scenario::Scenario;
    use baremark_model::units::Nanos;

    fn generator_of(part: &Part) -> Generator {
        let scenario = Scenario::of_url("http://127.0.0.1/").expect("a URL");
        let drive = Drive::Open { arrival: Arrival::Constant, profile: Profile::steady(5.0) };
        Generator::new(&Load::new(scenario, drive, Stop::After(Nanos(5_000_000_000))), part)
    }

    /// The generator's part in a load of 5 s: so many starts so late, with latencies so long, on a thread so busy.
    fn generator((starts, lag_ns): (u64, u64), latency_ns: u64, (busy, wall_ns): (f64, u64)) -> Generator {
        let mut part = Part::new(&["request".to_owned()]);
        for _ in 0..starts {
            part.send_lag.record(lag_ns);
            part.operations[0].corrected.record(latency_ns);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a test")]
        part.threads.push(ThreadPart { cpu: None, cpu_ns: (busy * wall_ns as f64) as u64, wall_ns, away_ns: 0 });
        part.elapsed_ns = wall_ns;
        generator_of(&part)
    }

    /// "kept-up" was said of one whose users were all kept by the server, so that it had no send lag, while it slept over the whole window.
    #[test]
    fn a_thread_that_slept_over_a_tenth_of_a_window_is_a_reason() {
        const S: u64 = 1_000_000_000;
        let of = |away_ns: u64, elapsed_ns: u64| {
            let mut part = Part::new(&["request".to_owned()]);
            part.elapsed_ns = elapsed_ns;
            part.threads =
                [0, away_ns].map(|away_ns| ThreadPart { cpu: None, cpu_ns: 0, wall_ns: S, away_ns }).to_vec();
            let generator = generator_of(&part);
            (generator.verdict, generator.reasons.concat())
        };
        let said = "a generator thread did not run for 2.4 s of 2.0 s; stop other programs".to_owned();
        assert_eq!(of(2_400_000_000, 2 * S), (Verdict::Busy, said));
        assert_eq!(of(S / 5, 2 * S).0, Verdict::Busy);
        assert_eq!(of(S / 5 - 1, 2 * S), (Verdict::KeptUp, String::new()));
        assert_eq!(of(S, 50_000_000).0, Verdict::KeptUp, "too short to be judged");
    }

    #[test]
    fn the_generator_was_the_limit_only_where_that_is_known() {
        const S: u64 = 1_000_000_000;
        const MS: u64 = 1_000_000;
        let verdict = |starts, latency, busy| generator(starts, latency, busy).verdict;
        assert_eq!(verdict((10_000, 50_000), MS, (0.1, 5 * S)), Verdict::KeptUp);
        // Five starts that a busy machine made late say nothing.
        assert_eq!(verdict((5, 3 * MS), MS, (0.0, S)), Verdict::KeptUp);
        assert_eq!(verdict((100, 3 * MS), MS, (0.0, S)), Verdict::WasTheLimit);
        assert_eq!(verdict((10_000, 3 * MS), 4 * MS, (0.1, 5 * S)), Verdict::WasTheLimit);
        // Late, but by little compared with what the server takes.
        assert_eq!(verdict((10_000, 3 * MS), 50 * MS, (0.1, 5 * S)), Verdict::Busy);
        assert_eq!(verdict((10_000, 50_000), MS, (0.8, 5 * S)), Verdict::Busy);
        assert_eq!(verdict((10_000, 50_000), MS, (0.99, 5 * S)), Verdict::WasTheLimit);
        // Five requests take a moment, in which a thread does nothing else.
        assert_eq!(verdict((5, 50_000), MS, (0.99, 2 * MS)), Verdict::KeptUp);
        let late = generator((10_000, 3 * MS), MS, (0.99, 5 * S)).reasons.join("; ");
        assert_eq!(
            late,
            "a generator thread was busy 99 % of the time; add --threads or --site; \
             1 % of the operations started more than 3.0 ms late"
        );
    }
}
