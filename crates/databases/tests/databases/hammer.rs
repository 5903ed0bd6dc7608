//! The hammer on real databases, and that a lost update is found.

use crate::bench::{QUIET, closed, loader, setup, start};
use baremark_databases::engine::{self, Client};
use baremark_databases::hammer::{Counts, NAMES, Nail, populate, unaccounted};
use baremark_databases::kind::Kind;
use std::sync::Arc;

const ROWS: i64 = 5000;

#[test]
fn every_acknowledged_statement_is_in_the_table_and_a_lost_update_is_found() {
    for kind in [Kind::Sqlite, Kind::Postgres, Kind::Mariadb] {
        let root = tempfile::tempdir().unwrap();
        let Some(server) = start(&setup(kind), root.path()) else { continue };
        let database = server.database();
        populate(&loader(&*database, 2), ROWS).unwrap_or_else(|why| panic!("{}: {why}", kind.word()));
        let counts = Arc::new(Counts::default());
        let mut clients: Vec<Box<dyn Client>> = (0..4)
            .map(|number| {
                let mix = [40, 40, 10, 10];
                Box::new(Nail::new(ROWS, mix, database.dialect(), 7, (number, 4), Arc::clone(&counts))) as _
            })
            .collect();
        let outcome = engine::run(&*database, &mut clients, &NAMES, &closed(0.5), &mut || 0, &QUIET);
        let outcome = outcome.unwrap_or_else(|why| panic!("{}: {why}", kind.word()));
        drop(clients);
        assert!(outcome.operations.iter().all(|operation| operation.committed > 0), "{}", kind.word());
        let mut connection = database.connect().unwrap();
        assert_eq!(unaccounted(&mut *connection, ROWS, &counts).unwrap(), None, "{}", kind.word());
        connection.script("update hammer set k = k - 1 where id = 1").unwrap();
        assert!(unaccounted(&mut *connection, ROWS, &counts).unwrap().is_some(), "{}", kind.word());
        connection.script("update hammer set k = k + 1 where id = 1; delete from hammer where id = 2").unwrap();
        assert!(unaccounted(&mut *connection, ROWS, &counts).unwrap().is_some(), "{}", kind.word());
    }
}
