//! The management database on SQLite.

use crate::manager::holds_on;
use baremark_databases::kind::Kind;

#[test]
fn on_sqlite_operations_and_feed_agree_with_what_is_recomputed() {
    holds_on(Kind::Sqlite);
}
