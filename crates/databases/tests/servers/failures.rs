//! What goes wrong around a database: each has a clear message, the data stays intact, and the database goes on when the cause is gone.

use crate::bench::{LIMIT, QUIET, closed, setup, start};
use crate::shop::{SMALL, is_intact, opened, shoppers};
use baremark_databases::database::{Class, Connection, Database, Dialect, Failure};
use baremark_databases::dvd_store::orders::{Acknowledged, NAMES};
use baremark_databases::endpoint::Endpoint;
use baremark_databases::engine::{self, Client, Done, LoadError};
use baremark_databases::kind::Kind;
use baremark_databases::login::Login;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SERVERS: [Kind; 2] = [Kind::Postgres, Kind::Mariadb];

#[test]
fn a_storm_of_connections_is_refused_with_its_reason_and_harms_nobody() {
    for kind in SERVERS {
        let root = tempfile::tempdir().unwrap();
        let Some(server) = start(&setup(kind), root.path()) else { continue };
        let (database, acknowledged) = (opened(&server, SMALL), Arc::new(Acknowledged::default()));
        // Eight are the load's and twenty more are spared.
        let mut clients: Vec<_> = (0..15).flat_map(|_| shoppers(&*database, SMALL, &acknowledged)).collect();
        let begun = Instant::now();
        let why = engine::run(&*database, &mut clients, &NAMES, &closed(120.0), &mut || 0, &QUIET).unwrap_err();
        let why = why.to_string().to_lowercase();
        // PostgreSQL has two sentences for it, and one code: the last connections are its superusers'.
        let said = if kind == Kind::Postgres { "(53300)" } else { "too many connections" };
        assert!(why.starts_with("connecting: resource exhausted: ") && why.contains(said), "{why}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{}: it waited for the end of the load", kind.word());
        drop(clients);
        is_intact(&*database, &Acknowledged::default(), kind.word());
    }
}

fn with_password(endpoint: Endpoint, password: &str) -> Endpoint {
    let password = password.to_owned();
    match endpoint {
        Endpoint::Postgres(login) => Endpoint::Postgres(Login { password, ..login }),
        Endpoint::Mariadb(login) => Endpoint::Mariadb(Login { password, ..login }),
        file @ Endpoint::Sqlite { .. } => file,
    }
}

#[test]
fn a_wrong_password_ends_a_load_at_once_with_the_servers_words() {
    for kind in SERVERS {
        let root = tempfile::tempdir().unwrap();
        let Some(server) = start(&setup(kind), root.path()) else { continue };
        let database = with_password(server.endpoint(), "not-it").open();
        let mut clients = shoppers(&*database, SMALL, &Arc::default());
        let begun = Instant::now();
        let why = engine::run(&*database, &mut clients, &NAMES, &closed(120.0), &mut || 0, &QUIET).unwrap_err();
        let why = why.to_string();
        let said = if kind == Kind::Postgres { "password authentication failed" } else { "Access denied" };
        assert!(why.starts_with("connecting: error: ") && why.contains(said), "{why}");
        assert!(!why.contains("not-it") && begun.elapsed() < Duration::from_secs(60), "{why}");
        server.database().connect().unwrap_or_else(|why| panic!("{}: {why}", kind.word()));
    }
}

/// Data of another version than the server's: it refuses it, and leaves it as it is.
#[test]
fn data_of_another_version_is_refused_with_the_servers_words() {
    for (kind, of_another, words) in [
        (
            Kind::Postgres,
            postgres_of_another_version as fn(&Path) -> (PathBuf, Vec<u8>),
            ["incompatible", "version 14"],
        ),
        (Kind::Mariadb, mariadb_of_another_version, ["Unsupported redo log format", "MariaDB 99.1.0"]),
    ] {
        let root = tempfile::tempdir().unwrap();
        let Some(mut server) = start(&setup(kind), root.path()) else { continue };
        let (database, acknowledged) = (opened(&server, SMALL), Acknowledged::default());
        server.stop();
        let (path, other) = of_another(&server.data());
        let own = beginning(&path, other.len());
        begin_with(&path, &other);
        let why = server.restart(&QUIET).map(drop).unwrap_err().to_string();
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
        assert_eq!(beginning(&path, other.len()), other, "{}: it changed what it refused", kind.word());
        begin_with(&path, &own);
        server.restart(&QUIET).unwrap_or_else(|why| panic!("{why}"));
        is_intact(&*database, &acknowledged, kind.word());
    }
}

fn beginning(path: &Path, bytes: usize) -> Vec<u8> {
    let mut found = vec![0; bytes];
    File::open(path).unwrap().read_exact_at(&mut found, 0).unwrap();
    found
}

