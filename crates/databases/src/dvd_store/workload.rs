//! The DVD store as a workload of a study.

use super::conditions::CONDITIONS;
use super::orders::{Acknowledged, NAMES, Rules, STEPS, Shopper, Way, unaccounted};
use super::populate;
use super::schema::{Size, WORDS};
use crate::database::{Connection, Database, Failure};
use crate::disk::DiskUse;
use crate::engine::{Client, Drive, Outcome};
use crate::interface::METRICS as INTERFACE;
use crate::loading::Loader;
use crate::parameters::{
    AT_UTILIZATION, CONNECTIONS, CPU_UTILIZATION, Common, DATABASE, LAG, PIPELINE, SHARED, UTILIZATION,
};
use crate::run::{self, OnDatabase, Workload, WorkloadOfArm};
use crate::sites::{METRICS as SITES, REPLICATION, SECOND_SITE, Sites};
use crate::space::Data;
use baremark_model::arm::ResolvedArm;
use baremark_model::command;
use baremark_model::descriptor::{Descriptor, joined};
use baremark_model::fingerprint;
use baremark_model::job::JobContext;
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::Sample;
use std::sync::Arc;
use std::time::Duration;

/// Seed of the data: the same for all, so that it can be reused.
const DATA_SEED: u64 = 1;

const SIZE: Knob = Knob::new("size", Kind::Choice(WORDS), Default::Typed("10 MB"))
    .help("nominal size of the data: 20 thousand, 2 million or 200 million customers");
const THINK: Knob = Knob::new("think", Kind::Time { min: 0, max: 3_600_000_000_000 }, Default::Typed("0 s"))
    .help("mean time that a client thinks after an order, exponential; closed loop alone");

/// What clients talk to.
const FRONT: Knob = Knob::new("front", Kind::Choice(&["none", "web"]), Default::Typed("none"))
    .help("what clients talk to: the database, or a web server of the shop (HTTP, a process of its own)");
const POOL: Knob = Knob::new("pool", Kind::Count { min: 1, max: 10_000 }, Default::Derived("connections"))
    .help("connections of the web front to the database");

static PARAMETERS: [Knob; 27] = joined(&[
    &[DATABASE, SIZE, CONNECTIONS, THINK, FRONT, POOL, REPLICATION, SECOND_SITE, UTILIZATION, PIPELINE],
    SHARED,
]);

/// A percentile of a step.
const fn p50(key: &'static str, help: &'static str) -> Metric {
    Metric::lower(key, "ms", Aggregate::Mean).help(help)
}

const fn p95(key: &'static str, help: &'static str) -> Metric {
    Metric::lower(key, "ms", Aggregate::Most).help(help)
}

const OWN: [Metric; 31] = [
    Metric::higher("orders_per_min", "orders/min", Aggregate::Sum)
        .help("orders completed per minute, from login to purchase; those rolled back do not count"),
    Metric::higher("tx_per_s", "orders/s", Aggregate::Sum).help("orders per second, those rolled back included"),
    Metric::lower("rolled_back", "%", Aggregate::Mean)
        .help("share of orders that were rolled back because stock was too low"),
    p50("latency_mean_ms", "mean latency of a whole order, retries included"),
    p50("latency_p50_ms", "median latency of it"),
    p95("latency_p95_ms", "95th percentile of it"),
    p95("latency_p99_ms", "99th percentile of it"),
    p50("login_p50_ms", "median latency of a login with the customer's previous purchases"),
    p95("login_p95_ms", "95th percentile of it"),
    p50("new_customer_p50_ms", "median latency of a new customer's registration"),
    p95("new_customer_p95_ms", "95th percentile of it"),
    p50("browse_category_p50_ms", "median latency of a search by category"),
    p95("browse_category_p95_ms", "95th percentile of it"),
    p50("browse_actor_p50_ms", "median latency of a search by actor"),
    p95("browse_actor_p95_ms", "95th percentile of it"),
    p50("browse_title_p50_ms", "median latency of a search by title"),
    p95("browse_title_p95_ms", "95th percentile of it"),
    p50("read_reviews_p50_ms", "median latency of reading a product's reviews"),
    p95("read_reviews_p95_ms", "95th percentile of it"),
    p50("purchase_p50_ms", "median latency of a purchase"),
    p95("purchase_p95_ms", "95th percentile of it"),
    Metric::lower("cpu_us_per_tx", "us", Aggregate::Mean).help("CPU time of server and driver per order"),
    Metric::lower("driver_cpu_us_per_tx", "us", Aggregate::Mean)
        .help("CPU time of the connections' threads per order; with sqlite the database is in it"),
    Metric::lower("server_cpu_us_per_tx", "us", Aggregate::Mean)
        .help("CPU time of the server's processes per order, the web front's among them"),
    Metric::lower("retries", "%", Aggregate::Mean)
        .help("serialization failures and deadlocks per 100 orders; each is retried"),
    LAG,
    Metric::lower("disk_reads_per_s", "1/s", Aggregate::Mean)
        .help("reads per second of the disks that the guest, or the container's machine, has"),
    Metric::lower("disk_writes_per_s", "1/s", Aggregate::Mean).help("writes per second of these disks"),
    Metric::lower("disk_read_ms", "ms", Aggregate::Mean)
        .help("mean latency of these reads; none where nothing was read"),
    Metric::lower("disk_write_ms", "ms", Aggregate::Mean)
        .help("mean latency of these writes; none where nothing was written"),
    Metric::lower("disk_read_share", "%", Aggregate::Mean).help("reads of all reads and writes of these disks"),
];

