//! Rows that are reported while connections load them side by side.

use crate::bench::{LIMIT, QUIET, setup, start};
use baremark_databases::database::Cell;
use baremark_databases::kind::Kind;
use baremark_databases::loading::{Loader, Schema};
use baremark_model::loading::Loading;
use std::cell::RefCell;
use std::sync::{Condvar, Mutex};

const SCHEMA: Schema = Schema { tables: &["create table t (id integer not null primary key)"], indexes: &[] };
/// Rows of each of two parts.
const ROWS: i64 = 10;

/// Two connections insert a part each, and neither ends before a report has the rows of both.
pub fn rows_are_added_up_on(kind: Kind) {
    let root = tempfile::tempdir().unwrap();
    let Some(server) = start(&setup(kind), root.path()) else { return };
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
        let (seen, _) = heard.wait_timeout_while(seen, LIMIT, |rows| *rows < both).unwrap();
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
