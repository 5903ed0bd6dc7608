//! The operations of the management server, and the feed: their inputs, statements and rows.
//!
//! Each operation is one transaction. A roll-up makes one period of all entities anew: it removes the rows that are there and inserts those that
//! the finer resolution gives, so that an operation costs the same however often a phase runs it.

use super::inventory::{COUNTERS, DATACENTERS, Inventory};
use super::ledger::{BATCH_EVENTS, BATCH_TASKS, Counts, KEPT_BATCHES, KEPT_TURNS, Ledger, Source};
use super::populate::{event_of, measurements, message};
use super::samples::{RESOLUTIONS, begin, bucket, parts};
use crate::database::{Access, Answers, Connection, Dialect, Failure, Param, Rows};
use crate::engine::{Client, Done};
use crate::statements::statements;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The operations, in the order of a cycle.
pub const OPERATIONS: [&str; 9] =
    ["insert", "rollup-30min", "rollup-2h", "rollup-1d", "purge", "events", "top-n", "subtree", "snapshot"];
/// The operation of the feed.
pub const FEED: [&str; 1] = ["feed"];
/// Rows of the statement that inserts several.
const MANY: usize = 10;
/// Entities that top-n returns.
const TOP: i64 = 20;

statements! {
    INSERT_MANY = "insert into samples_20s (source, turn, entity, counter, value) values (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?)";
    INSERT_ONE = "insert into samples_20s (source, turn, entity, counter, value) values (?, ?, ?, ?, ?)";
    REMOVE_30MIN = "delete from samples_30min where at = ?";
    ROLLUP_30MIN = "insert into samples_30min (at, entity, counter, samples, total, low, high, made) select min(at), entity, counter, sum(samples), sum(total), min(low), max(high), 0 + ? from samples_5min where at >= ? and at < ? group by entity, counter";
    REMOVE_2H = "delete from samples_2h where at = ?";
    ROLLUP_2H = "insert into samples_2h (at, entity, counter, samples, total, low, high, made) select min(at), entity, counter, sum(samples), sum(total), min(low), max(high), 0 + ? from samples_30min where at >= ? and at < ? group by entity, counter";
    REMOVE_1D = "delete from samples_1d where at = ?";
    ROLLUP_1D = "insert into samples_1d (at, entity, counter, samples, total, low, high, made) select min(at), entity, counter, sum(samples), sum(total), min(low), max(high), 0 + ? from samples_2h where at >= ? and at < ? group by entity, counter";
    PURGE_SAMPLES = "delete from samples_20s where source = ? and turn < ?";
    EVENT_INSERT = "insert into events (batch, number, entity, kind, message) values (?, ?, ?, ?, ?)";
    TASK_INSERT = "insert into tasks (batch, number, entity, state) values (?, ?, ?, 1)";
    PURGE_EVENTS = "delete from events where batch < ?";
    PURGE_TASKS = "delete from tasks where batch < ?";
    TOP_N = "select entity, sum(total) as used, sum(samples) from samples_5min where at >= ? and counter = ? group by entity order by used desc, entity limit 20";
    SUBTREE_OF = "with recursive tree (entity) as (select entity from entities where entity = ? union all select e.entity from entities e join tree t on e.parent = t.entity) select e.entity, e.name, e.kind, p.principal, p.role from tree t join entities e on e.entity = t.entity left join permissions p on p.entity = t.entity";
    INVENTORY_SNAPSHOT = "select m.entity, e.name, m.cpus, h.state, d.free_mb, n.vlan, (select count(*) from alarms a where a.entity = m.entity and a.state = 1) from machines m join entities e on e.entity = m.entity join hosts h on h.entity = m.host join datastores d on d.entity = m.datastore join networks n on n.entity = m.network";
}

/// An operation with its inputs.
#[derive(Clone, Copy, Debug)]
enum Task {
    Insert { turn: i64 },
    Rollup { level: usize, at: i64, made: i64 },
    Purge { turns: [i64; 2] },
    Events { batch: i64 },
    Top { counter: i64 },
    Subtree { top: i64 },
    Snapshot,
}

/// The management server: it runs one operation after the other.
pub struct Operator {
    inventory: Inventory,
    dialect: Dialect,
    ledger: Arc<Ledger>,
    counts: Arc<Counts>,
    /// Rows that the subtree of each datacenter has.
    subtrees: Vec<i64>,
    executed: usize,
    task: Task,
    result: Rows,
    answers: Answers,
}

