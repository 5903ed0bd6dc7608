//! The database of a virtualization manager as a workload of a study.

use super::check::{CONDITIONS, Totals, mismatch};
use super::inventory::{Inventory, WORDS};
use super::ledger::{Counts, Ledger};
use super::operations::{FEED, Feed, OPERATIONS, Operator};
use super::populate;
use super::samples::RESOLUTIONS;
use crate::database::{Connection, Database, Failure};
use crate::engine::{self, Client, Drive, Load, LoadError, Outcome};
use crate::interface::METRICS as INTERFACE;
use crate::loading::Loader;
use crate::parameters::{Common, DATABASE, PIPELINE, SHARED};
use crate::run::{self, OnDatabase, Workload, WorkloadOfArm};
use crate::space::Data;
use baremark_load::latency::Latencies;
use baremark_model::arm::ResolvedArm;
use baremark_model::command;
use baremark_model::descriptor::{Descriptor, joined};
use baremark_model::fingerprint;
use baremark_model::job::JobContext;
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::Sample;
use baremark_model::wire::Point;
use baremark_sys::clock;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Bytes of a sample on disk with its index, more than it takes.
const SAMPLE_BYTES: u64 = 120;
/// Bytes of everything else of an entity, and of what no entity adds to.
const ENTITY_BYTES: u64 = 6000;
const FIXED_BYTES: u64 = 8 << 20;

const INVENTORY: Knob = Knob::new("inventory", Kind::Choice(WORDS), Default::Typed("100 x 1000"))
    .help("hosts x virtual machines; data takes about 30 MB, 300 MB and 3 GB");
const FEED_INTERVAL: Knob =
    Knob::new("feed_interval", Kind::Time { min: 1_000_000, max: 3_600_000_000_000 }, Default::Typed("20 s"))
        .help("time in which every host reports once to the feed");
const FEEDS: Knob = Knob::new("feeds", Kind::Count { min: 1, max: 1000 }, Default::Typed("1"))
    .help("connections of the feed, a thread each");
const LAG_LIMIT: Knob =
    Knob::new("lag_limit", Kind::Time { min: 1_000_000, max: 3_600_000_000_000 }, Default::Typed("1 s"))
        .help("lag of the feed above which a trial is discarded: largest actual minus intended start");

static PARAMETERS: [Knob; 23] = joined(&[&[DATABASE, INVENTORY, FEED_INTERVAL, FEEDS, LAG_LIMIT, PIPELINE], SHARED]);

/// The metrics of the workload and four of each operation.
macro_rules! metrics {
    ($($key:literal $what:literal;)*) => {
        [
            Metric::lower("cycle_s", "s", Aggregate::Mean)
                .help("a cycle of the nine operations alone: sum of their median times"),
            Metric::lower("cycle_with_feed_s", "s", Aggregate::Mean).help("the same while the feed runs"),
            Metric::lower("feed_lag_p99_ms", "ms", Aggregate::Most)
                .help("99th percentile of the feed's lag: actual minus intended start"),
            Metric::lower("feed_latency_p95_ms", "ms", Aggregate::Most)
                .help("95th percentile of a host's report, from its intended start"),
            Metric::lower("cpu_s_per_cycle", "s", Aggregate::Mean)
                .help("CPU time of server and operator for a cycle alone"),
            $(
                Metric::lower(concat!($key, "_s"), "s", Aggregate::Mean)
                    .help(concat!("median time of ", $what, ", alone")),
                Metric::higher(concat!($key, "_rows_per_s"), "rows/s", Aggregate::Sum)
                    .help("mean rows of it by that time"),
                Metric::lower(concat!($key, "_with_feed_s"), "s", Aggregate::Mean)
                    .help(concat!("median time of ", $what, " while the feed runs")),
                Metric::higher(concat!($key, "_with_feed_rows_per_s"), "rows/s", Aggregate::Sum)
                    .help("mean rows of it by that time"),
            )*
        ]
    };
}

const OWN: [Metric; 41] = metrics! {
    "insert" "inserting a sample of every host and virtual machine";
    "rollup_30min" "a roll-up of 5 min to 30 min, one period of all";
    "rollup_2h" "a roll-up of 30 min to 2 h, one period of all";
    "rollup_1d" "a roll-up of 2 h to a day, one period of all";
    "purge" "a purge of samples older than 15 turns";
    "events" "inserting 100 events and 10 tasks and purging as many";
    "top_n" "the top 20 by a counter over a day";
    "subtree" "a datacenter's whole subtree with its permissions";
    "snapshot" "a snapshot of the inventory: every virtual machine with what it uses";
};

