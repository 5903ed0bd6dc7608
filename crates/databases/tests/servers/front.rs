//! The web front of the DVD store before servers.

use crate::bench::{LIMIT, setup, start};
use crate::fronts::{front, order, orders_keep_the_conditions_on};
use crate::shop::{SMALL, loses_nothing, opened};
use baremark_databases::database::{Connection, Rows};
use baremark_databases::dvd_store::orders::Way;
use baremark_databases::kind::Kind;
use std::time::{Duration, Instant};

/// Sessions of PostgreSQL but for the one that asks.
fn sessions(connection: &mut dyn Connection) -> i64 {
    let mut rows = Rows::default();
    let sql = "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()";
    connection.query(sql, &mut rows).unwrap();
    rows.int(0, 0).unwrap()
}

#[test]
fn orders_by_the_web_front_keep_the_conditions_of_postgres() {
    orders_keep_the_conditions_on(Kind::Postgres, |database| {
        // Sessions of connections that were just closed end soon. One connection looks: each of its own would be seen by the next.
        let mut connection = database.connect().unwrap();
        let deadline = Instant::now() + LIMIT;
        while sessions(&mut *connection) != 2 {
            assert!(Instant::now() < deadline, "four browsers share a pool of two: {}", sessions(&mut *connection));
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn orders_by_the_web_front_keep_the_conditions_of_mariadb() {
    orders_keep_the_conditions_on(Kind::Mariadb, |_| ());
}

#[test]
fn a_kill_of_the_server_behind_the_web_front_loses_no_order_that_a_browser_was_shown() {
    let root = tempfile::tempdir().unwrap();
    let Some(mut server) = start(&setup(Kind::Postgres), root.path()) else { return };
    drop(opened(&server, SMALL));
    let front = front(&order(&server, 3)).unwrap();
    loses_nothing(&mut server, &front.browsers(), Way::Front);
}

#[test]
fn a_web_front_without_its_database_says_why() {
    let root = tempfile::tempdir().unwrap();
    let Some(mut server) = start(&setup(Kind::Postgres), root.path()) else { return };
    let order = order(&server, 1);
    server.kill();
    let why = front(&order).unwrap_err().to_string();
    assert!(why.starts_with("the web front did not start: the web front's connections: connection lost: "), "{why}");
}
