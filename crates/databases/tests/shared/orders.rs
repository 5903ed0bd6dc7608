//! Order-entry: what must hold of it, and processes that take orders until they are killed.

use crate::bench::{LIMIT, QUIET, SECRET, closed, rules, setup, terminals};
use baremark_databases::conditions;
use baremark_databases::database::{Connection, Database, Rows};
use baremark_databases::engine;
use baremark_databases::kind::Kind;
use baremark_databases::loading::table_of;
use baremark_databases::order_entry::conditions::CONDITIONS;
use baremark_databases::order_entry::transactions::{Acknowledged, NAMES, unaccounted};
use baremark_databases::order_entry::{populate, schema};
use baremark_databases::server::Server;
use baremark_databases::sqlite::{Sqlite, Synchronous};
use baremark_sys::kill_tree::Family;
use baremark_sys::{confine, process_tree};
use std::collections::HashSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// For each condition what violates it, and the conditions that this violates. All of it is in two districts.
const VIOLATIONS: [(&str, &[u32]); 12] = [
    ("update warehouse set w_ytd = w_ytd + 1", &[1, 8]),
    ("update district set d_next_o_id = d_next_o_id + 1 where d_id = 2", &[2]),
    ("delete from new_order where no_d_id = 1 and no_o_id = 2500", &[3, 5, 11]),
    ("delete from order_line where ol_d_id = 2 and ol_o_id = 10 and ol_number = 1", &[4, 6]),
    ("update orders set o_carrier_id = null where o_d_id = 1 and o_id = 5", &[5, 7]),
    (
        "update orders set o_ol_cnt = o_ol_cnt + case when o_id = 1 then 1 else -1 end where o_d_id = 1 and o_id <= 2",
        &[6],
    ),
    ("update order_line set ol_delivery_d = null where ol_d_id = 1 and ol_o_id = 5 and ol_number = 1", &[7]),
    ("update history set h_w_id = 2 where h_d_id = 1 and h_c_id = 7", &[8, 9]),
    ("update district set d_ytd = d_ytd + case when d_id = 1 then 1 else -1 end where d_id <= 2", &[9]),
    (
        "update customer set c_balance = c_balance + 1, c_ytd_payment = c_ytd_payment - 1 where c_d_id = 1 and c_id = 7",
        &[10],
    ),
    ("update customer set c_delivery_cnt = c_delivery_cnt + 1 where c_d_id = 2 and c_id = 9", &[11]),
    ("update customer set c_ytd_payment = c_ytd_payment + 1 where c_d_id = 1 and c_id = 7", &[12]),
];

pub fn count(connection: &mut dyn Connection, sql: &str) -> i64 {
    let mut rows = Rows::default();
    connection.query(sql, &mut rows).unwrap_or_else(|why| panic!("{why}"));
    rows.int(0, 0).unwrap()
}

pub fn has_the_rules_cardinalities(connection: &mut dyn Connection) {
    let expected = [1, 10, 30_000, 30_000, 30_000, 9000, 0, 100_000, 100_000];
    let mut all = 0;
    for (create, expected) in schema::TABLES.iter().zip(expected) {
        let table = table_of(create);
        let found = count(connection, &format!("select count(*) from {table}"));
        all += found;
        if table == "order_line" {
            // 5 to 15 an order, mean 10: within five standard errors.
            assert!((found - 300_000).abs() < 2800, "{found}");
        } else {
            assert_eq!(found, expected, "{table}");
        }
    }
    let announced = populate::rows(1);
    assert!(announced.abs_diff(all.unsigned_abs()) < 2800, "{announced} rows are announced, {all} are there");
}

pub fn each_violation_is_found(connection: &mut dyn Connection) {
    assert_eq!(conditions::broken(connection, &CONDITIONS).unwrap(), None);
    for ((sql, expected), condition) in VIOLATIONS.iter().zip(CONDITIONS) {
        assert!(expected.contains(&condition.number));
        connection.script("begin").unwrap();
        connection.script(sql).unwrap();
        let found: Vec<u32> =
            conditions::violated(connection, &CONDITIONS).unwrap().iter().map(|(found, _)| found.number).collect();
        connection.script("rollback").unwrap();
        assert_eq!(found, *expected, "{sql}");
    }
    assert_eq!(conditions::broken(connection, &CONDITIONS).unwrap(), None);
}

/// A closed load, after which all conditions hold and everything acknowledged is there.
pub fn runs_and_stays_consistent(database: &dyn Database) {
    let acknowledged = Arc::new(Acknowledged::default());
    let mut clients = terminals(&rules(database, &acknowledged), 4);
    let (mut ended, mut seconds, deadline) = ([0_u64; NAMES.len()], 0.3, Instant::now() + LIMIT);
    // However slow the machine is: what ends counts in a window that is long enough for it.
    while ended.contains(&0) {
        assert!(Instant::now() < deadline, "of {NAMES:?} there ended {ended:?}");
        let outcome = engine::run(database, &mut clients, &NAMES, &closed(seconds), &mut || 0, &QUIET);
        let outcome = outcome.unwrap_or_else(|why| panic!("{why}"));
        for (sum, operation) in ended.iter_mut().zip(&outcome.operations) {
            *sum += operation.latencies.count();
        }
        seconds *= 2.0;
    }
    drop(clients);
    let mut connection = database.connect().unwrap();
    assert_eq!(conditions::broken(&mut *connection, &CONDITIONS).unwrap(), None);
    assert_eq!(unaccounted(&mut *connection, &acknowledged, 1).unwrap(), None);
    acknowledged.new_orders.fetch_add(1, Ordering::Relaxed);
    let missing = unaccounted(&mut *connection, &acknowledged, 1).unwrap().unwrap();
    assert!(missing.starts_with("new orders: "), "{missing}");
}