static METRICS: [Metric; 45] = joined(&[&OWN, &INTERFACE]);

/// Metrics of an operation come after these.
const COMMON_METRICS: usize = 5;
/// Metrics of each.
const OPERATION_METRICS: usize = 4;

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "management-db",
    help: "operations of a virtualization manager on its database, alone and while a steady feed of samples runs; the list is ours",
    source: "this program, after a published study that names no operations",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    alternates: |arm| Settings::of(arm).is_ok_and(|settings| settings.common.setup.can_rest()),
    quick: &[("duration", "1 s"), ("warm_up", "100 ms"), ("inventory", "10 x 100"), ("feed_interval", "1 s")],
    check: |arm| Settings::of(arm).map(drop),
    stops_on_interrupt: true,
    ..Descriptor::JOB
};

/// The workload `management-db`.
pub(crate) const MANAGEMENT_DB: OnDatabase = OnDatabase { descriptor: &DESCRIPTOR, of: workload };

struct Settings {
    common: Common,
    inventory: Inventory,
    feeds: usize,
    interval: Duration,
    lag_limit: Duration,
}

impl Settings {
    fn of(arm: &ResolvedArm) -> Result<Settings, InvalidValue> {
        let feeds = FEEDS.get(arm)?;
        let common = Common::of(arm, feeds + 1, None)?;
        if common.load.drive != Drive::Closed {
            return Err(InvalidValue::new("rate: management-db has a feed of its own", "set feed_interval instead"));
        }
        let word = INVENTORY.get::<String>(arm)?;
        let inventory = Inventory::of(&word);
        let inventory =
            inventory.ok_or_else(|| InvalidValue::new(format!("inventory = \"{word}\""), "write \"10 x 100\""))?;
        command::fits_timeout(arm)?;
        let (interval, lag_limit) = (FEED_INTERVAL.get(arm)?, LAG_LIMIT.get(arm)?);
        Ok(Settings { common, inventory, feeds, interval, lag_limit })
    }
}

/// The sources that decide its data.
const SOURCES: &[&str] = &[
    fingerprint!("schema.rs"),
    fingerprint!("inventory.rs"),
    fingerprint!("ledger.rs"),
    fingerprint!("samples.rs"),
    fingerprint!("populate.rs"),
    fingerprint!("workload.rs"),
];

/// What its data takes; `None` of an arm that cannot be.
pub(crate) fn data(arm: &ResolvedArm) -> Option<Data> {
    let Settings { common, inventory, .. } = Settings::of(arm).ok()?;
    Some(data_of(inventory, &common))
}

fn data_of(inventory: Inventory, common: &Common) -> Data {
    let name = format!("management-db-{}x{}", inventory.hosts, inventory.machines);
    let kept: i64 = RESOLUTIONS.iter().map(|resolution| resolution.kept).sum();
    let samples = (kept * inventory.series()).unsigned_abs();
    let bytes = samples * SAMPLE_BYTES + inventory.entities().unsigned_abs() * ENTITY_BYTES + FIXED_BYTES;
    Data::of(name, bytes, SOURCES, common)
}

fn workload(arm: &ResolvedArm, _: JobContext<'_>) -> Result<WorkloadOfArm, InvalidValue> {
    let Settings { common, inventory, feeds, interval, lag_limit } = Settings::of(arm)?;
    let manager = Manager {
        inventory,
        feeds,
        interval,
        lag_limit,
        totals: Totals::of(inventory),
        phase: 0,
        ledger: Arc::default(),
        counts: [Arc::default(), Arc::default()],
        feed: Outcome::default(),
        alone_cpus: 0.0,
    };
    Ok((Box::new(manager), common))
}

/// What the parts of a phase are called: the operations alone, the same while the feed runs, and the feed.
const NAMES: [&str; 19] = [
    "insert",
    "rollup-30min",
    "rollup-2h",
    "rollup-1d",
    "purge",
    "events",
    "top-n",
    "subtree",
    "snapshot",
    "insert with feed",
    "rollup-30min with feed",
    "rollup-2h with feed",
    "rollup-1d with feed",
    "purge with feed",
    "events with feed",
    "top-n with feed",
    "subtree with feed",
    "snapshot with feed",
    "feed",
];

