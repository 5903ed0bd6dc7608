//! Order-entry on servers: loading, consistency, durability.

use crate::bench::{QUIET, killed_under_load, populated, rules, setup, start, terminals};
use crate::orders::{all_are_there, count, has_the_rules_cardinalities, kills, orders_in, recorded, until_killed};
use crate::turns::a_server_rests;
use baremark_databases::conditions;
use baremark_databases::kind::Kind;
use baremark_databases::order_entry::conditions::CONDITIONS;
use baremark_databases::order_entry::transactions::{Acknowledged, NAMES, unaccounted};
use baremark_databases::server::Server;
use baremark_sys::confine;
use std::collections::HashSet;
use std::fs;
use std::io::Write as _;
use std::sync::Arc;

/// Runs a load, kills the server in the midst of it and starts it again. Returns how many acknowledged orders are lost, and of how many.
fn orders_lost_by_a_kill(server: &mut Server, acknowledged: &Arc<Acknowledged>) -> (usize, usize) {
    let database = server.database();
    let mut clients = terminals(&rules(&*database, acknowledged), 4);
    killed_under_load(server, &*database, &mut clients, &NAMES, &acknowledged.new_orders);
    drop(clients);
    let mut connection = database.connect().unwrap();
    assert_eq!(conditions::broken(&mut *connection, &CONDITIONS).unwrap(), None);
    let known = acknowledged.orders.as_ref().unwrap().lock().unwrap().clone();
    let there = orders_in(&mut *connection);
    // The number of a lost order is given again: each order that is there was acknowledged once.
    let kept = known.iter().collect::<HashSet<_>>().into_iter().filter(|order| there.contains(*order)).count();
    (known.len() - kept, known.len())
}

/// Once in every run; `BAREMARK_SERVER_KILLS=100` has more.
fn is_durable_under_kills(server: &mut Server) {
    let (acknowledged, mut known) = (recorded(), 0);
    for round in 0..kills() {
        let (lost, all) = orders_lost_by_a_kill(server, &acknowledged);
        assert_eq!(lost, 0, "of {all} acknowledged orders, by kill {round}");
        assert!(all > known, "nothing was acknowledged before kill {round}");
        known = all;
        let mut connection = server.database().connect().unwrap();
        // A kill may have cut off a commit's answer: what is unknown is counted as such.
        assert_eq!(unaccounted(&mut *connection, &acknowledged, 1).unwrap(), None);
    }
    eprintln!("{} kills, {known} acknowledged orders, none lost", kills());
}

#[test]
fn on_postgres_the_rules_are_kept_and_a_kill_loses_what_was_not_synchronous_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let Some(mut server) = start(&setup(Kind::Postgres), root.path()) else { return };
    let database = populated(&server);
    let mut connection = database.connect().unwrap();
    has_the_rules_cardinalities(&mut *connection);
    drop(connection);
    is_durable_under_kills(&mut server);
    is_durable_under_kills_of_the_whole_place(&mut server, Kind::Postgres);
    // The control: commits that are not waited for, and nobody who writes the log meanwhile.
    server.stop();
    // What ALTER SYSTEM writes.
    let settings = "synchronous_commit = off\nwal_buffers = '128MB'\nfull_page_writes = off\n";
    let mut file = fs::File::options().append(true).open(server.data().join("postgresql.auto.conf")).unwrap();
    file.write_all(settings.as_bytes()).unwrap();
    server.restart(&QUIET).unwrap_or_else(|why| panic!("{why}"));
    let writer = "select pid from pg_stat_activity where backend_type = 'walwriter'";
    let writer = count(&mut *database.connect().unwrap(), writer);
    confine::send(i32::try_from(writer).unwrap(), libc::SIGSTOP).unwrap();
    let (lost, known) = orders_lost_by_a_kill(&mut server, &recorded());
    eprintln!("synchronous_commit = off, WAL writer stopped: a kill loses {lost} of {known} acknowledged orders");
    assert!(lost > 0, "a test of durability that sees no loss here sees none at all");
}

#[test]
fn on_mariadb_the_rules_are_kept_and_a_kill_loses_nothing() {
    let root = tempfile::tempdir().unwrap();
    let Some(mut server) = start(&setup(Kind::Mariadb), root.path()) else { return };
    let database = populated(&server);
    has_the_rules_cardinalities(&mut *database.connect().unwrap());
    is_durable_under_kills(&mut server);
    is_durable_under_kills_of_the_whole_place(&mut server, Kind::Mariadb);
}

/// The clients, the server and all its processes are killed at once. The data that they leave are moved under the server of this process, which
/// recovers.
fn is_durable_under_kills_of_the_whole_place(server: &mut Server, kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let mut known = HashSet::new();
    for round in 0..kills() {
        server.stop();
        fs::rename(server.data(), folder.path().join("kept")).unwrap();
        let before = known.len();
        known.extend(until_killed(kind, folder.path()));
        assert!(known.len() >= before + 100, "nothing was acknowledged before kill {round}");
        fs::rename(fs::read_to_string(folder.path().join("at")).unwrap(), server.data()).unwrap();
        server.restart(&QUIET).unwrap_or_else(|why| panic!("kill {round}: {why}"));
        all_are_there(&mut *server.database().connect().unwrap(), &known, round);
    }
    eprintln!("{} kills of clients and server, {} acknowledged orders, none lost", kills(), known.len());
}

#[test]
fn a_server_rests_while_another_site_has_its_turns() {
    for database in [Kind::Postgres, Kind::Mariadb] {
        a_server_rests("order-entry", database, &[("connections", "4")]);
        a_server_rests("oltp-hammer", database, &[("rows", "1000")]);
    }
}
