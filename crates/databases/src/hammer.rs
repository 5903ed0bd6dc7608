//! `oltp-hammer`: single-row statements by random primary key, each a transaction of its own, without thinking.
//!
//! After a published study: a load generator on a table that fits the database's page cache, with connections for each CPU
//! of the server. It stresses processes, page tables and locks more than storage when commits are not synced.

pub(crate) mod schema;

use crate::database::{Access, Connection, Database, Dialect, Failure, Param, Rows};
use crate::engine::{Client, Done, Outcome};
use crate::interface::METRICS as INTERFACE;
use crate::kernel_work::METRICS as KERNEL;
use crate::loading::{Batch, Loader, int, text};
use crate::parameters::{AT_UTILIZATION, CPU_UTILIZATION, Common, DATABASE, HELD_IN_TURNS, LAG, SHARED, UTILIZATION};
use crate::run::{OnDatabase, Workload, WorkloadOfArm};
use crate::space::Data;
use baremark_model::arm::ResolvedArm;
use baremark_model::command;
use baremark_model::descriptor::{Descriptor, joined};
use baremark_model::fingerprint;
use baremark_model::job::JobContext;
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::Sample;
use baremark_stats::Rng;
use schema::{SCHEMA, TABLE};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The statements, in the order of the mix.
pub const NAMES: [&str; 4] = ["select", "update", "insert", "delete"];
const STATEMENTS: [&str; 4] = [
    "select c from hammer where id = ?",
    "update hammer set k = k + 1 where id = ?",
    "insert into hammer (id, k, c, pad) values (?, 0, ?, ?)",
    "delete from hammer where id = ?",
];
/// Bytes of a row on disk with its index, about.
pub const ROW_BYTES: u64 = 300;
/// Rows that are inserted at once while loading.
const BATCH: usize = 5000;
const BATCH_ROWS: i64 = BATCH as i64;

const ROWS: Knob = Knob::new("rows", Kind::Count { min: 1000, max: 1_000_000_000 }, Default::Typed("100000"))
    .help("rows of the table, about 300 bytes each; buffers should hold them");
const PER_CPU: Knob = Knob::new("per_cpu", Kind::Count { min: 1, max: 1000 }, Default::Typed("4"))
    .help("connections for each CPU of the server: those of server_cpus, else of the arm (ranks)");
const MIX: Knob = Knob::new("mix", Kind::Text, Default::Typed("40/40/10/10"))
    .help("select / update / insert / delete of 100 statements; as many deletes as inserts");

static PARAMETERS: [Knob; 22] = joined(&[&[DATABASE, ROWS, PER_CPU, MIX, UTILIZATION], SHARED]);

const OWN: [Metric; 10] = [
    Metric::higher("tx_per_s", "tx/s", Aggregate::Sum).help("statements per second, each a transaction"),
    Metric::higher("tx_per_s_per_cpu", "tx/CPU-s", Aggregate::Mean)
        .help("statements per second of CPU time that server and driver used; absent where the server's is unknown"),
    Metric::lower("latency_p50_ms", "ms", Aggregate::Mean).help("median latency"),
    Metric::lower("latency_p95_ms", "ms", Aggregate::Most).help("95th percentile of it"),
    Metric::lower("latency_p99_ms", "ms", Aggregate::Most).help("99th percentile of it"),
    Metric::lower("cpu_us_per_tx", "us", Aggregate::Mean).help("CPU time of server and driver per transaction"),
    Metric::lower("driver_cpu_us_per_tx", "us", Aggregate::Mean)
        .help("CPU time of the connections' threads per transaction"),
    Metric::lower("server_cpu_us_per_tx", "us", Aggregate::Mean)
        .help("CPU time of the server's processes per transaction"),
    Metric::lower("retries", "%", Aggregate::Mean).help("serialization failures and deadlocks per 100 transactions"),
    LAG,
];

