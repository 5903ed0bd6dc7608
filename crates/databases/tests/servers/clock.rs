//! Steps of the wall clock under a load on servers.

use crate::steps::in_a_process;
use baremark_databases::kind::Kind;

#[test]
fn steps_of_the_wall_clock_under_load_change_dates_and_nothing_else_on_postgres() {
    in_a_process(Kind::Postgres);
}

#[test]
fn steps_of_the_wall_clock_under_load_change_dates_and_nothing_else_on_mariadb() {
    in_a_process(Kind::Mariadb);
}
