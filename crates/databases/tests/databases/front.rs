//! The web front of the DVD store: the same orders by HTTP, over a pool of connections.

use crate::bench::{QUIET, closed, setup, start};
use crate::dvd_store::{SMALL, clients, loses_nothing, opened, stays_consistent};
use baremark_databases::database::{Class, Connection, Database, Rows};
use baremark_databases::dvd_store::browser::{FAILED, Front, LISTENING};
use baremark_databases::dvd_store::front::{Order, serve};
use baremark_databases::dvd_store::orders::{Acknowledged, NAMES, Way};
use baremark_databases::engine;
use baremark_databases::kind::Kind;
use baremark_databases::server::Server;
use std::io::{Read as _, Write as _};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
#[ignore = "a process of the other tests: the web front"]
fn front_process() {
    let mut order = String::new();
    std::io::stdin().read_line(&mut order).unwrap();
    let said = match serve(&order) {
        Ok(address) => format!("{LISTENING}{address}"),
        Err(why) => format!("{FAILED}{why}"),
    };
    writeln!(std::io::stdout(), "\n{said}").unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn order(server: &Server, pool: usize) -> Order {
    Order { endpoint: server.endpoint(), pool, address: server.host(), network: None }
}

fn front(order: &Order) -> std::io::Result<Front> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "front::front_process", "--ignored", "--nocapture"]);
    Front::start(command, order, &[])
}

/// Sessions of PostgreSQL but for the one that asks.
fn sessions(connection: &mut dyn Connection) -> i64 {
    let mut rows = Rows::default();
    let sql = "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()";
    connection.query(sql, &mut rows).unwrap();
    rows.int(0, 0).unwrap()
}

#[test]
fn orders_by_the_web_front_keep_the_conditions_of_each_database() {
    for kind in [Kind::Sqlite, Kind::Postgres, Kind::Mariadb] {
        let root = tempfile::tempdir().unwrap();
        let Some(server) = start(&setup(kind), root.path()) else { continue };
        let database = opened(&server, SMALL);
        let front = front(&order(&server, 2)).unwrap();
        let before = front.cpu_ns();
        stays_consistent(&*database, &front.browsers(), Way::Front);
        assert!(front.cpu_ns() > before, "{}: the front did not work", kind.word());
        if kind == Kind::Postgres {
            // Sessions of connections that were just closed end soon. One connection looks: each of its own would be seen by the next.
            let mut connection = database.connect().unwrap();
            let deadline = Instant::now() + Duration::from_secs(60);
            while sessions(&mut *connection) != 2 {
                assert!(Instant::now() < deadline, "four browsers share a pool of two: {}", sessions(&mut *connection));
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let browsers = front.browsers();
        drop(front);
        assert_eq!(browsers.connect().err().map(|why| why.class), Some(Class::Lost), "its process has ended");
    }
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
fn a_web_front_that_is_gone_ends_the_load_with_a_message() {
    let root = tempfile::tempdir().unwrap();
    let server = start(&setup(Kind::Sqlite), root.path()).unwrap();
    drop(opened(&server, SMALL));
    let running = front(&order(&server, 2)).unwrap();
    let (browsers, acknowledged) = (running.browsers(), Arc::new(Acknowledged::default()));
    let mut shoppers = clients(Way::Front, &browsers, SMALL, &acknowledged);
    drop(running);
    let why = engine::run(&browsers, &mut shoppers, &NAMES, &closed(5.0), &mut || 0, &QUIET).unwrap_err().to_string();
    assert!(why.starts_with("connecting: connection lost: the web front: "), "{why}");
}

#[test]
fn what_is_no_request_of_the_shop_is_refused_and_a_failure_keeps_its_class() {
    let root = tempfile::tempdir().unwrap();
    let server = start(&setup(Kind::Sqlite), root.path()).unwrap();
    drop(opened(&server, SMALL));
    let front = front(&order(&server, 1)).unwrap();
    let mut browser = front.browsers().connect().unwrap();
    for (page, body) in [
        ("login", r#"{"customer":1,"step":"NoStep"}"#),
        ("purchase", r#"{"customer":1,"step":"Login"}"#),
        ("login", "{"),
        ("..", ""),
    ] {
        let why = browser.request(page, body.as_bytes()).unwrap_err();
        assert_eq!((why.class, why.what.contains("answered 400")), (Class::Other, true), "{page}: {why}");
    }
    browser.request("login", br#"{"customer":1,"step":"Login"}"#).unwrap();
    let rating = r#"{"customer":1,"step":{"RateReview":{"number":1,"review":1,"helpfulness":1}}}"#;
    let why = browser.request("rate-review", rating.as_bytes()).unwrap_err();
    assert_eq!(why.class, Class::Constraint, "a number that is taken: {why}");
    // The connection of the pool was rolled back and serves the next.
    browser.request("login", br#"{"customer":1,"step":"Login"}"#).unwrap();
    assert!(browser.script("select 1").is_err() && browser.begin(baremark_databases::database::Access::Read).is_err());
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
