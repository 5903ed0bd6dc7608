//! The hammer on servers.

use crate::nails::accounts_on;
use baremark_databases::kind::Kind;

#[test]
fn on_postgres_every_acknowledged_statement_is_in_the_table_and_a_lost_update_is_found() {
    accounts_on(Kind::Postgres);
}

#[test]
fn on_mariadb_every_acknowledged_statement_is_in_the_table_and_a_lost_update_is_found() {
    accounts_on(Kind::Mariadb);
}