impl Operator {
    /// Over a database of this dialect.
    #[must_use]
    pub fn new(inventory: Inventory, dialect: Dialect, ledger: Arc<Ledger>, counts: Arc<Counts>) -> Operator {
        let subtrees = (0..DATACENTERS).map(|number| inventory.subtree_rows(2 + number)).collect();
        Operator {
            inventory,
            dialect,
            ledger,
            counts,
            subtrees,
            executed: 0,
            task: Task::Snapshot,
            result: Rows::default(),
            answers: Answers::default(),
        }
    }

    fn next_task(&self, operation: usize) -> Task {
        let ledger = &*self.ledger;
        let cycle = i64::try_from(self.executed / OPERATIONS.len()).unwrap_or(0);
        match operation {
            0 => Task::Insert { turn: ledger.next_turn.fetch_add(1, Ordering::Relaxed) },
            level @ 1..=3 => {
                let made = ledger.next_made.fetch_add(1, Ordering::Relaxed);
                Task::Rollup { level, at: bucket(level, cycle), made }
            }
            4 => {
                let reported = ledger.next_report.load(Ordering::Relaxed) / self.inventory.hosts;
                let turns = [ledger.next_turn.load(Ordering::Relaxed), reported].map(|next| (next - KEPT_TURNS).max(0));
                ledger.book().purged_turns = turns;
                Task::Purge { turns }
            }
            5 => {
                let batch = ledger.next_batch.fetch_add(1, Ordering::Relaxed);
                ledger.book().purged_batches = batch + 1 - KEPT_BATCHES;
                Task::Events { batch }
            }
            6 => Task::Top { counter: cycle % COUNTERS },
            7 => Task::Subtree { top: 2 + cycle % DATACENTERS },
            _ => Task::Snapshot,
        }
    }

    /// Runs the operation and returns its rows.
    fn execute(&mut self, db: &mut dyn Connection) -> Result<u64, Failure> {
        match self.task {
            Task::Insert { turn } => {
                let rows = measurements(Source::Insert, turn, self.inventory.sampled()).collect::<Vec<_>>();
                insert(db, &rows, &mut self.answers)
            }
            Task::Rollup { level, at, made } => self.rollup(db, level, at, made),
            Task::Purge { turns } => {
                let mut purge = |source: Source, turn: i64| {
                    run(db, Statement::PURGE_SAMPLES, &[(source as i64).into(), turn.into()], &mut self.result)
                };
                Ok(purge(Source::Insert, turns[0])? + purge(Source::Feed, turns[1])?)
            }
            Task::Events { batch } => self.events(db, batch),
            Task::Top { counter } => {
                run(db, Statement::TOP_N, &[begin(0).into(), counter.into()], &mut self.result)?;
                expect("top-n", &self.result, TOP)?;
                // It reads all samples of the counter and returns few.
                Ok((RESOLUTIONS[0].kept * self.inventory.series() / COUNTERS).unsigned_abs())
            }
            Task::Subtree { top } => {
                run(db, Statement::SUBTREE_OF, &[top.into()], &mut self.result)?;
                let expected = usize::try_from(top - 2).ok().and_then(|number| self.subtrees.get(number).copied());
                expect("subtree", &self.result, expected.unwrap_or(0))
            }
            Task::Snapshot => {
                run(db, Statement::INVENTORY_SNAPSHOT, &[], &mut self.result)?;
                expect("snapshot", &self.result, self.inventory.machines)
            }
        }
    }

    fn rollup(&mut self, db: &mut dyn Connection, level: usize, at: i64, made: i64) -> Result<u64, Failure> {
        let (remove, make) = match level {
            1 => (Statement::REMOVE_30MIN, Statement::ROLLUP_30MIN),
            2 => (Statement::REMOVE_2H, Statement::ROLLUP_2H),
            _ => (Statement::REMOVE_1D, Statement::ROLLUP_1D),
        };
        let end = at + RESOLUTIONS[level].period_ms;
        run(db, remove, &[at.into()], &mut self.result)?;
        let rows = run(db, make, &[made.into(), at.into(), end.into()], &mut self.result)?;
        let expected = self.inventory.series();
        if rows != expected.unsigned_abs() {
            return Err(Failure::other(format!("a roll-up made {rows} rows; {expected} are expected")));
        }
        Ok((expected * parts(level)).unsigned_abs())
    }

