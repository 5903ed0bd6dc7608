//! A second copy of the database: commits wait for it, it has what was acknowledged, and nothing of it is left.

use crate::bench::{QUIET, closed, setup, start};
use crate::dvd_store::{SMALL, opened, shoppers, violated};
use baremark_databases::database::{Database, Rows};
use baremark_databases::dvd_store::orders::{Acknowledged, NAMES, unaccounted};
use baremark_databases::engine;
use baremark_databases::kept::Kept;
use baremark_databases::kind::Kind;
use baremark_databases::server::{Server, Setup};
use baremark_databases::sites::{Mechanism, Sites};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUND_TRIP: Duration = Duration::from_millis(40);
/// The least that a commit waits: the proxy's delay is that of its median, and what it adds itself was measured before.
const LEAST: Duration = Duration::from_millis(30);

fn replicated(mechanism: Mechanism, round_trip: Option<Duration>) -> Setup {
    Setup { sites: Some(Sites { mechanism, round_trip }), ..setup(Kind::Postgres) }
}

/// A loaded shop as it is kept; `None` where PostgreSQL is not installed.
fn kept(root: &Path) -> Option<Kept> {
    let mut server = start(&setup(Kind::Postgres), root)?;
    drop(opened(&server, SMALL));
    server.stop();
    let kept = Kept::open(root, "kept").unwrap();
    kept.put(&server.data()).unwrap();
    Some(kept)
}

fn serving(setup: &Setup, kept: &Kept, root: &Path) -> Server {
    let mut server = Server::of_kept(setup, root, "s3cr3tOfThisTest").unwrap_or_else(|why| panic!("{why}"));
    server.replace_data(kept).unwrap_or_else(|why| panic!("{why}"));
    server.restart(&QUIET).unwrap_or_else(|why| panic!("{why}"));
    server
}

/// How long a commit that writes takes: the shortest of `count`, since a busy machine makes each longer.
fn commit(database: &dyn Database, count: u32) -> Duration {
    let mut connection = database.connect().unwrap();
    let took = (0..count).map(|_| {
        let began = Instant::now();
        connection.script("update products set price = price + 0 where prod_id = 1").unwrap();
        began.elapsed()
    });
    took.min().unwrap()
}

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
    let took = commit(&*server.database(), 50);
    assert!(took < LEAST && server.standby().is_none(), "without a second copy: {took:?}");
}

#[test]
fn a_commit_waits_for_both_copies_of_a_disk() {
    let root = tempfile::tempdir().unwrap();
    let Some(kept) = kept(root.path()) else { return };
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() || !baremark_sys::confine::is_root() {
        eprintln!("skipped: no disk can be mounted; it takes /dev/fuse and the superuser");
        return;
    }
    for (round_trip, count) in [(None, 50), (Some(ROUND_TRIP), 5)] {
        let mut server = serving(&replicated(Mechanism::Disk, round_trip), &kept, root.path());
        let took = commit(&*server.database(), count);
        assert_eq!(took >= LEAST, round_trip.is_some(), "{round_trip:?}: {took:?}");
        server.stop();
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains("baremark-replicated-disk"), "a disk is mounted for everybody");
}