static METRICS: [Metric; 44] = joined(&[&OWN, &[AT_UTILIZATION, CPU_UTILIZATION], &INTERFACE, &SITES]);

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "dvd-store",
    help: "orders of an online shop from login to purchase; after DVD Store 3 and not comparable with it",
    source: "DVD Store 3 (public facts: schema, sizes, order cycle)",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    alternates: |arm| Settings::of(arm).is_ok_and(|settings| settings.common.setup.can_rest()),
    quick: &[("duration", "1 s"), ("warm_up", "300 ms")],
    check: |arm| Settings::of(arm).map(drop),
    stops_on_interrupt: true,
    ..Descriptor::JOB
};

/// The workload `dvd-store`.
pub(crate) const DVD_STORE: OnDatabase = OnDatabase { descriptor: &DESCRIPTOR, of: workload };

struct Settings {
    common: Common,
    size: Size,
    think: Duration,
}

impl Settings {
    fn of(arm: &ResolvedArm) -> Result<Settings, InvalidValue> {
        let connections = CONNECTIONS.get(arm)?;
        let pool: Option<usize> = POOL.find(arm)?;
        let front = (FRONT.get::<String>(arm)? == "web").then(|| pool.unwrap_or(connections));
        if pool.is_some() && front.is_none() {
            return Err(InvalidValue::new("pool is set and front is \"none\"", "set front = \"web\", or remove pool"));
        }
        let mut common = Common::of(arm, connections, front)?;
        common.setup.sites = Sites::of(arm)?;
        if let Some(misfit) = common.setup.misfit() {
            return Err(misfit);
        }
        let word = SIZE.get::<String>(arm)?;
        let size = Size::of(&word).ok_or_else(|| InvalidValue::new(format!("size = \"{word}\""), "write \"10 MB\""))?;
        let think: Duration = THINK.get(arm)?;
        if !think.is_zero() && common.load.drive != Drive::Closed {
            return Err(InvalidValue::new("rate is set and think is not 0", "keep one of them"));
        }
        if common.utilization.is_some() && common.setup.sites.is_some() {
            return Err(InvalidValue::new("utilization and replication are set", "keep one of them"));
        }
        command::fits_timeout(arm)?;
        Ok(Settings { common, size, think })
    }
}

/// The sources that decide its data.
const SOURCES: &[&str] =
    &[fingerprint!("schema.rs"), fingerprint!("draw.rs"), fingerprint!("populate.rs"), fingerprint!("workload.rs")];

/// What its data takes; `None` of an arm that cannot be.
pub(crate) fn data(arm: &ResolvedArm) -> Option<Data> {
    let Settings { common, size, .. } = Settings::of(arm).ok()?;
    Some(data_of(size, &common))
}

