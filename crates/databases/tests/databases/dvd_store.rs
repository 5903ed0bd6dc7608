//! The DVD store on SQLite: loading, consistency, the reorder trigger.

use crate::bench::{setup, start};
use crate::shop::{
    SMALL, count, each_violation_is_found, falling_stock_is_listed_for_reorder, opened, runs_and_stays_consistent,
};
use baremark_databases::dvd_store::schema::SIZES;
use baremark_databases::kind::Kind;
use std::path::Path;

#[test]
fn on_sqlite_the_smallest_shop_is_as_stated_and_each_violation_of_a_condition_is_found() {
    let root = tempfile::tempdir().unwrap();
    let server = start(&setup(Kind::Sqlite), root.path()).unwrap();
    let database = opened(&server, SIZES[0]);
    let mut connection = database.connect().unwrap();
    for (table, rows) in [("customers", 20_000), ("products", 10_000), ("orders", 12_000), ("reviews", 20_000)] {
        assert_eq!(count(&mut *connection, &format!("select count(*) from {table}")), rows, "{table}");
    }
    each_violation_is_found(&mut *connection);
    falling_stock_is_listed_for_reorder(&mut *connection);
    drop(connection);
    let bytes = bytes_of(&server.data());
    assert!(bytes < SIZES[0].bytes() && bytes > 10_000_000, "{bytes} bytes; {} are stated", SIZES[0].bytes());
}

fn bytes_of(folder: &Path) -> u64 {
    std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.metadata().unwrap().len()).sum()
}

#[test]
fn on_sqlite_a_run_keeps_the_conditions() {
    let root = tempfile::tempdir().unwrap();
    let server = start(&setup(Kind::Sqlite), root.path()).unwrap();
    runs_and_stays_consistent(&*opened(&server, SMALL));
}
