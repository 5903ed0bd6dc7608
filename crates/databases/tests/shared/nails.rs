//! The hammer, and that a lost update is found.

use crate::bench::{LIMIT, QUIET, closed, loader, setup, start};
use baremark_databases::engine::{self, Client};
use baremark_databases::hammer::{Counts, NAMES, Nail, populate, unaccounted};
use baremark_databases::kind::Kind;
use std::sync::Arc;
use std::time::Instant;

const ROWS: i64 = 5000;

/// Every acknowledged statement is in the table, and a lost update is found.
pub fn accounts_on(kind: Kind) {
    let root = tempfile::tempdir().unwrap();
    let Some(server) = start(&setup(kind), root.path()) else { return };
    let database = server.database();
    populate(&loader(&*database, 2), ROWS).unwrap_or_else(|why| panic!("{why}"));
    let counts = Arc::new(Counts::default());
    let mut clients: Vec<Box<dyn Client>> = (0..4)
        .map(|number| {
            let mix = [40, 40, 10, 10];
            Box::new(Nail::new(ROWS, mix, database.dialect(), 7, (number, 4), Arc::clone(&counts))) as _
        })
        .collect();
    let (mut committed, mut seconds, deadline) = ([0; NAMES.len()], 0.5, Instant::now() + LIMIT);
    // However slow the machine is: what ends counts in a window that is long enough for it.
    while committed.contains(&0) {
        assert!(Instant::now() < deadline, "of {NAMES:?} there ended {committed:?}");
        let outcome = engine::run(&*database, &mut clients, &NAMES, &closed(seconds), &mut || 0, &QUIET);
        let outcome = outcome.unwrap_or_else(|why| panic!("{why}"));
        committed.iter_mut().zip(&outcome.operations).for_each(|(sum, operation)| *sum += operation.committed);
        seconds *= 2.0;
    }
    drop(clients);
    let mut connection = database.connect().unwrap();
    assert_eq!(unaccounted(&mut *connection, ROWS, &counts).unwrap(), None);
    connection.script("update hammer set k = k - 1 where id = 1").unwrap();
    assert!(unaccounted(&mut *connection, ROWS, &counts).unwrap().is_some());
    connection.script("update hammer set k = k + 1 where id = 1; delete from hammer where id = 2").unwrap();
    assert!(unaccounted(&mut *connection, ROWS, &counts).unwrap().is_some());
}
