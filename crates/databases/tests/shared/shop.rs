//! The DVD store: a small shop, its clients, and what must hold of it.

use crate::bench::{LIMIT, QUIET, closed, killed_under_load, loader};
use baremark_databases::conditions;
use baremark_databases::database::{Class, Connection, Database, Rows};
use baremark_databases::dvd_store::conditions::CONDITIONS;
use baremark_databases::dvd_store::orders::{Acknowledged, NAMES, Rules, STEPS, Shopper, Way, unaccounted};
use baremark_databases::dvd_store::populate;
use baremark_databases::dvd_store::schema::Size;
use baremark_databases::engine::{self, Client};
use baremark_databases::server::Server;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A shop that is loaded within a second.
pub const SMALL: Size = Size { word: "test", customers: 2000, orders_per_month: 100, products: 1000 };

/// What violates conditions, and all that it violates.
const VIOLATIONS: [(&str, &[u32]); 16] = [
    ("update inventory set quan_in_stock = quan_in_stock + 1 where prod_id = 3", &[1]),
    ("update inventory set sales = sales + 1 where prod_id = 3", &[2]),
    ("update inventory set quan_in_stock = quan_in_stock - 1, received = received - 1 where prod_id = 7", &[3]),
    ("update orders set line_count = line_count + 1 where orderid = 5", &[4]),
    ("delete from orderlines where orderid = 5", &[4, 6, 9]),
    ("insert into orderlines (orderid, orderlineid, prod_id, quantity, orderdate) values (99999, 1, 1, 0, 0)", &[5, 9]),
    ("insert into cust_hist (customerid, orderid, prod_id) values (1, 99999, 1)", &[5, 9]),
    ("update orders set netamount = netamount + 1, totalamount = totalamount + 1 where orderid = 5", &[6]),
    ("update products set price = price + 1 where prod_id = (select min(prod_id) from orderlines)", &[6]),
    ("update orders set tax = tax + 1 where orderid = 5", &[7]),
    ("update cust_hist set prod_id = prod_id + 100000 where orderid = 5", &[8]),
    ("delete from customers where customerid = (select customerid from orders where orderid = 5)", &[10]),
    ("delete from reorder where prod_id = 7", &[11]),
    ("update customers set is_member = 1 - is_member where customerid = 4", &[12]),
    ("update reviews set prod_id = 99999 where review_id = 4", &[13]),
    ("update reviews_helpfulness set review_id = 99999 where rating_id = 4", &[14]),
];

pub fn opened(server: &Server, size: Size) -> Box<dyn Database> {
    let database = server.database();
    let connections = if server.address().is_some() { 2 } else { 1 };
    populate::populate(&loader(&*database, connections), size, 1).unwrap_or_else(|why| panic!("{why}"));
    database
}

pub fn shoppers(database: &dyn Database, size: Size, acknowledged: &Arc<Acknowledged>) -> Vec<Box<dyn Client>> {
    clients(Way::Database, database, size, acknowledged)
}

pub fn clients(
    way: Way,
    database: &dyn Database,
    size: Size,
    acknowledged: &Arc<Acknowledged>,
) -> Vec<Box<dyn Client>> {
    let rules = Rules {
        size,
        data_seed: 1,
        seed: 5,
        think: Duration::ZERO,
        clients: 4,
        dialect: database.dialect(),
        way,
        acknowledged: Arc::clone(acknowledged),
    };
    (0..4).map(|number| Box::new(Shopper::new(&rules, number)) as Box<dyn Client>).collect()
}

pub fn violated(connection: &mut dyn Connection) -> Vec<u32> {
    let found = conditions::violated(connection, &CONDITIONS).unwrap_or_else(|why| panic!("{why}"));
    found.iter().map(|(condition, _)| condition.number).collect()
}

pub fn count(connection: &mut dyn Connection, sql: &str) -> i64 {
    let mut rows = Rows::default();
    connection.query(sql, &mut rows).unwrap_or_else(|why| panic!("{why}"));
    rows.int(0, 0).unwrap()
}

pub fn each_violation_is_found(connection: &mut dyn Connection) {
    assert_eq!(violated(connection), [0; 0]);
    let mut all: HashSet<u32> = HashSet::new();
    for (sql, expected) in VIOLATIONS {
        connection.script("begin").unwrap();
        connection.script(sql).unwrap_or_else(|why| panic!("{sql}: {why}"));
        let found = violated(connection);
        connection.script("rollback").unwrap();
        assert!(expected.iter().all(|number| found.contains(number)), "{sql}: {found:?}");
        // A customer who is gone has reviews and a membership, perhaps.
        assert!(found == expected || sql.starts_with("delete from customers"), "{sql}: {found:?}");
        all.extend(expected);
    }
    assert_eq!(all.len(), CONDITIONS.len(), "a condition that nothing violates");
    assert_eq!(violated(connection), [0; 0]);
}