static METRICS: [Metric; 20] = joined(&[&OWN, &KERNEL, &[AT_UTILIZATION, CPU_UTILIZATION], &INTERFACE]);

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "oltp-hammer",
    help: "single-row statements by random primary key on a table in the page cache, by connections for each CPU",
    source: "this program, after a published study",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    footprint: Some(HELD_IN_TURNS),
    alternates: |arm| Settings::of(arm).is_ok_and(|settings| settings.common.setup.can_rest()),
    quick: &[("duration", "1 s"), ("warm_up", "300 ms")],
    check: |arm| Settings::of(arm).map(drop),
    stops_on_interrupt: true,
    ..Descriptor::JOB
};

/// The workload `oltp-hammer`.
pub(crate) const HAMMER: OnDatabase = OnDatabase { descriptor: &DESCRIPTOR, of: workload };

struct Settings {
    common: Common,
    rows: i64,
    per_cpu: usize,
    mix: [usize; 4],
}

impl Settings {
    fn of(arm: &ResolvedArm) -> Result<Settings, InvalidValue> {
        command::fits_timeout(arm)?;
        Ok(Settings {
            // The connections follow from the CPUs, which the site has.
            common: Common::of(arm, 1, None)?,
            rows: ROWS.get(arm)?,
            per_cpu: PER_CPU.get(arm)?,
            mix: mix(&MIX.get::<String>(arm)?)?,
        })
    }
}

fn mix(text: &str) -> Result<[usize; 4], InvalidValue> {
    let parts: Option<Vec<usize>> = text.split('/').map(|part| part.trim().parse().ok()).collect();
    let mix = parts.and_then(|parts| <[usize; 4]>::try_from(parts).ok());
    match mix {
        Some(mix) if mix.iter().sum::<usize>() == 100 && mix[2] == mix[3] => Ok(mix),
        _ => Err(InvalidValue::new(
            format!("mix = \"{text}\" must be four numbers of sum 100 with as many deletes as inserts"),
            "write such as \"40/40/10/10\"",
        )),
    }
}

/// The sources that decide its data.
const SOURCES: &[&str] = &[fingerprint!("hammer.rs"), fingerprint!("hammer/schema.rs")];

/// What its data takes; `None` of an arm that cannot be.
pub(crate) fn data(arm: &ResolvedArm) -> Option<Data> {
    let Settings { common, rows, .. } = Settings::of(arm).ok()?;
    Some(data_of(rows, &common))
}

fn data_of(rows: i64, common: &Common) -> Data {
    Data::of(format!("oltp-hammer-{rows}"), rows.unsigned_abs() * ROW_BYTES, SOURCES, common)
}

fn workload(arm: &ResolvedArm, around: JobContext<'_>) -> Result<WorkloadOfArm, InvalidValue> {
    let Settings { mut common, rows, per_cpu, mix } = Settings::of(arm)?;
    if common.setup.cpus.is_empty() && common.setup.external.is_none() {
        // So that the number of ranks is that of the server's CPUs, as it is in a guest.
        common.setup.cpus = around.cpus.to_vec();
    }
    let cpus = if common.setup.cpus.is_empty() { around.cpus.len() } else { common.setup.cpus.len() };
    common.setup.connections = per_cpu * cpus.max(1);
    let external = common.setup.external.is_some();
    let nails = Nails { rows, mix, external, seed: around.seed, phase: 0, counts: Arc::default() };
    Ok((Box::new(nails), common))
}

/// Acknowledged statements since the table was loaded, and those of unknown outcome, by statement.
#[derive(Default)]
pub struct Counts {
    known: [AtomicI64; 4],
    unknown: [AtomicI64; 4],
    /// The largest number of a row that was inserted, or may have been; 0 before the first.
    last: AtomicI64,
}

struct Nails {
    rows: i64,
    mix: [usize; 4],
    /// Whether the server was there already, so that its CPU time is unknown.
    external: bool,
    seed: u64,
    phase: u64,
    counts: Arc<Counts>,
}

impl Nails {
    /// Numbers of rows after the loaded ones that were used since the table was loaded. Few are left out: the column has 32 bits.
    fn used(&self) -> i64 {
        (self.counts.last.load(Ordering::Relaxed) - self.rows).max(0)
    }
}

impl Workload for Nails {
    fn data(&self, common: &Common) -> Data {
        data_of(self.rows, common)
    }

