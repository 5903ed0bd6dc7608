//! Statements that are sent together: the same final state as one after the other, and errors in their midst.

use crate::bench::{killed_under_load, populated, rules, setup, start, terminals};
use crate::{manager, shop};
use baremark_databases::conditions;
use baremark_databases::database::{
    Access, Answers, Batch, Class, Connection, Database, Dialect, Failure, Isolation, Pipelined, Rows,
};
use baremark_databases::dvd_store::schema::TABLES as SHOP;
use baremark_databases::engine::Client;
use baremark_databases::kind::Kind;
use baremark_databases::loading::table_of;
use baremark_databases::login::Login;
use baremark_databases::management_db::check::Totals;
use baremark_databases::management_db::ledger::{Counts, Ledger};
use baremark_databases::management_db::operations::{Feed, OPERATIONS, Operator};
use baremark_databases::management_db::schema::TABLES as MANAGER;
use baremark_databases::order_entry::conditions::CONDITIONS;
use baremark_databases::order_entry::schema::TABLES;
use baremark_databases::order_entry::transactions::{Acknowledged, NAMES, Terminal, unaccounted};
use baremark_databases::postgres::Postgres;
use baremark_databases::server::{Server, Setup};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// One terminal's transactions in each way.
const TRANSACTIONS: usize = 300;
/// Columns with the time of the run.
const TIMES: &str = "'o_entry_d', 'h_date', 'ol_delivery_d', 'orderdate', 'review_date', 'expiredate', 'date_low'";

/// A database of the server, by its name.
fn named(server: &Server, name: &str) -> Postgres {
    let (user, password) = server.credentials().unwrap();
    Postgres(Login {
        address: server.address().unwrap(),
        user: user.to_owned(),
        password: password.to_owned(),
        database: name.to_owned(),
        isolation: Isolation::default(),
    })
}

fn text(connection: &mut dyn Connection, sql: &str) -> String {
    let mut rows = Rows::default();
    connection.query(sql, &mut rows).unwrap_or_else(|why| panic!("{sql}: {why}"));
    rows.text(0, 0).to_owned()
}

/// For each table the number of its rows and the sum of their hashes, without times.
fn digests(database: &dyn Database, tables: &[&str]) -> Vec<String> {
    let connection = &mut *database.connect().unwrap();
    let mut digest = |name: &str| {
        let columns = format!(
            "select string_agg(column_name, ', ' order by ordinal_position) from information_schema.columns \
             where table_name = '{name}' and column_name not in ({TIMES})"
        );
        let columns = text(connection, &columns);
        let sum = "count(*)::text || ' rows ' || coalesce(sum(hashtextextended(t::text, 0)), 0)::text";
        format!("{name}: {}", text(connection, &format!("select {sum} from (select {columns} from {name}) t")))
    };
    tables.iter().map(|create| digest(table_of(create))).collect()
}

/// Runs so many operations of a client.
fn transact(database: &dyn Database, client: &mut dyn Client, operations: usize) {
    let mut connection = database.connect().unwrap();
    connection.prepare(&client.statements()).unwrap();
    for _ in 0..operations {
        let kind = client.draw();
        client.run(&mut *connection).unwrap_or_else(|why| panic!("operation {kind}: {why}"));
    }
}

/// The same transactions of one terminal, and what was acknowledged.
fn ordered(database: &dyn Database) -> Arc<Acknowledged> {
    let acknowledged = Arc::default();
    transact(database, &mut Terminal::new(&rules(database, &acknowledged), 0), TRANSACTIONS);
    acknowledged
}

