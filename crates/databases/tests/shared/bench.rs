//! What the tests share: databases in folders of their own, and skips that are printed.

use baremark_databases::database::Database;
use baremark_databases::engine::{self, Client, Drive, Load, LoadError};
use baremark_databases::kind::Kind;
use baremark_databases::loading::Loader;
use baremark_databases::order_entry::draw::Constants;
use baremark_databases::order_entry::populate;
use baremark_databases::order_entry::transactions::{Acknowledged, Rules, Terminal};
use baremark_databases::server::{Server, Setup};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The password of all servers.
pub const SECRET: &str = "s3cr3tOfThisTest";

/// Whatever takes longer than this hangs.
pub const LIMIT: Duration = Duration::from_secs(120);

pub static QUIET: AtomicBool = AtomicBool::new(false);

pub fn setup(kind: Kind) -> Setup {
    Setup::durable(kind, 256 << 20, 8)
}

/// The database, started; `None` with a printed reason where its program is not installed.
pub fn start(setup: &Setup, root: &Path) -> Option<Server> {
    if let Err(why) = setup.kind.version() {
        eprintln!("skipped: {why}");
        return None;
    }
    Some(Server::start(setup, root, SECRET, &QUIET).unwrap_or_else(|why| panic!("{why}")))
}

/// Loads over so many connections.
pub fn loader(database: &dyn Database, connections: usize) -> Loader<'_> {
    Loader { database, connections, report: &|_| (), interrupt: &QUIET }
}

/// One warehouse, loaded over two connections, or one where there is one writer.
pub fn populated(server: &Server) -> Box<dyn Database> {
    let database = server.database();
    let connections = if server.address().is_some() { 2 } else { 1 };
    populate::populate(&loader(&*database, connections), 1, 1).unwrap_or_else(|why| panic!("{why}"));
    database
}

pub fn rules(database: &dyn Database, acknowledged: &Arc<Acknowledged>) -> Rules {
    Rules {
        warehouses: 1,
        constants: Constants::of_run(Constants::of_load(1), 5),
        seed: 5,
        paced: false,
        dialect: database.dialect(),
        acknowledged: Arc::clone(acknowledged),
    }
}

pub fn terminals(rules: &Rules, connections: usize) -> Vec<Box<dyn Client>> {
    (0..connections).map(|number| Box::new(Terminal::new(rules, number)) as Box<_>).collect()
}

pub fn closed(seconds: f64) -> Load {
    Load {
        drive: Drive::Closed,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs_f64(seconds),
        ramp_down: Duration::ZERO,
        seed: 1,
        cpus: Vec::new(),
    }
}

/// Runs a load, kills the server in the midst of it, starts it again and ends the load once it goes on. `acknowledged` counts orders.
pub fn killed_under_load(
    server: &mut Server,
    database: &dyn Database,
    clients: &mut [Box<dyn Client>],
    names: &[&str],
    acknowledged: &AtomicU64,
) {
    let (over, load) = (AtomicBool::new(false), closed(600.0));
    let outcome = std::thread::scope(|scope| {
        let thread = scope.spawn(|| engine::run(database, clients, names, &load, &mut || 0, &over));
        let enough = |count: u64| {
            let deadline = Instant::now() + LIMIT;
            let until = acknowledged.load(Ordering::Relaxed) + count;
            while acknowledged.load(Ordering::Relaxed) < until && !thread.is_finished() {
                if Instant::now() >= deadline {
                    over.store(true, Ordering::Release);
                    panic!("no orders are acknowledged");
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        enough(200);
        server.kill();
        server.restart(&QUIET).unwrap_or_else(|why| panic!("{why}"));
        enough(50);
        over.store(true, Ordering::Release);
        thread.join().unwrap()
    });
    assert_eq!(outcome.unwrap_err(), LoadError::Interrupted);
}