/// A half of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    /// The operations alone.
    Alone,
    /// The operations while the feed runs.
    Fed,
}

struct Manager {
    inventory: Inventory,
    feeds: usize,
    interval: Duration,
    lag_limit: Duration,
    totals: Totals,
    /// Phases so far: which half comes first alternates.
    phase: u64,
    ledger: Arc<Ledger>,
    /// By half.
    counts: [Arc<Counts>; 2],
    /// What became of the feed in this phase.
    feed: Outcome,
    /// CPUs that server and operator kept busy with the operations alone.
    alone_cpus: f64,
}

impl Manager {
    fn operator(&self, half: Half, database: &dyn Database) -> Box<dyn Client> {
        let (ledger, counts) = (Arc::clone(&self.ledger), Arc::clone(&self.counts[half as usize]));
        Box::new(Operator::new(self.inventory, database.dialect(), ledger, counts))
    }

    fn reporter(&self, database: &dyn Database) -> Box<dyn Client> {
        Box::new(Feed::new(self.inventory, database.dialect(), Arc::clone(&self.ledger)))
    }

    /// The operator's outcome in a half of a phase; that of the feed is kept.
    fn half(
        &mut self,
        half: Half,
        database: &dyn Database,
        load: &Load,
        meter: &mut dyn FnMut() -> u64,
        interrupt: &AtomicBool,
    ) -> Result<Outcome, LoadError> {
        let mut operator = [self.operator(half, database)];
        if half == Half::Alone {
            let outcome = engine::run(database, &mut operator, &OPERATIONS, load, meter, interrupt)?;
            self.alone_cpus = (outcome.driver_cpu_ns + outcome.metered) as f64 / outcome.elapsed_ns.max(1) as f64;
            return Ok(outcome);
        }
        let mut feeds: Vec<Box<dyn Client>> = (0..self.feeds).map(|_| self.reporter(database)).collect();
        let rate = self.inventory.hosts as f64 / self.interval.as_secs_f64();
        let reports = Load { drive: Drive::Open { rate, poisson: false }, ..load.clone() };
        let (operated, fed) = std::thread::scope(|scope| {
            let feed = scope.spawn(|| engine::run(database, &mut feeds, &FEED, &reports, &mut || 0, interrupt));
            let operated = engine::run(database, &mut operator, &OPERATIONS, load, meter, interrupt);
            (operated, feed.join())
        });
        self.feed = fed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        operated
    }
}

impl Workload for Manager {
    fn data(&self, common: &Common) -> Data {
        data_of(self.inventory, common)
    }