    fn operations(&self) -> &'static [&'static str] {
        &NAMES
    }

    fn load(&self, loader: &Loader<'_>) -> Result<(), Failure> {
        populate(loader, self.rows)
    }

    fn loaded(&mut self) {
        self.counts = Arc::default();
    }

    /// As many rows are deleted as are inserted.
    fn continues(&self) -> bool {
        true
    }

    fn clients(&mut self, connections: usize, database: &dyn Database) -> Vec<Box<dyn Client>> {
        self.phase += 1;
        let seed = self.seed.wrapping_add(self.phase << 32);
        let used = self.used();
        let one = |number: usize| -> Box<dyn Client> {
            let counts = Arc::clone(&self.counts);
            let nail = Nail::new(self.rows, self.mix, database.dialect(), seed, (number, connections), counts);
            Box::new(nail.beyond(used))
        };
        (0..connections).map(one).collect()
    }

    fn check(&self, connection: &mut dyn Connection) -> Result<Result<Vec<String>, String>, Failure> {
        Ok(match unaccounted(connection, self.rows, &self.counts)? {
            Some(what) => Err(what),
            None => Ok(vec!["every acknowledged statement is in the table".to_owned()]),
        })
    }

    fn samples(&self, outcome: &Outcome) -> Vec<Sample> {
        let used_s = (outcome.driver_cpu_ns + outcome.metered) as f64 / 1e9;
        let known = !self.external && used_s > 0.0;
        known.then(|| Sample::new("tx_per_s_per_cpu", outcome.ended_in_time as f64 / used_s)).into_iter().collect()
    }

    fn counts_kernel_work(&self) -> bool {
        true
    }
}

/// Makes the table and fills it with `rows` rows, numbered from 1.
///
/// # Errors
/// As [`Loader::load`].
pub fn populate(loader: &Loader<'_>, rows: i64) -> Result<(), Failure> {
    let begins: Vec<i64> = (0..rows).step_by(BATCH).collect();
    loader.load(&SCHEMA, (&begins, rows.unsigned_abs()), &|connection, begin| {
        let mut rng = Rng::stream(1, begin.unsigned_abs());
        let mut batch = Batch::new(connection, SCHEMA.tables, TABLE)?;
        for id in begin + 1..=rows.min(begin + BATCH_ROWS) {
            batch.row([int(id), int(0), text(digits(&mut rng, 120)), text(digits(&mut rng, 60))])?;
        }
        batch.flush()
    })
}

fn digits(rng: &mut Rng, length: usize) -> String {
    (0..length).map(|_| char::from(b'0' + u8::try_from(rng.below(10)).unwrap_or(0))).collect()
}

/// One connection of the hammer.
pub struct Nail {
    rows: i64,
    mix: [usize; 4],
    dialect: Dialect,
    rng: Rng,
    deck: Vec<usize>,
    /// Rows that this connection has inserted, the oldest first.
    own: VecDeque<i64>,
    next: i64,
    step: i64,
    kind: usize,
    id: i64,
    text: String,
    result: Rows,
    counts: Arc<Counts>,
}

impl Nail {
    /// Connection `number` of so many.
    #[must_use]
    pub fn new(
        rows: i64,
        mix: [usize; 4],
        dialect: Dialect,
        seed: u64,
        (number, of): (usize, usize),
        counts: Arc<Counts>,
    ) -> Nail {
        let mut rng = Rng::stream(seed, number as u64 + 1);
        let text = digits(&mut rng, 120);
        let next = rows + 1 + i64::try_from(number).unwrap_or(0);
        let step = i64::try_from(of).unwrap_or(1);
        let (deck, own, result) = (Vec::new(), VecDeque::new(), Rows::default());
        Nail { rows, mix, dialect, rng, deck, own, next, step, kind: 0, id: 1, text, result, counts }
    }

    /// The same where so many numbers of rows after the loaded ones were used before.
    #[must_use]
    fn beyond(mut self, used: i64) -> Nail {
        self.next = self.next.saturating_add(used);
        self
    }