    fn events(&mut self, db: &mut dyn Connection, batch: i64) -> Result<u64, Failure> {
        let messages: Vec<String> = (0..BATCH_EVENTS).map(|event| message(batch, event)).collect();
        let mut all = self.answers.batch();
        for (event, message) in (0..BATCH_EVENTS).zip(&messages) {
            let [entity, kind] = event_of(self.inventory, batch, event);
            let params: [Param<'_>; 5] =
                [batch.into(), event.into(), entity.into(), kind.into(), message.as_str().into()];
            all.add(Statement::EVENT_INSERT as usize, &params);
        }
        for task in 0..BATCH_TASKS {
            let entity = event_of(self.inventory, batch, task)[0];
            all.add(Statement::TASK_INSERT as usize, &[batch.into(), task.into(), entity.into()]);
        }
        let oldest = [Param::Int(batch + 1 - KEPT_BATCHES)];
        let purges = [Statement::PURGE_EVENTS, Statement::PURGE_TASKS].map(|purge| all.add(purge as usize, &oldest));
        self.answers.execute(db, all)?;
        let purged: u64 = purges.iter().map(|purge| self.answers.count(*purge)).sum();
        let rows = (BATCH_EVENTS + BATCH_TASKS).unsigned_abs() + purged;
        Ok(rows)
    }
}

fn expect(operation: &str, rows: &Rows, expected: i64) -> Result<u64, Failure> {
    let found = rows.len() as u64;
    if found == expected.unsigned_abs() {
        return Ok(found);
    }
    Err(Failure::other(format!("{operation} returned {found} rows; {expected} are expected")))
}

/// Inserts measurements, several with a statement.
fn insert(db: &mut dyn Connection, rows: &[[i64; 5]], answers: &mut Answers) -> Result<u64, Failure> {
    let mut batch = answers.batch();
    for chunk in rows.chunks(MANY) {
        let params: Vec<Param<'_>> = chunk.as_flattened().iter().copied().map(Param::Int).collect();
        if chunk.len() == MANY {
            batch.add(Statement::INSERT_MANY as usize, &params);
            continue;
        }
        for one in params.chunks(5) {
            batch.add(Statement::INSERT_ONE as usize, one);
        }
    }
    let statements = batch.len();
    answers.execute(db, batch)?;
    Ok((0..statements).map(|number| answers.count(number)).sum())
}

impl Client for Operator {
    fn statements(&self) -> Vec<String> {
        STATEMENTS.iter().map(|sql| self.dialect.sql(sql)).collect()
    }

    fn draw(&mut self) -> usize {
        let operation = self.executed % OPERATIONS.len();
        self.task = self.next_task(operation);
        self.executed += 1;
        operation
    }

    fn run(&mut self, connection: &mut dyn Connection) -> Result<Done, Failure> {
        let reads = matches!(self.task, Task::Top { .. } | Task::Subtree { .. } | Task::Snapshot);
        connection.begin(if reads { Access::Read } else { Access::Write })?;
        let rows = self.execute(connection)?;
        connection.commit()?;
        self.counts.executed((self.executed - 1) % OPERATIONS.len(), rows);
        let mut book = self.ledger.book();
        match self.task {
            Task::Insert { turn } => {
                book.turns.insert(turn);
            }
            Task::Events { batch } => {
                book.batches.insert(batch);
            }
            Task::Rollup { level, at, made } => {
                let rolled = book.rolled.entry((level, at)).or_default();
                rolled.known = Some(made);
                rolled.unknown.clear();
            }
            _ => {}
        }
        Ok(Done::Committed)
    }

    fn ambiguous(&mut self) {
        if let Task::Rollup { level, at, made } = self.task {
            self.ledger.book().rolled.entry((level, at)).or_default().unknown.insert(made);
        }
    }
}

/// A connection of the feed: each of its transactions is one host's report of itself and its virtual machines.
pub struct Feed {
    inventory: Inventory,
    dialect: Dialect,
    ledger: Arc<Ledger>,
    report: i64,
    rows: Vec<[i64; 5]>,
    answers: Answers,
}

impl Feed {
    /// Over a database of this dialect.
    #[must_use]
    pub fn new(inventory: Inventory, dialect: Dialect, ledger: Arc<Ledger>) -> Feed {
        Feed { inventory, dialect, ledger, report: 0, rows: Vec::new(), answers: Answers::default() }
    }
}

/// The rows of a report.
pub(crate) fn report_rows(inventory: Inventory, report: i64) -> Vec<[i64; 5]> {
    let (turn, host) = (report / inventory.hosts, report % inventory.hosts);
    measurements(Source::Feed, turn, inventory.reported(host)).collect()
}

impl Client for Feed {
    fn statements(&self) -> Vec<String> {
        STATEMENTS.iter().map(|sql| self.dialect.sql(sql)).collect()
    }

    fn draw(&mut self) -> usize {
        self.report = self.ledger.next_report.fetch_add(1, Ordering::Relaxed);
        self.rows = report_rows(self.inventory, self.report);
        0
    }

    fn run(&mut self, connection: &mut dyn Connection) -> Result<Done, Failure> {
        connection.begin(Access::Write)?;
        insert(connection, &self.rows, &mut self.answers)?;
        connection.commit()?;
        self.ledger.book().reports.insert(self.report);
        Ok(Done::Committed)
    }
}