#[test]
fn together_and_one_after_the_other_leave_the_same_database() {
    let root = tempfile::tempdir().unwrap();
    let Some(mut server) = start(&setup(Kind::Postgres), root.path()) else { return };
    drop(populated(&server));
    let alone = named(&server, "auction");
    named(&server, "postgres").connect().unwrap().script("create database together template auction").unwrap();
    let together = named(&server, "together");
    let loaded = digests(&alone, &TABLES);
    assert_eq!(loaded, digests(&together, &TABLES));

    let pipelined = Pipelined(&together);
    let ways: [(&dyn Database, _); 2] = [(&alone, ordered(&alone)), (&together, ordered(&pipelined))];
    for (database, acknowledged) in &ways {
        let connection = &mut *database.connect().unwrap();
        assert_eq!(conditions::broken(connection, &CONDITIONS).unwrap(), None);
        assert_eq!(unaccounted(connection, acknowledged, 1).unwrap(), None);
    }
    let [one, other] = ways.map(|(database, _)| digests(database, &TABLES));
    assert_eq!(one, other);
    // All but the items are another than those that were loaded.
    let changed = one.iter().zip(&loaded).filter(|(now, before)| now != before).count();
    assert_eq!(changed, TABLES.len() - 1, "{one:#?}");

    // A connection that is lost under load: conditions hold, and every acknowledged transaction is there.
    let database = server.database();
    let (acknowledged, pipelined) = (recorded(), Pipelined(&*database));
    let before = orders_in(&*database);
    let mut clients = terminals(&rules(&pipelined, &acknowledged), 4);
    killed_under_load(&mut server, &pipelined, &mut clients, &NAMES, &acknowledged.new_orders);
    drop(clients);
    let connection = &mut *database.connect().unwrap();
    assert_eq!(conditions::broken(connection, &CONDITIONS).unwrap(), None);
    let orders = acknowledged.orders.as_ref().unwrap().lock().unwrap().clone();
    assert!(orders.len() >= 250, "{}", orders.len());
    for [w, d, o] in &orders {
        let found = text(
            connection,
            &format!("select count(*)::text from orders where o_w_id = {w} and o_d_id = {d} and o_id = {o}"),
        );
        assert_eq!(found, "1", "order {o} of district {d}");
    }
    assert!(orders_in(&*database) >= before + orders.len());
}

fn recorded() -> Arc<Acknowledged> {
    Arc::new(Acknowledged { orders: Some(Mutex::default()), ..Acknowledged::default() })
}

fn orders_in(database: &dyn Database) -> usize {
    text(&mut *database.connect().unwrap(), "select count(*)::text from orders").parse().unwrap()
}

/// Transactions of the shop and of the management database, which are loaded side by side.
#[test]
fn the_shop_and_the_management_database_are_the_same_together() {
    let root = tempfile::tempdir().unwrap();
    let Some(server) = start(&setup(Kind::Postgres), root.path()) else { return };
    drop(shop::opened(&server, shop::SMALL));
    manager::filled(&*server.database());
    let alone = named(&server, "auction");
    named(&server, "postgres").connect().unwrap().script("create database together template auction").unwrap();
    let together = named(&server, "together");
    let tables = |database: &dyn Database| [digests(database, &SHOP), digests(database, &MANAGER)].concat();
    let loaded = tables(&alone);
    let pipelined = Pipelined(&together);
    let ways: [(&dyn Database, &dyn Database); 2] = [(&alone, &alone), (&together, &pipelined)];
    let found = ways.map(|(database, sent)| {
        let acknowledged = Arc::default();
        let mut shopper = shop::shoppers(sent, shop::SMALL, &acknowledged).remove(0);
        transact(sent, &mut *shopper, TRANSACTIONS);
        let connection = &mut *database.connect().unwrap();
        assert_eq!(shop::violated(connection), [0; 0]);
        let ledger = Arc::new(Ledger::default());
        let counts = Arc::new(Counts::default());
        let mut operator = Operator::new(manager::SMALL, Dialect::Postgres, Arc::clone(&ledger), Arc::clone(&counts));
        transact(sent, &mut operator, 3 * OPERATIONS.len());
        let mut feed = Feed::new(manager::SMALL, Dialect::Postgres, Arc::clone(&ledger));
        transact(sent, &mut feed, 10);
        assert_eq!(manager::said(connection, &Totals::of(manager::SMALL), &ledger), None);
        let rows: Vec<_> = (0..OPERATIONS.len()).map(|which| counts.mean_rows(which)).collect();
        (tables(database), rows)
    });
    let [(one, rows), (other, rows_together)] = found;
    assert_eq!((&one, rows), (&other, rows_together));
    let changed = |name: &str| one.iter().zip(&loaded).any(|(now, before)| now != before && now.starts_with(name));
    for name in ["inventory: ", "orders: ", "orderlines: ", "cust_hist: ", "events: ", "samples_20s: "] {
        assert!(changed(name), "{name}{one:#?}");
    }
}

/// A table of a key and a text, with a connection that sends together, its statements prepared.
fn with_table(database: &dyn Database) -> Box<dyn Connection> {
    let mut connection = Pipelined(database).connect().unwrap();
    connection.script("drop table if exists t; create table t (k integer primary key, v text not null)").unwrap();
    let statements = [
        "insert into t (k, v) values ($1, $2)",
        "select k, v from t where k = $1",
        "update t set v = $1 where k >= $2",
        "select pg_terminate_backend(pg_backend_pid())::text",
    ];
    connection.prepare(&statements.map(str::to_owned)).unwrap();
    connection
}

