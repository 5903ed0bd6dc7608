//! The hammer on SQLite.

use crate::nails::accounts_on;
use baremark_databases::kind::Kind;

#[test]
fn every_acknowledged_statement_is_in_the_table_and_a_lost_update_is_found() {
    accounts_on(Kind::Sqlite);
}
