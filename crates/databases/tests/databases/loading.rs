//! What is reported while rows are loaded.

use crate::bench::{QUIET, setup, start};
use baremark_databases::database::Cell;
use baremark_databases::dvd_store::schema::Size;
use baremark_databases::kind::Kind;
use baremark_databases::loading::{Loader, Schema, Table};
use baremark_databases::management_db::inventory::Inventory;
use baremark_databases::{dvd_store, hammer, management_db};
use baremark_model::loading::Loading;
use std::cell::RefCell;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

const SCHEMA: Schema = Schema {
    tables: &[Table { name: "t", columns: 1, create: "create table t (id integer not null primary key)" }],
    indexes: &[],
};
/// Rows of each of two parts.
const ROWS: i64 = 10;

/// Two connections insert a part each, and neither ends before a report has the rows of both.
#[test]
fn rows_of_parallel_connections_are_added_up_while_they_load() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let root = tempfile::tempdir().unwrap();
        let Some(server) = start(&setup(kind), root.path()) else { continue };
        let database = server.database();
        let (reported, heard, all) = (Mutex::new(0), Condvar::new(), RefCell::new(Vec::new()));
        let report = |loading: Loading| {
            all.borrow_mut().push(loading);
            *reported.lock().unwrap() = loading.rows;
            heard.notify_all();
        };
        let both = 2 * ROWS.unsigned_abs();
        let loader = Loader { database: &*database, connections: 2, report: &report, interrupt: &QUIET };
        let loaded = loader.load(&SCHEMA, (&[0, 1], both), &|connection, part| {
            let cells: Vec<Cell> = (1..=ROWS).map(|id| Cell::Int(part * ROWS + id)).collect();
            connection.insert("t", 1, &cells)?;
            let seen = reported.lock().unwrap();
            let (seen, _) = heard.wait_timeout_while(seen, Duration::from_secs(90), |rows| *rows < both).unwrap();
            assert_eq!(*seen, both, "no report has the rows of both connections");
            Ok(())
        });
        loaded.unwrap_or_else(|why| panic!("{}: {why}", kind.word()));
        let all = all.into_inner();
        let (last, before) = all.split_last().unwrap();
        assert!(!before.is_empty() && before.iter().all(|loading| !loading.is_complete()), "{all:?}");
        assert!(all.windows(2).all(|two| two[0].rows <= two[1].rows && two[0].elapsed_ns <= two[1].elapsed_ns));
        assert_eq!((last.rows, last.of, last.is_complete()), (both, both, true));
    }
}

/// The rows that were loaded, as the last report says.
fn loaded(populate: impl Fn(&Loader<'_>)) -> u64 {
    let root = tempfile::tempdir().unwrap();
    let server = start(&setup(Kind::Sqlite), root.path()).unwrap();
    let database = server.database();
    let last = RefCell::new(Loading::default());
    let report = |loading: Loading| *last.borrow_mut() = loading;
    populate(&Loader { database: &*database, connections: 1, report: &report, interrupt: &QUIET });
    let last = last.into_inner();
    assert_eq!(last.rows, last.of);
    last.rows
}

#[test]
fn as_many_rows_are_loaded_as_are_announced() {
    assert_eq!(loaded(|loader| hammer::populate(loader, 7001).unwrap()), 7001);
    let inventory = Inventory { hosts: 4, machines: 16 };
    let found = loaded(|loader| management_db::populate::populate(loader, inventory).unwrap());
    assert_eq!(found, management_db::populate::rows(inventory));
    let size = Size { word: "small", customers: 4001, orders_per_month: 500, products: 2000 };
    let found = loaded(|loader| dvd_store::populate::populate(loader, size, 1).unwrap());
    let announced = dvd_store::populate::rows(size);
    // Lines of orders are drawn.
    assert!(announced.abs_diff(found) < announced / 100, "{found} of {announced}");
}
