//! Order-entry on SQLite: loading, consistency, durability.

use crate::bench::{populated, setup, start};
use crate::orders::{
    all_are_there, each_violation_is_found, has_the_rules_cardinalities, kills, runs_and_stays_consistent, until_killed,
};
use crate::turns::the_embedded_database_goes_on;
use baremark_databases::conditions;
use baremark_databases::database::Database as _;
use baremark_databases::kind::Kind;
use baremark_databases::order_entry::conditions::CONDITIONS;
use baremark_databases::order_entry::schema;
use baremark_databases::sqlite::{Sqlite, Synchronous};
use std::collections::HashSet;
use std::fs;

/// What leaves two districts of ten, in which all conditions hold.
const OF_TWO_DISTRICTS: [&str; 7] = [
    "delete from district where d_id > 2",
    "delete from customer where c_d_id > 2",
    "delete from history where h_d_id > 2",
    "delete from orders where o_d_id > 2",
    "delete from new_order where no_d_id > 2",
    "delete from order_line where ol_d_id > 2",
    "update warehouse set w_ytd = (select sum(d_ytd) from district)",
];

#[test]
fn on_sqlite_the_rules_are_kept_and_each_violation_of_a_condition_is_found() {
    let root = tempfile::tempdir().unwrap();
    let server = start(&setup(Kind::Sqlite), root.path()).unwrap();
    let database = populated(&server);
    let mut connection = database.connect().unwrap();
    has_the_rules_cardinalities(&mut *connection);
    assert_eq!(conditions::broken(&mut *connection, &CONDITIONS).unwrap(), None);
    // All conditions are checked for each violation: of a copy with fewer orders.
    let few = root.path().join("few");
    fs::copy(server.data().join("database"), &few).unwrap();
    let mut few = Sqlite::new(few, Synchronous::Off, 64 << 20).connect().unwrap();
    OF_TWO_DISTRICTS.iter().for_each(|sql| few.script(sql).unwrap());
    each_violation_is_found(&mut *few);
    runs_and_stays_consistent(&*database);
    let bytes = fs::metadata(server.data().join("database")).unwrap().len();
    assert!(bytes < schema::bytes(1), "{bytes} bytes are more than is stated before loading");
}

#[test]
fn on_sqlite_a_kill_of_the_whole_process_loses_nothing() {
    let root = tempfile::tempdir().unwrap();
    let server = start(&setup(Kind::Sqlite), root.path()).unwrap();
    let database = populated(&server);
    let mut known = HashSet::new();
    for round in 0..kills() {
        let before = known.len();
        known.extend(until_killed(Kind::Sqlite, &server.data()));
        assert!(known.len() >= before + 100, "nothing was acknowledged before kill {round}");
        all_are_there(&mut *database.connect().unwrap(), &known, round);
    }
    eprintln!("{} kills, {} acknowledged orders, none lost", kills(), known.len());
}

#[test]
fn on_sqlite_phases_that_take_turns_go_on_with_one_database() {
    the_embedded_database_goes_on("order-entry", &[("connections", "2")]);
}
