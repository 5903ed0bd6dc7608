//! The management database on servers.

use crate::manager::holds_on;
use baremark_databases::kind::Kind;

#[test]
fn on_postgres_operations_and_feed_agree_with_what_is_recomputed() {
    holds_on(Kind::Postgres);
}

#[test]
fn on_mariadb_operations_and_feed_agree_with_what_is_recomputed() {
    holds_on(Kind::Mariadb);
}