    /// The next of a shuffled hundred, in which inserts and deletes take turns: there is always a row to delete. It stays the next until it
    /// was executed: the time of a load, or of one of its steps, may end in between.
    fn card(&mut self) -> usize {
        if self.deck.is_empty() {
            self.deck = (0..4).flat_map(|kind| vec![kind; self.mix[kind]]).collect();
            self.rng.shuffle(&mut self.deck);
            let mut last = 3;
            // Cards are taken from the end.
            for card in self.deck.iter_mut().rev().filter(|card| **card >= 2) {
                last = 5 - last;
                *card = last;
            }
        }
        self.deck.last().copied().unwrap_or(0)
    }

    fn statement(&mut self, connection: &mut dyn Connection) -> Result<(), Failure> {
        let id = Param::Int(self.id);
        let changed = match self.kind {
            2 => {
                let params = [id, Param::Text(&self.text), Param::Text(&self.text[..60])];
                connection.execute(2, &params, &mut self.result)?
            }
            kind => connection.execute(kind, &[id], &mut self.result)?,
        };
        if changed == 1 { Ok(()) } else { Err(Failure::other(format!("row {} is in {changed} rows", self.id))) }
    }
}

impl Client for Nail {
    fn statements(&self) -> Vec<String> {
        STATEMENTS.iter().map(|sql| self.dialect.sql(sql)).collect()
    }

    fn draw(&mut self) -> usize {
        self.kind = self.card();
        if self.kind == 3 && self.own.is_empty() {
            // The outcome of the insert before it is unknown.
            self.kind = 2;
        }
        self.id = match self.kind {
            2 => self.next,
            3 => self.own.front().copied().unwrap_or(0),
            _ => 1 + i64::try_from(self.rng.below(self.rows.unsigned_abs())).unwrap_or(0),
        };
        self.kind
    }

    fn run(&mut self, connection: &mut dyn Connection) -> Result<Done, Failure> {
        // SQLite lets writers of one process poll for each other, unless they say that they will write.
        if self.kind > 0 && self.dialect == Dialect::Sqlite {
            connection.begin(Access::Write)?;
            self.statement(connection)?;
            connection.commit()?;
        } else {
            // A statement that is lost may have been committed.
            self.statement(connection).map_err(|why| if self.kind > 0 { why.at_commit() } else { why })?;
        }
        self.counts.known[self.kind].fetch_add(1, Ordering::Relaxed);
        self.turn_over();
        Ok(Done::Committed)
    }

    fn ambiguous(&mut self) {
        self.counts.unknown[self.kind].fetch_add(1, Ordering::Relaxed);
        self.deck.pop();
        // A row of unknown existence is neither inserted nor deleted again.
        match self.kind {
            2 => self.used_number(),
            3 => drop(self.own.pop_front()),
            _ => {}
        }
    }
}

impl Nail {
    fn turn_over(&mut self) {
        self.deck.pop();
        match self.kind {
            2 => {
                self.own.push_back(self.id);
                self.used_number();
            }
            3 => drop(self.own.pop_front()),
            _ => {}
        }
    }

    /// The number of the row that it inserts is not used again.
    fn used_number(&mut self) {
        self.counts.last.fetch_max(self.id, Ordering::Relaxed);
        self.next += self.step;
    }
}

