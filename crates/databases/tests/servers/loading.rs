//! What is reported while rows are loaded into a server.

use crate::parts::rows_are_added_up_on;
use baremark_databases::kind::Kind;

#[test]
fn rows_of_parallel_connections_are_added_up_while_they_load() {
    rows_are_added_up_on(Kind::Postgres);
}