const INSERT: usize = 0;
const SELECT: usize = 1;
const UPDATE: usize = 2;
const TERMINATE: usize = 3;

/// Begins, sends the batch and rolls back what failed.
fn failing(connection: &mut dyn Connection, batch: &Batch<'_>) -> Failure {
    connection.begin(Access::Write).unwrap();
    let why = connection.batch(batch, &mut Answers::default()).unwrap_err();
    connection.rollback().unwrap();
    why
}

fn count(connection: &mut dyn Connection) -> String {
    text(connection, "select count(*)::text from t")
}

#[test]
fn an_error_in_the_midst_ends_the_transaction_and_leaves_the_connection() {
    let root = tempfile::tempdir().unwrap();
    let Some(server) = start(&setup(Kind::Postgres), root.path()) else { return };
    let database = server.database();
    let mut connection = with_table(&*database);
    let connection = &mut *connection;
    let mut answers = Answers::default();

    // A violated constraint: what was before it is rolled back, what follows is skipped.
    let mut batch = Batch::default();
    for key in [1, 2, 1, 3] {
        batch.add(INSERT, &[key.into(), "x".into()]);
    }
    let why = failing(connection, &batch);
    assert_eq!(why.class, Class::Constraint, "{why}");
    assert_eq!(count(connection), "0");

    // A parameter that does not fit its column is found before anything is sent.
    let mut batch = Batch::default();
    batch.add(INSERT, &[1.into(), "x".into()]);
    batch.add(INSERT, &[i64::MAX.into(), "x".into()]);
    let why = failing(connection, &batch);
    assert_eq!(why.class, Class::Other, "{why}");
    assert_eq!(count(connection), "0");
    let mut batch = Batch::default();
    batch.add(99, &[]);
    assert_eq!(failing(connection, &batch).class, Class::Other);

    // Outside of a transaction they would be one of their own.
    let mut batch = Batch::default();
    batch.add(INSERT, &[1.into(), "x".into()]);
    let why = connection.batch(&batch, &mut answers).unwrap_err();
    assert!(why.what.contains("inside a transaction alone"), "{why}");
    assert_eq!(count(connection), "0");

    // More than is sent at once, with the answers of each.
    let (long, mut batch) = ("y".repeat(200), Batch::default());
    for key in 0..500 {
        batch.add(INSERT, &[key.into(), long.as_str().into()]);
        batch.add(SELECT, &[key.into()]);
    }
    let all = batch.add(UPDATE, &["z".into(), 100.into()]);
    let none = batch.add(SELECT, &[1000.into()]);
    connection.begin(Access::Write).unwrap();
    connection.batch(&batch, &mut answers).unwrap();
    connection.commit().unwrap();
    for key in 0..500 {
        let number = 2 * usize::try_from(key).unwrap();
        assert_eq!(answers.count(number), 1);
        let rows = answers.rows(number + 1);
        assert_eq!((rows.len(), rows.int(0, 0), rows.text(0, 1)), (1, Ok(key), long.as_str()));
    }
    assert_eq!((answers.count(all), answers.count(none), answers.rows(none).len()), (400, 0, 0));
    assert_eq!(count(connection), "500");

    // An error in a later part than the first.
    let mut batch = Batch::default();
    for key in 500..900 {
        batch.add(INSERT, &[key.into(), long.as_str().into()]);
    }
    batch.add(INSERT, &[7.into(), "x".into()]);
    assert_eq!(failing(connection, &batch).class, Class::Constraint);
    assert_eq!(count(connection), "500");
}