    fn operations(&self) -> &'static [&'static str] {
        &NAMES
    }

    fn load(&self, loader: &Loader<'_>) -> Result<(), Failure> {
        populate::populate(loader, self.inventory)?;
        run::sound(loader.database, &CONDITIONS)?;
        let book = Ledger::default().book().clone();
        match mismatch(&mut *loader.database.connect()?, self.inventory, &self.totals, &book)? {
            Some(wrong) => Err(Failure::other(format!("the loaded data is wrong: {wrong}"))),
            None => Ok(()),
        }
    }

    fn clients(&mut self, _: usize, database: &dyn Database) -> Vec<Box<dyn Client>> {
        vec![self.operator(Half::Alone, database)]
    }

    /// Half of the measured time the operations alone, and half of it while the feed runs; which comes first alternates.
    fn apply(
        &mut self,
        database: &dyn Database,
        _: usize,
        load: &Load,
        meter: &mut dyn FnMut() -> u64,
        interrupt: &AtomicBool,
    ) -> Result<Outcome, LoadError> {
        self.phase += 1;
        self.ledger = Arc::default();
        self.counts = [Arc::default(), Arc::default()];
        let load = Load { duration: load.duration / 2, ..load.clone() };
        let order = if self.phase.is_multiple_of(2) { [Half::Fed, Half::Alone] } else { [Half::Alone, Half::Fed] };
        let called_ns = clock::monotonic_ns();
        let mut both = [Outcome::default(), Outcome::default()];
        let mut begins = [0; 2];
        for half in order {
            let offset = clock::monotonic_ns() - called_ns;
            let outcome = self.half(half, database, &load, meter, interrupt)?;
            begins[half as usize] = offset + outcome.begin_ns;
            both[half as usize] = outcome;
        }
        let end = clock::monotonic_ns() - called_ns;
        let [mut whole, fed] = both;
        whole.metered += fed.metered;
        whole.operations.extend(fed.operations.iter().cloned());
        whole.operations.extend(self.feed.operations.iter().cloned());
        for part in [&fed, &self.feed] {
            whole.ended_in_time += part.ended_in_time;
            whole.retried_in_time += part.retried_in_time;
            whole.driver_cpu_ns += part.driver_cpu_ns;
            whole.reconnects += part.reconnects;
            for (class, count) in &part.failures {
                *whole.failures.entry(*class).or_default() += count;
            }
        }
        // The halves are apart: seconds of one window would be those of neither.
        whole.seconds.clear();
        whole.begin_ns = begins[0].min(begins[1]);
        whole.elapsed_ns = end - whole.begin_ns;
        Ok(whole)
    }

    fn check(&self, connection: &mut dyn Connection) -> Result<Result<Vec<String>, String>, Failure> {
        let book = self.ledger.book().clone();
        let verdict = run::verdict(connection, &CONDITIONS, |connection| {
            mismatch(connection, self.inventory, &self.totals, &book)
        })?;
        Ok(verdict.map(|mut checks| {
            checks.push(format!("{} periods that were rolled up equal recomputed values", book.rolled.len()));
            checks
        }))
    }

    fn samples(&self, outcome: &Outcome) -> Vec<Sample> {
        let ms = |ns: u64| ns as f64 / 1e6;
        let mut samples = Vec::new();
        for (half, key) in ["cycle_s", "cycle_with_feed_s"].into_iter().enumerate() {
            let times: Option<Vec<f64>> = (0..OPERATIONS.len()).map(|which| median_s(outcome, half, which)).collect();
            samples.extend(times.map(|times| Sample::new(key, times.iter().sum())));
        }
        samples.extend(self.feed.lag.percentile(0.99).map(|ns| Sample::new("feed_lag_p99_ms", ms(ns))));
        let reports = self.feed.operations.first().and_then(|feed| feed.latencies.percentile(0.95));
        samples.extend(reports.map(|ns| Sample::new("feed_latency_p95_ms", ms(ns))));
        samples.extend(mean_cycle_s(outcome).map(|cycle| Sample::new("cpu_s_per_cycle", self.alone_cpus * cycle)));
        for which in 0..OPERATIONS.len() {
            let keys = &METRICS[COMMON_METRICS + which * OPERATION_METRICS..];
            for half in 0..2 {
                let Some(seconds) = median_s(outcome, half, which) else { continue };
                samples.push(Sample::new(keys[2 * half].key, seconds));
                let rows = self.counts[half].mean_rows(which);
                samples.extend(rows.map(|rows| Sample::new(keys[2 * half + 1].key, rows / seconds)));
            }
        }
        samples
    }

    fn points(&self, whole: (u64, u64)) -> Vec<Point> {
        feed_points(&self.feed, whole)
    }

    fn measured(&self, _: &Outcome) -> Vec<Sample> {
        Vec::new()
    }

    fn void(&self, outcome: &Outcome) -> Vec<String> {
        let named = || NAMES.iter().zip(&outcome.operations);
        // Of each operation there is a median, or the cycle that they make has none.
        let few =
            named().take(2 * OPERATIONS.len()).filter(|(_, operation)| operation.latencies.percentile(0.5).is_none());
        let few = few.map(|(name, operation)| {
            format!(
                "'{name}' ended {} times in the measured time, too few for a median; raise duration",
                operation.committed
            )
        });
        let none = named().skip(2 * OPERATIONS.len()).filter(|(_, operation)| operation.committed == 0);
        let none = none.map(|(name, _)| format!("no '{name}' ended in the measured time; raise duration"));
        let mut reasons: Vec<String> = few.chain(none).collect();
        reasons.extend(fell_behind(&self.feed, self.lag_limit));
        reasons
    }
}

/// Seconds of an operation in a half, median; `None` where none ended.
fn median_s(outcome: &Outcome, half: usize, which: usize) -> Option<f64> {
    let operation = outcome.operations.get(half * OPERATIONS.len() + which)?;
    operation.latencies.percentile(0.5).map(|ns| ns as f64 / 1e9)
}

/// Seconds of a cycle alone: the sum of the operations' means, of which there is one after the other. How many operations ended says little of
/// cycles, for the time cuts the first and the last, and one operation takes a thousand times as long as another. `None` where one never ended.
fn mean_cycle_s(outcome: &Outcome) -> Option<f64> {
    let mean = |which: usize| Some(outcome.operations.get(which)?.latencies.summary()?.mean_ns / 1e9);
    (0..OPERATIONS.len()).map(mean).sum()
}