/// Stock that falls below its mark is listed once, by the trigger; condition 11 would see it otherwise.
pub fn falling_stock_is_listed_for_reorder(connection: &mut dyn Connection) {
    let listed = "select count(*) from reorder where prod_id = 8";
    assert_eq!(count(connection, listed), 0);
    connection.script("begin").unwrap();
    for _ in 0..2 {
        connection.script("update inventory set quan_in_stock = quan_in_stock - 5 where prod_id = 8").unwrap();
    }
    connection.script("update inventory set quan_in_stock = 9 where prod_id = 8").unwrap();
    connection.script("update inventory set quan_in_stock = 4 where prod_id = 8").unwrap();
    assert_eq!(count(connection, listed), 1);
    assert_eq!(violated(connection), [1]);
    connection.script("rollback").unwrap();
}

/// A closed load, after which all conditions hold, everything acknowledged is there, and every step was taken.
pub fn runs_and_stays_consistent(database: &dyn Database) {
    stays_consistent(database, database, Way::Database);
}

/// The same of clients that reach the database by what is driven.
pub fn stays_consistent(database: &dyn Database, driven: &dyn Database, way: Way) {
    let acknowledged = Arc::new(Acknowledged::default());
    let mut clients = clients(way, driven, SMALL, &acknowledged);
    let (mut orders, mut taken) = (0, [0; STEPS.len()]);
    let (mut seconds, deadline) = (1.0, Instant::now() + LIMIT);
    // However slow the machine is: what ends counts in a window that is long enough for it.
    while orders == 0 || STEPS.iter().zip(taken).any(|(step, taken)| *step != "membership" && taken == 0) {
        assert!(Instant::now() < deadline, "{orders} orders; of {STEPS:?} there ended {taken:?}");
        let outcome = engine::run(driven, &mut clients, &NAMES, &closed(seconds), &mut || 0, &QUIET);
        let outcome = outcome.unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(outcome.failed(Class::Other) + outcome.failed(Class::Constraint), 0);
        let order = &outcome.operations[0];
        orders += order.committed;
        taken.iter_mut().zip(&outcome.steps).for_each(|(sum, latencies)| *sum += latencies.count());
        // Every order that is counted ends with a purchase, which is a part of it.
        let purchases = outcome.steps.get(9).cloned().unwrap_or_default();
        assert_eq!(purchases.count(), order.committed + order.rolled_back);
        assert!(purchases.percentile(0.5) <= order.latencies.percentile(0.5));
        seconds *= 2.0;
    }
    drop(clients);
    let mut connection = database.connect().unwrap();
    assert_eq!(violated(&mut *connection), [0; 0]);
    assert_eq!(unaccounted(&mut *connection, &acknowledged).unwrap(), None);
    acknowledged.orders.fetch_add(1, Ordering::Relaxed);
    let missing = unaccounted(&mut *connection, &acknowledged).unwrap().unwrap();
    assert!(missing.starts_with("orders: "), "{missing}");
}

/// The same of clients that reach the database by what is driven.
pub fn loses_nothing(server: &mut Server, driven: &dyn Database, way: Way) {
    let database = server.database();
    let acknowledged = Arc::new(Acknowledged { numbers: Some(Mutex::default()), ..Acknowledged::default() });
    let mut clients = clients(way, driven, SMALL, &acknowledged);
    killed_under_load(server, driven, &mut clients, &NAMES, &acknowledged.orders);
    drop(clients);
    let mut connection = database.connect().unwrap();
    assert_eq!(violated(&mut *connection), [0; 0]);
    assert_eq!(unaccounted(&mut *connection, &acknowledged).unwrap(), None);
    let mut rows = Rows::default();
    connection.query("select orderid from orders where orderid > (select orders from opening)", &mut rows).unwrap();
    let there: HashSet<i64> = (0..rows.len()).map(|row| rows.int(row, 0).unwrap()).collect();
    let known = acknowledged.numbers.as_ref().unwrap().lock().unwrap().clone();
    assert!(known.len() >= 250, "{}", known.len());
    let lost: Vec<_> = known.into_iter().filter(|order| !there.contains(order)).collect();
    assert_eq!(lost, [0_i64; 0]);
}

/// Conditions hold, and everything acknowledged is there.
pub fn is_intact(database: &dyn Database, acknowledged: &Acknowledged, what: &str) {
    let mut connection = database.connect().unwrap_or_else(|why| panic!("{what}: {why}"));
    assert_eq!(violated(&mut *connection), [0; 0], "{what}");
    assert_eq!(unaccounted(&mut *connection, acknowledged).unwrap(), None, "{what}");
}