#[test]
fn a_conflict_is_retried_and_a_lost_connection_is_reported_as_without() {
    let root = tempfile::tempdir().unwrap();
    let setup = Setup { isolation: Isolation::RepeatableRead, ..setup(Kind::Postgres) };
    let Some(server) = start(&setup, root.path()) else { return };
    let database = server.database();
    let (mut first, mut answers) = (with_table(&*database), Answers::default());
    first.script("insert into t values (1, 'a')").unwrap();

    let mut batch = Batch::default();
    batch.add(UPDATE, &["b".into(), 1.into()]);
    batch.add(INSERT, &[2.into(), "b".into()]);
    first.begin(Access::Write).unwrap();
    first.execute(SELECT, &[1.into()], &mut Rows::default()).unwrap();
    database.connect().unwrap().script("update t set v = 'c' where k = 1").unwrap();
    let why = first.batch(&batch, &mut answers).unwrap_err();
    assert_eq!(why.class, Class::Serialization, "{why}");
    first.rollback().unwrap();
    assert_eq!(count(&mut *first), "1");
    first.begin(Access::Write).unwrap();
    first.batch(&batch, &mut answers).unwrap();
    first.commit().unwrap();
    assert_eq!((count(&mut *first).as_str(), answers.count(0)), ("2", 1));

    // Before the commit was sent: no effect, and to be retried.
    let mut batch = Batch::default();
    batch.add(INSERT, &[3.into(), "x".into()]);
    batch.add(TERMINATE, &[]);
    batch.add(INSERT, &[4.into(), "x".into()]);
    first.begin(Access::Write).unwrap();
    let why = first.batch(&batch, &mut answers).unwrap_err();
    assert_eq!(why.class, Class::Lost, "{why}");
    assert_eq!(count(&mut *database.connect().unwrap()), "2");
    // At the commit: unknown.
    let mut second = Pipelined(&*database).connect().unwrap();
    second.begin(Access::Write).unwrap();
    let pid = text(&mut *second, "select pg_backend_pid()::text");
    assert_eq!(
        text(&mut *database.connect().unwrap(), &format!("select pg_terminate_backend({pid}, 10000)::text")),
        "true"
    );
    assert_eq!(second.commit().unwrap_err().class, Class::Ambiguous);
}

/// Passes one connection on to a server and keeps what the client sent.
fn overheard(server: SocketAddr) -> (SocketAddr, thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let passes = thread::spawn(move || {
        let mut client = listener.accept().unwrap().0;
        let mut upstream = TcpStream::connect(server).unwrap();
        let (mut back, mut from) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
        let answers = thread::spawn(move || drop(std::io::copy(&mut from, &mut back)));
        let (mut sent, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        while let Ok(read @ 1..) = client.read(&mut buffer) {
            sent.extend_from_slice(&buffer[..read]);
            upstream.write_all(&buffer[..read]).unwrap();
        }
        upstream.shutdown(Shutdown::Both).unwrap_or(());
        answers.join().unwrap();
        sent
    });
    (address, passes)
}

/// Types of the messages after the first, which has none.
fn messages(sent: &[u8]) -> Vec<u8> {
    let length = |at: usize| sent.get(at..at + 4).map(|four| u32::from_be_bytes(four.try_into().unwrap()) as usize);
    let mut at = length(0).unwrap();
    let mut types = Vec::new();
    while let Some(length) = length(at + 1) {
        types.push(sent[at]);
        at += 1 + length;
    }
    types
}

#[test]
fn a_batch_has_one_sync_where_it_is_sent_together_and_one_for_each_statement_else() {
    let root = tempfile::tempdir().unwrap();
    let Some(server) = start(&setup(Kind::Postgres), root.path()) else { return };
    let syncs = |pipelined: bool| {
        let (address, sent) = overheard(server.address().unwrap());
        let Postgres(login) = named(&server, "auction");
        let database = Postgres(Login { address, ..login });
        let mut connection = if pipelined { Pipelined(&database).connect() } else { database.connect() }.unwrap();
        connection.prepare(&["select $1::bigint".to_owned()]).unwrap();
        let (mut batch, mut answers) = (Batch::default(), Answers::default());
        for number in 0..10 {
            batch.add(0, &[number.into()]);
        }
        connection.begin(Access::Read).unwrap();
        connection.batch(&batch, &mut answers).unwrap();
        assert!((0..10).all(|number| answers.rows(number).int(0, 0) == Ok(i64::try_from(number).unwrap())));
        connection.commit().unwrap();
        drop(connection);
        let types = messages(&sent.join().unwrap());
        let [executes, syncs] = [b'E', b'S'].map(|of| types.iter().filter(|found| **found == of).count());
        // Begin, the batch, commit.
        assert_eq!(executes, 12);
        syncs
    };
    assert_eq!(syncs(false) - syncs(true), 9);
}

#[test]
fn mariadb_which_has_no_such_protocol_refuses_it() {
    let root = tempfile::tempdir().unwrap();
    let Some(server) = start(&setup(Kind::Mariadb), root.path()) else { return };
    let why = Pipelined(&*server.database()).connect().err().unwrap();
    assert!(why.what.contains("sends one statement at a time; use database"), "{why}");
}
