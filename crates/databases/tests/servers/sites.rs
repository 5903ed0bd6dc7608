//! A standby of PostgreSQL: commits wait for it, and it has what was acknowledged.

use crate::bench::{QUIET, closed};
use crate::copies::{LEAST, ROUND_TRIP, commit, kept, replicated, serving};
use crate::shop::{SMALL, shoppers, violated};
use baremark_databases::database::{Database, Rows};
use baremark_databases::dvd_store::orders::{Acknowledged, NAMES, unaccounted};
use baremark_databases::engine;
use baremark_databases::sites::Mechanism;
use std::sync::Arc;

fn word(database: &dyn Database, sql: &str) -> String {
    let (mut connection, mut rows) = (database.connect().unwrap(), Rows::default());
    connection.query(sql, &mut rows).unwrap();
    rows.text(0, 0).to_owned()
}

#[test]
fn a_commit_waits_for_the_standby_as_requested_and_the_standby_has_what_was_acknowledged() {
    let root = tempfile::tempdir().unwrap();
    let Some(kept) = kept(root.path()) else { return };
    for mode in ["remote_write", "on", "remote_apply"] {
        let mut server = serving(&replicated(Mechanism::Standby(mode), Some(ROUND_TRIP)), &kept, root.path());
        let database = server.database();
        assert_eq!(word(&*database, "select current_setting('synchronous_commit')"), mode);
        let took = commit(&*database, 5);
        assert!(took >= LEAST, "{mode}: {took:?}");
        if mode == "remote_apply" {
            let acknowledged = Arc::new(Acknowledged::default());
            let mut clients = shoppers(&*database, SMALL, &acknowledged);
            engine::run(&*database, &mut clients, &NAMES, &closed(0.5), &mut || 0, &QUIET).unwrap();
            // Applied when it was acknowledged: nothing is waited for.
            let standby = server.standby().unwrap();
            let mut connection = standby.connect().unwrap();
            assert_eq!(unaccounted(&mut *connection, &acknowledged).unwrap(), None);
            assert_eq!(violated(&mut *connection), [0; 0]);
            assert!(connection.script("delete from orders").is_err(), "a standby takes no writes");
        }
        drop(database);
        server.stop();
    }
    let server = serving(&replicated(Mechanism::Standby("on"), None), &kept, root.path());
    assert!(server.standby().is_none(), "without a second copy");
}
