//! The DVD store on servers: consistency, the reorder trigger, durability.

use crate::bench::{setup, start};
use crate::shop::{SMALL, each_violation_is_found, falling_stock_is_listed_for_reorder, loses_nothing, opened};
use baremark_databases::dvd_store::orders::Way;
use baremark_databases::kind::Kind;
use baremark_databases::server::Server;

/// Kills the server under load: no acknowledged order is lost, conditions hold, and the rest is of unknown outcome.
fn is_durable_under_a_kill(server: &mut Server) {
    let database = server.database();
    loses_nothing(server, &*database, Way::Database);
}

fn holds_on_a_server(kind: Kind) {
    let root = tempfile::tempdir().unwrap();
    let Some(mut server) = start(&setup(kind), root.path()) else { return };
    let database = opened(&server, SMALL);
    let mut connection = database.connect().unwrap();
    each_violation_is_found(&mut *connection);
    falling_stock_is_listed_for_reorder(&mut *connection);
    drop(connection);
    is_durable_under_a_kill(&mut server);
}

#[test]
fn on_postgres_conditions_and_trigger_hold_and_a_kill_loses_nothing() {
    holds_on_a_server(Kind::Postgres);
}

#[test]
fn on_mariadb_conditions_and_trigger_hold_and_a_kill_loses_nothing() {
    holds_on_a_server(Kind::Mariadb);
}
