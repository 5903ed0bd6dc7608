//! The web front of the DVD store: the same orders by HTTP, over a pool of connections to SQLite.

use crate::bench::{QUIET, closed, setup, start};
use crate::fronts::{front, order, orders_keep_the_conditions_on};
use crate::shop::{SMALL, clients, opened};
use baremark_databases::database::{Class, Database};
use baremark_databases::dvd_store::orders::{Acknowledged, NAMES, Way};
use baremark_databases::engine;
use baremark_databases::kind::Kind;
use std::sync::Arc;

#[test]
fn orders_by_the_web_front_keep_the_conditions_of_the_database() {
    orders_keep_the_conditions_on(Kind::Sqlite, |_| ());
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
