//! The hammer on SQLite.

use crate::nails::accounts_on;
use crate::turns::{
    a_server_that_stays_up_holds_its_cache, the_embedded_database_goes_on, what_runs_on_or_is_not_synced_takes_no_turns,
};
use baremark_databases::kind::Kind;

#[test]
fn every_acknowledged_statement_is_in_the_table_and_a_lost_update_is_found() {
    accounts_on(Kind::Sqlite);
}

#[test]
fn phases_that_take_turns_go_on_with_one_table() {
    the_embedded_database_goes_on("oltp-hammer", &[("rows", "1000")]);
}

#[test]
fn databases_that_cannot_rest_take_no_turns() {
    for kind in ["order-entry", "dvd-store", "oltp-hammer"] {
        what_runs_on_or_is_not_synced_takes_no_turns(kind);
    }
}

#[test]
fn servers_that_stay_up_hold_their_caches() {
    for kind in ["order-entry", "oltp-hammer"] {
        a_server_that_stays_up_holds_its_cache(kind);
    }
}
