//! Whether the database has what was acknowledged, and whether roll-ups are what this program computes.

use super::inventory::{COUNTERS, Inventory};
use super::ledger::{BATCH_EVENTS, BATCH_TASKS, Book, Rolled, Source};
use super::operations::report_rows;
use super::populate::measurements;
use super::samples::{RESOLUTIONS, Resolution, Sample, begin, measurement, sample};
use crate::conditions::Condition;
use crate::database::{Connection, Failure, Rows};
use std::collections::{BTreeMap, BTreeSet};

/// What holds whenever no transaction is under way, as far as SQL can check it.
pub const CONDITIONS: [Condition; 5] = [
    Condition::new(1, "every entity but the root lies in another").counted_by(
        "select count(*) from entities e left join entities p on p.entity = e.parent \
         where e.entity > 1 and p.entity is null",
    ),
    Condition::new(2, "every virtual machine has its host, datastore and network").counted_by(
        "select count(*) from machines m left join hosts h on h.entity = m.host \
         left join datastores d on d.entity = m.datastore left join networks n on n.entity = m.network \
         where h.entity is null or d.entity is null or n.entity is null",
    ),
    Condition::new(3, "every batch has its events")
        .counted_by("select count(*) from (select batch from events group by batch having count(*) <> 100) b"),
    Condition::new(4, "every batch has its tasks")
        .counted_by("select count(*) from (select batch from tasks group by batch having count(*) <> 10) b"),
    Condition::new(5, "events and tasks have the same batches").counted_by(
        "select count(*) from (select distinct batch from events) e \
         left join (select distinct batch from tasks) t on t.batch = e.batch where t.batch is null",
    ),
];

/// The number and the sum of the samples that each resolution has, whatever was rolled up again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals([(i64, i64); 4]);

impl Totals {
    /// Computes them.
    #[must_use]
    pub fn of(inventory: Inventory) -> Totals {
        Totals([0, 1, 2, 3].map(|level| {
            let Resolution { kept, period_ms, .. } = RESOLUTIONS[level];
            let rows = (0..kept).flat_map(|period| series(inventory).map(move |series| (period, series)));
            let total = |(period, (entity, counter)): (i64, (i64, i64))| {
                sample(level, begin(level) + period * period_ms, entity, counter).total
            };
            (kept * inventory.series(), rows.map(total).sum())
        }))
    }
}

fn series(inventory: Inventory) -> impl Iterator<Item = (i64, i64)> {
    inventory.sampled().flat_map(|entity| (0..COUNTERS).map(move |counter| (entity, counter)))
}

/// The first thing that is not as it must be, in words.
///
/// # Errors
/// What the database says.
pub fn mismatch(
    connection: &mut dyn Connection,
    inventory: Inventory,
    totals: &Totals,
    book: &Book,
) -> Result<Option<String>, Failure> {
    let mut rows = Rows::default();
    for (Resolution { table, .. }, (count, sum)) in RESOLUTIONS.iter().zip(totals.0) {
        connection.query(&format!("select count(*), sum(total) from {table}"), &mut rows)?;
        let found = (rows.int(0, 0)?, rows.int(0, 1)?);
        if found != (count, sum) {
            let (samples, total) = found;
            return Ok(Some(format!("{table}: {samples} rows of sum {total}; {count} of sum {sum} are expected")));
        }
    }
    for (&(level, at), rolled) in &book.rolled {
        if let Some(wrong) = period(connection, inventory, (level, at), rolled)? {
            return Ok(Some(wrong));
        }
    }
    if let Some(wrong) = measured(connection, inventory, book)? {
        return Ok(Some(wrong));
    }
    batches(connection, book)
}