/// The distributions of the feed's percentiles.
fn feed_points(feed: &Outcome, whole: (u64, u64)) -> Vec<Point> {
    let latencies = feed.operations.first().map(|feed| &feed.latencies);
    let parts = [("feed lag", "feed_lag_ms", Some(&feed.lag)), ("feed latency", "feed_latency_ms", latencies)];
    let point = |(name, of, latencies): (&str, &str, Option<&Latencies>)| {
        Some(Point::new(name, whole, Vec::new(), Some(latencies?.encoded()?)).of(&[of]))
    };
    parts.into_iter().filter_map(point).collect()
}

/// Why a feed did not keep up; `None` when it did.
fn fell_behind(feed: &Outcome, limit: Duration) -> Option<String> {
    let lag = Duration::from_nanos(feed.lag.largest().unwrap_or(0));
    if feed.unserved == 0 && lag <= limit {
        return None;
    }
    let reports = if feed.unserved > 0 { format!("; {} reports were not sent", feed.unserved) } else { String::new() };
    let (lag, limit) = (lag.as_secs_f64() * 1e3, limit.as_secs_f64() * 1e3);
    Some(format!("the feed fell behind: its lag was {lag:.1} ms, above lag_limit = {limit:.1} ms{reports}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Operation;
    use baremark_model::percentile::Percentile;

    #[test]
    fn the_metrics_of_operations_follow_in_their_order() {
        for (which, operation) in OPERATIONS.iter().enumerate() {
            let key = METRICS[COMMON_METRICS + which * OPERATION_METRICS].key;
            assert_eq!(key.replace('_', "-"), format!("{operation}-s"));
            assert_eq!(NAMES[which], *operation);
            assert_eq!(NAMES[OPERATIONS.len() + which], format!("{operation} with feed"));
        }
        assert_eq!(METRICS.len(), COMMON_METRICS + OPERATIONS.len() * OPERATION_METRICS + INTERFACE.len());
    }

    /// Three cycles in which the first operation took 8 s and each other 1 s, and the first again: 28 operations were 3.11 cycles.
    #[test]
    fn a_cycle_is_as_long_as_its_operations_wherever_the_time_cuts_it() {
        let mut outcome = Outcome::default();
        outcome.operations.resize_with(OPERATIONS.len(), Operation::default);
        for (which, operation) in outcome.operations.iter_mut().enumerate() {
            let (seconds, times) = if which == 0 { (8, 4) } else { (1, 3) };
            (0..times).for_each(|_| operation.latencies.record(seconds * 1_000_000_000));
        }
        let cycle = mean_cycle_s(&outcome).expect("each has ended");
        assert!((cycle / 16.0 - 1.0).abs() < 1e-3, "{cycle}");
        outcome.operations[3] = Operation::default();
        assert_eq!(mean_cycle_s(&outcome), None);
    }

    /// Percentiles of several trials are those of all their samples, for which each must be stored.
    #[test]
    fn every_percentile_has_its_distribution_among_the_points() {
        let mut feed = Outcome { operations: vec![Operation::default()], ..Outcome::default() };
        feed.lag.record(1000);
        feed.operations[0].latencies.record(2000);
        let points = feed_points(&feed, (0, 1));
        let percentiles: Vec<Percentile> = METRICS.iter().filter_map(|metric| Percentile::of_key(metric.key)).collect();
        for Percentile { of, .. } in &percentiles {
            assert!(points.iter().any(|point| point.histogram.is_some() && point.distributions.contains(of)), "{of}");
        }
        assert_eq!(percentiles.len(), 2);
    }

    #[test]
    fn a_feed_that_lags_by_more_than_its_limit_discards_the_trial() {
        let mut feed = Outcome::default();
        feed.lag.record(900_000_000);
        assert_eq!(fell_behind(&feed, Duration::from_secs(1)), None);
        let why = fell_behind(&feed, Duration::from_millis(500)).unwrap_or_default();
        assert!(
            why.starts_with("the feed fell behind: its lag was 900") && why.ends_with("lag_limit = 500.0 ms"),
            "{why}"
        );
        feed.unserved = 3;
        let why = fell_behind(&feed, Duration::from_secs(1)).unwrap_or_default();
        assert!(why.ends_with("; 3 reports were not sent"), "{why}");
    }
}