/// New orders, by district, beyond those that were loaded.
pub fn orders_in(connection: &mut dyn Connection) -> HashSet<[i64; 3]> {
    let mut rows = Rows::default();
    connection.query("select o_w_id, o_d_id, o_id from orders where o_id > 3000", &mut rows).unwrap();
    (0..rows.len()).map(|row| [0, 1, 2].map(|column| rows.int(row, column).unwrap())).collect()
}

pub fn kills() -> usize {
    std::env::var("BAREMARK_SERVER_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(1)
}

pub fn recorded() -> Arc<Acknowledged> {
    Arc::new(Acknowledged { orders: Some(Mutex::default()), ..Acknowledged::default() })
}

/// It is killed with its embedded database, or with the server that it has started.
#[test]
#[ignore = "a process of the other tests: takes orders until it is killed"]
fn writes_acknowledged_orders_until_it_is_killed() {
    let folder = std::env::var_os("BAREMARK_TEST_DATABASE").unwrap();
    let word = std::env::var("BAREMARK_TEST_KIND").unwrap();
    let (path, kind) = (Path::new(&folder), Kind::of(&word).unwrap());
    let server = (kind != Kind::Sqlite).then(|| server_of_kept(kind, path));
    let database: Box<dyn Database> = match &server {
        Some(server) => server.database(),
        None => Box::new(Sqlite::new(path.join("database"), Synchronous::Full, 64 << 20)),
    };
    let acknowledged = recorded();
    let mut clients = terminals(&rules(&*database, &acknowledged), if server.is_some() { 4 } else { 2 });
    let mut log = fs::File::create(path.join("log")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| engine::run(&*database, &mut clients, &NAMES, &closed(600.0), &mut || 0, &QUIET));
        loop {
            let orders = std::mem::take(&mut *acknowledged.orders.as_ref().unwrap().lock().unwrap());
            for [w, d, o] in orders {
                writeln!(log, "{w} {d} {o}").unwrap();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Starts a server of this process on the data that are kept in its folder, and writes down where they are now.
fn server_of_kept(kind: Kind, folder: &Path) -> Server {
    let mut server = Server::of_kept(&setup(kind), folder, SECRET).unwrap_or_else(|why| panic!("{why}"));
    fs::rename(folder.join("kept"), server.data()).unwrap();
    fs::write(folder.join("at"), server.data().to_str().unwrap()).unwrap();
    server.restart(&QUIET).unwrap_or_else(|why| panic!("{why}"));
    server
}

pub fn all_are_there(connection: &mut dyn Connection, known: &HashSet<[i64; 3]>, round: usize) {
    assert_eq!(conditions::broken(connection, &CONDITIONS).unwrap(), None, "kill {round}");
    let there = orders_in(connection);
    let lost: Vec<_> = known.iter().filter(|order| !there.contains(*order)).collect();
    assert_eq!(lost, Vec::<&[i64; 3]>::new(), "kill {round}");
}

/// The orders that a process acknowledged, with the database in it or a server below it, until all of it was killed.
pub fn until_killed(kind: Kind, folder: &Path) -> HashSet<[i64; 3]> {
    let log = folder.join("log");
    drop(fs::remove_file(&log));
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(&program)
        .args(["--exact", "orders::writes_acknowledged_orders_until_it_is_killed", "--ignored", "--nocapture"])
        .env("BAREMARK_TEST_DATABASE", folder)
        .env("BAREMARK_TEST_KIND", kind.word())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let lines = || -> HashSet<[i64; 3]> {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let numbers = |line: &str| -> Vec<i64> { line.split(' ').map(|word| word.parse().unwrap()).collect() };
        whole.lines().map(|line| numbers(line).try_into().unwrap()).collect()
    };
    let (mut acknowledged, mut deadline) = (0, Instant::now() + LIMIT);
    while acknowledged < 100 {
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "{acknowledged} orders, and no more");
        std::thread::sleep(Duration::from_millis(10));
        let found = lines().len();
        if found > acknowledged {
            (acknowledged, deadline) = (found, Instant::now() + LIMIT);
        }
    }
    let frozen = freeze(child.id());
    assert_eq!(kind == Kind::Sqlite, frozen == [child.id()], "the processes of {}: {frozen:?}", kind.word());
    Family::of(child.id(), &program, folder).kill(LIMIT).unwrap();
    child.wait().unwrap();
    // PostgreSQL takes a dead process that nobody has waited for yet for one that runs.
    let deadline = Instant::now() + LIMIT;
    while frozen.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
        assert!(Instant::now() < deadline, "a killed process is still there: {frozen:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    lines()
}

/// Stops a process and all below it, so that a kill of them takes none before another one could notice and end in good order.
fn freeze(root: u32) -> Vec<u32> {
    let mut frozen = Vec::new();
    loop {
        let found = process_tree::pids(root).unwrap();
        if found == frozen {
            return frozen;
        }
        found.iter().for_each(|pid| drop(confine::send(pid.cast_signed(), libc::SIGSTOP)));
        frozen = found;
    }
}
