//! What is reported while rows are loaded.

use crate::bench::{QUIET, setup, start};
use crate::parts::rows_are_added_up_on;
use baremark_databases::dvd_store::schema::Size;
use baremark_databases::kind::Kind;
use baremark_databases::loading::Loader;
use baremark_databases::management_db::inventory::Inventory;
use baremark_databases::{dvd_store, hammer, management_db};
use baremark_model::loading::Loading;
use std::cell::RefCell;

#[test]
fn rows_of_parallel_connections_are_added_up_while_they_load() {
    rows_are_added_up_on(Kind::Sqlite);
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