/// Compares the table with what was acknowledged; a mismatch in words.
///
/// # Errors
/// What the database says.
pub fn unaccounted(connection: &mut dyn Connection, rows: i64, counts: &Counts) -> Result<Option<String>, Failure> {
    let mut found = Rows::default();
    connection.query("select count(*), sum(k) from hammer", &mut found)?;
    let (present, updates) = (found.int(0, 0)?, found.int(0, 1)?);
    let known = |kind: usize| counts.known[kind].load(Ordering::Relaxed);
    let unknown = |kind: usize| counts.unknown[kind].load(Ordering::Relaxed);
    let expected = rows + known(2) - known(3);
    let rows_fit = (expected - unknown(3)..=expected + unknown(2)).contains(&present);
    let updates_fit = (known(1)..=known(1) + unknown(1)).contains(&updates);
    Ok((!rows_fit || !updates_fit).then(|| {
        format!(
            "{present} rows where {expected} are expected ({} of unknown outcome), {updates} updates of {} acknowledged ({} of unknown outcome)",
            unknown(2) + unknown(3),
            known(1),
            unknown(1)
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statements were divided by CPUs that were allowed, whether or not they were used.
    #[test]
    fn statements_per_cpu_are_of_the_cpu_time_that_was_used() {
        let nails =
            |external| Nails { rows: 1, mix: [100, 0, 0, 0], external, seed: 1, phase: 0, counts: Arc::default() };
        let outcome = |driver_cpu_ns, metered| Outcome {
            operations: vec![crate::engine::Operation {
                committed: 900,
                rolled_back: 100,
                ..crate::engine::Operation::default()
            }],
            ended_in_time: 1000,
            driver_cpu_ns,
            metered,
            elapsed_ns: 4_000_000_000,
            ..Outcome::default()
        };
        // 0.1 s of the driver and 0.4 s of the server in 4 s.
        let of = |external, one: &Outcome| nails(external).samples(one).first().map(|sample| sample.value);
        assert_eq!(of(false, &outcome(100_000_000, 400_000_000)), Some(2000.0));
        assert_eq!(of(false, &outcome(500_000_000, 0)), Some(2000.0), "an embedded database is in the driver's time");
        assert_eq!(of(true, &outcome(100_000_000, 0)), None, "the time of a server that was there already is unknown");
    }

    #[test]
    fn the_mix_is_exact_and_there_is_always_a_row_to_delete() {
        let mut nail = Nail::new(1000, [40, 40, 10, 10], Dialect::Postgres, 3, (1, 4), Arc::default());
        for _ in 0..5 {
            let mut counts = [0; 4];
            for _ in 0..100 {
                let kind = nail.draw();
                // Drawn, and not executed before the time was over.
                assert_eq!(nail.draw(), kind);
                counts[kind] += 1;
                assert!(kind != 3 || nail.id > 1000, "a delete without a row of its own");
                nail.turn_over();
            }
            assert_eq!(counts, [40, 40, 10, 10]);
        }
    }

    #[test]
    fn a_phase_that_goes_on_uses_the_numbers_after_the_largest_that_was_used() {
        let mut nails =
            Nails { rows: 1000, mix: [0, 0, 50, 50], external: false, seed: 1, phase: 0, counts: Arc::default() };
        let nail = |nails: &Nails, place| {
            Nail::new(1000, nails.mix, Dialect::Sqlite, 1, place, Arc::clone(&nails.counts)).beyond(nails.used())
        };
        assert_eq!(nails.used(), 0);
        // The second of two connections alone: 1002, then one of unknown outcome.
        let mut second = nail(&nails, (1, 2));
        assert_eq!((second.draw(), second.id), (2, 1002));
        second.turn_over();
        assert_eq!(second.draw(), 3);
        second.turn_over();
        assert_eq!((second.draw(), second.id), (2, 1004));
        second.ambiguous();
        assert_eq!([0, 1].map(|number| nail(&nails, (number, 2)).next), [1005, 1006]);
        // However many connections there are: each phase has one insert of one of them.
        let mut lasts = Vec::new();
        for _ in 0..3 {
            let mut one = nail(&nails, (0, 256));
            assert_eq!(one.draw(), 2);
            one.turn_over();
            lasts.push(nails.used());
        }
        assert_eq!(lasts, [5, 6, 7], "not 256 for each of them");
        nails.loaded();
        assert_eq!(nails.used(), 0, "a table as it was loaded has none of them");
    }

    #[test]
    fn a_delete_whose_insert_has_an_unknown_outcome_becomes_an_insert() {
        let mut nail = Nail::new(1000, [0, 0, 50, 50], Dialect::Postgres, 3, (0, 1), Arc::default());
        assert_eq!(nail.draw(), 2);
        nail.ambiguous();
        assert_eq!((nail.draw(), nail.id), (2, 1002), "the next card is a delete and there is no row of its own");
        nail.turn_over();
        assert_eq!((nail.draw(), nail.id), (2, 1003));
    }

    #[test]
    fn a_mix_is_four_numbers_of_sum_100() {
        assert_eq!(mix("40/40/10/10").ok(), Some([40, 40, 10, 10]));
        for wrong in ["40/40/20", "40/40/15/5", "a/b/c/d", "40/40/10/11"] {
            assert!(mix(wrong).is_err(), "{wrong}");
        }
    }
}
