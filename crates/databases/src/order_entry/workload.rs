//! Order-entry as a workload of a study.

use super::conditions::CONDITIONS;
use super::draw::Constants;
use super::transactions::{Acknowledged, LIMIT_MS, NAMES, Rules, Terminal, unaccounted};
use super::{populate, schema};
use crate::database::{Connection, Database, Failure};
use crate::engine::{Client, Drive, Outcome};
use crate::interface::METRICS as INTERFACE;
use crate::loading::Loader;
use crate::parameters::{
    AT_UTILIZATION, CONNECTIONS, CPU_UTILIZATION, Common, DATABASE, HELD_IN_TURNS, LAG, PIPELINE, SHARED, UTILIZATION,
};
use crate::run::{self, OnDatabase, Workload, WorkloadOfArm};
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

/// Seed of the data: the same for all, so that it can be reused.
const DATA_SEED: u64 = 1;

const WAREHOUSES: Knob = Knob::new("warehouses", Kind::Count { min: 1, max: 100_000 }, Default::Typed("1"))
    .help("scale: warehouses, about 130 MiB each");
const PACE: Knob = Knob::new("pace", Kind::Choice(&["none", "keyed"]), Default::Typed("none"))
    .help("none: as fast as connections allow; keyed: terminals with keying and thinking times, 10 a warehouse");
const SEED: Knob =
    Knob::new("seed_of_inputs", Kind::Count { min: 0, max: u64::MAX >> 1 }, Default::Derived("the trial's"))
        .help("random seed of the transactions' inputs");

static PARAMETERS: [Knob; 24] =
    joined(&[&[DATABASE, WAREHOUSES, CONNECTIONS, PACE, UTILIZATION, PIPELINE], SHARED, &[SEED]]);

const OWN: [Metric; 15] = [
    Metric::higher("tx_per_s", "tx/s", Aggregate::Sum)
        .help("transactions of all five kinds per second, rollbacks included"),
    Metric::higher("new_orders_per_min", "new-orders/min", Aggregate::Sum)
        .help("new orders committed per minute; not comparable with tpmC"),
    Metric::lower("latency_p50_ms", "ms", Aggregate::Mean).help("median latency of all transactions, retries included"),
    Metric::lower("latency_p95_ms", "ms", Aggregate::Most).help("95th percentile of it"),
    Metric::lower("latency_p99_ms", "ms", Aggregate::Most).help("99th percentile of it"),
    Metric::lower("new_order_p90_ms", "ms", Aggregate::Most)
        .help("90th percentile of new-order; the rules' limit is 5 s"),
    Metric::lower("payment_p90_ms", "ms", Aggregate::Most).help("90th percentile of payment; the rules' limit is 5 s"),
    Metric::lower("order_status_p90_ms", "ms", Aggregate::Most)
        .help("90th percentile of order-status; the rules' limit is 5 s"),
    Metric::lower("delivery_p90_ms", "ms", Aggregate::Most)
        .help("90th percentile of delivery; the rules' limit is 5 s"),
    Metric::lower("stock_level_p90_ms", "ms", Aggregate::Most)
        .help("90th percentile of stock-level; the rules' limit is 20 s"),
    Metric::lower("cpu_us_per_tx", "us", Aggregate::Mean).help("CPU time of server and driver per transaction"),
    Metric::lower("driver_cpu_us_per_tx", "us", Aggregate::Mean)
        .help("CPU time of the connections' threads per transaction; with sqlite the database is in it"),
    Metric::lower("server_cpu_us_per_tx", "us", Aggregate::Mean)
        .help("CPU time of the server's processes per transaction"),
    Metric::lower("retries", "%", Aggregate::Mean)
        .help("serialization failures and deadlocks per 100 transactions; each is retried"),
    LAG,
];

static METRICS: [Metric; 21] = joined(&[&OWN, &[AT_UTILIZATION, CPU_UTILIZATION], &INTERFACE]);

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "order-entry",
    help: "five transactions of a wholesaler on nine tables; derived from TPC-C and not comparable with it",
    source: "TPC-C revision 5.11 (rules for schema, inputs and consistency)",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    footprint: Some(HELD_IN_TURNS),
    alternates: |arm| Settings::of(arm).is_ok_and(|settings| settings.common.setup.can_rest()),
    quick: &[("duration", "1 s"), ("warm_up", "300 ms")],
    check: |arm| Settings::of(arm).map(drop),
    stops_on_interrupt: true,
    ..Descriptor::JOB
};

/// The workload `order-entry`.
pub(crate) const ORDER_ENTRY: OnDatabase = OnDatabase { descriptor: &DESCRIPTOR, of: workload };

struct Settings {
    common: Common,
    warehouses: i64,
    paced: bool,
    seed: Option<u64>,
}

