//! The management database: loading, operations during the feed, and what the checks find.

use crate::bench::{LIMIT, QUIET, closed, loader, setup, start};
use baremark_databases::conditions;
use baremark_databases::database::{Connection, Database};
use baremark_databases::engine::{self, Client, Drive, Load};
use baremark_databases::kind::Kind;
use baremark_databases::management_db::check::{CONDITIONS, Totals, mismatch};
use baremark_databases::management_db::inventory::Inventory;
use baremark_databases::management_db::ledger::{Counts, Ledger};
use baremark_databases::management_db::operations::{FEED, Feed, OPERATIONS, Operator};
use baremark_databases::management_db::populate::populate;
use baremark_databases::server::Server;
use std::sync::Arc;
use std::time::Instant;

/// An inventory that is loaded within a second.
pub const SMALL: Inventory = Inventory { hosts: 4, machines: 16 };

/// What is done to a database that is right, and what is said of it.
const WRONG: [(&str, &str); 11] = [
    ("update samples_5min set total = total + 1 where entity = 8 and counter = 1", "samples_5min: "),
    ("delete from samples_1d where entity = 8", "samples_1d: "),
    ("update samples_30min set high = high + 1 where made > 0", "the roll-up is "),
    ("update samples_2h set low = low - 1 where made > 0 and entity = 9", "the roll-up is "),
    ("update samples_2h set made = made + 1000 where made > 0", "was acknowledged"),
    ("update samples_20s set value = value + 1 where entity = 9", "is not the one that was sent"),
    ("delete from samples_20s where source = 0 and entity = 9", "was acknowledged and is not all there"),
    ("delete from samples_20s where source = 1 and entity = 9", "of the feed was acknowledged and is not all there"),
    (
        "delete from events where batch = {last} and number = 3",
        "events: batch {last} was acknowledged and has 99 rows of 100",
    ),
    (
        "delete from tasks where batch = {last} and number = 3",
        "tasks: batch {last} was acknowledged and has 9 rows of 10",
    ),
    ("update samples_30min set total = total + 1 where made > 0 and entity = 9 and counter = 0", "samples_30min: "),
];

/// What violates conditions, and which.
const VIOLATIONS: [(&str, u32); 5] = [
    ("update entities set parent = 999 where entity = 8", 1),
    ("delete from networks", 2),
    ("delete from events where batch = 50 and number = 3", 3),
    ("delete from tasks where batch = 50 and number = 3", 4),
    ("delete from tasks where batch = 50", 5),
];

pub fn said(connection: &mut dyn Connection, totals: &Totals, ledger: &Ledger) -> Option<String> {
    let book = ledger.book().clone();
    mismatch(connection, SMALL, totals, &book).unwrap_or_else(|why| panic!("{why}"))
}

/// Runs the operations while the feed reports; every operation ends.
fn runs(server: &Server, ledger: &Arc<Ledger>) {
    let database = &*server.database();
    let counts = Arc::new(Counts::default());
    let client = Operator::new(SMALL, database.dialect(), Arc::clone(ledger), Arc::clone(&counts));
    let mut operator: [Box<dyn Client>; 1] = [Box::new(client)];
    let mut feed: [Box<dyn Client>; 1] = [Box::new(Feed::new(SMALL, database.dialect(), Arc::clone(ledger)))];
    let (mut committed, mut reported) = ([0_u64; OPERATIONS.len()], 0);
    let (mut seconds, deadline) = (0.8, Instant::now() + LIMIT);
    // However slow the machine is: what ends counts in a window that is long enough for it.
    while committed.contains(&0) || reported <= 4 {
        assert!(Instant::now() < deadline, "of {OPERATIONS:?} there ended {committed:?}, and {reported} reports");
        let load = closed(seconds);
        let reports = Load { drive: Drive::Open { rate: 40.0, poisson: false }, ..load.clone() };
        let (operated, fed) = std::thread::scope(|scope| {
            let fed = scope.spawn(|| engine::run(database, &mut feed, &FEED, &reports, &mut || 0, &QUIET));
            let operated = engine::run(database, &mut operator, &OPERATIONS, &load, &mut || 0, &QUIET);
            (operated, fed.join().unwrap())
        });
        let operated = operated.unwrap_or_else(|why| panic!("{why}"));
        for (sum, operation) in committed.iter_mut().zip(&operated.operations) {
            *sum += operation.committed;
        }
        reported += fed.unwrap_or_else(|why| panic!("{why}")).operations[0].committed;
        seconds *= 2.0;
    }
    for (which, operation) in OPERATIONS.iter().enumerate() {
        assert!(counts.mean_rows(which).is_some(), "{operation}");
    }
    // An insert brings a sample of every host and machine, of two counters; a roll-up to 30 min reads six times as many.
    assert_eq!((counts.mean_rows(0), counts.mean_rows(1)), (Some(40.0), Some(240.0)));
}

/// Loads it, over two connections.
pub fn filled(database: &dyn Database) {
    populate(&loader(database, 2), SMALL).unwrap_or_else(|why| panic!("{why}"));
}

pub fn holds_on(kind: Kind) {
    let root = tempfile::tempdir().unwrap();
    let Some(server) = start(&setup(kind), root.path()) else { return };
    let database = server.database();
    let connections = if server.address().is_some() { 2 } else { 1 };
    populate(&loader(&*database, connections), SMALL).unwrap_or_else(|why| panic!("{why}"));
    let (totals, ledger) = (Totals::of(SMALL), Arc::new(Ledger::default()));
    let mut connection = database.connect().unwrap();
    assert_eq!(said(&mut *connection, &totals, &ledger), None);
    for (sql, number) in VIOLATIONS {
        connection.script("begin").unwrap();
        connection.script(sql).unwrap();
        let found = conditions::violated(&mut *connection, &CONDITIONS).unwrap();
        connection.script("rollback").unwrap();
        assert!(found.iter().any(|(condition, _)| condition.number == number), "{sql}");
    }
    drop(connection);
    runs(&server, &ledger);
    let last = ledger.book().batches.last().copied().unwrap();
    let named = |text: &str| text.replace("{last}", &last.to_string());
    let mut connection = database.connect().unwrap();
    assert_eq!(conditions::violated(&mut *connection, &CONDITIONS).unwrap().len(), 0);
    assert_eq!(said(&mut *connection, &totals, &ledger), None);
    for (sql, expected) in WRONG {
        connection.script("begin").unwrap();
        let (sql, expected) = (named(sql), named(expected));
        connection.script(&sql).unwrap_or_else(|why| panic!("{sql}: {why}"));
        let found = said(&mut *connection, &totals, &ledger);
        connection.script("rollback").unwrap();
        assert!(found.as_ref().is_some_and(|said| said.contains(&expected)), "{sql}: {found:?}");
    }
}