/// A period that was rolled up: every row as computed, and made by the roll-up that was acknowledged last.
fn period(
    connection: &mut dyn Connection,
    inventory: Inventory,
    (level, at): (usize, i64),
    rolled: &Rolled,
) -> Result<Option<String>, Failure> {
    let table = RESOLUTIONS[level].table;
    let sql = format!("select entity, counter, samples, total, low, high, made from {table} where at = {at}");
    let mut rows = Rows::default();
    connection.query(&sql, &mut rows)?;
    let expected = inventory.series();
    if rows.len() as u64 != expected.unsigned_abs() {
        return Ok(Some(format!("{table} at {at}: {} rows; {expected} are expected", rows.len())));
    }
    for row in 0..rows.len() {
        let cell = |column: usize| rows.int(row, column);
        let (entity, counter, made) = (cell(0)?, cell(1)?, cell(6)?);
        let found = Sample { samples: cell(2)?, total: cell(3)?, low: cell(4)?, high: cell(5)? };
        let computed = sample(level, at, entity, counter);
        if found != computed {
            let what = format!("{table} at {at}, entity {entity}, counter {counter}");
            return Ok(Some(format!("{what}: the roll-up is {found:?}; recomputed {computed:?}")));
        }
        let acknowledged = rolled.known.unwrap_or(0);
        if made != acknowledged && !rolled.unknown.contains(&made) {
            return Ok(Some(format!("{table} at {at}: made by roll-up {made}; {acknowledged} was acknowledged")));
        }
    }
    Ok(None)
}

/// Measurements of the last minutes: each is the one that was sent, and none that was acknowledged and is kept is missing.
fn measured(connection: &mut dyn Connection, inventory: Inventory, book: &Book) -> Result<Option<String>, Failure> {
    let mut rows = Rows::default();
    connection.query("select source, turn, entity, counter, value from samples_20s", &mut rows)?;
    let mut found: BTreeSet<[i64; 4]> = BTreeSet::new();
    for row in 0..rows.len() {
        let cell = |column: usize| rows.int(row, column);
        let [source, turn, entity, counter] = [cell(0)?, cell(1)?, cell(2)?, cell(3)?];
        if cell(4)? != measurement(source, turn, entity, counter) {
            return Ok(Some(format!(
                "samples_20s, turn {turn}, entity {entity}: the value is not the one that was sent"
            )));
        }
        found.insert([source, turn, entity, counter]);
    }
    let is_there = |&[source, turn, entity, counter, _]: &[i64; 5]| found.contains(&[source, turn, entity, counter]);
    let kept = |turn: i64, source: Source| turn >= book.purged_turns[source as usize];
    for &turn in book.turns.iter().filter(|turn| kept(**turn, Source::Insert)) {
        if !measurements(Source::Insert, turn, inventory.sampled()).all(|row| is_there(&row)) {
            return Ok(Some(format!("samples_20s: turn {turn} was acknowledged and is not all there")));
        }
    }
    for &report in book.reports.iter().filter(|report| kept(**report / inventory.hosts, Source::Feed)) {
        if !report_rows(inventory, report).iter().all(is_there) {
            return Ok(Some(format!("samples_20s: report {report} of the feed was acknowledged and is not all there")));
        }
    }
    Ok(None)
}

/// Batches of events and tasks that were acknowledged and are kept.
fn batches(connection: &mut dyn Connection, book: &Book) -> Result<Option<String>, Failure> {
    for (table, expected) in [("events", BATCH_EVENTS), ("tasks", BATCH_TASKS)] {
        let mut rows = Rows::default();
        connection.query(&format!("select batch, count(*) from {table} group by batch"), &mut rows)?;
        let counts: Result<BTreeMap<i64, i64>, Failure> =
            (0..rows.len()).map(|row| Ok((rows.int(row, 0)?, rows.int(row, 1)?))).collect();
        let counts = counts?;
        for batch in book.batches.iter().filter(|batch| **batch >= book.purged_batches) {
            let found = counts.get(batch).copied().unwrap_or(0);
            if found != expected {
                return Ok(Some(format!("{table}: batch {batch} was acknowledged and has {found} rows of {expected}")));
            }
        }
    }
    Ok(None)
}
