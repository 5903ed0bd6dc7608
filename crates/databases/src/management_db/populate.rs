//! The rows of a new database, made in parallel: the same, however many connections load it.

use super::inventory::{COUNTERS, Inventory, Kind, NETWORKS};
use super::ledger::{BATCH_EVENTS, BATCH_TASKS, KEPT_BATCHES, KEPT_TURNS, Source};
use super::samples::{RESOLUTIONS, Sample, begin, measurement, sample};
use super::schema::{SCHEMA, TABLES};
use crate::database::{Cell, Connection, Failure};
use crate::loading::{Batch, Loader, int, text};

/// Periods that one connection makes at once.
const CHUNK: i64 = 24;

/// A part of the rows that one connection makes.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// The inventory, events and the last minutes.
    Head,
    /// Periods of a resolution from this one on, so many.
    Samples { level: usize, first: i64, count: i64 },
}

fn parts() -> Vec<Part> {
    let levels = RESOLUTIONS.iter().enumerate().flat_map(|(level, resolution)| {
        let chunks = (0..resolution.kept).step_by(usize::try_from(CHUNK).unwrap_or(1));
        chunks.map(move |first| Part::Samples { level, first, count: CHUNK.min(resolution.kept - first) })
    });
    [Part::Head].into_iter().chain(levels).collect()
}

/// Rows of all tables.
#[must_use]
pub fn rows(inventory: Inventory) -> u64 {
    let permissions: i64 = (1..=inventory.entities()).map(|entity| inventory.permissions(entity)).sum();
    let resources = inventory.hosts + inventory.machines + inventory.datastores() + NETWORKS;
    // An alarm of each series.
    let periods = 1 + KEPT_TURNS + RESOLUTIONS.iter().map(|resolution| resolution.kept).sum::<i64>();
    let batches = KEPT_BATCHES * (BATCH_EVENTS + BATCH_TASKS);
    (inventory.entities() + permissions + resources + inventory.series() * periods + batches).unsigned_abs()
}

/// Makes the tables and fills them.
///
/// # Errors
/// As [`Loader::load`].
pub fn populate(loader: &Loader<'_>, inventory: Inventory) -> Result<(), Failure> {
    loader.load(&SCHEMA, (&parts(), rows(inventory)), &|connection, part| match *part {
        Part::Head => head(connection, inventory),
        Part::Samples { level, first, count } => samples(connection, inventory, level, first..first + count),
    })
}

fn head(connection: &mut dyn Connection, inventory: Inventory) -> Result<(), Failure> {
    tree(connection, inventory)?;
    resources(connection, inventory)?;
    events(connection, inventory)?;
    let mut batch = Batch::new(connection, &TABLES, "samples_20s")?;
    for turn in 0..KEPT_TURNS {
        for row in measurements(Source::Insert, turn, inventory.sampled()) {
            batch.row(row.map(int))?;
        }
    }
    batch.flush()
}

/// Rows of `samples_20s`: what these entities measured.
pub(crate) fn measurements(
    source: Source,
    turn: i64,
    entities: impl Iterator<Item = i64>,
) -> impl Iterator<Item = [i64; 5]> {
    let source = source as i64;
    entities.flat_map(move |entity| {
        (0..COUNTERS).map(move |counter| [source, turn, entity, counter, measurement(source, turn, entity, counter)])
    })
}

fn tree(connection: &mut dyn Connection, inventory: Inventory) -> Result<(), Failure> {
    let mut batch = Batch::new(connection, &TABLES, "entities")?;
    for entity in 1..=inventory.entities() {
        let (kind, number) = inventory.kind(entity);
        let name = format!("{kind:?}-{number}").to_lowercase();
        batch.row([int(entity), int(inventory.parent(entity)), int(kind as i64), text(name)])?;
    }
    batch.flush()?;
    let mut batch = Batch::new(connection, &TABLES, "permissions")?;
    let mut permission = 0;
    for entity in 1..=inventory.entities() {
        for principal in 0..inventory.permissions(entity) {
            permission += 1;
            batch.row([permission, entity, principal, entity % 5].map(int))?;
        }
    }
    batch.flush()
}

fn resources(connection: &mut dyn Connection, inventory: Inventory) -> Result<(), Failure> {
    let first = |kind| inventory.first(kind);
    let mut fill = |table: &'static str, count: i64, row: &dyn Fn(i64) -> Vec<Cell>| {
        let mut batch = Batch::new(connection, &TABLES, table)?;
        (0..count).try_for_each(|number| batch.row(row(number)))?;
        batch.flush()
    };
    let ints = |row: &[i64]| row.iter().copied().map(int).collect::<Vec<Cell>>();
    fill("hosts", inventory.hosts, &|number| ints(&[first(Kind::Host) + number, 32, 262_144, 1]))?;
    fill("machines", inventory.machines, &|number| {
        let machine = first(Kind::Machine) + number;
        let datastore = first(Kind::Datastore) + number % inventory.datastores();
        let network = first(Kind::Network) + number % NETWORKS;
        ints(&[machine, inventory.parent(machine), datastore, network, 1 + number % 4, 4096])
    })?;
    fill("datastores", inventory.datastores(), &|number| {
        ints(&[first(Kind::Datastore) + number, 10_000_000, 5_000_000 + number])
    })?;
    fill("networks", NETWORKS, &|number| ints(&[first(Kind::Network) + number, 100 + number]))?;
    let mut batch = Batch::new(connection, &TABLES, "alarms")?;
    for entity in inventory.sampled() {
        for counter in 0..COUNTERS {
            batch.row([entity, counter, 9000, i64::from((entity + counter) % 20 == 0)].map(int))?;
        }
    }
    batch.flush()
}

fn events(connection: &mut dyn Connection, inventory: Inventory) -> Result<(), Failure> {
    let rows = || (0..KEPT_BATCHES).flat_map(|number| (0..BATCH_EVENTS).map(move |event| (number, event)));
    let mut batch = Batch::new(connection, &TABLES, "events")?;
    for (number, event) in rows() {
        let [entity, kind] = event_of(inventory, number, event);
        batch.row([int(number), int(event), int(entity), int(kind), text(message(number, event))])?;
    }
    batch.flush()?;
    let mut batch = Batch::new(connection, &TABLES, "tasks")?;
    for (number, task) in rows().filter(|(_, event)| *event < BATCH_TASKS) {
        batch.row([number, task, event_of(inventory, number, task)[0], 1].map(int))?;
    }
    batch.flush()
}

/// The entity and the kind of an event.
pub(crate) fn event_of(inventory: Inventory, batch: i64, event: i64) -> [i64; 2] {
    let number = batch * BATCH_EVENTS + event;
    [1 + (number * 7919) % inventory.entities(), number % 30]
}

/// The text of an event.
pub(crate) fn message(batch: i64, event: i64) -> String {
    format!(
        "event {event} of batch {batch}: the state of an entity changed from one that is named to another that is named, too"
    )
}

fn samples(
    connection: &mut dyn Connection,
    inventory: Inventory,
    level: usize,
    periods: std::ops::Range<i64>,
) -> Result<(), Failure> {
    let mut batch = Batch::new(connection, &TABLES, RESOLUTIONS[level].table)?;
    for at in periods.map(|period| begin(level) + period * RESOLUTIONS[level].period_ms) {
        for entity in inventory.sampled() {
            for counter in 0..COUNTERS {
                let Sample { samples, total, low, high } = sample(level, at, entity, counter);
                batch.row([at, entity, counter, samples, total, low, high, 0].map(int))?;
            }
        }
    }
    batch.flush()
}