impl Settings {
    fn of(arm: &ResolvedArm) -> Result<Settings, InvalidValue> {
        let common = Common::of(arm, CONNECTIONS.get(arm)?, None)?;
        let paced = PACE.get::<String>(arm)? == "keyed";
        let warehouses = WAREHOUSES.get(arm)?;
        if paced && common.load.drive != Drive::Closed {
            return Err(InvalidValue::new("rate is set and pace is \"keyed\"", "keep one of them"));
        }
        if paced && common.utilization.is_some() {
            return Err(InvalidValue::new("utilization is set and pace is \"keyed\"", "keep one of them"));
        }
        let terminals = i64::try_from(common.setup.connections).unwrap_or(i64::MAX);
        if paced && terminals > 10 * warehouses {
            let what = format!("{terminals} connections of {warehouses} warehouses: a warehouse has 10 terminals");
            return Err(InvalidValue::new(what, "lower connections, or raise warehouses"));
        }
        command::fits_timeout(arm)?;
        Ok(Settings { common, warehouses, paced, seed: SEED.find(arm)? })
    }
}

/// The sources that decide its data.
const SOURCES: &[&str] =
    &[fingerprint!("schema.rs"), fingerprint!("draw.rs"), fingerprint!("populate.rs"), fingerprint!("workload.rs")];

/// What its data takes; `None` of an arm that cannot be.
pub(crate) fn data(arm: &ResolvedArm) -> Option<Data> {
    let Settings { common, warehouses, .. } = Settings::of(arm).ok()?;
    Some(data_of(warehouses, &common))
}

fn data_of(warehouses: i64, common: &Common) -> Data {
    Data::of(format!("order-entry-{warehouses}"), schema::bytes(warehouses.unsigned_abs()), SOURCES, common)
}

fn workload(arm: &ResolvedArm, around: JobContext<'_>) -> Result<WorkloadOfArm, InvalidValue> {
    let Settings { common, warehouses, paced, seed } = Settings::of(arm)?;
    let seed = seed.unwrap_or(around.seed);
    Ok((Box::new(Sales { warehouses, paced, seed, phase: 0, acknowledged: Arc::default() }), common))
}

struct Sales {
    warehouses: i64,
    paced: bool,
    seed: u64,
    /// Phases so far: each draws other inputs.
    phase: u64,
    acknowledged: Arc<Acknowledged>,
}

impl Workload for Sales {
    fn data(&self, common: &Common) -> Data {
        data_of(self.warehouses, common)
    }

    fn operations(&self) -> &'static [&'static str] {
        &NAMES
    }

    fn load(&self, loader: &Loader<'_>) -> Result<(), Failure> {
        populate::populate(loader, self.warehouses, DATA_SEED)?;
        run::sound(loader.database, &CONDITIONS)
    }

    fn loaded(&mut self) {
        self.acknowledged = Arc::default();
    }

    /// Orders have the numbers that the database gives them, and are counted from what was loaded.
    fn continues(&self) -> bool {
        true
    }

    fn clients(&mut self, connections: usize, database: &dyn Database) -> Vec<Box<dyn Client>> {
        self.phase += 1;
        let rules = Rules {
            warehouses: self.warehouses,
            constants: Constants::of_run(Constants::of_load(DATA_SEED), self.seed),
            seed: self.seed.wrapping_add(self.phase << 32),
            paced: self.paced,
            dialect: database.dialect(),
            acknowledged: Arc::clone(&self.acknowledged),
        };
        (0..connections).map(|number| Box::new(Terminal::new(&rules, number)) as Box<dyn Client>).collect()
    }

    fn check(&self, connection: &mut dyn Connection) -> Result<Result<Vec<String>, String>, Failure> {
        run::verdict(connection, &CONDITIONS, |connection| unaccounted(connection, &self.acknowledged, self.warehouses))
    }

    fn samples(&self, outcome: &Outcome) -> Vec<Sample> {
        let minutes = outcome.elapsed_ns.max(1) as f64 / 60e9;
        let orders = outcome.operations.first().map_or(0, |operation| operation.committed_in_time);
        let percentiles = NAMES.iter().zip(&outcome.operations);
        let percentiles = percentiles.filter_map(|(name, operation)| {
            let key = format!("{}_p90_ms", name.replace('-', "_"));
            Some(Sample::new(key, operation.latencies.percentile(0.9)? as f64 / 1e6))
        });
        [Sample::new("new_orders_per_min", orders as f64 / minutes)].into_iter().chain(percentiles).collect()
    }

    fn flags(&self, outcome: &Outcome) -> Vec<String> {
        let rows = NAMES.iter().zip(LIMIT_MS).zip(&outcome.operations);
        let slow = rows.filter_map(|((name, limit), operation)| {
            let p90 = operation.latencies.percentile(0.9)? as f64 / 1e6;
            (p90 > limit)
                .then(|| format!("{name}: 90th percentile {p90:.0} ms, above the rules' limit of {limit:.0} ms"))
        });
        slow.collect()
    }
}