/// Its owner and what follows stay.
fn begin_with(path: &Path, bytes: &[u8]) {
    File::options().write(true).open(path).unwrap().write_all_at(bytes, 0).unwrap();
}

/// The file that has the version of the data, and how it begins in data of another.
fn postgres_of_another_version(data: &Path) -> (PathBuf, Vec<u8>) {
    (data.join("PG_VERSION"), b"14\n".to_vec())
}

/// The header of the log has 512 bytes: the format, at byte 16 the version that has made it, and at the end a sum.
fn mariadb_of_another_version(data: &Path) -> (PathBuf, Vec<u8>) {
    let path = data.join("ib_logfile0");
    let mut header = beginning(&path, 512);
    assert_eq!(header[508..], crc32c(&header[..508]).to_be_bytes(), "the log has another header");
    header[..4].copy_from_slice(b"Next");
    header[16..48].fill(0);
    header[16..30].copy_from_slice(b"MariaDB 99.1.0");
    let sum = crc32c(&header[..508]).to_be_bytes();
    header[508..].copy_from_slice(&sum);
    (path, header)
}

/// The sum of Castagnoli, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let bit = |sum: u32, _| if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 };
    !bytes.iter().fold(u32::MAX, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), bit))
}

/// A database that counts the connections that were opened.
struct Counted<'d> {
    database: &'d dyn Database,
    opened: AtomicU64,
}

impl Database for Counted<'_> {
    fn dialect(&self) -> Dialect {
        self.database.dialect()
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        let connection = self.database.connect()?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(connection)
    }
}

/// A client that counts the transactions that ended with their connection.
struct Losing<'l> {
    client: Box<dyn Client>,
    lost: &'l AtomicU64,
}

impl Client for Losing<'_> {
    fn statements(&self) -> Vec<String> {
        self.client.statements()
    }

    fn draw(&mut self) -> usize {
        self.client.draw()
    }

    fn before(&self) -> Duration {
        self.client.before()
    }

    fn after(&mut self) -> Duration {
        self.client.after()
    }

    fn run(&mut self, connection: &mut dyn Connection) -> Result<Done, Failure> {
        let done = self.client.run(connection);
        if done.as_ref().is_err_and(|why| matches!(why.class, Class::Lost | Class::Ambiguous)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        done
    }

    fn ambiguous(&mut self) {
        self.client.ambiguous();
    }

    fn steps(&self) -> &[(usize, u64)] {
        self.client.steps()
    }
}

/// Stopped in good order under load and started again: connections are opened again, and everything acknowledged is there. The load
/// ends once all that was seen, however long the server takes.
#[test]
fn a_server_that_is_restarted_in_mid_run_goes_on_and_loses_nothing() {
    for kind in SERVERS {
        let root = tempfile::tempdir().unwrap();
        let Some(mut server) = start(&setup(kind), root.path()) else { continue };
        let (database, acknowledged) = (opened(&server, SMALL), Arc::new(Acknowledged::default()));
        let (counted, lost) = (Counted { database: &*database, opened: AtomicU64::new(0) }, AtomicU64::new(0));
        let clients = shoppers(&*database, SMALL, &acknowledged).into_iter();
        let mut clients: Vec<Box<dyn Client + '_>> =
            clients.map(|client| Box::new(Losing { client, lost: &lost }) as Box<_>).collect();
        let (over, load) = (AtomicBool::new(false), closed(600.0));
        let outcome = std::thread::scope(|scope| {
            let thread = scope.spawn(|| engine::run(&counted, &mut clients, &NAMES, &load, &mut || 0, &over));
            let all_of = |orders: u64, connections: u64| {
                let deadline = Instant::now() + LIMIT;
                let seen = || (acknowledged.orders.load(Ordering::Relaxed), counted.opened.load(Ordering::Relaxed));
                while (seen().0 < orders || seen().1 < connections) && !thread.is_finished() {
                    if Instant::now() >= deadline {
                        over.store(true, Ordering::Release);
                        panic!("{}: orders and connections are {:?}", kind.word(), seen());
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
            };
            all_of(20, 4);
            server.stop();
            let before = acknowledged.orders.load(Ordering::Relaxed);
            server.restart(&QUIET).unwrap_or_else(|why| {
                over.store(true, Ordering::Release);
                panic!("{why}")
            });
            all_of(before + 20, 8);
            // A failure has ended it before, and is told.
            if !thread.is_finished() {
                over.store(true, Ordering::Release);
            }
            thread.join().unwrap()
        });
        drop(clients);
        assert_eq!(outcome.unwrap_err(), LoadError::Interrupted, "{}", kind.word());
        assert!(lost.load(Ordering::Relaxed) >= 4, "{}: {lost:?} of 4 connections were lost", kind.word());
        is_intact(&*database, &acknowledged, kind.word());
    }
}
