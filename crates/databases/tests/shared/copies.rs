//! A shop on PostgreSQL with a second copy of the database at another site.

use crate::bench::{QUIET, setup, start};
use crate::shop::{SMALL, opened};
use baremark_databases::database::Database;
use baremark_databases::dataset_cache::Kept;
use baremark_databases::kind::Kind;
use baremark_databases::server::{Server, Setup};
use baremark_databases::sites::{Mechanism, Sites};
use std::path::Path;
use std::time::{Duration, Instant};

pub const ROUND_TRIP: Duration = Duration::from_millis(40);
/// The least that a commit waits: the proxy's delay is that of its median, and what it adds itself was measured before.
pub const LEAST: Duration = Duration::from_millis(30);

pub fn replicated(mechanism: Mechanism, round_trip: Option<Duration>) -> Setup {
    Setup { sites: Some(Sites { mechanism, round_trip }), ..setup(Kind::Postgres) }
}

/// A loaded shop as it is kept; `None` where PostgreSQL is not installed.
pub fn kept(root: &Path) -> Option<Kept> {
    let mut server = start(&setup(Kind::Postgres), root)?;
    drop(opened(&server, SMALL));
    server.stop();
    let kept = Kept::open(root, "kept").unwrap();
    kept.put(&server.data()).unwrap();
    Some(kept)
}

pub fn serving(setup: &Setup, kept: &Kept, root: &Path) -> Server {
    let mut server = Server::of_kept(setup, root, "s3cr3tOfThisTest").unwrap_or_else(|why| panic!("{why}"));
    server.replace_data(kept).unwrap_or_else(|why| panic!("{why}"));
    server.restart(&QUIET).unwrap_or_else(|why| panic!("{why}"));
    server
}

/// How long a commit that writes takes: the shortest of `count`, since a busy machine makes each longer.
pub fn commit(database: &dyn Database, count: u32) -> Duration {
    let mut connection = database.connect().unwrap();
    let took = (0..count).map(|_| {
        let began = Instant::now();
        connection.script("update products set price = price + 0 where prod_id = 1").unwrap();
        began.elapsed()
    });
    took.min().unwrap()
}