fn data_of(size: Size, common: &Common) -> Data {
    Data::of(format!("dvd-store-{}", size.word.replace(' ', "")), size.bytes(), SOURCES, common)
}

fn workload(arm: &ResolvedArm, around: JobContext<'_>) -> Result<WorkloadOfArm, InvalidValue> {
    let Settings { common, size, think } = Settings::of(arm)?;
    let way = if common.setup.front.is_some() { Way::Front } else { Way::Database };
    Ok((Box::new(Shop { size, think, way, seed: around.seed, phase: 0, acknowledged: Arc::default() }), common))
}

struct Shop {
    size: Size,
    think: Duration,
    way: Way,
    seed: u64,
    /// Phases so far: each draws other inputs.
    phase: u64,
    acknowledged: Arc<Acknowledged>,
}

impl Workload for Shop {
    fn data(&self, common: &Common) -> Data {
        data_of(self.size, common)
    }

    fn operations(&self) -> &'static [&'static str] {
        &NAMES
    }

    fn steps(&self) -> &'static [&'static str] {
        &STEPS
    }

    fn load(&self, loader: &Loader<'_>) -> Result<(), Failure> {
        populate::populate(loader, self.size, DATA_SEED)?;
        run::sound(loader.database, &CONDITIONS)
    }

    fn clients(&mut self, connections: usize, database: &dyn Database) -> Vec<Box<dyn Client>> {
        self.phase += 1;
        self.acknowledged = Arc::default();
        let rules = Rules {
            size: self.size,
            data_seed: DATA_SEED,
            seed: self.seed.wrapping_add(self.phase << 32),
            think: self.think,
            clients: connections,
            dialect: database.dialect(),
            way: self.way,
            acknowledged: Arc::clone(&self.acknowledged),
        };
        (0..connections).map(|number| Box::new(Shopper::new(&rules, number)) as Box<dyn Client>).collect()
    }

    fn check(&self, connection: &mut dyn Connection) -> Result<Result<Vec<String>, String>, Failure> {
        run::verdict(connection, &CONDITIONS, |connection| unaccounted(connection, &self.acknowledged))
    }

    fn samples(&self, outcome: &Outcome) -> Vec<Sample> {
        let sum = |of: fn(&crate::engine::Operation) -> u64| outcome.operations.iter().map(of).sum::<u64>() as f64;
        let (completed, rolled_back) = (sum(|operation| operation.committed), sum(|operation| operation.rolled_back));
        let minutes = outcome.elapsed_ns.max(1) as f64 / 60e9;
        let mut samples = vec![
            Sample::new("orders_per_min", sum(|operation| operation.committed_in_time) / minutes),
            Sample::new("rolled_back", 100.0 * rolled_back / (completed + rolled_back).max(1.0)),
        ];
        let summary = outcome.operations.first().and_then(|order| order.latencies.summary());
        samples.extend(summary.map(|summary| Sample::new("latency_mean_ms", summary.mean_ns / 1e6)));
        for (step, latencies) in STEPS.iter().zip(&outcome.steps) {
            for (percentile, p) in [("p50", 0.5), ("p95", 0.95)] {
                let key = format!("{}_{percentile}_ms", step.replace('-', "_"));
                // Not every step has metrics of its own.
                let found = latencies.percentile(p).filter(|_| METRICS.iter().any(|metric| metric.key == key));
                samples.extend(found.map(|ns| Sample::new(key, ns as f64 / 1e6)));
            }
        }
        samples
    }

    fn disk_samples(&self, disk: &DiskUse) -> Vec<Sample> {
        let mut samples = vec![
            Sample::new("disk_reads_per_s", disk.reads / disk.seconds),
            Sample::new("disk_writes_per_s", disk.writes / disk.seconds),
        ];
        let mut mean =
            |metric: &str, sum: f64, of: f64| samples.extend((of > 0.0).then(|| Sample::new(metric, sum / of)));
        mean("disk_read_ms", 1e3 * disk.read_seconds, disk.reads);
        mean("disk_write_ms", 1e3 * disk.write_seconds, disk.writes);
        mean("disk_read_share", 100.0 * disk.reads, disk.reads + disk.writes);
        samples
    }
}
